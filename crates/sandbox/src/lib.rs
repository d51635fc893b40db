//! Runs one program, confined.
//!
//! A [`Spec`] says what a program sees and may use; a [`Sandbox`] (one keeper process, see
//! `keeper`) makes the cell and runs it; [`Running`] is the program while it lives. This crate
//! knows no language, no MCP and no HTTP, and it is the only one with `unsafe`.

// DRAFT of the public interface, agreed between the crates' authors. The sandbox author owns it:
// the bodies are to be written, modules split off, fields added; the names below stay.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

/// Everything about one run: program, view, limits, descriptors. Paths in it are as seen inside.
#[derive(Debug)]
pub struct Spec {
    /// Absolute path, inside, of the program.
    pub program: PathBuf,
    /// Arguments without the program's own name.
    pub args: Vec<OsString>,
    /// The whole environment; nothing is inherited.
    pub env: Vec<(OsString, OsString)>,
    /// Current directory, inside.
    pub cwd: PathBuf,
    /// What of the host is seen besides the system directories, in order.
    pub mounts: Vec<Mount>,
    /// Bounds of the whole process tree.
    pub limits: Limits,
    /// Descriptors given to the program besides 0, 1, 2: (number inside, descriptor).
    pub fds: Vec<(i32, OwnedFd)>,
    /// Where standard output goes.
    pub stdout: Output,
    /// Where standard error goes.
    pub stderr: Output,
}

/// One piece of the host that is seen inside.
#[derive(Debug)]
pub struct Mount {
    /// What is mounted.
    pub source: Source,
    /// Absolute path inside.
    pub target: PathBuf,
    /// Whether it can be written.
    pub access: Access,
}

/// Where a mount comes from.
#[derive(Debug)]
pub enum Source {
    /// A host path of the operator's (an interpreter's prefix, our runtime files).
    Path(PathBuf),
    /// A directory or file opened by the caller (`O_PATH`), for places that a script could
    /// have changed: no path is looked up again.
    Fd(OwnedFd),
}

/// Whether a mount can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Recursively read-only.
    ReadOnly,
    /// Read-write; files keep the workspace owner's identity on the host.
    ReadWrite,
}

/// Bounds of one run, over its whole process tree.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Wall time from start to kill.
    pub wall: Duration,
    /// Memory of the tree in bytes, `/tmp` included.
    pub memory: u64,
    /// Processes and threads at once.
    pub processes: u32,
    /// CPU as a share of one core in percent (100 = one core), if bounded.
    pub cpu_percent: Option<u32>,
    /// Size of the private `/tmp` in bytes.
    pub tmp_size: u64,
    /// Inodes of the private `/tmp`.
    pub tmp_inodes: u64,
    /// Largest file that can be written, in bytes.
    pub file_size: u64,
    /// Open files per process.
    pub open_files: u64,
}

/// Where an output stream goes. It is always drained, so a flood never blocks the program.
pub enum Output {
    /// Thrown away.
    Null,
    /// Kept in memory: the first `head` and the last `tail` bytes.
    Capture {
        /// Bytes kept from the start.
        head: usize,
        /// Bytes kept from the end.
        tail: usize,
    },
    /// Handed on in pieces as they come; must not block. Given no more than `limit` bytes.
    Sink {
        /// Called with each piece.
        sink: Box<dyn FnMut(&[u8]) + Send>,
        /// Bytes after which the rest is only counted.
        limit: u64,
    },
}

/// What is left of an output stream after the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// First bytes.
    pub head: Vec<u8>,
    /// Last bytes; empty when all of it is in `head`.
    pub tail: Vec<u8>,
    /// Bytes written in all.
    pub total: u64,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The program ended by itself.
    Exited(i32),
    /// A signal ended the program.
    Signaled(i32),
    /// The wall limit was reached; the whole tree was killed.
    TimedOut,
    /// [`Running::kill`] or a drop ended it.
    Cancelled,
    /// The memory limit was reached.
    MemoryLimit,
    /// The run failed after it had met the process limit.
    ProcessLimit,
}

/// What a run used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// From start to end.
    pub wall: Duration,
    /// CPU time of the tree.
    pub cpu: Duration,
    /// Highest memory of the tree in bytes, where it can be known.
    pub peak_memory: u64,
}

/// A run that is over.
#[derive(Clone, Debug)]
pub struct Ended {
    /// How it ended.
    pub ending: Ending,
    /// Standard output as far as captured.
    pub stdout: Captured,
    /// Standard error as far as captured.
    pub stderr: Captured,
    /// What it used.
    pub usage: Usage,
}

/// What this host gives, by layer. `doctor`, `/healthz` and audit rows show it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Level {
    /// One word for audit rows: `full` or `weaker`.
    pub name: String,
    /// Every layer with its state.
    pub layers: Vec<Layer>,
}

/// One layer of isolation on this host.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Layer {
    /// Its name: `namespaces`, `seccomp`, `landlock`, `cgroup memory`, …
    pub name: String,
    /// Whether it is in force.
    pub works: bool,
    /// What was found.
    pub found: String,
    /// What the operator can do, where something is missing.
    pub hint: Option<String>,
}

/// Why a sandbox or a run could not be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This host cannot isolate; `run_script` is not to be offered.
    #[error("this host cannot confine programs: {what}; {hint}")]
    Unavailable {
        /// What is missing.
        what: String,
        /// What to do about it.
        hint: String,
    },
    /// The spec cannot be carried out (a mount's source is absent, a bad target …).
    #[error("{0}")]
    BadSpec(String),
    /// The keeper is gone or does not answer.
    #[error("the sandbox keeper is gone: {0}")]
    KeeperLost(String),
}

/// How a [`Sandbox`] is started.
#[derive(Clone, Debug, Default)]
pub struct Options {}

/// The way to run programs confined. Cheap to clone; the keeper ends with the last clone.
#[derive(Clone, Debug)]
pub struct Sandbox {}

impl Sandbox {
    /// Starts the keeper and runs the self-test.
    pub async fn start(_options: Options) -> Result<Self, Error> {
        unimplemented!()
    }

    /// What this host gives.
    pub fn level(&self) -> &Level {
        unimplemented!()
    }

    /// Starts `spec` in a fresh cell. When this returns, the program runs (or failed to be executed).
    pub async fn spawn(&self, _spec: Spec) -> Result<Running, Error> {
        unimplemented!()
    }
}

/// A program that runs. Dropping it kills the whole tree.
#[derive(Debug)]
pub struct Running {}

impl Running {
    /// Kills the whole tree; `wait` then says [`Ending::Cancelled`].
    pub fn kill(&self) {
        unimplemented!()
    }

    /// Waits for the end. Cancel-safe.
    pub async fn wait(&mut self) -> Ended {
        unimplemented!()
    }
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Output")
    }
}

/// Absolute host paths that a run needs to see for the interpreter at `program`: its real path
/// and prefix. Kept here because what may be shown of a home directory is a matter of confinement.
pub fn program_prefixes(_program: &std::path::Path) -> Result<Vec<PathBuf>, Error> {
    unimplemented!()
}

//! What a caller asks for: one program, what it sees, what it may use.
//!
//! Plain data. Nothing is checked or looked up here; `plan` does both.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use crate::limits::Limits;

/// Everything about one run: program, view, limits, descriptors. Paths in it are as seen inside.
#[derive(Debug)]
#[non_exhaustive]
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
    /// Of a program of ours that is started ahead and waits for what it is to do: its wall time
    /// begins with [`Running::begin`](crate::Running::begin). It is ended if that does not come
    /// within this time.
    pub waits: Option<Duration>,
    /// Layers that are not applied, for tests that show what each layer stops.
    #[cfg(feature = "leave-out")]
    pub leave_out: Vec<LeftOut>,
}

impl Spec {
    /// A spec of `program` with no arguments, no environment, nothing of the host besides the
    /// system directories, the default limits, and outputs thrown away.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: PathBuf::from("/tmp"),
            mounts: Vec::new(),
            limits: Limits::default(),
            fds: Vec::new(),
            stdout: Output::Null,
            stderr: Output::Null,
            waits: None,
            #[cfg(feature = "leave-out")]
            leave_out: Vec::new(),
        }
    }
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
    /// have changed: what is mounted is this very file, or nothing.
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

/// Where an output stream goes. It is always drained, so a flood never blocks the program.
pub enum Output {
    /// Thrown away, uncounted.
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
        sink: Sink,
        /// Bytes after which the rest is only counted.
        limit: u64,
    },
}

/// Takes the pieces of an output stream.
pub type Sink = Box<dyn FnMut(&[u8]) + Send>;

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Output")
    }
}

/// A layer that a test leaves out of one run (`Spec::leave_out`).
#[cfg(feature = "leave-out")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LeftOut {
    /// No seccomp program.
    Seccomp,
    /// No Landlock ruleset.
    Landlock,
    /// The program stays uid 0 of the user namespace that owns the cell's other namespaces,
    /// with every capability in it.
    Capabilities,
    /// `no_new_privs` is not set.
    NoNewPrivs,
    /// No user namespace of the cell's own.
    UserNamespace,
    /// The keeper's process ids are seen.
    PidNamespace,
    /// The host's root is the root.
    MountView,
    /// Nothing is made read-only.
    ReadOnly,
    /// The host's network namespace.
    NetNamespace,
    /// The host's IPC namespace.
    IpcNamespace,
    /// The host's UTS namespace.
    UtsNamespace,
    /// The host's cgroup namespace.
    CgroupNamespace,
    /// No memory bound by a cgroup.
    CgroupMemory,
    /// No process bound by a cgroup.
    CgroupPids,
    /// No resource limits.
    Rlimits,
    /// Nothing of `/proc` is masked and it can be written.
    ProcMasks,
    /// The host's `/dev`.
    MinimalDev,
    /// Descriptors that were not named stay open.
    CloseFds,
    /// The server's own environment is inherited.
    CleanEnvironment,
    /// Set-user-id bits and devices are honoured.
    Nosuid,
    /// No session of its own.
    Setsid,
    /// No wall limit.
    Wall,
    /// Output is not capped.
    OutputCap,
    /// `/tmp` has no bounds.
    TmpLimits,
    /// Where no cgroup can be had: the tree is not watched.
    Watch,
    /// No share of CPU bound by a cgroup.
    CgroupCpu,
}

//! Runs one script and serves its calls.
//!
//! The script talks to a [`Host`] over two pipes (fd 3 and 4, one JSON a line); what a call means
//! is the host's matter. This crate knows languages and the channel, but neither MCP nor HTTP.

// DRAFT of the public interface, agreed between the crates' authors. The script author owns it:
// bodies are to be written, modules split off, fields added; the names below stay.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

/// Whom a script's calls reach. `gateway` implements it; [`NoTools`] has nothing to call.
#[async_trait::async_trait]
pub trait Host: Send + Sync + 'static {
    /// Carries out one call of the script. Budget and concurrency are already seen to.
    async fn call(&self, call: Call) -> Result<Reply, ToolError>;

    /// The script reported progress or a call ended; must not block.
    fn progress(&self, progress: Progress);
}

/// One call that a script makes.
#[derive(Debug)]
pub struct Call {
    /// Rising from 1 within the script, in the order they were asked for.
    pub number: u64,
    /// The tool's name as the script wrote it.
    pub tool: String,
    /// The arguments, an object, as the script sent it.
    pub args: Box<RawValue>,
    /// Cancelled when the script ends.
    pub cancel: CancellationToken,
}

/// What a tool answered.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The text parts, joined by newlines.
    pub text: String,
    /// Structured content, where the tool gave some.
    pub structured: Option<Arc<RawValue>>,
    /// All content parts as the tool sent them (a JSON array), for `call_raw`, where there is more than text.
    pub content: Option<Arc<RawValue>>,
    /// Whether the tool reported an error; `call` raises then.
    pub is_error: bool,
}

/// Why a call did not give a result. The script sees it as its own `ToolError`.
#[derive(Clone, Debug, Serialize, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    /// Which kind.
    pub kind: Kind,
    /// For the script's author: what is wrong and what would be right.
    pub message: String,
    /// Whether the same call may work later.
    pub retryable: bool,
}

/// Kinds of failed calls (`contract.md`, run_script).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// No such tool, or it is not offered.
    UnknownTool,
    /// The arguments do not fit the tool's schema.
    InvalidArguments,
    /// A write tool that the script did not list.
    NotListed,
    /// Must be called directly and confirmed each time.
    Destructive,
    /// Can only be run as a task.
    TaskOnly,
    /// Refused by policy or by a person.
    Denied,
    /// The script's budget of calls is used up.
    Limit,
    /// The tool did not answer in time.
    Timeout,
    /// The script is being ended.
    Cancelled,
    /// The server could not be reached or broke the protocol.
    Upstream,
    /// The tool itself reported an error.
    Tool,
}

impl Kind {
    /// Whether the call was refused before it reached a tool, so that it does not use up the budget.
    pub fn is_refusal(self) -> bool {
        !matches!(self, Self::Timeout | Self::Cancelled | Self::Upstream | Self::Tool)
    }
}

/// How far a script is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Calls that ended.
    pub calls: u64,
    /// Of them, failed.
    pub failed: u64,
    /// What the script last reported by `progress(done, total, message)`.
    pub done: Option<f64>,
    /// See `done`.
    pub total: Option<f64>,
    /// See `done`.
    pub message: Option<String>,
}

/// A [`Host`] without any tools.
#[derive(Debug)]
pub struct NoTools;

/// An interpreter that was found and asked for its version, prefixes and search path.
#[derive(Clone, Debug)]
pub struct Python {
    /// The real path of the executable, never a version manager's shim.
    pub executable: PathBuf,
    /// (major, minor, micro)
    pub version: (u32, u32, u32),
    /// Host directories that must be seen inside, read-only.
    pub prefixes: Vec<PathBuf>,
}

impl Python {
    /// Finds the interpreter: `"auto"` takes the newest CPython ≥ 3.10, anything else is a path
    /// (a virtual environment's `bin/python` keeps its packages).
    pub async fn find(_setting: &str) -> Result<Self, Error> {
        unimplemented!()
    }
}

/// The engine: a sandbox, an interpreter, and the runtime files written below the data directory.
#[derive(Clone, Debug)]
pub struct Engine {}

impl Engine {
    /// Writes `<data_dir>/script-runtime/` and keeps what runs need.
    pub fn new(
        _sandbox: sandbox::Sandbox,
        _python: Python,
        _data_dir: &std::path::Path,
    ) -> Result<Self, Error> {
        unimplemented!()
    }

    /// Parses `code` with the very interpreter that would run it, confined. Names the first syntax
    /// error, or every call with a literal tool name.
    pub async fn check(&self, _code: &str) -> Result<Checked, Error> {
        unimplemented!()
    }

    /// Runs `job` to its end. `cancel` kills the whole tree.
    pub async fn run(
        &self,
        _job: Job,
        _host: Arc<dyn Host>,
        _cancel: CancellationToken,
    ) -> Result<Finished, Error> {
        unimplemented!()
    }
}

/// What [`Engine::check`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checked {
    /// The code parses; calls of `agent_tools` functions whose tool name is a literal.
    Parses {
        /// (tool name, line), in order.
        calls: Vec<(String, u32)>,
    },
    /// It does not.
    SyntaxError {
        /// Line, from 1.
        line: u32,
        /// The interpreter's own words with the offending line.
        message: String,
    },
}

/// One script to run.
pub struct Job {
    /// The script.
    pub code: String,
    /// The session's workspace, opened by the caller; seen at `/workspace` and the current directory.
    pub workspace: OwnedFd,
    /// Whether the script may write there.
    pub access: sandbox::Access,
    /// `.agent` of the workspace, opened by the caller; laid over it read-only.
    pub records: Option<OwnedFd>,
    /// Bounds.
    pub limits: Limits,
    /// Called with everything the script prints on standard output, as it comes; must not block.
    pub stdout: Box<dyn FnMut(&[u8]) + Send>,
    /// The same for standard error.
    pub stderr: Box<dyn FnMut(&[u8]) + Send>,
}

/// Bounds of a script.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Calls in all that reached a tool.
    pub max_calls: u64,
    /// Calls at once, 1–64.
    pub concurrency: usize,
    /// Wall time.
    pub timeout: Duration,
    /// Memory in MB on top of the interpreter's own.
    pub memory_mb: u64,
}

/// A script that is over.
#[derive(Clone, Debug)]
pub struct Finished {
    /// How it ended.
    pub ending: Ending,
    /// Calls that reached a tool.
    pub calls: u64,
    /// Of them and of the refused ones, failed.
    pub failed: u64,
    /// Calls refused before they reached a tool.
    pub refused: u64,
    /// Exit code, where there is one.
    pub exit_code: Option<i32>,
    /// What it used.
    pub usage: sandbox::Usage,
}

/// How a script ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It ran to its end.
    Completed,
    /// It raised, or exited with a code other than 0; the last frames of the traceback in the
    /// script's own line numbers.
    Failed {
        /// See above; empty for a bare exit code.
        traceback: String,
    },
    /// The time limit was reached.
    TimedOut,
    /// The memory limit was reached.
    MemoryLimit,
    /// The process limit was reached.
    ProcessLimit,
    /// Cancelled from outside.
    Cancelled,
    /// A signal ended the interpreter.
    Signaled(i32),
}

/// Why a script could not be run at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No usable interpreter.
    #[error("{0}")]
    NoPython(String),
    /// The sandbox refused or is gone.
    #[error(transparent)]
    Sandbox(#[from] sandbox::Error),
    /// The runtime files or pipes could not be made.
    #[error("{0}")]
    Io(String),
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("limits", &self.limits).finish_non_exhaustive()
    }
}

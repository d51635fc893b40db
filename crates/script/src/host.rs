//! What a script's calls reach: the one way up, from this crate to whoever runs scripts.

use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

/// Whom a script's calls reach. `gateway` implements it; [`NoTools`] has nothing to call.
#[async_trait::async_trait]
pub trait Host: Send + Sync + 'static {
    /// Carries out one call of the script. Budget and concurrency are already seen to.
    ///
    /// All calls of a script are polled by one task, so that a quick one costs no switch of
    /// threads; work that blocks belongs elsewhere. When the
    /// script ends first, `cancel` of the [`Call`] fires, and the future is dropped if it has not
    /// ended within two seconds.
    async fn call(&self, call: Call) -> Result<Reply, ToolError>;

    /// The script reported progress or calls ended; must not block. Comes at most ten times a
    /// second, and once more with the last state at the end.
    fn progress(&self, progress: Progress);
}

/// One call that a script makes.
#[derive(Debug)]
pub struct Call {
    /// Rising from 1 within the script, in the order they were asked for. A call that is refused
    /// before it gets to the host (over the budget, arguments that are no object) has none.
    pub number: u64,
    /// The tool's name as the script wrote it.
    pub tool: String,
    /// The arguments, an object, as the script sent it; nested at most 100 deep.
    pub args: Box<RawValue>,
    /// Cancelled when the script ends or no longer waits for the reply.
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

impl ToolError {
    /// An error that the same call would meet again.
    pub(crate) fn lasting(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retryable: false }
    }
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
    /// See `done`; at most 500 characters.
    pub message: Option<String>,
}

/// A [`Host`] without any tools.
#[derive(Debug)]
pub struct NoTools;

#[async_trait::async_trait]
impl Host for NoTools {
    async fn call(&self, call: Call) -> Result<Reply, ToolError> {
        Err(ToolError::lasting(
            Kind::UnknownTool,
            format!("there is no tool {:?}: code that runs here has no tools to call", call.tool),
        ))
    }

    fn progress(&self, _progress: Progress) {}
}

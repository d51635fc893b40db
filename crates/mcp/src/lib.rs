//! MCP messages and transports of both protocol eras; no policy.
//!
//! Inside, everything has the 2026-07-28 form; older revisions are adapters at the edge. What only
//! passes through stays [`RawValue`], so unknown fields and key order survive.

// DRAFT of the public interface, agreed between the crates' authors. The mcp author owns it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Where a server is.
#[derive(Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A program that speaks over its standard input and output.
    Stdio {
        /// Program, looked up in `PATH`.
        command: String,
        /// Arguments.
        args: Vec<String>,
        /// Variables added to the small inherited set (PATH, HOME, LANG …).
        env: BTreeMap<String, String>,
        /// Current directory.
        cwd: Option<PathBuf>,
    },
    /// A streamable HTTP endpoint.
    Http {
        /// URL.
        url: String,
        /// Headers sent with every request (secrets: never shown by `Debug` or errors).
        headers: BTreeMap<String, String>,
    },
}

/// Which protocol revision was agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision(pub String);

/// One live connection to a server. It ends with its transport; whoever supervises makes a new one.
#[derive(Clone, Debug)]
pub struct Client {}

impl Client {
    /// Connects and agrees on a revision: `server/discover` first, `initialize` where that is
    /// unknown; a stdio server that dies of the probe is started again for `initialize`.
    pub async fn connect(
        _endpoint: &Endpoint,
        _timeout: Duration,
        _events: mpsc::UnboundedSender<Event>,
    ) -> Result<Self, Error> {
        unimplemented!()
    }

    /// All tools, every page, raw.
    pub async fn list_tools(&self) -> Result<Vec<Tool>, Error> {
        unimplemented!()
    }

    /// Calls a tool.
    pub async fn call_tool(&self, _call: ToolCall) -> Result<CallResult, Error> {
        unimplemented!()
    }

    /// Resolves when the connection is over, with the reason.
    pub async fn closed(&self) -> String {
        unimplemented!()
    }

    /// Ends the connection; a stdio server's whole process group is ended.
    pub async fn close(&self) {
        unimplemented!()
    }
}

/// What a server says on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// `notifications/tools/list_changed`, in either era's form.
    ToolsChanged,
    /// A line for the log (stderr of a stdio server, noise on its stdout).
    Log(String),
}

/// A tool as its server defines it.
#[derive(Clone, Debug)]
pub struct Tool {
    /// The server's own name for it.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// JSON Schema of the arguments.
    pub input_schema: Box<RawValue>,
    /// Hints; `None` where the server says nothing.
    pub annotations: Annotations,
    /// `execution.taskSupport`.
    pub task_support: TaskSupport,
    /// The whole definition as it was sent.
    pub raw: Box<RawValue>,
}

/// Annotations that mean something to policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    /// `readOnlyHint`.
    pub read_only: Option<bool>,
    /// `destructiveHint`.
    pub destructive: Option<bool>,
    /// `idempotentHint`.
    pub idempotent: Option<bool>,
    /// `openWorldHint`.
    pub open_world: Option<bool>,
}

/// Whether a tool may, must or must not be run as a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskSupport {
    /// Only as a plain call.
    #[default]
    Forbidden,
    /// Either way.
    Optional,
    /// Only as a task.
    Required,
}

/// One call of a tool.
#[derive(Debug)]
pub struct ToolCall {
    /// The server's own name for the tool.
    pub name: String,
    /// Arguments, an object.
    pub arguments: Box<RawValue>,
    /// Ends the call, here and at the server.
    pub cancel: CancellationToken,
    /// Longest silence and longest time in all.
    pub timeout: Duration,
    /// Where progress goes; a token is sent only if this is set.
    pub progress: Option<mpsc::UnboundedSender<Progress>>,
}

/// A progress notification.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Rising.
    pub progress: f64,
    /// Where it ends, if known.
    pub total: Option<f64>,
    /// For people.
    pub message: Option<String>,
}

/// What a tool answered.
#[derive(Clone, Debug)]
pub struct CallResult {
    /// The text parts, joined by newlines.
    pub text: String,
    /// `structuredContent`.
    pub structured: Option<Arc<RawValue>>,
    /// The `content` array as it was sent.
    pub content: Arc<RawValue>,
    /// Whether there is more than text in `content`.
    pub has_media: bool,
    /// `isError`.
    pub is_error: bool,
    /// The whole result object as it was sent.
    pub raw: Arc<RawValue>,
}

/// Why a request gave no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server could not be started or reached.
    #[error("{0}")]
    Connect(String),
    /// The connection ended before the answer: whether the call took effect is unknown.
    #[error("the connection ended before the answer: {0}")]
    Lost(String),
    /// The server answered with an error object.
    #[error("{message} ({code})")]
    Rpc {
        /// JSON-RPC code.
        code: i64,
        /// The server's words.
        message: String,
        /// `data`, as it was sent.
        data: Option<Box<RawValue>>,
    },
    /// The server broke the protocol.
    #[error("the server broke the protocol: {0}")]
    Protocol(String),
    /// No answer in time; the server was told to stop.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// Cancelled by the caller; the server was told.
    #[error("cancelled")]
    Cancelled,
    /// The server wants input from a person (elicitation, sampling), which cannot be given here.
    #[error("the server asks for input that cannot be given here: {0}")]
    InputRequired(String),
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stdio { command, .. } => write!(f, "Stdio({command})"),
            Self::Http { url, .. } => write!(f, "Http({url})"),
        }
    }
}

//! Where tools come from: one implementation of [`Source`] per kind, and our own tools.
//!
//! A source says what it offers and carries out calls; it decides about none of them. Whatever it
//! is told to do has been granted by the road of a call before.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::{broadcast, mpsc, watch};
use tokio_util::sync::CancellationToken;

pub mod upstream;

pub(crate) mod background;
pub(crate) mod lookup;
pub(crate) mod own;
pub(crate) mod run_script;
pub(crate) mod tool;

/// A source of tools.
#[async_trait::async_trait]
pub trait Source: Send + Sync + std::fmt::Debug + 'static {
    /// The name before `__`.
    fn name(&self) -> &str;

    /// What it offers now; never waits. While a server is down, the tools it had stay listed.
    fn snapshot(&self) -> Arc<Snapshot>;

    /// Told whenever the snapshot changes.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Waits, but not for long, until the snapshot holds every change that the source has
    /// announced; whether it does. A decision about a call is made on what the tool is now.
    async fn settled(&self) -> bool {
        true
    }

    /// Whether the snapshot's tools are what the source itself has said since the start of this
    /// process, and not what is remembered of the last one. Nothing is called by what is remembered.
    fn confirmed(&self) -> bool {
        true
    }

    /// What of its own list could not be used, and why; in words for people, not yet made safe to
    /// be shown.
    fn left_out(&self) -> Arc<Vec<String>> {
        Arc::default()
    }

    /// Carries out a call that was decided to be allowed.
    async fn call(&self, call: SourceCall) -> Result<mcp::CallResult, SourceError>;

    /// What it offers besides tools; never waits, and is told of by [`Source::changes`] too.
    fn extras(&self) -> Arc<Extras> {
        Arc::default()
    }

    /// Carries out a request for something besides tools.
    async fn pass(&self, _request: SourceRequest) -> Result<Box<RawValue>, PassError> {
        Err(SourceError::Failed("it has nothing besides tools".to_owned()).into())
    }

    /// Has [`Source::updates`] told of a resource's changes, until as many [`Source::unwatch`].
    async fn watch(&self, _uri: &str) -> Result<(), PassError> {
        Err(SourceError::Failed("it does not tell changes of resources".to_owned()).into())
    }

    /// See [`Source::watch`]; never waits.
    fn unwatch(&self, _uri: &str) {}

    /// Told the URI of each watched resource that changes.
    fn updates(&self) -> Option<broadcast::Receiver<Arc<str>>> {
        None
    }
}

/// What a source offers besides tools, in its own names and its own order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// Its resources.
    pub resources: Vec<mcp::Item>,
    /// Its templates of resources.
    pub templates: Vec<mcp::Item>,
    /// Its prompts.
    pub prompts: Vec<mcp::Item>,
    /// What it says that it can do.
    pub abilities: mcp::Abilities,
}

/// A request for something besides tools.
#[derive(Debug)]
pub struct SourceRequest {
    /// The method.
    pub method: &'static str,
    /// The members of `params` without `_meta`, as JSON.
    pub params: Vec<(&'static str, String)>,
    /// The name or URI that it is about, where the method has one.
    pub name: Option<String>,
    /// Ends the request.
    pub cancel: CancellationToken,
    /// Its time limit.
    pub timeout: Duration,
    /// What goes along with it.
    pub passed: mcp::Passed,
}

/// Why such a request gave no result.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// The server answered with an error, which is passed on.
    #[error("{message} ({code})")]
    Answered {
        /// JSON-RPC code.
        code: i64,
        /// The server's words.
        message: String,
        /// `data`, as it was sent.
        data: Option<Box<RawValue>>,
    },
    /// It gave no answer.
    #[error(transparent)]
    Source(#[from] SourceError),
}

/// What a source offers at one time.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Its tools, in the source's order.
    pub tools: Vec<Arc<mcp::Tool>>,
    /// How it is.
    pub state: State,
}

/// How a source is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Not yet connected for the first time.
    #[default]
    Starting,
    /// Usable.
    Ready,
    /// Not usable now; it is tried again.
    Down {
        /// Why, for people; no secrets.
        reason: String,
    },
}

/// A call, as a source sees it.
#[derive(Debug)]
pub struct SourceCall {
    /// The source's own name for the tool.
    pub tool: String,
    /// Arguments, an object that fits the schema.
    pub arguments: Box<RawValue>,
    /// Ends the call.
    pub cancel: CancellationToken,
    /// Its time limit.
    pub timeout: Duration,
    /// Where progress goes.
    pub progress: Option<mpsc::UnboundedSender<mcp::Progress>>,
    /// What goes along with it.
    pub passed: mcp::Passed,
}

/// Why a source gave no result.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SourceError {
    /// It is down; the call was not sent.
    #[error("{0}")]
    Unavailable(String),
    /// It was sent and the connection was lost: the outcome is unknown.
    #[error("{0}")]
    Lost(String),
    /// No answer in time.
    #[error("{0}")]
    Timeout(String),
    /// Cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The server answered with an error.
    #[error("{0}")]
    Failed(String),
    /// The server answered with what cannot be used: the outcome is unknown.
    #[error("{0}")]
    Unusable(String),
}

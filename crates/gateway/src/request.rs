//! What is asked of the gateway and what it answers.

use std::sync::Arc;

use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::approval::Approval;
use crate::background::BackgroundCall;
use crate::json;
use crate::session::Session;

/// A call of a tool.
#[derive(Debug)]
pub struct Request {
    /// Who calls.
    pub session: Arc<Session>,
    /// The tool's full name.
    pub tool: String,
    /// Its arguments, a JSON object.
    pub arguments: Box<RawValue>,
    /// From where.
    pub origin: Origin,
    /// Where progress goes.
    pub progress: Option<mpsc::UnboundedSender<Progress>>,
    /// What goes along with the call to the tool's server.
    pub passed: mcp::Passed,
    /// Ends the call, and everything that it started.
    pub cancel: CancellationToken,
}

/// From where a tool is called. Calls of scripts have an origin that only this crate can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A model, through MCP.
    Model,
    /// The chat.
    Chat,
    /// The command line.
    Cli,
}

/// How a call ended, or why it has not begun.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The tool answered, perhaps with an error of its own (`is_error`).
    Done(mcp::CallResult),
    /// It was refused before it reached the tool.
    Refused(Failure),
    /// It was sent, or could not be, and gave no answer.
    Failed(Failure),
    /// A person has to answer first; then the same call is made again.
    NeedsApproval(Box<Approval>),
    /// It takes long and goes on in the background.
    Background(Box<BackgroundCall>),
}

/// Why a call gave no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The tool's name as it was called.
    pub tool: String,
    /// Which kind.
    pub kind: script::Kind,
    /// What is wrong and what would be right.
    pub message: String,
    /// Whether the same call may work later.
    pub retryable: bool,
}

impl Failure {
    /// As a model sees it, with its parts for programs beside it.
    pub fn result(&self) -> mcp::CallResult {
        let kind = serde_json::to_value(self.kind).unwrap_or_default();
        let kind = kind.as_str().unwrap_or("failed");
        let later = if self.retryable { " (the same call may work later)" } else { "" };
        let text = format!("{kind}: {}{later}", self.message);
        let content = json!([{"type": "text", "text": text}]);
        let raw = json!({
            "content": content,
            "isError": true,
            "_meta": {"pinfold/error": self},
        });
        mcp::CallResult {
            text,
            structured: None,
            content: Arc::from(json::raw(&content)),
            has_media: false,
            is_error: true,
            raw: Arc::from(json::raw(&raw)),
        }
    }
}

/// What a call that runs says about itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// A script, at most once a second and once when it is over.
    Script(ScriptProgress),
    /// A server's tool, as it sent it.
    Tool(mcp::Progress),
}

/// The event `script.progress`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScriptProgress {
    /// Names the script and its records.
    pub script_id: String,
    /// What its author says it does.
    pub description: String,
    /// Calls that reached a tool and ended; refused ones are not among them.
    pub calls: u64,
    /// Of them, failed.
    pub failed: u64,
    /// What the script reported last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done: Option<f64>,
    /// See `done`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// See `done`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Since it was started.
    pub elapsed_ms: u64,
    /// How it is.
    pub state: ScriptState,
}

/// How a script is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptState {
    /// It runs.
    Running,
    /// It ran to its end.
    Finished,
    /// It raised, or was stopped by a limit.
    Failed,
    /// It was cancelled.
    Cancelled,
}

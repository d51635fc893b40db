//! A question to a person about one call, and the answer to it.

use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

/// A question to a person. It is kept in the store; the same call made again finds the answer.
#[derive(Clone, Debug, Serialize)]
pub struct Approval {
    /// Names it for [`crate::Gateway::answer`].
    pub id: String,
    /// The tool that is called: a server's, or `run_script`.
    pub tool: String,
    /// For a script: what its author says it does.
    pub description: Option<String>,
    /// For a script: the whole of it.
    pub code: Option<String>,
    /// The arguments as they were sent.
    pub arguments: Arc<RawValue>,
    /// For a script: the tools it lists.
    pub listed: Vec<ListedTool>,
    /// For a script: write tools that it names without listing them, with the line. They will be
    /// refused when it calls them.
    pub unlisted: Vec<(String, u32)>,
    /// What can be answered.
    pub choices: Vec<Choice>,
    /// When it expires, in milliseconds since 1970.
    pub expires_ms: i64,
}

/// A tool that a script lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedTool {
    /// Its full name.
    pub name: String,
    /// Whether it is (also) about this tool that the person is asked.
    pub asked: bool,
}

/// One of the things that can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// This call only.
    Once,
    /// This tool for the rest of the session.
    Session,
    /// No.
    Deny,
}

/// An answer to an [`Approval`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This call only.
    Once,
    /// This tool for the rest of the session.
    Session,
    /// No.
    Deny {
        /// Why; the model sees it.
        reason: String,
    },
}

/// An approval that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The tool that it was about.
    pub tool: String,
    /// Until when the same call finds the answer, in milliseconds since 1970.
    pub expires_ms: i64,
}

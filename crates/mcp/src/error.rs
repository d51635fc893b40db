//! Why a request gave no result, sorted by what a caller can do about it.

use std::time::Duration;

use serde_json::value::RawValue;

/// Why a request gave no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server could not be started or reached; nothing was sent, so the request may be repeated
    /// on a new connection.
    #[error("{0}")]
    Connect(String),
    /// The server was reached and refused the request at the transport (access, limits, a wrong
    /// address): it was not carried out and repeating it as it is will not help.
    #[error("{0}")]
    Refused(String),
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
    #[error("no answer within {after:?}{}", meanwhile(.unreadable.as_deref()))]
    Timeout {
        /// How long it was waited for.
        after: Duration,
        /// What arrived meanwhile and could not be read, in words; one of it may have been the
        /// answer.
        unreadable: Option<String>,
    },
    /// Cancelled by the caller; the server was told.
    #[error("cancelled")]
    Cancelled,
    /// The server wants input from a person (elicitation, sampling), which cannot be given here.
    #[error("the server asks for input that cannot be given here: {0}")]
    InputRequired(String),
}

fn meanwhile(unreadable: Option<&str>) -> String {
    unreadable.map_or_else(String::new, |unreadable| format!("; meanwhile {unreadable}"))
}

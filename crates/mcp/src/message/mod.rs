//! JSON-RPC messages: read without copying, written without parsing what passes through.
//!
//! Reading never fails on unknown fields and never panics, whatever the bytes. It does not know
//! what a method means.

mod lenient;
mod surrogates;
mod tokens;
mod unreadable;
mod write;

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

pub(crate) use surrogates::{mended, unit};
pub(crate) use tokens::{Token, tokens};
pub(crate) use unreadable::{answered, answered_at_ends, asked_at_ends, fault};

pub use lenient::{fields, flag, number, shorten, text};
pub use write::{notification, object, quote, raw, refusal, reply, request};

/// Error codes that mean something here.
pub mod code {
    /// What was sent is no JSON.
    pub const PARSE: i64 = -32700;
    /// What was sent is no request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method does not exist or is not offered.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters are wrong.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The server failed.
    pub const INTERNAL: i64 = -32603;
    /// There is no such resource (until 2025-11-25).
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// A header disagrees with the body (2026-07-28).
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The client did not declare a capability that is needed (2026-07-28).
    pub const MISSING_CAPABILITY: i64 = -32021;
    /// The revision is not supported (2026-07-28).
    pub const UNSUPPORTED_VERSION: i64 = -32022;
}

/// Longest error text that is kept, in bytes.
const LONGEST_ERROR: usize = 16_000;

/// Most messages in one batch (a form that only 2025-03-26 has).
pub(crate) const LONGEST_BATCH: usize = 1_000;

/// A message from the other side.
#[derive(Debug)]
pub enum Incoming<'a> {
    /// An answer.
    Response {
        /// Which request it answers; `None` where the other side could not tell or broke the rule.
        id: Option<i64>,
        /// The result as it was sent, or the error.
        outcome: Result<&'a RawValue, Failure>,
    },
    /// A request that wants an answer.
    Request {
        /// Its id, to be sent back as it is.
        id: &'a RawValue,
        /// What is wanted.
        method: Cow<'a, str>,
        /// With what.
        params: Option<&'a RawValue>,
    },
    /// A message that wants no answer.
    Notification {
        /// What happened.
        method: Cow<'a, str>,
        /// Details.
        params: Option<&'a RawValue>,
    },
}

/// An error object.
#[derive(Debug)]
pub struct Failure {
    /// JSON-RPC code.
    pub code: i64,
    /// The other side's words, shortened.
    pub message: String,
    /// `data`, as it was sent.
    pub data: Option<Box<RawValue>>,
}

/// What was read is no JSON-RPC message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a JSON-RPC message")]
pub struct Malformed;

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// `Some` also for an explicit null, which for a result is not the same as its absence.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// Reads one message or one batch of messages.
pub fn parse(text: &str) -> Result<Vec<Incoming<'_>>, Malformed> {
    let text = text.trim_start_matches('\u{feff}').trim_ascii();
    if tokens::is_too_deep(text) {
        return Err(Malformed);
    }
    if text.starts_with('[') {
        let parts: Vec<&RawValue> = serde_json::from_str(text).map_err(|_| Malformed)?;
        if parts.is_empty() || parts.len() > LONGEST_BATCH {
            return Err(Malformed);
        }
        return parts.into_iter().map(|part| parse_one(part.get())).collect();
    }
    Ok(vec![parse_one(text)?])
}

/// Reads one message that is no batch.
pub(crate) fn parse_one(text: &str) -> Result<Incoming<'_>, Malformed> {
    if !text.starts_with('{') {
        return Err(Malformed);
    }
    let envelope: Envelope<'_> = serde_json::from_str(text).map_err(|_| Malformed)?;
    let id = envelope.id.filter(|id| id.get() != "null");
    match (envelope.method, id) {
        (Some(method), Some(id)) => Ok(Incoming::Request { id, method, params: envelope.params }),
        (Some(method), None) => Ok(Incoming::Notification { method, params: envelope.params }),
        (None, id) => {
            let outcome = match (envelope.error, envelope.result) {
                (Some(error), _) => Err(Failure::read(error)),
                (None, Some(result)) => Ok(result),
                (None, None) => return Err(Malformed),
            };
            Ok(Incoming::Response { id: id.and_then(|id| id.get().parse().ok()), outcome })
        }
    }
}

impl Failure {
    /// Reads an error object; whatever is wrong with it, its words are kept.
    fn read(error: &RawValue) -> Self {
        #[derive(Deserialize)]
        struct Object<'a> {
            #[serde(borrow, default)]
            code: Option<&'a RawValue>,
            #[serde(borrow, default)]
            message: Option<&'a RawValue>,
            #[serde(borrow, default)]
            data: Option<&'a RawValue>,
        }
        let Ok(object) = serde_json::from_str::<Object<'_>>(error.get()) else {
            return Self {
                code: code::INTERNAL,
                message: shorten(error.get(), LONGEST_ERROR),
                data: None,
            };
        };
        #[expect(clippy::cast_possible_truncation, reason = "a code out of range saturates")]
        let code = number(object.code).map_or(code::INTERNAL, |code| code as i64);
        let message = text(object.message)
            .or_else(|| object.message.map(|message| message.get().to_owned()))
            .unwrap_or_else(|| "an error without a message".to_owned());
        Self {
            code,
            message: shorten(&message, LONGEST_ERROR),
            data: object.data.map(ToOwned::to_owned),
        }
    }
}

#[cfg(test)]
mod tests;

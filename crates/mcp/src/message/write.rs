//! Messages as text. What passes through is pasted in as it came.
//!
//! Every function gives one line: a line feed can only stand between tokens of the pasted JSON,
//! where a space means the same, and the stdio transport frames by lines.

use serde_json::value::RawValue;

/// A request.
#[must_use]
pub fn request(id: i64, method: &str, params: &str) -> String {
    line(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{},"params":{params}}}"#, quote(method)))
}

/// A notification.
#[must_use]
pub fn notification(method: &str, params: &str) -> String {
    line(format!(r#"{{"jsonrpc":"2.0","method":{},"params":{params}}}"#, quote(method)))
}

/// The answer to a request.
#[must_use]
pub fn reply(id: &RawValue, result: &str) -> String {
    line(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, id.get()))
}

/// The answer to a request that cannot be met.
#[must_use]
pub fn refusal(id: &RawValue, code: i64, message: &str) -> String {
    line(format!(
        r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":{code},"message":{}}}}}"#,
        id.get(),
        quote(message)
    ))
}

/// An object of fields whose values are JSON already.
#[must_use]
pub fn object(fields: &[(&str, &str)]) -> String {
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}:{value}", quote(name))).collect();
    format!("{{{}}}", fields.join(","))
}

/// What was written here, as a value; null if it is none.
#[must_use]
pub fn raw(json: impl Into<String>) -> Box<RawValue> {
    RawValue::from_string(json.into()).unwrap_or_default()
}

/// A JSON string.
#[must_use]
pub fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn line(text: String) -> String {
    // Most have none, and a list of tools has megabytes to look through.
    match memchr::memchr2(b'\n', b'\r', text.as_bytes()) {
        Some(_) => text.replace(['\n', '\r'], " "),
        None => text,
    }
}

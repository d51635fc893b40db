//! What is answered, in one shape whatever happens.

use std::time::Duration;

use script::{Evaluated, Fault, Image};
use serde::Serialize;
use serde_json::value::RawValue;

/// The answer of `POST /execute`.
#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    pub(crate) ok: bool,
    stdout: String,
    stderr: String,
    data: Option<Box<RawValue>>,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Named>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    images: Vec<Image>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Named {
    Run(Fault),
    Request { kind: &'static str, message: String },
}

#[derive(Debug, Serialize)]
struct Usage {
    queue_ms: f64,
    wall_ms: f64,
    cpu_ms: f64,
    peak_memory_mb: f64,
}

impl Answer {
    /// Of a run, which waited so long for its turn.
    pub(crate) fn of(found: Evaluated, queued: Duration) -> Self {
        let message = match &found.fault {
            Some(fault) => fault.message.clone(),
            None if found.restored => {
                "the code did not parse as it was sent; its escape sequences were restored"
                    .to_owned()
            }
            None => String::new(),
        };
        Self {
            ok: found.fault.is_none(),
            stdout: found.stdout,
            stderr: found.stderr,
            data: found.data,
            message,
            error: found.fault.map(Named::Run),
            images: found.images,
            usage: Some(Usage {
                queue_ms: milliseconds(queued),
                wall_ms: milliseconds(found.usage.wall),
                cpu_ms: milliseconds(found.usage.cpu),
                peak_memory_mb: thousandth(megabytes(found.usage.peak_memory)),
            }),
            truncated: found.truncated,
        }
    }

    /// Of a request that was not carried out.
    pub(crate) fn refused(kind: &'static str, message: String) -> Self {
        Self {
            ok: false,
            stdout: String::new(),
            stderr: String::new(),
            data: None,
            message: message.clone(),
            error: Some(Named::Request { kind, message }),
            images: Vec::new(),
            usage: None,
            truncated: false,
        }
    }
}

fn milliseconds(duration: Duration) -> f64 {
    thousandth(duration.as_secs_f64() * 1000.0)
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn thousandth(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

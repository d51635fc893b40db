//! What the gateway says, in MCP's terms.

use gateway::{Failure, Outcome, Progress};
use mcp::server::{Answer, Refusal};
use script::Kind;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

/// Of a call that needs no approval (any more).
pub(crate) fn answer(outcome: Outcome) -> Result<Answer, Refusal> {
    match outcome {
        Outcome::Done(result) => Ok(Answer::Result(result.raw)),
        Outcome::Refused(failure) if failure.kind == Kind::UnknownTool => {
            Err(Refusal::invalid(failure.message))
        }
        Outcome::Refused(failure) | Outcome::Failed(failure) => Ok(failed(&failure)),
        Outcome::NeedsApproval(_) => Err(Refusal::internal("an approval is needed")),
    }
}

/// A failure as the model sees it, with its parts for programs beside it.
fn failed(failure: &Failure) -> Answer {
    let kind = serde_json::to_value(failure.kind).unwrap_or_default();
    let kind = kind.as_str().unwrap_or("failed");
    let later = if failure.retryable { " (the same call may work later)" } else { "" };
    let result = json!({
        "content": [{"type": "text", "text": format!("{kind}: {}{later}", failure.message)}],
        "isError": true,
        "_meta": {"pinfold/error": failure},
    });
    Answer::Result(serde_json::value::to_raw_value(&result).unwrap_or_default().into())
}

/// What a call says about itself. A script that reports nothing has no number, only words.
pub(crate) fn progress(progress: Progress) -> mcp::Progress {
    match progress {
        Progress::Tool(progress) => progress,
        Progress::Script(script) => {
            let plural = if script.calls == 1 { "call" } else { "calls" };
            let mut message = format!("{} {plural}, {} failed", script.calls, script.failed);
            if let Some(own) = &script.message {
                message = format!("{own} · {message}");
            }
            mcp::Progress {
                progress: script.done.unwrap_or(0.0),
                total: script.total,
                message: Some(message),
            }
        }
    }
}

/// The session that a request names.
pub(crate) fn session(meta: Option<&RawValue>) -> Option<String> {
    #[derive(Deserialize)]
    struct Meta {
        #[serde(default, rename = "pinfold/session")]
        session: Option<String>,
    }
    serde_json::from_str::<Meta>(meta?.get()).ok()?.session
}

//! What the gateway says, in MCP's terms.

use gateway::{Outcome, Progress};
use mcp::server::{Answer, Refusal};
use script::Kind;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Of a call that needs no approval (any more).
pub(crate) fn answer(outcome: Outcome) -> Result<Answer, Refusal> {
    match outcome {
        Outcome::Done(result) => Ok(Answer::Result(result.raw)),
        Outcome::Refused(failure) if failure.kind == Kind::UnknownTool => {
            Err(Refusal::invalid(failure.message))
        }
        Outcome::Refused(failure) | Outcome::Failed(failure) => {
            Ok(Answer::Result(failure.result().raw))
        }
        Outcome::Background(_) => Err(Refusal::internal("it goes on in the background")),
        Outcome::NeedsApproval(_) => Err(Refusal::internal("an approval is needed")),
    }
}

/// What a call says about itself. A script that reports nothing has no number, only words.
pub(crate) fn progress(progress: Progress) -> mcp::Progress {
    match progress {
        Progress::Tool(progress) => progress,
        Progress::Script(script) => {
            let plural = if script.calls == 1 { "call" } else { "calls" };
            let seconds = script.elapsed_ms / 1000;
            let (calls, failed) = (script.calls, script.failed);
            let mut message = format!("running for {seconds} s, {calls} {plural}, {failed} failed");
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

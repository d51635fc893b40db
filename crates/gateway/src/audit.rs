//! What is written down of a call: before a write, its intent; after any call, a row of the audit,
//! or for a call of a script a line of its records.
//!
//! Arguments are kept up to a bound, results are not kept at all. A call that was asked about and
//! not yet answered leaves no row: the question itself is in the store.

use serde_json::json;
use store::{AuditRow, IntentRow, IntentState};

use crate::backlog::Ending;
use crate::call::{Call, Caller, Ended};
use crate::gateway::{Gateway, now_ms};
use crate::records::ARGUMENT_BYTES;
use crate::request::{Failure, Outcome};
use crate::{json, records};

/// Notes that a write is about to be sent, so that a crash leaves "unknown" and not silence. Without
/// it the write is not sent.
pub(crate) async fn intend(gateway: &Gateway, call: &Call) -> Result<String, String> {
    let script = match &call.caller {
        Caller::Script(script) => {
            script
                .calls
                .flush()
                .map_err(|reason| format!("calls.jsonl cannot be written: {reason}"))?;
            script.id.clone()
        }
        Caller::Direct(_) => String::new(),
    };
    let row = IntentRow {
        id: uuid::Uuid::now_v7().to_string(),
        owner: gateway.owner.row.id.clone(),
        script,
        number: i64::try_from(call.number).unwrap_or(i64::MAX),
        session: call.session.id.clone(),
        principal: call.session.principal.clone(),
        profile: call.session.profile_name.clone(),
        tool: call.tool.clone(),
        arguments: json::bounded(&call.arguments, ARGUMENT_BYTES),
        state: IntentState::Pending,
        at_ms: call.at.as_millisecond(),
    };
    gateway.store.intend(&row).await.map_err(|error| error.to_string())?;
    Ok(row.id)
}

/// Writes down how a call ended.
pub(crate) async fn record(gateway: &Gateway, call: &Call, ended: &Ended) {
    match &call.caller {
        Caller::Script(script) => {
            if let Some((id, state)) = &ended.intent {
                keep(gateway, call, Ending::Intent { id: id.clone(), state: *state, audit: None })
                    .await;
            }
            script.ended(call, ended);
        }
        Caller::Direct(_)
            if ended.recorded || matches!(ended.outcome, Outcome::NeedsApproval(_)) => {}
        Caller::Direct(_) => {
            let row = Box::new(row(call, ended));
            let ending = match &ended.intent {
                Some((id, state)) => {
                    Ending::Intent { id: id.clone(), state: *state, audit: Some(row) }
                }
                None => Ending::Call { audit: row },
            };
            keep(gateway, call, ending).await;
        }
    }
}

async fn keep(gateway: &Gateway, call: &Call, ending: Ending) {
    if let Err(reason) = gateway.backlog.keep(&gateway.store, &gateway.owner, ending).await {
        tracing::error!(tool = call.tool, reason, "a call could not be recorded");
    }
}

/// How a call ended, in one word.
pub(crate) fn word(ended: &Ended) -> &'static str {
    match &ended.outcome {
        _ if matches!(ended.intent, Some((_, IntentState::Unknown))) => "unknown",
        Outcome::Done(result) if result.is_error => "failed",
        Outcome::Done(_) => "ok",
        Outcome::Refused(Failure { kind: script::Kind::Cancelled, .. })
        | Outcome::Failed(Failure { kind: script::Kind::Cancelled, .. }) => "cancelled",
        Outcome::Refused(_) => "refused",
        Outcome::Failed(Failure { kind: script::Kind::Timeout, .. }) => "timeout",
        Outcome::Failed(_) => "failed",
        Outcome::NeedsApproval(_) => "asked",
        // The road itself never ends that way.
        Outcome::Background(_) => "running",
    }
}

fn row(call: &Call, ended: &Ended) -> AuditRow {
    let arguments: serde_json::Value =
        serde_json::from_str(&json::bounded(&call.arguments, ARGUMENT_BYTES)).unwrap_or_default();
    let mut detail = json!({
        "arguments": arguments,
        "ms": u64::try_from(call.began.elapsed().as_millis()).unwrap_or(u64::MAX),
    });
    if let Caller::Direct(origin) = call.caller {
        detail["origin"] = json!(origin);
    }
    if let Some(by) = &ended.approved_by {
        detail["approved_by"] = json!(by);
    }
    match &ended.outcome {
        Outcome::Refused(failure) | Outcome::Failed(failure) => {
            detail["kind"] = json!(failure.kind);
            detail["message"] = json!(json::one_line(&failure.message, 1000));
        }
        Outcome::Done(result) if result.is_error => {
            let message = json::one_line(&result.text, records::SUMMARY_CHARACTERS);
            detail["message"] = json!(message);
        }
        _ => {}
    }
    AuditRow {
        id: uuid::Uuid::now_v7().to_string(),
        at_ms: now_ms(),
        kind: "call".to_owned(),
        principal: call.session.principal.clone(),
        profile: call.session.profile_name.clone(),
        session: call.session.id.clone(),
        tool: json::one_line(&call.tool, 200),
        outcome: word(ended).to_owned(),
        isolation: String::new(),
        detail: detail.to_string(),
    }
}

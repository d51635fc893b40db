//! What a process that is gone left unfinished, settled at the next start.
//!
//! Nothing is done again. What the process could still note of an end that the store did not take
//! (`backlog`) is made good. Else a script that ran is `interrupted`; a write without an answer has an
//! unknown outcome, in the store, in the script's `calls.jsonl` and in the audit. Every step can be
//! repeated, so a crash in here does no harm.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde_json::json;
use store::{AuditRow, BackgroundState, IntentRow, IntentState, ScriptRow, ScriptState, Store};

use crate::background;
use crate::gateway::{Error, now_ms};
use crate::owner::{self, Neighbour, Note, NotedState, Owner};
use crate::records::{calls, folder};

/// Said of what the process knew and the store did not take from it.
const LATE: &str = "added at the next start: the database took nothing when it ended";

/// Settles what is left of every owner that is gone.
pub(crate) async fn run(store: &Store, data_dir: &Path, this: &Owner) -> Result<(), Error> {
    for owner in store.owners().await? {
        if owner.id == this.row.id {
            continue;
        }
        let Neighbour::Gone(remains) = owner::look(&owner, data_dir, store.is_remote()) else {
            continue;
        };
        let notes = remains.as_ref().map(owner::Remains::notes).unwrap_or_default();
        settle(store, &owner, &notes).await?;
        store.remove_owner(&owner.id).await?;
        if let Some(remains) = remains {
            remains.clear();
        }
    }
    Ok(())
}

async fn settle(
    store: &Store,
    owner: &store::Owner,
    notes: &HashMap<String, Note>,
) -> Result<(), Error> {
    for script in store.running_scripts(&owner.id).await? {
        let mut intents = store.intents_of(&script.id).await?;
        for intent in intents.iter_mut().filter(|intent| intent.state == IntentState::Pending) {
            if let Some(state) = noted(notes, intent) {
                intent.state = state;
                store.intent_ended(&intent.id, state, None, now_ms()).await?;
            }
        }
        if let Err(reason) = complete_records(&script, &intents) {
            tracing::warn!(script = script.id, reason, "the records were not completed");
        }
        let unknown: Vec<&IntentRow> =
            intents.iter().filter(|intent| intent.state == IntentState::Pending).collect();
        for intent in &unknown {
            store.intent_ended(&intent.id, IntentState::Unknown, None, now_ms()).await?;
        }
        if let Some(note) = notes.get(&script.id) {
            let audit = ended_well_or_not(&script, &intents, note);
            store.script_ended(&script.id, ScriptState::Finished, &audit, now_ms()).await?;
            tracing::info!(script = script.id, outcome = note.outcome, "a script's end was added");
            continue;
        }
        let audit = interrupted(&script, &intents);
        store.script_ended(&script.id, ScriptState::Interrupted, &audit, now_ms()).await?;
        tracing::warn!(
            script = script.id,
            process = owner.process,
            unknown = unknown.len(),
            "a script was interrupted when its process ended"
        );
    }
    for intent in store.pending_intents(&owner.id).await? {
        let note = notes.get(&intent.id);
        let audit = unknown_or(&intent, note);
        let row = intent.script.is_empty().then_some(&audit);
        let state = noted(notes, &intent).unwrap_or(IntentState::Unknown);
        store.intent_ended(&intent.id, state, row, now_ms()).await?;
        if note.is_some() {
            continue;
        }
        tracing::warn!(tool = intent.tool, "the outcome of a call is unknown: its process ended");
    }
    for call in store.background_underway(&owner.id).await? {
        let (state, result) = match notes.get(&call.id) {
            Some(note) => (BackgroundState::Failed, background::lost(&note.outcome)),
            None => (BackgroundState::Interrupted, background::interrupted(&call.tool, "")),
        };
        store.background_ended(&call.id, state, result.raw.get(), now_ms()).await?;
        tracing::warn!(tool = call.tool, id = call.id, "a call in the background was interrupted");
    }
    Ok(())
}

/// How a call ended of which the store does not know, if the process could note it.
fn noted(notes: &HashMap<String, Note>, intent: &IntentRow) -> Option<IntentState> {
    notes.get(&intent.id)?.state.map(|state| match state {
        NotedState::Done => IntentState::Done,
        NotedState::Failed => IntentState::Failed,
        NotedState::Unknown => IntentState::Unknown,
    })
}

/// The row of a script that ended when the store took nothing.
fn ended_well_or_not(script: &ScriptRow, intents: &[IntentRow], note: &Note) -> AuditRow {
    let row = interrupted(script, intents);
    let mut detail: serde_json::Value = serde_json::from_str(&row.detail).unwrap_or_default();
    detail["message"] = json!(LATE);
    AuditRow { outcome: note.outcome.clone(), detail: detail.to_string(), ..row }
}

fn complete_records(script: &ScriptRow, intents: &[IntentRow]) -> Result<(), String> {
    let missing: Vec<calls::Missing> = intents
        .iter()
        .map(|intent| calls::Missing {
            number: u64::try_from(intent.number).unwrap_or_default(),
            tool: intent.tool.clone(),
            at_ms: intent.at_ms,
            arguments: intent.arguments.clone(),
            ok: match intent.state {
                IntentState::Done => Some(true),
                IntentState::Failed => Some(false),
                IntentState::Pending | IntentState::Unknown => None,
            },
        })
        .collect();
    let mut file = folder::reopen_calls(Path::new(&script.workspace), &script.id)?;
    calls::complete(&mut file, &missing).map_err(|error| format!("calls.jsonl: {error}"))
}

fn interrupted(script: &ScriptRow, intents: &[IntentRow]) -> AuditRow {
    let mut unknown: BTreeMap<&str, u64> = BTreeMap::new();
    for intent in intents.iter().filter(|intent| intent.state == IntentState::Pending) {
        *unknown.entry(&intent.tool).or_default() += 1;
    }
    AuditRow {
        id: uuid::Uuid::now_v7().to_string(),
        at_ms: now_ms(),
        kind: "script".to_owned(),
        principal: script.principal.clone(),
        profile: script.profile.clone(),
        session: script.session.clone(),
        tool: crate::sources::run_script::NAME.to_owned(),
        outcome: "interrupted".to_owned(),
        isolation: script.isolation.clone(),
        detail: json!({
            "script": script.id,
            "description": script.description,
            "directory": format!(".agent/scripts/{}", script.id),
            "code": script.code,
            "started_ms": script.started_ms,
            "unknown_outcomes": unknown,
        })
        .to_string(),
    }
}

fn unknown_or(intent: &IntentRow, note: Option<&Note>) -> AuditRow {
    let (outcome, message) = match note {
        Some(note) => (note.outcome.as_str(), LATE),
        None => ("unknown", "outcome unknown: the process ended before the answer"),
    };
    let arguments: serde_json::Value = serde_json::from_str(&intent.arguments).unwrap_or_default();
    AuditRow {
        id: uuid::Uuid::now_v7().to_string(),
        at_ms: now_ms(),
        kind: "call".to_owned(),
        principal: intent.principal.clone(),
        profile: intent.profile.clone(),
        session: intent.session.clone(),
        tool: intent.tool.clone(),
        outcome: outcome.to_owned(),
        isolation: String::new(),
        detail: json!({
            "arguments": arguments,
            "started_ms": intent.at_ms,
            "message": message,
        })
        .to_string(),
    }
}

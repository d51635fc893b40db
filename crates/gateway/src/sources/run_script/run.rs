//! Runs a script that was granted, and writes down what became of it.
//!
//! Order matters: the records are made before the script starts (they are laid over its view),
//! the script stands in the store before its first call, and its writes are seen through before
//! its audit row is written.

use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use script::Finished;
use serde_json::json;

use super::answer::{self, Account};
use super::host::{Count, Script, ScriptHost};
use super::{Plan, Reach, TELL};
use crate::backlog::Ending;
use crate::call::{Call, Ended, Grant};
use crate::events::Event;
use crate::gateway::{Gateway, now_ms};
use crate::policy::PermissionMode;
use crate::records::{Calls, Folder, OUTPUT_BYTES, Output};
use crate::request::{Outcome, Progress, ScriptProgress, ScriptState};

/// A script that could not even be started.
fn not_started(call: &Call, reason: &dyn std::fmt::Display) -> Ended {
    let message = format!("the script was not started: {reason}");
    Ended::before(Outcome::Failed(call.failure(script::Kind::Upstream, message)))
}

/// Runs the script to its end.
pub(crate) async fn run(grant: Grant, gateway: &Arc<Gateway>, call: &Call, plan: Plan) -> Ended {
    let id = uuid::Uuid::now_v7().to_string();
    let approved_by = grant.by().map(str::to_owned);
    let prepared = match prepare(gateway, call, &plan, &id).await {
        Ok(prepared) => prepared,
        Err(reason) => return not_started(call, &reason),
    };
    let Prepared { job, folder, calls, output } = prepared;
    let listed: HashSet<String> = plan.tools.iter().map(|tool| tool.known.name.clone()).collect();
    let script = Arc::new(Script::new(
        id.clone(),
        Reach::of(&call.tool),
        calls,
        listed,
        grant.into_definitions(),
    ));
    let row = store::ScriptRow {
        id,
        owner: gateway.owner.row.id.clone(),
        session: call.session.id.clone(),
        principal: call.session.principal.clone(),
        profile: call.session.profile_name.clone(),
        workspace: call.session.workspace().display().to_string(),
        description: plan.description,
        code: plan.code,
        isolation: gateway.isolation.clone(),
        started_ms: now_ms(),
    };
    if let Err(error) = gateway.store.script_started(&row).await {
        return not_started(call, &error);
    }
    let teller = Teller {
        gateway,
        call,
        script: &script,
        description: &row.description,
        began: Instant::now(),
    };
    let result = drive(gateway, call, &teller, job).await;
    script.writes.close();
    // Their own limits end them; see `sources::tool`.
    script.writes.wait().await;

    let took = teller.began.elapsed();
    let mut lost: Vec<String> = script.finish().err().into_iter().collect();
    let mut notes = Vec::new();
    if let Ok(finished) = &result {
        script.refused_in_all(finished.refused);
        notes.extend(finished.complaint.clone());
    }
    if script.unwritten() > 0 {
        notes.push(format!("{} more refused calls are not in calls.jsonl", script.unwritten()));
    }
    let (shown, errors) = {
        let output = output.lock().unwrap_or_else(PoisonError::into_inner);
        lost.extend(output.lost());
        notes.extend(output.bounded());
        (output.shown(call.prints.is_some()), output.errors())
    };
    let counts = script.counts();
    let audit = audit_row(
        &row,
        call,
        &result,
        &Recorded {
            counts: &counts,
            took,
            directory: folder.path(),
            lost: &lost,
            notes: &notes,
            approved_by: approved_by.as_deref(),
        },
    );
    let ending = Ending::Script { id: row.id.clone(), audit: Box::new(audit) };
    if let Err(reason) = gateway.backlog.keep(&gateway.store, &gateway.owner, ending).await {
        tracing::error!(script = row.id, reason, "the audit row of a script was not written");
        lost.push(format!("the audit row: {reason}"));
    }
    teller.tell(state(&result));
    if let Err(error) = &result
        && !matches!(error, script::Error::Lost(_))
    {
        return Ended { recorded: true, ..not_started(call, error) };
    }
    let account = Account {
        took,
        counts: &counts,
        directory: folder.path(),
        shown: &shown,
        errors: &errors,
        lost: &lost,
        notes: &notes,
        limits: &gateway.scripts,
    };
    let answer = match &result {
        Ok(finished) => answer::finished(finished, &account),
        Err(error) => answer::broke_off(&error.to_string(), &account),
    };
    Ended { recorded: true, unsent: false, ..Ended::before(Outcome::Done(answer)) }
}

/// All that has to be there before the script starts.
struct Prepared {
    job: script::Job,
    folder: Folder,
    calls: Calls,
    output: Arc<Mutex<Output>>,
}

async fn prepare(
    gateway: &Gateway,
    call: &Call,
    plan: &Plan,
    id: &str,
) -> Result<Prepared, String> {
    let workspace: OwnedFd = call.session.directory().map_err(|error| error.to_string())?;
    let folder = Folder::create(workspace.as_fd(), id)?;
    let mut code = folder.file("script.py")?;
    std::io::Write::write_all(&mut code, plan.code.as_bytes())
        .map_err(|error| format!("{}/script.py cannot be written: {error}", folder.path()))?;
    let calls = Calls::new(folder.file("calls.jsonl")?);
    let output =
        Output::new(folder.file("output.txt")?, gateway.scripts.output_chars, OUTPUT_BYTES);
    let output = Arc::new(Mutex::new(output));
    let (printed, complained) = (output.clone(), output.clone());
    let prints = call.prints.clone();
    let access = match call.session.profile.permission_mode {
        PermissionMode::Ask | PermissionMode::Auto if Reach::of(&call.tool) == Reach::All => {
            sandbox::Access::ReadWrite
        }
        _ => sandbox::Access::ReadOnly,
    };
    let job = script::Job {
        code: plan.code.clone(),
        workspace,
        access,
        records: Some(folder.agent()?),
        limits: script::Limits {
            max_calls: gateway.scripts.max_calls,
            concurrency: gateway.scripts.concurrency,
            timeout: Duration::from_secs(gateway.scripts.timeout_sec),
            memory_mb: gateway.scripts.memory_mb,
        },
        stdout: Box::new(move |piece| {
            if let Some(prints) = &prints {
                // Nobody has to listen.
                let _ = prints.send(piece.to_vec());
            }
            printed.lock().unwrap_or_else(PoisonError::into_inner).print(piece);
        }),
        stderr: Box::new(move |piece| {
            complained.lock().unwrap_or_else(PoisonError::into_inner).complain(piece);
        }),
    };
    Ok(Prepared { job, folder, calls, output })
}

async fn drive(
    gateway: &Arc<Gateway>,
    call: &Call,
    teller: &Teller<'_>,
    job: script::Job,
) -> Result<Finished, script::Error> {
    let engine = gateway.engine.as_ref().map_err(|reason| script::Error::BadJob(reason.clone()))?;
    let host = Arc::new(ScriptHost {
        gateway: gateway.clone(),
        session: call.session.clone(),
        script: teller.script.clone(),
    });
    let running = engine.run(job, host, call.cancel.clone());
    tokio::pin!(running);
    let mut pace = tokio::time::interval_at(tokio::time::Instant::now() + TELL, TELL);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            finished = &mut running => return finished,
            _ = pace.tick() => {
                // A disk that is full now is told at the end.
                let _ = teller.script.calls.flush();
                teller.tell(ScriptState::Running);
            }
        }
    }
}

/// Tells whoever waits how far the script is.
struct Teller<'a> {
    gateway: &'a Gateway,
    call: &'a Call,
    script: &'a Arc<Script>,
    description: &'a str,
    began: Instant,
}

impl Teller<'_> {
    fn tell(&self, state: ScriptState) {
        let script::Progress { done, total, message, .. } = self.script.progress();
        let Count { calls, failed, .. } = self.script.total();
        let told = ScriptProgress {
            script_id: self.script.id.clone(),
            description: self.description.to_owned(),
            calls,
            failed,
            done,
            total,
            message,
            elapsed_ms: millis(self.began.elapsed()),
            state,
        };
        if let Some(to) = &self.call.progress {
            to.report(Progress::Script(told.clone()));
        }
        self.gateway.publish(&self.call.session.id, Event::ScriptProgress(told));
    }
}

fn state(result: &Result<Finished, script::Error>) -> ScriptState {
    match result.as_ref().map(|finished| &finished.ending) {
        Ok(script::Ending::Completed) => ScriptState::Finished,
        Ok(script::Ending::Cancelled) => ScriptState::Cancelled,
        _ => ScriptState::Failed,
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// What goes into the audit row besides the script's own row.
struct Recorded<'a> {
    counts: &'a std::collections::BTreeMap<String, Count>,
    took: Duration,
    directory: &'a str,
    lost: &'a [String],
    notes: &'a [String],
    approved_by: Option<&'a str>,
}

fn audit_row(
    row: &store::ScriptRow,
    call: &Call,
    result: &Result<Finished, script::Error>,
    recorded: &Recorded<'_>,
) -> store::AuditRow {
    let outcome = match result.as_ref().map(|finished| &finished.ending) {
        Ok(script::Ending::Completed) => "ok",
        Ok(script::Ending::Failed { .. } | script::Ending::Signaled(_)) | Err(_) => "failed",
        Ok(script::Ending::TimedOut) => "timeout",
        Ok(script::Ending::MemoryLimit) => "memory_limit",
        Ok(script::Ending::ProcessLimit) => "process_limit",
        Ok(script::Ending::Cancelled) => "cancelled",
    };
    let Count { calls, failed, refused } = Count::total(recorded.counts);
    let mut detail = json!({
        "calls": calls,
        "failed": failed,
        "refused": refused,
        "script": row.id,
        "description": row.description,
        "tools": recorded.counts,
        "ms": millis(recorded.took),
        "directory": recorded.directory,
        "code": row.code,
        "started_ms": row.started_ms,
    });
    if let crate::call::Caller::Direct(origin) = call.caller {
        detail["origin"] = json!(origin);
    }
    match result {
        Ok(finished) => {
            detail["exit_code"] = json!(finished.exit_code);
            detail["cpu_ms"] = json!(millis(finished.usage.cpu));
            detail["peak_memory"] = json!(finished.usage.peak_memory);
        }
        Err(error) => detail["message"] = json!(error.to_string()),
    }
    if let Some(by) = recorded.approved_by {
        detail["approved_by"] = json!(by);
    }
    for (name, notes) in [("lost", recorded.lost), ("notes", recorded.notes)] {
        if !notes.is_empty() {
            detail[name] = json!(notes);
        }
    }
    store::AuditRow {
        id: uuid::Uuid::now_v7().to_string(),
        at_ms: now_ms(),
        kind: "script".to_owned(),
        principal: row.principal.clone(),
        profile: row.profile.clone(),
        session: row.session.clone(),
        tool: call.tool.clone(),
        outcome: outcome.to_owned(),
        isolation: row.isolation.clone(),
        detail: detail.to_string(),
    }
}

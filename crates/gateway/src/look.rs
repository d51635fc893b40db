//! What can be seen of a gateway besides its tools: questions and their answers, sessions, the
//! audit, and what scripts left behind. Who may see what is decided by whoever asks.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use serde::Serialize;
use serde_json::value::RawValue;
use store::{ApprovalFilter, AuditFilter, AuditRow, SessionFilter, SessionSeen};

use crate::approval::Approval;
use crate::gateway::{Error, Gateway, now_ms};
use crate::policy::{Effect, Facts};
use crate::records::folder;

/// Bytes of a script's output that are shown.
const OUTPUT: u64 = 1 << 20;

/// Bytes of `calls.jsonl` that are read.
const CALLS: u64 = 256 << 20;

/// A script that runs or ran.
#[derive(Clone, Debug, Serialize)]
pub struct ScriptSeen {
    /// Names it.
    pub id: String,
    /// Who.
    pub principal: String,
    /// Under which profile.
    pub profile: String,
    /// In which session.
    pub session: String,
    /// `running`, `finished` or `interrupted`.
    pub state: &'static str,
    /// What its author says it does.
    pub description: String,
    /// The script itself.
    pub code: String,
    /// The isolation level in force.
    pub isolation: String,
    /// When it started, in milliseconds since 1970.
    pub started_ms: i64,
    /// When it ended.
    pub ended_ms: Option<i64>,
    /// Where its records are, below the workspace.
    pub directory: String,
    /// Lines of `calls.jsonl`.
    pub calls: Vec<Box<RawValue>>,
    /// After how many lines the next page begins, if there is one.
    pub next_calls: Option<usize>,
    /// The start of what it printed.
    pub output: String,
    /// Bytes that it printed in all.
    pub output_bytes: u64,
    /// What of its records cannot be read any more, and why.
    pub missing: Vec<String>,
}

impl Gateway {
    /// One question, however it is.
    pub async fn approval(&self, id: &str) -> Result<Option<Approval>, Error> {
        self.store.approval(id).await?.map(Approval::of).transpose()
    }

    /// Questions, newest first.
    pub async fn approvals_by(&self, filter: &ApprovalFilter) -> Result<Vec<Approval>, Error> {
        self.expire_approvals().await?;
        let rows = self.store.approvals(filter).await?;
        rows.into_iter().map(Approval::of).collect()
    }

    /// What a tool does to the world, if a server of the profile lists it now.
    pub fn effect(&self, profile: &str, tool: &str) -> Option<Effect> {
        let profile = self.profiles.get(profile)?;
        let table = self.catalog.table();
        let known = table.get(tool)?;
        let rule = profile.tools.get(&known.name);
        Some(Facts::of(known.tool.annotations, known.tool.task_support, rule).effect)
    }

    /// One session, whether it is open here or not.
    pub async fn session_seen(&self, id: &str) -> Result<Option<SessionSeen>, Error> {
        Ok(self.store.session(id).await?)
    }

    /// Sessions, those that began last first.
    pub async fn sessions_seen(&self, filter: &SessionFilter) -> Result<Vec<SessionSeen>, Error> {
        Ok(self.store.sessions(filter).await?)
    }

    /// Rows of the audit, newest first.
    pub async fn audit(&self, filter: &AuditFilter) -> Result<Vec<AuditRow>, Error> {
        Ok(self.store.audit_rows(filter).await?)
    }

    /// A script with a page of its calls: `limit` lines after the first `after`.
    pub async fn script(
        &self,
        id: &str,
        after: usize,
        limit: usize,
    ) -> Result<Option<ScriptSeen>, Error> {
        let Some((row, state, ended_ms)) = self.store.script(id).await? else { return Ok(None) };
        let read = tokio::task::spawn_blocking(move || {
            let place = Path::new(&row.workspace);
            let mut seen = ScriptSeen {
                state: match state {
                    store::ScriptState::Running => "running",
                    store::ScriptState::Finished => "finished",
                    store::ScriptState::Interrupted => "interrupted",
                },
                ended_ms: (ended_ms > 0).then_some(ended_ms),
                directory: format!(".agent/scripts/{}", row.id),
                calls: Vec::new(),
                next_calls: None,
                output: String::new(),
                output_bytes: 0,
                missing: Vec::new(),
                id: row.id.clone(),
                principal: row.principal,
                profile: row.profile,
                session: row.session,
                description: row.description,
                code: row.code,
                isolation: row.isolation,
                started_ms: row.started_ms,
            };
            match calls(place, &row.id, after, limit) {
                Ok((calls, next)) => (seen.calls, seen.next_calls) = (calls, next),
                Err(reason) => seen.missing.push(reason),
            }
            match output(place, &row.id) {
                Ok((output, bytes)) => (seen.output, seen.output_bytes) = (output, bytes),
                Err(reason) => seen.missing.push(reason),
            }
            seen
        });
        read.await
            .map(Some)
            .map_err(|error| Error::Setting(format!("the records cannot be read: {error}")))
    }

    /// Notices what has expired, and tells it.
    async fn expire_approvals(&self) -> Result<(), Error> {
        for row in self.store.expire_approvals(now_ms()).await? {
            self.tell_expired(&row);
        }
        Ok(())
    }
}

type Lines = (Vec<Box<RawValue>>, Option<usize>);

fn calls(workspace: &Path, id: &str, after: usize, limit: usize) -> Result<Lines, String> {
    let file = folder::read(workspace, id, "calls.jsonl")?;
    let mut lines = BufReader::new(file.take(CALLS)).split(b'\n').skip(after);
    let mut calls = Vec::new();
    for line in lines.by_ref().take(limit) {
        let line = line.map_err(|error| format!("calls.jsonl cannot be read: {error}"))?;
        // A line that is being written just now is not whole.
        if let Ok(call) = serde_json::from_slice(&line) {
            calls.push(call);
        }
    }
    let more = lines.next().is_some_and(|line| line.is_ok());
    Ok((calls, more.then_some(after + limit)))
}

fn output(workspace: &Path, id: &str) -> Result<(String, u64), String> {
    let failed = |error: std::io::Error| format!("output.txt cannot be read: {error}");
    let file = folder::read(workspace, id, "output.txt")?;
    let bytes = file.metadata().map_err(failed)?.len();
    let mut start = Vec::new();
    file.take(OUTPUT).read_to_end(&mut start).map_err(failed)?;
    Ok((String::from_utf8_lossy(&start).into_owned(), bytes))
}

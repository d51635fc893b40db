//! Scripts that run or ran, and the intents of calls that write.
//!
//! An intent is on disk before its call is sent and is closed when the answer is there; one that a
//! crash left pending becomes `unknown`, never a success.

use sqlx::Row;
use sqlx::any::AnyRow;

use crate::audit::AuditRow;
use crate::dialect::Durability;
use crate::{Error, Store};

/// A script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptRow {
    /// Names it and its records.
    pub id: String,
    /// The process that runs it.
    pub owner: String,
    /// In which session.
    pub session: String,
    /// Who.
    pub principal: String,
    /// Under which profile.
    pub profile: String,
    /// Where its records are: `.agent/scripts/<id>` below this directory.
    pub workspace: String,
    /// What its author says it does.
    pub description: String,
    /// The script itself.
    pub code: String,
    /// The isolation level in force.
    pub isolation: String,
    /// When it started.
    pub started_ms: i64,
}

/// How a script is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptState {
    /// It runs.
    Running,
    /// It is over, well or not.
    Finished,
    /// The process that ran it is gone.
    Interrupted,
}

impl ScriptState {
    fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Interrupted => "interrupted",
        }
    }

    fn parse(text: &str) -> Self {
        match text {
            "running" => Self::Running,
            "finished" => Self::Finished,
            _ => Self::Interrupted,
        }
    }
}

/// A call that writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntentRow {
    /// Names it.
    pub id: String,
    /// The process that makes the call.
    pub owner: String,
    /// The script it belongs to; empty for a direct call.
    pub script: String,
    /// Its number in the script.
    pub number: i64,
    /// In which session.
    pub session: String,
    /// Who.
    pub principal: String,
    /// Under which profile.
    pub profile: String,
    /// Which tool.
    pub tool: String,
    /// With what, cut.
    pub arguments: String,
    /// How it is.
    pub state: IntentState,
    /// When it was made.
    pub at_ms: i64,
}

/// How an intent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntentState {
    /// Sent, or about to be.
    Pending,
    /// The tool answered.
    Done,
    /// The tool answered with an error, or the call was never sent.
    Failed,
    /// Nobody knows whether it took effect.
    Unknown,
}

impl IntentState {
    fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }

    fn parse(text: &str) -> Self {
        match text {
            "done" => Self::Done,
            "failed" => Self::Failed,
            "pending" => Self::Pending,
            _ => Self::Unknown,
        }
    }
}

const SCRIPT: &str =
    "id, owner, session, principal, profile, workspace, description, code, isolation, started_ms";
const INTENT: &str = "id, owner, script, number, session, principal, profile, tool, arguments, \
                      state, at_ms";

fn script(row: &AnyRow) -> Result<ScriptRow, Error> {
    Ok(ScriptRow {
        id: row.try_get("id")?,
        owner: row.try_get("owner")?,
        session: row.try_get("session")?,
        principal: row.try_get("principal")?,
        profile: row.try_get("profile")?,
        workspace: row.try_get("workspace")?,
        description: row.try_get("description")?,
        code: row.try_get("code")?,
        isolation: row.try_get("isolation")?,
        started_ms: row.try_get("started_ms")?,
    })
}

fn intent(row: &AnyRow) -> Result<IntentRow, Error> {
    Ok(IntentRow {
        id: row.try_get("id")?,
        owner: row.try_get("owner")?,
        script: row.try_get("script")?,
        number: row.try_get("number")?,
        session: row.try_get("session")?,
        principal: row.try_get("principal")?,
        profile: row.try_get("profile")?,
        tool: row.try_get("tool")?,
        arguments: row.try_get("arguments")?,
        state: IntentState::parse(row.try_get::<String, _>("state")?.as_str()),
        at_ms: row.try_get("at_ms")?,
    })
}

async fn end_script(
    connection: &mut sqlx::AnyConnection,
    id: &str,
    state: ScriptState,
    now_ms: i64,
) -> Result<bool, Error> {
    let changed = sqlx::query(
        "UPDATE scripts SET state = $2, ended_ms = $3 WHERE id = $1 AND state = 'running'",
    )
    .bind(id)
    .bind(state.name())
    .bind(now_ms)
    .execute(connection)
    .await?
    .rows_affected();
    Ok(changed > 0)
}

async fn end_intent(
    connection: &mut sqlx::AnyConnection,
    id: &str,
    state: IntentState,
    now_ms: i64,
) -> Result<bool, Error> {
    let changed = sqlx::query(
        "UPDATE intents SET state = $2, ended_ms = $3 WHERE id = $1 AND state = 'pending'",
    )
    .bind(id)
    .bind(state.name())
    .bind(now_ms)
    .execute(connection)
    .await?
    .rows_affected();
    Ok(changed > 0)
}

impl Store {
    /// A script is about to start.
    pub async fn script_started(&self, row: &ScriptRow) -> Result<(), Error> {
        let mut single = self.write_one(Durability::Process).await?;
        sqlx::query(
            "INSERT INTO scripts (id, owner, session, principal, profile, workspace, description, \
             code, isolation, state, started_ms, ended_ms) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'running', $10, 0)",
        )
        .bind(&row.id)
        .bind(&row.owner)
        .bind(&row.session)
        .bind(&row.principal)
        .bind(&row.profile)
        .bind(&row.workspace)
        .bind(&row.description)
        .bind(&row.code)
        .bind(&row.isolation)
        .bind(row.started_ms)
        .execute(single.connection())
        .await?;
        Ok(())
    }

    /// A script is over; its audit row is written with it. False, and no row, if somebody else
    /// ended it before.
    pub async fn script_ended(
        &self,
        id: &str,
        state: ScriptState,
        audit: &AuditRow,
        now_ms: i64,
    ) -> Result<bool, Error> {
        let mut writing = self.write(Durability::Process).await?;
        if !end_script(writing.connection(), id, state, now_ms).await? {
            writing.roll_back().await?;
            return Ok(false);
        }
        crate::audit::insert(writing.connection(), audit).await?;
        writing.commit().await?;
        Ok(true)
    }

    /// A call that writes is about to be sent. On disk, safe from a power cut, on return.
    pub async fn intend(&self, row: &IntentRow) -> Result<(), Error> {
        let mut single = self.write_one(Durability::Machine).await?;
        sqlx::query(
            "INSERT INTO intents (id, owner, script, number, session, principal, profile, tool, \
             arguments, state, at_ms, ended_ms) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'pending', $10, 0)",
        )
        .bind(&row.id)
        .bind(&row.owner)
        .bind(&row.script)
        .bind(row.number)
        .bind(&row.session)
        .bind(&row.principal)
        .bind(&row.profile)
        .bind(&row.tool)
        .bind(&row.arguments)
        .bind(row.at_ms)
        .execute(single.connection())
        .await?;
        Ok(())
    }

    /// The call of an intent is over; with it the audit row of a direct call. False, and no row,
    /// if it was not pending.
    pub async fn intent_ended(
        &self,
        id: &str,
        state: IntentState,
        audit: Option<&AuditRow>,
        now_ms: i64,
    ) -> Result<bool, Error> {
        let Some(audit) = audit else {
            let mut single = self.write_one(Durability::Process).await?;
            return end_intent(single.connection(), id, state, now_ms).await;
        };
        let mut writing = self.write(Durability::Process).await?;
        if !end_intent(writing.connection(), id, state, now_ms).await? {
            writing.roll_back().await?;
            return Ok(false);
        }
        crate::audit::insert(writing.connection(), audit).await?;
        writing.commit().await?;
        Ok(true)
    }

    /// Scripts of this process that are still marked as running.
    pub async fn running_scripts(&self, owner: &str) -> Result<Vec<ScriptRow>, Error> {
        let statement = sqlx::AssertSqlSafe(format!(
            "SELECT {SCRIPT} FROM scripts WHERE owner = $1 AND state = 'running' ORDER BY id"
        ));
        let rows = sqlx::query(statement).bind(owner).fetch_all(&mut *self.read().await?).await?;
        rows.iter().map(script).collect()
    }

    /// Calls of this process that are still marked as pending.
    pub async fn pending_intents(&self, owner: &str) -> Result<Vec<IntentRow>, Error> {
        let statement = sqlx::AssertSqlSafe(format!(
            "SELECT {INTENT} FROM intents WHERE owner = $1 AND state = 'pending' \
             ORDER BY script, number, id"
        ));
        let rows = sqlx::query(statement).bind(owner).fetch_all(&mut *self.read().await?).await?;
        rows.iter().map(intent).collect()
    }

    /// All intents of a script, in the order of its calls.
    pub async fn intents_of(&self, script: &str) -> Result<Vec<IntentRow>, Error> {
        let statement = sqlx::AssertSqlSafe(format!(
            "SELECT {INTENT} FROM intents WHERE script = $1 ORDER BY number, id"
        ));
        let rows = sqlx::query(statement).bind(script).fetch_all(&mut *self.read().await?).await?;
        rows.iter().map(intent).collect()
    }

    /// A script, how it is and when it ended (0 before).
    pub async fn script(&self, id: &str) -> Result<Option<(ScriptRow, ScriptState, i64)>, Error> {
        let statement = sqlx::AssertSqlSafe(format!(
            "SELECT {SCRIPT}, state, ended_ms FROM scripts WHERE id = $1"
        ));
        let found =
            sqlx::query(statement).bind(id).fetch_optional(&mut *self.read().await?).await?;
        let Some(row) = found else { return Ok(None) };
        let state = ScriptState::parse(row.try_get::<String, _>("state")?.as_str());
        Ok(Some((script(&row)?, state, row.try_get("ended_ms")?)))
    }

    /// How a script is, if it is known.
    pub async fn script_state(&self, id: &str) -> Result<Option<ScriptState>, Error> {
        let state: Option<String> = sqlx::query_scalar("SELECT state FROM scripts WHERE id = $1")
            .bind(id)
            .fetch_optional(&mut *self.read().await?)
            .await?;
        Ok(state.map(|state| ScriptState::parse(&state)))
    }
}

//! Calls that go on after their caller was told "still running", and what came of them.
//!
//! A call has one end: the first that is written counts. One that was cancelled stays so, however
//! its work ends; the result of what was done until then may still be added, once.

use sqlx::Row;
use sqlx::any::AnyRow;

use crate::dialect::Durability;
use crate::{Error, Store};

/// A call in the background.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundRow {
    /// Names it; rises with time.
    pub id: String,
    /// The process that carries it out.
    pub owner: String,
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
    /// Hash of the whole of the arguments.
    pub digest: String,
    /// What it does, in the caller's words; may be empty.
    pub description: String,
    /// How it is.
    pub state: BackgroundState,
    /// What the tool answered, a JSON object; empty while there is none, and in lists.
    pub result: String,
    /// When it was called.
    pub started_ms: i64,
    /// When its work was over; 0 before.
    pub ended_ms: i64,
    /// When it may be forgotten.
    pub expires_ms: i64,
}

/// How a call in the background is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackgroundState {
    /// It runs.
    Running,
    /// The tool answered.
    Finished,
    /// The tool answered with an error, or gave no answer.
    Failed,
    /// Somebody ended it. While `ended_ms` is 0, its work is not over yet.
    Cancelled,
    /// Its process ended first.
    Interrupted,
}

impl BackgroundState {
    fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
        }
    }

    fn parse(text: &str) -> Self {
        match text {
            "running" => Self::Running,
            "finished" => Self::Finished,
            "cancelled" => Self::Cancelled,
            "interrupted" => Self::Interrupted,
            _ => Self::Failed,
        }
    }
}

/// Which calls are wanted.
#[derive(Clone, Debug, Default)]
pub struct BackgroundFilter {
    /// Only of this session.
    pub session: Option<String>,
    /// Only of this principal.
    pub principal: Option<String>,
    /// Only those whose work is not over.
    pub underway: bool,
    /// Only older than the one with this id.
    pub before: Option<String>,
    /// At most so many.
    pub limit: u32,
}

const COLUMNS: &str = "id, owner, session, principal, profile, tool, arguments, digest, \
                       description, state, started_ms, ended_ms, expires_ms";

fn background(row: &AnyRow) -> Result<BackgroundRow, Error> {
    Ok(BackgroundRow {
        id: row.try_get("id")?,
        owner: row.try_get("owner")?,
        session: row.try_get("session")?,
        principal: row.try_get("principal")?,
        profile: row.try_get("profile")?,
        tool: row.try_get("tool")?,
        arguments: row.try_get("arguments")?,
        digest: row.try_get("digest")?,
        description: row.try_get("description")?,
        state: BackgroundState::parse(row.try_get::<String, _>("state")?.as_str()),
        result: row.try_get("result")?,
        started_ms: row.try_get("started_ms")?,
        ended_ms: row.try_get("ended_ms")?,
        expires_ms: row.try_get("expires_ms")?,
    })
}

impl Store {
    /// A call goes on in the background.
    pub async fn background_started(&self, row: &BackgroundRow) -> Result<(), Error> {
        let mut single = self.write_one(Durability::Process).await?;
        sqlx::query(
            "INSERT INTO background_calls (id, owner, session, principal, profile, tool, \
             arguments, digest, description, state, result, started_ms, ended_ms, expires_ms) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
        )
        .bind(&row.id)
        .bind(&row.owner)
        .bind(&row.session)
        .bind(&row.principal)
        .bind(&row.profile)
        .bind(&row.tool)
        .bind(&row.arguments)
        .bind(&row.digest)
        .bind(&row.description)
        .bind(row.state.name())
        .bind(&row.result)
        .bind(row.started_ms)
        .bind(row.ended_ms)
        .bind(row.expires_ms)
        .execute(single.connection())
        .await?;
        Ok(())
    }

    /// Its work is over. False, and nothing changed, if it was over before. One that was cancelled
    /// keeps that state.
    pub async fn background_ended(
        &self,
        id: &str,
        state: BackgroundState,
        result: &str,
        now_ms: i64,
    ) -> Result<bool, Error> {
        let mut single = self.write_one(Durability::Process).await?;
        let changed = sqlx::query(
            "UPDATE background_calls \
             SET state = CASE WHEN state = 'running' THEN $2 ELSE state END, result = $3, \
             ended_ms = $4 WHERE id = $1 AND ended_ms = 0",
        )
        .bind(id)
        .bind(state.name())
        .bind(result)
        .bind(now_ms)
        .execute(single.connection())
        .await?
        .rows_affected();
        Ok(changed > 0)
    }

    /// Somebody wants it to end. False if it does not run any more.
    pub async fn cancel_background(&self, id: &str) -> Result<bool, Error> {
        let mut single = self.write_one(Durability::Process).await?;
        let changed = sqlx::query(
            "UPDATE background_calls SET state = 'cancelled' WHERE id = $1 AND state = 'running'",
        )
        .bind(id)
        .execute(single.connection())
        .await?
        .rows_affected();
        Ok(changed > 0)
    }

    /// One of them, with its result.
    pub async fn background_call(&self, id: &str) -> Result<Option<BackgroundRow>, Error> {
        let statement = sqlx::AssertSqlSafe(format!(
            "SELECT {COLUMNS}, result FROM background_calls WHERE id = $1"
        ));
        let row = sqlx::query(statement).bind(id).fetch_optional(&mut *self.read().await?).await?;
        row.as_ref().map(background).transpose()
    }

    /// How one of them is, without what may be large.
    pub async fn background_state(&self, id: &str) -> Result<Option<BackgroundState>, Error> {
        let state: Option<String> =
            sqlx::query_scalar("SELECT state FROM background_calls WHERE id = $1")
                .bind(id)
                .fetch_optional(&mut *self.read().await?)
                .await?;
        Ok(state.map(|state| BackgroundState::parse(&state)))
    }

    /// Newest first, without their results.
    pub async fn background_calls(
        &self,
        filter: &BackgroundFilter,
    ) -> Result<Vec<BackgroundRow>, Error> {
        let statement = sqlx::AssertSqlSafe(format!(
            "SELECT {COLUMNS}, '' AS result FROM background_calls \
             WHERE ($1 = '' OR session = $1) AND ($2 = '' OR principal = $2) \
             AND ($3 = 0 OR ended_ms = 0) AND ($4 = '' OR id < $4) ORDER BY id DESC LIMIT $5"
        ));
        let rows = sqlx::query(statement)
            .bind(filter.session.as_deref().unwrap_or_default())
            .bind(filter.principal.as_deref().unwrap_or_default())
            .bind(i64::from(filter.underway))
            .bind(filter.before.as_deref().unwrap_or_default())
            .bind(i64::from(filter.limit))
            .fetch_all(&mut *self.read().await?)
            .await?;
        rows.iter().map(background).collect()
    }

    /// Those of a process whose work is not over.
    pub async fn background_underway(&self, owner: &str) -> Result<Vec<BackgroundRow>, Error> {
        let statement = sqlx::AssertSqlSafe(format!(
            "SELECT {COLUMNS}, '' AS result FROM background_calls \
             WHERE owner = $1 AND ended_ms = 0 ORDER BY id"
        ));
        let rows = sqlx::query(statement).bind(owner).fetch_all(&mut *self.read().await?).await?;
        rows.iter().map(background).collect()
    }

    /// Forgets what is over and has expired, and of the session's the oldest beyond `keep`.
    pub async fn forget_background(
        &self,
        session: &str,
        keep: u32,
        now_ms: i64,
    ) -> Result<(), Error> {
        let mut writing = self.write(Durability::Process).await?;
        sqlx::query("DELETE FROM background_calls WHERE expires_ms <= $1 AND ended_ms > 0")
            .bind(now_ms)
            .execute(writing.connection())
            .await?;
        sqlx::query(
            "DELETE FROM background_calls WHERE session = $1 AND ended_ms > 0 AND id NOT IN \
             (SELECT id FROM background_calls WHERE session = $1 ORDER BY id DESC LIMIT $2)",
        )
        .bind(session)
        .bind(i64::from(keep))
        .execute(writing.connection())
        .await?;
        writing.commit().await
    }
}

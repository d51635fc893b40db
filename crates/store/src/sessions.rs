//! Sessions, and what was allowed for the rest of one.

use sqlx::Row;
use sqlx::any::AnyRow;

use crate::dialect::Durability;
use crate::{Error, Store};

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// Names it.
    pub id: String,
    /// Who.
    pub principal: String,
    /// Under which profile.
    pub profile: String,
    /// What the client calls it.
    pub key: String,
    /// Now.
    pub at_ms: i64,
}

/// A session as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSeen {
    /// Names it.
    pub id: String,
    /// Who.
    pub principal: String,
    /// Under which profile.
    pub profile: String,
    /// What the client calls it.
    pub key: String,
    /// When it was first used.
    pub started_ms: i64,
    /// When it was last opened.
    pub seen_ms: i64,
}

/// Which sessions are wanted.
#[derive(Clone, Debug, Default)]
pub struct SessionFilter {
    /// Only of this principal.
    pub principal: Option<String>,
    /// Only those that come after this one, which is named by its start and its id.
    pub before: Option<(i64, String)>,
    /// At most so many.
    pub limit: u32,
}

const SEEN: &str = "id, principal, profile, session_key, started_ms, seen_ms";

fn seen(row: &AnyRow) -> Result<SessionSeen, Error> {
    Ok(SessionSeen {
        id: row.try_get("id")?,
        principal: row.try_get("principal")?,
        profile: row.try_get("profile")?,
        key: row.try_get("session_key")?,
        started_ms: row.try_get("started_ms")?,
        seen_ms: row.try_get("seen_ms")?,
    })
}

impl Store {
    /// One session.
    pub async fn session(&self, id: &str) -> Result<Option<SessionSeen>, Error> {
        let statement = sqlx::AssertSqlSafe(format!("SELECT {SEEN} FROM sessions WHERE id = $1"));
        let found =
            sqlx::query(statement).bind(id).fetch_optional(&mut *self.read().await?).await?;
        found.as_ref().map(seen).transpose()
    }

    /// Sessions, those that started last first.
    pub async fn sessions(&self, filter: &SessionFilter) -> Result<Vec<SessionSeen>, Error> {
        let statement = sqlx::AssertSqlSafe(format!(
            "SELECT {SEEN} FROM sessions WHERE ($1 = '' OR principal = $1) \
             AND (started_ms < $2 OR (started_ms = $2 AND id < $3)) \
             ORDER BY started_ms DESC, id DESC LIMIT $4"
        ));
        let (at, id) = filter.before.as_ref().map_or((i64::MAX, ""), |(at, id)| (*at, id.as_str()));
        let found = sqlx::query(statement)
            .bind(filter.principal.as_deref().unwrap_or_default())
            .bind(at)
            .bind(id)
            .bind(i64::from(filter.limit))
            .fetch_all(&mut *self.read().await?)
            .await?;
        found.iter().map(seen).collect()
    }

    /// Notes that the session is (again) in use.
    pub async fn touch_session(&self, row: &SessionRow) -> Result<(), Error> {
        let mut single = self.write_one(Durability::Process).await?;
        sqlx::query(
            "INSERT INTO sessions (id, principal, profile, session_key, started_ms, seen_ms) \
             VALUES ($1, $2, $3, $4, $5, $5) \
             ON CONFLICT (id) DO UPDATE SET seen_ms = excluded.seen_ms",
        )
        .bind(&row.id)
        .bind(&row.principal)
        .bind(&row.profile)
        .bind(&row.key)
        .bind(row.at_ms)
        .execute(single.connection())
        .await?;
        Ok(())
    }

    /// Whether this very definition of the tool was allowed for the rest of the session.
    pub async fn session_allows(
        &self,
        session: &str,
        tool: &str,
        definition: &str,
    ) -> Result<bool, Error> {
        let found: i64 = sqlx::query_scalar(
            "SELECT COUNT(*) FROM session_allows \
             WHERE session = $1 AND tool = $2 AND definition = $3",
        )
        .bind(session)
        .bind(tool)
        .bind(definition)
        .fetch_one(&mut *self.read().await?)
        .await?;
        Ok(found > 0)
    }
}

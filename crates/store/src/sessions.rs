//! Sessions, and what was allowed for the rest of one.

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

impl Store {
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

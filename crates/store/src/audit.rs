//! The audit: one row for a script, one for a direct call, one for a refusal.

use sqlx::Row;

use crate::dialect::Durability;
use crate::{Error, Store};

/// One row of the audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    /// Names it; rises with time.
    pub id: String,
    /// When.
    pub at_ms: i64,
    /// `script` or `call`.
    pub kind: String,
    /// Who.
    pub principal: String,
    /// Under which profile.
    pub profile: String,
    /// In which session.
    pub session: String,
    /// Which tool.
    pub tool: String,
    /// How it ended: `ok`, `failed`, `refused`, `cancelled`, `interrupted`, `unknown` …
    pub outcome: String,
    /// The isolation level in force; empty where nothing was confined.
    pub isolation: String,
    /// All the rest, a JSON object.
    pub detail: String,
}

/// Which rows are wanted.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// Only of this session.
    pub session: Option<String>,
    /// Only of this principal.
    pub principal: Option<String>,
    /// Only about this tool.
    pub tool: Option<String>,
    /// Only with this outcome.
    pub outcome: Option<String>,
    /// Only from this time on, in milliseconds since 1970.
    pub from_ms: Option<i64>,
    /// Only before this time.
    pub to_ms: Option<i64>,
    /// Only older than the row with this id.
    pub before: Option<String>,
    /// At most so many.
    pub limit: u32,
}

pub(crate) async fn insert(
    connection: &mut sqlx::AnyConnection,
    row: &AuditRow,
) -> Result<(), Error> {
    sqlx::query(
        "INSERT INTO audit (id, at_ms, kind, principal, profile, session, tool, outcome, \
         isolation, detail) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) \
         ON CONFLICT (id) DO NOTHING",
    )
    .bind(&row.id)
    .bind(row.at_ms)
    .bind(&row.kind)
    .bind(&row.principal)
    .bind(&row.profile)
    .bind(&row.session)
    .bind(&row.tool)
    .bind(&row.outcome)
    .bind(&row.isolation)
    .bind(&row.detail)
    .execute(connection)
    .await?;
    Ok(())
}

impl Store {
    /// Adds rows, all or none.
    pub async fn audit(&self, rows: &[AuditRow]) -> Result<(), Error> {
        if let [row] = rows {
            return insert(self.write_one(Durability::Process).await?.connection(), row).await;
        }
        let mut writing = self.write(Durability::Process).await?;
        for row in rows {
            insert(writing.connection(), row).await?;
        }
        writing.commit().await
    }

    /// Rows, newest first.
    pub async fn audit_rows(&self, filter: &AuditFilter) -> Result<Vec<AuditRow>, Error> {
        let rows = sqlx::query(
            "SELECT id, at_ms, kind, principal, profile, session, tool, outcome, isolation, \
             detail FROM audit WHERE ($1 = '' OR session = $1) AND ($2 = '' OR id < $2) \
             AND ($4 = '' OR principal = $4) AND ($5 = '' OR tool = $5) \
             AND ($6 = '' OR outcome = $6) AND at_ms >= $7 AND at_ms < $8 \
             ORDER BY id DESC LIMIT $3",
        )
        .bind(filter.session.as_deref().unwrap_or_default())
        .bind(filter.before.as_deref().unwrap_or_default())
        .bind(i64::from(filter.limit))
        .bind(filter.principal.as_deref().unwrap_or_default())
        .bind(filter.tool.as_deref().unwrap_or_default())
        .bind(filter.outcome.as_deref().unwrap_or_default())
        .bind(filter.from_ms.unwrap_or(i64::MIN))
        .bind(filter.to_ms.unwrap_or(i64::MAX))
        .fetch_all(&mut *self.read().await?)
        .await?;
        rows.iter()
            .map(|row| {
                Ok(AuditRow {
                    id: row.try_get("id")?,
                    at_ms: row.try_get("at_ms")?,
                    kind: row.try_get("kind")?,
                    principal: row.try_get("principal")?,
                    profile: row.try_get("profile")?,
                    session: row.try_get("session")?,
                    tool: row.try_get("tool")?,
                    outcome: row.try_get("outcome")?,
                    isolation: row.try_get("isolation")?,
                    detail: row.try_get("detail")?,
                })
            })
            .collect()
    }
}

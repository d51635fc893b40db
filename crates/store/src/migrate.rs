//! Brings the tables up to date, forward only, one transaction for each step.
//!
//! The same files serve both databases. A file that was released is never changed.

use crate::dialect::Durability;
use crate::{Error, Store};

const STEPS: [&str; 4] = [
    include_str!("../migrations/0001_first.sql"),
    include_str!("../migrations/0002_events.sql"),
    include_str!("../migrations/0003_credentials.sql"),
    include_str!("../migrations/0004_background.sql"),
];

pub(crate) async fn run(store: &Store) -> Result<(), Error> {
    let known = STEPS.len() as i64;
    loop {
        let mut writing = store.write(Durability::Machine).await?;
        store.lock_for_migration(&mut writing).await?;
        sqlx::raw_sql(
            "CREATE TABLE IF NOT EXISTS schema_steps (version BIGINT PRIMARY KEY, at_ms BIGINT NOT NULL)",
        )
        .execute(writing.connection())
        .await?;
        let found: i64 = sqlx::query_scalar("SELECT COALESCE(MAX(version), 0) FROM schema_steps")
            .fetch_one(writing.connection())
            .await?;
        if found > known {
            return Err(Error::TooNew { found, known });
        }
        let Some(step) = usize::try_from(found).ok().and_then(|found| STEPS.get(found)) else {
            return writing.commit().await;
        };
        sqlx::raw_sql(*step).execute(writing.connection()).await?;
        sqlx::query("INSERT INTO schema_steps (version, at_ms) VALUES ($1, $2)")
            .bind(found + 1)
            .bind(jiff::Timestamp::now().as_millisecond())
            .execute(writing.connection())
            .await?;
        writing.commit().await?;
    }
}

//! What happened in sessions, for whoever listens.
//!
//! Ids rise over all sessions in the order in which rows become visible, because whoever adds rows
//! holds the one row of `event_head` until they are committed. So "what is after this id" misses
//! nothing, whichever process wrote it. Old rows are removed; up to which id is remembered.

use sqlx::Row;
use sqlx::any::AnyRow;

use crate::dialect::Durability;
use crate::{Error, Store};

/// Rows of one statement, so that the parameters stay below what both databases take.
const ROWS: usize = 50;

/// Rows that are removed at once, so that nobody waits long for it.
const PRUNED: i64 = 5_000;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// In which session.
    pub session: String,
    /// When.
    pub at_ms: i64,
    /// What kind of thing.
    pub kind: String,
    /// All the rest, a JSON object.
    pub data: String,
}

/// An event as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRow {
    /// Names it; rises.
    pub id: i64,
    /// In which session.
    pub session: String,
    /// When.
    pub at_ms: i64,
    /// What kind of thing.
    pub kind: String,
    /// All the rest, a JSON object.
    pub data: String,
}

/// Which events there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventHead {
    /// The newest one's id.
    pub last: i64,
    /// Up to this id they may have been removed.
    pub pruned: i64,
}

fn row(row: &AnyRow) -> Result<EventRow, Error> {
    Ok(EventRow {
        id: row.try_get("id")?,
        session: row.try_get("session")?,
        at_ms: row.try_get("at_ms")?,
        kind: row.try_get("kind")?,
        data: row.try_get("data")?,
    })
}

impl Store {
    /// Adds events in their order, all or none; the id of the last one.
    pub async fn add_events(&self, events: &[NewEvent]) -> Result<i64, Error> {
        let count = i64::try_from(events.len()).unwrap_or(i64::MAX);
        let mut writing = self.write(Durability::Process).await?;
        let last: i64 = sqlx::query_scalar(
            "UPDATE event_head SET last_id = last_id + $1 WHERE one = 1 RETURNING last_id",
        )
        .bind(count)
        .fetch_one(writing.connection())
        .await?;
        let mut id = last - count;
        for events in events.chunks(ROWS) {
            let places: Vec<String> = (0..events.len())
                .map(|row| {
                    let first = row * 5;
                    let [a, b, c, d, e] = [1, 2, 3, 4, 5].map(|column| first + column);
                    format!("(${a}, ${b}, ${c}, ${d}, ${e})")
                })
                .collect();
            let statement = sqlx::AssertSqlSafe(format!(
                "INSERT INTO events (id, session, at_ms, kind, data) VALUES {}",
                places.join(", ")
            ));
            let mut query = sqlx::query(statement);
            for event in events {
                id += 1;
                query = query
                    .bind(id)
                    .bind(&event.session)
                    .bind(event.at_ms)
                    .bind(&event.kind)
                    .bind(&event.data);
            }
            query.execute(writing.connection()).await?;
        }
        writing.commit().await?;
        Ok(last)
    }

    /// Which events there are.
    pub async fn event_head(&self) -> Result<EventHead, Error> {
        let head = sqlx::query("SELECT last_id, pruned_id FROM event_head WHERE one = 1")
            .fetch_one(&mut *self.read().await?)
            .await?;
        Ok(EventHead { last: head.try_get("last_id")?, pruned: head.try_get("pruned_id")? })
    }

    /// Events of all sessions after this id, oldest first.
    pub async fn events_after(&self, after: i64, limit: u32) -> Result<Vec<EventRow>, Error> {
        let found = sqlx::query(
            "SELECT id, session, at_ms, kind, data FROM events WHERE id > $1 ORDER BY id LIMIT $2",
        )
        .bind(after)
        .bind(i64::from(limit))
        .fetch_all(&mut *self.read().await?)
        .await?;
        found.iter().map(row).collect()
    }

    /// Events of one session after this id, oldest first.
    pub async fn session_events(
        &self,
        session: &str,
        after: i64,
        limit: u32,
    ) -> Result<Vec<EventRow>, Error> {
        let found = sqlx::query(
            "SELECT id, session, at_ms, kind, data FROM events \
             WHERE session = $1 AND id > $2 ORDER BY id LIMIT $3",
        )
        .bind(session)
        .bind(after)
        .bind(i64::from(limit))
        .fetch_all(&mut *self.read().await?)
        .await?;
        found.iter().map(row).collect()
    }

    /// Removes events that are older than `before_ms` or more than the newest `keep`, some at a
    /// time. Whether there is more to remove.
    pub async fn prune_events(&self, keep: i64, before_ms: i64) -> Result<bool, Error> {
        let mut writing = self.write(Durability::Process).await?;
        let head = sqlx::query("SELECT last_id, pruned_id FROM event_head WHERE one = 1")
            .fetch_one(writing.connection())
            .await?;
        let (last, pruned): (i64, i64) = (head.try_get("last_id")?, head.try_get("pruned_id")?);
        let young: Option<i64> =
            sqlx::query_scalar("SELECT id FROM events WHERE at_ms >= $1 ORDER BY id LIMIT 1")
                .bind(before_ms)
                .fetch_optional(writing.connection())
                .await?;
        let all = young.map_or(last, |id| id - 1).max(last - keep);
        let now = all.min(pruned + PRUNED);
        if now <= pruned {
            writing.roll_back().await?;
            return Ok(false);
        }
        sqlx::query("DELETE FROM events WHERE id <= $1")
            .bind(now)
            .execute(writing.connection())
            .await?;
        sqlx::query("UPDATE event_head SET pruned_id = $1 WHERE one = 1 AND pruned_id < $1")
            .bind(now)
            .execute(writing.connection())
            .await?;
        writing.commit().await?;
        Ok(now < all)
    }
}

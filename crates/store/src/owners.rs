//! The processes that share the database. What one of them runs belongs to it until it is gone;
//! whether it is gone, its neighbours find out (the gateway's `owner`), not this crate.

use sqlx::Row;

use crate::dialect::Durability;
use crate::{Error, Store};

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Names it, for ever.
    pub id: String,
    /// Where its lock file is.
    pub place: String,
    /// Its process id, for people.
    pub process: i64,
    /// When it started.
    pub started_ms: i64,
    /// When it last said that it lives.
    pub seen_ms: i64,
}

impl Store {
    /// Adds a process, or notes that it still lives.
    pub async fn touch_owner(&self, owner: &Owner) -> Result<(), Error> {
        let mut single = self.write_one(Durability::Process).await?;
        sqlx::query(
            "INSERT INTO owners (id, place, process, started_ms, seen_ms) \
             VALUES ($1, $2, $3, $4, $5) \
             ON CONFLICT (id) DO UPDATE SET seen_ms = excluded.seen_ms",
        )
        .bind(&owner.id)
        .bind(&owner.place)
        .bind(owner.process)
        .bind(owner.started_ms)
        .bind(owner.seen_ms)
        .execute(single.connection())
        .await?;
        Ok(())
    }

    /// All of them.
    pub async fn owners(&self) -> Result<Vec<Owner>, Error> {
        let rows = sqlx::query("SELECT id, place, process, started_ms, seen_ms FROM owners")
            .fetch_all(&mut *self.read().await?)
            .await?;
        rows.iter()
            .map(|row| {
                Ok(Owner {
                    id: row.try_get("id")?,
                    place: row.try_get("place")?,
                    process: row.try_get("process")?,
                    started_ms: row.try_get("started_ms")?,
                    seen_ms: row.try_get("seen_ms")?,
                })
            })
            .collect()
    }

    /// Removes a process that has nothing unfinished left.
    pub async fn remove_owner(&self, id: &str) -> Result<(), Error> {
        let mut single = self.write_one(Durability::Process).await?;
        sqlx::query("DELETE FROM owners WHERE id = $1")
            .bind(id)
            .execute(single.connection())
            .await?;
        Ok(())
    }
}

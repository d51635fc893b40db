//! Credentials for the servers that want a login, sealed by whoever writes them: what is in them
//! is not known here, and the key is never in the database.
//!
//! A refresh token may count only once, so of all processes one at a time has the claim to renew a
//! credential. A claim is given up by its holder or, where that died, taken over by somebody who has
//! seen the same claim for long enough; no clock is compared with another machine's.

use sqlx::Row;
use uuid::Uuid;

use crate::dialect::Durability;
use crate::{Error, Store};

/// Whose credential it is: the server's name and, since a token must never go anywhere else, its
/// address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CredentialPlace<'a> {
    /// The server's name in the configuration.
    pub server: &'a str,
    /// A digest of its address, which may hold a secret.
    pub address: &'a str,
}

/// A sealed credential.
#[derive(Clone, PartialEq, Eq)]
pub struct CredentialRow {
    /// Changes with every change of what is sealed, and is never used again.
    pub version: String,
    /// Who renews it now; empty if nobody does.
    pub claim: String,
    /// What only the holder of the key can read.
    pub sealed: String,
    /// When it was last changed.
    pub changed_ms: i64,
}

impl std::fmt::Debug for CredentialRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CredentialRow").field("version", &self.version).finish_non_exhaustive()
    }
}

impl Store {
    /// The credential of this place, if there is one.
    pub async fn credential(
        &self,
        place: CredentialPlace<'_>,
    ) -> Result<Option<CredentialRow>, Error> {
        let row = sqlx::query(
            "SELECT version, claim, sealed, changed_ms FROM credentials \
             WHERE server = $1 AND address = $2",
        )
        .bind(place.server)
        .bind(place.address)
        .fetch_optional(&mut *self.read().await?)
        .await?;
        row.map(|row| {
            Ok(CredentialRow {
                version: row.try_get("version")?,
                claim: row.try_get("claim")?,
                sealed: row.try_get("sealed")?,
                changed_ms: row.try_get("changed_ms")?,
            })
        })
        .transpose()
    }

    /// Keeps a new credential, whatever was there; who was about to renew the old one finds that it
    /// is gone. Gives the version.
    pub async fn put_credential(
        &self,
        place: CredentialPlace<'_>,
        sealed: &str,
        at_ms: i64,
    ) -> Result<String, Error> {
        let version = Uuid::now_v7().to_string();
        let mut single = self.write_one(Durability::Machine).await?;
        sqlx::query(
            "INSERT INTO credentials (server, address, version, claim, sealed, changed_ms) \
             VALUES ($1, $2, $3, '', $4, $5) \
             ON CONFLICT (server, address) DO UPDATE SET version = excluded.version, claim = '', \
             sealed = excluded.sealed, changed_ms = excluded.changed_ms",
        )
        .bind(place.server)
        .bind(place.address)
        .bind(&version)
        .bind(sealed)
        .bind(at_ms)
        .execute(single.connection())
        .await?;
        Ok(version)
    }

    /// Claims the right to renew this version, which `held` (empty: nobody) has now; whether it was
    /// given. `claim` must be new.
    pub async fn claim_credential(
        &self,
        place: CredentialPlace<'_>,
        version: &str,
        held: &str,
        claim: &str,
    ) -> Result<bool, Error> {
        let mut single = self.write_one(Durability::Process).await?;
        let changed = sqlx::query(
            "UPDATE credentials SET claim = $1 \
             WHERE server = $2 AND address = $3 AND version = $4 AND claim = $5",
        )
        .bind(claim)
        .bind(place.server)
        .bind(place.address)
        .bind(version)
        .bind(held)
        .execute(single.connection())
        .await?;
        Ok(changed.rows_affected() == 1)
    }

    /// Gives up a claim without having renewed anything.
    pub async fn release_credential(
        &self,
        place: CredentialPlace<'_>,
        version: &str,
        claim: &str,
    ) -> Result<(), Error> {
        self.claim_credential(place, version, claim, "").await.map(|_| ())
    }

    /// Puts the renewed credential in the place of `version`; the new version, or nothing where the
    /// claim no longer counts (somebody logged in anew, or out).
    pub async fn swap_credential(
        &self,
        place: CredentialPlace<'_>,
        version: &str,
        claim: &str,
        sealed: &str,
        at_ms: i64,
    ) -> Result<Option<String>, Error> {
        let next = Uuid::now_v7().to_string();
        let mut single = self.write_one(Durability::Machine).await?;
        let changed = sqlx::query(
            "UPDATE credentials SET version = $1, claim = '', sealed = $2, changed_ms = $3 \
             WHERE server = $4 AND address = $5 AND version = $6 AND claim = $7",
        )
        .bind(&next)
        .bind(sealed)
        .bind(at_ms)
        .bind(place.server)
        .bind(place.address)
        .bind(version)
        .bind(claim)
        .execute(single.connection())
        .await?;
        Ok((changed.rows_affected() == 1).then_some(next))
    }

    /// Removes what is kept for a server, also for addresses that it had before; how many there were.
    pub async fn forget_credentials(&self, server: &str) -> Result<u64, Error> {
        let mut single = self.write_one(Durability::Machine).await?;
        let removed = sqlx::query("DELETE FROM credentials WHERE server = $1")
            .bind(server)
            .execute(single.connection())
            .await?;
        Ok(removed.rows_affected())
    }
}

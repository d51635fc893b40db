//! What is kept of a login, and the place where it is kept. Who keeps it seals it; here it is only
//! made sure that of several processes one at a time renews it.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is kept of a login: the tokens, and all that is needed to renew them. Its `Debug` shows none
/// of it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Credentials {
    pub(super) access_token: String,
    pub(super) refresh_token: Option<String>,
    /// In seconds since 1970.
    pub(super) received_at: u64,
    pub(super) expires_in: Option<u64>,
    pub(super) scopes: Vec<String>,
    pub(super) client_id: String,
    /// Only where the authorization server gave one at a registration; a configured one stays in
    /// the configuration.
    pub(super) client_secret: Option<String>,
    /// The resource as it was named to the authorization server.
    pub(super) resource: String,
    pub(super) issuer: Option<String>,
    /// The authorization server's metadata at the time of the login: where the refresh token may be
    /// sent is not decided anew by whoever the server names later.
    pub(super) metadata: Value,
    /// Why they are of no more use, if they are not.
    pub(super) refused: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

impl Credentials {
    /// When the access token expires, in seconds since 1970, if that is known.
    #[must_use]
    pub fn expires_at(&self) -> Option<u64> {
        self.expires_in.map(|seconds| self.received_at.saturating_add(seconds))
    }

    /// Whether they can be renewed without a person.
    #[must_use]
    pub fn can_be_renewed(&self) -> bool {
        self.refresh_token.is_some() && self.refused.is_none()
    }

    /// Why a person has to log in again, if that is known.
    #[must_use]
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// What was granted.
    #[must_use]
    pub fn scopes(&self) -> &[String] {
        &self.scopes
    }
}

/// Credentials as they are kept.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The credentials.
    pub credentials: Credentials,
    /// Changes with every change of them.
    pub version: String,
    /// Who renews them now; empty if nobody does.
    pub claim: String,
}

/// Where the credentials for one server are kept, shared with other processes.
///
/// Errors are texts for people, without secrets.
#[async_trait::async_trait]
pub trait Vault: Send + Sync + fmt::Debug {
    /// What is kept now.
    async fn load(&self) -> Result<Option<Kept>, String>;

    /// Keeps new credentials, whatever was there.
    async fn put(&self, credentials: &Credentials) -> Result<(), String>;

    /// Claims the right to renew this version, which `held` (empty: nobody) has now.
    async fn claim(&self, version: &str, held: &str, claim: &str) -> Result<bool, String>;

    /// Gives a claim up.
    async fn release(&self, version: &str, claim: &str) -> Result<(), String>;

    /// Puts renewed credentials in the place of `version`; nothing where the claim no longer counts.
    async fn swap(
        &self,
        version: &str,
        claim: &str,
        credentials: &Credentials,
    ) -> Result<Option<String>, String>;
}

//! Where the logins at servers are kept: sealed, in the store.

mod seal;
mod standing;

use std::sync::Arc;

use anyhow::Context as _;
use mcp::auth::{Credentials, Kept, Vault};
use sha2::{Digest as _, Sha256};
use store::{CredentialPlace, Store};

pub(crate) use seal::Key;
pub(crate) use standing::{Standing, standings};

use crate::config::Config;
use crate::key_file;

/// The name of the key's file in `data_dir`.
const KEY: &str = "credentials.key";

/// The credentials of all servers.
#[derive(Clone, Debug)]
pub(crate) struct Keeper {
    store: Store,
    key: Key,
}

impl Keeper {
    /// With the configured key, or the one in `data_dir`, which exists.
    pub(crate) fn new(config: &Config, store: Store) -> anyhow::Result<Self> {
        let key = match config.credentials_key()? {
            Some(key) => key,
            None => Key::new(key_file::key(&config.file.data_dir, KEY)?),
        };
        Ok(Self { store, key })
    }

    /// The login at a server; nothing for one that has no need of any: a program, or one with a
    /// token of its own in the configuration.
    pub(crate) fn login(
        &self,
        config: &Config,
        server: &str,
        endpoint: &mcp::Endpoint,
    ) -> anyhow::Result<Option<mcp::auth::Login>> {
        let mcp::Endpoint::Http { url, headers, secrets, .. } = endpoint else { return Ok(None) };
        if headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
            return Ok(None);
        }
        let resource = mcp::auth::resource_of(url)
            .with_context(|| format!("the url of {server:?} is not a valid http(s) url"))?;
        let digest = Sha256::digest(resource.as_bytes());
        let vault = Place {
            keeper: self.clone(),
            server: server.to_owned(),
            address: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        };
        let login = mcp::auth::Login::new(mcp::auth::Parts {
            server: server.to_owned(),
            command: config.login_command(server),
            url: url.clone(),
            headers: headers.clone(),
            settings: config.login_settings(server)?,
            secrets: secrets.clone(),
            vault: Arc::new(vault),
        });
        login.map(Some).map_err(|error| anyhow::anyhow!("server {server:?}: {error}"))
    }
}

/// The place of one server's credentials.
#[derive(Debug)]
struct Place {
    keeper: Keeper,
    server: String,
    address: String,
}

impl Place {
    fn place(&self) -> CredentialPlace<'_> {
        CredentialPlace { server: &self.server, address: &self.address }
    }

    /// What the sealed text is bound to.
    fn whose(&self) -> String {
        format!("pinfold credentials\0{}\0{}", self.server, self.address)
    }

    fn close(&self, credentials: &Credentials) -> Result<String, String> {
        let plain = serde_json::to_vec(credentials).map_err(|error| error.to_string())?;
        self.keeper.key.close(&self.whose(), &plain).map_err(|error| error.to_string())
    }

    fn open(&self, sealed: &str) -> Result<Credentials, String> {
        let plain = self.keeper.key.open(&self.whose(), sealed).map_err(|error| {
            format!("what is kept of its login cannot be opened: {error}; log in again")
        })?;
        serde_json::from_slice(&plain)
            .map_err(|_| "what is kept of its login is of another version; log in again".to_owned())
    }
}

#[async_trait::async_trait]
impl Vault for Place {
    async fn load(&self) -> Result<Option<Kept>, String> {
        let row = self.keeper.store.credential(self.place()).await;
        let Some(row) = row.map_err(|error| error.to_string())? else { return Ok(None) };
        let credentials = self.open(&row.sealed)?;
        Ok(Some(Kept { credentials, version: row.version, claim: row.claim }))
    }

    async fn put(&self, credentials: &Credentials) -> Result<(), String> {
        let sealed = self.close(credentials)?;
        let put = self.keeper.store.put_credential(self.place(), &sealed, now_ms()).await;
        put.map(|_| ()).map_err(|error| error.to_string())
    }

    async fn claim(&self, version: &str, held: &str, claim: &str) -> Result<bool, String> {
        let claimed = self.keeper.store.claim_credential(self.place(), version, held, claim).await;
        claimed.map_err(|error| error.to_string())
    }

    async fn release(&self, version: &str, claim: &str) -> Result<(), String> {
        let released = self.keeper.store.release_credential(self.place(), version, claim).await;
        released.map_err(|error| error.to_string())
    }

    async fn swap(
        &self,
        version: &str,
        claim: &str,
        credentials: &Credentials,
    ) -> Result<Option<String>, String> {
        let sealed = self.close(credentials)?;
        let (place, now) = (self.place(), now_ms());
        let swapped = self.keeper.store.swap_credential(place, version, claim, &sealed, now).await;
        swapped.map_err(|error| error.to_string())
    }
}

fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

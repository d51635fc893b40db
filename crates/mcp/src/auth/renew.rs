//! The token for a request, renewed before it expires or when the server refuses it: by one task of
//! one process at a time, because a refresh token may count only once.
//!
//! A renewal that has begun is brought to its end and kept, whoever gives up waiting for it; what
//! the store does not take is kept in memory and offered to it again.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rmcp::transport::auth::{
    AuthorizationManager, ClientCredentialsConfig, CredentialStore as _, InMemoryCredentialStore,
    OAuthClientConfig, OAuthHttpClient, StoredCredentials,
};

use super::credentials::{Credentials, Kept};
use super::explain::explain;
use super::gate::Gate;
use super::settings::Grant;
use super::{Inner, Login, Trouble};

/// What was read is believed for so long; then somebody may have logged in or out.
const BELIEVED: Duration = Duration::from_secs(5);

/// A token is renewed so many seconds before it expires, at most in the second half of its life.
const EARLY: u64 = 60;

/// Whoever claimed a renewal so long ago has died: all that it waits for is bounded by less.
const ABANDONED: Duration = Duration::from_secs(45);

/// Between two looks at somebody else's renewal.
const LOOK: Duration = Duration::from_millis(100);

/// After a renewal that failed the next is tried no sooner.
const APART: Duration = Duration::from_secs(5);

/// So often in a row a server may refuse the newest token before it is taken for a fault.
const REFUSALS: u32 = 2;

/// Waits between attempts to keep what was renewed: the first and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(20);

/// What is known in this process.
#[derive(Default)]
pub(super) struct Held {
    kept: Option<Kept>,
    read: Option<Instant>,
    /// The version and the claim under which the store has still to take it; until then it counts
    /// more than what stands there.
    unsaved: Option<(String, String)>,
    failed: Option<(Instant, Trouble)>,
    /// What the server refused last, how many tokens in a row, and when.
    refused: Option<(String, u32, Instant)>,
}

/// A token for a request.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(String);

impl Token {
    /// What `Authorization` says.
    pub(crate) fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }

    fn of(kept: &Kept) -> Self {
        Self(kept.credentials.access_token.clone())
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

impl Login {
    /// The token for the next request; none where nobody has logged in.
    pub(crate) async fn token(&self) -> Result<Option<Token>, Trouble> {
        let Some(kept) = self.0.current(BELIEVED).await? else {
            return match self.0.settings.grant {
                Grant::ClientCredentials => self.renewed(None).await.map(Some),
                Grant::AuthorizationCode => Ok(None),
            };
        };
        let token = Token::of(&kept);
        let left = left(&kept.credentials);
        if left.is_none_or(|left| left > early(&kept.credentials)) {
            self.0.usable(&kept)?;
            return Ok(Some(token));
        }
        let is_over = left == Some(0);
        // While it still counts nobody waits for somebody else's renewal, or for one that fails.
        if !is_over && !kept.claim.is_empty() {
            return Ok(Some(token));
        }
        match self.renewed(Some(&token)).await {
            Err(Trouble::Unreachable(_)) if !is_over => Ok(Some(token)),
            outcome => outcome.map(Some),
        }
    }

    /// A token in the place of one that the server refused, or that expires.
    pub(crate) async fn renewed(&self, old: Option<&Token>) -> Result<Token, Trouble> {
        let guard = Arc::clone(&self.0.renewing).lock_owned().await;
        let is_newer =
            |kept: &&Kept| old != Some(&Token::of(kept)) && left(&kept.credentials) != Some(0);
        let now = self.0.current(Duration::ZERO).await?;
        if let Some(kept) = now.as_ref().filter(is_newer) {
            self.0.usable(kept)?;
            return Ok(Token::of(kept));
        }
        let failed = self.0.held().failed.clone();
        if let Some((_, trouble)) = failed.filter(|(at, _)| at.elapsed() < APART) {
            return Err(trouble);
        }
        let login = self.clone();
        // In a task of its own, because it must not be given up half-way.
        let renewal = tokio::spawn(async move {
            let _guard = guard;
            let renewed = match login.0.settings.grant {
                Grant::ClientCredentials => login.obtain().await,
                Grant::AuthorizationCode => login.claim_and_renew(now).await,
            };
            login.0.held().failed = match &renewed {
                Err(trouble @ (Trouble::Unreachable(_) | Trouble::Refused(_))) => {
                    Some((Instant::now(), trouble.clone()))
                }
                _ => None,
            };
            renewed
        });
        renewal.await.unwrap_or_else(|_| Err(Trouble::Unreachable("it was broken off".to_owned())))
    }

    /// The server refused a token (or the lack of one): a new one, unless that has been of no use.
    pub(crate) async fn refused(&self, token: Option<&Token>) -> Result<Token, Trouble> {
        if let Some(token) = token {
            let mut held = self.0.held();
            let recent = held.refused.take().filter(|(_, _, at)| at.elapsed() < ABANDONED);
            let count = match &recent {
                // Many calls meet the end of one token.
                Some((known, count, _)) if *known == token.0 => *count,
                Some((_, count, _)) => count + 1,
                None => 1,
            };
            held.refused = Some((token.0.clone(), count, Instant::now()));
            if count > REFUSALS {
                let what = "the server refuses the tokens that it was just given".to_owned();
                return Err(Trouble::NeedsLogin(what));
            }
        }
        self.renewed(token).await
    }

    /// The server took a token.
    pub(crate) fn accepted(&self) {
        self.0.held().refused = None;
    }

    async fn claim_and_renew(&self, known: Option<Kept>) -> Result<Token, Trouble> {
        let inner = &self.0;
        let mut kept = known.ok_or_else(|| Trouble::NeedsLogin(String::new()))?;
        let stale = kept.version.clone();
        let unsaved = inner.held().unsaved.clone();
        if let Some((version, claim)) = unsaved {
            // The claim is still ours.
            inner.usable(&kept)?;
            kept.version = version;
            return self.renew(kept, claim).await;
        }
        let mine = random().ok_or_else(|| Trouble::Unreachable("no randomness".to_owned()))?;
        let mut seen: Option<(String, Instant)> = None;
        loop {
            inner.usable(&kept)?;
            if kept.version != stale {
                return Ok(Token::of(&kept));
            }
            if !kept.credentials.can_be_renewed() {
                let what = "its token counts no longer, and cannot be renewed".to_owned();
                return Err(Trouble::NeedsLogin(what));
            }
            let abandoned = |(claim, since): &(String, Instant)| {
                *claim == kept.claim && since.elapsed() > ABANDONED
            };
            if kept.claim.is_empty() || seen.as_ref().is_some_and(abandoned) {
                let claimed = inner.vault.claim(&kept.version, &kept.claim, &mine).await;
                if claimed.map_err(Trouble::Unreachable)? {
                    return self.renew(kept, mine).await;
                }
            } else if seen.as_ref().is_none_or(|(claim, _)| *claim != kept.claim) {
                seen = Some((kept.claim.clone(), Instant::now()));
            }
            tokio::time::sleep(LOOK).await;
            let now = inner.current(Duration::ZERO).await?;
            kept = now.ok_or_else(|| Trouble::NeedsLogin(String::new()))?;
        }
    }

    /// Renews what was claimed, and keeps it.
    async fn renew(&self, kept: Kept, claim: String) -> Result<Token, Trouble> {
        let inner = &self.0;
        match inner.refresh(&kept.credentials).await {
            Ok(credentials) => {
                let version = random().unwrap_or_default();
                let next = Kept { credentials, version, claim: String::new() };
                let token = Token::of(&next);
                {
                    let mut held = inner.held();
                    held.kept = Some(next.clone());
                    held.unsaved = Some((kept.version.clone(), claim.clone()));
                }
                match inner.save(&kept, &claim, &next.credentials).await {
                    Ok(()) => inner.now().await,
                    Err(why) => {
                        tracing::warn!(
                            server = inner.server,
                            why,
                            "a renewed token is not kept yet"
                        );
                        let login = self.clone();
                        tokio::spawn(async move { login.save_later(kept, claim, next).await });
                        Ok(token)
                    }
                }
            }
            Err(Trouble::NeedsLogin(why)) => {
                let refused = Credentials { refused: Some(why.clone()), ..kept.credentials };
                let swapped = inner.vault.swap(&kept.version, &claim, &refused).await;
                inner.forget();
                match swapped {
                    // Somebody logged in meanwhile.
                    Ok(None) => inner.now().await,
                    Ok(Some(_)) | Err(_) => Err(Trouble::NeedsLogin(why)),
                }
            }
            Err(trouble) => {
                // A claim that cannot be given up is taken over in time.
                let _ = inner.vault.release(&kept.version, &claim).await;
                Err(trouble)
            }
        }
    }

    /// Offers the store what it did not take, until it does or somebody logs in anew or out.
    async fn save_later(self, before: Kept, claim: String, next: Kept) {
        let mut pause = FIRST_PAUSE;
        loop {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
            let is_newest =
                self.0.held().kept.as_ref().is_some_and(|kept| kept.version == next.version);
            if !is_newest || self.0.save(&before, &claim, &next.credentials).await.is_ok() {
                return;
            }
        }
    }

    /// A token for this program itself.
    async fn obtain(&self) -> Result<Token, Trouble> {
        let inner = &self.0;
        let challenge = inner.challenge().await?;
        let gate = inner.gate()?;
        let found = inner.discover(&gate, challenge.as_deref()).await?;
        let (mut manager, metadata) = (found.manager, found.metadata);
        let settings = &inner.settings;
        let scopes = match settings.scopes.is_empty() {
            true => manager.select_initial_scopes(&[]).await,
            false => settings.scopes.clone(),
        };
        let ours = |resource: &&String| inner.is_about(resource);
        let resource = gate.seen().resources.iter().find(ours).cloned();
        let resource = resource.unwrap_or_else(|| inner.resource.to_string());
        let config = ClientCredentialsConfig::ClientSecret {
            client_id: settings.client_id.clone().unwrap_or_default(),
            client_secret: settings.client_secret.clone().unwrap_or_default(),
            scopes,
            resource: Some(resource.clone()),
        };
        let failed = |error| match explain(inner, &gate, &error) {
            // There is nobody who could log in.
            Trouble::NeedsLogin(why) => Trouble::Refused(why),
            trouble => trouble,
        };
        manager.validate_client_credentials_metadata(&config).map_err(failed)?;
        manager.configure_client_credentials(&config).map_err(failed)?;
        manager.exchange_client_credentials(&config).await.map_err(failed)?;
        let credentials =
            credentials(&gate, settings.client_id.clone().unwrap_or_default(), resource, &metadata)
                .ok_or_else(|| Trouble::Refused("no token came".to_owned()))?;
        let version = random().ok_or_else(|| Trouble::Unreachable("no randomness".to_owned()))?;
        let kept = Kept {
            // It is asked for anew, by the secret; what a server adds to that is not needed.
            credentials: Credentials { refresh_token: None, ..credentials },
            version,
            claim: String::new(),
        };
        let token = Token::of(&kept);
        inner.held().kept = Some(kept);
        Ok(token)
    }
}

impl Inner {
    pub(super) fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is read next comes from the store.
    pub(super) fn forget(&self) {
        *self.held() = Held::default();
    }

    /// The credentials there are, read again if what is known is older than `believed`.
    async fn current(&self, believed: Duration) -> Result<Option<Kept>, Trouble> {
        if self.settings.grant == Grant::ClientCredentials {
            return Ok(self.held().kept.clone());
        }
        {
            let held = self.held();
            let is_known = held.read.is_some_and(|read| read.elapsed() < believed);
            if held.unsaved.is_some() || is_known {
                return Ok(held.kept.clone());
            }
        }
        let kept = self.vault.load().await.map_err(Trouble::Unreachable)?;
        if let Some(kept) = &kept {
            let credentials = &kept.credentials;
            self.secrets.learn(&self.server, &credentials.access_token);
            for secret in [&credentials.refresh_token, &credentials.client_secret] {
                secret.iter().for_each(|secret| self.secrets.learn(&self.server, secret));
            }
        }
        let mut held = self.held();
        if held.unsaved.is_none() {
            held.kept = kept;
            held.read = Some(Instant::now());
        }
        Ok(held.kept.clone())
    }

    /// The token of what is kept now.
    async fn now(&self) -> Result<Token, Trouble> {
        let kept = self.current(Duration::ZERO).await?;
        let kept = kept.ok_or_else(|| Trouble::NeedsLogin(String::new()))?;
        self.usable(&kept)?;
        Ok(Token::of(&kept))
    }

    fn usable(&self, kept: &Kept) -> Result<(), Trouble> {
        self.fault(&kept.credentials).map_or(Ok(()), |why| Err(Trouble::NeedsLogin(why)))
    }

    /// Gives the store what was renewed. Where the claim no longer counts somebody has logged in or
    /// out, whose word counts; but who merely found the old refresh token used up does not.
    async fn save(&self, before: &Kept, claim: &str, next: &Credentials) -> Result<(), String> {
        if self.vault.swap(&before.version, claim, next).await?.is_none() {
            let same = |kept: &Kept| {
                kept.credentials.refused.is_some()
                    && kept.credentials.refresh_token == before.credentials.refresh_token
            };
            if let Some(kept) = self.vault.load().await?.filter(same) {
                let again = random().ok_or("no randomness")?;
                if self.vault.claim(&kept.version, &kept.claim, &again).await? {
                    self.vault.swap(&kept.version, &again, next).await?;
                }
            }
        }
        let mut held = self.held();
        held.unsaved = None;
        held.read = None;
        Ok(())
    }

    /// Has the refresh token turned into new tokens.
    async fn refresh(&self, old: &Credentials) -> Result<Credentials, Trouble> {
        let gate = self.gate()?;
        let failed = |error| explain(self, &gate, &error);
        gate.seen().resource = Some(old.resource.clone());
        let client: Arc<dyn OAuthHttpClient> = Arc::clone(&gate) as _;
        let mut manager =
            AuthorizationManager::new_with_oauth_http_client(old.resource.as_str(), client)
                .await
                .map_err(failed)?;
        let unusable = |_| Trouble::NeedsLogin("what is kept of it cannot be used".to_owned());
        let metadata = serde_json::from_value(old.metadata.clone()).map_err(unusable)?;
        manager.set_metadata(metadata);
        let mut config = OAuthClientConfig::new(&old.client_id, "http://127.0.0.1/");
        let secret = match &self.settings.client_id {
            Some(_) => self.settings.client_secret.as_ref(),
            None => old.client_secret.as_ref(),
        };
        if let Some(secret) = secret {
            config = config.with_client_secret(secret);
        }
        manager.configure_client(config).map_err(failed)?;
        let tokens = serde_json::json!({
            "access_token": old.access_token,
            "token_type": "bearer",
            "refresh_token": old.refresh_token,
        });
        let tokens = serde_json::from_value(tokens).map_err(unusable)?;
        let store = InMemoryCredentialStore::new();
        let stored =
            StoredCredentials::new(old.client_id.clone(), Some(tokens), old.scopes.clone(), None);
        store.save(stored).await.map_err(failed)?;
        manager.set_credential_store(store);
        manager.refresh_token().await.map_err(failed)?;
        let tokens = gate.seen().tokens.take();
        let tokens = tokens.ok_or_else(|| Trouble::Refused("no token came".to_owned()))?;
        Ok(Credentials {
            access_token: tokens.access_token,
            refresh_token: tokens.refresh_token.or_else(|| old.refresh_token.clone()),
            received_at: now(),
            expires_in: tokens.expires_in,
            scopes: tokens.scopes.unwrap_or_else(|| old.scopes.clone()),
            ..old.clone()
        })
    }
}

/// Credentials from the tokens that went through the gate last.
pub(super) fn credentials(
    gate: &Gate,
    client_id: String,
    resource: String,
    metadata: &rmcp::transport::auth::AuthorizationMetadata,
) -> Option<Credentials> {
    let mut seen = gate.seen();
    let tokens = seen.tokens.take()?;
    let registered = seen.registered.take().filter(|registered| registered.client_id == client_id);
    Some(Credentials {
        access_token: tokens.access_token,
        refresh_token: tokens.refresh_token,
        received_at: now(),
        expires_in: tokens.expires_in,
        scopes: tokens.scopes.unwrap_or_default(),
        client_id,
        client_secret: registered.and_then(|registered| registered.client_secret),
        resource,
        issuer: metadata.issuer.clone(),
        metadata: serde_json::to_value(metadata).ok()?,
        refused: None,
    })
}

/// Seconds until the access token expires, if that is known.
fn left(credentials: &Credentials) -> Option<u64> {
    credentials.expires_at().map(|at| at.saturating_sub(now()))
}

/// How many seconds before its end a token is renewed.
fn early(credentials: &Credentials) -> u64 {
    EARLY.min(credentials.expires_in.unwrap_or_default() / 2)
}

pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// A name that nobody else gives.
fn random() -> Option<String> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

//! One login of a person: from the question to the credentials.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use rmcp::transport::auth::{AuthorizationMetadata, AuthorizationRequest, AuthorizationSession};
use tokio::sync::mpsc;

use super::explain::explain;
use super::gate::Gate;
use super::redirect::{self, Callback, Redirect};
use super::renew::credentials;
use super::settings::{Grant, is_scope};
use super::{Inner, Login, Trouble};
use crate::error::Error;

/// How long a person has to log in.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// Longest address that is given to a browser, in bytes.
const LONGEST_ADDRESS: usize = 16 * 1024;

/// A login that waits for its answer.
pub struct Asked {
    login: Login,
    session: AuthorizationSession,
    gate: Arc<Gate>,
    metadata: AuthorizationMetadata,
    redirect: Redirect,
    state: String,
    resource: String,
}

/// What happens while an answer is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Somebody came back with an answer that belongs to no login, or to another.
    Stranger,
    /// What was pasted is not the answer.
    NotTheAnswer,
}

impl Login {
    /// Asks who gives tokens for the server and prepares the question for a person, about what is
    /// configured or wanted by the server, and `more`.
    pub async fn begin(&self, more: &[String]) -> Result<Asked, Error> {
        self.ask(more).await.map_err(|trouble| Error::Refused(self.explained(&trouble)))
    }

    /// Gets a token where no person is needed for it, to see whether that works.
    pub async fn try_unattended(&self) -> Result<(), Error> {
        let got = self.renewed(None).await;
        got.map(|_| ()).map_err(|trouble| Error::Refused(self.explained(&trouble)))
    }

    async fn ask(&self, more: &[String]) -> Result<Asked, Trouble> {
        let inner = &self.0;
        let refused = |what: &str| Trouble::Refused(what.to_owned());
        if inner.settings.grant == Grant::ClientCredentials {
            return Err(refused("it logs in by client credentials, without a person"));
        }
        if let Some(scope) = more.iter().find(|scope| !is_scope(scope)) {
            return Err(Trouble::Refused(format!("{scope:?} is no scope")));
        }
        // A whole address may have come by a variable; that makes it no secret.
        let holds = |secret: &String| {
            !secret.contains("://") && inner.resource.as_str().contains(secret.as_str())
        };
        if inner.secrets.values().iter().any(holds) {
            return Err(refused(
                "its address holds a secret, which would be shown to the authorization server; \
                 such an address needs no login",
            ));
        }
        let challenge = inner.challenge().await?;
        let gate = inner.gate()?;
        let found = inner.discover(&gate, challenge.as_deref()).await?;
        let scopes = inner.scopes(&found.manager, more).await?;
        let redirect = Redirect::open(inner.settings.redirect_port).await.map_err(|error| {
            Trouble::Refused(format!("no port can be opened for the browser: {error}"))
        })?;
        let mut request = AuthorizationRequest::new(redirect.uri())
            .with_client_name("pinfold")
            .with_initial_scope_selection()
            .with_scopes(scopes);
        let settings = &inner.settings;
        if let Some(id) = &settings.client_id {
            request = request.with_preregistered_client(id);
        }
        if let Some(secret) = &settings.client_secret {
            request = request.with_client_secret(secret);
        }
        if let Some(url) = &settings.client_metadata_url {
            request = request.with_client_metadata_url(url);
        }
        let session = AuthorizationSession::new(found.manager, request).await;
        let session = session.map_err(|(_, error)| explain(inner, &gate, &error))?;
        let address = Url::parse(session.get_authorization_url())
            .ok()
            .filter(|url| url.as_str().len() <= LONGEST_ADDRESS)
            .ok_or_else(|| refused("the authorization server names an unusable address"))?;
        let one = |wanted: &str| {
            // Ours come after what the server's own address has.
            let found = address.query_pairs().filter(|(name, _)| name == wanted).last();
            found.map(|(_, value)| value.into_owned())
        };
        let (state, resource) = one("state")
            .zip(one("resource"))
            .ok_or_else(|| refused("the question could not be made"))?;
        let login = self.clone();
        Ok(Asked { login, session, gate, metadata: found.metadata, redirect, state, resource })
    }
}

impl Inner {
    /// What to ask for; nothing where the server says it.
    async fn scopes(
        &self,
        manager: &rmcp::transport::auth::AuthorizationManager,
        more: &[String],
    ) -> Result<Vec<String>, Trouble> {
        let mut scopes = self.settings.scopes.clone();
        if more.is_empty() {
            return Ok(scopes);
        }
        if scopes.is_empty() {
            let kept = self.vault.load().await.map_err(Trouble::Unreachable)?;
            scopes = kept.map(|kept| kept.credentials.scopes).unwrap_or_default();
        }
        if scopes.is_empty() {
            scopes = manager.select_initial_scopes(&[]).await;
        }
        for scope in more {
            if !scopes.contains(scope) {
                scopes.push(scope.clone());
            }
        }
        Ok(scopes)
    }
}

impl Asked {
    /// Where a person logs in, with a browser.
    #[must_use]
    pub fn address(&self) -> &str {
        self.session.get_authorization_url()
    }

    /// Waits for the answer, from the browser or as an address that is pasted, and keeps what is
    /// granted; gives the scopes.
    pub async fn finish(
        self,
        mut pasted: mpsc::UnboundedReceiver<String>,
        mut notice: impl FnMut(Notice) + Send,
    ) -> Result<Vec<String>, Error> {
        let (strangers, mut knocks) = mpsc::unbounded_channel();
        let waiting = async {
            let back = self.redirect.wait(&self.state, &strangers);
            tokio::pin!(back);
            loop {
                tokio::select! {
                    callback = &mut back => return callback,
                    Some(()) = knocks.recv() => notice(Notice::Stranger),
                    Some(line) = pasted.recv() => match redirect::parse(&line, &self.state) {
                        Some(callback) => return callback,
                        None => notice(Notice::NotTheAnswer),
                    },
                }
            }
        };
        let callback = tokio::time::timeout(PATIENCE, waiting).await.map_err(|_| {
            let minutes = PATIENCE.as_secs() / 60;
            Error::Refused(format!("nobody logged in within {minutes} minutes; try again"))
        })?;
        let kept = self.keep(callback).await;
        kept.map_err(|trouble| match trouble {
            Trouble::NeedsLogin(why) => Error::Refused(format!("the login failed: {why}")),
            trouble => Error::Refused(self.login.explained(&trouble)),
        })
    }

    async fn keep(&self, callback: Callback) -> Result<Vec<String>, Trouble> {
        let inner = &self.login.0;
        let failed = |error| explain(inner, &self.gate, &error);
        let code = match callback.outcome {
            Ok(code) => code,
            Err(error) => {
                let error = crate::message::shorten(&error, 60);
                return Err(Trouble::NeedsLogin(format!(
                    "the authorization server answered {}",
                    inner.shown(&error)
                )));
            }
        };
        inner.secrets.learn(&inner.server, &code);
        self.session
            .handle_callback_with_issuer(&code, &self.state, callback.issuer.as_deref())
            .await
            .map_err(failed)?;
        let (client_id, _) = self.session.get_credentials().await.map_err(failed)?;
        let scopes = self.session.auth_manager.get_current_scopes().await;
        let mut new = credentials(&self.gate, client_id, self.resource.clone(), &self.metadata)
            .ok_or_else(|| Trouble::Refused("no token came".to_owned()))?;
        new.scopes = scopes.into_iter().filter(|scope| is_scope(scope)).collect();
        inner.vault.put(&new).await.map_err(Trouble::Unreachable)?;
        inner.forget();
        Ok(new.scopes)
    }
}

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Asked({})", self.login.0.server)
    }
}

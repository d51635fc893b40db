//! The login at a server that wants one: OAuth 2.1 by rmcp's client, kept where it is told to.
//!
//! rmcp knows the protocol: discovery, PKCE, resource indicators, the check of the issuer,
//! registration. What is here is what it leaves open: where requests may go (`gate`, `address`),
//! what of an answer is believed (`answers`), the way back from the browser (`redirect`), and that
//! a token is renewed once, by one task of one process (`renew`). Nobody's token but the one that
//! was got for a server goes to it.

mod address;
mod answers;
mod credentials;
mod discover;
mod explain;
mod flow;
mod gate;
mod redirect;
mod renew;
mod settings;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::Url;

pub use credentials::{Credentials, Kept, Vault};
pub use flow::{Asked, Notice};
pub use settings::{Grant, Settings};

pub(crate) use discover::joined;
pub(crate) use renew::Token;

use crate::censor::Censor;
use crate::error::Error;
use crate::secrets::Secrets;
use settings::is_scope;

/// A server's address as it is named to others, if it is one: without a key that may be behind the
/// question mark, and without who we are there.
#[must_use]
pub fn resource_of(url: &str) -> Option<String> {
    address_of(url).map(|(_, resource)| resource.into())
}

fn address_of(url: &str) -> Option<(Url, Url)> {
    let url = Url::parse(url)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())?;
    let mut resource = url.clone();
    resource.set_query(None);
    resource.set_fragment(None);
    resource.set_username("").ok()?;
    resource.set_password(None).ok()?;
    Some((url, resource))
}

/// The login at one server: gives the token for each request, and renews it. Cheap to clone.
#[derive(Clone)]
pub struct Login(Arc<Inner>);

struct Inner {
    server: String,
    /// What a person types to log in.
    command: String,
    url: Url,
    /// The address as it is named to an authorization server.
    resource: Url,
    headers: BTreeMap<String, String>,
    settings: Settings,
    secrets: Secrets,
    censor: Censor,
    vault: Arc<dyn Vault>,
    held: Mutex<renew::Held>,
    renewing: Arc<tokio::sync::Mutex<()>>,
}

/// What a [`Login`] is made of.
#[derive(Debug)]
pub struct Parts {
    /// The server's name.
    pub server: String,
    /// What a person types to log in there.
    pub command: String,
    /// The server's address.
    pub url: String,
    /// The headers that are configured for it.
    pub headers: BTreeMap<String, String>,
    /// What the configuration says.
    pub settings: Settings,
    /// What nothing may show; tokens are added to it.
    pub secrets: Secrets,
    /// Where the credentials are kept.
    pub vault: Arc<dyn Vault>,
}

/// How it stands with a login, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nobody logged in.
    None,
    /// There are credentials; until when the token counts, in seconds since 1970, if that is known,
    /// and whether it can be renewed.
    LoggedIn {
        /// When the token expires.
        expires_at: Option<u64>,
        /// Whether it can be renewed without a person.
        renews: bool,
    },
    /// The credentials are of no more use; why.
    Refused(String),
    /// No person is needed.
    Unattended,
}

/// Why there is no token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// A person has to log in; why.
    NeedsLogin(String),
    /// It cannot work as it is; what is wrong.
    Refused(String),
    /// Somebody who is needed does not answer now.
    Unreachable(String),
}

impl Login {
    /// Prepares the login at a server; sends nothing yet.
    pub fn new(parts: Parts) -> Result<Self, Error> {
        let Parts { server, command, url, headers, settings, secrets, vault } = parts;
        let wrong = |what: &str| Error::Connect(what.to_owned());
        let (url, resource) = address_of(&url).ok_or_else(|| {
            wrong("the url of this server is not a valid http:// or https:// url")
        })?;
        settings.validate().map_err(Error::Connect)?;
        let censor = Censor::of_secrets(&secrets);
        Ok(Self(Arc::new(Inner {
            server,
            command,
            url,
            resource,
            headers,
            settings,
            secrets,
            censor,
            vault,
            held: Mutex::default(),
            renewing: Arc::default(),
        })))
    }

    /// What the configuration says about it.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// How it stands, by what is kept; asks nobody.
    pub async fn standing(&self) -> Result<Standing, String> {
        if self.0.settings.grant == Grant::ClientCredentials {
            return Ok(Standing::Unattended);
        }
        let kept = self.0.vault.load().await?;
        Ok(match kept.map(|kept| kept.credentials) {
            None => Standing::None,
            Some(credentials) => match self.0.fault(&credentials) {
                Some(why) => Standing::Refused(why),
                None => Standing::LoggedIn {
                    expires_at: credentials.expires_at(),
                    renews: credentials.can_be_renewed(),
                },
            },
        })
    }

    /// The error for a person or a model.
    pub(crate) fn explained(&self, trouble: &Trouble) -> String {
        match trouble {
            Trouble::NeedsLogin(why) if why.is_empty() => {
                format!("needs login: {} (or give it a token in its `headers`)", self.0.command)
            }
            Trouble::NeedsLogin(why) => format!("needs login: {} ({why})", self.0.command),
            Trouble::Refused(what) => format!("cannot log in: {what}"),
            Trouble::Unreachable(what) => format!("its login cannot be renewed now: {what}"),
        }
    }

    /// What to do about a 403 that says which rights are missing, if the challenge does.
    pub(crate) fn missing_scope(&self, challenge: &str) -> Option<String> {
        let params =
            rmcp::transport::auth::WWWAuthenticateParams::parse(challenge, &self.0.resource);
        if !params.is_insufficient_scope() {
            return None;
        }
        let wanted = params.scope.unwrap_or_default();
        let mut scopes: Vec<&str> = wanted.split_ascii_whitespace().collect();
        scopes.truncate(50);
        if self.0.settings.grant == Grant::ClientCredentials {
            return Some(
                "the server wants more rights for this than the token has: write them into \
                 `scopes` of its `oauth`"
                    .to_owned(),
            );
        }
        // It ends up in somebody's shell.
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/+=@,".contains(c);
        let fits = |scope: &&str| is_scope(scope) && scope.chars().all(plain);
        if scopes.is_empty() || !scopes.iter().all(fits) {
            return Some(format!(
                "the server wants more rights for this than the token has, and does not say \
                 plainly which: {} --scope=NAME asks for them",
                self.0.command
            ));
        }
        let asked: Vec<String> = scopes.iter().map(|scope| format!("--scope={scope}")).collect();
        Some(format!(
            "the server wants more rights for this than the token has ({}): {} {}",
            scopes.join(" "),
            self.0.command,
            asked.join(" ")
        ))
    }
}

impl Inner {
    /// A text without secrets.
    fn shown(&self, text: &str) -> String {
        self.censor.hide(text)
    }

    /// For requests to the server itself.
    fn client(&self) -> Result<reqwest::Client, Trouble> {
        let mut builder = reqwest::Client::builder();
        if address::is_loopback(&self.url) {
            builder = builder.no_proxy();
        }
        builder
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(10))
            .timeout(gate::REQUEST_TIME)
            .build()
            .map_err(|_| Trouble::Refused("cannot set up HTTP".to_owned()))
    }

    /// A way out for one login or renewal.
    fn gate(&self) -> Result<Arc<gate::Gate>, Trouble> {
        let issuer = self.settings.issuer.as_deref().and_then(|issuer| Url::parse(issuer).ok());
        gate::Gate::new(&self.server, &self.url, issuer.as_ref(), &self.secrets)
            .map(Arc::new)
            .map_err(|error| Trouble::Refused(error.to_string()))
    }

    /// Why these credentials are of no use, if they are not.
    fn fault(&self, credentials: &Credentials) -> Option<String> {
        if let Some(why) = &credentials.refused {
            return Some(why.clone());
        }
        let other_client =
            self.settings.client_id.as_ref().is_some_and(|id| *id != credentials.client_id);
        let other_issuer = self.settings.issuer.as_deref().is_some_and(|issuer| {
            let known = credentials.issuer.as_deref().unwrap_or_default();
            known.trim_end_matches('/') != issuer.trim_end_matches('/')
        });
        (other_client || other_issuer).then(|| "its `oauth` has changed".to_owned())
    }
}

impl PartialEq for Login {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Login {}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Login({})", self.0.server)
    }
}

//! Who gives tokens for a server: its metadata, and that of the authorization server it names.

use std::sync::Arc;

use reqwest::Url;
use reqwest::header::{ACCEPT, CONTENT_TYPE, WWW_AUTHENTICATE};
use rmcp::transport::auth::{
    AuthorizationManager, AuthorizationMetadata, AuthorizationMetadataSource, OAuthHttpClient,
};

use super::explain::explain;
use super::gate::Gate;
use super::settings::Grant;
use super::{Inner, Trouble};

/// Longest challenge that is read, in bytes.
const LONGEST_CHALLENGE: usize = 8 * 1024;

/// Who gives tokens for a server.
pub(super) struct Found {
    pub(super) manager: AuthorizationManager,
    pub(super) metadata: AuthorizationMetadata,
}

impl Inner {
    /// Finds out who gives tokens, from what the server said when it refused a request.
    pub(super) async fn discover(
        &self,
        gate: &Arc<Gate>,
        challenge: Option<&str>,
    ) -> Result<Found, Trouble> {
        let client: Arc<dyn OAuthHttpClient> = Arc::clone(gate) as _;
        let mut manager =
            AuthorizationManager::new_with_oauth_http_client(self.resource.clone(), client)
                .await
                .map_err(|error| self.failed(gate, &error))?;
        let resolved = manager
            .resolve_metadata_from_challenge(challenge)
            .await
            .map_err(|error| self.failed(gate, &error))?;
        let metadata = resolved.metadata;
        // Where the metadata is merely guessed at, one about another resource is passed over. But
        // then the server has said something about itself that is not true.
        let is_named = resolved.source == AuthorizationMetadataSource::ProtectedResourceMetadata;
        let foreign = |resource: &&String| !self.is_about(resource);
        let other = gate.seen().resources.iter().find(foreign).cloned();
        if let Some(other) = other.filter(|_| !is_named) {
            return Err(Trouble::Refused(format!(
                "its metadata is about another resource ({}), so it is not trusted",
                self.shown(&crate::endpoint::origin(&other))
            )));
        }
        let is_published = resolved.source.is_discovered();
        if !is_published && challenge.is_none() {
            return Err(Trouble::Refused(
                "the server neither asks for a login nor says who would give one; if it wants a \
                 token, put it into `headers`"
                    .to_owned(),
            ));
        }
        self.check(gate, &metadata, is_published)?;
        manager.set_metadata(metadata.clone());
        Ok(Found { manager, metadata })
    }

    /// Whether a resource is the server, or what it is a part of.
    pub(super) fn is_about(&self, resource: &str) -> bool {
        let Ok(other) = Url::parse(resource) else { return false };
        let (ours, theirs) = (self.resource.path(), other.path());
        other.origin() == self.resource.origin()
            && ours.strip_prefix(theirs).is_some_and(|rest| {
                rest.is_empty() || rest.starts_with('/') || theirs.ends_with('/')
            })
    }

    /// What the authorization server must fulfil beyond what rmcp looks at.
    fn check(
        &self,
        gate: &Gate,
        metadata: &AuthorizationMetadata,
        is_published: bool,
    ) -> Result<(), Trouble> {
        let refused = |what: String| Err(Trouble::Refused(what));
        if let Some(wanted) = &self.settings.issuer {
            let same = metadata
                .issuer
                .as_deref()
                .is_some_and(|issuer| issuer.trim_end_matches('/') == wanted.trim_end_matches('/'));
            if !same {
                let named = metadata.issuer.as_deref().map_or("none", |issuer| issuer);
                return refused(format!(
                    "the server names the authorization server {}, and `issuer` in its `oauth` \
                     another",
                    self.shown(&crate::endpoint::origin(named))
                ));
            }
        }
        let browser = self.settings.grant == Grant::AuthorizationCode;
        let endpoints = [
            Some(&metadata.token_endpoint),
            metadata.registration_endpoint.as_ref().filter(|_| browser),
            Some(&metadata.authorization_endpoint).filter(|_| browser),
        ];
        for endpoint in endpoints.into_iter().flatten() {
            let url = Url::parse(endpoint).map_err(|_| {
                Trouble::Refused("the authorization server names an invalid address".to_owned())
            })?;
            gate.places().refuse(&url).map_err(|why| {
                Trouble::Refused(format!("{}, so it is not used", self.shown(&why)))
            })?;
        }
        if browser && metadata.authorization_endpoint == metadata.token_endpoint {
            return refused(
                "the authorization server names no place to log in at with a browser".to_owned(),
            );
        }
        // A person who named the issuer vouches for it; there are some that do PKCE and do not say so.
        let methods = metadata.code_challenge_methods_supported.as_ref();
        if browser && methods.is_some_and(|methods| !methods.iter().any(|one| one == "S256")) {
            return refused("the authorization server does not do PKCE with S256".to_owned());
        }
        let says_pkce = methods.is_some();
        if browser && is_published && !says_pkce && self.settings.issuer.is_none() {
            return refused(
                "the authorization server does not say that it does PKCE; name it as `issuer` in \
                 `oauth` if you know that it does"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// What the server says to a request without a token: the challenge, if it wants one.
    pub(super) async fn challenge(&self) -> Result<Option<String>, Trouble> {
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
        let mut request = self
            .client()?
            .post(self.url.clone())
            .header(ACCEPT, "application/json, text/event-stream")
            .header(CONTENT_TYPE, "application/json")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "server/discover")
            .body(body);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let response = request.send().await.map_err(|error| {
            Trouble::Unreachable(format!(
                "the server cannot be reached: {}",
                self.shown(&crate::transport::http::words(error))
            ))
        })?;
        let wants = matches!(response.status().as_u16(), 401 | 403);
        Ok(wants.then(|| joined(response.headers())))
    }

    fn failed(&self, gate: &Gate, error: &rmcp::transport::auth::AuthError) -> Trouble {
        explain(self, gate, error)
    }
}

/// All challenges of a response in one text.
pub(crate) fn joined(headers: &reqwest::header::HeaderMap) -> String {
    let challenges = headers.get_all(WWW_AUTHENTICATE).iter();
    let challenges: Vec<&str> = challenges.filter_map(|value| value.to_str().ok()).collect();
    let mut joined = challenges.join(", ");
    joined.truncate(joined.floor_char_boundary(LONGEST_CHALLENGE));
    joined
}

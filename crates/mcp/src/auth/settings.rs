//! What a person says about the login at a server, as it stands in the configuration.

use std::fmt;

use reqwest::Url;
use serde::Deserialize;

use super::address::is_loopback;

/// How to log in at a server. Without it everything is found out from the server.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Who the tokens are for: a person, or this program itself.
    pub grant: Grant,
    /// Under which id the authorization server knows this program, if it was registered by hand.
    pub client_id: Option<String>,
    /// What goes with it. Never shown.
    pub client_secret: Option<String>,
    /// Where a document about this program is (a client-id metadata document), used instead of a
    /// registration where the authorization server takes that.
    pub client_metadata_url: Option<String>,
    /// What to ask for, instead of what the server says.
    pub scopes: Vec<String>,
    /// The only authorization server that may be used; one named here may be in a private network
    /// and need not publish that it knows PKCE.
    pub issuer: Option<String>,
    /// The port of this machine that the browser comes back to, where it was registered by hand.
    pub redirect_port: Option<u16>,
}

/// Who tokens are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// A person, who logs in with a browser.
    #[default]
    AuthorizationCode,
    /// This program, which has an id and a secret.
    ClientCredentials,
}

impl Settings {
    /// Says what is wrong, beginning with the key. Values are not checked where they hold `${…}`.
    pub fn validate(&self) -> Result<(), String> {
        let fault = |key: &str, what: &str| Err(format!("oauth.{key}: {what}"));
        if self.grant == Grant::ClientCredentials
            && (self.client_id.is_none() || self.client_secret.is_none())
        {
            return fault("grant", "client_credentials needs `client_id` and `client_secret`");
        }
        if self.client_secret.is_some() && self.client_id.is_none() {
            return fault("client_secret", "goes with `client_id`");
        }
        if self.client_metadata_url.is_some() && self.client_id.is_some() {
            return fault("client_metadata_url", "give either this or `client_id`");
        }
        if let Some(secret) = &self.client_secret
            && secret.is_empty()
        {
            return fault("client_secret", "is empty");
        }
        if self.client_id.as_deref().is_some_and(str::is_empty) {
            return fault("client_id", "is empty");
        }
        let open = |text: &str| text.contains("${");
        if let Some(url) = self.client_metadata_url.as_deref().filter(|url| !open(url)) {
            let fits =
                Url::parse(url).is_ok_and(|url| url.scheme() == "https" && url.path() != "/");
            if !fits {
                return fault("client_metadata_url", "must be an https:// url with a path");
            }
        }
        if let Some(url) = self.issuer.as_deref().filter(|url| !open(url)) {
            let fits = Url::parse(url).is_ok_and(|url| {
                url.scheme() == "https" || (url.scheme() == "http" && is_loopback(&url))
            });
            if !fits {
                return fault("issuer", "must be an https:// url");
            }
        }
        if self.scopes.iter().any(|scope| !open(scope) && !is_scope(scope)) {
            return fault("scopes", "give each as a text of its own, in ASCII and without spaces");
        }
        if self.redirect_port == Some(0) {
            return fault("redirect_port", "give a port from 1 to 65535");
        }
        Ok(())
    }
}

/// Whether it is one scope, by the letters that RFC 6749 allows.
pub(super) fn is_scope(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 256
        && text.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An id or an address may have come by `${…}`, too.
        f.debug_struct("Settings").field("grant", &self.grant).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn faults_name_the_key_and_no_secret() {
        for (value, expected) in [
            (json!({"grant": "client_credentials"}), "oauth.grant: "),
            (json!({"grant": "client_credentials", "client_id": "x"}), "oauth.grant: "),
            (json!({"client_secret": "s3cret-value"}), "oauth.client_secret: "),
            (json!({"client_id": "x", "client_secret": ""}), "oauth.client_secret: "),
            (json!({"client_id": ""}), "oauth.client_id: "),
            (
                json!({"client_id": "x", "client_metadata_url": "https://x/y"}),
                "oauth.client_metadata_url: ",
            ),
            (json!({"client_metadata_url": "http://x/y"}), "oauth.client_metadata_url: "),
            (json!({"client_metadata_url": "https://x"}), "oauth.client_metadata_url: "),
            (json!({"issuer": "http://x"}), "oauth.issuer: "),
            (json!({"scopes": ["a b"]}), "oauth.scopes: "),
            (json!({"redirect_port": 0}), "oauth.redirect_port: "),
        ] {
            let settings: Settings = serde_json::from_value(value.clone()).unwrap();
            let error = settings.validate().unwrap_err();
            assert!(error.starts_with(expected) && !error.contains("s3cret"), "{value}: {error}");
            assert!(!format!("{settings:?}").contains("s3cret"));
        }
        for value in [
            json!({}),
            json!({"client_id": "x", "client_secret": "${S}", "scopes": ["a", "b:c"]}),
            json!({"grant": "client_credentials", "client_id": "x", "client_secret": "${S}"}),
            json!({"client_metadata_url": "https://x/y", "issuer": "http://localhost:9"}),
        ] {
            let settings: Settings = serde_json::from_value(value.clone()).unwrap();
            settings.validate().unwrap_or_else(|error| panic!("{value}: {error}"));
        }
        assert!(serde_json::from_value::<Settings>(json!({"scope": "x"})).is_err());
    }
}

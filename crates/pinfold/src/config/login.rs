//! What the configuration says about logins at servers: checked, expanded, and named in commands.

use anyhow::Context as _;
use mcp::auth::Settings;

use super::file::File;
use super::{Config, Document, Documents, secrets};
use crate::credentials::Key;
use crate::wiring;

/// Checks what stands in the file itself: a secret does not belong there.
pub(super) fn check_written(file: &File, own: &Document) -> anyhow::Result<()> {
    let is_open = |text: &String| !text.contains("${");
    if file.credentials_key.as_ref().is_some_and(|key| is_open(&key.0)) {
        return Err(own.error(&["credentials_key"], BY_NAME));
    }
    for (name, server) in &file.servers {
        let secret = server.oauth.as_ref().and_then(|oauth| oauth.client_secret.as_ref());
        if secret.is_some_and(is_open) {
            return Err(own.error(&["servers", name, "oauth", "client_secret"], BY_NAME));
        }
    }
    Ok(())
}

const BY_NAME: &str = "is a secret, which does not belong in this file: write ${NAME} and set that \
                       variable";

/// Checks the rest.
pub(super) fn check(file: &File, documents: &Documents) -> anyhow::Result<()> {
    for (name, server) in &file.servers {
        let Some(oauth) = &server.oauth else { continue };
        let (document, table) = documents.of_server(name);
        oauth.validate().map_err(|fault| document.fault(&[table, name], &fault))?;
    }
    Ok(())
}

/// Everything in which `${…}` may stand.
pub(super) fn texts(oauth: &Settings) -> impl Iterator<Item = &String> {
    let one = [&oauth.client_id, &oauth.client_secret, &oauth.client_metadata_url, &oauth.issuer];
    one.into_iter().flatten().chain(&oauth.scopes)
}

/// With every `${…}` expanded.
pub(super) fn expanded(
    oauth: &Settings,
    expand: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Settings, String> {
    let one = |text: &Option<String>| text.as_deref().map(expand).transpose();
    let oauth = Settings {
        client_id: one(&oauth.client_id)?,
        client_secret: one(&oauth.client_secret)?,
        client_metadata_url: one(&oauth.client_metadata_url)?,
        issuer: one(&oauth.issuer)?,
        scopes: oauth.scopes.iter().map(|scope| expand(scope)).collect::<Result<_, _>>()?,
        ..oauth.clone()
    };
    oauth.validate()?;
    Ok(oauth)
}

impl Config {
    /// How to log in at the server called `name`, with every `${…}` expanded.
    pub(crate) fn login_settings(&self, name: &str) -> anyhow::Result<Settings> {
        let server = self.file.servers.get(name).context("no such server")?;
        let Some(oauth) = &server.oauth else { return Ok(Settings::default()) };
        let (document, table) = self.documents.of_server(name);
        let expand = |text: &str| {
            secrets::expand(text, &secrets::environment).map_err(|failure| failure.to_string())
        };
        expanded(oauth, &expand).map_err(|fault| document.error(&[table, name, "oauth"], fault))
    }

    /// The key that logins are sealed with, if one is configured.
    pub(crate) fn credentials_key(&self) -> anyhow::Result<Option<Key>> {
        let Some(key) = &self.file.credentials_key else { return Ok(None) };
        let fault = |fault: String| self.documents.own.error(&["credentials_key"], fault);
        let key = secrets::expand(&key.0, &secrets::environment)
            .map_err(|failure| fault(failure.to_string()))?;
        Key::parse(&key).map(Some).map_err(|error| fault(error.to_string()))
    }

    /// What to type to log in at a server.
    pub(crate) fn login_command(&self, name: &str) -> String {
        let options = wiring::command_options(None, self.given.as_deref());
        format!("pinfold login {}{options}", wiring::quoted(name))
    }
}

//! Where a server is. Holds secrets (variables, headers), which its `Debug` never shows.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use crate::auth::Login;
use crate::censor::Censor;
use crate::secrets::Secrets;

/// Where a server is.
#[derive(Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A program that speaks over its standard input and output.
    Stdio {
        /// Program, looked up in `PATH`.
        command: String,
        /// Arguments.
        args: Vec<String>,
        /// Variables added to the small inherited set (PATH, HOME, LANG …).
        env: BTreeMap<String, String>,
        /// Current directory.
        cwd: Option<PathBuf>,
        /// What nothing that the server sends may show.
        secrets: Secrets,
    },
    /// A streamable HTTP endpoint.
    Http {
        /// URL.
        url: String,
        /// Headers sent with every request (secrets: never shown by `Debug` or errors).
        headers: BTreeMap<String, String>,
        /// Where the token for each request comes from, if not from the headers.
        login: Option<Login>,
        /// What nothing that the server sends may show.
        secrets: Secrets,
    },
}

impl Endpoint {
    /// With a login, where it is an address.
    #[must_use]
    pub fn with_login(mut self, from: Login) -> Self {
        if let Self::Http { login, .. } = &mut self {
            *login = Some(from);
        }
        self
    }
}

impl fmt::Debug for Endpoint {
    /// Shows the program's name or the URL's origin: arguments, paths and queries may carry keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = match self {
            Self::Stdio { command, .. } => format!("Stdio({command})"),
            Self::Http { url, .. } => format!("Http({})", origin(url)),
        };
        f.write_str(&Censor::of_endpoint(self).hide(&shown))
    }
}

/// The part of a URL that holds no secret: scheme, host and port.
pub(crate) fn origin(url: &str) -> String {
    reqwest::Url::parse(url)
        .map_or_else(|_| "an invalid url".to_owned(), |url| url.origin().ascii_serialization())
}

//! The values that came into the configuration from outside, to be kept out of what comes back.

use std::fmt;
use std::sync::Arc;

/// Shorter values are words like `true` or `debug`; hiding them would only garble texts.
pub(crate) const SHORTEST: usize = 8;

/// What stands before a credential in a header.
const SCHEMES: [&str; 6] = ["Bearer", "Basic", "Token", "Key", "ApiKey", "Digest"];

/// Values that nothing a server sends may show. Its `Debug` shows their number only.
///
/// All configured ones belong to every [`Endpoint`](crate::Endpoint), since one server may repeat
/// what was meant for another.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(Arc<[String]>);

impl Secrets {
    /// Takes the values, and what in them is a credential by itself: the rest after `Bearer` or the
    /// like, and the password of a URL. Values of fewer than 8 bytes are left out, since hiding
    /// them would garble every other text.
    #[must_use]
    pub fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut secrets: Vec<String> = values.into_iter().flat_map(parts).collect();
        secrets.sort_unstable();
        secrets.dedup();
        Self(secrets.into())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

/// A value and the credentials in it, as far as they are long enough.
pub(crate) fn parts(value: &str) -> Vec<String> {
    let value = value.trim();
    // Of other values with a space in them the rest may be a common word.
    let credential = value
        .split_once(' ')
        .filter(|(scheme, _)| SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(scheme)))
        .map(|(_, rest)| rest.trim().to_owned());
    let url = reqwest::Url::parse(value).ok();
    let password = url.as_ref().and_then(|url| url.password()).map(ToOwned::to_owned);
    [Some(value.to_owned()), credential, password]
        .into_iter()
        .flatten()
        .filter(|part| part.len() >= SHORTEST)
        .collect()
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

//! Keeps configured secrets out of logs and error texts, also when a server repeats them.

use std::collections::BTreeMap;

use crate::endpoint::Endpoint;

/// Shorter values are words like `true` or `debug`; hiding them would only garble texts.
const SHORTEST: usize = 8;

/// The values that no text may show.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Vec<String>);

impl Secrets {
    /// The values of an endpoint: its variables, or its headers and what its URL carries.
    pub(crate) fn of_endpoint(endpoint: &Endpoint) -> Self {
        match endpoint {
            Endpoint::Stdio { env, .. } => Self::of(env),
            Endpoint::Http { url, headers } => {
                let mut values = headers.clone();
                if let Ok(url) = reqwest::Url::parse(url) {
                    values.extend(url.password().map(|word| (String::new(), word.to_owned())));
                    values.extend(
                        url.query_pairs()
                            .map(|(name, value)| (format!("?{name}"), value.into_owned())),
                    );
                }
                Self::of(&values)
            }
        }
    }

    /// Takes every configured value, and the credential of `Bearer …` alike values alone too.
    fn of(values: &BTreeMap<String, String>) -> Self {
        let mut secrets: Vec<String> = values
            .values()
            .flat_map(|value| {
                let credential = value.split_once(' ').map(|(_, rest)| rest.trim().to_owned());
                [Some(value.clone()), credential]
            })
            .flatten()
            .filter(|value| value.len() >= SHORTEST)
            .collect();
        // The longest first, so that a part is not hidden before the whole.
        secrets.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self(secrets)
    }

    /// The text without the secrets.
    pub(crate) fn hide(&self, text: &str) -> String {
        let mut hidden = text.to_owned();
        for secret in &self.0 {
            if hidden.contains(secret.as_str()) {
                hidden = hidden.replace(secret.as_str(), "***");
            }
        }
        hidden
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_hidden_with_and_without_its_scheme() {
        let secrets = Secrets::of(&BTreeMap::from([
            ("Authorization".to_owned(), "Bearer abcdef123456".to_owned()),
            ("X-Debug".to_owned(), "true".to_owned()),
        ]));
        assert_eq!(secrets.hide("got Bearer abcdef123456"), "got ***");
        assert_eq!(secrets.hide("token=abcdef123456 true"), "token=*** true");
        assert_eq!(format!("{secrets:?}"), "Secrets(2)");
    }
}

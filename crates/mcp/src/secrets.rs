//! The values that came into the configuration from outside, and the tokens that were got with them,
//! to be kept out of what comes back.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Shorter values are words like `true` or `debug`; hiding them would only garble texts.
pub(crate) const SHORTEST: usize = 8;

/// What stands before a credential in a header.
const SCHEMES: [&str; 6] = ["Bearer", "Basic", "Token", "Key", "ApiKey", "Digest"];

/// So many tokens of one server are known at a time; an older one has expired.
const LEARNED: usize = 32;

/// Values that nothing a server sends may show. Its `Debug` shows their number only.
///
/// All configured ones belong to every [`Endpoint`](crate::Endpoint), since one server may repeat
/// what was meant for another. What one clone [learns](Self::learn) all of them know.
#[derive(Clone, Default)]
pub struct Secrets {
    configured: Arc<[String]>,
    learned: Arc<Learned>,
}

#[derive(Default)]
struct Learned {
    /// By the server they are for, the newest last.
    values: Mutex<BTreeMap<String, VecDeque<String>>>,
    changes: AtomicU64,
}

impl PartialEq for Secrets {
    fn eq(&self, other: &Self) -> bool {
        self.configured == other.configured
    }
}

impl Eq for Secrets {}

impl Secrets {
    /// Takes the values, and what in them is a credential by itself: the rest after `Bearer` or the
    /// like, and the password of a URL. Values of fewer than 8 bytes are left out, since hiding
    /// them would garble every other text.
    #[must_use]
    pub fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut secrets: Vec<String> = values.into_iter().flat_map(parts).collect();
        secrets.sort_unstable();
        secrets.dedup();
        Self { configured: secrets.into(), learned: Arc::default() }
    }

    /// Keeps a token that was got for `server` out of everything from now on.
    pub fn learn(&self, server: &str, token: &str) {
        if token.len() < SHORTEST {
            return;
        }
        let mut values = self.learned.values.lock().unwrap_or_else(PoisonError::into_inner);
        let known = values.entry(server.to_owned()).or_default();
        if let Some(place) = known.iter().position(|known| known == token) {
            // It is in use, so it must not be the next to be forgotten.
            if let Some(token) = known.remove(place) {
                known.push_back(token);
            }
            return;
        }
        if known.len() == LEARNED {
            known.pop_front();
        }
        known.push_back(token.to_owned());
        self.learned.changes.fetch_add(1, Ordering::Release);
    }

    /// Changes whenever something was learned.
    pub(crate) fn changes(&self) -> u64 {
        self.learned.changes.load(Ordering::Acquire)
    }

    /// All of them.
    pub(crate) fn values(&self) -> Vec<String> {
        let learned = self.learned.values.lock().unwrap_or_else(PoisonError::into_inner);
        self.configured.iter().chain(learned.values().flatten()).cloned().collect()
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
    // Behind the question mark of an address there may be a key.
    let pairs = url.iter().flat_map(|url| url.query_pairs());
    let keys = pairs.map(|(_, value)| Some(value.into_owned()));
    [Some(value.to_owned()), credential, password]
        .into_iter()
        .chain(keys)
        .flatten()
        .filter(|part| part.len() >= SHORTEST)
        .collect()
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.values().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_learns_all_know_and_the_oldest_are_forgotten_first() {
        let secrets = Secrets::new(["configured"]);
        let clone = secrets.clone();
        for n in 0..LEARNED {
            secrets.learn("a", &format!("token-of-a-{n}"));
        }
        secrets.learn("b", "token-of-b");
        secrets.learn("a", "short");
        let before = clone.changes();
        // One that is got again is as new as the newest.
        secrets.learn("a", "token-of-a-0");
        assert_eq!(clone.changes(), before);
        secrets.learn("a", "token-of-a-new");
        assert!(clone.changes() > before);
        let values = clone.values();
        for known in ["configured", "token-of-b", "token-of-a-0", "token-of-a-new"] {
            assert!(values.iter().any(|value| value == known), "{known}");
        }
        assert!(!values.iter().any(|value| value == "token-of-a-1" || value == "short"));
        assert_eq!(format!("{clone:?}"), "Secrets(34)");
    }
}

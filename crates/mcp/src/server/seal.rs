//! What a client has to carry from one request to the next, so that it can neither read it as its
//! own nor use it for anything else.
//!
//! The state is not secret; it is bound, by a keyed hash, to who calls, to the very call, and to a
//! time after which it is worth nothing.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::Refusal;

/// Longest sealed state that is looked at, in bytes.
const LONGEST: usize = 16 * 1024;

/// The key that states are sealed with.
#[derive(Clone)]
pub struct Seal([u8; 32]);

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal")
    }
}

/// What is sealed.
#[derive(Serialize, Deserialize)]
struct Sealed {
    state: String,
    /// Hash of who calls and of the call.
    bound: String,
    /// Milliseconds since 1970.
    until: u64,
}

impl Seal {
    /// A new key. Where it is kept, states outlive the process.
    pub fn new_key() -> std::io::Result<[u8; 32]> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(std::io::Error::other)?;
        Ok(key)
    }

    /// With this key.
    #[must_use]
    pub fn with_key(key: [u8; 32]) -> Self {
        Self(key)
    }

    pub(crate) fn close(&self, state: &str, bound: &Bound, lasts: Duration) -> Option<String> {
        let until = now_ms().saturating_add(u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX));
        let sealed = Sealed { state: state.to_owned(), bound: bound.0.clone(), until };
        let text = serde_json::to_vec(&sealed).ok()?;
        let tag = self.hash(&text)?.finalize().into_bytes();
        Some(format!("{}.{}", BASE64.encode(&text), BASE64.encode(tag)))
    }

    /// The state, if it was closed here, for this call and not too long ago.
    pub(crate) fn open(&self, sealed: &str, bound: &Bound) -> Result<String, Refusal> {
        let wrong = |why: &str| {
            Refusal::invalid(format!(
                "requestState {why}; make the call again without requestState and inputResponses"
            ))
        };
        let foreign = || wrong("is not one that was given out here");
        if sealed.len() > LONGEST {
            return Err(foreign());
        }
        let (text, tag) = sealed.split_once('.').ok_or_else(foreign)?;
        let text = BASE64.decode(text).map_err(|_| foreign())?;
        let tag = BASE64.decode(tag).map_err(|_| foreign())?;
        // The comparison takes the same time wherever the two differ.
        let hash = self.hash(&text).ok_or_else(foreign)?;
        hash.verify_slice(&tag).map_err(|_| foreign())?;
        let sealed: Sealed = serde_json::from_slice(&text).map_err(|_| foreign())?;
        if sealed.bound != bound.0 {
            return Err(wrong("belongs to another call"));
        }
        if sealed.until <= now_ms() {
            return Err(wrong("has expired"));
        }
        Ok(sealed.state)
    }

    fn hash(&self, text: &[u8]) -> Option<Hmac<Sha256>> {
        let mut hash = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        hash.update(text);
        Some(hash)
    }
}

/// Who calls what, as a hash.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bound(String);

impl Bound {
    pub(crate) fn new(principal: &str, tool: &str, arguments: &RawValue) -> Self {
        // A client may write the same arguments anew; a parsed value writes them one way only.
        let arguments = serde_json::from_str::<serde_json::Value>(arguments.get())
            .map_or_else(|_| arguments.get().to_owned(), |value| value.to_string());
        let mut hash = Sha256::new();
        for part in [principal, tool, &arguments] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Self(BASE64.encode(hash.finalize()))
    }
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn bound(principal: &str, tool: &str, arguments: &str) -> Bound {
        Bound::new(principal, tool, &RawValue::from_string(arguments.to_owned()).unwrap())
    }

    #[test]
    fn only_the_same_call_opens_it() {
        let seal = Seal::with_key(Seal::new_key().unwrap());
        let mine = bound("me", "t", r#"{"a":1,"b":[2]}"#);
        let sealed = seal.close("state", &mine, HOUR).unwrap();
        assert_eq!(seal.open(&sealed, &mine).unwrap(), "state");
        assert_eq!(
            seal.open(&sealed, &bound("me", "t", "{ \"a\": 1, \"b\": [2] }")).unwrap(),
            "state"
        );
        for other in [
            bound("you", "t", r#"{"a":1,"b":[2]}"#),
            bound("me", "u", r#"{"a":1,"b":[2]}"#),
            bound("me", "t", r#"{"a":1,"b":[3]}"#),
            bound("met", "", r#"{"a":1,"b":[2]}"#),
        ] {
            assert!(seal.open(&sealed, &other).is_err());
        }
    }

    #[test]
    fn nothing_else_opens() {
        let seal = Seal::with_key(Seal::new_key().unwrap());
        let mine = bound("me", "t", "{}");
        let sealed = seal.close("state", &mine, HOUR).unwrap();
        assert!(Seal::with_key(Seal::new_key().unwrap()).open(&sealed, &mine).is_err());
        let late = seal.close("state", &mine, Duration::ZERO).unwrap();
        assert!(seal.open(&late, &mine).is_err());
        let (text, tag) = sealed.split_once('.').unwrap();
        let forged = BASE64.decode(text).unwrap();
        let forged =
            String::from_utf8(forged).unwrap().replace("state\":\"state", "state\":\"other");
        for wrong in [
            String::new(),
            text.to_owned(),
            format!("{text}."),
            format!("{}.{tag}", BASE64.encode(forged)),
            format!("{text}.{}", &tag[1..]),
            "x".repeat(20_000),
        ] {
            assert!(seal.open(&wrong, &mine).is_err(), "{wrong}");
        }
    }
}

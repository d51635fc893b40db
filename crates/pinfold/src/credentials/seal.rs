//! Closes credentials before they are stored, and opens them again.
//!
//! XChaCha20-Poly1305 with a new nonce each time. Bound to whose they are, so that a row that
//! somebody moved to another server's place cannot be opened there.

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD};
use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};

const NONCE: usize = 24;

/// Says how it was closed, for the day when there is another way.
const FORM: u8 = 1;

/// The key of all credentials. Its `Debug` shows nothing.
#[derive(Clone)]
pub(crate) struct Key([u8; 32]);

impl Key {
    pub(crate) fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// From 64 hexadecimal digits or base64; the error shows nothing of it.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let text = text.trim();
        let hexadecimal = || {
            let digits = (text.len() == 64 && text.is_ascii()).then_some(text)?;
            let byte = |n: usize| u8::from_str_radix(&digits[2 * n..2 * n + 2], 16).ok();
            (0..32).map(byte).collect::<Option<Vec<u8>>>()
        };
        let base64 = || BASE64_STANDARD_NO_PAD.decode(text.trim_end_matches('=')).ok();
        let bytes: Option<Vec<u8>> = hexadecimal().or_else(base64);
        match bytes.map(<[u8; 32]>::try_from) {
            Some(Ok(key)) => Ok(Self(key)),
            _ => bail!(
                "is no key of 32 bytes: give 64 hexadecimal digits or base64, such as \
                 `openssl rand -hex 32` prints"
            ),
        }
    }

    /// Closes `plain` for the place called `whose`.
    pub(crate) fn close(&self, whose: &str, plain: &[u8]) -> anyhow::Result<String> {
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).map_err(|error| anyhow::anyhow!("no randomness: {error}"))?;
        let sealed = self
            .cipher()
            .encrypt(&XNonce::from(nonce), Payload { msg: plain, aad: whose.as_bytes() })
            .map_err(|_| anyhow::anyhow!("it cannot be encrypted"))?;
        Ok(BASE64_STANDARD.encode([&[FORM][..], &nonce, &sealed].concat()))
    }

    /// Opens what was closed for that place with this key.
    pub(crate) fn open(&self, whose: &str, sealed: &str) -> anyhow::Result<Vec<u8>> {
        let bytes = BASE64_STANDARD.decode(sealed).context("it is not what pinfold writes")?;
        let Some((&[FORM], rest)) = bytes.split_at_checked(1) else {
            bail!("a newer pinfold wrote it");
        };
        let (nonce, sealed) = rest.split_at_checked(NONCE).context("it is cut off")?;
        let nonce: [u8; NONCE] = nonce.try_into().context("it is cut off")?;
        self.cipher()
            .decrypt(&XNonce::from(nonce), Payload { msg: sealed, aad: whose.as_bytes() })
            .map_err(|_| anyhow::anyhow!("it was closed with another key, or changed since"))
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&self.0.into())
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_key_opens_it_and_only_in_its_place() {
        let key = Key::new([7; 32]);
        let sealed = key.close("here", b"the token").unwrap();
        assert_eq!(key.open("here", &sealed).unwrap(), b"the token");
        assert_ne!(key.close("here", b"the token").unwrap(), sealed, "the nonce is the same");
        assert!(!BASE64_STANDARD.decode(&sealed).unwrap().windows(5).any(|part| part == b"token"));
        assert!(key.open("there", &sealed).is_err());
        assert!(Key::new([8; 32]).open("here", &sealed).is_err());
        for at in [1, 20, 30, 50] {
            let mut bytes = BASE64_STANDARD.decode(&sealed).unwrap();
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1;
                assert!(key.open("here", &BASE64_STANDARD.encode(bytes)).is_err(), "{at}");
            }
        }
        for wrong in ["", "AQ==", "AgAA", "no base64!", &sealed[..20]] {
            assert!(key.open("here", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_key_is_read_in_either_form_and_never_shown() {
        let hexadecimal = "ab".repeat(32);
        let base64 = BASE64_STANDARD.encode([0xab; 32]);
        for text in [hexadecimal.as_str(), &base64, base64.trim_end_matches('=')] {
            assert_eq!(Key::parse(text).unwrap().0, [0xab; 32]);
        }
        for wrong in ["", "s3cret", &"ab".repeat(31), &"zz".repeat(32), &"é".repeat(32)] {
            let error = Key::parse(wrong).unwrap_err().to_string();
            assert!(wrong.is_empty() || !error.contains(wrong), "{error}");
        }
        assert_eq!(format!("{:?}", Key::new([7; 32])), "Key");
    }
}

//! Hides secrets in what a server says, also where it repeats those that it was given.
//!
//! Messages lose only the values that came from outside ([`Secrets`]) and tokens, also those that
//! are got while the connection lasts; error texts and logs also lose every variable and header that
//! stands in the configuration as it is. A secret is found in its JSON forms, too; encodings such as
//! base64 are deliberately not looked for.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use memchr::memmem::{Finder, find_iter};

use crate::endpoint::Endpoint;
use crate::message::{Token, quote, tokens, unit};
use crate::secrets::{SHORTEST, Secrets, parts};

/// What stands in the place of a secret.
const HIDDEN: &str = "***";

/// A shorter part of a secret is in too many messages to be looked for first.
const SHORTEST_ANCHOR: usize = 4;

/// Hides what is secret now.
pub(crate) struct Censor {
    secrets: Secrets,
    /// Hidden in texts only.
    configured: Vec<String>,
    patterns: RwLock<Arc<Patterns>>,
}

/// What is hidden, and how it is found.
struct Patterns {
    /// The state of the secrets that this is about.
    changes: u64,
    /// In error texts and logs, the longest first, so that a part is not hidden before the whole.
    texts: Vec<String>,
    /// In messages.
    values: Vec<Value>,
}

/// A secret as it may stand in a message.
struct Value {
    plain: String,
    /// Its longest part that no writer of JSON escapes; if that is too short every message is
    /// walked through.
    anchor: Option<Finder<'static>>,
    /// As it is, and as it stands in JSON which is itself a text in the message.
    forms: Vec<String>,
}

impl Censor {
    /// Hides the endpoint's secrets, and in texts its variables or headers and what its URL carries.
    pub(crate) fn of_endpoint(endpoint: &Endpoint) -> Self {
        match endpoint {
            Endpoint::Stdio { env, secrets, .. } => Self::of(secrets, env),
            Endpoint::Http { url, headers, secrets, .. } => {
                let mut configured = headers.clone();
                if let Ok(url) = reqwest::Url::parse(url) {
                    configured.extend(url.password().map(|word| (String::new(), word.to_owned())));
                    configured.extend(
                        url.query_pairs()
                            .map(|(name, value)| (format!("?{name}"), value.into_owned())),
                    );
                }
                Self::of(secrets, &configured)
            }
        }
    }

    /// Hides the secrets alone.
    pub(crate) fn of_secrets(secrets: &Secrets) -> Self {
        Self::of(secrets, &BTreeMap::new())
    }

    fn of(secrets: &Secrets, configured: &BTreeMap<String, String>) -> Self {
        let configured: Vec<String> = configured
            .values()
            .flat_map(|value| {
                let rest = value.split_once(' ').map_or("", |(_, rest)| rest.trim());
                parts(value).into_iter().chain(parts(rest))
            })
            .collect();
        let patterns = RwLock::new(Arc::new(Patterns::of(secrets, &configured)));
        Self { secrets: secrets.clone(), configured, patterns }
    }

    /// What is to be hidden now.
    fn patterns(&self) -> Arc<Patterns> {
        let known = Arc::clone(&self.patterns.read().unwrap_or_else(PoisonError::into_inner));
        if known.changes == self.secrets.changes() {
            return known;
        }
        let now = Arc::new(Patterns::of(&self.secrets, &self.configured));
        *self.patterns.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&now);
        now
    }

    /// A text for people without secrets.
    pub(crate) fn hide(&self, text: &str) -> String {
        let mut hidden = text.to_owned();
        for secret in &self.patterns().texts {
            if hidden.contains(secret.as_str()) {
                hidden = hidden.replace(secret.as_str(), HIDDEN);
            }
        }
        hidden
    }

    /// A message without secrets. What was JSON stays JSON, and all else stays as it was sent.
    pub(crate) fn hide_in_message<'a>(&self, message: &'a str) -> Cow<'a, str> {
        let patterns = self.patterns();
        let found: Vec<&Value> =
            patterns.values.iter().filter(|value| value.may_be_in(message)).collect();
        if found.is_empty() {
            return Cow::Borrowed(message);
        }
        let mut hidden = String::new();
        let mut done = 0;
        let mut replace = |place: Range<usize>, by: &str| {
            hidden.push_str(&message[done..place.start]);
            hidden.push_str(by);
            done = place.end;
        };
        for (token, place) in tokens(message) {
            let part = &message[place.clone()];
            match token {
                Token::Text => {
                    for inside in places(part, &found) {
                        replace(place.start + inside.start..place.start + inside.end, HIDDEN);
                    }
                }
                // A secret of digits may come as a number.
                Token::Word if found.iter().any(|value| value.plain == part) => {
                    replace(place, "\"***\"");
                }
                _ => {}
            }
        }
        if done == 0 {
            return Cow::Borrowed(message);
        }
        hidden.push_str(&message[done..]);
        Cow::Owned(hidden)
    }
}

impl Patterns {
    fn of(secrets: &Secrets, configured: &[String]) -> Self {
        // Read first: what is learned meanwhile is found out the next time.
        let changes = secrets.changes();
        let values = secrets.values();
        let mut texts: Vec<String> = configured.to_vec();
        texts.extend(values.iter().flat_map(|value| forms(value)));
        // As the host of a URL it is shown in this form.
        texts.extend(values.iter().map(|value| value.to_ascii_lowercase()));
        texts.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        texts.dedup();
        Self { changes, texts, values: values.iter().map(|value| Value::new(value)).collect() }
    }
}

impl Default for Censor {
    fn default() -> Self {
        Self::of_secrets(&Secrets::default())
    }
}

impl Value {
    fn new(secret: &str) -> Self {
        let anchor = secret
            .split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | '.'))
            .max_by_key(|part| part.len())
            .filter(|part| part.len() >= SHORTEST_ANCHOR)
            .map(|part| Finder::new(part).into_owned());
        Self { plain: secret.to_owned(), anchor, forms: forms(secret) }
    }

    /// False only where the secret is surely not in the text.
    fn may_be_in(&self, text: &str) -> bool {
        self.anchor.as_ref().is_none_or(|anchor| anchor.find(text.as_bytes()).is_some())
    }
}

/// A secret as it is and as the usual writers put it into JSON.
fn forms(secret: &str) -> Vec<String> {
    let inside = |quoted: String| quoted[1..quoted.len() - 1].to_owned();
    let quoted = inside(quote(secret));
    let mut ascii = String::new();
    for c in quoted.chars() {
        if c.is_ascii() {
            ascii.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                ascii.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    let mut forms = vec![secret.to_owned(), quoted.replace('/', "\\/"), ascii.replace('/', "\\/")];
    forms.extend([quoted, ascii]);
    forms.sort_unstable();
    forms.dedup();
    forms
}

/// Where secrets stand in what is between the quotes of a JSON string, in order, apart.
fn places(part: &str, values: &[&Value]) -> Vec<Range<usize>> {
    if part.len() < SHORTEST || !values.iter().any(|value| value.may_be_in(part)) {
        return Vec::new();
    }
    let decoded = Decoded::of(part);
    let mut places: Vec<Range<usize>> = Vec::new();
    for form in values.iter().flat_map(|value| &value.forms) {
        places.extend(
            find_iter(&decoded.bytes, form.as_bytes())
                .map(|at| decoded.place(at)..decoded.place(at + form.len())),
        );
    }
    places.sort_unstable_by_key(|place| (place.start, place.end));
    let mut apart: Vec<Range<usize>> = Vec::new();
    for place in places {
        match apart.last_mut() {
            Some(last) if place.start < last.end => last.end = last.end.max(place.end),
            _ => apart.push(place),
        }
    }
    apart
}

/// What a JSON string says, and where each byte of that came from.
struct Decoded<'a> {
    bytes: Cow<'a, [u8]>,
    /// With the end of all; empty where nothing is escaped.
    origins: Vec<usize>,
}

impl<'a> Decoded<'a> {
    fn of(part: &'a str) -> Self {
        let source = part.as_bytes();
        if memchr::memchr(b'\\', source).is_none() {
            return Self { bytes: Cow::Borrowed(source), origins: Vec::new() };
        }
        let (mut bytes, mut origins) = (Vec::new(), Vec::new());
        let mut at = 0;
        while at < source.len() {
            let (decoded, length) = match (source[at], source.get(at + 1)) {
                (b'\\', Some(b'u')) => escaped_unit(source, at),
                (b'\\', Some(escaped)) => {
                    let plain = match escaped {
                        b'n' => b'\n',
                        b't' => b'\t',
                        b'r' => b'\r',
                        b'b' => 8,
                        b'f' => 12,
                        other => *other,
                    };
                    (Some(char::from(plain)).filter(char::is_ascii), 2)
                }
                _ => (None, 0),
            };
            match decoded {
                Some(c) => {
                    let mut buffer = [0; 4];
                    let encoded = c.encode_utf8(&mut buffer).as_bytes();
                    bytes.extend_from_slice(encoded);
                    origins.extend(std::iter::repeat_n(at, encoded.len()));
                    at += length;
                }
                None => {
                    bytes.push(source[at]);
                    origins.push(at);
                    at += 1;
                }
            }
        }
        origins.push(at);
        Self { bytes: Cow::Owned(bytes), origins }
    }

    /// Where in the source the byte `at` came from.
    fn place(&self, at: usize) -> usize {
        self.origins.get(at).copied().unwrap_or(at)
    }
}

/// The character that an escape `\uXXXX` or a pair of them stands for, and its length.
fn escaped_unit(source: &[u8], at: usize) -> (Option<char>, usize) {
    let units = [unit(source, at), unit(source, at + 6)];
    let units = units.map(|unit| unit.and_then(|unit| u16::try_from(unit).ok()));
    let Some(first) = units[0] else { return (None, 0) };
    let pair = char::decode_utf16([Some(first), units[1]].into_iter().flatten()).next();
    let decoded = pair.and_then(Result::ok);
    (decoded, decoded.map_or(0, |c| 6 * c.len_utf16()))
}

impl std::fmt::Debug for Censor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let patterns = self.patterns();
        write!(f, "Censor({}, {})", patterns.texts.len(), patterns.values.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hiding(secrets: &[&str]) -> Censor {
        Censor::of(&Secrets::new(secrets.iter().copied()), &BTreeMap::new())
    }

    #[test]
    fn a_token_is_hidden_with_and_without_its_scheme() {
        let configured = BTreeMap::from([
            ("Authorization".to_owned(), "Bearer abcdef123456".to_owned()),
            ("X-Debug".to_owned(), "true".to_owned()),
        ]);
        let censor = Censor::of(&Secrets::default(), &configured);
        assert_eq!(censor.hide("got Bearer abcdef123456"), "got ***");
        assert_eq!(censor.hide("token=abcdef123456 true"), "token=*** true");
        assert_eq!(format!("{censor:?}"), "Censor(2, 0)");
        // What stands in the configuration as it is, is no secret in a result.
        let message = r#"{"result":"abcdef123456"}"#;
        assert!(matches!(censor.hide_in_message(message), Cow::Borrowed(_)));
    }

    #[test]
    fn a_secret_is_hidden_in_every_form_json_gives_it_and_all_else_is_kept() {
        let censor = hiding(&["s3cr3t/\"key\"+\u{e9}\u{1f511}", "12345678901"]);
        for (message, expected) in [
            // As serde, Python, PHP and .NET write it.
            (r#"{"a":"x s3cr3t/\"key\"+é🔑\u00e9\/ y"}"#, r#"{"a":"x ***\u00e9\/ y"}"#),
            (r#"["s3cr3t/\"key\"+\u00e9\ud83d\udd11"]"#, r#"["***"]"#),
            (r#"["s3cr3t\/\"key\"+\u00E9\uD83D\uDD11"]"#, r#"["***"]"#),
            (r#"["s3cr3t/\u0022key\u0022\u002B\u00e9\uD83D\uDD11"]"#, r#"["***"]"#),
            // JSON in a text, from the same writers.
            (
                r#"{"text":"{\"k\": \"s3cr3t/\\\"key\\\"+\\u00e9\\ud83d\\udd11\"}"}"#,
                r#"{"text":"{\"k\": \"***\"}"}"#,
            ),
            (r#"{"text":"{\"k\":\"s3cr3t\\/\\\"key\\\"+é🔑\"}"}"#, r#"{"text":"{\"k\":\"***\"}"}"#),
            // A key, a number, a part of a longer number.
            (
                r#"{"12345678901":12345678901, "b": 123456789012}"#,
                r#"{"***":"***", "b": 123456789012}"#,
            ),
            (r#"{"a":"s3cr3t/key","b" : 1.50}"#, r#"{"a":"s3cr3t/key","b" : 1.50}"#),
        ] {
            assert_eq!(censor.hide_in_message(message), expected, "{message}");
            serde_json::from_str::<serde_json::Value>(expected).unwrap();
        }
    }

    #[test]
    fn a_secret_without_a_plain_part_is_found_too() {
        let censor = hiding(&["密码密码密码", "\\\\\"\"\\\\\"\""]);
        assert_eq!(censor.hide_in_message(r#"["\u5bc6\u7801密码\u5bc6\u7801!"]"#), r#"["***!"]"#);
        assert_eq!(censor.hide_in_message(r#"["\\\\\"\"\\\\\"\""]"#), r#"["***"]"#);
        assert_eq!(
            censor.hide_in_message(r#"["\\\\\\\"\"\\\\\"\"", "\u12"]"#),
            r#"["\\***", "\u12"]"#
        );
    }

    #[test]
    fn a_token_that_is_got_later_is_hidden_from_then_on() {
        let secrets = Secrets::new(["configured"]);
        let censor = Censor::of_secrets(&secrets);
        let message = r#"["the-new-token", "configured"]"#;
        assert_eq!(censor.hide_in_message(message), r#"["the-new-token", "***"]"#);
        secrets.learn("server", "the-new-token");
        assert_eq!(censor.hide_in_message(message), r#"["***", "***"]"#);
        assert_eq!(censor.hide("Bearer the-new-token"), "Bearer ***");
        secrets.learn("server", "a-newer-token");
        assert_eq!(censor.hide("a-newer-token the-new-token"), "*** ***");
    }

    #[test]
    fn overlapping_secrets_leave_nothing_over() {
        let censor = hiding(&["abcdefghij", "ghijklmnop", "Bearer tok-12345678"]);
        assert_eq!(censor.hide_in_message(r#"["abcdefghijklmnop"]"#), r#"["***"]"#);
        assert_eq!(censor.hide_in_message(r#"["tok-12345678"]"#), r#"["***"]"#);
        assert_eq!(hiding(&["the database"]).hide_in_message(r#"["database"]"#), r#"["database"]"#);
        let url = hiding(&["postgres://me:pass-word-1@host/x"]);
        assert_eq!(url.hide_in_message(r#"["pass-word-1"]"#), r#"["***"]"#);
    }
}

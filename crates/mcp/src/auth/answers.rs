//! What authorization servers answer, in one plain form: the fields that are used, each checked.

use std::fmt;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::settings::is_scope;

/// Longest token, id or secret, in bytes.
const LONGEST_WORD: usize = 16 * 1024;

/// Longest lifetime that is believed, in seconds: a year.
const LONGEST_LIFE: u64 = 366 * 24 * 3600;

/// Most scopes of one grant.
const MOST_SCOPES: usize = 200;

/// What a grant gave.
#[derive(Clone)]
pub(super) struct Tokens {
    pub(super) access_token: String,
    pub(super) refresh_token: Option<String>,
    pub(super) expires_in: Option<u64>,
    pub(super) scopes: Option<Vec<String>>,
}

/// As what this program was registered.
#[derive(Clone)]
pub(super) struct Registered {
    pub(super) client_id: String,
    pub(super) client_secret: Option<String>,
    redirect_uris: Vec<String>,
}

/// Why an authorization server refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// `invalid_grant` and so on.
    pub(super) code: String,
}

impl Tokens {
    pub(super) fn to_json(&self) -> Vec<u8> {
        let mut fields = Map::new();
        fields.insert("access_token".to_owned(), json!(self.access_token));
        fields.insert("token_type".to_owned(), json!("bearer"));
        if let Some(token) = &self.refresh_token {
            fields.insert("refresh_token".to_owned(), json!(token));
        }
        if let Some(seconds) = self.expires_in {
            fields.insert("expires_in".to_owned(), json!(seconds));
        }
        if let Some(scopes) = &self.scopes {
            fields.insert("scope".to_owned(), json!(scopes.join(" ")));
        }
        Value::Object(fields).to_string().into_bytes()
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("expires_in", &self.expires_in).finish_non_exhaustive()
    }
}

impl Registered {
    pub(super) fn to_json(&self) -> Vec<u8> {
        json!({
            "client_id": self.client_id,
            "client_secret": self.client_secret,
            "redirect_uris": self.redirect_uris,
        })
        .to_string()
        .into_bytes()
    }
}

impl Problem {
    pub(super) fn to_json(&self) -> Vec<u8> {
        json!({"error": self.code}).to_string().into_bytes()
    }

    /// Of a body that says what is wrong.
    fn of(fields: Option<&Map<String, Value>>) -> Self {
        let code = fields.and_then(|fields| fields.get("error")).and_then(Value::as_str);
        let plain = |code: &str| {
            !code.is_empty()
                && code.len() <= 60
                && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
        };
        Self { code: code.filter(|code| plain(code)).unwrap_or("no reason given").to_owned() }
    }
}

/// Reads the answer of a token endpoint.
pub(super) fn tokens(success: bool, body: &[u8]) -> Result<Result<Tokens, Problem>, String> {
    let fields: Option<Map<String, Value>> = serde_json::from_slice(body).ok();
    // There are servers that refuse with 200.
    if !success || fields.as_ref().is_some_and(|fields| fields.contains_key("error")) {
        return Ok(Err(Problem::of(fields.as_ref())));
    }
    let Some(fields) = fields else {
        return Err("its token endpoint answered with something else than JSON".to_owned());
    };
    let word =
        |name: &str| fields.get(name).and_then(Value::as_str).filter(|word| !word.is_empty());
    let Some(access_token) = word("access_token").filter(|token| is_token(token)) else {
        return Err("its token endpoint gave no usable access token".to_owned());
    };
    let kind = word("token_type").unwrap_or("bearer");
    if !kind.eq_ignore_ascii_case("bearer") {
        return Err(
            "its tokens are not bearer tokens, which are the only ones used here".to_owned()
        );
    }
    let refresh_token = match word("refresh_token") {
        Some(token) if !is_token(token) => {
            return Err("its token endpoint gave an unusable refresh token".to_owned());
        }
        token => token.map(ToOwned::to_owned),
    };
    let expires_in = fields.get("expires_in").and_then(|value| match value {
        Value::Number(number) => number.as_u64().or_else(|| number.as_f64().map(|n| n as u64)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    });
    let scopes = word("scope").map(scopes);
    Ok(Ok(Tokens {
        access_token: access_token.to_owned(),
        refresh_token,
        expires_in: expires_in.map(|seconds| seconds.min(LONGEST_LIFE)),
        scopes,
    }))
}

/// The scopes in a list of them, without what is none.
pub(super) fn scopes(list: &str) -> Vec<String> {
    let scopes = list.split_ascii_whitespace().filter(|scope| is_scope(scope));
    scopes.take(MOST_SCOPES).map(ToOwned::to_owned).collect()
}

/// Reads the answer to a registration.
pub(super) fn registration(
    success: bool,
    body: &[u8],
) -> Result<Result<Registered, Problem>, String> {
    #[derive(Deserialize)]
    struct Fields {
        client_id: String,
        client_secret: Option<String>,
    }
    if !success {
        let fields: Option<Map<String, Value>> = serde_json::from_slice(body).ok();
        return Ok(Err(Problem::of(fields.as_ref())));
    }
    let fields: Fields = serde_json::from_slice(body)
        .map_err(|_| "the answer to the registration gives no client_id".to_owned())?;
    let secret = fields.client_secret.filter(|secret| !secret.is_empty());
    let fits = |word: &str| word.len() <= LONGEST_WORD && !word.chars().any(char::is_control);
    if fields.client_id.is_empty()
        || !fits(&fields.client_id)
        || !secret.as_deref().is_none_or(fits)
    {
        return Err("the answer to the registration has an unusable id or secret".to_owned());
    }
    Ok(Ok(Registered {
        client_id: fields.client_id,
        client_secret: secret,
        redirect_uris: Vec::new(),
    }))
}

/// What protected-resource metadata says it is about, if it says so.
pub(super) fn resource(body: &[u8]) -> Option<String> {
    let fields: Map<String, Value> = serde_json::from_slice(body).ok()?;
    fields.get("resource")?.as_str().map(ToOwned::to_owned)
}

/// Metadata of an authorization server. One that only knows grants without a browser need not
/// publish where a browser would go, but the reader insists on it.
pub(super) fn server_metadata(body: &[u8]) -> Vec<u8> {
    let Ok(Value::Object(mut fields)) = serde_json::from_slice(body) else { return body.to_vec() };
    let Some(token) = fields.get("token_endpoint").cloned() else { return body.to_vec() };
    fields.entry("authorization_endpoint").or_insert(token);
    Value::Object(fields).to_string().into_bytes()
}

/// By the letters that RFC 6750 allows, which also keeps it one header.
fn is_token(text: &str) -> bool {
    text.len() <= LONGEST_WORD && text.bytes().all(|byte| matches!(byte, 0x21..=0x7e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_fields_that_are_used_are_kept() {
        let body = br#"{"access_token":"abc","token_type":"BEARER","expires_in":"3600",
            "refresh_token":"def","scope":"a  b\u0000 c\"d","id_token":"private","x":{"y":1}}"#;
        let tokens = tokens(true, body).unwrap().unwrap();
        let plain: Value = serde_json::from_slice(&tokens.to_json()).unwrap();
        assert_eq!(
            plain,
            json!({"access_token": "abc", "token_type": "bearer", "expires_in": 3600,
                "refresh_token": "def", "scope": "a"})
        );
        assert!(!format!("{tokens:?}").contains("abc"));
    }

    #[test]
    fn what_is_no_token_is_not_taken() {
        for body in [
            "",
            "[]",
            "<html>",
            "{}",
            r#"{"access_token":""}"#,
            r#"{"access_token":"a b"}"#,
            r#"{"access_token":"a\r\nX: y"}"#,
            r#"{"access_token":7}"#,
            r#"{"access_token":"a","token_type":"DPoP"}"#,
            r#"{"access_token":"a","refresh_token":"b\nc"}"#,
        ] {
            assert!(tokens(true, body.as_bytes()).is_err(), "{body}");
        }
        let long = format!(r#"{{"access_token":"{}"}}"#, "a".repeat(LONGEST_WORD + 1));
        assert!(tokens(true, long.as_bytes()).is_err());
    }

    #[test]
    fn a_refusal_is_known_by_its_code() {
        let code =
            |success, body: &str| tokens(success, body.as_bytes()).unwrap().unwrap_err().code;
        assert_eq!(code(false, r#"{"error":"invalid_grant"}"#), "invalid_grant");
        assert_eq!(code(true, r#"{"error":"invalid_grant"}"#), "invalid_grant");
        for body in ["", "<html>", "{}", r#"{"error":7}"#, r#"{"error":"\u001b[2K"}"#] {
            assert_eq!(code(false, body), "no reason given", "{body}");
        }
    }
}

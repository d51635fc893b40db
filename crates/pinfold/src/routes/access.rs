//! Who calls: a token, or, where there are none, somebody on this machine.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use sha2::{Digest, Sha256};

use crate::config::file::{Auth, Role, Token};
use crate::wiring::PRINCIPAL;

/// The tokens.
#[derive(Debug)]
pub(crate) struct Access(Option<Auth>);

/// Who calls and under which profile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Guest {
    pub(crate) principal: String,
    pub(crate) profile: String,
}

/// Why somebody may not come in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There is no token, or none that is known.
    Unknown,
    /// The token is not for this.
    Forbidden(String),
}

impl Access {
    pub(crate) fn new(auth: Option<Auth>) -> Self {
        Self(auth.filter(|auth| !auth.tokens.is_empty()))
    }

    /// Whether everybody who reaches the address may come in.
    pub(crate) fn is_open(&self) -> bool {
        self.0.is_none()
    }

    /// The guest, who may call tools of `profile`, or of the token's own one.
    pub(crate) fn agent(
        &self,
        headers: &HeaderMap,
        profile: Option<&str>,
    ) -> Result<Guest, Refused> {
        let Some(auth) = &self.0 else {
            let profile = profile.unwrap_or("default").to_owned();
            return Ok(Guest { principal: PRINCIPAL.to_owned(), profile });
        };
        let token = find(auth, headers).ok_or(Refused::Unknown)?;
        let has = |role| token.roles.contains(&role);
        if !has(Role::Agent) && !has(Role::Admin) {
            let why = format!("the token {} has no role that may call tools", token.name);
            return Err(Refused::Forbidden(why));
        }
        let profile = profile.unwrap_or(&token.profile);
        if profile != token.profile && !has(Role::Admin) {
            let why = format!("the token {} is for another profile", token.name);
            return Err(Refused::Forbidden(why));
        }
        Ok(Guest { principal: format!("token {}", token.name), profile: profile.to_owned() })
    }
}

/// The digest is compared, so that the time it takes says nothing about the token.
fn find<'a>(auth: &'a Auth, headers: &HeaderMap) -> Option<&'a Token> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, secret) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let digest = Sha256::digest(secret.trim().as_bytes());
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    auth.tokens.iter().find(|token| token.sha256.eq_ignore_ascii_case(&digest))
}

impl Refused {
    pub(crate) fn response(self) -> Response<Body> {
        let (status, why) = match self {
            Self::Unknown => (
                StatusCode::UNAUTHORIZED,
                "send `Authorization: Bearer TOKEN` with a token of [auth] tokens".to_owned(),
            ),
            Self::Forbidden(why) => (StatusCode::FORBIDDEN, why),
        };
        let body = serde_json::json!({"error": {"message": why}}).to_string();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(authorization: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, authorization.parse().unwrap());
        headers
    }

    fn access() -> Access {
        // Of "s3cret" and of "w4tch".
        let token = |name: &str, secret: &str, roles| {
            let digest = Sha256::digest(secret.as_bytes());
            Token {
                name: name.to_owned(),
                sha256: digest.iter().map(|byte| format!("{byte:02X}")).collect(),
                roles,
                profile: "ops".to_owned(),
            }
        };
        Access::new(Some(Auth {
            tokens: vec![
                token("ci", "s3cret", vec![Role::Agent]),
                token("boss", "b0ss", vec![Role::Admin]),
                token("watch", "w4tch", vec![Role::Approver]),
            ],
        }))
    }

    #[test]
    fn only_a_token_for_the_profile_comes_in() {
        let access = access();
        let agent = |header: &str, profile| access.agent(&headers(header), profile);
        let guest = |principal: &str, profile: &str| {
            Ok(Guest { principal: principal.to_owned(), profile: profile.to_owned() })
        };
        assert_eq!(agent("Bearer s3cret", None), guest("token ci", "ops"));
        assert_eq!(agent("bearer s3cret", Some("ops")), guest("token ci", "ops"));
        assert_eq!(agent("Bearer b0ss", Some("other")), guest("token boss", "other"));
        assert!(matches!(agent("Bearer s3cret", Some("other")), Err(Refused::Forbidden(_))));
        assert!(matches!(agent("Bearer w4tch", None), Err(Refused::Forbidden(_))));
        for wrong in ["Bearer", "Bearer ", "Bearer s3cre", "Basic s3cret", "s3cret", "Bearer ci"] {
            assert_eq!(agent(wrong, None), Err(Refused::Unknown), "{wrong}");
        }
        assert_eq!(access.agent(&HeaderMap::new(), None), Err(Refused::Unknown));
    }

    #[test]
    fn without_tokens_everybody_here_is_one_person() {
        let access = Access::new(None);
        let guest = access.agent(&HeaderMap::new(), None).unwrap();
        assert_eq!((guest.principal.as_str(), guest.profile.as_str()), ("local", "default"));
        assert!(access.is_open());
    }
}

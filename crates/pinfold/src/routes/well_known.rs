//! `/.well-known/oauth-protected-resource`, and with a suffix for `/mcp` and `/mcp/{profile}`: how
//! to come in (RFC 9728).
//!
//! The tokens stand in the configuration, so no authorization server is named; a client learns that
//! it has to be given a token. Without `[auth]` nothing is protected, and nothing is here.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse as _;
use serde_json::json;

use super::Shared;

/// Where the metadata of a path is.
pub(super) const PREFIX: &str = "/.well-known/oauth-protected-resource";

/// Longest `Host` that is repeated.
const LONGEST_HOST: usize = 255;

/// `/.well-known/oauth-protected-resource`, which is about `/mcp`.
pub(super) async fn whole(State(shared): State<Shared>, headers: HeaderMap) -> Response<Body> {
    metadata(&shared, &headers, "/mcp")
}

/// The same with the path `/mcp`.
pub(super) async fn default(State(shared): State<Shared>, headers: HeaderMap) -> Response<Body> {
    metadata(&shared, &headers, "/mcp")
}

/// The same with the path `/mcp/{profile}`. Whether there is such a profile is not told.
pub(super) async fn named(
    State(shared): State<Shared>,
    Path(profile): Path<String>,
    headers: HeaderMap,
) -> Response<Body> {
    match path_of(&profile) {
        Some(path) => metadata(&shared, &headers, &path),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn metadata(shared: &Shared, headers: &HeaderMap, path: &str) -> Response<Body> {
    let base = base(shared.public_url.as_deref(), headers).filter(|_| !shared.access.is_open());
    let Some(base) = base else { return StatusCode::NOT_FOUND.into_response() };
    let document = json!({
        "resource": format!("{base}{path}"),
        "resource_name": "pinfold",
        "bearer_methods_supported": ["header"],
    });
    ([(header::CACHE_CONTROL, "no-store")], axum::Json(document)).into_response()
}

/// What to say in `WWW-Authenticate` to somebody without a token that counts.
pub(super) fn challenge(
    shared: &Shared,
    headers: &HeaderMap,
    profile: Option<&str>,
) -> HeaderValue {
    let path = match profile {
        Some(profile) => path_of(profile),
        None => Some("/mcp".to_owned()),
    };
    let wrong =
        if headers.contains_key(header::AUTHORIZATION) { " error=\"invalid_token\"," } else { "" };
    base(shared.public_url.as_deref(), headers)
        .zip(path)
        .map(|(base, path)| format!("Bearer{wrong} resource_metadata=\"{base}{PREFIX}{path}\""))
        .and_then(|text| HeaderValue::from_str(&text).ok())
        .unwrap_or(HeaderValue::from_static("Bearer"))
}

/// The path of a profile whose name needs no quoting anywhere.
fn path_of(profile: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.~".contains(c);
    (!profile.is_empty() && profile.chars().all(plain)).then(|| format!("/mcp/{profile}"))
}

/// Scheme and authority as the client sees them: as they are configured, else as it said itself.
fn base(public_url: Option<&str>, headers: &HeaderMap) -> Option<String> {
    if let Some(url) = public_url {
        return Some(url.trim_end_matches('/').to_owned());
    }
    let host = headers.get(header::HOST)?.to_str().ok()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    let fits = !host.is_empty() && host.len() <= LONGEST_HOST && host.chars().all(plain);
    fits.then(|| format!("http://{host}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_host_is_repeated() {
        let base = |host: &str| {
            let headers = HeaderMap::from_iter([(header::HOST, host.parse().unwrap())]);
            super::base(None, &headers)
        };
        assert_eq!(base("127.0.0.1:8000").unwrap(), "http://127.0.0.1:8000");
        assert_eq!(base("[::1]:8000").unwrap(), "http://[::1]:8000");
        for wrong in ["", "a\"b", "a b", "a/b", "a@b", &"a".repeat(256)] {
            assert_eq!(base(wrong), None, "{wrong}");
        }
        let public = super::base(Some("https://pinfold.example/"), &HeaderMap::new());
        assert_eq!(public.unwrap(), "https://pinfold.example");
    }
}

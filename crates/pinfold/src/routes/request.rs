//! What a request says, read strictly: unknown and repeated fields are refused, bodies are bounded.

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequest, FromRequestParts, Query};
use axum::http::request::Parts;
use axum::http::{Request, header};
use serde::de::DeserializeOwned;

use super::error::Refusal;

/// Longest body of a request to the API, in bytes.
const LONGEST_BODY: usize = 64 * 1024;

/// Entries of a page, if nothing else is asked for, and at most.
const PAGE: u32 = 100;
const LONGEST_PAGE: u32 = 1_000;

/// The parameters in the address.
pub(super) struct Asked<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Refusal> {
        match Query::<T>::try_from_uri(&parts.uri) {
            Ok(Query(asked)) => Ok(Self(asked)),
            Err(error) => Err(Refusal::wrong(format!("the parameters: {}", error.body_text()))),
        }
    }
}

/// The body, which is JSON.
pub(super) struct Sent<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Sent<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request<Body>, _state: &S) -> Result<Self, Refusal> {
        // Asked for strictly: a page of another site cannot send it without being asked first.
        let kind = request.headers().get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.split(';').next().is_none_or(|kind| kind.trim() != "application/json") {
            return Err(Refusal::wrong("send JSON, with content-type: application/json"));
        }
        let body = bytes(request.into_body()).await?;
        let sent = serde_json::from_slice(&body);
        sent.map(Self).map_err(|error| Refusal::wrong(format!("the body: {error}")))
    }
}

/// A form of a page.
pub(super) struct Filled<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Filled<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request<Body>, state: &S) -> Result<Self, Refusal> {
        let (parts, body) = request.into_parts();
        let body = bytes(body).await?;
        let request = Request::from_parts(parts, Body::from(body));
        match axum::Form::<T>::from_request(request, state).await {
            Ok(axum::Form(filled)) => Ok(Self(filled)),
            Err(error) => Err(Refusal::wrong(format!("the form: {}", error.body_text()))),
        }
    }
}

async fn bytes(body: Body) -> Result<axum::body::Bytes, Refusal> {
    to_bytes(body, LONGEST_BODY).await.map_err(|_| {
        Refusal::wrong(format!("the body was not read: it may hold at most {LONGEST_BODY} bytes"))
    })
}

/// Entries of a page: as many as were asked for, within bounds.
pub(super) fn page(limit: Option<u32>) -> Result<u32, Refusal> {
    match limit {
        None => Ok(PAGE),
        Some(limit) if (1..=LONGEST_PAGE).contains(&limit) => Ok(limit),
        Some(limit) => Err(Refusal::wrong(format!("limit = {limit}: give 1 to {LONGEST_PAGE}"))),
    }
}

//! What the API says when it does not do what was asked: one shape, and what would do.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// An answer that says no.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    kind: &'static str,
    message: String,
    retry_after: Option<u64>,
}

impl Refusal {
    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, message: message.into(), retry_after: None }
    }

    /// The request is wrong.
    pub(super) fn wrong(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", message)
    }

    /// Nobody knows who asks.
    pub(super) fn unknown(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    /// Whoever asks may not.
    pub(super) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    /// There is no such thing, or not for whoever asks.
    pub(super) fn missing(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// It is too late for that.
    pub(super) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }

    /// Too much at once.
    pub(super) fn too_much(message: impl Into<String>, retry_after: u64) -> Self {
        let refusal = Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message);
        Self { retry_after: Some(retry_after), ..refusal }
    }

    /// Not now.
    pub(super) fn unavailable(message: impl Into<String>) -> Self {
        let refusal = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message);
        Self { retry_after: Some(1), ..refusal }
    }

    /// What is wrong, for a page.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// Its status.
    pub(super) fn status(&self) -> StatusCode {
        self.status
    }
}

impl From<gateway::Error> for Refusal {
    fn from(error: gateway::Error) -> Self {
        match error {
            gateway::Error::Approval(message) => Self::conflict(message),
            gateway::Error::Setting(message) | gateway::Error::Workspace(message) => {
                Self::wrong(message)
            }
            gateway::Error::Store(error) => {
                tracing::error!(%error, "the API could not use the store");
                Self::unavailable("the store cannot be used now; see the log of pinfold serve")
            }
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = json!({"error": {"kind": self.kind, "message": self.message}});
        let mut response = (self.status, axum::Json(body)).into_response();
        let headers = response.headers_mut();
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

//! `POST /execute`: one function, run in a sandbox of its own. No tool is reached from here.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;

use super::Shared;
use crate::execution::{self, Answer, Refused};

/// Bytes of a request's body.
const LONGEST_BODY: usize = 16 << 20;

/// After so many bytes nobody is listened to any more.
const MOST_READ: usize = 256 << 20;

pub(super) async fn run(State(shared): State<Shared>, request: Request<Body>) -> Response {
    let guest = match shared.access.agent(request.headers(), None) {
        Ok(guest) => guest,
        Err(refused) => return refused.into_response(),
    };
    if !shared.access.is_open()
        && let Err(refused) = shared.limits.count(&guest.principal)
    {
        return refused.into_response();
    }
    match answer(&shared, &guest.principal, request).await {
        Ok(answer) => Json(answer).into_response(),
        Err(refused) => refused.response(),
    }
}

/// A request that was not carried out.
struct NotRun {
    status: StatusCode,
    kind: &'static str,
    message: String,
    /// Seconds.
    retry_after: Option<u64>,
}

impl NotRun {
    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, message: message.into(), retry_after: None }
    }

    fn response(self) -> Response {
        let answer = Answer::refused(self.kind, self.message);
        let mut response = (self.status, Json(answer)).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

async fn answer(shared: &Shared, who: &str, request: Request<Body>) -> Result<Answer, NotRun> {
    let wrong = |message: String| NotRun::new(StatusCode::BAD_REQUEST, "bad_request", message);
    // A page of another site can send anything else without being asked first.
    if !is_json(request.headers()) {
        let message = "send the request with Content-Type: application/json";
        return Err(NotRun::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "bad_request", message));
    }
    let body = whole(request.into_body()).await?;
    let job = execution::read(&body).map_err(|error| wrong(error.to_string()))?;
    shared.execution.run(who, job).await.map_err(|refused| match refused {
        Refused::Wrong(reason) => wrong(reason),
        Refused::Unable(reason) => NotRun::new(StatusCode::SERVICE_UNAVAILABLE, "capacity", reason),
        Refused::Full(wait) => NotRun {
            retry_after: Some(wait.as_secs().max(1)),
            ..NotRun::new(
                StatusCode::TOO_MANY_REQUESTS,
                "capacity",
                "too many of your runs wait already; try again in a moment",
            )
        },
    })
}

/// The body, if it is not too long. A longer one is read on for a while and thrown away: who still
/// sends would not see the answer.
async fn whole(body: Body) -> Result<Vec<u8>, NotRun> {
    let (mut kept, mut length) = (Vec::new(), 0);
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| {
            let message = format!("the body broke off: {error}");
            NotRun::new(StatusCode::BAD_REQUEST, "bad_request", message)
        })?;
        length += piece.len();
        if length <= LONGEST_BODY {
            kept.extend_from_slice(&piece);
        } else if length > MOST_READ {
            break;
        }
    }
    if length > LONGEST_BODY {
        let message = format!("the body is longer than {} MB", LONGEST_BODY >> 20);
        return Err(NotRun::new(StatusCode::PAYLOAD_TOO_LARGE, "bad_request", message));
    }
    Ok(kept)
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

//! `/api/sessions`: who works here, and what happens in a session, as server-sent events.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use gateway::{Listener, Told};
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::error::Refusal;
use super::request::{Asked, page};

/// After so long a silence something is sent, so that nobody on the way takes it for dead.
const ALIVE: Duration = Duration::from_secs(15);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    before: Option<String>,
    limit: Option<u32>,
}

#[derive(Serialize)]
pub(super) struct Page {
    sessions: Vec<Session>,
    /// For `before`, if there is more.
    next: Option<String>,
}

#[derive(Serialize)]
struct Session {
    id: String,
    principal: String,
    profile: String,
    /// What the client calls it.
    key: String,
    started_ms: i64,
    seen_ms: i64,
}

/// `GET /api/sessions`
pub(super) async fn list(
    State(shared): State<Shared>,
    headers: HeaderMap,
    Asked(wanted): Asked<Wanted>,
) -> Result<Json<Page>, Refusal> {
    let caller = shared.caller(&headers)?;
    let limit = page(wanted.limit)?;
    let before = wanted.before.as_deref().map(place).transpose()?;
    let principal = caller.sees_only()?;
    let filter = store::SessionFilter { principal, before, limit };
    let found = shared.gateway()?.sessions_seen(&filter).await?;
    let next = found.last().filter(|_| found.len() >= limit as usize);
    let next = next.map(|last| format!("{}-{}", last.started_ms, last.id));
    let sessions = found.into_iter().map(|row| Session {
        id: row.id,
        principal: row.principal,
        profile: row.profile,
        key: row.key,
        started_ms: row.started_ms,
        seen_ms: row.seen_ms,
    });
    Ok(Json(Page { sessions: sessions.collect(), next }))
}

/// What stood in `next`.
fn place(before: &str) -> Result<(i64, String), Refusal> {
    let (at, id) = before.split_once('-').unwrap_or_default();
    let at = at.parse().map_err(|_| Refusal::wrong("before: give what stood in `next`"))?;
    Ok((at, id.to_owned()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct From {
    after: Option<i64>,
}

/// `GET /api/sessions/{id}/events`
pub(super) async fn events(
    State(shared): State<Shared>,
    headers: HeaderMap,
    Path(id): Path<String>,
    Asked(From { after }): Asked<From>,
) -> Result<Response, Refusal> {
    let caller = shared.caller(&headers)?;
    let principal = caller.sees_only()?;
    let gateway = shared.gateway()?;
    let session = gateway.session_seen(&id).await?;
    session
        .filter(|session| principal.is_none_or(|principal| principal == session.principal))
        .ok_or_else(|| {
            Refusal::missing("there is no such session; GET /api/sessions lists them")
        })?;
    // A browser that comes back says where it was; that counts more than where it began.
    let after = match headers.get("last-event-id") {
        Some(id) => {
            let id = id.to_str().ok().and_then(|id| id.parse().ok());
            Some(id.ok_or_else(|| Refusal::wrong("Last-Event-ID: give the id of an event"))?)
        }
        None => after,
    };
    let place = shared.limits.listen()?;
    let listener = gateway.listen(&id, after).await?;
    let mut first = String::from(": listening\n\nretry: 2000\n\n");
    if let Some(id) = listener.lost() {
        first.push_str(&format!("event: events.lost\ndata: {{\"up_to\":{id}}}\n\n"));
    }
    let open =
        Open { listener, closing: shared.closing.clone(), first: Some(first), _place: place };
    let body = Body::from_stream(stream::unfold(open, Open::frame));
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// One who listens.
struct Open {
    listener: Listener,
    closing: CancellationToken,
    first: Option<String>,
    _place: OwnedSemaphorePermit,
}

impl Open {
    /// The next piece of the stream; nothing when it is over.
    async fn frame(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        if let Some(first) = self.first.take() {
            return Some((Ok(Bytes::from(first)), self));
        }
        let text = tokio::select! {
            told = self.listener.next() => match told {
                Ok(told) => frame(&*told?),
                Err(error) => {
                    // The client comes back and goes on where it was.
                    tracing::warn!(%error, "events cannot be read");
                    return None;
                }
            },
            () = tokio::time::sleep(ALIVE) => ":\n\n".to_owned(),
            () = self.closing.cancelled() => return None,
        };
        Some((Ok(Bytes::from(text)), self))
    }
}

fn frame(told: &Told) -> String {
    let id = told.id.map_or_else(String::new, |id| format!("id: {id}\n"));
    let rest = told.data.strip_prefix('{').unwrap_or("}");
    let comma = if rest.starts_with('}') { "" } else { "," };
    format!("{id}event: {}\ndata: {{\"at_ms\":{}{comma}{rest}\n\n", told.kind, told.at_ms)
}

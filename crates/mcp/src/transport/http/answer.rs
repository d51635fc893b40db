//! The response to a POST: one JSON message, a stream of events, or a refusal.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue, LOCATION};
use reqwest::{Method, Response, StatusCode};
use sse_stream::SseByteStream;

use super::{Shared, words};
use crate::auth;
use crate::endpoint::origin;
use crate::error::Error;
use crate::message::{Incoming, parse, shorten};
use crate::transport::{LONGEST_EXCERPT, LONGEST_MESSAGE};

/// Longest body of a refusal that is read, in bytes.
const LONGEST_REFUSAL: usize = 256 * 1024;

/// So often a legacy stream is taken up again without anything new arriving.
const RESUMPTIONS: u32 = 5;

/// Waits between resumptions: the usual, and the longest a server may ask for.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Where a stream of events can be taken up again.
#[derive(Default)]
pub(super) struct Place {
    pub(super) last_event: Option<HeaderValue>,
    pub(super) retry: Option<Duration>,
}

impl Place {
    /// How long to wait before the stream is asked for again.
    pub(super) fn pause(&self) -> Duration {
        self.retry.unwrap_or(PAUSE).min(LONGEST_PAUSE)
    }
}

impl Shared {
    /// Hands everything in the response to the inbox, until request `id` is answered.
    pub(super) async fn read_answer(
        &self,
        response: Response,
        id: i64,
        modern: bool,
    ) -> Result<(), Error> {
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        match content_type(&response).as_str() {
            "application/json" => {
                let body =
                    read_body(response, LONGEST_MESSAGE).await.map_err(|broken| match broken {
                        Broken::TooLong => too_long(),
                        Broken::Cut(what) => self.lost(&what),
                    })?;
                let body = String::from_utf8_lossy(&body);
                self.deliver(&body, Some(id));
                // There is no other answer than this.
                if self.inbox.is_waiting(id) && parse(&body).is_err() {
                    return Err(Error::Protocol(self.inbox.fault(&body)));
                }
                Ok(())
            }
            "text/event-stream" => self.follow(response, id, modern).await,
            other => Err(Error::Protocol(format!(
                "it answered with HTTP {} and the content type `{}`: check that `url` is its MCP \
                 endpoint (often …/mcp)",
                response.status().as_u16(),
                shorten(other, 60),
            ))),
        }
    }

    /// Follows a stream of events until the request is answered, resuming where that is allowed.
    async fn follow(&self, response: Response, id: i64, modern: bool) -> Result<(), Error> {
        let mut place = Place::default();
        let mut broken = self.read_events(response, Some(id), &mut place).await?;
        let mut attempts = 0;
        while self.inbox.is_waiting(id) {
            let Some(last_event) = place.last_event.clone().filter(|_| !modern) else {
                let mut what =
                    broken.unwrap_or_else(|| "the response ended without an answer".to_owned());
                if let Some(unreadable) = self.inbox.unreadable(id) {
                    what = format!("{what}, and {unreadable}");
                }
                return Err(self.lost(&what));
            };
            if attempts == RESUMPTIONS {
                return Err(self.lost("the response stream could not be taken up again"));
            }
            attempts += 1;
            tokio::time::sleep(place.pause()).await;
            let request = self
                .request(Method::GET)
                .header(ACCEPT, "text/event-stream")
                .header("last-event-id", last_event.clone());
            let response = match self.send(request).await {
                Ok(response) => response,
                // What was sent before is lost, whatever this attempt says.
                Err(error) => return Err(Error::Lost(error.to_string())),
            };
            if !response.status().is_success() {
                let why = self.refusal(response).await;
                return Err(Error::Lost(why.to_string()));
            }
            broken = self.read_events(response, Some(id), &mut place).await?;
            if place.last_event.as_ref() != Some(&last_event) {
                attempts = 0;
            }
        }
        Ok(())
    }

    /// Reads one stream of events; `Some` says how it broke. Stops when request `about` is answered.
    pub(super) async fn read_events(
        &self,
        response: Response,
        about: Option<i64>,
        place: &mut Place,
    ) -> Result<Option<String>, Error> {
        // The decoder has no bound of its own: the bytes since the last event are counted.
        let pending = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&pending);
        let bytes = response.bytes_stream().map(move |chunk| match chunk {
            Ok(chunk) if counted.fetch_add(chunk.len(), Ordering::Relaxed) > LONGEST_MESSAGE => {
                Err(std::io::Error::other("too long"))
            }
            Ok(chunk) => Ok(chunk),
            Err(error) => Err(std::io::Error::other(words(error))),
        });
        let mut events = std::pin::pin!(SseByteStream::new(bytes));
        while let Some(event) = events.next().await {
            let event = match event {
                Ok(event) => event,
                Err(_) if pending.load(Ordering::Relaxed) > LONGEST_MESSAGE => {
                    return Err(too_long());
                }
                Err(error) => return Ok(Some(error.to_string())),
            };
            pending.store(0, Ordering::Relaxed);
            if let Some(retry) = event.retry {
                place.retry = Some(Duration::from_millis(retry));
            }
            if let Some(id) = event.id {
                place.last_event = HeaderValue::from_str(&id).ok().filter(|id| !id.is_empty());
            }
            let is_message =
                event.event.as_deref().is_none_or(|kind| matches!(kind, "" | "message"));
            if let Some(data) = event.data.filter(|data| is_message && !data.is_empty()) {
                self.deliver(&data, about);
            }
            if about.is_some_and(|id| !self.inbox.is_waiting(id)) {
                return Ok(None);
            }
        }
        Ok(None)
    }

    fn deliver(&self, text: &str, about: Option<i64>) {
        for reply in self.inbox.receive(text, about) {
            self.reply(reply);
        }
    }

    /// What a response other than success means.
    pub(super) async fn refusal(&self, response: Response) -> Error {
        let status = response.status();
        let location = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
        if status.is_redirection() {
            let to = location.map_or_else(
                || "nowhere".to_owned(),
                |to| match self.url.join(to) {
                    Ok(to) => origin(to.as_str()),
                    Err(_) => "an invalid address".to_owned(),
                },
            );
            return Error::Refused(format!(
                "the server redirects to {to} (HTTP {}), which is not followed: put the final \
                 address in `url`",
                status.as_u16()
            ));
        }
        let rights = self.login.as_ref().filter(|_| status == StatusCode::FORBIDDEN);
        let missing =
            rights.and_then(|login| login.missing_scope(&auth::joined(response.headers())));
        if let Some(missing) = missing {
            return Error::Refused(self.inbox.journal().hide(&missing));
        }
        let body = read_body(response, LONGEST_REFUSAL).await.unwrap_or_default();
        let body = String::from_utf8_lossy(&body);
        let body = self.inbox.journal().hide_in_message(&body);
        if self.session().is_some() && is_about_the_session(status, &body) {
            self.inbox.end("the server ended the session", false);
            return Error::Connect("the server ended the session".to_owned());
        }
        if let Some(Incoming::Response { outcome: Err(failure), .. }) =
            parse(&body).ok().and_then(|mut messages| messages.pop())
        {
            return Error::Rpc {
                code: failure.code,
                message: self.inbox.journal().hide(&failure.message),
                data: failure.data,
            };
        }
        let number = status.as_u16();
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if self.login.is_some() => {
                Error::Refused(format!(
                    "the server refused access (HTTP {number}): the login there, or the token in \
                     `headers`, does not give the right to this"
                ))
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Error::Refused(format!(
                "the server refused access (HTTP {number}): check the `headers` (token) configured \
                 for it"
            )),
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => Error::Refused(format!(
                "there is no MCP endpoint at this address (HTTP {number}): check `url` (often \
                 …/mcp; the old HTTP+SSE transport is not supported)"
            )),
            StatusCode::TOO_MANY_REQUESTS => Error::Refused(
                "the server takes no more requests for now (HTTP 429): try again later".to_owned(),
            ),
            StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => {
                self.lost(&format!("the server is not available (HTTP {number})"))
            }
            _ if status.is_server_error() => {
                Error::Lost(format!("the server failed (HTTP {number}){}", self.excerpt(&body)))
            }
            _ => Error::Refused(format!(
                "the server refused the request (HTTP {number}){}",
                self.excerpt(&body)
            )),
        }
    }

    fn excerpt(&self, body: &str) -> String {
        let body = body.trim();
        if body.is_empty() {
            return String::new();
        }
        format!(": {}", shorten(&self.inbox.journal().hide(body), LONGEST_EXCERPT))
    }
}

/// 404 ends a session; some servers answer 400 to a session that they no longer know.
fn is_about_the_session(status: StatusCode, body: &str) -> bool {
    status == StatusCode::NOT_FOUND
        || (status == StatusCode::BAD_REQUEST && body.to_ascii_lowercase().contains("session"))
}

fn content_type(response: &Response) -> String {
    let value = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = value.unwrap_or("none").split(';').next().unwrap_or_default();
    kind.trim().to_ascii_lowercase()
}

fn too_long() -> Error {
    Error::Protocol(format!("its answer is longer than {} MB", LONGEST_MESSAGE >> 20))
}

enum Broken {
    TooLong,
    Cut(String),
}

async fn read_body(mut response: Response, longest: usize) -> Result<Vec<u8>, Broken> {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > longest => return Err(Broken::TooLong),
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return Ok(body),
            Err(error) => return Err(Broken::Cut(words(error))),
        }
    }
}

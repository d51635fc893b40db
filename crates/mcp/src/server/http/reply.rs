//! An answer as JSON, or as a stream where something comes before it or it takes its time.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Response, StatusCode, header};
use futures_util::future::BoxFuture;
use futures_util::stream;
use tokio::sync::mpsc;

use super::SESSION;

/// So long may an answer take before its stream is opened.
const PROMPT: Duration = Duration::from_millis(500);

/// Between two signs of life in a stream that is silent.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What comes of a request; nothing if it was cancelled.
pub(super) type Text = BoxFuture<'static, Option<String>>;

/// One message.
pub(super) fn json(status: StatusCode, text: String, session: Option<&str>) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    if let Some(session) = session.and_then(|session| HeaderValue::from_str(session).ok()) {
        response.headers_mut().insert(SESSION, session);
    }
    response
}

/// There is nothing to say.
pub(super) fn accepted() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// A line that means nothing, so that the other side sees that there is somebody.
pub(super) const COMMENT: &[u8] = b":\n\n";

/// What an answer that takes its time begins with.
pub(super) enum Begun {
    /// It is there already.
    Whole(Response<Body>),
    /// With this message, if with any.
    Stream(Option<String>, Text),
}

/// Waits a little for an answer.
pub(super) async fn begin(mut text: Text, outgoing: &mut mpsc::Receiver<String>) -> Begun {
    let first = tokio::select! {
        biased;
        Some(message) = outgoing.recv() => Some(message),
        answer = &mut text => return match answer {
            // What was said at the same moment comes first.
            Some(answer) => match outgoing.try_recv() {
                Ok(first) => Begun::Stream(Some(first), Box::pin(async { Some(answer) })),
                Err(_) => Begun::Whole(json(StatusCode::OK, answer, None)),
            },
            None => Begun::Whole(accepted()),
        },
        () = tokio::time::sleep(PROMPT) => None,
    };
    Begun::Stream(first, text)
}

/// An answer that is not there yet. `held` is dropped when it was sent or nobody wants it.
pub(super) async fn later(
    text: Text,
    mut outgoing: mpsc::Receiver<String>,
    held: impl Send + 'static,
) -> Response<Body> {
    match begin(text, &mut outgoing).await {
        Begun::Whole(response) => response,
        Begun::Stream(first, text) => stream(first, text, outgoing, held),
    }
}

/// How far a stream is.
struct Streaming<H> {
    first: Option<String>,
    outgoing: mpsc::Receiver<String>,
    /// Until the answer is there.
    text: Option<Text>,
    answer: Option<String>,
    _held: H,
}

fn stream<H: Send + 'static>(
    first: Option<String>,
    text: Text,
    outgoing: mpsc::Receiver<String>,
    held: H,
) -> Response<Body> {
    // A comment, so that the headers are on their way at once.
    let first = first.map_or_else(|| ":\n\n".to_owned(), |first| event(&first));
    let state =
        Streaming { first: Some(first), outgoing, text: Some(text), answer: None, _held: held };
    let events = stream::unfold(state, |mut state| async move {
        let chunk = next(&mut state).await?;
        Some((Ok::<_, Infallible>(Bytes::from(chunk)), state))
    });
    self::events(Body::from_stream(events))
}

/// A stream of events.
pub(super) fn events(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, EVENTS);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

async fn next<H>(state: &mut Streaming<H>) -> Option<String> {
    if let Some(first) = state.first.take() {
        return Some(first);
    }
    if let Some(text) = &mut state.text {
        tokio::select! {
            biased;
            Some(message) = state.outgoing.recv() => return Some(event(&message)),
            answer = text => {
                state.text = None;
                state.answer = answer;
            }
            () = tokio::time::sleep(KEEP_ALIVE) => return Some(":\n\n".to_owned()),
        }
    }
    // What was said before the answer comes before it.
    if let Ok(message) = state.outgoing.try_recv() {
        return Some(event(&message));
    }
    state.answer.take().map(|answer| event(&answer))
}

/// Messages are one line each.
pub(super) fn event(message: &str) -> String {
    format!("event: message\ndata: {message}\n\n")
}

//! Streamable HTTP: one address for both eras.
//!
//! A request of 2026-07-28 stands alone; an older client begins a session and names it from then
//! on. Who may come here at all, and under which name, is decided before; only what protects a
//! person's browser from being sent here (Host and Origin) is checked in `check`.

use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode, header};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::connection::{Connection, Outlet};
use super::peer::{Peer, Reply};
use super::{Refusal, Seal, Service, era, listen};
use crate::message::{code, fields, notification, text};
use crate::revision::{LEGACY, MODERN};

mod check;

mod reply;

mod resume;

mod sessions;

use reply::Begun;
use resume::{Kind, Place};
use sessions::{Session, Sessions};

pub use check::Gate;

/// Longest body that is taken, in bytes.
const LONGEST_BODY: usize = 4 * 1024 * 1024;

/// Most requests and streams at once.
const MOST_OPEN: usize = 4_000;

/// So many messages may wait for a client that does not read.
const QUEUED: usize = 64;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// Names the session of a client of 2026-07-28.
const NAMED: HeaderName = HeaderName::from_static("pinfold-session");

/// A service at an address.
#[derive(Debug)]
pub struct Endpoint<S> {
    service: Arc<S>,
    seal: Seal,
    gate: Gate,
    sessions: Sessions<S>,
    open: Arc<Semaphore>,
    closing: CancellationToken,
}

/// What came is not taken: as HTTP says it, with a JSON-RPC error in it.
struct NotTaken(StatusCode, Refusal);

impl NotTaken {
    fn new(status: StatusCode, why: &str) -> Self {
        Self(status, Refusal::new(code::INVALID_REQUEST, why))
    }
}

impl<S: Service> Endpoint<S> {
    /// Everything that runs ends with `closing`.
    #[must_use]
    pub fn new(service: Arc<S>, seal: Seal, gate: Gate, closing: CancellationToken) -> Self {
        let open = Arc::new(Semaphore::new(MOST_OPEN));
        Self { service, seal, gate, sessions: Sessions::new(), open, closing }
    }

    /// Answers one request. If the future, or the body it gave, is dropped, what runs for it is
    /// cancelled.
    pub async fn handle(&self, request: Request<Body>) -> Response<Body> {
        let handled = async {
            self.gate.check(request.headers())?;
            let permit = Arc::clone(&self.open).try_acquire_owned().map_err(|_| {
                let refusal = Refusal::internal("too many requests are open; try later");
                NotTaken(StatusCode::SERVICE_UNAVAILABLE, refusal)
            })?;
            match *request.method() {
                Method::POST => self.post(request, permit).await,
                Method::GET => self.get(request.headers(), permit),
                Method::DELETE => self.delete(request.headers()),
                _ => Err(NotTaken::new(
                    StatusCode::METHOD_NOT_ALLOWED,
                    "there is POST, and for older clients GET and DELETE",
                )),
            }
        };
        match handled.await {
            Ok(response) => response,
            Err(NotTaken(status, refusal)) => reply::json(status, refusal.reply(None), None),
        }
    }

    async fn post(
        &self,
        request: Request<Body>,
        permit: OwnedSemaphorePermit,
    ) -> Result<Response<Body>, NotTaken> {
        let (parts, body) = request.into_parts();
        let headers = &parts.headers;
        let kind = value(headers, &header::CONTENT_TYPE).unwrap_or_default();
        if kind.split(';').next().is_none_or(|kind| kind.trim() != "application/json") {
            return Err(NotTaken::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "send application/json as content-type",
            ));
        }
        let body = to_bytes(body, LONGEST_BODY).await.map_err(|_| {
            let why = format!("the body was not read: it may hold at most {LONGEST_BODY} bytes");
            NotTaken::new(StatusCode::PAYLOAD_TOO_LARGE, &why)
        })?;
        let parse = |why| NotTaken(StatusCode::BAD_REQUEST, Refusal::new(code::PARSE, why));
        let body = std::str::from_utf8(&body).map_err(|_| parse("the body is not UTF-8"))?;
        let message: &RawValue =
            serde_json::from_str(body).map_err(|_| parse("the body is not JSON"))?;
        let sent = Sent::read(message);
        if sent.is_modern(headers) {
            return self.alone(headers, &sent, message, permit).await;
        }
        if sent.method.as_deref() == Some("initialize") {
            return self.initialize(message).await;
        }
        let session = self.session(headers)?;
        let (outlet, mut outgoing) = outlet();
        let reply = session.peer.receive(message.get(), &outlet);
        drop(outlet);
        Ok(match reply {
            None => reply::accepted(),
            Some(Reply::Now(text)) => reply::json(StatusCode::OK, text, None),
            Some(Reply::Later(text)) => match reply::begin(text, &mut outgoing).await {
                Begun::Whole(response) => response,
                Begun::Stream(first, text) => {
                    let held = (session.in_use(), permit);
                    resume::begin(&session, Kind::Answer, first, text, outgoing, held)
                        .ok_or_else(has_stream)?
                }
            },
        })
    }

    /// A request of 2026-07-28.
    async fn alone(
        &self,
        headers: &HeaderMap,
        sent: &Sent,
        message: &RawValue,
        permit: OwnedSemaphorePermit,
    ) -> Result<Response<Body>, NotTaken> {
        check::mirrored(headers, sent)?;
        if let ("tools/call", Some(tool)) = (sent.method.as_deref().unwrap_or_default(), &sent.name)
        {
            let params = fields::<Message<'_>>(Some(message)).params;
            check::arguments(headers, &self.service.headers(tool), params)?;
        }
        let closing = self.closing.child_token();
        let peer = Arc::new(Peer {
            service: Arc::clone(&self.service),
            seal: self.seal.clone(),
            connection: Connection::new(closing.clone()),
            session: value(headers, &NAMED).map(str::to_owned),
        });
        let (outlet, outgoing) = outlet();
        let reply = peer.receive(message.get(), &outlet);
        drop(outlet);
        Ok(match reply {
            None => reply::accepted(),
            Some(Reply::Now(text)) => reply::json(status(&text), text, None),
            Some(Reply::Later(text)) => {
                reply::later(text, outgoing, (closing.drop_guard(), permit)).await
            }
        })
    }

    /// Begins the session of an older client.
    async fn initialize(&self, message: &RawValue) -> Result<Response<Body>, NotTaken> {
        let internal = |error: std::io::Error| {
            let refusal = Refusal::internal(error.to_string());
            NotTaken(StatusCode::INTERNAL_SERVER_ERROR, refusal)
        };
        let name = sessions::name().map_err(internal)?;
        let closing = self.closing.child_token();
        let peer = Arc::new(Peer {
            service: Arc::clone(&self.service),
            seal: self.seal.clone(),
            connection: Connection::new(closing.clone()),
            session: Some(name.clone()),
        });
        let (outlet, _outgoing) = outlet();
        // Otherwise it has no id, or is no request.
        let Some(Reply::Now(text)) = peer.receive(message.get(), &outlet) else {
            let why = "initialize is a request: give it an id";
            return Err(NotTaken::new(StatusCode::BAD_REQUEST, why));
        };
        if peer.connection.agreed().is_none() {
            return Ok(reply::json(StatusCode::BAD_REQUEST, text, None));
        }
        self.sessions
            .add(name.clone(), Session::new(peer, closing))
            .map_err(|why| NotTaken(StatusCode::SERVICE_UNAVAILABLE, Refusal::internal(why)))?;
        Ok(reply::json(StatusCode::OK, text, Some(&name)))
    }

    /// What the server says on its own to an older client.
    fn get(
        &self,
        headers: &HeaderMap,
        permit: OwnedSemaphorePermit,
    ) -> Result<Response<Body>, NotTaken> {
        if !headers.contains_key(SESSION) {
            let why = "only an older client's session has a stream of its own";
            return Err(NotTaken::new(StatusCode::METHOD_NOT_ALLOWED, why));
        }
        let session = self.session(headers)?;
        let has_seen = headers.contains_key(LAST_EVENT);
        let place = value(headers, &LAST_EVENT).and_then(Place::read);
        if let Some(reader) = place.and_then(|place| session.streams.resume(place)) {
            let held = (session.in_use(), permit);
            return Ok(reader.respond(Bytes::from_static(reply::COMMENT), held));
        }
        if has_seen && !place.is_some_and(Place::is_own) {
            let why = "what came after this Last-Event-ID is not known any more";
            return Err(NotTaken::new(StatusCode::BAD_REQUEST, why));
        }
        if let Some(reader) = session.streams.take_over() {
            let held = (session.in_use(), permit);
            return Ok(reader.respond(Bytes::from_static(reply::COMMENT), held));
        }
        // What was missed cannot be told any more, but that something may have been.
        let missed = has_seen.then(|| notification("notifications/tools/list_changed", "{}"));
        let (outlet, outgoing) = outlet();
        let announcing = listen::announce(Arc::clone(&session.peer), outlet);
        let told = Box::pin(async move {
            announcing.await;
            None
        });
        let held = (session.in_use(), permit);
        resume::begin(&session, Kind::Own, missed, told, outgoing, held).ok_or_else(has_stream)
    }

    /// Ends an older client's session.
    fn delete(&self, headers: &HeaderMap) -> Result<Response<Body>, NotTaken> {
        if !headers.contains_key(SESSION) {
            let why = "only an older client has a session to end";
            return Err(NotTaken::new(StatusCode::METHOD_NOT_ALLOWED, why));
        }
        let session = self.session(headers)?;
        self.sessions.remove(&session);
        Ok(reply::accepted())
    }

    fn session(&self, headers: &HeaderMap) -> Result<Arc<Session<S>>, NotTaken> {
        let Some(name) = value(headers, &SESSION) else {
            let why = "there is no Mcp-Session-Id: begin with initialize, or send \
                       _meta[\"io.modelcontextprotocol/protocolVersion\"] with each request";
            return Err(NotTaken::new(StatusCode::BAD_REQUEST, why));
        };
        if let Some(version) = value(headers, &VERSION)
            && !LEGACY.contains(&version)
        {
            return Err(NotTaken::new(
                StatusCode::BAD_REQUEST,
                "MCP-Protocol-Version is not one that a session can have",
            ));
        }
        self.sessions.get(name).ok_or_else(|| {
            NotTaken::new(StatusCode::NOT_FOUND, "there is no such session; initialize again")
        })
    }
}

#[derive(Default, Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    method: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

/// What has to be known of a message before it is taken.
#[derive(Default)]
struct Sent {
    method: Option<String>,
    /// What `Mcp-Name` has to say.
    name: Option<String>,
    /// The revision that it names itself.
    version: Option<String>,
}

impl Sent {
    fn read(message: &RawValue) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Params<'a> {
            #[serde(borrow, default)]
            name: Option<&'a RawValue>,
            #[serde(borrow, default)]
            task_id: Option<&'a RawValue>,
            #[serde(borrow, default)]
            uri: Option<&'a RawValue>,
        }
        let message: Message<'_> = fields(Some(message));
        let method = text(message.method);
        let params = || fields::<Params<'_>>(message.params);
        let name = match method.as_deref() {
            Some("tools/call" | "prompts/get") => text(params().name),
            Some("resources/read") => text(params().uri),
            Some("tasks/get" | "tasks/update" | "tasks/cancel") => text(params().task_id),
            _ => None,
        };
        let version = era::version(era::meta(message.params).as_deref());
        Self { method, name, version }
    }

    fn is_modern(&self, headers: &HeaderMap) -> bool {
        self.version.is_some()
            || self.method.as_deref() == Some("server/discover")
            || value(headers, &VERSION).is_some_and(|version| MODERN.contains(&version))
    }
}

fn has_stream() -> NotTaken {
    NotTaken::new(StatusCode::CONFLICT, "this session has its stream already")
}

fn outlet() -> (Outlet, mpsc::Receiver<String>) {
    let (lines, outgoing) = mpsc::channel(QUEUED);
    (Outlet::new(lines), outgoing)
}

fn value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The status of an answer that is there at once: what is wrong with a request is told by it, too.
fn status(answer: &str) -> StatusCode {
    #[derive(Default, Deserialize)]
    struct Answer {
        #[serde(default)]
        error: Option<Failed>,
    }
    #[derive(Deserialize)]
    struct Failed {
        code: i64,
    }
    let answer: Answer = serde_json::from_str(answer).unwrap_or_default();
    match answer.error.map(|error| error.code) {
        None => StatusCode::OK,
        Some(code::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Some(code::INTERNAL) => StatusCode::INTERNAL_SERVER_ERROR,
        Some(_) => StatusCode::BAD_REQUEST,
    }
}

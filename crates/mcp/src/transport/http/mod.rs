//! Streamable HTTP: a POST for each message, the answer as JSON or as a stream of events.
//!
//! 2026-07-28 has nothing else. The older revisions add a session, a GET stream for what the server
//! says on its own, resumption, and DELETE (`session.rs`). The HTTP+SSE transport of 2024-11-05 is
//! deliberately not spoken.

mod answer;
mod authorized;
pub(crate) mod headers;
mod session;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, RequestBuilder, Response, Url};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::Outgoing;
use crate::auth::Login;
use crate::client::Inbox;
use crate::endpoint::origin;
use crate::error::Error;
use crate::revision::Revision;

pub(crate) use headers::Mirrored;
pub(crate) use headers::check as check_mirrored;

/// How long a TCP and TLS connection may take to come up.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// Idle connections are given up before common servers do it (after 5 seconds): a request sent just
/// as the other side closes would be lost, its outcome unknown.
const IDLE: Duration = Duration::from_secs(4);

/// How soon a stream notices that the other machine is gone.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// So many messages without an answer may be on their way at once; more are dropped.
const MENTIONED: usize = 16;

/// Most redirects that are followed, all within one origin.
const REDIRECTS: usize = 3;

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// A server's endpoint.
#[derive(Clone)]
pub(crate) struct Http {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    url: Url,
    inbox: Arc<Inbox>,
    closing: CancellationToken,
    /// The legacy session, where the server gave one.
    session: Mutex<Option<HeaderValue>>,
    /// The legacy revision, once agreed on.
    agreed: OnceLock<HeaderValue>,
    room: Arc<Semaphore>,
    login: Option<Login>,
    /// So many calls of tools have no answer yet.
    calls: AtomicUsize,
}

impl Http {
    /// Prepares to talk to an endpoint; sends nothing yet.
    pub(crate) fn new(
        url: &str,
        configured: &BTreeMap<String, String>,
        login: Option<Login>,
        inbox: &Arc<Inbox>,
        closing: &CancellationToken,
    ) -> Result<Self, Error> {
        let parsed = Url::parse(url)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| {
                Error::Connect(
                    "the url of this server is not a valid http:// or https:// url".to_owned(),
                )
            })?;
        let mut headers = HeaderMap::new();
        for (name, value) in configured {
            let (Ok(key), Ok(mut content)) =
                (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value))
            else {
                return Err(Error::Connect(format!(
                    "the header `{name}` of this server has an invalid name or value: check for \
                     line breaks and characters outside ASCII"
                )));
            };
            content.set_sensitive(true);
            headers.insert(key, content);
        }
        let mut builder = Client::builder();
        if is_loopback(&parsed) {
            // What stays on this machine is nobody else's business.
            builder = builder.no_proxy();
        }
        let client = builder
            .default_headers(headers)
            .connect_timeout(CONNECT_TIME)
            .pool_idle_timeout(IDLE)
            .tcp_keepalive(KEEP_ALIVE)
            .tcp_nodelay(true)
            .redirect(within_origin())
            .build()
            .map_err(|error| Error::Connect(format!("cannot set up HTTP: {}", words(error))))?;
        Ok(Self {
            shared: Arc::new(Shared {
                client,
                url: parsed,
                inbox: Arc::clone(inbox),
                closing: closing.clone(),
                session: Mutex::default(),
                agreed: OnceLock::new(),
                room: Arc::new(Semaphore::new(MENTIONED)),
                login,
                calls: AtomicUsize::new(0),
            }),
        })
    }

    /// Sends a request and hands all that its response holds to the inbox.
    pub(crate) async fn exchange(&self, outgoing: Outgoing<'_>) -> Result<(), Error> {
        let shared = &self.shared;
        let modern = outgoing.revision.is_some_and(Revision::is_modern);
        let mut request = shared.post(outgoing.body);
        if let Some(revision) = outgoing.revision.filter(|_| modern) {
            request = request.header(VERSION, revision.0.as_str());
            request = request.header(METHOD, outgoing.method);
            if let Some(name) = outgoing.name {
                request = request.header(NAME, headers::encode(name));
            }
            for (name, value) in &outgoing.mirrored {
                request = request.header(format!("mcp-param-{name}"), headers::encode(value));
            }
        }
        let call = (outgoing.method == "tools/call").then(|| shared.count());
        let response = shared.send_within(request, call.as_ref()).await?;
        if outgoing.method == "initialize" {
            let session = response.headers().get(SESSION).cloned();
            *shared.session.lock().unwrap_or_else(PoisonError::into_inner) = session;
        }
        shared.read_answer(response, outgoing.id, modern).await
    }

    /// Sends a message that has no answer.
    pub(crate) async fn tell(&self, body: String) -> Result<(), Error> {
        let response = self.shared.send(self.shared.post(body)).await?;
        if response.status().is_success() {
            return Ok(());
        }
        Err(self.shared.refusal(response).await)
    }

    /// Sends a message that has no answer, in the background, if there is room.
    pub(crate) fn mention(&self, body: String) {
        let Ok(permit) = Arc::clone(&self.shared.room).try_acquire_owned() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let http = self.clone();
        runtime.spawn(async move {
            let told = tokio::time::timeout(CONNECT_TIME, http.tell(body)).await;
            if !matches!(told, Ok(Ok(()))) {
                tracing::debug!("a message without an answer was not taken");
            }
            drop(permit);
        });
    }

    /// Names the agreed legacy revision in every request from now on.
    pub(crate) fn agree(&self, revision: &Revision) {
        if let Ok(value) = HeaderValue::from_str(&revision.0) {
            let _ = self.shared.agreed.set(value);
        }
    }

    /// Listens to what a legacy server says on its own.
    pub(crate) fn listen(&self) {
        tokio::spawn(session::listen(Arc::clone(&self.shared)));
    }

    /// Waits for the end of the connection and leaves nothing behind at the server.
    pub(crate) async fn end_session(self) {
        self.shared.closing.cancelled().await;
        session::delete(&self.shared).await;
        self.shared.inbox.end("the connection was closed", true);
    }
}

impl Shared {
    fn post(&self, body: String) -> RequestBuilder {
        self.request(Method::POST)
            .header(ACCEPT, "application/json, text/event-stream")
            .header(CONTENT_TYPE, "application/json")
            .body(body)
    }

    /// A request with what the legacy revisions want in each.
    fn request(&self, method: Method) -> RequestBuilder {
        let mut request = self.client.request(method, self.url.clone());
        if let Some(session) = self.session() {
            request = request.header(SESSION, session);
        }
        if let Some(agreed) = self.agreed.get() {
            request = request.header(VERSION, agreed.clone());
        }
        request
    }

    fn session(&self) -> Option<HeaderValue> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends, without a token, and waits for the head of the response.
    async fn send_bare(&self, request: RequestBuilder) -> Result<Response, Error> {
        request.send().await.map_err(|error| {
            if error.is_builder() {
                return Error::Refused(format!("the request could not be made: {}", words(error)));
            }
            if error.is_connect() {
                let reason =
                    format!("cannot reach {}: {}", origin(self.url.as_str()), words(error));
                self.inbox.end(&reason, false);
                return Error::Connect(self.inbox.journal().hide(&reason));
            }
            self.lost(&words(error))
        })
    }

    /// The connection broke after something was sent.
    fn lost(&self, what: &str) -> Error {
        self.inbox.end(&format!("the connection broke: {what}"), false);
        Error::Lost(self.inbox.journal().hide(what))
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost"
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Redirects stay within the origin, where the configured headers were meant to go, and repeat the
/// request as it was.
fn within_origin() -> reqwest::redirect::Policy {
    reqwest::redirect::Policy::custom(|attempt| {
        let same = attempt
            .previous()
            .first()
            .is_some_and(|first| first.origin() == attempt.url().origin());
        let repeats = matches!(attempt.status().as_u16(), 307 | 308);
        if same && repeats && attempt.previous().len() <= REDIRECTS {
            attempt.follow()
        } else {
            attempt.stop()
        }
    })
}

/// An error of the HTTP client with its causes, without the URL, which may hold a key.
pub(crate) fn words(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut words = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        let more = error.to_string();
        if !words.contains(&more) {
            words = format!("{words}: {more}");
        }
        cause = error.source();
    }
    words
}

impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Http({})", origin(self.shared.url.as_str()))
    }
}

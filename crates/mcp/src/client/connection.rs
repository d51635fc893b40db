//! One request and its answer: time limits, progress, cancellation. Knows no method's meaning.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::inbox::Inbox;
use super::{Asks, Progress};
use crate::error::Error;
use crate::message;
use crate::revision::Revision;
use crate::transport::{Outgoing, Transport};

/// Between the first sign of a connection's end and the reason for it.
const MOMENT: Duration = Duration::from_secs(1);

/// A transport with its inbox.
pub(crate) struct Connection {
    pub(crate) transport: Transport,
    pub(crate) inbox: Arc<Inbox>,
    /// Ends everything that belongs to this connection.
    pub(crate) closing: CancellationToken,
    /// All that belongs to it has ended.
    pub(crate) finished: CancellationToken,
}

/// What to ask, and for how long.
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    /// The fields of `params`, as JSON; `_meta` is added.
    pub(crate) params: Vec<(&'a str, &'a str)>,
    pub(crate) revision: Option<&'a Revision>,
    pub(crate) name: Option<&'a str>,
    pub(crate) mirrored: BTreeMap<String, String>,
    pub(crate) limit: Limit,
    pub(crate) cancel: Option<&'a CancellationToken>,
    pub(crate) progress: Option<mpsc::UnboundedSender<Progress>>,
    /// More of `_meta`.
    pub(crate) meta: Vec<(String, Box<RawValue>)>,
    /// Whether the server may ask during it, and who answers.
    pub(crate) asking: Option<Option<Asks>>,
    /// What is declared with it (2026-07-28).
    pub(crate) capabilities: String,
}

/// How long to wait.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    /// From one sign of life to the next; `None` waits for ever.
    pub(crate) silence: Option<Duration>,
    /// In all.
    pub(crate) total: Option<Duration>,
}

impl Limit {
    pub(crate) fn of(time: Duration) -> Self {
        Self { silence: Some(time), total: Some(time) }
    }
}

impl<'a> Request<'a> {
    /// A request without parameters.
    pub(crate) fn new(method: &'a str, revision: Option<&'a Revision>, limit: Limit) -> Self {
        Self {
            method,
            params: Vec::new(),
            revision,
            name: None,
            mirrored: BTreeMap::new(),
            limit,
            cancel: None,
            progress: None,
            meta: Vec::new(),
            asking: None,
            capabilities: "{}".to_owned(),
        }
    }
}

/// Tells the server when a request is given up, also when its future is dropped.
struct InFlight<'a> {
    connection: &'a Connection,
    id: i64,
    tells: bool,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if self.connection.inbox.forget(self.id) && self.tells {
            let params = format!(r#"{{"requestId":{},"reason":"given up"}}"#, self.id);
            let body = message::notification("notifications/cancelled", &params);
            self.connection.transport.mention(body);
        }
    }
}

impl Connection {
    /// Asks and waits for the answer.
    pub(crate) async fn request(&self, request: Request<'_>) -> Result<Box<RawValue>, Error> {
        self.request_asking(request).await.map(|(answer, _)| answer)
    }

    /// The same, with what the server asked meanwhile and nobody could answer.
    pub(crate) async fn request_asking(
        &self,
        request: Request<'_>,
    ) -> Result<(Box<RawValue>, Option<String>), Error> {
        if request.cancel.is_some_and(CancellationToken::is_cancelled) {
            return Err(Error::Cancelled);
        }
        let modern = request.revision.is_some_and(Revision::is_modern);
        let wants_progress = request.progress.is_some();
        let mut ticket = self.inbox.expect(request.progress, request.asking)?;
        let in_flight = InFlight {
            connection: self,
            id: ticket.id,
            // An `initialize` must not be cancelled, and a modern stream is simply closed.
            tells: request.method != "initialize" && !(modern && self.transport.is_streamed()),
        };
        let meta = meta(
            &request.meta,
            wants_progress.then_some(ticket.id),
            request.revision,
            &request.capabilities,
        );
        let mut params = request.params;
        if let Some(meta) = &meta {
            params.push(("_meta", meta));
        }
        let body = message::request(ticket.id, request.method, &message::object(&params));
        let exchange = self.transport.exchange(Outgoing {
            id: ticket.id,
            method: request.method,
            body,
            revision: request.revision,
            name: request.name,
            mirrored: request.mirrored,
        });
        tokio::pin!(exchange);
        let mut exchanging = true;
        let started = Instant::now();
        let latest = request.limit.total.map(|total| started + total);
        let deadline = |silence: Option<Duration>| {
            let quiet = silence.map(|silence| Instant::now() + silence);
            [quiet, latest].into_iter().flatten().min()
        };
        let timer = tokio::time::sleep_until(deadline(request.limit.silence).unwrap_or(started));
        tokio::pin!(timer);
        let limited = request.limit.silence.or(request.limit.total).is_some();
        let never = CancellationToken::new();
        let cancel = request.cancel.unwrap_or(&never);
        let outcome = loop {
            tokio::select! {
                biased;
                answer = &mut ticket.answer => break match answer {
                    Ok(answer) => answer,
                    Err(_) => Err(Error::Lost("it was forgotten".to_owned())),
                },
                () = cancel.cancelled() => break Err(Error::Cancelled),
                () = self.closing.cancelled() => {
                    break Err(Error::Lost("the connection was closed".to_owned()));
                }
                result = &mut exchange, if exchanging => {
                    exchanging = false;
                    match result {
                        Err(Error::Connect(why)) => break Err(self.not_sent(why).await),
                        Err(error) => break Err(error),
                        Ok(()) if self.transport.is_streamed() && self.inbox.is_waiting(ticket.id) => {
                            break Err(Error::Lost("the response held no answer".to_owned()));
                        }
                        Ok(()) => {}
                    }
                }
                () = ticket.activity.notified() => {
                    if let Some(deadline) = deadline(request.limit.silence) {
                        timer.as_mut().reset(deadline);
                    }
                }
                () = &mut timer, if limited => {
                    let unreadable = self.inbox.unreadable(ticket.id);
                    break Err(Error::Timeout { after: started.elapsed(), unreadable });
                }
            }
        };
        drop(in_flight);
        outcome.map(|answer| (answer, ticket.refused()))
    }
}

impl Connection {
    /// Nothing was sent. A server that died is seen to do so a moment after it stopped reading,
    /// and why it died helps more.
    async fn not_sent(&self, why: String) -> Error {
        let ended = tokio::time::timeout(MOMENT, self.inbox.ended()).await;
        Error::Connect(ended.unwrap_or(why))
    }
}

/// `_meta` of a request, if it needs one.
fn meta(
    more: &[(String, Box<RawValue>)],
    progress_token: Option<i64>,
    revision: Option<&Revision>,
    capabilities: &str,
) -> Option<String> {
    let mut fields: Vec<(&str, String)> =
        more.iter().map(|(name, value)| (name.as_str(), value.get().to_owned())).collect();
    if let Some(token) = progress_token {
        fields.push(("progressToken", token.to_string()));
    }
    if let Some(revision) = revision.filter(|revision| revision.is_modern()) {
        fields.push(("io.modelcontextprotocol/protocolVersion", message::quote(&revision.0)));
        fields.push(("io.modelcontextprotocol/clientInfo", client_info()));
        fields.push(("io.modelcontextprotocol/clientCapabilities", capabilities.to_owned()));
    }
    let fields: Vec<(&str, &str)> =
        fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    (!fields.is_empty()).then(|| message::object(&fields))
}

/// Who we are.
pub(crate) fn client_info() -> String {
    format!(r#"{{"name":"pinfold","version":"{}"}}"#, env!("CARGO_PKG_VERSION"))
}

//! What servers offer besides tools, as an MCP service.

use std::sync::Arc;

use gateway::{Along, ExtraError, Gateway, Session};
use mcp::Kind;
use mcp::server::{Answer, Caller, Refusal, Watch, Wish};
use serde_json::value::RawValue;
use tokio::sync::{broadcast, watch};

use super::parked::Ends;

/// So many updates may wait for a client; then it is told that all may have changed.
const QUEUED: usize = 256;

/// What is told of what is offered besides tools.
#[derive(Debug)]
pub(super) struct Told {
    resources: watch::Sender<u64>,
    prompts: watch::Sender<u64>,
    pub(super) updates: broadcast::Sender<Arc<str>>,
}

impl Default for Told {
    fn default() -> Self {
        Self {
            resources: watch::Sender::new(0),
            prompts: watch::Sender::new(0),
            updates: broadcast::Sender::new(QUEUED),
        }
    }
}

impl Told {
    /// Of a list.
    pub(super) fn list(&self, kind: Kind) -> &watch::Sender<u64> {
        match kind {
            Kind::Resources | Kind::Templates => &self.resources,
            Kind::Prompts => &self.prompts,
        }
    }
}

/// Everything besides tools, to find out whether it changed.
#[derive(Default)]
pub(super) struct Seen([Vec<Arc<RawValue>>; 3]);

impl Seen {
    pub(super) fn now(gateway: &Gateway, session: &Session) -> Self {
        Self(KINDS.map(|kind| gateway.extras(session, kind)))
    }

    /// Tells what is not the same any more.
    pub(super) fn tell_changes(&self, now: &Self, told: &Told) {
        for (kind, (before, now)) in KINDS.into_iter().zip(self.0.iter().zip(&now.0)) {
            let same = before.len() == now.len()
                && before.iter().zip(now).all(|(one, other)| one.get() == other.get());
            if !same {
                told.list(kind).send_modify(|count| *count += 1);
            }
        }
    }
}

const KINDS: [Kind; 3] = [Kind::Resources, Kind::Templates, Kind::Prompts];

/// What comes of a request.
pub(super) type Passed = Result<Box<RawValue>, ExtraError>;

/// Passes a request on.
pub(super) async fn pass(
    gateway: Arc<Gateway>,
    session: Arc<Session>,
    wish: Wish,
    meta: Option<Box<RawValue>>,
    ends: Ends,
) -> Passed {
    let along = Along { passed: mcp::Passed { meta, asks: ends.asks }, cancel: ends.cancel };
    match &wish {
        Wish::Resource { uri } => gateway.read(&session, uri, along).await,
        Wish::Prompt { name, arguments } => {
            gateway.prompt(&session, name, arguments.as_deref(), along).await
        }
        Wish::Completion { reference, argument, context } => {
            gateway.complete(&session, reference, argument, context.as_deref(), along).await
        }
    }
}

/// Who may ask during it. Of a resource only the one that has it knows.
pub(super) fn server_of(gateway: &Gateway, session: &Session, wish: &Wish) -> String {
    match wish {
        Wish::Prompt { name, .. } => gateway.server_of_prompt(session, name).unwrap_or_default(),
        Wish::Resource { uri } => format!("that has {}", uri.chars().take(200).collect::<String>()),
        Wish::Completion { .. } => String::new(),
    }
}

/// What is answered to that.
pub(super) fn answer(caller: &Caller, passed: Passed) -> Result<Answer, Refusal> {
    match passed {
        Ok(result) => Ok(Answer::Result(result.into())),
        Err(error) => Err(refused(caller, error)),
    }
}

/// Has changes of a resource told under the URI that the client knows.
pub(super) async fn watch(
    gateway: &Gateway,
    session: &Session,
    caller: &Caller,
    uri: &str,
    updates: &broadcast::Sender<Arc<str>>,
) -> Result<Watch, Refusal> {
    let watched = gateway.watch(session, uri).await;
    let mut watched = watched.map_err(|error| refused(caller, error))?;
    let (uri, updates): (Arc<str>, _) = (uri.into(), updates.clone());
    let telling = tokio::spawn(async move {
        loop {
            watched.changed().await;
            // Nobody listening is the listener's choice.
            let _ = updates.send(uri.clone());
        }
    });
    Ok(Box::new(Telling(telling.abort_handle())))
}

/// Ends with the one who wanted it.
struct Telling(tokio::task::AbortHandle);

impl Drop for Telling {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn refused(caller: &Caller, error: ExtraError) -> Refusal {
    match error {
        ExtraError::NoResource(why) => Refusal::no_resource(caller, why),
        ExtraError::Invalid(why) => Refusal::invalid(why),
        ExtraError::Answered { code, message, data } => {
            Refusal::passed(caller, code, message, data.as_deref())
        }
        error @ (ExtraError::Unavailable(_) | ExtraError::Cancelled) => {
            Refusal::internal(error.to_string())
        }
    }
}

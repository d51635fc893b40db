//! What lasts longer than one request: what was agreed on, what runs, what the client was asked.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::watching::Watching;
use super::{Caller, Refusal};
use crate::message::{self, Failure, code};

/// Most requests that one client may have running.
const MOST_RUNNING: usize = 1_000;

/// An id is sent back as it came, so it has a bound, in bytes.
const LONGEST_ID: usize = 256;

/// The way to the client.
#[derive(Clone, Debug)]
pub(crate) struct Outlet(mpsc::Sender<String>);

impl Outlet {
    pub(crate) fn new(lines: mpsc::Sender<String>) -> Self {
        Self(lines)
    }

    /// Sends a message, waiting for room. A client that has gone away is no error here: whoever
    /// reads from it finds out.
    pub(crate) async fn send(&self, message: String) {
        let _ = self.0.send(message).await;
    }

    /// Sends a message if there is room.
    pub(crate) fn mention(&self, message: String) {
        let _ = self.0.try_send(message);
    }
}

/// What a client answers to a question: a result, or that it could not be had.
type Answered = Result<Box<RawValue>, Failure>;

/// One client, for as long as it is there.
#[derive(Debug)]
pub(crate) struct Connection {
    /// What `initialize` agreed on.
    agreed: Mutex<Option<Caller>>,
    /// Whether the client said that it is ready for what the server says on its own.
    ready: watch::Sender<bool>,
    running: Mutex<HashMap<String, CancellationToken>>,
    asked: Mutex<HashMap<i64, oneshot::Sender<Answered>>>,
    next: AtomicI64,
    /// Tasks of an older client that go on.
    tasks: Mutex<BTreeSet<String>>,
    /// Resources whose changes are told.
    pub(crate) watching: Watching,
    /// Ends everything that runs.
    closing: CancellationToken,
}

/// A request that runs. When this is dropped it is forgotten, and what still runs for it ends.
#[derive(Debug)]
pub(crate) struct Running {
    connection: Arc<Connection>,
    id: String,
    pub(crate) cancel: CancellationToken,
}

impl Drop for Running {
    fn drop(&mut self) {
        lock(&self.connection.running).remove(&self.id);
        self.cancel.cancel();
    }
}

impl Connection {
    pub(crate) fn new(closing: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            agreed: Mutex::default(),
            ready: watch::Sender::new(false),
            running: Mutex::default(),
            asked: Mutex::default(),
            next: AtomicI64::new(1),
            tasks: Mutex::default(),
            watching: Watching::default(),
            closing,
        })
    }

    pub(crate) fn agreed(&self) -> Option<Caller> {
        lock(&self.agreed).clone()
    }

    pub(crate) fn agree(&self, caller: Caller) {
        *lock(&self.agreed) = Some(caller);
    }

    pub(crate) fn set_ready(&self) {
        self.ready.send_replace(true);
    }

    /// Resolves when an older client said that it is ready.
    pub(crate) async fn ready(&self) {
        let mut ready = self.ready.subscribe();
        // The sender lives as long as `self`.
        let _ = ready.wait_for(|ready| *ready).await;
    }

    /// A task was made whose end the client is told.
    pub(crate) fn add_task(&self, id: &str) {
        let mut tasks = lock(&self.tasks);
        if tasks.len() < MOST_RUNNING {
            tasks.insert(id.to_owned());
        }
    }

    pub(crate) fn tasks(&self) -> Vec<String> {
        lock(&self.tasks).iter().cloned().collect()
    }

    pub(crate) fn forget_task(&self, id: &str) {
        lock(&self.tasks).remove(id);
    }

    /// Begins a request.
    pub(crate) fn begin(self: &Arc<Self>, id: &RawValue) -> Result<Running, Refusal> {
        let invalid = |message: &str| Err(Refusal::new(code::INVALID_REQUEST, message));
        let key = id.get();
        if key.len() > LONGEST_ID
            || !key.starts_with(|c: char| "\"-".contains(c) || c.is_ascii_digit())
        {
            return invalid("an id is a number or a string of at most 256 bytes");
        }
        let mut running = lock(&self.running);
        if running.len() >= MOST_RUNNING {
            return Err(Refusal::internal(format!(
                "{MOST_RUNNING} requests are running already; wait for some of them"
            )));
        }
        if running.contains_key(key) {
            return invalid("a request with this id is running already");
        }
        let cancel = self.closing.child_token();
        running.insert(key.to_owned(), cancel.clone());
        Ok(Running { connection: Arc::clone(self), id: key.to_owned(), cancel })
    }

    /// The client no longer wants the answer.
    pub(crate) fn cancel(&self, id: &RawValue) {
        if let Some(cancel) = lock(&self.running).get(id.get()) {
            cancel.cancel();
        }
    }

    /// Asks the client something and waits; `None` where the wait was cancelled, which the client
    /// is told.
    pub(crate) async fn ask(
        &self,
        outlet: &Outlet,
        method: &str,
        params: &str,
        given_up: impl Future<Output = ()>,
    ) -> Option<Answered> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        lock(&self.asked).insert(id, answer);
        let forget = Forget { connection: self, id };
        outlet.send(message::request(id, method, params)).await;
        let reply = tokio::select! {
            answer = answered => answer.ok(),
            () = given_up => None,
        };
        if reply.is_none() {
            let params = format!(r#"{{"requestId":{id},"reason":"no longer needed"}}"#);
            outlet.mention(message::notification("notifications/cancelled", &params));
        }
        drop(forget);
        reply
    }

    /// The client answered something.
    pub(crate) fn answered(&self, id: Option<i64>, outcome: Result<&RawValue, Failure>) {
        let waiting = id.and_then(|id| lock(&self.asked).remove(&id));
        match waiting {
            Some(waiting) => {
                let _ = waiting.send(outcome.map(ToOwned::to_owned));
            }
            None => tracing::debug!(?id, "an answer that nobody waits for"),
        }
    }
}

struct Forget<'a> {
    connection: &'a Connection,
    id: i64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        lock(&self.connection.asked).remove(&self.id);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

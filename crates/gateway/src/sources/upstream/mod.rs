//! The user's MCP servers: connected in the background, supervised, restarted.
//!
//! Nobody waits for a server at start: until it answers, the tools that it had last are listed
//! (`remembered`). One that is down keeps its tools listed, too; a call to it has it tried again at
//! once and fails soon, saying why. Whether a call may be made is not decided
//! here, and a call whose outcome is unknown is never repeated.

mod extras;

mod remembered;

mod supervise;

pub use remembered::{Kept, Memory};

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::{Notify, broadcast, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use mcp::message::code::{INVALID_PARAMS, METHOD_NOT_FOUND};

use super::{Extras, PassError, Snapshot, Source, SourceCall, SourceError, SourceRequest, State};

/// How patient to be with a server.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For starting it and agreeing on a revision (a package may have to be downloaded first).
    pub connect: Duration,
    /// How long a call waits for a server that is down or still starting.
    pub call: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { connect: Duration::from_secs(60), call: Duration::from_secs(10) }
    }
}

/// So soon after a failed attempt a call does not have the server tried again.
const ATTEMPTS_APART: Duration = Duration::from_secs(1);

/// How long a call waits for the new list of a server that has announced one.
const SETTLING: Duration = Duration::from_secs(2);

/// So many updates of resources may wait for those who are told; then they count as all.
const UPDATES: usize = 64;

/// One of the user's MCP servers.
#[derive(Debug)]
pub struct Upstream {
    shared: Arc<Shared>,
}

/// What the supervisor and the calls share.
#[derive(Debug)]
struct Shared {
    name: String,
    patience: Patience,
    snapshot: RwLock<Arc<Snapshot>>,
    /// Whether the server itself has said in this process what it offers.
    confirmed: AtomicBool,
    /// What of its list could not be used, and why.
    left_out: Mutex<Arc<Vec<String>>>,
    /// Where the tools are kept for the next start.
    memory: Option<Memory>,
    /// Lists that are being kept.
    saving: TaskTracker,
    changes: watch::Sender<u64>,
    link: watch::Sender<Link>,
    /// Has a server that is down tried again at once.
    wake: Notify,
    /// Has the tools listed again, since a call suggests that they changed.
    doubt: Notify,
    /// Has a list that is due anyway fetched at once, since a call waits for it.
    hurry: Notify,
    /// So many announced changes of this connection's are in the snapshot.
    listed: watch::Sender<u64>,
    extras: RwLock<Arc<Extras>>,
    /// How often each resource is watched.
    watched: Mutex<BTreeMap<String, usize>>,
    updates: broadcast::Sender<Arc<str>>,
    closing: CancellationToken,
    finished: CancellationToken,
}

/// The connection there is, if there is one.
#[derive(Clone, Debug, Default)]
struct Link {
    client: Option<mcp::Client>,
    /// Which connection it is, or was.
    number: u64,
    /// So many attempts to connect have ended.
    attempts: u64,
    /// When the last attempt failed; `None` after one that did not.
    failed: Option<Instant>,
}

impl Upstream {
    /// Begins to connect in the background. Must be called within a tokio runtime.
    #[must_use]
    pub fn start(name: &str, endpoint: mcp::Endpoint, patience: Patience) -> Arc<Self> {
        Self::begin(name, endpoint, patience, None)
    }

    /// The same, but until the server answers, the tools that it had last are listed.
    #[must_use]
    pub fn start_remembering(
        name: &str,
        endpoint: mcp::Endpoint,
        patience: Patience,
        memory: Memory,
    ) -> Arc<Self> {
        Self::begin(name, endpoint, patience, Some(memory))
    }

    fn begin(
        name: &str,
        endpoint: mcp::Endpoint,
        patience: Patience,
        memory: Option<Memory>,
    ) -> Arc<Self> {
        let kept = memory.as_ref().and_then(Memory::read).unwrap_or_default();
        let tools = kept.tools.into_iter().map(Arc::new).collect();
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            patience,
            snapshot: RwLock::new(Arc::new(Snapshot { tools, state: State::Starting })),
            confirmed: AtomicBool::new(false),
            left_out: Mutex::new(Arc::new(kept.left_out)),
            memory,
            saving: TaskTracker::new(),
            changes: watch::Sender::new(0),
            link: watch::Sender::default(),
            wake: Notify::new(),
            doubt: Notify::new(),
            hurry: Notify::new(),
            listed: watch::Sender::new(0),
            extras: RwLock::default(),
            watched: Mutex::default(),
            updates: broadcast::Sender::new(UPDATES),
            closing: CancellationToken::new(),
            finished: CancellationToken::new(),
        });
        tokio::spawn(supervise::supervise(Arc::clone(&shared), endpoint));
        Arc::new(Self { shared })
    }

    /// Ends the connection, and a stdio server with everything it started; waits until it is gone.
    pub async fn close(&self) {
        self.shared.closing.cancel();
        self.shared.finished.cancelled().await;
        self.shared.saving.close();
        self.shared.saving.wait().await;
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.shared.closing.cancel();
    }
}

#[async_trait::async_trait]
impl Source for Upstream {
    fn name(&self) -> &str {
        &self.shared.name
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        self.shared.snapshot()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    async fn settled(&self) -> bool {
        let connected = self.shared.link.borrow().client.clone();
        let client = match connected {
            Some(client) => client,
            // What it offers is known once it is there again. If it does not come, nothing can be
            // sent to it either.
            None => {
                let deadline = Instant::now() + self.shared.patience.call;
                match self.shared.connected(0, deadline).await {
                    Ok((client, _)) => client,
                    Err(_) => return true,
                }
            }
        };
        let announced = client.announced_changes();
        if *self.shared.listed.borrow() >= announced {
            return true;
        }
        let mut listed = self.shared.listed.subscribe();
        self.shared.hurry.notify_one();
        let wait = listed.wait_for(|listed| *listed >= announced);
        matches!(tokio::time::timeout(SETTLING, wait).await, Ok(Ok(_)))
    }

    fn confirmed(&self) -> bool {
        self.shared.confirmed.load(Ordering::Acquire)
    }

    fn left_out(&self) -> Arc<Vec<String>> {
        self.shared.left_out.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn call(&self, call: SourceCall) -> Result<mcp::CallResult, SourceError> {
        let cancel = call.cancel.clone();
        let deadline = Instant::now() + self.shared.patience.call.min(call.timeout);
        let mut used = 0;
        loop {
            let (client, number) = tokio::select! {
                () = cancel.cancelled() => return Err(SourceError::Cancelled),
                client = self.shared.connected(used, deadline) => client?,
            };
            let outcome = client
                .call_tool(mcp::ToolCall {
                    name: call.tool.clone(),
                    arguments: call.arguments.clone(),
                    cancel: call.cancel.clone(),
                    timeout: call.timeout,
                    progress: call.progress.clone(),
                    passed: call.passed.clone(),
                })
                .await;
            match outcome {
                // Nothing was sent, so the next connection may be used; only once.
                Err(mcp::Error::Connect(_)) if used == 0 => used = number,
                // A tool that was offered is unknown, or wants other arguments than it said.
                Err(error @ mcp::Error::Rpc { code: METHOD_NOT_FOUND | INVALID_PARAMS, .. }) => {
                    self.shared.doubt.notify_one();
                    return Err(explained(error));
                }
                outcome => return outcome.map_err(explained),
            }
        }
    }

    fn extras(&self) -> Arc<Extras> {
        self.shared.extras()
    }

    async fn pass(&self, request: SourceRequest) -> Result<Box<RawValue>, PassError> {
        self.shared.pass(request).await
    }

    async fn watch(&self, uri: &str) -> Result<(), PassError> {
        self.shared.watch(uri).await
    }

    fn unwatch(&self, uri: &str) {
        self.shared.unwatch(uri);
    }

    fn updates(&self) -> Option<broadcast::Receiver<Arc<str>>> {
        Some(self.shared.updates.subscribe())
    }
}

impl Shared {
    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes what is offered, and tells whoever watches if that makes a difference.
    fn publish(&self, tools: Option<Vec<mcp::Tool>>, state: State) {
        let before = self.snapshot();
        let is_told = tools.is_some();
        let was_confirmed = self.confirmed.load(Ordering::Acquire);
        let tools = match tools {
            Some(tools) if !is_same(&before.tools, &tools) => {
                tools.into_iter().map(Arc::new).collect()
            }
            _ => before.tools.clone(),
        };
        let is_changed = before.state != state
            || before.tools.len() != tools.len()
            || before.tools.iter().zip(&tools).any(|(old, new)| !Arc::ptr_eq(old, new));
        if is_told && (is_changed || !was_confirmed) {
            self.remember(&tools);
        }
        if is_changed {
            let next = Arc::new(Snapshot { tools, state });
            *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = next;
            self.changes.send_modify(|version| *version += 1);
        }
        // Only now: whoever sees it as confirmed has to find the confirmed tools everywhere.
        if is_told && !was_confirmed {
            self.confirmed.store(true, Ordering::Release);
            self.changes.send_modify(|version| *version += 1);
        }
    }

    /// Notes what of the server's list could not be used; comes before the list is published.
    fn note_left_out(&self, left_out: Vec<String>) {
        *self.left_out.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(left_out);
    }

    /// Keeps the tools for the next start, aside of whatever waits for them now.
    fn remember(&self, tools: &[Arc<mcp::Tool>]) {
        let Some(memory) = self.memory.clone() else { return };
        let (name, tools) = (self.name.clone(), tools.to_vec());
        let left_out = self.left_out.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.saving.spawn_blocking(move || {
            if let Err(error) = memory.keep(&tools, &left_out) {
                tracing::warn!(server = name, %error, "the tools could not be kept for the next start");
            }
        });
    }

    /// A connection newer than `after`, waiting for one attempt of the supervisor's if need be.
    async fn connected(
        &self,
        after: u64,
        deadline: Instant,
    ) -> Result<(mcp::Client, u64), SourceError> {
        let mut link = self.link.subscribe();
        let first = link.borrow_and_update().clone();
        if let Some(client) = first.client.filter(|_| first.number > after) {
            return Ok((client, first.number));
        }
        if first.failed.is_some_and(|failed| failed.elapsed() < ATTEMPTS_APART) {
            return Err(self.unavailable("it could not be reached just now"));
        }
        self.wake.notify_one();
        let wait = link.wait_for(|link| {
            (link.client.is_some() && link.number > after) || link.attempts > first.attempts
        });
        match tokio::time::timeout_at(deadline, wait).await {
            Ok(Ok(link)) => match &link.client {
                Some(client) if link.number > after => Ok((client.clone(), link.number)),
                _ => Err(self.unavailable("it could not be reached")),
            },
            Ok(Err(_)) => Err(self.unavailable("it was closed")),
            Err(_) => Err(self.unavailable("it is still starting")),
        }
    }

    fn unavailable(&self, otherwise: &str) -> SourceError {
        SourceError::Unavailable(match &self.snapshot().state {
            State::Down { reason } => reason.clone(),
            State::Starting | State::Ready => otherwise.to_owned(),
        })
    }
}

/// An error in the gateway's terms. Whoever tells it names the server.
fn explained(error: mcp::Error) -> SourceError {
    match error {
        mcp::Error::Connect(reason) => SourceError::Unavailable(reason),
        mcp::Error::Lost(reason) => SourceError::Lost(reason),
        mcp::Error::Timeout { after, unreadable } => {
            let meanwhile =
                unreadable.map_or_else(String::new, |what| format!("; meanwhile {what}"));
            SourceError::Timeout(format!(
                "the server gave no answer within {:.1} s; it was told to stop{meanwhile}",
                after.as_secs_f64()
            ))
        }
        mcp::Error::Cancelled => SourceError::Cancelled,
        error
        @ (mcp::Error::Refused(_) | mcp::Error::Rpc { .. } | mcp::Error::InputRequired(_)) => {
            SourceError::Failed(error.to_string())
        }
        mcp::Error::Protocol(what) => SourceError::Unusable(what),
    }
}

fn is_same(before: &[Arc<mcp::Tool>], after: &[mcp::Tool]) -> bool {
    before.len() == after.len()
        && before.iter().zip(after).all(|(old, new)| old.raw.get() == new.raw.get())
}

#[cfg(test)]
mod tests;

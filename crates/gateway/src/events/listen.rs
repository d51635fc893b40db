//! Who listens, and one who does.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use store::{EventRow, Store};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, broadcast};

use crate::gateway::Error;

/// Events that a listener may be behind before it reads the store again.
const BEHIND: usize = 64;

/// Events that are read from the store at once.
pub(super) const PAGE: u32 = 500;

/// A script tells its progress at most once in this time, a little less than its own pace.
const APART: Duration = Duration::from_millis(900);

/// Scripts whose last progress is remembered.
const SCRIPTS: usize = 1_000;

/// An event as a listener gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Names it, so that one can go on after it; progress of scripts has none.
    pub id: Option<i64>,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// Its type.
    pub kind: String,
    /// The event, a JSON object.
    pub data: String,
}

impl From<EventRow> for Told {
    fn from(row: EventRow) -> Self {
        Self { id: Some(row.id), at_ms: row.at_ms, kind: row.kind, data: row.data }
    }
}

/// The listeners of this process.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    inner: Mutex<Inner>,
    /// Told when the first listener comes.
    pub(super) first: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    /// By session.
    channels: HashMap<String, broadcast::Sender<Arc<Told>>>,
    /// Everything up to here was given to the listeners.
    cursor: i64,
    /// When scripts last told their progress.
    progress: HashMap<String, Instant>,
}

impl Hub {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `last` is an event that was there before the listener came.
    fn join(&self, session: &str, last: i64) -> broadcast::Receiver<Arc<Told>> {
        let mut inner = self.lock();
        inner.channels.retain(|_, channel| channel.receiver_count() > 0);
        if inner.channels.is_empty() {
            inner.cursor = inner.cursor.max(last);
        }
        let channel = inner
            .channels
            .entry(session.to_owned())
            .or_insert_with(|| broadcast::Sender::new(BEHIND));
        let receiver = channel.subscribe();
        drop(inner);
        self.first.notify_one();
        receiver
    }

    /// After which event the next one has to be read, if somebody listens at all.
    pub(super) fn cursor(&self) -> Option<i64> {
        let inner = self.lock();
        let heard = inner.channels.values().any(|channel| channel.receiver_count() > 0);
        heard.then_some(inner.cursor)
    }

    /// Gives out what was read.
    pub(super) fn tell(&self, rows: Vec<EventRow>) {
        let mut inner = self.lock();
        for row in rows {
            inner.cursor = inner.cursor.max(row.id);
            if let Some(channel) = inner.channels.get(&row.session) {
                // Nobody has to listen.
                let _ = channel.send(Arc::new(Told::from(row)));
            }
        }
    }

    /// Gives out what is not kept.
    pub(super) fn tell_at_once(&self, session: &str, told: Told) {
        if let Some(channel) = self.lock().channels.get(session) {
            let _ = channel.send(Arc::new(told));
        }
    }

    /// Tells every listener that nothing more comes.
    pub(super) fn close(&self) {
        self.lock().channels.clear();
    }

    pub(super) fn is_heard(&self, session: &str) -> bool {
        self.lock().channels.get(session).is_some_and(|channel| channel.receiver_count() > 0)
    }

    /// Whether the script has been silent for long enough.
    pub(super) fn may_tell(&self, script: &str) -> bool {
        let mut inner = self.lock();
        let now = Instant::now();
        if inner.progress.get(script).is_some_and(|last| now.duration_since(*last) < APART) {
            return false;
        }
        if inner.progress.len() >= SCRIPTS {
            inner.progress.retain(|_, last| now.duration_since(*last) < APART);
        }
        inner.progress.insert(script.to_owned(), now);
        true
    }
}

/// Somebody who listens to one session. Every kept event comes once, in the order of the ids.
#[derive(Debug)]
pub struct Listener {
    store: Store,
    session: String,
    receiver: broadcast::Receiver<Arc<Told>>,
    /// Everything up to here was given out.
    last: i64,
    /// Read and not yet given out.
    read: VecDeque<Arc<Told>>,
    /// There may be more in the store that the receiver will not bring.
    behind: bool,
    /// Up to here events were removed though they were asked for.
    lost: Option<i64>,
}

impl Listener {
    pub(super) async fn open(
        store: &Store,
        hub: &Hub,
        session: &str,
        after: Option<i64>,
    ) -> Result<Self, Error> {
        let head = store.event_head().await?;
        // Before the store is read, so that nothing can come in between.
        let receiver = hub.join(session, head.last);
        // An id that was never given, perhaps of another database, must not silence everything.
        let last = after.unwrap_or(head.last).clamp(0, head.last);
        Ok(Self {
            store: store.clone(),
            session: session.to_owned(),
            receiver,
            last,
            read: VecDeque::new(),
            behind: true,
            lost: (last < head.pruned).then_some(head.pruned),
        })
    }

    /// Up to which id events were removed before they could be told, if some were asked for that
    /// are perhaps no longer there.
    pub fn lost(&self) -> Option<i64> {
        self.lost
    }

    /// The next event; `None` when the gateway closes. Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Result<Option<Arc<Told>>, Error> {
        loop {
            if let Some(told) = self.read.pop_front() {
                self.last = told.id.unwrap_or(self.last);
                return Ok(Some(told));
            }
            if self.behind {
                let page = self.store.session_events(&self.session, self.last, PAGE).await?;
                self.behind = page.len() == PAGE as usize;
                self.read.extend(page.into_iter().map(|row| Arc::new(Told::from(row))));
                continue;
            }
            match self.receiver.recv().await {
                Ok(told) if told.id.is_none_or(|id| id > self.last) => {
                    self.last = told.id.unwrap_or(self.last);
                    return Ok(Some(told));
                }
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => self.behind = true,
                Err(RecvError::Closed) => return Ok(None),
            }
        }
    }
}

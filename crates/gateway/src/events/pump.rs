//! Writes what is published to the store, and reads it back for the listeners.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use store::{NewEvent, Store};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::listen::{Hub, PAGE, Told};
use super::{Event, Published, Resolution};
use crate::gateway::now_ms;

/// Events that may wait to be written.
const WAITING: usize = 10_000;

/// So long is waited for more, so that one transaction takes many.
const TOGETHER: Duration = Duration::from_millis(20);

/// Events of one transaction.
const AT_ONCE: usize = 500;

/// How often it is looked for what other processes wrote, while somebody listens.
const LOOK: Duration = Duration::from_millis(400);

/// After a failure of the store.
const AGAIN: Duration = Duration::from_secs(1);

/// So long is tried to write the rest when the gateway closes.
const LAST: Duration = Duration::from_secs(5);

/// How often old events are removed.
const PRUNE: Duration = Duration::from_secs(600);

/// How often it is looked which questions have expired, while somebody listens.
const SWEEP: Duration = Duration::from_secs(5);

/// Events that are kept, over all sessions.
const KEPT: i64 = 200_000;

/// So long are events kept.
const KEPT_MS: i64 = 30 * 24 * 3_600 * 1_000;

/// The queue to the store, the listeners, and the task in between.
#[derive(Debug)]
pub(crate) struct Pump {
    pub(super) hub: Arc<Hub>,
    queue: mpsc::Sender<Published>,
    lost: Arc<AtomicU64>,
    stop: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Pump {
    pub(crate) fn start(store: Store) -> Self {
        let (queue, waiting) = mpsc::channel(WAITING);
        let (hub, lost, stop) =
            (Arc::<Hub>::default(), Arc::<AtomicU64>::default(), CancellationToken::new());
        let work = Work {
            store,
            hub: hub.clone(),
            lost: lost.clone(),
            pending: Vec::new(),
            passing: Vec::new(),
            failed: None,
        };
        let task = tokio::spawn(work.run(waiting, stop.clone()));
        Self { hub, queue, lost, stop, task: Mutex::new(Some(task)) }
    }

    pub(super) fn queue(&self, event: Published) {
        if let Err(TrySendError::Full(_)) = self.queue.try_send(event) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes what waits and ends.
    pub(crate) async fn close(&self) {
        self.stop.cancel();
        if let Some(task) = self.task.lock().await.take() {
            let _ = task.await;
        }
        self.hub.close();
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

struct Work {
    store: Store,
    hub: Arc<Hub>,
    lost: Arc<AtomicU64>,
    /// Not yet in the store.
    pending: Vec<NewEvent>,
    /// Told after the events that were published before it.
    passing: Vec<(Arc<str>, Told)>,
    /// When the store last failed.
    failed: Option<Instant>,
}

impl Work {
    async fn run(mut self, mut waiting: mpsc::Receiver<Published>, stop: CancellationToken) {
        let mut prune = tokio::time::interval_at(Instant::now() + PRUNE / 10, PRUNE);
        prune.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut sweep = tokio::time::interval(SWEEP);
        sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let heard = self.hub.cursor().is_some();
            let room = self.pending.len() < AT_ONCE;
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(event) = waiting.recv(), if room => {
                    self.take(event);
                    self.gather(&mut waiting, &stop).await;
                }
                _ = prune.tick() => self.prune().await,
                _ = sweep.tick(), if heard && room => self.sweep().await,
                () = tokio::time::sleep(LOOK), if heard || !self.pending.is_empty() => {}
                () = self.hub.first.notified(), if !heard => {}
            }
            self.write().await;
            self.tell().await;
        }
        waiting.close();
        let rest = async {
            while let Some(event) = waiting.recv().await {
                self.take(event);
                if self.pending.len() >= AT_ONCE {
                    self.write().await;
                }
            }
            self.failed = None;
            self.write().await;
            self.tell().await;
        };
        if tokio::time::timeout(LAST, rest).await.is_err() || !self.pending.is_empty() {
            tracing::warn!("some events of sessions could not be written any more");
        }
    }

    /// Takes what comes within a moment.
    async fn gather(&mut self, waiting: &mut mpsc::Receiver<Published>, stop: &CancellationToken) {
        let until = Instant::now() + TOGETHER;
        while self.pending.len() < AT_ONCE {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep_until(until) => return,
                event = waiting.recv() => match event {
                    Some(event) => self.take(event),
                    None => return,
                },
            }
        }
    }

    fn take(&mut self, Published { session, at_ms, event }: Published) {
        let kind = event.kind().to_owned();
        let data = match serde_json::to_string(&event) {
            Ok(data) => data,
            Err(error) => {
                tracing::error!(%error, kind, "an event cannot be written as JSON");
                return;
            }
        };
        if matches!(event, Event::ScriptProgress(_)) {
            self.passing.push((session, Told { id: None, at_ms, kind, data }));
        } else {
            self.pending.push(NewEvent { session: session.as_ref().to_owned(), at_ms, kind, data });
        }
    }

    async fn write(&mut self) {
        match self.lost.swap(0, Ordering::Relaxed) {
            0 => {}
            lost => tracing::warn!(lost, "events of sessions were lost: the store is too slow"),
        }
        if self.pending.is_empty() || self.failed.is_some_and(|at| at.elapsed() < AGAIN) {
            return;
        }
        match self.store.add_events(&self.pending).await {
            Ok(_) => {
                self.pending.clear();
                self.failed = None;
            }
            Err(error) => {
                if self.failed.is_none() {
                    tracing::warn!(%error, "events of sessions cannot be written; trying again");
                }
                self.failed = Some(Instant::now());
            }
        }
    }

    async fn tell(&mut self) {
        while let Some(cursor) = self.hub.cursor() {
            match self.store.events_after(cursor, PAGE).await {
                Ok(rows) => {
                    let more = rows.len() == PAGE as usize;
                    self.hub.tell(rows);
                    if !more {
                        break;
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "events of sessions cannot be read");
                    break;
                }
            }
        }
        for (session, told) in self.passing.drain(..) {
            self.hub.tell_at_once(&session, told);
        }
    }

    async fn sweep(&mut self) {
        match self.store.expire_approvals(now_ms()).await {
            Ok(expired) => {
                for row in expired {
                    self.take(Published {
                        session: row.session.as_str().into(),
                        at_ms: now_ms(),
                        event: Event::ApprovalResolved {
                            approval: row.id,
                            tool: row.tool,
                            resolution: Resolution::Expired,
                            by: String::new(),
                            reason: String::new(),
                        },
                    });
                }
            }
            Err(error) => tracing::debug!(%error, "expired questions cannot be looked for"),
        }
    }

    async fn prune(&self) {
        loop {
            match self.store.prune_events(KEPT, now_ms() - KEPT_MS).await {
                Ok(true) => tokio::task::yield_now().await,
                Ok(false) => return,
                Err(error) => {
                    tracing::debug!(%error, "old events cannot be removed");
                    return;
                }
            }
        }
    }
}

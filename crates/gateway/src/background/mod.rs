//! Calls that go on after their caller was told "still running": found, waited for, cancelled.
//!
//! What is kept of one is in the store, so that any process can answer for it; how far it is, and
//! the way to end it, only its own process knows. Who may see one is decided by [`Whose`]: for
//! everybody else it does not exist.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::call::Call;
use crate::gateway::{Error, Gateway};
use crate::recovery;
use crate::session::Session;

mod follow;

mod reports;

mod results;

pub(crate) use follow::{Begun, Stays};
pub use reports::LastProgress;
pub(crate) use reports::Reports;
pub(crate) use results::{interrupted, lost, said};

/// How long the result of a call is kept after the call could have ended.
const KEPT: Duration = Duration::from_secs(24 * 3600);

/// Calls of one session that may run in the background at once.
const MOST_RUNNING: u32 = 100;

/// Calls of one session that are kept.
const MOST_KEPT: u32 = 1_000;

/// How often a process looks at what another one carries out.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// A call in the background.
#[derive(Clone, Debug, Serialize)]
pub struct BackgroundCall {
    /// Names it.
    pub id: String,
    /// In which session.
    pub session: String,
    /// Who.
    pub principal: String,
    /// Under which profile.
    pub profile: String,
    /// Which tool.
    pub tool: String,
    /// With what, cut.
    pub arguments: Arc<RawValue>,
    /// Hash of the whole of the arguments.
    pub digest: String,
    /// What it does, in the caller's words; may be empty.
    pub description: String,
    /// How it is.
    pub state: BackgroundState,
    /// When it was called, in milliseconds since 1970.
    pub started_ms: i64,
    /// When its work was over.
    pub ended_ms: Option<i64>,
    /// When it may be forgotten.
    pub expires_ms: i64,
    /// What it said last; only known in the process that carries it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<LastProgress>,
    /// The result object as the tool gave it; never in a list. Of a call that failed without a
    /// result it says why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Arc<RawValue>>,
}

impl BackgroundCall {
    /// Whether its work is over.
    pub fn is_over(&self) -> bool {
        self.ended_ms.is_some()
    }
}

/// How a call in the background is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BackgroundState {
    /// It runs.
    Running,
    /// The tool answered.
    Finished,
    /// The tool answered with an error, or gave no answer.
    Failed,
    /// Somebody ended it.
    Cancelled,
    /// Its process ended first.
    Interrupted,
}

impl BackgroundState {
    /// In one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
        }
    }
}

impl From<store::BackgroundState> for BackgroundState {
    fn from(state: store::BackgroundState) -> Self {
        match state {
            store::BackgroundState::Running => Self::Running,
            store::BackgroundState::Finished => Self::Finished,
            store::BackgroundState::Failed => Self::Failed,
            store::BackgroundState::Cancelled => Self::Cancelled,
            store::BackgroundState::Interrupted => Self::Interrupted,
        }
    }
}

/// Whose calls somebody may see.
#[derive(Clone, Copy, Debug)]
pub enum Whose<'a> {
    /// Those of one session.
    Session(&'a Session),
    /// Those of one principal, in all sessions.
    Principal(&'a str),
    /// All.
    Everybody,
}

impl Whose<'_> {
    fn has(self, row: &store::BackgroundRow) -> bool {
        match self {
            Self::Session(session) => {
                row.session == session.id && row.principal == session.principal
            }
            Self::Principal(principal) => row.principal == principal,
            Self::Everybody => true,
        }
    }

    fn filter(self) -> store::BackgroundFilter {
        let mut filter = store::BackgroundFilter::default();
        match self {
            Self::Session(session) => {
                filter.session = Some(session.id.clone());
                filter.principal = Some(session.principal.clone());
            }
            Self::Principal(principal) => filter.principal = Some(principal.to_owned()),
            Self::Everybody => {}
        }
        filter
    }
}

/// The calls that this process carries out in the background.
#[derive(Debug)]
pub(crate) struct Background {
    /// After which time a call goes there; `None`: never.
    pub(crate) after: Option<Duration>,
    live: Mutex<HashMap<String, Live>>,
    changes: watch::Sender<u64>,
}

#[derive(Clone, Debug)]
struct Live {
    cancel: CancellationToken,
    reports: Option<Arc<Reports>>,
    /// Cancelled when its end is in the store.
    over: CancellationToken,
}

impl Background {
    pub(crate) fn new(after: Option<Duration>) -> Self {
        Self { after, live: Mutex::default(), changes: watch::Sender::new(0) }
    }

    fn live(&self) -> MutexGuard<'_, HashMap<String, Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, id: &str) -> Option<Live> {
        self.live().get(id).cloned()
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn show(&self, row: store::BackgroundRow) -> BackgroundCall {
        let progress = self.find(&row.id).and_then(|live| live.reports?.last());
        let raw = |text: String| RawValue::from_string(text).ok().map(Arc::from);
        BackgroundCall {
            arguments: raw(row.arguments).unwrap_or_else(|| Arc::from(Box::<RawValue>::default())),
            id: row.id,
            session: row.session,
            principal: row.principal,
            profile: row.profile,
            tool: row.tool,
            digest: row.digest,
            description: row.description,
            state: row.state.into(),
            started_ms: row.started_ms,
            ended_ms: (row.ended_ms > 0).then_some(row.ended_ms),
            expires_ms: row.expires_ms,
            progress,
            result: raw(row.result),
        }
    }
}

impl Gateway {
    /// After which time a call of a model or a chat goes on in the background; `None`: never, and
    /// then there are no background calls at all.
    pub fn background_after(&self) -> Option<Duration> {
        self.background.after
    }

    /// Told whenever a call of this process begins to be in the background, or ends there.
    pub fn background_changes(&self) -> watch::Receiver<u64> {
        self.background.changes.subscribe()
    }

    /// Calls in the background, newest first, without results; `before` is the id of the last one
    /// of the page before.
    pub async fn background_calls(
        &self,
        whose: Whose<'_>,
        before: Option<&str>,
        limit: u32,
    ) -> Result<Vec<BackgroundCall>, Error> {
        let filter =
            store::BackgroundFilter { before: before.map(str::to_owned), limit, ..whose.filter() };
        let mut rows = self.store.background_calls(&filter).await?;
        if rows.iter().any(|row| self.may_be_orphaned(row)) {
            self.settle_neighbours().await?;
            rows = self.store.background_calls(&filter).await?;
        }
        Ok(rows.into_iter().map(|row| self.background.show(row)).collect())
    }

    /// A call in the background with its result, if there is one yet.
    pub async fn background_call(
        &self,
        whose: Whose<'_>,
        id: &str,
    ) -> Result<Option<BackgroundCall>, Error> {
        // No other id was given out, and not every database takes every text.
        if uuid::Uuid::parse_str(id).is_err() {
            return Ok(None);
        }
        let mut row = self.store.background_call(id).await?.filter(|row| whose.has(row));
        if row.as_ref().is_some_and(|row| self.may_be_orphaned(row)) {
            self.settle_neighbours().await?;
            row = self.store.background_call(id).await?;
        }
        Ok(row.map(|row| self.background.show(row)))
    }

    /// The same when its work is over, or after `limit`.
    pub async fn wait_for_background(
        &self,
        whose: Whose<'_>,
        id: &str,
        limit: Duration,
    ) -> Result<Option<BackgroundCall>, Error> {
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            // Found before the row is read, so that an end in between is not missed.
            let live = self.background.find(id);
            let Some(call) = self.background_call(whose, id).await? else { return Ok(None) };
            let left = deadline.saturating_duration_since(tokio::time::Instant::now());
            if call.is_over() || left.is_zero() {
                return Ok(Some(call));
            }
            match live {
                Some(live) => {
                    let _ = tokio::time::timeout(left, live.over.cancelled()).await;
                }
                None => tokio::time::sleep(left.min(LOOK_AGAIN)).await,
            }
        }
    }

    /// The same for a call that wants to hear how far it is.
    pub(crate) async fn watch_background(
        &self,
        whose: Whose<'_>,
        id: &str,
        limit: Duration,
        listening: &Call,
    ) -> Result<Option<BackgroundCall>, Error> {
        let told = async {
            let reports = self.background.find(id).and_then(|live| live.reports);
            let (Some(reports), Some(to)) = (reports, &listening.progress) else {
                return std::future::pending().await;
            };
            // Not before it is known that the caller may see it.
            if !matches!(self.background_call(whose, id).await, Ok(Some(_))) {
                return std::future::pending().await;
            }
            let mut reported = reports.follow();
            while reported.changed().await.is_ok() {
                let last = reported.borrow_and_update().clone();
                if let Some((progress, _)) = last {
                    to.report(progress);
                }
            }
            std::future::pending().await
        };
        tokio::select! {
            found = self.wait_for_background(whose, id, limit) => found,
            () = told => Ok(None),
        }
    }

    /// Ends a call in the background, and waits up to `limit` for what it has to say then. Whether
    /// it was running until now, and how it is.
    pub async fn cancel_background(
        &self,
        whose: Whose<'_>,
        id: &str,
        limit: Duration,
    ) -> Result<Option<(bool, BackgroundCall)>, Error> {
        if self.background_call(whose, id).await?.is_none() {
            return Ok(None);
        }
        let was_running = self.store.cancel_background(id).await?;
        if let Some(live) = self.background.find(id) {
            live.cancel.cancel();
        }
        if was_running {
            self.background.changed();
        }
        let call = self.wait_for_background(whose, id, limit).await?;
        Ok(call.map(|call| (was_running, call)))
    }

    /// Whether somebody else should be carrying it out, who may be gone.
    fn may_be_orphaned(&self, row: &store::BackgroundRow) -> bool {
        row.ended_ms == 0 && row.owner != self.owner.row.id
    }

    async fn settle_neighbours(&self) -> Result<(), Error> {
        recovery::run(&self.store, &self.data_dir, &self.owner).await
    }
}

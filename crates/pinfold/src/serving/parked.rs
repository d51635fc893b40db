//! Calls whose server waits for a person's answer, until the client comes back with it.
//!
//! The call was granted and sent, so it is kept rather than made again. It is bound to the session
//! that made it; the client's state, which names it, to the very call.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp::server::{Caller, Question, Reply, Shape};
use mcp::{Asked, Asks, Progress};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::show::Shown;

/// Begins the state of a question that a server asks. No approval's id does.
const PREFIX: &str = "server ";

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Most of them at once, in one offer.
const MOST: usize = 200;

/// Most questions of one call that may wait to be shown.
const QUEUED: usize = 8;

/// Longest message of a server's that is shown, in characters, and most of its lines.
const LONGEST: usize = 4_000;
const LINES: usize = 60;

/// Something that runs and may ask, or report.
pub(super) struct Underway<T> {
    running: Pin<Box<dyn Future<Output = T> + Send>>,
    asked: mpsc::Receiver<Asked>,
    reported: mpsc::UnboundedReceiver<Progress>,
    cancel: CancellationToken,
    /// Who asks: for the question.
    server: String,
}

/// How far it came.
pub(super) enum Step<T> {
    Ended(T),
    Asked(Asked),
}

/// The ends that what is to run is given.
pub(super) struct Ends {
    pub(super) asks: Option<Asks>,
    pub(super) progress: mpsc::UnboundedSender<Progress>,
    pub(super) cancel: CancellationToken,
}

impl<T: Send + 'static> Underway<T> {
    /// Of something that `begin` begins, for a client that can, or cannot, ask.
    pub(super) fn new<F>(
        caller: &Caller,
        session: &str,
        server: String,
        begin: impl FnOnce(Ends) -> F,
    ) -> Self
    where
        F: Future<Output = T> + Send + 'static,
    {
        let (to, asked) = mpsc::channel(QUEUED);
        let (progress, reported) = mpsc::unbounded_channel();
        let cancel = CancellationToken::new();
        let asks = (caller.asks || caller.opens).then(|| Asks {
            group: session.into(),
            forms: caller.asks,
            urls: caller.opens,
            to,
        });
        let running = Box::pin(begin(Ends { asks, progress, cancel: cancel.clone() }));
        Self { running, asked, reported, cancel, server }
    }

    /// Goes on until it ends or asks. `cancel` ends it.
    pub(super) async fn go_on(
        &mut self,
        progress: Option<&mpsc::UnboundedSender<Progress>>,
        cancel: &CancellationToken,
    ) -> Step<T> {
        let pass = |report| {
            if let Some(to) = progress {
                // Nobody listening any more is the listener's choice.
                let _ = to.send(report);
            }
        };
        let ended = loop {
            tokio::select! {
                biased;
                Some(report) = self.reported.recv() => pass(report),
                ended = &mut self.running => break ended,
                Some(asked) = self.asked.recv() => return Step::Asked(asked),
                () = cancel.cancelled(), if !self.cancel.is_cancelled() => self.cancel.cancel(),
            }
        };
        // What was reported last counts most.
        while let Ok(report) = self.reported.try_recv() {
            pass(report);
        }
        Step::Ended(ended)
    }
}

/// One that waits.
struct Waiting<T> {
    underway: Underway<T>,
    asked: Asked,
    session: String,
}

/// All that wait, by the state of their question.
pub(super) struct Parked<T>(Arc<Mutex<HashMap<String, Waiting<T>>>>);

impl<T> std::fmt::Debug for Parked<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parked").finish_non_exhaustive()
    }
}

impl<T> Default for Parked<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Send + 'static> Parked<T> {
    /// Keeps it until it is taken, for as long as the question lasts. Gives it back where there is
    /// no room.
    pub(super) fn park(
        &self,
        underway: Underway<T>,
        asked: Asked,
        session: &str,
        lasts: Duration,
    ) -> Result<Question, Underway<T>> {
        let question = question(&underway.server, &asked, lasts);
        let mut all = lock(&self.0);
        if all.len() >= MOST {
            return Err(underway);
        }
        let state = question.state.clone();
        all.insert(state.clone(), Waiting { underway, asked, session: session.to_owned() });
        drop(all);
        let all = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            tokio::time::sleep(lasts).await;
            if let Some(all) = all.upgrade() {
                // What runs is cancelled by being dropped, outside of the lock.
                let late = lock(&all).remove(&state);
                drop(late);
            }
        });
        Ok(question)
    }

    /// The one with this state, if it is this session's, with its question answered.
    pub(super) fn take(&self, state: &str, session: &str, reply: Reply) -> Option<Underway<T>> {
        let mut all = lock(&self.0);
        if all.get(state)?.session != session {
            return None;
        }
        let Waiting { underway, asked, .. } = all.remove(state)?;
        drop(all);
        asked.answer(match reply {
            Reply::Accept(content) => mcp::Given::Accept(content),
            Reply::Decline => mcp::Given::Decline,
            Reply::Cancel => mcp::Given::Cancel,
        });
        Some(underway)
    }

    /// Resolves when the server of this one no longer wants to know.
    pub(super) async fn withdrawn(&self, state: &str) {
        let withdrawn = lock(&self.0).get(state).map(|waiting| waiting.asked.withdrawn.clone());
        match withdrawn {
            Some(withdrawn) => withdrawn.cancelled().await,
            None => std::future::pending().await,
        }
    }
}

/// Whether a question was a server's own.
pub(super) fn is_servers(state: &str) -> bool {
    state.starts_with(PREFIX)
}

/// The server's question, with its name in front: it must not look like one of ours.
fn question(server: &str, asked: &Asked, lasts: Duration) -> Question {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        #[serde(borrow, default)]
        message: Option<&'a RawValue>,
        #[serde(borrow, default)]
        requested_schema: Option<&'a RawValue>,
        #[serde(borrow, default)]
        url: Option<&'a RawValue>,
        #[serde(borrow, default)]
        elicitation_id: Option<&'a RawValue>,
    }
    let params: Params<'_> = mcp::message::fields(Some(&asked.params));
    let text = mcp::message::text(params.message).unwrap_or_default();
    let mut lines: Vec<String> = text
        .chars()
        .take(LONGEST)
        .collect::<String>()
        .lines()
        .take(LINES)
        .map(|line| format!("│ {}", Shown::whole(line)))
        .collect();
    if text.chars().count() > LONGEST || text.lines().count() > LINES {
        lines.push("│ … (shortened)".to_owned());
    }
    let message = format!(
        "The server {server:?} asks you this itself. It is not a question of pinfold's, and what \
         you answer goes to that server.\n{}",
        lines.join("\n")
    );
    let shape = match mcp::message::text(params.url) {
        Some(url) => {
            Shape::Link { url, id: mcp::message::text(params.elicitation_id).unwrap_or_default() }
        }
        None => Shape::Form(params.requested_schema.map_or_else(
            || mcp::message::raw(r#"{"type":"object","properties":{}}"#),
            ToOwned::to_owned,
        )),
    };
    // A state of an earlier process names none of these.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let state = format!("{PREFIX}{} {number}", jiff::Timestamp::now().as_nanosecond());
    Question { message, shape, state, lasts }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

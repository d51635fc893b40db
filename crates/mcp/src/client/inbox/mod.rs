//! What arrives is given to whoever waits for it. Knows messages, not transports.
//!
//! The first answer to a request counts; later ones, answers to nothing and forged ids are dropped.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::{Asks, Progress};
use crate::error::Error;
use crate::journal::{Budget, Journal};
use crate::message::{self, Failure, Incoming, code, shorten};

/// An id is sent back as it came, so it has a bound, in bytes.
const LONGEST_ID: usize = 256;

/// Longest part of an unreadable line that an error text shows, in bytes.
const LONGEST_SHOWN: usize = 200;

/// Nothing may be asked of us that needs a capability which we did not declare.
const NOT_DECLARED: &str = "this client did not declare that capability";

/// Where answers go.
pub(crate) struct Inbox {
    waiting: Mutex<HashMap<i64, Waiting>>,
    next: AtomicI64,
    modern: AtomicBool,
    changed: Notify,
    /// What did.
    changes: Mutex<Changes>,
    /// So many streams of changes the server has accepted.
    accepted: watch::Sender<u64>,
    /// How often it was said.
    announced: AtomicU64,
    ended: watch::Sender<Option<String>>,
    journal: Journal,
    /// What the server asks and has no answer yet.
    questions: Questions,
}

/// A request that has no answer yet.
struct Waiting {
    answer: oneshot::Sender<Result<Box<RawValue>, Error>>,
    activity: Arc<Notify>,
    progress: Option<Meter>,
    /// Whether the server may ask during it, and who answers.
    asking: Option<Option<Asks>>,
    /// What it asked and nobody could answer.
    refused: Arc<Mutex<Option<String>>>,
    unreadable: Unreadable,
}

/// What arrived while a request waited and could not be read. One of it may be its answer.
#[derive(Default)]
struct Unreadable {
    count: u64,
    first: Option<Arc<str>>,
}

/// Passes progress on: only what rises, at a bounded rate.
struct Meter {
    to: mpsc::UnboundedSender<Progress>,
    last: f64,
    budget: Budget,
    /// The last one that came too soon; what comes last counts most.
    left: Option<Progress>,
}

/// What a requester holds.
pub(crate) struct Ticket {
    pub(crate) id: i64,
    pub(crate) answer: oneshot::Receiver<Result<Box<RawValue>, Error>>,
    pub(crate) activity: Arc<Notify>,
    refused: Arc<Mutex<Option<String>>>,
}

impl Ticket {
    /// What the server asked and nobody could answer.
    pub(crate) fn refused(&self) -> Option<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Inbox {
    pub(crate) fn new(journal: Journal) -> Self {
        Self {
            waiting: Mutex::default(),
            next: AtomicI64::new(1),
            modern: AtomicBool::new(false),
            changed: Notify::new(),
            changes: Mutex::default(),
            accepted: watch::Sender::new(0),
            announced: AtomicU64::new(0),
            ended: watch::Sender::new(None),
            journal,
            questions: Questions::default(),
        }
    }

    /// From now on the 2026-07-28 rules hold: servers do not send requests.
    pub(crate) fn set_modern(&self) {
        self.modern.store(true, Ordering::Relaxed);
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Makes room for an answer.
    pub(crate) fn expect(
        &self,
        progress: Option<mpsc::UnboundedSender<Progress>>,
        asking: Option<Option<Asks>>,
    ) -> Result<Ticket, Error> {
        let (answer, receiver) = oneshot::channel();
        let activity = Arc::new(Notify::new());
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let meter = progress.map(|to| Meter {
            to,
            last: f64::NEG_INFINITY,
            budget: Budget::default(),
            left: None,
        });
        let refused = Arc::default();
        let unreadable = Unreadable::default();
        let waiting = Waiting {
            answer,
            activity: Arc::clone(&activity),
            progress: meter,
            asking,
            refused: Arc::clone(&refused),
            unreadable,
        };
        let mut all = self.waiting();
        // Looked at under the lock: `end` takes it after setting the reason, so none is forgotten.
        if let Some(reason) = self.ended.borrow().clone() {
            return Err(Error::Connect(reason));
        }
        all.insert(id, waiting);
        Ok(Ticket { id, answer: receiver, activity, refused })
    }

    /// Whether the request still waits.
    pub(crate) fn is_waiting(&self, id: i64) -> bool {
        self.waiting().contains_key(&id)
    }

    /// Forgets a request, so that a late answer is dropped. Whether it still waited.
    pub(crate) fn forget(&self, id: i64) -> bool {
        self.waiting().remove(&id).is_some()
    }

    /// Ends one request with an error of the transport's.
    pub(crate) fn fail(&self, id: i64, error: Error) {
        if let Some(waiting) = self.waiting().remove(&id) {
            let _ = waiting.answer.send(Err(error));
        }
    }

    /// Takes what arrived and gives back what is to be answered. `about` is the request in whose
    /// own stream it came, where there is such a thing.
    pub(crate) fn receive(&self, arrived: &str, about: Option<i64>) -> Vec<String> {
        // Before anything else sees it.
        let mended = message::mended(arrived);
        let arrived = self.journal.hide_in_message(&mended);
        let Ok(messages) = message::parse(&arrived) else {
            self.refuse(&arrived);
            return Vec::new();
        };
        messages.into_iter().filter_map(|message| self.take(message, about)).collect()
    }

    /// Ends the requests that an unreadable text seems to answer; else it is noise.
    fn refuse(&self, text: &str) {
        let mut answered = message::answered(text);
        answered.retain(|id| self.is_waiting(*id));
        if answered.is_empty() {
            return self.note_unreadable(text);
        }
        let why = self.fault(text);
        self.journal.line("noise", &why);
        for id in answered {
            self.fail(id, Error::Protocol(why.clone()));
        }
        // It may have been the answer to another one as well, where two ran into each other.
        self.remember_unreadable(text);
    }

    /// What is wrong with an answer, in words.
    pub(crate) fn fault(&self, text: &str) -> String {
        format!(
            "its answer {}",
            message::fault(&self.journal.hide(&self.journal.hide_in_message(text)))
        )
    }

    /// Logs what could not be read, and remembers it for those that wait.
    pub(crate) fn note_unreadable(&self, text: &str) {
        self.journal.line("noise", text);
        self.remember_unreadable(text);
    }

    fn remember_unreadable(&self, text: &str) {
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        let text = self.journal.hide(&text[..text.floor_char_boundary(10 * LONGEST_SHOWN)]);
        let shown: Arc<str> = shorten(&text, LONGEST_SHOWN).into();
        for waiting in self.waiting().values_mut() {
            waiting.unreadable.count += 1;
            waiting.unreadable.first.get_or_insert_with(|| Arc::clone(&shown));
        }
    }

    /// What arrived for nobody since a request was made, in words.
    pub(crate) fn unreadable(&self, id: i64) -> Option<String> {
        let all = self.waiting();
        let Unreadable { count, first } = &all.get(&id)?.unreadable;
        let first = first.as_ref()?;
        let lines = if *count == 1 { "line" } else { "lines" };
        Some(format!("{count} {lines} arrived that could not be read, the first: {first}"))
    }

    fn take(&self, message: Incoming<'_>, about: Option<i64>) -> Option<String> {
        match message {
            Incoming::Response { id, outcome } => {
                // An error without an id, in a request's own stream, is about that request.
                let id = id.or(about.filter(|_| outcome.is_err()));
                let waiting = id.and_then(|id| self.waiting().remove(&id));
                match waiting {
                    Some(mut waiting) => {
                        if let Some(meter) = &mut waiting.progress {
                            meter.finish();
                        }
                        let outcome = outcome.map(ToOwned::to_owned);
                        let outcome = outcome.map_err(|failure| self.failure(failure));
                        let _ = waiting.answer.send(outcome);
                    }
                    None => match outcome {
                        // It could not read what we sent: somebody should know.
                        Err(failure) if id.is_none() => {
                            self.journal.line("noise", &failure.message)
                        }
                        _ => tracing::debug!(?id, "an answer that nobody waits for"),
                    },
                }
                None
            }
            Incoming::Request { id, method, params } => {
                if self.modern.load(Ordering::Relaxed) {
                    self.journal.line("noise", &format!("a request from the server: {method}"));
                    return None;
                }
                if id.get().len() > LONGEST_ID {
                    return None;
                }
                if method == "ping" {
                    return Some(message::reply(id, "{}"));
                }
                if method == "elicitation/create" {
                    return self.asked(id, params, about);
                }
                let why = match method.as_ref() {
                    "roots/list" | "sampling/createMessage" => NOT_DECLARED,
                    _ => "this client does not know that method",
                };
                Some(message::refusal(id, code::METHOD_NOT_FOUND, why))
            }
            Incoming::Notification { method, params } => {
                self.notice(&method, params);
                None
            }
        }
    }

    /// The error object as ours, without configured secrets in its words.
    fn failure(&self, failure: Failure) -> Error {
        Error::Rpc {
            code: failure.code,
            message: self.journal.hide(&failure.message),
            data: failure.data,
        }
    }

    /// Told of each stream of changes that the server accepts.
    pub(crate) fn accepted(&self) -> watch::Receiver<u64> {
        self.accepted.subscribe()
    }

    /// How often the server has said that its tools changed. What it said before an answer is
    /// counted when the answer is there.
    pub(crate) fn announced(&self) -> u64 {
        self.announced.load(Ordering::Acquire)
    }

    /// The connection is over: new requests fail with this reason (the first one given counts).
    /// With `abandon`, so do those that wait.
    pub(crate) fn end(&self, reason: &str, abandon: bool) {
        let reason = self.journal.hide(reason);
        self.ended.send_if_modified(|ended| {
            let first = ended.is_none();
            if first {
                *ended = Some(reason.clone());
            }
            first
        });
        if abandon {
            let all = std::mem::take(&mut *self.waiting());
            for waiting in all.into_values() {
                let _ = waiting.answer.send(Err(Error::Lost(reason.clone())));
            }
        }
    }

    /// Resolves when the connection is over, with the reason.
    pub(crate) async fn ended(&self) -> String {
        let mut ended = self.ended.subscribe();
        match ended.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            Err(_) => String::new(),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<i64, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Meter {
    fn pass(&mut self, progress: Progress) {
        let rises = progress.progress > self.last;
        if !rises {
            return;
        }
        self.last = progress.progress;
        if self.budget.take() {
            self.left = None;
            let _ = self.to.send(progress);
        } else {
            self.left = Some(progress);
        }
    }

    /// The request is answered: nothing comes any more.
    fn finish(&mut self) {
        if let Some(progress) = self.left.take() {
            let _ = self.to.send(progress);
        }
    }
}

mod notices;

mod questions;

use notices::Changes;
use questions::Questions;

#[cfg(test)]
mod tests;

//! What an older server asks by a request of its own: for whom it is, and the answer to it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Inbox, Waiting};
use crate::client::asks::{Asks, Given, words};
use crate::message;

/// Most that one server asks at once.
const MOST: usize = 64;

/// What is asked and has no answer yet, and the answers that were given.
pub(crate) struct Questions {
    open: Arc<Mutex<HashMap<String, CancellationToken>>>,
    answers: mpsc::UnboundedSender<String>,
    given: Mutex<Option<mpsc::UnboundedReceiver<String>>>,
}

impl Default for Questions {
    fn default() -> Self {
        let (answers, given) = mpsc::unbounded_channel();
        Self { open: Arc::default(), answers, given: Mutex::new(Some(given)) }
    }
}

impl Inbox {
    /// The answers that are given to the server's questions, to be sent; once.
    pub(crate) fn answers(&self) -> Option<mpsc::UnboundedReceiver<String>> {
        self.questions.given.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// `elicitation/create`, in the stream of request `about` if there is such a thing. What is to
    /// be answered at once, if anything is.
    pub(super) fn asked(
        &self,
        id: &RawValue,
        params: Option<&RawValue>,
        about: Option<i64>,
    ) -> Option<String> {
        let withdrawn = CancellationToken::new();
        let answered = {
            let mut waiting = self.waiting();
            let answered = self.room(id).then(|| meant(&waiting, about)).flatten();
            let answered = answered.and_then(|asks| asks.ask(params, withdrawn.clone()));
            if answered.is_none() {
                let words = self.journal.hide(&words("elicitation/create", params));
                note(&mut waiting, about, &words);
            }
            answered
        };
        let (Some(answered), Ok(runtime)) = (answered, tokio::runtime::Handle::try_current())
        else {
            return Some(message::reply(id, &Given::Cancel.result()));
        };
        let key = id.get().to_owned();
        lock(&self.questions.open).insert(key.clone(), withdrawn.clone());
        let (open, answers) = (Arc::clone(&self.questions.open), self.questions.answers.clone());
        let id = id.to_owned();
        runtime.spawn(async move {
            let given = tokio::select! {
                given = answered => Some(given.unwrap_or(Given::Cancel)),
                () = withdrawn.cancelled() => None,
            };
            lock(&open).remove(&key);
            if let Some(given) = given {
                // A connection that is gone wants no answer.
                let _ = answers.send(message::reply(&id, &given.result()));
            }
        });
        None
    }

    /// The server no longer wants to know.
    pub(super) fn withdraw(&self, id: &str) {
        if let Some(withdrawn) = lock(&self.questions.open).remove(id) {
            withdrawn.cancel();
        }
    }

    fn room(&self, id: &RawValue) -> bool {
        let open = lock(&self.questions.open);
        open.len() < MOST && !open.contains_key(id.get())
    }
}

/// Who is to be asked: the caller of the request in whose stream the question came; else the
/// caller of all that run, the one who called last, if they are one's own.
fn meant(waiting: &HashMap<i64, Waiting>, about: Option<i64>) -> Option<Asks> {
    let own = about.and_then(|id| waiting.get(&id)).and_then(|own| own.asking.as_ref());
    if let Some(own) = own {
        return own.clone();
    }
    let mut latest: Option<(i64, &Asks)> = None;
    for (id, asking) in waiting.iter().filter_map(|(id, one)| Some((*id, one.asking.as_ref()?))) {
        // One of them could not answer, and it may be that one's.
        let asks = asking.as_ref()?;
        match latest {
            // It could be somebody else's business.
            Some((_, other)) if other.group != asks.group => return None,
            Some((before, _)) if before > id => {}
            _ => latest = Some((id, asks)),
        }
    }
    latest.map(|(_, asks)| asks.clone())
}

/// Those who may have been meant are told that something was asked.
fn note(waiting: &mut HashMap<i64, Waiting>, about: Option<i64>, words: &str) {
    let own = about.filter(|id| waiting.get(id).is_some_and(|one| one.asking.is_some()));
    for (id, one) in waiting.iter_mut().filter(|(_, one)| one.asking.is_some()) {
        if own.is_none_or(|own| own == *id) {
            let mut refused = one.refused.lock().unwrap_or_else(PoisonError::into_inner);
            refused.get_or_insert_with(|| words.to_owned());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

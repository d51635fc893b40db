//! What a server says on its own, passed on at a bounded rate.
//!
//! A server may write without end; the receiver's queue has no bound, so the bound is here.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::mpsc;

use crate::censor::Censor;
use crate::message::shorten;

/// What a server says on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// `notifications/tools/list_changed`, in either era's form.
    ToolsChanged,
    /// The same of its prompts.
    PromptsChanged,
    /// The same of its resources.
    ResourcesChanged,
    /// `notifications/resources/updated`: the URI of a resource that changed.
    ResourceUpdated(String),
    /// A line for the log (stderr of a stdio server, noise on its stdout).
    Log(String),
}

/// Longest line that is passed on, in bytes.
const LONGEST_LINE: usize = 2_000;

/// So many of the last lines of stderr are kept for error texts, each so long.
const LAST_WORDS: usize = 5;
const LONGEST_WORDS: usize = 300;

/// So many may come at once, and then this many in a second.
const BURST: f64 = 200.0;
const PER_SECOND: f64 = 50.0;

/// A budget that refills with time.
#[derive(Debug)]
pub(crate) struct Budget {
    left: f64,
    at: Instant,
}

impl Default for Budget {
    fn default() -> Self {
        Self { left: BURST, at: Instant::now() }
    }
}

impl Budget {
    /// Takes one, if there is one.
    pub(crate) fn take(&mut self) -> bool {
        let now = Instant::now();
        self.left = (self.left + now.duration_since(self.at).as_secs_f64() * PER_SECOND).min(BURST);
        self.at = now;
        let granted = self.left >= 1.0;
        if granted {
            self.left -= 1.0;
        }
        granted
    }
}

/// Passes lines and changes on to whoever supervises.
#[derive(Debug)]
pub(crate) struct Journal {
    events: mpsc::UnboundedSender<Event>,
    censor: Censor,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    budget: Budget,
    left_out: u64,
    words: VecDeque<String>,
}

impl Journal {
    pub(crate) fn new(events: mpsc::UnboundedSender<Event>, censor: Censor) -> Self {
        Self { events, censor, state: Mutex::default() }
    }

    /// Logs a line of the server's, shortened, without secrets, or counts it as left out.
    pub(crate) fn line(&self, source: &str, text: &str) {
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        let left_out = {
            let mut state = self.state();
            if !state.budget.take() {
                state.left_out += 1;
                return;
            }
            std::mem::take(&mut state.left_out)
        };
        if left_out > 0 {
            self.send(Event::Log(format!("{left_out} lines were left out")));
        }
        // Hidden first: what is cut off must not be the end of a secret.
        let text = self.hide(&text[..text.floor_char_boundary(2 * LONGEST_LINE)]);
        self.send(Event::Log(format!("{source}: {}", shorten(&text, LONGEST_LINE))));
    }

    /// Logs a line of stderr, and keeps it for error texts.
    pub(crate) fn words(&self, text: &str) {
        self.line("stderr", text);
        let text = shorten(self.hide(text).trim(), LONGEST_WORDS);
        if text.is_empty() {
            return;
        }
        let mut state = self.state();
        if state.words.len() == LAST_WORDS {
            state.words.pop_front();
        }
        state.words.push_back(text);
    }

    /// The reason, with what the server said last, if it said anything.
    pub(crate) fn with_last_words(&self, reason: &str) -> String {
        let words = self.state().words.make_contiguous().join(" / ");
        if words.is_empty() {
            return reason.to_owned();
        }
        format!("{reason}; its last words: {words}")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that something changed.
    pub(crate) fn changed(&self, what: Event) {
        self.send(what);
    }

    /// The text without the configured secrets.
    pub(crate) fn hide(&self, text: &str) -> String {
        self.censor.hide(text)
    }

    /// A message of the server's without the secrets that came from outside.
    pub(crate) fn hide_in_message<'a>(&self, message: &'a str) -> Cow<'a, str> {
        self.censor.hide_in_message(message)
    }

    fn send(&self, event: Event) {
        // Nobody listening is the listener's choice.
        let _ = self.events.send(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_lines_is_counted_not_queued() {
        let (events, mut received) = mpsc::unbounded_channel();
        let journal = Journal::new(events, Censor::default());
        for _ in 0..10_000 {
            journal.line("stderr", "again");
        }
        drop(journal);
        let mut lines = 0;
        while received.try_recv().is_ok() {
            lines += 1;
        }
        assert!((200..400).contains(&lines), "{lines}");
    }
}

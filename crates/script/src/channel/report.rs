//! Tells the host how far a script is, not more often than is of use to anyone.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

use super::message::ProgressReport;
use crate::host::{Host, Progress};

/// A script can report a million times a second.
const PAUSE: Duration = Duration::from_millis(100);
const MESSAGE_CHARS: usize = 500;

/// The state that was last reported, and whether it has changed since.
pub(super) struct Report {
    host: Arc<dyn Host>,
    progress: Progress,
    changed: bool,
    ticks: Interval,
}

impl Report {
    pub(super) fn new(host: Arc<dyn Host>) -> Self {
        let mut ticks = interval(PAUSE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { host, progress: Progress::default(), changed: false, ticks }
    }

    /// Takes over what the script said.
    pub(super) fn script_said(&mut self, said: ProgressReport) {
        self.progress.done = said.done;
        self.progress.total = said.total;
        self.progress.message = said.message.map(|message| {
            // It is shown on terminals, where control characters do things.
            let shown = |letter: char| if letter.is_control() { ' ' } else { letter };
            message.chars().take(MESSAGE_CHARS).map(shown).collect()
        });
        self.changed = true;
    }

    /// Takes over how many calls have ended.
    pub(super) fn calls_ended(&mut self, calls: u64, failed: u64) {
        if (self.progress.calls, self.progress.failed) != (calls, failed) {
            (self.progress.calls, self.progress.failed) = (calls, failed);
            self.changed = true;
        }
    }

    /// Whether there is something to tell.
    pub(super) fn is_due(&self) -> bool {
        self.changed
    }

    /// Waits until it may be told. Cancel-safe.
    pub(super) async fn pause(&mut self) {
        self.ticks.tick().await;
    }

    /// Tells it, if there is anything.
    pub(super) fn tell(&mut self) {
        if std::mem::take(&mut self.changed) {
            self.host.progress(self.progress.clone());
        }
    }
}

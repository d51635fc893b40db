//! What a call says about itself while it runs: passed on to whoever waits, and remembered.

use std::fmt::Write as _;

use serde::Serialize;
use tokio::sync::{mpsc, watch};

use crate::gateway::now_ms;
use crate::json;
use crate::request::Progress;

/// Longest message that is remembered, in characters.
const LONGEST_MESSAGE: usize = 500;

/// Where a call's reports go.
#[derive(Debug)]
pub(crate) struct Reports {
    to: Option<mpsc::UnboundedSender<Progress>>,
    last: watch::Sender<Option<(Progress, i64)>>,
}

impl Reports {
    pub(crate) fn new(to: Option<mpsc::UnboundedSender<Progress>>) -> Self {
        Self { to, last: watch::Sender::new(None) }
    }

    pub(crate) fn report(&self, progress: Progress) {
        if let Some(to) = &self.to {
            // Nobody has to listen.
            let _ = to.send(progress.clone());
        }
        self.last.send_replace(Some((progress, now_ms())));
    }

    /// Every later report.
    pub(super) fn follow(&self) -> watch::Receiver<Option<(Progress, i64)>> {
        self.last.subscribe()
    }

    pub(super) fn last(&self) -> Option<LastProgress> {
        self.last.borrow().as_ref().map(|(progress, at_ms)| LastProgress::of(progress, *at_ms))
    }
}

/// What a call said last.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LastProgress {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// Of a script: calls that reached a tool and ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Of them, failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<u64>,
    /// How much is done, in units of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done: Option<f64>,
    /// Of how much.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// In its own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl LastProgress {
    fn of(progress: &Progress, at_ms: i64) -> Self {
        let shorten = |message: &Option<String>| {
            message.as_deref().map(|message| json::one_line(message, LONGEST_MESSAGE))
        };
        match progress {
            Progress::Script(script) => Self {
                at_ms,
                calls: Some(script.calls),
                failed: Some(script.failed),
                done: script.done,
                total: script.total,
                message: shorten(&script.message),
            },
            Progress::Tool(tool) => Self {
                at_ms,
                calls: None,
                failed: None,
                done: Some(tool.progress),
                total: tool.total,
                message: shorten(&tool.message),
            },
        }
    }

    /// In one line.
    pub fn line(&self) -> String {
        let mut parts = Vec::new();
        if let (Some(calls), Some(failed)) = (self.calls, self.failed) {
            let plural = if calls == 1 { "call" } else { "calls" };
            parts.push(format!("{calls} {plural}, {failed} failed"));
        }
        if let Some(done) = self.done {
            let mut part = format!("{done}");
            if let Some(total) = self.total {
                let _ = write!(part, " of {total}");
            }
            parts.push(part);
        }
        parts.extend(self.message.clone());
        parts.join(" · ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_last_is_remembered_in_one_line() {
        let (to, mut received) = mpsc::unbounded_channel();
        let reports = Reports::new(Some(to));
        assert_eq!(reports.last(), None);
        let report = |message: &str| {
            Progress::Tool(mcp::Progress {
                progress: 3.0,
                total: Some(7.5),
                message: Some(message.to_owned()),
            })
        };
        reports.report(report("first"));
        reports.report(report("two\nlines\u{1b}[2J"));
        let last = reports.last().unwrap();
        assert!(last.line().starts_with("3 of 7.5 · two"), "{}", last.line());
        assert!(!last.line().contains(['\n', '\u{1b}']), "{}", last.line());
        assert_eq!(received.try_recv().unwrap(), report("first"));
        drop(received);
        reports.report(report("nobody listens"));
        assert!(reports.last().unwrap().line().ends_with("nobody listens"));
    }
}

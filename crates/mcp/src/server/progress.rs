//! Progress for a client that asked for it: what the tool reports, and signs of life in between.
//!
//! Clients give up on a call that is silent for minutes, and take only numbers that rise.

use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::connection::Outlet;
use crate::client::Progress;
use crate::message::{notification, object, quote};

/// Longest silence.
const LONGEST_SILENCE: Duration = Duration::from_secs(4);

/// Reports that come faster are told by their last one.
const APART: Duration = Duration::from_millis(200);

/// What a number that did not rise is raised by.
const STEP: f64 = 0.001;

/// Tells the progress of one request.
pub(crate) struct Teller {
    outlet: Outlet,
    /// The client's token, as it came.
    token: Box<RawValue>,
    reports: mpsc::UnboundedReceiver<Progress>,
    latest: Option<Progress>,
    longest_silence: Duration,
    /// What was told last.
    told: f64,
    since: Instant,
    next: Instant,
}

impl Teller {
    pub(crate) fn new(
        outlet: Outlet,
        token: Box<RawValue>,
    ) -> (Self, mpsc::UnboundedSender<Progress>) {
        let (sender, reports) = mpsc::unbounded_channel();
        let now = Instant::now();
        let teller = Self {
            outlet,
            token,
            reports,
            latest: None,
            longest_silence: LONGEST_SILENCE,
            told: 0.0,
            since: now,
            next: now,
        };
        (teller, sender)
    }

    /// Tells for as long as it is polled; never resolves.
    pub(crate) async fn run(&mut self) {
        let mut silent_until = Instant::now() + self.longest_silence;
        let mut is_open = true;
        loop {
            tokio::select! {
                report = self.reports.recv(), if is_open => match report {
                    Some(report) => self.latest = Some(report),
                    None => is_open = false,
                },
                () = sleep_until(self.next), if self.latest.is_some() => {
                    self.flush();
                    silent_until = Instant::now() + self.longest_silence;
                }
                () = sleep_until(silent_until) => {
                    let seconds = self.since.elapsed().as_secs();
                    let message = format!("still running after {seconds} s");
                    self.tell(&Progress { progress: self.told, total: None, message: Some(message) });
                    silent_until = Instant::now() + self.longest_silence;
                }
            }
        }
    }

    /// Tells the last report, if it was not told yet.
    pub(crate) fn flush(&mut self) {
        while let Ok(report) = self.reports.try_recv() {
            self.latest = Some(report);
        }
        if let Some(report) = self.latest.take() {
            self.tell(&report);
            self.next = Instant::now() + APART;
        }
    }

    fn tell(&mut self, report: &Progress) {
        let rises = report.progress > self.told && report.progress.is_finite();
        let value =
            if rises { report.progress } else { (self.told + STEP).max(self.told.next_up()) };
        self.told = value;
        let value = value.to_string();
        let mut fields = vec![("progressToken", self.token.get()), ("progress", value.as_str())];
        // A total says something only together with the number it was reported with.
        let total = report.total.filter(|_| rises).map(|total| total.to_string());
        if let Some(total) = &total {
            fields.push(("total", total));
        }
        let message = report.message.as_deref().map(quote);
        if let Some(message) = &message {
            fields.push(("message", message));
        }
        // A client that does not read has no use for it.
        self.outlet.mention(notification("notifications/progress", &object(&fields)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told of these reports, and then of a silence of so many times the longest one.
    async fn told(reports: &[(f64, Option<f64>)], silence: u32) -> Vec<(f64, bool)> {
        let (lines, mut received) = mpsc::channel(100);
        let token = RawValue::from_string("\"t\"".to_owned()).unwrap();
        let (mut teller, sender) = Teller::new(Outlet::new(lines), token);
        teller.longest_silence = Duration::from_millis(600);
        for (progress, total) in reports {
            sender.send(Progress { progress: *progress, total: *total, message: None }).unwrap();
            let _ = tokio::time::timeout(Duration::from_millis(300), teller.run()).await;
        }
        let _ = tokio::time::timeout(teller.longest_silence * silence, teller.run()).await;
        drop(teller);
        let mut all = Vec::new();
        while let Some(line) = received.recv().await {
            let value: serde_json::Value = serde_json::from_str(&line).unwrap();
            let params = &value["params"];
            assert_eq!(params["progressToken"], "t");
            all.push((params["progress"].as_f64().unwrap(), params["total"].is_number()));
        }
        all
    }

    #[tokio::test]
    async fn numbers_rise_whatever_is_reported() {
        let reports = [(5.0, Some(10.0)), (5.0, Some(10.0)), (1.0, Some(10.0)), (6.0, Some(10.0))];
        let told = told(&reports, 0).await;
        assert_eq!(told.len(), 4);
        assert!(told.windows(2).all(|pair| pair[1].0 > pair[0].0), "{told:?}");
        assert_eq!(told.iter().map(|one| one.1).collect::<Vec<_>>(), [true, false, false, true]);
    }

    #[tokio::test]
    async fn silence_is_broken() {
        let told = told(&[], 4).await;
        assert!((2..=4).contains(&told.len()), "{told:?}");
    }
}

//! What a server tells without being asked: changes, progress, log lines.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Inbox;
use crate::client::Progress;
use crate::error::Error;
use crate::journal::Event;
use crate::message::{self, number, shorten, text};

/// So long after one change of the tool list no other is reported, so that a flood becomes one.
const CHANGES_APART: Duration = Duration::from_millis(100);

/// So many single resources are told apart between two reports.
const MOST_UPDATED: usize = 1_000;

/// Longest URI that is taken, in bytes.
const LONGEST_URI: usize = 4_096;

/// What changed since it was reported last.
#[derive(Default)]
pub(super) struct Changes {
    tools: bool,
    prompts: bool,
    resources: bool,
    /// Single resources; beyond a bound no more are told apart.
    updated: BTreeSet<String>,
}

impl Inbox {
    pub(super) fn notice(&self, method: &str, params: Option<&RawValue>) {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Fields<'a> {
            #[serde(borrow, default)]
            progress_token: Option<&'a RawValue>,
            #[serde(borrow, default)]
            progress: Option<&'a RawValue>,
            #[serde(borrow, default)]
            total: Option<&'a RawValue>,
            #[serde(borrow, default)]
            message: Option<&'a RawValue>,
            #[serde(borrow, default)]
            data: Option<&'a RawValue>,
            #[serde(borrow, default)]
            uri: Option<&'a RawValue>,
            #[serde(borrow, default)]
            request_id: Option<&'a RawValue>,
        }
        let fields: Fields<'_> = message::fields(params);
        let id = |raw: Option<&RawValue>| raw.and_then(|raw| raw.get().parse::<i64>().ok());
        match method {
            "notifications/tools/list_changed" => {
                self.announced.fetch_add(1, Ordering::Release);
                self.change(|changes| changes.tools = true);
            }
            "notifications/prompts/list_changed" => self.change(|changes| changes.prompts = true),
            "notifications/resources/list_changed" => {
                self.change(|changes| changes.resources = true);
            }
            "notifications/resources/updated" => {
                let Some(uri) = text(fields.uri).filter(|uri| uri.len() <= LONGEST_URI) else {
                    return;
                };
                self.change(|changes| {
                    if changes.updated.len() < MOST_UPDATED {
                        changes.updated.insert(uri);
                    }
                });
            }
            "notifications/subscriptions/acknowledged" => {
                self.accepted.send_modify(|count| *count += 1);
            }
            "notifications/progress" => {
                let Some(token) = id(fields.progress_token) else { return };
                let mut all = self.waiting();
                let Some(waiting) = all.get_mut(&token) else { return };
                let Some(meter) = &mut waiting.progress else { return };
                let Some(progress) = number(fields.progress) else { return };
                waiting.activity.notify_one();
                meter.pass(Progress {
                    progress,
                    total: number(fields.total),
                    message: text(fields.message).map(|message| shorten(&message, 1_000)),
                });
            }
            // Servers may cancel what they asked, and the stream of a listen request.
            "notifications/cancelled" => {
                if let Some(asked) = fields.request_id {
                    self.withdraw(asked.get());
                }
                if let Some(id) =
                    id(fields.request_id).filter(|_| self.modern.load(Ordering::Relaxed))
                {
                    self.fail(id, Error::Lost("the server ended it".to_owned()));
                }
            }
            "notifications/message" => {
                let data = fields.data.map_or("", |data| data.get());
                self.journal.line("log", data);
            }
            _ => tracing::debug!(method, "a notification that means nothing here"),
        }
    }

    /// Reports changes, each flood as one, for as long as it is polled.
    pub(crate) async fn report_changes(&self) {
        loop {
            self.changed.notified().await;
            let changes = std::mem::take(&mut *self.changes());
            if changes.tools {
                self.journal.changed(Event::ToolsChanged);
            }
            if changes.prompts {
                self.journal.changed(Event::PromptsChanged);
            }
            if changes.resources {
                self.journal.changed(Event::ResourcesChanged);
            }
            for uri in changes.updated {
                self.journal.changed(Event::ResourceUpdated(uri));
            }
            tokio::time::sleep(CHANGES_APART).await;
        }
    }

    fn change(&self, what: impl FnOnce(&mut Changes)) {
        what(&mut self.changes());
        self.changed.notify_one();
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that any list may have changed.
    pub(crate) fn suspect_change(&self) {
        self.change(|changes| {
            changes.tools = true;
            changes.prompts = true;
            changes.resources = true;
        });
    }
}

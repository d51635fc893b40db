//! A script that runs, as the gateway sees it, and the way its calls come in.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use script::{Kind, Reply, ToolError};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio_util::task::TaskTracker;

use super::Reach;
use crate::call::{Call, Caller, Ended};
use crate::catalog::Known;
use crate::gateway::Gateway;
use crate::policy::From;
use crate::records::{Calls, Line};
use crate::request::{Failure, Outcome};
use crate::session::Session;

/// A script that runs.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) id: String,
    pub(crate) reach: Reach,
    pub(crate) calls: Calls,
    /// Writes that are under way; they are seen through when the script has ended.
    pub(crate) writes: TaskTracker,
    listed: HashSet<String>,
    covered: HashMap<String, String>,
    counts: Mutex<BTreeMap<String, Count>>,
    refused: AtomicU64,
    progress: Mutex<script::Progress>,
}

/// The calls of one tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Count {
    /// That reached it.
    pub(crate) calls: u64,
    /// Of them, failed or with an unknown outcome.
    pub(crate) failed: u64,
    /// Refused before they reached it.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) refused: u64,
}

impl Count {
    /// All of them together: the numbers that are told everywhere.
    pub(crate) fn total(counts: &BTreeMap<String, Self>) -> Self {
        counts.values().fold(Self::default(), |sum, count| Self {
            calls: sum.calls + count.calls,
            failed: sum.failed + count.failed,
            refused: sum.refused + count.refused,
        })
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Under which calls of names that are no tools are counted: a script can make up any number.
const UNKNOWN: &str = "(unknown)";

/// Under which calls are counted that were refused before they were looked at.
const TURNED_AWAY: &str = "(turned away)";

/// Refusals that get a line of their own. They use up no budget, so a script can cause any number.
const REFUSALS_WRITTEN: u64 = 5000;

/// Unknown names for which is looked what was meant.
const NAMES_LOOKED_UP: u64 = 50;

impl Script {
    pub(crate) fn new(
        id: String,
        reach: Reach,
        calls: Calls,
        listed: HashSet<String>,
        covered: HashMap<String, String>,
    ) -> Self {
        Self {
            id,
            reach,
            calls,
            writes: TaskTracker::new(),
            listed,
            covered,
            counts: Mutex::default(),
            refused: AtomicU64::new(0),
            progress: Mutex::default(),
        }
    }

    /// How a tool stands to the script, for the permission table.
    pub(crate) fn standing(&self, known: &Known) -> From {
        From::Script {
            listed: self.listed.contains(&known.name),
            granted: self.covered.get(&known.name).is_some_and(|hash| *hash == known.definition),
        }
    }

    /// Whether an earlier definition of the tool was covered when the script started.
    pub(crate) fn was_covered(&self, name: &str) -> bool {
        self.covered.contains_key(name)
    }

    /// Writes down a call that is over.
    pub(crate) fn ended(&self, call: &Call, ended: &Ended) {
        let unknown = matches!(ended.intent, Some((_, store::IntentState::Unknown)));
        let (ok, summary) = match &ended.outcome {
            Outcome::Done(result) => {
                let shown = if result.text.trim().is_empty() {
                    result.structured.as_deref().map_or("", RawValue::get)
                } else {
                    &result.text
                };
                (!result.is_error, std::borrow::Cow::Borrowed(shown))
            }
            Outcome::Refused(failure) | Outcome::Failed(failure) => (false, told(failure).into()),
            Outcome::NeedsApproval(_) | Outcome::Background(_) => {
                (false, "denied: not approved".into())
            }
        };
        let summary = if unknown { format!("outcome unknown: {summary}").into() } else { summary };
        let refused = matches!(ended.outcome, Outcome::Refused(_) | Outcome::NeedsApproval(_));
        if !refused || self.refused.fetch_add(1, Ordering::Relaxed) < REFUSALS_WRITTEN {
            self.calls.append(&Line {
                number: call.number,
                at: call.at,
                tool: &call.tool,
                arguments: &call.arguments,
                took: call.began.elapsed(),
                ok: (!unknown).then_some(ok),
                summary: &summary,
            });
        }
        let nameless = matches!(
            &ended.outcome,
            Outcome::Refused(Failure { kind: Kind::UnknownTool | Kind::Upstream, .. })
        );
        let mut counts = lock(&self.counts);
        let name = if nameless { UNKNOWN } else { call.tool.as_str() };
        let count = match counts.get_mut(name) {
            Some(count) => count,
            None => counts.entry(name.to_owned()).or_default(),
        };
        if refused {
            count.refused += 1;
        } else {
            count.calls += 1;
            count.failed += u64::from(!ok || unknown);
        }
    }

    /// Whether it is still worth looking what an unknown name meant.
    pub(crate) fn may_look_up(&self) -> bool {
        lock(&self.counts).get(UNKNOWN).is_none_or(|count| count.refused < NAMES_LOOKED_UP)
    }

    /// Writes the rest of the lines; says what the disk did not take.
    pub(crate) fn finish(&self) -> Result<(), String> {
        self.calls.finish()
    }

    /// How many calls have no line because there are too many of them.
    pub(crate) fn unwritten(&self) -> u64 {
        self.refused.load(Ordering::Relaxed).saturating_sub(REFUSALS_WRITTEN)
    }

    /// The calls so far, by tool.
    pub(crate) fn counts(&self) -> BTreeMap<String, Count> {
        lock(&self.counts).clone()
    }

    /// The calls so far.
    pub(crate) fn total(&self) -> Count {
        Count::total(&lock(&self.counts))
    }

    /// Notes how many calls were refused in all, of which some never came here: over the budget,
    /// or no proper requests.
    pub(crate) fn refused_in_all(&self, refused: u64) {
        let mut counts = lock(&self.counts);
        let missing = refused.saturating_sub(Count::total(&counts).refused);
        if missing > 0 {
            counts.entry(TURNED_AWAY.to_owned()).or_default().refused += missing;
        }
    }

    /// What the script reported last.
    pub(crate) fn progress(&self) -> script::Progress {
        lock(&self.progress).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn told(failure: &Failure) -> String {
    let kind = serde_json::to_value(failure.kind).unwrap_or_default();
    format!("{}: {}", kind.as_str().unwrap_or("failed"), failure.message)
}

/// The host of one script.
pub(crate) struct ScriptHost {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) session: Arc<Session>,
    pub(crate) script: Arc<Script>,
}

#[async_trait::async_trait]
impl script::Host for ScriptHost {
    async fn call(&self, call: script::Call) -> Result<Reply, ToolError> {
        let script::Call { number, tool, args, cancel } = call;
        let call = Arc::new(Call {
            session: self.session.clone(),
            tool,
            arguments: args,
            caller: Caller::Script(self.script.clone()),
            number,
            passed: mcp::Passed::default(),
            progress: None,
            begun: None,
            prints: None,
            cancel,
            at: jiff::Timestamp::now(),
            began: Instant::now(),
        });
        reply(self.gateway.travel(call).await)
    }

    fn progress(&self, progress: script::Progress) {
        *lock(&self.script.progress) = progress;
    }
}

fn reply(outcome: Outcome) -> Result<Reply, ToolError> {
    let refused = matches!(outcome, Outcome::Refused(_) | Outcome::NeedsApproval(_));
    match outcome {
        Outcome::Done(result) => Ok(Reply {
            text: result.text,
            structured: result.structured,
            content: result.has_media.then_some(result.content),
            is_error: result.is_error,
        }),
        Outcome::Refused(failure) | Outcome::Failed(failure) => {
            let Failure { kind, message, retryable, .. } = failure;
            Err(ToolError { kind, message, retryable, refused })
        }
        // Nothing of a script goes on in the background.
        Outcome::NeedsApproval(_) | Outcome::Background(_) => Err(ToolError {
            kind: Kind::Denied,
            message: "a script cannot wait for a person; call the tool directly".to_owned(),
            retryable: false,
            refused,
        }),
    }
}

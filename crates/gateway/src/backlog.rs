//! Ends of calls and scripts that the store does not take, because its disk is full or its server
//! away: kept, tried again, and noted beside the store for the next start.
//!
//! Without it a script that ended well would count as interrupted, and a write that was answered as
//! unknown, only because the last row could not be written.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use store::{AuditRow, BackgroundState, IntentState, ScriptState, Store};
use tokio::sync::Mutex;

use crate::gateway::now_ms;
use crate::owner::{Note, NotedState, Owner};

/// Bytes of rows that are kept. What is beyond is left to the notes.
const KEPT: usize = 16 << 20;

/// How something ended.
#[derive(Clone, Debug)]
pub(crate) enum Ending {
    /// A script.
    Script { id: String, audit: Box<AuditRow> },
    /// A write, with the audit row if it is a direct call.
    Intent { id: String, state: IntentState, audit: Option<Box<AuditRow>> },
    /// A call in the background, with its result.
    Background { id: String, state: BackgroundState, result: Arc<str> },
    /// Any other direct call.
    Call { audit: Box<AuditRow> },
}

impl Ending {
    async fn store(&self, store: &Store) -> Result<bool, store::Error> {
        match self {
            Self::Script { id, audit } => {
                store.script_ended(id, ScriptState::Finished, audit, now_ms()).await
            }
            Self::Intent { id, state, audit } => {
                store.intent_ended(id, *state, audit.as_deref(), now_ms()).await
            }
            Self::Background { id, state, result } => {
                store.background_ended(id, *state, result, now_ms()).await
            }
            Self::Call { audit } => {
                store.audit(std::slice::from_ref(&**audit)).await.map(|()| true)
            }
        }
    }

    /// What the next start has to know, if this process does not get to it.
    fn note(&self) -> Option<Note> {
        let outcome = |audit: &AuditRow| audit.outcome.clone();
        match self {
            Self::Script { id, audit } => {
                Some(Note { id: id.clone(), outcome: outcome(audit), state: None })
            }
            Self::Intent { id, state, audit } => Some(Note {
                id: id.clone(),
                outcome: audit.as_deref().map(outcome).unwrap_or_default(),
                state: Some(match state {
                    IntentState::Done => NotedState::Done,
                    IntentState::Failed => NotedState::Failed,
                    IntentState::Pending | IntentState::Unknown => NotedState::Unknown,
                }),
            }),
            Self::Background { id, state, .. } => Some(Note {
                id: id.clone(),
                outcome: crate::background::BackgroundState::from(*state).word().to_owned(),
                state: None,
            }),
            Self::Call { .. } => None,
        }
    }

    fn size(&self) -> usize {
        let audit = match self {
            Self::Script { audit, .. } | Self::Call { audit } => Some(&**audit),
            Self::Intent { audit, .. } => audit.as_deref(),
            Self::Background { result, .. } => return result.len() + 512,
        };
        audit.map_or(0, |audit| audit.detail.len()) + 512
    }
}

/// What the store has not taken yet, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    waiting: Mutex<VecDeque<Ending>>,
    /// So that nobody waits for the lock when there is nothing.
    count: AtomicUsize,
    /// What was too much to be kept: the next start has to read of it.
    left_to_notes: AtomicUsize,
}

impl Backlog {
    /// Writes an end into the store, and what waits. Says why the store does not have this one
    /// now; it is kept then.
    pub(crate) async fn keep(
        &self,
        store: &Store,
        owner: &Owner,
        ending: Ending,
    ) -> Result<(), String> {
        let reason = match ending.store(store).await {
            Ok(taken) => {
                if let Err(reason) = self.catch_up(store).await {
                    tracing::warn!(reason, "the store still lacks how earlier calls ended");
                }
                return taken
                    .then_some(())
                    .ok_or_else(|| "another process took this one for gone".to_owned());
            }
            Err(error) => error.to_string(),
        };
        let note = ending.note();
        if let Some(Err(error)) = note.as_ref().map(|note| owner.note(note)) {
            tracing::error!(%error, "the end of a call could not even be noted");
        }
        let mut waiting = self.waiting.lock().await;
        if waiting.iter().map(Ending::size).sum::<usize>() + ending.size() <= KEPT {
            waiting.push_back(ending);
        } else if note.is_some() {
            self.left_to_notes.fetch_add(1, Ordering::Relaxed);
        }
        self.count.store(waiting.len(), Ordering::Release);
        Err(reason)
    }

    /// Tries again to write what waits. Says why the store does not have everything.
    pub(crate) async fn catch_up(&self, store: &Store) -> Result<(), String> {
        if self.count.load(Ordering::Acquire) > 0 {
            let mut waiting = self.waiting.lock().await;
            while let Some(ending) = waiting.front() {
                let stored = ending.store(store).await;
                let Some(ending) = waiting.pop_front() else { break };
                if let Err(error) = stored {
                    // At the end, so that one that can never be written holds nothing up for ever.
                    waiting.push_back(ending);
                    return Err(error.to_string());
                }
                self.count.store(waiting.len(), Ordering::Release);
            }
        }
        match self.left_to_notes.load(Ordering::Relaxed) {
            0 => Ok(()),
            more => Err(format!("{more} of them were too much to be kept")),
        }
    }
}

#[cfg(test)]
mod tests {
    use store::{AuditFilter, IntentRow, ScriptRow};

    use super::*;
    use crate::recovery;

    const SCRIPT: &str = "018f0000-0000-7000-8000-000000000001";

    async fn store_in(folder: &std::path::Path) -> Store {
        Store::open(&format!("sqlite://{}/p.db", folder.display())).await.unwrap()
    }

    fn row(kind: &str) -> Box<AuditRow> {
        Box::new(AuditRow {
            id: uuid::Uuid::now_v7().to_string(),
            at_ms: 1,
            kind: kind.to_owned(),
            principal: "ann".into(),
            profile: "default".into(),
            session: "s".into(),
            tool: "t".into(),
            outcome: "ok".into(),
            isolation: String::new(),
            detail: "{}".into(),
        })
    }

    fn intent(id: &str, owner: &Owner, script: &str) -> IntentRow {
        IntentRow {
            id: id.to_owned(),
            owner: owner.row.id.clone(),
            script: script.to_owned(),
            number: 1,
            session: "s".into(),
            principal: "ann".into(),
            profile: "default".into(),
            tool: "t".into(),
            arguments: "{}".into(),
            state: IntentState::Pending,
            at_ms: 1,
        }
    }

    /// A script with a write, and a direct write; all of them ended when the store was away.
    async fn ended_unheard(folder: &std::path::Path) -> (Owner, Backlog) {
        let store = store_in(folder).await;
        let owner = Owner::register(folder, &store).await.unwrap();
        let script = ScriptRow {
            id: SCRIPT.to_owned(),
            owner: owner.row.id.clone(),
            session: "s".into(),
            principal: "ann".into(),
            profile: "default".into(),
            workspace: folder.display().to_string(),
            description: "d".into(),
            code: "1".into(),
            isolation: "full".into(),
            started_ms: 1,
        };
        store.script_started(&script).await.unwrap();
        store.intend(&intent("inside", &owner, SCRIPT)).await.unwrap();
        store.intend(&intent("direct", &owner, "")).await.unwrap();
        store.close().await;
        let backlog = Backlog::default();
        let state = IntentState::Done;
        for ending in [
            Ending::Intent { id: "inside".into(), state, audit: None },
            Ending::Intent { id: "direct".into(), state, audit: Some(row("call")) },
            Ending::Script { id: SCRIPT.into(), audit: row("script") },
        ] {
            backlog.keep(&store, &owner, ending).await.unwrap_err();
        }
        backlog.catch_up(&store).await.unwrap_err();
        (owner, backlog)
    }

    async fn all_is_known(store: &Store, owner: &str) {
        assert_eq!(store.script_state(SCRIPT).await.unwrap(), Some(ScriptState::Finished));
        assert!(store.pending_intents(owner).await.unwrap().is_empty());
        assert_eq!(store.intents_of(SCRIPT).await.unwrap()[0].state, IntentState::Done);
        let filter = AuditFilter { limit: 10, ..AuditFilter::default() };
        let rows = store.audit_rows(&filter).await.unwrap();
        let mut words: Vec<(&str, &str)> =
            rows.iter().map(|row| (row.kind.as_str(), row.outcome.as_str())).collect();
        words.sort_unstable();
        assert_eq!(words, [("call", "ok"), ("script", "ok")]);
    }

    #[tokio::test]
    async fn what_the_store_did_not_take_is_written_when_it_is_back() {
        let folder = tempfile::tempdir().unwrap();
        let (owner, backlog) = ended_unheard(folder.path()).await;
        let back = store_in(folder.path()).await;
        backlog.catch_up(&back).await.unwrap();
        all_is_known(&back, &owner.row.id).await;
        assert!(backlog.waiting.lock().await.is_empty());
    }

    #[tokio::test]
    async fn a_process_that_ends_before_leaves_a_note_and_nothing_becomes_interrupted() {
        let folder = tempfile::tempdir().unwrap();
        let (owner, _) = ended_unheard(folder.path()).await;
        let gone = owner.row.id.clone();
        drop(owner);
        let store = store_in(folder.path()).await;
        let next = Owner::register(folder.path(), &store).await.unwrap();
        recovery::run(&store, folder.path(), &next).await.unwrap();
        all_is_known(&store, &gone).await;
        assert_eq!(store.owners().await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn the_room_for_notes_and_for_rows_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let store = store_in(folder.path()).await;
        let owner = Owner::register(folder.path(), &store).await.unwrap();
        store.close().await;
        let backlog = Backlog::default();
        for number in 0..20 {
            let detail = "x".repeat(1 << 20);
            let audit = Box::new(AuditRow { detail, ..*row("script") });
            let ending = Ending::Script { id: number.to_string(), audit };
            backlog.keep(&store, &owner, ending).await.unwrap_err();
        }
        assert!(backlog.waiting.lock().await.len() < 16);
        // The process must not say that it leaves nothing unfinished.
        let back = store_in(folder.path()).await;
        let left = backlog.catch_up(&back).await.unwrap_err();
        assert!(left.contains("too much to be kept"), "{left}");
        let note = Note { id: "i".repeat(100), outcome: "ok".into(), state: None };
        let refused = (0..1000).filter(|_| owner.note(&note).is_err()).count();
        assert!(refused > 0 && refused < 1000, "{refused}");
    }
}

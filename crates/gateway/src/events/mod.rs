//! What happens in a session, told to whoever listens.
//!
//! [`Gateway::publish`] only puts the event into a queue: a call neither waits for it nor fails
//! because of it. The pump writes the queue to the store and reads it back from there for the
//! listeners, together with what other processes on the same store wrote, so that everybody sees
//! the same events under the same ids in the same order. Progress of scripts is told to the
//! listeners of this process and not kept. Who may listen is decided elsewhere.

mod listen;

mod pump;

use std::sync::Arc;

use serde::Serialize;

use crate::approval::Choice;
use crate::call::{Call, Caller, Ended};
use crate::gateway::{Error, Gateway, now_ms};
use crate::request::{Origin, Outcome, ScriptProgress, ScriptState};
use crate::{audit, json};

pub use listen::{Listener, Told};
pub(crate) use pump::Pump;

/// Longest text of a message that is kept, in characters.
const LONGEST_TEXT: usize = 100_000;

/// Longest other text, in characters.
const LONGEST_WORD: usize = 1_000;

/// Something that happens in a session. As JSON it is what listeners get.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Event {
    /// `approval.requested`: a person is asked.
    ApprovalRequested {
        /// Names the question.
        approval: String,
        /// The tool that is called: a server's, or `run_script`.
        tool: String,
        /// For a script: what its author says it does.
        description: Option<String>,
        /// Until when it can be answered, in milliseconds since 1970.
        expires_ms: i64,
    },
    /// `approval.resolved`: it can no longer be answered.
    ApprovalResolved {
        /// Names the question.
        approval: String,
        /// The tool that it was about.
        tool: String,
        /// What came of it.
        resolution: Resolution,
        /// Who answered; empty where nobody did.
        by: String,
        /// Why, if it is a no.
        reason: String,
    },
    /// `tool.started`: a call that somebody outside made runs. Calls of a script are not told one
    /// by one.
    ToolStarted {
        /// Names the call.
        call: String,
        /// The tool.
        tool: String,
        /// From where it was called.
        origin: Origin,
    },
    /// `tool.finished`: it ended; of a call that was refused nothing else is told.
    ToolFinished {
        /// Names the call.
        call: String,
        /// The tool.
        tool: String,
        /// How, in the words of the audit.
        outcome: String,
        /// Since it was made.
        ms: u64,
    },
    /// `script.progress`: how far a script is; not kept.
    ScriptProgress(ScriptProgress),
    /// `background.started`: a call goes on in the background.
    BackgroundStarted {
        /// Names the background call.
        background: String,
        /// The tool.
        tool: String,
        /// What it does, in the words of whoever made it.
        description: String,
    },
    /// `background.finished`: its result can be fetched.
    BackgroundFinished {
        /// Names the background call.
        background: String,
        /// The tool.
        tool: String,
        /// How it ended, in the words of the audit.
        outcome: String,
    },
    /// `message`: somebody said something.
    Message {
        /// Who: `user`, `agent`, `system`.
        role: String,
        /// What.
        text: String,
    },
}

/// What came of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// Allowed once.
    Once,
    /// Allowed for the rest of the session.
    Session,
    /// Refused.
    Deny,
    /// Nobody answered in time.
    Expired,
    /// What it was about has changed.
    Void,
}

impl From<Choice> for Resolution {
    fn from(choice: Choice) -> Self {
        match choice {
            Choice::Once => Self::Once,
            Choice::Session => Self::Session,
            Choice::Deny => Self::Deny,
        }
    }
}

impl Event {
    /// The type's name, as listeners see it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::ApprovalRequested { .. } => "approval.requested",
            Self::ApprovalResolved { .. } => "approval.resolved",
            Self::ToolStarted { .. } => "tool.started",
            Self::ToolFinished { .. } => "tool.finished",
            Self::ScriptProgress(_) => SCRIPT_PROGRESS,
            Self::BackgroundStarted { .. } => "background.started",
            Self::BackgroundFinished { .. } => "background.finished",
            Self::Message { .. } => "message",
        }
    }

    /// Texts that others wrote are kept up to a bound.
    fn bound(&mut self) {
        let (words, text): (Vec<&mut String>, Option<&mut String>) = match self {
            Self::ApprovalRequested { tool, description, .. } => {
                (description.iter_mut().chain([tool]).collect(), None)
            }
            Self::ApprovalResolved { tool, by, reason, .. } => (vec![tool, by, reason], None),
            Self::ToolStarted { tool, .. } | Self::ToolFinished { tool, .. } => (vec![tool], None),
            Self::ScriptProgress(progress) => {
                let words = progress.message.iter_mut().chain([&mut progress.description]);
                (words.collect(), None)
            }
            Self::BackgroundStarted { tool, description, .. } => (vec![tool, description], None),
            Self::BackgroundFinished { tool, .. } => (vec![tool], None),
            Self::Message { role, text } => (vec![role], Some(text)),
        };
        for word in words {
            cut(word, LONGEST_WORD);
        }
        if let Some(text) = text {
            cut(text, LONGEST_TEXT);
        }
    }
}

const SCRIPT_PROGRESS: &str = "script.progress";

fn cut(text: &mut String, most: usize) {
    if text.len() > most {
        *text = json::cut(text, most);
    }
}

/// An event on its way.
#[derive(Debug)]
struct Published {
    session: Arc<str>,
    at_ms: i64,
    event: Event,
}

impl Gateway {
    /// Tells what happened in the session with this id. Never waits and never fails: where the
    /// store takes nothing for long, events are lost, and that is logged.
    pub fn publish(&self, session: &str, mut event: Event) {
        if matches!(event, Event::ScriptProgress(_)) && !self.events.hub.is_heard(session) {
            return;
        }
        if let Event::ScriptProgress(progress) = &event
            && progress.state == ScriptState::Running
            && !self.events.hub.may_tell(&progress.script_id)
        {
            return;
        }
        event.bound();
        self.events.queue(Published { session: session.into(), at_ms: now_ms(), event });
    }

    /// Tells that a call runs which somebody outside made; gives its name.
    pub(crate) fn tell_started(&self, call: &Call) -> Option<String> {
        let Caller::Direct(origin) = call.caller else { return None };
        let id = uuid::Uuid::now_v7().to_string();
        let (call_id, tool) = (id.clone(), call.tool.clone());
        let event = Event::ToolStarted { call: call_id, tool, origin };
        self.publish(&call.session.id, event);
        Some(id)
    }

    /// Tells that it ended. One that was refused has no name yet.
    pub(crate) fn tell_finished(&self, call: &Call, id: Option<String>, ended: &Ended) {
        let over = !matches!(ended.outcome, Outcome::NeedsApproval(_));
        if over && matches!(call.caller, Caller::Direct(_)) {
            let event = Event::ToolFinished {
                call: id.unwrap_or_else(|| uuid::Uuid::now_v7().to_string()),
                tool: call.tool.clone(),
                outcome: audit::word(ended).to_owned(),
                ms: u64::try_from(call.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            };
            self.publish(&call.session.id, event);
        }
    }

    /// Listens to the session with this id. With `after`, first come the kept events after that
    /// one; without, only what happens from now on.
    pub async fn listen(&self, session: &str, after: Option<i64>) -> Result<Listener, Error> {
        Listener::open(&self.store, &self.events.hub, session, after).await
    }
}

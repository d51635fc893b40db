//! How a call gets into the background and what happens when its work is over.
//!
//! A call is an owned job from its birth. Until "still running" was said, whoever made it ends it
//! by going away; afterwards it only goes on. Before it is said, the call is in the store, so that
//! its name is good for something whatever happens then.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{BackgroundCall, KEPT, Live, MOST_KEPT, MOST_RUNNING, results};
use crate::backlog::Ending;
use crate::call::Call;
use crate::events::Event;
use crate::gateway::{Error, Gateway, now_ms};
use crate::json;
use crate::records::ARGUMENT_BYTES;
use crate::request::Outcome;
use crate::session::Session;

/// How often it is looked whether another process wants the call to end.
const LOOK: Duration = Duration::from_secs(2);

/// Longest description that is kept, in characters.
const LONGEST_DESCRIPTION: usize = 500;

/// A call whose work has begun.
#[derive(Clone, Debug)]
pub(crate) struct Begun {
    /// What it does, in the caller's words.
    pub(crate) description: String,
    /// It can only be run in the background.
    pub(crate) task_only: bool,
    /// After which time it is over in any case.
    pub(crate) longest: Duration,
}

/// A call that could not be put into the background.
#[derive(Debug)]
pub(crate) struct Stays {
    pub(crate) job: JoinHandle<Outcome>,
    /// Why.
    pub(crate) reason: String,
}

impl Gateway {
    /// Puts a call whose work has begun into the background; the answer comes through `said`. If
    /// nobody waits for that any more, the call is cancelled.
    pub(crate) async fn follow(
        self: Arc<Self>,
        call: Arc<Call>,
        begun: Begun,
        mut job: JoinHandle<Outcome>,
        said: oneshot::Sender<Result<BackgroundCall, Stays>>,
    ) {
        let row = match self.adopt(&call, &begun).await {
            Ok(row) => row,
            Err(reason) => {
                let _ = said.send(Err(Stays { job, reason }));
                return;
            }
        };
        let (id, description) = (row.id.clone(), row.description.clone());
        let over = CancellationToken::new();
        let live = Live {
            cancel: call.cancel.clone(),
            reports: call.progress.clone(),
            over: over.clone(),
        };
        self.background.live().insert(id.clone(), live);
        if said.send(Ok(self.background.show(row))).is_err() {
            call.cancel.cancel();
        }
        self.background.changed();
        let event = Event::BackgroundStarted {
            background: id.clone(),
            tool: call.tool.clone(),
            description,
        };
        self.publish(&call.session.id, event);
        let outcome = loop {
            tokio::select! {
                outcome = &mut job => break outcome,
                () = tokio::time::sleep(LOOK), if !call.cancel.is_cancelled() => {
                    let state = self.store.background_state(&id).await;
                    if matches!(state, Ok(Some(store::BackgroundState::Cancelled))) {
                        call.cancel.cancel();
                    }
                }
            }
        };
        let outcome = outcome.unwrap_or_else(|error| {
            tracing::error!(%error, "a call in the background broke off");
            Outcome::Failed(call.failure(
                script::Kind::Upstream,
                "the call broke off because of a fault in pinfold; see its log",
            ))
        });
        let (state, result) = self.end_of(&call, outcome);
        let ending = Ending::Background { id: id.clone(), state, result };
        if let Err(reason) = self.backlog.keep(&self.store, &self.owner, ending).await {
            tracing::error!(tool = call.tool, reason, "a result could not be kept");
        }
        self.background.live().remove(&id);
        over.cancel();
        self.background.changed();
        let outcome = super::BackgroundState::from(state).word().to_owned();
        let tool = call.tool.clone();
        let event = Event::BackgroundFinished { background: id, tool, outcome };
        self.publish(&call.session.id, event);
    }

    /// Writes down that the call goes on in the background.
    async fn adopt(&self, call: &Call, begun: &Begun) -> Result<store::BackgroundRow, String> {
        let started_ms = call.at.as_millisecond();
        let row = self.background_row(
            &call.session,
            &call.tool,
            &call.arguments,
            (&begun.description, started_ms, begun.longest),
        );
        let written = async {
            self.make_room(&call.session).await?;
            self.store.background_started(&row).await
        };
        match written.await {
            Ok(()) => Ok(row),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn make_room(&self, session: &Session) -> Result<(), store::Error> {
        let filter = store::BackgroundFilter {
            session: Some(session.id.clone()),
            underway: true,
            limit: MOST_RUNNING,
            ..store::BackgroundFilter::default()
        };
        if self.store.background_calls(&filter).await?.len() >= MOST_RUNNING as usize {
            return Err(store::Error::Conflict(format!(
                "{MOST_RUNNING} calls of this session run in the background already; wait for \
                 some of them or cancel them"
            )));
        }
        self.store.forget_background(&session.id, MOST_KEPT - 1, now_ms()).await
    }

    fn background_row(
        &self,
        session: &Session,
        tool: &str,
        arguments: &serde_json::value::RawValue,
        (description, started_ms, longest): (&str, i64, Duration),
    ) -> store::BackgroundRow {
        let kept = i64::try_from((longest + KEPT).as_millis()).unwrap_or(i64::MAX / 4);
        store::BackgroundRow {
            id: uuid::Uuid::now_v7().to_string(),
            owner: self.owner.row.id.clone(),
            session: session.id.clone(),
            principal: session.principal.clone(),
            profile: session.profile_name.clone(),
            tool: json::one_line(tool, 200),
            arguments: json::bounded(arguments, ARGUMENT_BYTES),
            digest: json::hash([arguments.get()]),
            description: json::one_line(description, LONGEST_DESCRIPTION),
            state: store::BackgroundState::Running,
            result: String::new(),
            started_ms,
            ended_ms: 0,
            expires_ms: started_ms + kept,
        }
    }

    /// Keeps the result of a call that was over before it could get into the background, for a
    /// client that was promised to find it there.
    pub async fn keep_in_background(
        &self,
        session: &Session,
        tool: &str,
        arguments: &serde_json::value::RawValue,
        result: &mcp::CallResult,
    ) -> Result<BackgroundCall, Error> {
        let now = now_ms();
        let state = if result.is_error {
            store::BackgroundState::Failed
        } else {
            store::BackgroundState::Finished
        };
        let row = store::BackgroundRow {
            state,
            result: results::kept(result).to_string(),
            ended_ms: now,
            ..self.background_row(session, tool, arguments, ("", now, Duration::ZERO))
        };
        self.make_room(session).await?;
        self.store.background_started(&row).await?;
        self.background.changed();
        Ok(self.background.show(row))
    }

    fn end_of(&self, call: &Call, outcome: Outcome) -> (store::BackgroundState, Arc<str>) {
        let result = match outcome {
            Outcome::Done(result) => result,
            Outcome::Refused(failure) | Outcome::Failed(failure) => failure.result(),
            // Its work had begun, so neither can be.
            Outcome::NeedsApproval(_) | Outcome::Background(_) => {
                results::said("the call did not run", true)
            }
        };
        let state = match (result.is_error, call.cancel.is_cancelled()) {
            (false, _) => store::BackgroundState::Finished,
            (true, false) => store::BackgroundState::Failed,
            (true, true) if self.stop.is_cancelled() => {
                let result = results::interrupted(&call.tool, &result.text);
                return (store::BackgroundState::Interrupted, results::kept(&result));
            }
            (true, true) => store::BackgroundState::Cancelled,
        };
        (state, results::kept(&result))
    }
}

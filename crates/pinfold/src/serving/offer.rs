//! The tools of one profile, for one principal, as an MCP service.
//!
//! It is there before the gateway is: clients connect at once, and wait only for what needs it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gateway::sources::State;
use gateway::{ApprovalState, Gateway, Origin, Outcome, Request, Session};
use mcp::server::{
    About, Answer, Call, Caller, Headers, Passage, Question, Refusal, Service, Tasks, Tools, Watch,
};
use script::Kind;
use serde_json::value::RawValue;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::time::Instant;

use super::extras::{self, Seen, Told};
use super::parked::{self, Parked, Step, Underway};
use super::{ask, outcome, tasks};
use crate::config::Config;

/// So long after the start does a list wait for servers that are still starting: clients that ask
/// only once should find them, and none gives up on us before that.
const LIST_PATIENCE: Duration = Duration::from_secs(4);

/// The same, for a call of a tool that is not there yet.
const CALL_PATIENCE: Duration = Duration::from_secs(20);

/// So long may a list be taken for true, when every server is up: changes are told.
const FRESH: Duration = Duration::from_secs(60);

/// How often it is looked whether a question was answered elsewhere.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// So many sessions are remembered; others are opened again when they are named.
const MOST_SESSIONS: usize = 1_000;

/// So long is waited for more changes before one is told: servers come up one after the other.
const CHANGES_APART: Duration = Duration::from_millis(300);

/// For a client that comes back too late.
const GONE: &str = "what asked this is not waiting any more; make the request again without \
                    requestState and inputResponses";

/// What is served.
#[derive(Debug)]
pub(crate) struct Offer {
    profile: String,
    principal: String,
    /// The session of those who name none.
    key: String,
    instructions: String,
    /// How a person answers from a terminal, with `ID` in it.
    command: String,
    /// Where a person answers in a browser.
    page: Option<String>,
    expire: Duration,
    /// Whether calls go on in the background.
    background: bool,
    opened: watch::Receiver<Option<Arc<Gateway>>>,
    changes: watch::Sender<u64>,
    /// The same of what there is besides tools.
    told: Told,
    /// What waits for an answer to its server.
    calls: Parked<Outcome>,
    passages: Parked<extras::Passed>,
    sessions: Mutex<HashMap<String, Arc<Session>>>,
    /// What was listed last.
    listed: Mutex<Vec<Arc<RawValue>>>,
    since: Instant,
}

/// How a person answers besides through the client.
#[derive(Clone, Debug)]
pub(crate) struct Answers {
    /// What `pinfold approvals` needs to find the same configuration.
    pub(crate) command_options: String,
    /// The page, where one is served.
    pub(crate) page: Option<String>,
}

impl Offer {
    /// Of a gateway that is still being opened.
    pub(crate) fn new(
        config: &Config,
        profile: &str,
        principal: &str,
        key: &str,
        answers: Answers,
        opened: watch::Receiver<Option<Arc<Gateway>>>,
    ) -> Arc<Self> {
        let servers = config.profile(profile).map_or(&[][..], |rules| &rules.servers);
        Arc::new(Self {
            profile: profile.to_owned(),
            principal: principal.to_owned(),
            key: key.to_owned(),
            instructions: instructions(servers),
            command: format!("pinfold approvals approve ID{}", answers.command_options),
            page: answers.page,
            expire: Duration::from_secs(config.file.approvals.expire_sec),
            background: config.file.background_calls.auto_after_sec > 0,
            opened,
            changes: watch::Sender::new(0),
            told: Told::default(),
            calls: Parked::default(),
            passages: Parked::default(),
            sessions: Mutex::default(),
            listed: Mutex::default(),
            since: Instant::now(),
        })
    }

    pub(super) async fn gateway(&self) -> Result<Arc<Gateway>, Refusal> {
        let mut opened = self.opened.clone();
        let opened = opened.wait_for(Option::is_some).await;
        let opened = opened.ok().and_then(|opened| opened.clone());
        opened.ok_or_else(|| Refusal::internal("pinfold is closing"))
    }

    /// Waits for servers that are still starting, until so long after the start. Whether none is.
    async fn settled(&self, gateway: &Gateway, patience: Duration) -> bool {
        let left = patience.saturating_sub(self.since.elapsed());
        let not_ready = gateway.settle(&self.profile, left).await;
        not_ready.iter().all(|(_, state)| *state != State::Starting)
    }

    /// The definitions that are offered.
    async fn definitions(&self, gateway: &Gateway) -> Result<Vec<Arc<RawValue>>, Refusal> {
        let session = self.session(gateway, &self.key).await?;
        let tools = gateway.tools(&session);
        // A plain call is all that is sent to servers, so these could only fail.
        let usable = tools.into_iter().filter(|tool| !tool.task_only);
        Ok(usable.map(|tool| tool.definition).collect())
    }

    /// Tells changes of what is offered, for as long as it is polled; `sources` tells of servers.
    pub(crate) async fn watch(&self, mut sources: watch::Receiver<u64>) {
        if let Ok(gateway) = self.gateway().await {
            let mut told = self.definitions(&gateway).await.unwrap_or_default();
            let session = self.session(&gateway, &self.key).await.ok();
            let look = || session.as_ref().map(|session| Seen::now(&gateway, session));
            let mut seen = look().unwrap_or_default();
            while sources.changed().await.is_ok() {
                tokio::time::sleep(CHANGES_APART).await;
                sources.mark_unchanged();
                let now = look().unwrap_or_default();
                seen.tell_changes(&now, &self.told);
                seen = now;
                let Ok(now) = self.definitions(&gateway).await else { continue };
                let same = same(&now, &told) && same(&now, &self.listed());
                told = now;
                if !same {
                    self.changes.send_modify(|count| *count += 1);
                }
            }
        }
        std::future::pending().await
    }

    fn listed(&self) -> Vec<Arc<RawValue>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn session(&self, gateway: &Gateway, key: &str) -> Result<Arc<Session>, Refusal> {
        let known = |sessions: &Mutex<HashMap<String, Arc<Session>>>| {
            sessions.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
        };
        if let Some(session) = known(&self.sessions) {
            return Ok(session);
        }
        let session = gateway.session(&self.principal, &self.profile, key).await;
        let session = session.map_err(|error| Refusal::invalid(error.to_string()))?;
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() >= MOST_SESSIONS {
            sessions.clear();
        }
        sessions.insert(key.to_owned(), session.clone());
        Ok(session)
    }

    /// The session that a request names, the transport's, or the one of those who have none.
    pub(super) async fn session_of(
        &self,
        gateway: &Gateway,
        caller: &Caller,
        meta: Option<&RawValue>,
    ) -> Result<Arc<Session>, Refusal> {
        let named = outcome::session(meta);
        let key = named.as_deref().or(caller.session.as_deref()).unwrap_or(&self.key);
        self.session(gateway, key).await
    }

    /// Makes a call, up to its end or to a question of its server's.
    async fn attempt(
        &self,
        gateway: &Arc<Gateway>,
        session: &Arc<Session>,
        caller: &Caller,
        call: &Call,
    ) -> Attempt {
        let server = gateway.server_of(session, &call.name).unwrap_or_default();
        let (wants_progress, as_task) = (call.progress.is_some(), call.as_task);
        let (gateway, session) = (gateway.clone(), session.clone());
        let id = session.id().to_owned();
        let (tool, arguments) = (call.name.clone(), call.arguments.clone());
        let meta = call.meta.clone();
        let underway = Underway::new(caller, &id, server, |ends| async move {
            let (reports, mut reported) = mpsc::unbounded_channel();
            let request = Request {
                session,
                tool,
                arguments,
                origin: Origin::Model,
                progress: wants_progress.then_some(reports),
                passed: mcp::Passed { meta, asks: ends.asks },
                cancel: ends.cancel,
            };
            let pass = |report| {
                // Nobody listening any more is the listener's choice.
                let _ = ends.progress.send(outcome::progress(report));
            };
            let calling = async {
                match as_task {
                    true => gateway.call_in_background(request).await,
                    false => gateway.call(request).await,
                }
            };
            tokio::pin!(calling);
            let ended = loop {
                tokio::select! {
                    ended = &mut calling => break ended,
                    Some(report) = reported.recv() => pass(report),
                }
            };
            // What was reported last counts most.
            while let Ok(report) = reported.try_recv() {
                pass(report);
            }
            ended
        });
        self.go_on(underway, &id, call).await
    }

    /// Goes on with a call up to its end or to a question of its server's.
    async fn go_on(&self, mut underway: Underway<Outcome>, session: &str, call: &Call) -> Attempt {
        loop {
            match underway.go_on(call.progress.as_ref(), &call.cancel).await {
                Step::Ended(ended) => return Attempt::Ended(ended),
                Step::Asked(asked) => {
                    match self.calls.park(underway, asked, session, self.expire) {
                        Ok(question) => return Attempt::Asked(question),
                        // Too many wait: the server is told that nobody answers.
                        Err(again) => underway = again,
                    }
                }
            }
        }
    }
}

/// How far a call came.
enum Attempt {
    Ended(Outcome),
    Asked(Question),
}

#[async_trait::async_trait]
impl Service for Offer {
    fn about(&self) -> About {
        About {
            name: "pinfold".to_owned(),
            title: "Pinfold".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instructions: self.instructions.clone(),
        }
    }

    fn principal(&self) -> &str {
        &self.principal
    }

    async fn tools(&self, _caller: &Caller) -> Result<Tools, Refusal> {
        let gateway = self.gateway().await?;
        // What is remembered of a server that is still starting is listed at once.
        let left = LIST_PATIENCE.saturating_sub(self.since.elapsed());
        let settled = gateway.settle_lists(&self.profile, left).await;
        let definitions = self.definitions(&gateway).await?;
        self.listed.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&definitions);
        Ok(Tools { definitions, fresh: if settled { FRESH } else { Duration::ZERO } })
    }

    fn headers(&self, tool: &str) -> Headers {
        let opened = self.opened.borrow();
        opened.as_ref().map(|one| one.headers(&self.profile, tool)).unwrap_or_default()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    async fn call(&self, caller: &Caller, mut call: Call) -> Result<Answer, Refusal> {
        let gateway = tokio::select! {
            gateway = self.gateway() => gateway?,
            () = call.cancel.cancelled() => return Err(Refusal::internal("cancelled")),
        };
        let session = self.session_of(&gateway, caller, call.meta.as_deref()).await?;
        if call.as_task && !gateway.may_be_task(&session, &call.name) {
            return Err(Refusal::not_found(format!(
                "{:?} cannot be called as a task; call it without `task`",
                call.name.chars().take(200).collect::<String>()
            )));
        }
        let mut may_ask = caller.asks;
        if let Some(given) = call.given.take_if(|given| parked::is_servers(&given.state)) {
            let underway = self.calls.take(&given.state, session.id(), given.reply);
            let Some(underway) = underway else { return Err(Refusal::invalid(GONE)) };
            return match self.go_on(underway, session.id(), &call).await {
                Attempt::Ended(Outcome::Background(background)) => {
                    Ok(tasks::answer(&background, caller, &call))
                }
                Attempt::Ended(ended) => {
                    tasks::kept(&gateway, &session, &call, outcome::answer(ended)?).await
                }
                Attempt::Asked(question) => Ok(Answer::Ask(question)),
            };
        }
        if let Some(given) = call.given.take() {
            // After a restart: an answer about a tool that is not there yet would be void.
            tokio::select! {
                _ = self.settled(&gateway, CALL_PATIENCE) => {}
                () = call.cancel.cancelled() => return Err(Refusal::internal("cancelled")),
            }
            may_ask = ask::take(&gateway, given, caller).await;
        }
        let mut ended = match self.attempt(&gateway, &session, caller, &call).await {
            Attempt::Ended(ended) => ended,
            Attempt::Asked(question) => return Ok(Answer::Ask(question)),
        };
        // Refused: so nothing was sent.
        let is_missing = matches!(&ended, Outcome::Refused(failure)
            if failure.kind == Kind::UnknownTool || failure.kind == Kind::Upstream);
        if is_missing && !self.settled(&gateway, Duration::ZERO).await {
            tokio::select! {
                _ = self.settled(&gateway, CALL_PATIENCE) => {}
                () = call.cancel.cancelled() => {}
            }
            ended = match self.attempt(&gateway, &session, caller, &call).await {
                Attempt::Ended(ended) => ended,
                Attempt::Asked(question) => return Ok(Answer::Ask(question)),
            };
        }
        let approval = match ended {
            Outcome::Background(background) => {
                return Ok(tasks::answer(&background, caller, &call));
            }
            Outcome::NeedsApproval(approval) => approval,
            ended => {
                return tasks::kept(&gateway, &session, &call, outcome::answer(ended)?).await;
            }
        };
        if may_ask {
            let tools = gateway.tools(&session);
            return Ok(Answer::Ask(ask::question(&approval, &tools, self.expire)));
        }
        let where_to = ask::where_to_answer(&approval, &self.command, self.page.as_deref());
        tasks::kept(&gateway, &session, &call, Answer::text(&where_to, true)).await
    }

    fn tasks(&self) -> Option<&dyn Tasks> {
        self.background.then_some(self)
    }

    fn has_more(&self) -> bool {
        true
    }

    async fn list(&self, caller: &Caller, kind: mcp::Kind) -> Result<Tools, Refusal> {
        let gateway = self.gateway().await?;
        let settled = self.settled(&gateway, LIST_PATIENCE).await;
        let session = self.session_of(&gateway, caller, None).await?;
        let definitions = gateway.extras(&session, kind);
        Ok(Tools { definitions, fresh: if settled { FRESH } else { Duration::ZERO } })
    }

    fn list_changes(&self, kind: mcp::Kind) -> Option<watch::Receiver<u64>> {
        Some(self.told.list(kind).subscribe())
    }

    async fn pass(&self, caller: &Caller, passage: Passage) -> Result<Answer, Refusal> {
        let gateway = tokio::select! {
            gateway = self.gateway() => gateway?,
            () = passage.cancel.cancelled() => return Err(Refusal::internal("cancelled")),
        };
        tokio::select! {
            _ = self.settled(&gateway, LIST_PATIENCE) => {}
            () = passage.cancel.cancelled() => return Err(Refusal::internal("cancelled")),
        }
        let session = self.session_of(&gateway, caller, passage.meta.as_deref()).await?;
        let Passage { wish, meta, given, cancel } = passage;
        let mut underway = match given {
            Some(given) => {
                let underway = self.passages.take(&given.state, session.id(), given.reply);
                underway.ok_or_else(|| Refusal::invalid(GONE))?
            }
            None => {
                let server = extras::server_of(&gateway, &session, &wish);
                let (gateway, session) = (gateway.clone(), session.clone());
                let id = session.id().to_owned();
                Underway::new(caller, &id, server, |ends| {
                    extras::pass(gateway, session, wish, meta, ends)
                })
            }
        };
        loop {
            match underway.go_on(None, &cancel).await {
                Step::Ended(passed) => return extras::answer(caller, passed),
                Step::Asked(asked) => {
                    match self.passages.park(underway, asked, session.id(), self.expire) {
                        Ok(question) => return Ok(Answer::Ask(question)),
                        Err(again) => underway = again,
                    }
                }
            }
        }
    }

    async fn watch(&self, caller: &Caller, uri: &str) -> Result<Watch, Refusal> {
        let gateway = self.gateway().await?;
        self.settled(&gateway, LIST_PATIENCE).await;
        let session = self.session_of(&gateway, caller, None).await?;
        extras::watch(&gateway, &session, caller, uri, &self.told.updates).await
    }

    fn updates(&self) -> Option<broadcast::Receiver<Arc<str>>> {
        Some(self.told.updates.subscribe())
    }

    async fn answered_elsewhere(&self, state: &str) {
        if parked::is_servers(state) {
            return tokio::select! {
                () = self.calls.withdrawn(state) => {}
                () = self.passages.withdrawn(state) => {}
            };
        }
        let Ok(gateway) = self.gateway().await else { return };
        loop {
            tokio::time::sleep(LOOK_AGAIN).await;
            match gateway.approval(state).await {
                Ok(Some(approval)) if approval.state == ApprovalState::Open => {}
                Ok(_) => return,
                Err(error) => tracing::warn!(%error, "an open question cannot be read"),
            }
        }
    }
}

fn same(left: &[Arc<RawValue>], right: &[Arc<RawValue>]) -> bool {
    let pairs = left.iter().zip(right);
    left.len() == right.len()
        && pairs.into_iter().all(|(a, b)| Arc::ptr_eq(a, b) || a.get() == b.get())
}

/// How to use it, for models; short, because it stands in every conversation.
fn instructions(servers: &[String]) -> String {
    /// Names that are told; a model sees the tools themselves anyway.
    const NAMED: usize = 20;
    let names: Vec<String> =
        servers.iter().take(NAMED).map(|name| name.chars().take(60).collect()).collect();
    let more = if servers.len() > NAMED { " and others" } else { "" };
    format!(
        "Tools of these servers: {}{more}. They are named server__tool. For a task that takes many \
         calls, or whose results have to be filtered, joined or summed up, write one script and \
         give it to run_script instead of calling tools one by one: only what it prints comes \
         back. Some calls need the user's approval. If an answer says that one is missing, tell \
         the user how to give it, and afterwards make exactly the same call again.",
        names.join(", ")
    )
}

//! The road of a call: `resolve → check → decide → approve → run → record`.
//!
//! Every call takes it, a model's as well as one that a script makes; what differs is the
//! [`Caller`]. The road can be walked again: *approve* does not wait for a person but answers
//! [`Outcome::NeedsApproval`], and the same call made later finds the answer. *run* needs a
//! [`Grant`], which only *approve* can make. A call runs in a task of its own, so that a caller who
//! goes away cancels it and it is still recorded.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::approval::{Choice, Payload, Question};
use crate::catalog::Known;
use crate::gateway::{Gateway, visible};
use crate::policy::{self, Decision, Effect, Facts, From};
use crate::request::{Failure, Origin, Outcome, Progress, Request};
use crate::session::Session;
use crate::sources::run_script::{self, Script};
use crate::sources::tool;
use crate::{audit, json, refusal};

/// Who makes a call.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    /// Somebody outside.
    Direct(Origin),
    /// A script that runs here.
    Script(Arc<Script>),
}

/// A call on its road.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) session: Arc<Session>,
    pub(crate) tool: String,
    pub(crate) arguments: Box<RawValue>,
    pub(crate) caller: Caller,
    /// Its number in the script; 0 for a direct call.
    pub(crate) number: u64,
    pub(crate) progress: Option<mpsc::UnboundedSender<Progress>>,
    /// Where a script's prints go instead of into the answer.
    pub(crate) prints: Option<mpsc::UnboundedSender<Vec<u8>>>,
    pub(crate) cancel: CancellationToken,
    pub(crate) at: jiff::Timestamp,
    pub(crate) began: Instant,
}

impl Call {
    pub(crate) fn failure(&self, kind: script::Kind, message: impl Into<String>) -> Failure {
        Failure {
            tool: json::cut(&self.tool, 200),
            kind,
            message: message.into(),
            retryable: false,
        }
    }
}

/// The proof that a call may run.
#[derive(Debug)]
pub(crate) struct Grant {
    by: Option<String>,
    /// The approval that was used up for it.
    approval: Option<String>,
    definitions: HashMap<String, String>,
}

impl Grant {
    /// Who was asked, if somebody was.
    pub(crate) fn by(&self) -> Option<&str> {
        self.by.as_deref()
    }

    /// The approval that was used up for it.
    fn approval(&self) -> Option<String> {
        self.approval.clone()
    }

    /// Of a script: the definitions of the tools that it covers.
    pub(crate) fn into_definitions(self) -> HashMap<String, String> {
        self.definitions
    }
}

/// What *resolve* found.
#[derive(Debug)]
enum Target {
    Tool(Arc<Known>, Facts),
    RunScript,
}

/// What *check* found out about it.
#[derive(Debug)]
enum Plan {
    Tool(Arc<Known>, Facts),
    Script(Box<run_script::Plan>),
}

/// A call that may run.
#[derive(Debug)]
struct Ready {
    plan: Plan,
    grant: Grant,
}

/// A call that is over.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    /// Of a write: its intent in the store and how that ends.
    pub(crate) intent: Option<(String, store::IntentState)>,
    /// Who was asked, if somebody was.
    pub(crate) approved_by: Option<String>,
    /// It has written its audit row itself.
    pub(crate) recorded: bool,
    /// Nothing was sent and nothing ran.
    pub(crate) unsent: bool,
}

impl Ended {
    /// Nothing was sent.
    pub(crate) fn before(outcome: Outcome) -> Self {
        Self { outcome, intent: None, approved_by: None, recorded: false, unsent: true }
    }
}

impl Gateway {
    /// Carries out a call. If the returned future is dropped, the call is cancelled.
    pub async fn call(self: &Arc<Self>, request: Request) -> Outcome {
        self.carry_out(request, None).await
    }

    /// Like [`Gateway::call`], but what a script prints goes to `prints` as it comes, byte for byte
    /// and all of it; the answer holds the rest.
    pub async fn call_printing(
        self: &Arc<Self>,
        request: Request,
        prints: mpsc::UnboundedSender<Vec<u8>>,
    ) -> Outcome {
        self.carry_out(request, Some(prints)).await
    }

    async fn carry_out(
        self: &Arc<Self>,
        request: Request,
        prints: Option<mpsc::UnboundedSender<Vec<u8>>>,
    ) -> Outcome {
        let Request { session, tool, arguments, origin, progress, cancel } = request;
        let failure = Failure {
            tool: json::cut(&tool, 200),
            kind: script::Kind::Cancelled,
            message: "the gateway is closing".to_owned(),
            retryable: true,
        };
        if self.stop.is_cancelled() {
            return Outcome::Refused(failure);
        }
        let ended = self.stop.child_token();
        let dropped = ended.clone().drop_guard();
        let call = Call {
            session,
            tool,
            arguments,
            caller: Caller::Direct(origin),
            number: 0,
            progress,
            prints,
            cancel: ended.clone(),
            at: jiff::Timestamp::now(),
            began: Instant::now(),
        };
        let gateway = self.clone();
        let job = self.jobs.spawn(async move { gateway.travel(call).await });
        tokio::pin!(job);
        let outcome = tokio::select! {
            outcome = &mut job => outcome,
            () = cancel.cancelled() => {
                ended.cancel();
                job.await
            }
        };
        dropped.disarm();
        outcome.unwrap_or_else(|error| {
            tracing::error!(%error, "a call broke off");
            Outcome::Failed(Failure {
                kind: script::Kind::Upstream,
                message: "the call broke off because of a fault in pinfold; see its log".to_owned(),
                retryable: false,
                ..failure
            })
        })
    }

    /// The whole road.
    pub(crate) async fn travel(self: &Arc<Self>, call: Call) -> Outcome {
        let mut underway = Underway { call, stage: Stage::Prepare };
        let ready = match self.prepare(&underway.call).await {
            Ok(ready) => ready,
            Err(outcome) => {
                underway.stage = Stage::Over;
                let ended = Ended::before(outcome);
                audit::record(self, &underway.call, &ended).await;
                self.tell_finished(&underway.call, None, &ended);
                return ended.outcome;
            }
        };
        let gateway = self.clone();
        match underway.call.caller.clone() {
            // A script that ends drops the calls it waits for; a write has to be seen through.
            Caller::Script(script) if ready.writes() => {
                let failure = underway.call.failure(script::Kind::Upstream, "the call broke off");
                let job = script.writes.spawn(async move { gateway.finish(underway, ready).await });
                job.await.unwrap_or(Outcome::Failed(failure))
            }
            _ => gateway.finish(underway, ready).await,
        }
    }

    /// `resolve → check → decide → approve`.
    async fn prepare(&self, call: &Call) -> Result<Ready, Outcome> {
        self.settle_definition(call).await.map_err(Outcome::Refused)?;
        let target = resolve(self, call).map_err(Outcome::Refused)?;
        let plan = check(self, call, target).await.map_err(Outcome::Refused)?;
        let decision = decide(self, call, &plan).await.map_err(Outcome::Refused)?;
        let grant = approve(self, call, &plan, decision).await?;
        Ok(Ready { plan, grant })
    }

    /// What is decided is decided about the tool as it is now: a server that has announced a
    /// change is waited for, and where its new list does not come, nothing is written.
    async fn settle_definition(&self, call: &Call) -> Result<(), Failure> {
        let table = self.catalog.table();
        let Some(known) = table.get(&call.tool) else { return Ok(()) };
        if known.source.settled().await
            || visible(&call.session, known).is_none_or(|facts| facts.effect == Effect::Read)
        {
            return Ok(());
        }
        let message = format!(
            "its server has announced that its tools changed and does not list them, so {} was \
             not called; try again",
            known.name
        );
        Err(Failure { retryable: true, ..call.failure(script::Kind::Upstream, message) })
    }

    /// `run → record`.
    async fn finish(self: Arc<Self>, mut underway: Underway, ready: Ready) -> Outcome {
        let approved_by = ready.grant.by().map(str::to_owned);
        let approval = ready.grant.approval();
        underway.stage = Stage::Run;
        let call = &underway.call;
        let told = self.tell_started(call);
        let mut ended = match ready.plan {
            Plan::Tool(known, facts) => tool::run(ready.grant, &self, call, &known, facts).await,
            Plan::Script(plan) => run_script::run(ready.grant, &self, call, *plan).await,
        };
        underway.stage = Stage::Over;
        ended.approved_by = approved_by;
        if let (true, Some(approval)) = (ended.unsent, approval) {
            give_back(&self, &approval, &mut ended.outcome).await;
        }
        audit::record(&self, &underway.call, &ended).await;
        self.tell_finished(&underway.call, told, &ended);
        ended.outcome
    }
}

impl Ready {
    fn writes(&self) -> bool {
        matches!(&self.plan, Plan::Tool(_, facts) if facts.effect != Effect::Read)
    }
}

/// A call before *record*. A script that ends drops the calls it waits for: those are written down,
/// too.
struct Underway {
    call: Call,
    stage: Stage,
}

/// How far a call is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Prepare,
    Run,
    Over,
}

impl Drop for Underway {
    fn drop(&mut self) {
        let Caller::Script(script) = &self.call.caller else { return };
        let failure = self.call.failure(script::Kind::Cancelled, "the script ended first");
        let outcome = match self.stage {
            Stage::Prepare => Outcome::Refused(failure),
            Stage::Run => Outcome::Failed(failure),
            Stage::Over => return,
        };
        script.ended(&self.call, &Ended::before(outcome));
    }
}

/// Name → source and definition, as far as the session may see them.
fn resolve(gateway: &Gateway, call: &Call) -> Result<Target, Failure> {
    let from_script = matches!(call.caller, Caller::Script(_));
    if call.tool == run_script::NAME && !from_script {
        return match gateway.without_scripts(&call.session) {
            None => Ok(Target::RunScript),
            Some(reason) => Err(call.failure(
                script::Kind::UnknownTool,
                format!("run_script is not offered: {reason}"),
            )),
        };
    }
    let table = gateway.catalog.table();
    let found = table.get(&call.tool);
    if let Some(known) = found
        && let Some(facts) = visible(&call.session, known)
    {
        return Ok(Target::Tool(known.clone(), facts));
    }
    Err(refusal::unknown(gateway, call, from_script))
}

/// The cheap refusals, so that nobody is asked about a call that would fail anyway.
async fn check(gateway: &Gateway, call: &Call, target: Target) -> Result<Plan, Failure> {
    let wrong = |reason: String| call.failure(script::Kind::InvalidArguments, reason);
    match target {
        Target::Tool(known, facts) => {
            if facts.task_only && matches!(call.caller, Caller::Direct(_)) {
                return Err(call.failure(
                    script::Kind::TaskOnly,
                    format!(
                        "{} can only be run as a background task, which this version cannot do",
                        known.name
                    ),
                ));
            }
            fit(&known, &call.arguments).map_err(wrong)?;
            Ok(Plan::Tool(known, facts))
        }
        Target::RunScript => {
            let plan = run_script::plan(gateway, call).await?;
            Ok(Plan::Script(Box::new(plan)))
        }
    }
}

fn fit(known: &Known, arguments: &RawValue) -> Result<(), String> {
    let value = json::strict(arguments)
        .map_err(|error| format!("the arguments cannot be read: {error}"))?;
    if !value.is_object() {
        return Err("the arguments must be a JSON object".to_owned());
    }
    known
        .schema()
        .check(&value)
        .map_err(|fault| format!("the arguments do not fit {}: {fault}", known.name))
}

/// The permission table, with what the store and the script know of earlier answers.
async fn decide(gateway: &Gateway, call: &Call, plan: &Plan) -> Result<Decision, Failure> {
    let mode = call.session.profile.permission_mode;
    match (plan, &call.caller) {
        (Plan::Script(plan), _) => Ok(plan.decision()),
        (Plan::Tool(known, facts), Caller::Script(script)) => {
            let from = script.standing(known);
            let question = policy::Question { mode, facts: *facts, from, session_allows: false };
            Ok(policy::decide(question))
        }
        (Plan::Tool(known, facts), Caller::Direct(_)) => {
            let question = |session_allows| policy::Question {
                mode,
                facts: *facts,
                from: From::Direct,
                session_allows,
            };
            let decision = policy::decide(question(false));
            if decision != (Decision::Ask { session: true }) {
                return Ok(decision);
            }
            let allows = session_allows(gateway, call, known).await?;
            Ok(policy::decide(question(allows)))
        }
    }
}

/// Whether "this session" was answered for this definition of the tool.
pub(crate) async fn session_allows(
    gateway: &Gateway,
    call: &Call,
    known: &Known,
) -> Result<bool, Failure> {
    let found =
        gateway.store.session_allows(&call.session.id, &known.name, &known.definition).await;
    found.map_err(|error| refusal::unstored(call, &error))
}

/// The only place that makes a [`Grant`].
async fn approve(
    gateway: &Gateway,
    call: &Call,
    plan: &Plan,
    decision: Decision,
) -> Result<Grant, Outcome> {
    // Nothing is sent, and no answer used up, for somebody who does not want it any more.
    if call.cancel.is_cancelled() {
        let message = "the call was cancelled before it was sent";
        return Err(Outcome::Refused(call.failure(script::Kind::Cancelled, message)));
    }
    let definitions = match plan {
        Plan::Script(plan) => plan.covered(),
        Plan::Tool(..) => HashMap::new(),
    };
    let session = match decision {
        Decision::Allow => return Ok(Grant { by: None, approval: None, definitions }),
        Decision::Deny(reason) => {
            let known = match plan {
                Plan::Tool(known, _) => Some(&**known),
                Plan::Script(_) => None,
            };
            return Err(Outcome::Refused(refusal::denied(call, known, reason)));
        }
        Decision::Ask { session } => session,
    };
    let failed = |error: &dyn std::fmt::Display| Outcome::Refused(refusal::unstored(call, error));
    let (key, payload) = match plan {
        Plan::Script(plan) => plan.question(&call.session, &call.arguments),
        Plan::Tool(known, _) => question(call, known, session).map_err(|error| failed(&error))?,
    };
    let now = crate::gateway::now_ms();
    let answer = gateway.store.take_answer(&key, now).await.map_err(|error| failed(&error))?;
    match answer {
        Some(store::Taken {
            answer: store::Answer { kind: store::AnswerKind::Deny, reason, by },
            ..
        }) => {
            let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            let message = format!("{by} did not allow it{because}");
            Err(Outcome::Refused(call.failure(script::Kind::Denied, message)))
        }
        Some(store::Taken { id, answer }) => {
            Ok(Grant { by: Some(answer.by), approval: Some(id), definitions })
        }
        None => {
            let question = Question { session: &call.session, tool: &call.tool, key, payload };
            let asked = gateway.ask(question).await.map_err(|error| failed(&error))?;
            Err(Outcome::NeedsApproval(Box::new(asked)))
        }
    }
}

/// Of what was allowed nothing was done, so the answer is still good.
async fn give_back(gateway: &Gateway, approval: &str, outcome: &mut Outcome) {
    let given = gateway.store.give_back(approval).await;
    let (Outcome::Refused(failure) | Outcome::Failed(failure)) = outcome else { return };
    failure.message.push_str(match given {
        Ok(()) => "; the approval was not used up and still holds for the same call",
        Err(error) => {
            tracing::error!(approval, %error, "an approval could not be given back");
            "; the approval is used up"
        }
    });
}

/// What a person is asked about a direct call, and the key it is bound by.
fn question(call: &Call, known: &Known, session: bool) -> Result<(String, Payload), String> {
    let arguments = json::canonical(&call.arguments)?;
    let key = json::hash([
        "call",
        call.session.principal.as_str(),
        call.session.id.as_str(),
        known.name.as_str(),
        known.definition.as_str(),
        arguments.as_str(),
    ]);
    let choices = if session {
        vec![Choice::Once, Choice::Session, Choice::Deny]
    } else {
        vec![Choice::Once, Choice::Deny]
    };
    let payload = Payload {
        description: None,
        code: None,
        arguments: Arc::from(call.arguments.clone()),
        listed: Vec::new(),
        unlisted: Vec::new(),
        choices,
        definitions: [(known.name.clone(), known.definition.clone())].into(),
    };
    Ok((key, payload))
}

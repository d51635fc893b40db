//! The road of a call: `resolve → check → decide → approve → run → record`.
//!
//! Every call takes it, a model's as well as one that a script makes; what differs is the
//! [`Caller`]. The road can be walked again: *approve* does not wait for a person but answers
//! [`Outcome::NeedsApproval`], and the same call made later finds the answer. *run* needs a
//! [`Grant`], which only *approve* can make. A call runs in a task of its own, so that a caller who
//! goes away cancels it and it is still recorded; one that takes long goes on without them (`job`).

use std::sync::Arc;
use std::time::Instant;

use serde_json::value::RawValue;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::background::{Begun, Reports};
use crate::gateway::{Gateway, visible};
use crate::policy::Effect;
use crate::request::{Failure, Origin, Outcome};
use crate::session::Session;
use crate::sources::run_script::{self, Script};
use crate::sources::tool;
use crate::{audit, json, refusal};

mod job;

mod decide;

mod grant;

pub(crate) use decide::session_allows;
use decide::{Plan, check, decide, resolve};
pub(crate) use grant::Grant;
use grant::{approve, give_back};

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
    pub(crate) progress: Option<Arc<Reports>>,
    /// Told when its work begins; of calls that may go on in the background.
    pub(crate) begun: Option<watch::Sender<Option<Begun>>>,
    /// What goes along with it to the tool's server.
    pub(crate) passed: mcp::Passed,
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
    /// The whole road.
    pub(crate) async fn travel(self: &Arc<Self>, call: Arc<Call>) -> Outcome {
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
        let settled = tokio::select! {
            settled = known.source.settled() => settled,
            // What is cancelled is refused further on.
            () = call.cancel.cancelled() => return Ok(()),
        };
        if !known.source.confirmed() {
            return Err(refusal::unconfirmed(call, &*known.source));
        }
        if settled || visible(&call.session, known).is_none_or(|facts| facts.effect == Effect::Read)
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
        let call = &*underway.call;
        let told = self.tell_started(call);
        if let Some(begun) = &call.begun {
            begun.send_replace(ready.plan.begun(&self.scripts));
        }
        let mut ended = match ready.plan {
            Plan::Tool(known, facts) => tool::run(ready.grant, &self, call, &known, facts).await,
            Plan::Script(plan) => run_script::run(ready.grant, &self, call, *plan).await,
            Plan::Own(own) => own.tool.run(ready.grant, &self, call).await,
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
    call: Arc<Call>,
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

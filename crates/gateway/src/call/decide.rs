//! `resolve → check → decide`: what is called, whether it could work, and what the table says.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use super::{Call, Caller};
use crate::background::Begun;
use crate::catalog::Known;
use crate::config::Scripts;
use crate::gateway::{Gateway, visible};
use crate::policy::{self, Decision, Facts, From};
use crate::request::Failure;
use crate::schema::Schema;
use crate::sources::{own, run_script};
use crate::{json, refusal};

/// What *resolve* found.
#[derive(Debug)]
pub(super) enum Target {
    Tool(Arc<Known>, Facts),
    Own(&'static own::Entry),
}

/// What *check* found out about it.
#[derive(Debug)]
pub(super) enum Plan {
    Tool(Arc<Known>, Facts),
    Script(Box<run_script::Plan>),
    Own(&'static own::Entry),
}

impl Plan {
    /// What has to be known of it if it goes on in the background; nothing if it must not.
    pub(super) fn begun(&self, scripts: &Scripts) -> Option<Begun> {
        match self {
            Self::Tool(_, facts) => Some(Begun {
                description: String::new(),
                task_only: facts.task_only,
                longest: Duration::from_secs(scripts.call_timeout_sec),
            }),
            Self::Script(plan) => Some(Begun {
                description: plan.description.clone(),
                task_only: false,
                longest: Duration::from_secs(scripts.timeout_sec),
            }),
            Self::Own(_) => None,
        }
    }
}

/// Name → source and definition, as far as the session may see them.
pub(super) fn resolve(gateway: &Gateway, call: &Call) -> Result<Target, Failure> {
    let from_script = matches!(call.caller, Caller::Script(_));
    if let Some(own) = own::find(&call.tool).filter(|_| !from_script) {
        return match own.withheld(gateway, &call.session) {
            None => Ok(Target::Own(own)),
            Some(reason) => Err(call.failure(
                script::Kind::UnknownTool,
                format!("{} is not offered: {reason}", call.tool),
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
pub(super) async fn check(gateway: &Gateway, call: &Call, target: Target) -> Result<Plan, Failure> {
    let wrong = |reason: String| call.failure(script::Kind::InvalidArguments, reason);
    match target {
        Target::Tool(known, facts) => {
            if facts.task_only && matches!(call.caller, Caller::Direct(_)) && call.begun.is_none() {
                return Err(call.failure(
                    script::Kind::TaskOnly,
                    format!(
                        "{} can only be run in the background, which calls from the command line \
                         never are, and no call where background_calls.auto_after_sec is 0",
                        known.name
                    ),
                ));
            }
            fit(&known.name, known.schema(), &call.arguments).map_err(wrong)?;
            Ok(Plan::Tool(known, facts))
        }
        Target::Own(own) => {
            fit(&call.tool, own.schema(), &call.arguments).map_err(wrong)?;
            if !own.tool.is_script() {
                return Ok(Plan::Own(own));
            }
            let plan = run_script::plan(gateway, call).await?;
            Ok(Plan::Script(Box::new(plan)))
        }
    }
}

fn fit(name: &str, schema: &Schema, arguments: &RawValue) -> Result<(), String> {
    let value = json::strict(arguments)
        .map_err(|error| format!("the arguments cannot be read: {error}"))?;
    if !value.is_object() {
        return Err("the arguments must be a JSON object".to_owned());
    }
    schema.check(&value).map_err(|fault| format!("the arguments do not fit {name}: {fault}"))
}

/// The permission table, with what the store and the script know of earlier answers.
pub(super) async fn decide(
    gateway: &Gateway,
    call: &Call,
    plan: &Plan,
) -> Result<Decision, Failure> {
    let mode = call.session.profile.permission_mode;
    match (plan, &call.caller) {
        (Plan::Script(plan), _) => Ok(plan.decision()),
        (Plan::Own(_), _) => Ok(Decision::Allow),
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

//! What a script is about to do: its code, the tools it lists, and whether a person is asked.
//!
//! Code that does not parse and listed names that cannot be used are refused here. Writes that the
//! code names without listing them are only shown: the script may never get there.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::Arc;

use script::Checked;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Reach, RunScript};
use crate::approval::{Choice, ListedTool, Payload};
use crate::call::{self, Call};
use crate::catalog::Known;
use crate::gateway::{Gateway, visible};
use crate::policy::{ApprovalRule, Decision, Effect, Facts, PermissionMode};
use crate::records::folder;
use crate::request::Failure;
use crate::session::Session;
use crate::sources::own::{self, Own as _};
use crate::{json, names, refusal};

/// Longest script in bytes: somebody may have to read it.
const LONGEST_CODE: usize = 1 << 20;

/// Most tools that a script can list.
const MOST_TOOLS: usize = 500;

/// Longest description that is kept.
const DESCRIPTION_CHARACTERS: usize = 500;

#[derive(Deserialize)]
struct Input {
    code: String,
    #[serde(default)]
    tools: Vec<String>,
    description: String,
}

/// A script that could run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) code: String,
    pub(crate) description: String,
    /// Sorted by name, each once.
    pub(crate) tools: Vec<Tool>,
    unlisted: Vec<(String, u32)>,
    /// The profile wants every script asked about.
    always: bool,
}

/// A tool that the script lists.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) known: Arc<Known>,
    standing: Standing,
}

/// What a listed tool needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// No approval.
    Free,
    /// "This session" was answered for it.
    Allowed,
    /// A person is asked.
    Asked,
}

/// Reads and checks a call of `run_script`, whose arguments fit its schema.
pub(crate) async fn plan(gateway: &Gateway, call: &Call) -> Result<Plan, Failure> {
    let wrong = |reason: String| call.failure(script::Kind::InvalidArguments, reason);
    let input = read(&call.arguments).map_err(wrong)?;
    let Input { code, tools, description } = input;
    let engine = gateway.engine.as_ref().map_err(|reason| {
        call.failure(script::Kind::UnknownTool, format!("run_script is not offered: {reason}"))
    })?;
    let checked = engine.check(&code).await.map_err(|error| {
        call.failure(script::Kind::Upstream, format!("the script was not started: {error}"))
    })?;
    let calls = match checked {
        Checked::Parses { calls } => calls,
        Checked::SyntaxError { line, message } => {
            return Err(wrong(format!("the script does not parse, line {line}: {message}")));
        }
    };
    // Nobody is to be asked about a script that could then not be written down.
    let workspace = call.session.directory().map_err(|error| error.to_string());
    workspace.and_then(|workspace| folder::ground(workspace.as_fd()).map(drop)).map_err(
        |reason| {
            call.failure(script::Kind::Upstream, format!("the script was not started: {reason}"))
        },
    )?;
    confirm(gateway, call, &tools).await?;
    let found = list(gateway, &call.session, &tools)
        .map_err(|(kind, reason)| call.failure(kind, reason))?;
    let mut planned = Vec::with_capacity(found.len());
    for (known, facts) in found {
        let standing = if !needs_approval(facts, call.session.profile.permission_mode) {
            Standing::Free
        } else if call::session_allows(gateway, call, &known).await? {
            Standing::Allowed
        } else {
            Standing::Asked
        };
        planned.push(Tool { known, standing });
    }
    let unlisted = unlisted(gateway, &call.session, &planned, calls);
    let rule = call.session.profile.tools.get(&call.tool);
    let facts = RunScript(Reach::of(&call.tool)).facts(rule);
    let always = facts.approval == ApprovalRule::Always;
    Ok(Plan {
        code,
        description: json::one_line(&description, DESCRIPTION_CHARACTERS),
        tools: planned,
        unlisted,
        always,
    })
}

/// Waits for the servers of the listed tools: what a person is asked is asked about the tools as
/// they are, and not as they are remembered.
async fn confirm(gateway: &Gateway, call: &Call, tools: &[String]) -> Result<(), Failure> {
    let table = gateway.catalog.table();
    let unconfirmed: Vec<_> = tools
        .iter()
        .filter_map(|name| table.get(name))
        .map(|known| &known.source)
        .filter(|source| !source.confirmed())
        .collect();
    let settling = unconfirmed.iter().map(|source| source.settled());
    tokio::select! {
        _ = futures_util::future::join_all(settling) => {}
        () = call.cancel.cancelled() => return Ok(()),
    }
    match unconfirmed.iter().find(|source| !source.confirmed()) {
        Some(source) => Err(refusal::unconfirmed(call, &***source)),
        None => Ok(()),
    }
}

fn read(arguments: &RawValue) -> Result<Input, String> {
    let value = json::strict(arguments)
        .map_err(|error| format!("the arguments cannot be read: {error}"))?;
    let input: Input = serde_json::from_value(value).map_err(|error| error.to_string())?;
    if input.code.trim().is_empty() {
        return Err("`code` is empty: give a Python script".to_owned());
    }
    if input.code.len() > LONGEST_CODE {
        return Err(format!(
            "the script has {} bytes, at most {LONGEST_CODE} are taken; keep data in a file of the \
             workspace",
            input.code.len()
        ));
    }
    if input.code.contains('\0') {
        return Err("the script holds a NUL character; remove it".to_owned());
    }
    if input.tools.len() > MOST_TOOLS {
        return Err(format!("`tools` lists more than {MOST_TOOLS} tools"));
    }
    Ok(input)
}

/// Listed tools and what is known of them.
type Found = Vec<(Arc<Known>, Facts)>;

/// The listed tools, or everything that is wrong with the list, with the kind of its first fault:
/// what policy refuses is not the same as a name that was mistyped.
fn list(
    gateway: &Gateway,
    session: &Session,
    tools: &[String],
) -> Result<Found, (script::Kind, String)> {
    let mode = session.profile.permission_mode;
    let table = gateway.catalog.table();
    let mut found = Found::new();
    let mut wrong = Vec::new();
    let mut kind = None;
    for name in tools {
        let shown = json::cut(name, 200);
        let visible = table.get(name).and_then(|known| Some((known, visible(session, known)?)));
        match visible {
            Some((_, facts)) if facts.task_only => {
                kind.get_or_insert(script::Kind::TaskOnly);
                wrong.push(format!("{shown:?} can only be run as a task: call it directly"));
            }
            Some((_, facts)) if !facts.in_scripts(mode) => {
                kind.get_or_insert(script::Kind::Destructive);
                wrong.push(format!("{shown:?} is confirmed each time: call it directly"));
            }
            Some((known, facts)) => {
                if !found.iter().any(|(other, _)| other.name == known.name) {
                    found.push((known.clone(), facts));
                }
            }
            None if own::find(name).is_some() => {
                kind.get_or_insert(script::Kind::UnknownTool);
                wrong.push(format!("{shown:?} cannot be called from a script"));
            }
            None if mode == PermissionMode::ReadOnly && table.get(name).is_some() => {
                kind.get_or_insert(script::Kind::UnknownTool);
                wrong.push(format!("{shown:?} is not offered: the profile is read-only"));
            }
            None => {
                kind.get_or_insert(script::Kind::UnknownTool);
                let offered = gateway.tools(session);
                let usable = offered.iter().filter(|tool| tool.in_scripts);
                let meant = names::similar(name, usable.map(|tool| tool.name.as_str()));
                wrong.push(format!("there is no tool {shown:?}{}", names::did_you_mean(&meant)));
            }
        }
    }
    if wrong.is_empty() {
        found.sort_by(|a, b| a.0.name.cmp(&b.0.name));
        return Ok(found);
    }
    let more = wrong.len().saturating_sub(10);
    wrong.truncate(10);
    if more > 0 {
        wrong.push(format!("and {more} more"));
    }
    let kind = kind.unwrap_or(script::Kind::InvalidArguments);
    Err((kind, format!("`tools` cannot be used as it is: {}", wrong.join("; "))))
}

fn needs_approval(facts: Facts, mode: PermissionMode) -> bool {
    facts.effect != Effect::Read
        && facts.approval == ApprovalRule::Mode
        && mode == PermissionMode::Ask
}

/// Writes that the code names and does not list, each once, with the first line.
fn unlisted(
    gateway: &Gateway,
    session: &Session,
    tools: &[Tool],
    calls: Vec<(String, u32)>,
) -> Vec<(String, u32)> {
    let table = gateway.catalog.table();
    let mut unlisted: Vec<(String, u32)> = Vec::new();
    for (name, line) in calls {
        let writes = table
            .get(&name)
            .and_then(|known| visible(session, known))
            .is_some_and(|facts| facts.effect != Effect::Read);
        let listed = tools.iter().any(|tool| tool.known.name == name);
        if writes && !listed && !unlisted.iter().any(|(other, _)| *other == name) {
            unlisted.push((name, line));
        }
    }
    unlisted
}

impl Plan {
    /// One approval for all listed writes that need one; none if none does.
    pub(crate) fn decision(&self) -> Decision {
        let asked = self.tools.iter().any(|tool| tool.standing == Standing::Asked);
        if self.always || asked { Decision::Ask { session: false } } else { Decision::Allow }
    }

    /// The definitions that starting the script covers.
    pub(crate) fn covered(&self) -> HashMap<String, String> {
        self.tools
            .iter()
            .filter(|tool| tool.standing != Standing::Free)
            .map(|tool| (tool.known.name.clone(), tool.known.definition.clone()))
            .collect()
    }

    /// What a person is asked, and the key it is bound by.
    pub(crate) fn question(&self, session: &Session, arguments: &RawValue) -> (String, Payload) {
        let tools = self.tools.iter().map(|tool| &tool.known);
        let mut parts =
            vec!["script", session.principal.as_str(), session.id.as_str(), self.code.as_str()];
        for known in tools.clone() {
            parts.push(&known.name);
            parts.push(&known.definition);
        }
        let key = json::hash(parts);
        let payload = Payload {
            description: Some(self.description.clone()),
            code: Some(self.code.clone()),
            arguments: Arc::from(arguments.to_owned()),
            listed: self
                .tools
                .iter()
                .map(|tool| ListedTool {
                    name: tool.known.name.clone(),
                    asked: tool.standing == Standing::Asked,
                })
                .collect(),
            unlisted: self.unlisted.clone(),
            choices: vec![Choice::Once, Choice::Deny],
            definitions: tools
                .map(|known| (known.name.clone(), known.definition.clone()))
                .collect(),
        };
        (key, payload)
    }
}

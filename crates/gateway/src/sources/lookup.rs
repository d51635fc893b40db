//! `list_tools` and `describe_tools`: finding one's way where the tools are too many to stand in
//! the description of `run_script`.
//!
//! They tell what the session is offered anyway and change nothing.

use std::fmt::Write as _;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::own::{self, Own};
use super::run_script::holds_all;
use crate::call::{Call, Ended, Grant};
use crate::config::ToolRule;
use crate::gateway::Gateway;
use crate::policy::{ApprovalRule, Effect, Facts};
use crate::request::{Failure, Outcome};
use crate::session::Session;
use crate::view::{Offered, View};
use crate::{json, names, signature};

pub(crate) const LIST: &str = "list_tools";
pub(crate) const DESCRIBE: &str = "describe_tools";

/// Tools on a page, if nothing else is asked for, and most.
const USUAL_PAGE: usize = 20;
const LONGEST_PAGE: usize = 100;

/// Most tools that are described at once.
const MOST_NAMES: usize = 20;

/// Longest answer, in characters, and the parts of it.
const ANSWER: usize = 60_000;
const DESCRIPTION: usize = 4_000;
const SCHEMA: usize = 16_000;
const GIST: usize = 140;

/// The tool `list_tools`.
#[derive(Debug)]
pub(crate) struct ListTools;

/// The tool `describe_tools`.
#[derive(Debug)]
pub(crate) struct DescribeTools;

fn facts() -> Facts {
    Facts { effect: Effect::Read, approval: ApprovalRule::Direct, task_only: false }
}

fn missing(gateway: &Gateway, session: &Session) -> Option<String> {
    let view = gateway.view(session);
    holds_all(&gateway.scripts, &view)
        .then(|| "all tools stand in the description of run_script".to_owned())
}

fn definition(name: &str, title: &str, description: &str, schema: &Value) -> Arc<RawValue> {
    Arc::from(json::raw(&json!({
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": schema,
        "annotations": {
            "readOnlyHint": true,
            "destructiveHint": false,
            "idempotentHint": true,
            "openWorldHint": false,
        },
        "_meta": {"anthropic/alwaysLoad": true},
    })))
}

#[async_trait::async_trait]
impl Own for ListTools {
    fn name(&self) -> &'static str {
        LIST
    }

    fn facts(&self, _rule: Option<&ToolRule>) -> Facts {
        facts()
    }

    fn missing(&self, gateway: &Gateway, session: &Session) -> Option<String> {
        missing(gateway, session)
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "description": "What the tool should do, in a few words. Without it, all tools by name.",
                    "maxLength": 1000,
                },
                "server": {"type": "string", "description": "Only tools of this server."},
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": LONGEST_PAGE,
                    "default": USUAL_PAGE,
                },
                "cursor": {
                    "type": "string",
                    "description": "From the end of the last answer, for the next page.",
                },
            },
            "additionalProperties": false,
        })
    }

    fn definition(&self, _gateway: &Gateway, _session: &Session) -> Arc<RawValue> {
        let description = format!(
            "Finds tools of the servers by what they do, best first: for each its signature and \
             what it is for. `read` tools can be called freely, `write` tools have to be listed in \
             `tools` of run_script, `direct` ones cannot be called from a script. {DESCRIBE} tells \
             the rest."
        );
        definition(LIST, "Find tools", &description, &self.input_schema())
    }

    async fn run(&self, _grant: Grant, gateway: &Arc<Gateway>, call: &Call) -> Ended {
        let view = gateway.view(&call.session);
        ended(call, list(&view, &call.arguments))
    }
}

#[async_trait::async_trait]
impl Own for DescribeTools {
    fn name(&self) -> &'static str {
        DESCRIBE
    }

    fn facts(&self, _rule: Option<&ToolRule>) -> Facts {
        facts()
    }

    fn missing(&self, gateway: &Gateway, session: &Session) -> Option<String> {
        missing(gateway, session)
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "names": {
                    "type": "array",
                    "items": {"type": "string"},
                    "minItems": 1,
                    "maxItems": MOST_NAMES,
                    "description": "Full names of tools, as list_tools gives them.",
                },
            },
            "required": ["names"],
            "additionalProperties": false,
        })
    }

    fn definition(&self, _gateway: &Gateway, _session: &Session) -> Arc<RawValue> {
        let description = format!(
            "Tells how tools are called: signature, description and schemas of up to {MOST_NAMES} \
             tools, by their full names."
        );
        definition(DESCRIBE, "Describe tools", &description, &self.input_schema())
    }

    async fn run(&self, _grant: Grant, gateway: &Arc<Gateway>, call: &Call) -> Ended {
        let view = gateway.view(&call.session);
        ended(call, describe(&view, &call.arguments))
    }
}

fn ended(call: &Call, said: Result<(String, bool), String>) -> Ended {
    let outcome = match said {
        Ok((text, is_error)) => Outcome::Done(own::text(text, is_error)),
        Err(reason) => {
            let failure: Failure = call.failure(script::Kind::InvalidArguments, reason);
            Outcome::Refused(failure)
        }
    };
    Ended { unsent: false, ..Ended::before(outcome) }
}

#[derive(Deserialize)]
struct Wanted {
    #[serde(default)]
    query: String,
    server: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

fn list(view: &View, arguments: &RawValue) -> Result<(String, bool), String> {
    let wanted: Wanted =
        serde_json::from_str(arguments.get()).map_err(|error| error.to_string())?;
    let query = wanted.query.trim();
    let mut found: Vec<&Offered> =
        if query.is_empty() { view.tools.iter().collect() } else { search(view, query) };
    if let Some(server) = &wanted.server {
        check_server(view, server)?;
        found.retain(|tool| tool.known.source.name() == server);
    }
    if found.is_empty() {
        return Ok((nothing(view, query), false));
    }
    // A cursor counts in this list and in no other.
    let mark = json::hash(found.iter().map(|tool| tool.known.definition.as_str()));
    let mark = &mark[..8];
    let from = match &wanted.cursor {
        Some(cursor) => place(cursor, mark).ok_or(
            "this cursor is of another list: the tools or the query changed; begin without one",
        )?,
        None => 0,
    };
    let page = wanted.limit.unwrap_or(USUAL_PAGE).clamp(1, LONGEST_PAGE);
    let mut text = match query {
        "" => format!("{} tools", found.len()),
        query => format!("{} of {} tools fit {query:?}, best first", found.len(), view.tools.len()),
    };
    for tool in found.iter().skip(from).take(page) {
        let gist = tool.known.tool.description.as_deref().unwrap_or_default();
        let gist = json::one_line(gist, GIST);
        let between = if gist.is_empty() { "" } else { ": " };
        let _ =
            write!(text, "\n{}  # {}{between}{gist}", signature::of(&tool.known), standing(tool));
    }
    if from + page < found.len() {
        let _ = write!(text, "\nmore: the same with cursor \"{}.{mark}\"", from + page);
    }
    Ok((text, false))
}

/// What fits; where the query is a name, first the tools that have one like it.
fn search<'a>(view: &'a View, query: &str) -> Vec<&'a Offered> {
    let mut found = view.search(query);
    if query.contains('_') && !query.contains(char::is_whitespace) {
        let names = view.tools.iter().map(|tool| tool.known.name.as_str());
        let meant = names::similar(query, names);
        let rank = |tool: &&Offered| {
            meant.iter().position(|name| *name == tool.known.name).unwrap_or(meant.len())
        };
        found.sort_by_key(rank);
    }
    found
}

fn place(cursor: &str, mark: &str) -> Option<usize> {
    let (place, of) = cursor.split_once('.')?;
    if of != mark { None } else { place.parse().ok() }
}

fn check_server(view: &View, server: &str) -> Result<(), String> {
    let mut servers: Vec<&str> = view.tools.iter().map(|tool| tool.known.source.name()).collect();
    servers.sort_unstable();
    servers.dedup();
    if servers.contains(&server) {
        return Ok(());
    }
    let meant = names::similar(server, servers.iter().copied());
    let meant = match names::did_you_mean(&meant) {
        meant if meant.is_empty() => {
            let shown: Vec<&str> = servers.iter().take(50).copied().collect();
            format!("; there are {}", shown.join(", "))
        }
        meant => meant,
    };
    Err(format!("there is no server {:?} with tools{meant}", json::cut(server, 100)))
}

fn nothing(view: &View, query: &str) -> String {
    if query.is_empty() {
        return "no tools".to_owned();
    }
    let names = view.tools.iter().map(|tool| tool.known.name.as_str());
    let meant = names::did_you_mean(&names::similar(query, names));
    format!(
        "no tool fits {query:?}{meant}{} try other words, or no query for all {} tools",
        if meant.is_empty() { ":" } else { "" },
        view.tools.len()
    )
}

/// How a tool can be used, in a word.
fn standing(tool: &Offered) -> &'static str {
    match (tool.in_scripts, tool.facts.effect) {
        (false, _) => "direct",
        (true, Effect::Read) => "read",
        (true, _) => "write",
    }
}

#[derive(Deserialize)]
struct Named {
    names: Vec<String>,
}

#[derive(Deserialize)]
struct Schemas<'a> {
    #[serde(borrow, default, rename = "outputSchema")]
    output: Option<&'a RawValue>,
}

fn describe(view: &View, arguments: &RawValue) -> Result<(String, bool), String> {
    let Named { names } =
        serde_json::from_str(arguments.get()).map_err(|error| error.to_string())?;
    let mut parts: Vec<String> = Vec::new();
    let (mut length, mut known) = (0, 0);
    for (place, name) in names.iter().enumerate() {
        let place_of = view.tools.binary_search_by(|tool| tool.known.name.as_str().cmp(name));
        let part = match place_of.ok().and_then(|place| view.tools.get(place)) {
            Some(tool) => {
                known += 1;
                described(tool)
            }
            None => {
                let all = view.tools.iter().map(|tool| tool.known.name.as_str());
                let meant = names::did_you_mean(&names::similar(name, all));
                format!("there is no tool {:?}{meant}", json::cut(name, 200))
            }
        };
        length += part.chars().count();
        if length > ANSWER && place > 0 {
            let rest: Vec<String> =
                names[place..].iter().map(|name| json::cut(name, 100)).collect();
            parts.push(format!("for want of room left out, ask again: {}", rest.join(", ")));
            break;
        }
        parts.push(part);
    }
    Ok((parts.join("\n\n"), known == 0))
}

fn described(tool: &Offered) -> String {
    let known = &tool.known;
    let mut text = format!(
        "{}  # {}, of the server {}",
        signature::of(known),
        standing(tool),
        known.source.name()
    );
    if let Some(description) = known.tool.description.as_deref().filter(|text| !text.is_empty()) {
        let _ = write!(text, "\n{}", json::cut(description.trim(), DESCRIPTION));
    }
    let schemas: Option<Schemas<'_>> = serde_json::from_str(known.tool.raw.get()).ok();
    let output = schemas.and_then(|schemas| schemas.output);
    let _ = write!(text, "\narguments: {}", json::bounded(&known.tool.input_schema, SCHEMA));
    if let Some(output) = output {
        let _ = write!(text, "\nresult: {}", json::bounded(output, SCHEMA));
    }
    text
}

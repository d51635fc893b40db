//! The tool `run_script`: one script that calls servers' tools, in the sandbox, through the gateway.
//!
//! [`plan()`] refuses what cannot work before anybody is asked, [`run()`] starts what was granted. What
//! a single call of the script may do is not decided here: it takes the same road as any other.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::own::Own;
use crate::call::{Call, Ended, Grant};
use crate::config::{Scripts, ToolRule};
use crate::gateway::{Gateway, visible};
use crate::json;
use crate::policy::{ApprovalRule, Effect, Facts};
use crate::request::Outcome;
use crate::session::Session;

mod plan;
mod run;

mod host;

mod answer;

pub(crate) use host::Script;
pub(crate) use plan::{Plan, plan};
pub(crate) use run::run;

/// Its name.
pub(crate) const NAME: &str = "run_script";

/// How often its progress is told.
const TELL: Duration = Duration::from_secs(1);

/// What is known of it. What it asks about are the tools that it lists.
fn facts(rule: Option<&ToolRule>) -> Facts {
    let approval = match rule.and_then(|rule| rule.approval) {
        Some(ApprovalRule::Always) => ApprovalRule::Always,
        _ => ApprovalRule::Mode,
    };
    Facts { effect: Effect::Write, approval, task_only: false }
}

/// The tool.
#[derive(Debug)]
pub(crate) struct RunScript;

#[async_trait::async_trait]
impl Own for RunScript {
    fn name(&self) -> &'static str {
        NAME
    }

    fn facts(&self, rule: Option<&ToolRule>) -> Facts {
        facts(rule)
    }

    fn missing(&self, gateway: &Gateway, session: &Session) -> Option<String> {
        if let Err(reason) = &gateway.engine {
            return Some(reason.clone());
        }
        let mode = session.profile.permission_mode;
        let table = gateway.catalog.table();
        let usable = table
            .all()
            .any(|known| visible(session, known).is_some_and(|facts| facts.in_scripts(mode)));
        (!usable).then(|| {
            "no server of the profile offers a tool that a script could call (yet)".to_owned()
        })
    }

    fn input_schema(&self) -> Value {
        input_schema()
    }

    fn definition(&self, gateway: &Gateway, _session: &Session) -> Arc<RawValue> {
        Arc::from(definition(&gateway.scripts))
    }

    fn is_script(&self) -> bool {
        true
    }

    async fn run(&self, _grant: Grant, _gateway: &Arc<Gateway>, call: &Call) -> Ended {
        let message = "a script is started in another way";
        Ended::before(Outcome::Failed(call.failure(script::Kind::Upstream, message)))
    }
}

fn definition(scripts: &Scripts) -> Box<RawValue> {
    json::raw(&json!({
        "name": NAME,
        "title": "Run a script that calls tools",
        "description": description(scripts),
        "inputSchema": input_schema(),
        "annotations": {
            "readOnlyHint": false,
            "destructiveHint": false,
            "idempotentHint": false,
            "openWorldHint": false,
        },
        // Where a client shows only names until a tool is searched for, this one is shown whole;
        // and its answer, which is bounded here, is not bounded again.
        "_meta": {"anthropic/alwaysLoad": true, "anthropic/maxResultSizeChars": 500_000},
    }))
}

fn input_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "code": {
                "type": "string",
                "description": "The Python script. Only what it prints comes back.",
            },
            "tools": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Full names of all tools the script calls that change something.",
            },
            "description": {
                "type": "string",
                "description": "What the script does, in one sentence, for the person who may be asked.",
            },
        },
        "required": ["code", "description"],
        "additionalProperties": false,
    })
}

/// Under 2 KB, the essentials first: some clients cut what is longer.
fn description(scripts: &Scripts) -> String {
    let Scripts { max_calls, concurrency, timeout_sec, output_chars, .. } = scripts;
    format!(
        "Runs a Python script that calls the servers' tools. Use it when a task takes many calls, \
or when results have to be filtered, joined or summed up: calls cost you nothing, and only what the \
script prints comes back.

from agent_tools import call, call_many, call_raw, progress, ToolError
rows = call_many(\"server__tool\", [{{\"id\": n}} for n in range(500)])
print(sum(1 for row in rows if row[\"ok\"]))

call(tool, args): the structured result (dict) or text; raises ToolError (kind, message, retryable).
call_many(tool, args_list, return_errors=False): many calls of one tool at once, results in order; \
with return_errors=True a ToolError stands in the place of its result.
call_raw(tool, args): {{text, structured, is_error}}, no ToolError for an error of the tool.
progress(done, total, message): shown to the user.

Rules: use full tool names. Read-only tools can be called freely. List in `tools` every tool that \
changes something; the user may be asked once for the whole script. Tools that are destructive or \
confirmed each time, and tools that run as tasks, cannot be called from a script: call them \
directly. There is no network. The current directory is the workspace; files written there stay. \
Print results in short form. At most {max_calls} calls, {concurrency} at once, {timeout_sec} \
seconds; output past {output_chars} characters is cut, the whole is kept in a file."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Schema;

    #[test]
    fn the_description_is_short_enough_for_every_client() {
        let longest = Scripts {
            max_calls: 1_000_000,
            concurrency: 64,
            timeout_sec: 604_800,
            output_chars: 2_000_000,
            ..Scripts::default()
        };
        let text = description(&longest);
        assert!(text.len() < 2000, "{}", text.len());
        assert!(text.contains("[{\"id\": n} for n in range(500)]"), "{text}");
    }

    #[test]
    fn the_definition_says_what_strict_clients_ask_for() {
        let definition: serde_json::Value =
            serde_json::from_str(definition(&Scripts::default()).get()).unwrap();
        assert_eq!(definition["inputSchema"]["additionalProperties"], false);
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert_eq!(definition["annotations"][hint], false, "{hint}");
        }
        let schema = Schema::compile(NAME, &json::raw(&input_schema()));
        let check = |arguments| schema.check(&arguments);
        assert_eq!(check(json!({"code": "", "description": "", "tools": []})), Ok(()));
        assert!(check(json!({"code": ""})).unwrap_err().contains("\"description\" is missing"));
        let unknown = check(json!({"code": "", "description": "", "tool": []})).unwrap_err();
        assert!(unknown.contains("did you mean \"tools\"?"), "{unknown}");
    }
}

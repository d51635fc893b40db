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
use crate::config::ToolRule;
use crate::gateway::Gateway;
use crate::json;
use crate::policy::{ApprovalRule, Effect, Facts, PermissionMode};
use crate::request::Outcome;
use crate::session::Session;
use crate::view::Offered;

mod plan;
mod run;

mod host;

mod answer;

mod text;

pub(crate) use host::Script;
pub(crate) use plan::{Plan, plan};
pub(crate) use run::run;
pub(crate) use text::holds_all;

/// Its name.
pub(crate) const NAME: &str = "run_script";

/// The name of its twin, for clients that let pass unattended only what reads.
pub(crate) const READING: &str = "run_script_readonly";

/// How often its progress is told.
const TELL: Duration = Duration::from_secs(1);

/// Which tools a script can call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Those that read, and those it lists.
    All,
    /// Only those that read; and the workspace is read-only.
    Read,
}

impl Reach {
    /// By the name under which it is called.
    pub(crate) fn of(tool: &str) -> Self {
        if tool == READING { Self::Read } else { Self::All }
    }
}

/// The tools `run_script` and `run_script_readonly`.
#[derive(Debug)]
pub(crate) struct RunScript(pub(crate) Reach);

#[async_trait::async_trait]
impl Own for RunScript {
    fn name(&self) -> &'static str {
        match self.0 {
            Reach::All => NAME,
            Reach::Read => READING,
        }
    }

    /// What it asks about are the tools that it lists.
    fn facts(&self, rule: Option<&ToolRule>) -> Facts {
        let (effect, usual) = match self.0 {
            Reach::All => (Effect::Write, ApprovalRule::Mode),
            Reach::Read => (Effect::Read, ApprovalRule::Direct),
        };
        let approval = match rule.and_then(|rule| rule.approval) {
            Some(ApprovalRule::Always) => ApprovalRule::Always,
            _ => usual,
        };
        Facts { effect, approval, task_only: false }
    }

    fn missing(&self, gateway: &Gateway, session: &Session) -> Option<String> {
        if let Err(reason) = &gateway.engine {
            return Some(reason.clone());
        }
        let view = gateway.view(session);
        let (usable, what) = match self.0 {
            Reach::All => (view.tools.iter().any(|tool| tool.in_scripts), ""),
            Reach::Read => (view.tools.iter().any(Offered::is_read_by_scripts), " read-only"),
        };
        if self.0 == Reach::Read && session.profile.permission_mode == PermissionMode::ReadOnly {
            return Some("run_script itself only reads in this profile".to_owned());
        }
        (!usable).then(|| {
            format!("no server of the profile offers a{what} tool that a script could call (yet)")
        })
    }

    fn input_schema(&self) -> Value {
        let mut properties = json!({
            "code": {
                "type": "string",
                "description": "The Python script. Only what it prints comes back.",
            },
            "description": {
                "type": "string",
                "description": "What the script does, in one sentence, for the person who may be asked.",
            },
        });
        if self.0 == Reach::All {
            properties["tools"] = json!({
                "type": "array",
                "items": {"type": "string"},
                "description": "Full names of all tools the script calls that change something.",
            });
        }
        json!({
            "type": "object",
            "properties": properties,
            "required": ["code", "description"],
            "additionalProperties": false,
        })
    }

    fn definition(&self, gateway: &Gateway, session: &Session) -> Arc<RawValue> {
        let view = gateway.view(session);
        let reads =
            self.0 == Reach::Read || session.profile.permission_mode == PermissionMode::ReadOnly;
        view.definition(self.name(), || {
            let mut definition = json!({
                "name": self.name(),
                "title": match self.0 {
                    Reach::All => "Run a script that calls tools",
                    Reach::Read => "Run a script that calls read-only tools",
                },
                "description": text::description(&gateway.scripts, self.0, &view),
                "inputSchema": self.input_schema(),
                // Without a person to ask, Codex lets pass what is read-only, or else neither
                // destructive nor open: what a script may do is asked about by ourselves.
                "annotations": {
                    "readOnlyHint": reads,
                    "destructiveHint": false,
                    "idempotentHint": false,
                    "openWorldHint": false,
                },
                // Where a client shows only names until a tool is searched for, this one is shown
                // whole; and its answer, which is bounded here, is not bounded again.
                "_meta": {"anthropic/alwaysLoad": true, "anthropic/maxResultSizeChars": 500_000},
            });
            if gateway.background_after().is_some() {
                definition["execution"] = json!({"taskSupport": "optional"});
            }
            json::raw(&definition)
        })
    }

    fn is_script(&self) -> bool {
        true
    }

    async fn run(&self, _grant: Grant, _gateway: &Arc<Gateway>, call: &Call) -> Ended {
        let message = "a script is started in another way";
        Ended::before(Outcome::Failed(call.failure(script::Kind::Upstream, message)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Schema;

    #[test]
    fn arguments_are_checked_and_a_reading_script_lists_nothing() {
        let schema = |reach| Schema::compile(NAME, &json::raw(&RunScript(reach).input_schema()));
        let (all, read) = (schema(Reach::All), schema(Reach::Read));
        let listing = json!({"code": "", "description": "", "tools": []});
        assert_eq!(all.check(&listing), Ok(()));
        assert!(read.check(&listing).unwrap_err().contains("\"tools\" is not known"));
        assert!(
            all.check(&json!({"code": ""})).unwrap_err().contains("\"description\" is missing")
        );
        let unknown = all.check(&json!({"code": "", "description": "", "tool": []})).unwrap_err();
        assert!(unknown.contains("did you mean \"tools\"?"), "{unknown}");
    }
}

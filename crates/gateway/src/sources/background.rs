//! Our own tools about calls in the background: `background_list`, `background_result`,
//! `background_cancel`. They know only those of the caller's own session.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::background::{BackgroundCall, BackgroundState, Whose, said};
use crate::call::{Call, Ended, Grant};
use crate::gateway::{Gateway, Listed, OWN, now_ms};
use crate::json;
use crate::policy::{ApprovalRule, Effect};
use crate::refusal;
use crate::request::Outcome;
use crate::schema::Schema;

/// Calls that a list shows.
const SHOWN: u32 = 50;

/// How long a call may take to end once it was told to, before the answer says that it is ending.
const ENDING: Duration = Duration::from_secs(8);

/// One of the tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    List,
    Result,
    Cancel,
}

#[derive(Deserialize)]
struct Arguments {
    #[serde(default)]
    id: String,
    #[serde(default)]
    wait_sec: Option<f64>,
}

/// Longest wait for a result: shorter than the time after which clients were found to give up.
pub(crate) fn longest_wait(after: Duration) -> Duration {
    after.mul_f64(0.9)
}

impl Tool {
    const ALL: [Self; 3] = [Self::List, Self::Result, Self::Cancel];

    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::List => "background_list",
            Self::Result => "background_result",
            Self::Cancel => "background_cancel",
        }
    }

    fn input_schema(self) -> Value {
        let id = json!({"type": "string", "description": "The id that the call was given."});
        let (properties, required) = match self {
            Self::List => (json!({}), json!([])),
            Self::Result => (
                json!({
                    "id": id,
                    "wait_sec": {
                        "type": "number",
                        "minimum": 0,
                        "description": "How long to wait for it; by default, and at most, as long \
                                        as is possible.",
                    },
                }),
                json!(["id"]),
            ),
            Self::Cancel => (json!({"id": id}), json!(["id"])),
        };
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    }

    fn schema(self) -> &'static Schema {
        static SCHEMAS: OnceLock<[Schema; 3]> = OnceLock::new();
        let schemas = SCHEMAS.get_or_init(|| {
            Self::ALL.map(|tool| Schema::compile(tool.name(), &json::raw(&tool.input_schema())))
        });
        match self {
            Self::List => &schemas[0],
            Self::Result => &schemas[1],
            Self::Cancel => &schemas[2],
        }
    }

    /// Whether the arguments fit.
    pub(crate) fn check(self, arguments: &RawValue) -> Result<(), String> {
        let value = json::strict(arguments)
            .map_err(|error| format!("the arguments cannot be read: {error}"))?;
        let fit = self.schema().check(&value);
        fit.map_err(|fault| format!("the arguments do not fit {}: {fault}", self.name()))
    }

    fn definition(self, after: Duration) -> Box<RawValue> {
        let wait = longest_wait(after).as_secs_f64();
        let (title, description) = match self {
            Self::List => (
                "List calls in the background",
                "Lists the calls of this session that went on in the background, newest first: \
                 id, tool, state (running, finished, failed, cancelled, interrupted), how long, \
                 and what they said last."
                    .to_owned(),
            ),
            Self::Result => (
                "Get the result of a call in the background",
                format!(
                    "Waits for a call that goes on in the background, up to {wait:.0} s, and gives \
                     its result exactly as the tool gave it. If it still runs then, the answer \
                     says so and how far it is: ask again. A result can be fetched more than once, \
                     for a day."
                ),
            ),
            Self::Cancel => (
                "Cancel a call in the background",
                "Ends a call that goes on in the background, with everything that it started. \
                 What it has done until then stays done."
                    .to_owned(),
            ),
        };
        json::raw(&json!({
            "name": self.name(),
            "title": title,
            "description": description,
            "inputSchema": self.input_schema(),
            "annotations": {
                "readOnlyHint": self != Self::Cancel,
                "destructiveHint": false,
                "idempotentHint": true,
                "openWorldHint": false,
            },
        }))
    }
}

/// The tools as they are offered. To end one's own call is no effect on the world that a profile
/// has a rule about, so they are there under every one of them.
pub(crate) fn listed(after: Duration) -> impl Iterator<Item = Listed> {
    Tool::ALL.into_iter().map(move |tool| Listed {
        name: tool.name().to_owned(),
        source: OWN.to_owned(),
        effect: Effect::Read,
        approval: ApprovalRule::Direct,
        task_only: false,
        in_scripts: false,
        definition: Arc::from(tool.definition(after)),
    })
}

/// Carries out a call of one of the tools.
pub(crate) async fn run(_grant: Grant, gateway: &Arc<Gateway>, call: &Call, tool: Tool) -> Ended {
    let arguments = serde_json::from_str(call.arguments.get());
    let Arguments { id, wait_sec } =
        arguments.unwrap_or(Arguments { id: String::new(), wait_sec: None });
    let whose = Whose::Session(&call.session);
    let most = longest_wait(gateway.background.after.unwrap_or_default());
    let wait = wait_sec
        .map_or(most, |seconds| Duration::try_from_secs_f64(seconds).unwrap_or(most).min(most));
    let answered = async {
        match tool {
            Tool::List => {
                let calls = gateway.background_calls(whose, None, SHOWN).await?;
                Ok(Some(said(&list(&calls), false)))
            }
            Tool::Result => {
                let found = gateway.watch_background(whose, &id, wait, call).await?;
                Ok(found.map(|found| result(&found)))
            }
            Tool::Cancel => {
                let found = gateway.cancel_background(whose, &id, ENDING.min(most)).await?;
                Ok(found.map(|(was_running, found)| said(&cancelled(was_running, &found), false)))
            }
        }
    };
    let answer: Result<Option<mcp::CallResult>, crate::Error> = tokio::select! {
        answer = answered => answer,
        () = call.cancel.cancelled() => {
            let message = "the call was cancelled; the call in the background was not";
            let failure = call.failure(script::Kind::Cancelled, message);
            return Ended::before(Outcome::Failed(failure));
        }
    };
    let outcome = match answer {
        Ok(Some(answer)) => Outcome::Done(answer),
        Ok(None) => Outcome::Done(said(
            &format!(
                "there is no call {:?} in the background of this session; background_list shows \
                 those there are",
                json::cut(&id, 100)
            ),
            true,
        )),
        Err(error) => Outcome::Failed(refusal::unstored(call, &error)),
    };
    Ended { unsent: false, ..Ended::before(outcome) }
}

/// The result as the tool gave it, or that there is none yet.
fn result(call: &BackgroundCall) -> mcp::CallResult {
    let stored = call.result.as_deref().filter(|_| call.is_over());
    match stored.map(|raw| mcp::CallResult::parse(raw.to_owned())) {
        Some(Ok(result)) => result,
        Some(Err(error)) => said(&format!("the result cannot be read: {error}"), true),
        None if call.is_over() => said(&format!("{}; there is no result", line(call)), true),
        None => said(
            &format!(
                "still running: {}\nIts result is not there yet: call background_result again \
                 with this id.",
                line(call)
            ),
            false,
        ),
    }
}

fn list(calls: &[BackgroundCall]) -> String {
    if calls.is_empty() {
        return "no call of this session went on in the background".to_owned();
    }
    let lines: Vec<String> = calls.iter().map(line).collect();
    lines.join("\n")
}

fn cancelled(was_running: bool, call: &BackgroundCall) -> String {
    if !was_running && call.state != BackgroundState::Cancelled {
        return format!("it had ended already: {}", line(call));
    }
    let how = if call.is_over() { "" } else { "it is ending: " };
    let said = call.result.as_deref().filter(|_| call.is_over()).and_then(|raw| {
        let result = mcp::CallResult::parse(raw.to_owned()).ok()?;
        Some(json::cut(&result.text, 2_000))
    });
    match said {
        Some(said) if !said.is_empty() => format!("{how}{}\n{said}", line(call)),
        _ => format!("{how}{}", line(call)),
    }
}

/// `ID · run_script "what it does" · running for 12 s · 37 calls, 0 failed`
fn line(call: &BackgroundCall) -> String {
    let mut what = call.tool.clone();
    if !call.description.is_empty() {
        what.push_str(&format!(" {}", json::quoted(&call.description)));
    }
    let until = call.ended_ms.unwrap_or_else(now_ms);
    let seconds = (until - call.started_ms).max(0) / 1000;
    let how = if call.is_over() { "after" } else { "for" };
    let mut line = format!("{} · {what} · {} {how} {seconds} s", call.id, call.state.word());
    if let Some(progress) = &call.progress {
        let ago = (now_ms() - progress.at_ms).max(0) / 1000;
        line.push_str(&format!(" · {}", progress.line()));
        if ago >= 5 {
            line.push_str(&format!(" ({ago} s ago)"));
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_say_what_strict_clients_ask_for() {
        for tool in listed(Duration::from_secs(45)) {
            let definition: Value = serde_json::from_str(tool.definition.get()).unwrap();
            let reads = tool.name != "background_cancel";
            assert_eq!(definition["annotations"]["readOnlyHint"], reads, "{definition}");
            for hint in ["destructiveHint", "openWorldHint"] {
                assert_eq!(definition["annotations"][hint], false, "{definition}");
            }
            assert_eq!(definition["inputSchema"]["additionalProperties"], false);
            assert!(!tool.in_scripts);
        }
    }

    #[test]
    fn arguments_are_checked() {
        let check = |tool: Tool, arguments: &str| {
            tool.check(&RawValue::from_string(arguments.to_owned()).unwrap())
        };
        assert_eq!(check(Tool::List, "{}"), Ok(()));
        assert_eq!(check(Tool::Result, r#"{"id":"x","wait_sec":0}"#), Ok(()));
        for (tool, arguments) in [
            (Tool::List, r#"{"id":"x"}"#),
            (Tool::Result, "{}"),
            (Tool::Result, r#"{"id":"x","wait_sec":-1}"#),
            (Tool::Cancel, r#"{"id":7}"#),
        ] {
            assert!(check(tool, arguments).is_err(), "{tool:?} {arguments}");
        }
    }
}

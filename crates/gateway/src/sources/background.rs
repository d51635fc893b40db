//! Our own tools about calls in the background: `background_list`, `background_result`,
//! `background_cancel`. They know only those of the caller's own session.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::own::Own;
use crate::background::{BackgroundCall, BackgroundState, Whose, said};
use crate::call::{Call, Ended, Grant};
use crate::config::ToolRule;
use crate::gateway::{Gateway, now_ms};
use crate::json;
use crate::policy::{ApprovalRule, Effect, Facts};
use crate::refusal;
use crate::request::Outcome;
use crate::session::Session;

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
fn longest_wait(gateway: &Gateway) -> Duration {
    gateway.background_after().unwrap_or_default().mul_f64(0.9)
}

impl Tool {
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

    fn definition(self, wait: Duration) -> Box<RawValue> {
        let wait = wait.as_secs_f64();
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
            "name": Own::name(&self),
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

#[async_trait::async_trait]
impl Own for Tool {
    fn name(&self) -> &'static str {
        match self {
            Self::List => "background_list",
            Self::Result => "background_result",
            Self::Cancel => "background_cancel",
        }
    }

    /// To end one's own call is no effect on the world that a profile could have a rule about, so
    /// all three are there under every profile.
    fn facts(&self, _rule: Option<&ToolRule>) -> Facts {
        Facts { effect: Effect::Read, approval: ApprovalRule::Direct, task_only: false }
    }

    fn missing(&self, gateway: &Gateway, _session: &Session) -> Option<String> {
        let is_off = gateway.background_after().is_none();
        is_off.then(|| {
            "nothing goes on in the background: background_calls.auto_after_sec is 0".to_owned()
        })
    }

    fn input_schema(&self) -> Value {
        (*self).input_schema()
    }

    fn definition(&self, gateway: &Gateway, _session: &Session) -> Arc<RawValue> {
        Arc::from((*self).definition(longest_wait(gateway)))
    }

    async fn run(&self, _grant: Grant, gateway: &Arc<Gateway>, call: &Call) -> Ended {
        let answer = tokio::select! {
            answer = self.answer(gateway, call) => answer,
            () = call.cancel.cancelled() => {
                let message = "the call was cancelled; the call in the background was not";
                let failure = call.failure(script::Kind::Cancelled, message);
                return Ended::before(Outcome::Failed(failure));
            }
        };
        let outcome = match answer {
            Ok(answer) => Outcome::Done(answer),
            Err(error) => Outcome::Failed(refusal::unstored(call, &error)),
        };
        Ended { unsent: false, ..Ended::before(outcome) }
    }
}

impl Tool {
    async fn answer(self, gateway: &Gateway, call: &Call) -> Result<mcp::CallResult, crate::Error> {
        let arguments = serde_json::from_str(call.arguments.get());
        let Arguments { id, wait_sec } =
            arguments.unwrap_or(Arguments { id: String::new(), wait_sec: None });
        let whose = Whose::Session(&call.session);
        let most = longest_wait(gateway);
        let wait = wait_sec
            .map_or(most, |seconds| Duration::try_from_secs_f64(seconds).unwrap_or(most).min(most));
        let answer = match self {
            Self::List => {
                let calls = gateway.background_calls(whose, None, SHOWN).await?;
                return Ok(said(&list(&calls), false));
            }
            Self::Result => {
                let found = gateway.watch_background(whose, &id, wait, call).await?;
                found.map(|found| result(&found))
            }
            Self::Cancel => {
                let found = gateway.cancel_background(whose, &id, ENDING.min(most)).await?;
                found.map(|(was_running, found)| said(&cancelled(was_running, &found), false))
            }
        };
        Ok(answer.unwrap_or_else(|| {
            said(
                &format!(
                    "there is no call {:?} in the background of this session; background_list \
                     shows those there are",
                    json::cut(&id, 100)
                ),
                true,
            )
        }))
    }
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
    use crate::schema::Schema;

    const ALL: [Tool; 3] = [Tool::List, Tool::Result, Tool::Cancel];

    #[test]
    fn the_definitions_say_what_strict_clients_ask_for() {
        for tool in ALL {
            let definition = tool.definition(Duration::from_secs(40));
            let definition: Value = serde_json::from_str(definition.get()).unwrap();
            assert_eq!(definition["annotations"]["readOnlyHint"], tool != Tool::Cancel);
            for hint in ["destructiveHint", "openWorldHint"] {
                assert_eq!(definition["annotations"][hint], false, "{definition}");
            }
            assert_eq!(definition["inputSchema"]["additionalProperties"], false);
        }
    }

    #[test]
    fn arguments_are_checked() {
        let check = |tool: Tool, arguments: &str| {
            let schema = Schema::compile("tool", &json::raw(&tool.input_schema()));
            schema.check(&serde_json::from_str(arguments).unwrap())
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

//! A question to a person, as a form in the client, and what came of it.

use std::time::Duration;

use gateway::{Answer, Approval, Choice, Gateway, Listed};
use mcp::server::{Caller, Given, Question, Reply, Shape};
use serde::Deserialize;
use serde_json::json;

use crate::show::Shown;
use crate::terminal::approve;

/// Rows of a script that a form shows.
const ROWS: usize = 1_000;

/// Longest reason that is passed on to the model, in characters.
const LONGEST_REASON: usize = 1_000;

const ONCE: &str = "allow once";
const SESSION: &str = "allow for this session";
const DENY: &str = "deny";

/// The form.
pub(crate) fn question(approval: &Approval, tools: &[Listed], lasts: Duration) -> Question {
    let choices: Vec<&str> = approval
        .choices
        .iter()
        .map(|choice| match choice {
            Choice::Once => ONCE,
            Choice::Session => SESSION,
            Choice::Deny => DENY,
        })
        .collect();
    let schema = json!({
        "type": "object",
        "properties": {
            "decision": {"type": "string", "title": "Decision", "enum": choices},
            "reason": {
                "type": "string",
                "title": "Reason",
                "description": "If you deny it: why. The model sees this.",
            },
        },
        "required": ["decision"],
    });
    Question {
        message: approve::question(approval, tools, ROWS).trim().to_owned(),
        shape: Shape::Form(serde_json::value::to_raw_value(&schema).unwrap_or_default()),
        state: approval.id.clone(),
        lasts,
    }
}

/// Passes the reply on to the gateway. Whether the same question may be asked again in this call.
pub(crate) async fn take(gateway: &Gateway, given: Given, caller: &Caller) -> bool {
    let answer = match given.reply {
        Reply::Accept(content) => match decision(content.as_deref()) {
            Some(answer) => answer,
            None => return false,
        },
        Reply::Decline => Answer::Deny { reason: String::new() },
        Reply::Cancel => return false,
    };
    let client = caller.client.as_deref().unwrap_or("the client");
    let by = format!("the user of {}", Shown::line(client));
    match gateway.answer(&given.state, answer, &by).await {
        Ok(_) => true,
        Err(error) => {
            // Answered elsewhere first, expired, or void: the call itself finds out which.
            tracing::info!(%error, "an answer came too late");
            true
        }
    }
}

/// What was chosen; only a clear yes is one.
fn decision(content: Option<&serde_json::value::RawValue>) -> Option<Answer> {
    #[derive(Deserialize)]
    struct Form {
        decision: String,
        #[serde(default)]
        reason: Option<String>,
    }
    let form: Form = serde_json::from_str(content?.get()).ok()?;
    match form.decision.as_str() {
        ONCE => Some(Answer::Once),
        SESSION => Some(Answer::Session),
        DENY => {
            let reason = form.reason.unwrap_or_default();
            let reason = reason.trim().chars().take(LONGEST_REASON).collect();
            Some(Answer::Deny { reason })
        }
        _ => None,
    }
}

/// For a model whose client asked nobody.
pub(crate) fn where_to_answer(approval: &Approval, command: &str, page: Option<&str>) -> String {
    let command = command.replacen("ID", &approval.id, 1);
    let asked: Vec<&str> =
        approval.listed.iter().filter(|tool| tool.asked).map(|tool| tool.name.as_str()).collect();
    let what = if asked.is_empty() {
        approval.tool.clone()
    } else {
        format!("the script, which may call {},", asked.join(", "))
    };
    let until = jiff::Timestamp::from_millisecond(approval.expires_ms)
        .map_or_else(|_| "it expires".to_owned(), |at| at.strftime("%H:%M UTC").to_string());
    let place = match page {
        Some(page) => format!(
            "in a browser:\n\n    {page}/{}\n\nor in a terminal:\n\n    {command}",
            approval.id
        ),
        None => format!("in a terminal:\n\n    {command}"),
    };
    format!(
        "approval needed: {what} was not run, because a person has to allow it first. Until \
         {until} the user can do that {place}\n\nTell the user, and \
         afterwards make exactly the same call again: it finds the answer. Any change to it would \
         be a new question."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        let of = |text: &str| {
            let raw = serde_json::value::RawValue::from_string(text.to_owned()).unwrap();
            decision(Some(&raw))
        };
        assert_eq!(of(r#"{"decision":"allow once"}"#), Some(Answer::Once));
        assert_eq!(of(r#"{"decision":"allow for this session"}"#), Some(Answer::Session));
        let no = Answer::Deny { reason: "not now".to_owned() };
        assert_eq!(of(r#"{"decision":"deny","reason":" not now "}"#), Some(no));
        for unclear in ["{}", "null", r#"{"decision":"yes"}"#, r#"{"decision":true}"#, "[]"] {
            assert_eq!(of(unclear), None, "{unclear}");
        }
        assert_eq!(decision(None), None);
    }
}

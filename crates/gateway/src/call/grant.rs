//! *approve*: the one place that makes a [`Grant`], without which nothing runs.

use std::collections::HashMap;
use std::sync::Arc;

use super::Call;
use super::decide::Plan;
use crate::approval::{Choice, Payload, Question};
use crate::catalog::Known;
use crate::gateway::Gateway;
use crate::policy::Decision;
use crate::request::Outcome;
use crate::{json, refusal};

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
    pub(super) fn approval(&self) -> Option<String> {
        self.approval.clone()
    }

    /// Of a script: the definitions of the tools that it covers.
    pub(crate) fn into_definitions(self) -> HashMap<String, String> {
        self.definitions
    }
}

/// The only place that makes a [`Grant`].
pub(super) async fn approve(
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
        Plan::Tool(..) | Plan::Own(_) => HashMap::new(),
    };
    let session = match decision {
        Decision::Allow => return Ok(Grant { by: None, approval: None, definitions }),
        Decision::Deny(reason) => {
            let known = match plan {
                Plan::Tool(known, _) => Some(&**known),
                Plan::Script(_) | Plan::Own(_) => None,
            };
            return Err(Outcome::Refused(refusal::denied(call, known, reason)));
        }
        Decision::Ask { session } => session,
    };
    let failed = |error: &dyn std::fmt::Display| Outcome::Refused(refusal::unstored(call, error));
    let (key, payload) = match plan {
        Plan::Script(plan) => plan.question(&call.session, &call.arguments),
        Plan::Tool(known, _) => question(call, known, session).map_err(|error| failed(&error))?,
        Plan::Own(_) => return Err(failed(&"nobody can be asked about it")),
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
pub(super) async fn give_back(gateway: &Gateway, approval: &str, outcome: &mut Outcome) {
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

//! A question to a person about one call, and the answer to it.
//!
//! A question is bound by its key to everything that was shown or that matters: principal,
//! session, tool, the exact arguments or the code with the tools it lists, and the hash of each
//! tool's definition. Who may answer is decided elsewhere; here an answer is only kept, and used
//! once by the same call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::events::{Event, Resolution};
use crate::gateway::{Error, Gateway};
use crate::json;
use crate::session::Session;
use crate::sources::State;

/// How long an answer waits for a server that is still starting.
const PATIENCE: Duration = Duration::from_secs(20);

/// A question to a person. It is kept in the store; the same call made again finds the answer.
#[derive(Clone, Debug, Serialize)]
pub struct Approval {
    /// Names it for [`crate::Gateway::answer`].
    pub id: String,
    /// How it is.
    pub state: ApprovalState,
    /// Who calls.
    pub principal: String,
    /// Under which profile.
    pub profile: String,
    /// In which session.
    pub session: String,
    /// The tool that is called: a server's, or `run_script`.
    pub tool: String,
    /// For a script: what its author says it does.
    pub description: Option<String>,
    /// For a script: the whole of it.
    pub code: Option<String>,
    /// The arguments as they were sent.
    pub arguments: Arc<RawValue>,
    /// For a script: the tools it lists.
    pub listed: Vec<ListedTool>,
    /// For a script: write tools that it names without listing them, with the line. They will be
    /// refused when it calls them.
    pub unlisted: Vec<(String, u32)>,
    /// What can be answered.
    pub choices: Vec<Choice>,
    /// When it was asked, in milliseconds since 1970.
    pub asked_ms: i64,
    /// When it expires, or the unused answer does.
    pub expires_ms: i64,
    /// The answer, once there is one.
    pub answer: Option<Given>,
}

/// How a question is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    /// It waits for a person.
    Open,
    /// It was answered, and the same call has not yet been made again.
    Answered,
    /// The answer was used.
    Used,
    /// Nobody answered, or nobody used the answer, in time.
    Expired,
    /// What it was about has changed.
    Void,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Given {
    /// What.
    pub decision: Choice,
    /// Why, if it is a no.
    pub reason: String,
    /// Who.
    pub by: String,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
}

/// A tool that a script lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedTool {
    /// Its full name.
    pub name: String,
    /// Whether it is (also) about this tool that the person is asked.
    pub asked: bool,
}

/// One of the things that can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// This call only.
    Once,
    /// This tool for the rest of the session.
    Session,
    /// No.
    Deny,
}

/// An answer to an [`Approval`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This call only.
    Once,
    /// This tool for the rest of the session.
    Session,
    /// No.
    Deny {
        /// Why; the model sees it.
        reason: String,
    },
}

/// An approval that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The tool that it was about.
    pub tool: String,
    /// Until when the same call finds the answer, in milliseconds since 1970.
    pub expires_ms: i64,
}

/// What the store keeps of a question.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Payload {
    pub(crate) description: Option<String>,
    pub(crate) code: Option<String>,
    pub(crate) arguments: Arc<RawValue>,
    pub(crate) listed: Vec<ListedTool>,
    pub(crate) unlisted: Vec<(String, u32)>,
    pub(crate) choices: Vec<Choice>,
    /// Hash of the definition of each tool it is about, by full name.
    pub(crate) definitions: BTreeMap<String, String>,
}

impl Approval {
    pub(crate) fn of(row: store::ApprovalRow) -> Result<Self, Error> {
        let payload = payload(&row)?;
        let over = row.expires_ms <= crate::gateway::now_ms();
        Ok(Self {
            id: row.id,
            state: match row.state {
                store::ApprovalState::Open | store::ApprovalState::Answered if over => {
                    ApprovalState::Expired
                }
                store::ApprovalState::Open => ApprovalState::Open,
                store::ApprovalState::Answered => ApprovalState::Answered,
                store::ApprovalState::Used => ApprovalState::Used,
                store::ApprovalState::Expired => ApprovalState::Expired,
                store::ApprovalState::Void => ApprovalState::Void,
            },
            principal: row.principal,
            profile: row.profile,
            session: row.session,
            tool: row.tool,
            description: payload.description,
            code: payload.code,
            arguments: payload.arguments,
            listed: payload.listed,
            unlisted: payload.unlisted,
            choices: payload.choices,
            asked_ms: row.created_ms,
            expires_ms: row.expires_ms,
            answer: row.answer.map(|answer| Given {
                decision: match answer.kind {
                    store::AnswerKind::Once => Choice::Once,
                    store::AnswerKind::Session => Choice::Session,
                    store::AnswerKind::Deny => Choice::Deny,
                },
                reason: answer.reason,
                by: answer.by,
                at_ms: row.answered_ms,
            }),
        })
    }
}

fn payload(row: &store::ApprovalRow) -> Result<Payload, Error> {
    serde_json::from_str(&row.payload).map_err(|error| {
        Error::Approval(format!("approval {} cannot be read: {error}; make the call again", row.id))
    })
}

/// A question to be asked.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    pub(crate) session: &'a Session,
    pub(crate) tool: &'a str,
    pub(crate) key: String,
    pub(crate) payload: Payload,
}

impl Gateway {
    /// Asks, or finds the question that is open already.
    pub(crate) async fn ask(&self, question: Question<'_>) -> Result<Approval, Error> {
        let now = crate::gateway::now_ms();
        let payload = serde_json::to_string(&question.payload)
            .map_err(|error| Error::Approval(format!("the question cannot be kept: {error}")))?;
        let asked = self
            .store
            .ask(&store::NewApproval {
                id: uuid::Uuid::now_v7().to_string(),
                key: question.key,
                principal: question.session.principal.clone(),
                profile: question.session.profile_name.clone(),
                session: question.session.id.clone(),
                tool: question.tool.to_owned(),
                payload,
                created_ms: now,
                expires_ms: now + self.expire_ms(),
            })
            .await?;
        for row in &asked.expired {
            self.tell_expired(row);
        }
        let approval = Approval::of(asked.row)?;
        if asked.is_new {
            let event = Event::ApprovalRequested {
                approval: approval.id.clone(),
                tool: approval.tool.clone(),
                description: approval.description.clone(),
                expires_ms: approval.expires_ms,
            };
            self.publish(&approval.session, event);
        }
        Ok(approval)
    }

    pub(crate) fn tell_expired(&self, row: &store::ApprovalRow) {
        self.tell_resolved(row, Resolution::Expired, "", "");
    }

    fn tell_resolved(
        &self,
        row: &store::ApprovalRow,
        resolution: Resolution,
        by: &str,
        reason: &str,
    ) {
        let event = Event::ApprovalResolved {
            approval: row.id.clone(),
            tool: row.tool.clone(),
            resolution,
            by: by.to_owned(),
            reason: reason.to_owned(),
        };
        self.publish(&row.session, event);
    }

    /// The open questions, oldest first.
    pub async fn approvals(&self) -> Result<Vec<Approval>, Error> {
        let rows = self.store.open_approvals(crate::gateway::now_ms()).await?;
        rows.into_iter().map(Approval::of).collect()
    }

    /// Answers an approval; `by` says who, for the record. Of several answers the first wins.
    pub async fn answer(&self, id: &str, answer: Answer, by: &str) -> Result<Answered, Error> {
        let Some(row) = self.store.approval(id).await? else {
            return Err(Error::Approval(format!("there is no approval {id}")));
        };
        let payload = payload(&row)?;
        let (kind, choice, reason) = match answer {
            Answer::Once => (store::AnswerKind::Once, Choice::Once, String::new()),
            Answer::Session => (store::AnswerKind::Session, Choice::Session, String::new()),
            Answer::Deny { reason } => {
                (store::AnswerKind::Deny, Choice::Deny, json::one_line(&reason, 1000))
            }
        };
        if !payload.choices.contains(&choice) {
            return Err(Error::Approval(format!(
                "{} cannot be allowed for the session; allow it once or deny it",
                row.tool
            )));
        }
        if choice != Choice::Deny {
            self.refuse_changed(&row, &payload).await?;
        }
        let allow = (choice == Choice::Session).then(|| store::SessionAllow {
            session: row.session.clone(),
            tool: row.tool.clone(),
            definition: payload.definitions.get(&row.tool).cloned().unwrap_or_default(),
        });
        let now = crate::gateway::now_ms();
        let expires_ms = now + self.expire_ms();
        let answer = store::Answer { kind, reason, by: json::one_line(by, 200) };
        self.store.answer(id, &answer, allow.as_ref(), now, expires_ms).await.map_err(|error| {
            match error {
                store::Error::Conflict(reason) => Error::Approval(reason),
                other => Error::Store(other),
            }
        })?;
        self.tell_resolved(&row, choice.into(), &answer.by, &answer.reason);
        Ok(Answered { tool: row.tool, expires_ms })
    }

    /// A question about a tool that has changed since is void. One about a tool whose server is
    /// not up, as just after a start, is not: that tells nothing about the tool.
    async fn refuse_changed(
        &self,
        row: &store::ApprovalRow,
        payload: &Payload,
    ) -> Result<(), Error> {
        for (name, definition) in &payload.definitions {
            if self.definition(name).as_ref() == Some(definition) {
                continue;
            }
            self.settle_tool(name).await?;
            if self.definition(name).as_ref() == Some(definition) {
                continue;
            }
            if self.store.void_approval(&row.id).await? {
                self.tell_resolved(row, Resolution::Void, "", "");
            }
            return Err(Error::Approval(format!(
                "approval {} is void: the definition of {name} has changed since it was asked; \
                 make the call again to be asked about the new one",
                row.id
            )));
        }
        Ok(())
    }

    fn definition(&self, tool: &str) -> Option<String> {
        self.catalog.table().get(tool).map(|known| known.definition.clone())
    }

    /// Waits until the tool's server has listed its tools, or says that it does not.
    async fn settle_tool(&self, tool: &str) -> Result<(), Error> {
        let naming = &self.catalog.naming;
        let mut servers = self.catalog.sources().filter(|one| naming.belongs(tool, one.name()));
        let Some(source) = servers.next() else {
            return Err(Error::Approval(format!(
                "no server here has {tool}, so it cannot be told whether it is still what was \
                 asked about: answer with the configuration and the profile that asked, or deny"
            )));
        };
        let mut changes = source.changes();
        let starting = async {
            while source.snapshot().state == State::Starting && changes.changed().await.is_ok() {}
        };
        let waited = tokio::time::timeout(PATIENCE, starting).await;
        if waited.is_err() || source.snapshot().state != State::Ready || !source.settled().await {
            return Err(Error::Approval(format!(
                "the server of {tool} is not ready, so it cannot be told whether {tool} is still \
                 what was asked about: the question stays open, answer it again later"
            )));
        }
        Ok(())
    }

    fn expire_ms(&self) -> i64 {
        i64::try_from(self.approvals.expire_sec).unwrap_or(i64::MAX / 2000) * 1000
    }
}

//! Questions to a person and their answers.
//!
//! A question is found by its key, which names everything it is bound to. At most one question of
//! a key is open; an answer is used once, and not after it expired.

use sqlx::Row;
use sqlx::any::AnyRow;

use crate::dialect::{Durability, Writing};
use crate::{Error, Store};

/// A question to be asked.
#[derive(Clone, Debug)]
pub struct NewApproval {
    /// Names it.
    pub id: String,
    /// Everything that it is bound to, as a hash.
    pub key: String,
    /// Who calls.
    pub principal: String,
    /// Under which profile.
    pub profile: String,
    /// In which session.
    pub session: String,
    /// Which tool.
    pub tool: String,
    /// What is shown to the person, as JSON.
    pub payload: String,
    /// Now.
    pub created_ms: i64,
    /// When it is void.
    pub expires_ms: i64,
}

/// A question as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalRow {
    /// Names it.
    pub id: String,
    /// Who calls.
    pub principal: String,
    /// Under which profile.
    pub profile: String,
    /// In which session.
    pub session: String,
    /// Which tool.
    pub tool: String,
    /// What is shown to the person, as JSON.
    pub payload: String,
    /// How it is.
    pub state: ApprovalState,
    /// The answer, once there is one.
    pub answer: Option<Answer>,
    /// When it was asked.
    pub created_ms: i64,
    /// When it was answered; 0 before.
    pub answered_ms: i64,
    /// When it is, or the unused answer is, void.
    pub expires_ms: i64,
}

/// A question that was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The question, which is open.
    pub row: ApprovalRow,
    /// Whether it was not open before.
    pub is_new: bool,
    /// Other questions of which it was noticed that they have expired.
    pub expired: Vec<ApprovalRow>,
}

/// How a question is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalState {
    /// Not yet answered.
    Open,
    /// Answered, and the answer not yet used.
    Answered,
    /// The answer was used.
    Used,
    /// Nobody answered, or nobody used the answer, in time.
    Expired,
    /// What it was about has changed.
    Void,
}

impl ApprovalState {
    fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Answered => "answered",
            Self::Used => "used",
            Self::Expired => "expired",
            Self::Void => "void",
        }
    }

    fn parse(text: &str) -> Self {
        match text {
            "open" => Self::Open,
            "answered" => Self::Answered,
            "used" => Self::Used,
            "void" => Self::Void,
            _ => Self::Expired,
        }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Which.
    pub kind: AnswerKind,
    /// Why, if it is a no.
    pub reason: String,
    /// Who.
    pub by: String,
}

/// An answer that was taken to be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The question's name, for [`Store::give_back`].
    pub id: String,
    /// The answer.
    pub answer: Answer,
}

/// Which answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerKind {
    /// This call.
    Once,
    /// The rest of the session.
    Session,
    /// No.
    Deny,
}

impl AnswerKind {
    fn name(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Session => "session",
            Self::Deny => "deny",
        }
    }

    fn parse(text: &str) -> Self {
        match text {
            "once" => Self::Once,
            "session" => Self::Session,
            _ => Self::Deny,
        }
    }
}

/// Which questions are wanted.
#[derive(Clone, Debug, Default)]
pub struct ApprovalFilter {
    /// Only in this state.
    pub state: Option<ApprovalState>,
    /// Only of this principal.
    pub principal: Option<String>,
    /// Only older than the one with this id.
    pub before: Option<String>,
    /// At most so many.
    pub limit: u32,
}

/// What "this session" allows.
#[derive(Clone, Debug)]
pub struct SessionAllow {
    /// The session.
    pub session: String,
    /// The tool.
    pub tool: String,
    /// Hash of its definition.
    pub definition: String,
}

const COLUMNS: &str = "id, principal, profile, session, tool, payload, state, answer, reason, \
                       answered_by, created_ms, answered_ms, expires_ms";

fn answer(row: &AnyRow) -> Result<Option<Answer>, Error> {
    let kind: String = row.try_get("answer")?;
    if kind.is_empty() {
        return Ok(None);
    }
    Ok(Some(Answer {
        kind: AnswerKind::parse(&kind),
        reason: row.try_get("reason")?,
        by: row.try_get("answered_by")?,
    }))
}

fn row(row: &AnyRow) -> Result<ApprovalRow, Error> {
    Ok(ApprovalRow {
        id: row.try_get("id")?,
        principal: row.try_get("principal")?,
        profile: row.try_get("profile")?,
        session: row.try_get("session")?,
        tool: row.try_get("tool")?,
        payload: row.try_get("payload")?,
        state: ApprovalState::parse(row.try_get::<String, _>("state")?.as_str()),
        answer: answer(row)?,
        created_ms: row.try_get("created_ms")?,
        answered_ms: row.try_get("answered_ms")?,
        expires_ms: row.try_get("expires_ms")?,
    })
}

/// What expired unanswered.
async fn expire(writing: &mut Writing, now_ms: i64) -> Result<Vec<ApprovalRow>, Error> {
    let statement = sqlx::AssertSqlSafe(format!(
        "UPDATE approvals SET state = 'expired' WHERE state = 'open' AND expires_ms <= $1 \
         RETURNING {COLUMNS}"
    ));
    let open = sqlx::query(statement).bind(now_ms).fetch_all(writing.connection()).await?;
    sqlx::query(
        "UPDATE approvals SET state = 'expired' WHERE state = 'answered' AND expires_ms <= $1",
    )
    .bind(now_ms)
    .execute(writing.connection())
    .await?;
    open.iter().map(row).collect()
}

impl Store {
    /// The open question with this key, which from now on lasts as long as a new one, or a new
    /// one.
    pub async fn ask(&self, new: &NewApproval) -> Result<Asked, Error> {
        let mut writing = self.write(Durability::Process).await?;
        let expired = expire(&mut writing, new.created_ms).await?;
        sqlx::query(
            "INSERT INTO approvals (id, request_key, principal, profile, session, tool, payload, \
             state, answer, reason, answered_by, created_ms, answered_ms, expires_ms) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, 'open', '', '', '', $8, 0, $9) \
             ON CONFLICT (request_key) WHERE state = 'open' \
             DO UPDATE SET expires_ms = excluded.expires_ms",
        )
        .bind(&new.id)
        .bind(&new.key)
        .bind(&new.principal)
        .bind(&new.profile)
        .bind(&new.session)
        .bind(&new.tool)
        .bind(&new.payload)
        .bind(new.created_ms)
        .bind(new.expires_ms)
        .execute(writing.connection())
        .await?;
        let statement = sqlx::AssertSqlSafe(format!(
            "SELECT {COLUMNS} FROM approvals WHERE request_key = $1 AND state = 'open'"
        ));
        let found = sqlx::query(statement).bind(&new.key).fetch_one(writing.connection()).await?;
        let found = row(&found)?;
        writing.commit().await?;
        Ok(Asked { is_new: found.id == new.id, row: found, expired })
    }

    /// Marks what has expired; the questions among it that nobody answered.
    pub async fn expire_approvals(&self, now_ms: i64) -> Result<Vec<ApprovalRow>, Error> {
        let mut writing = self.write(Durability::Process).await?;
        let expired = expire(&mut writing, now_ms).await?;
        writing.commit().await?;
        Ok(expired)
    }

    /// Takes the answer to the question with this key, if there is an unused one.
    pub async fn take_answer(&self, key: &str, now_ms: i64) -> Result<Option<Taken>, Error> {
        let mut writing = self.write(Durability::Machine).await?;
        let taken = sqlx::query(
            "UPDATE approvals SET state = 'used' WHERE state = 'answered' AND id = \
             (SELECT id FROM approvals WHERE request_key = $1 AND state = 'answered' \
              AND expires_ms > $2 ORDER BY answered_ms LIMIT 1) \
             RETURNING id, answer, reason, answered_by",
        )
        .bind(key)
        .bind(now_ms)
        .fetch_optional(writing.connection())
        .await?;
        writing.commit().await?;
        let Some(taken) = taken else { return Ok(None) };
        let answer = answer(&taken)?
            .ok_or_else(|| Error::Database("an answered approval holds no answer".to_owned()))?;
        Ok(Some(Taken { id: taken.try_get("id")?, answer }))
    }

    /// Gives an answer back that was taken for a call of which nothing was done. It still expires
    /// when it would have.
    pub async fn give_back(&self, id: &str) -> Result<(), Error> {
        let mut single = self.write_one(Durability::Machine).await?;
        sqlx::query("UPDATE approvals SET state = 'answered' WHERE id = $1 AND state = 'used'")
            .bind(id)
            .execute(single.connection())
            .await?;
        Ok(())
    }

    /// One question.
    pub async fn approval(&self, id: &str) -> Result<Option<ApprovalRow>, Error> {
        let statement =
            sqlx::AssertSqlSafe(format!("SELECT {COLUMNS} FROM approvals WHERE id = $1"));
        let found =
            sqlx::query(statement).bind(id).fetch_optional(&mut *self.read().await?).await?;
        found.as_ref().map(row).transpose()
    }

    /// The open questions, oldest first.
    pub async fn open_approvals(&self, now_ms: i64) -> Result<Vec<ApprovalRow>, Error> {
        let statement = sqlx::AssertSqlSafe(format!(
            "SELECT {COLUMNS} FROM approvals WHERE state = 'open' AND expires_ms > $1 \
             ORDER BY created_ms, id"
        ));
        let found = sqlx::query(statement).bind(now_ms).fetch_all(&mut *self.read().await?).await?;
        found.iter().map(row).collect()
    }

    /// Questions, newest first.
    pub async fn approvals(&self, filter: &ApprovalFilter) -> Result<Vec<ApprovalRow>, Error> {
        let statement = sqlx::AssertSqlSafe(format!(
            "SELECT {COLUMNS} FROM approvals WHERE ($1 = '' OR state = $1) \
             AND ($2 = '' OR principal = $2) AND ($3 = '' OR id < $3) ORDER BY id DESC LIMIT $4"
        ));
        let found = sqlx::query(statement)
            .bind(filter.state.map_or("", ApprovalState::name))
            .bind(filter.principal.as_deref().unwrap_or_default())
            .bind(filter.before.as_deref().unwrap_or_default())
            .bind(i64::from(filter.limit))
            .fetch_all(&mut *self.read().await?)
            .await?;
        found.iter().map(row).collect()
    }

    /// Answers an open question. Of several answers the first wins; the others are a conflict.
    pub async fn answer(
        &self,
        id: &str,
        answer: &Answer,
        allow: Option<&SessionAllow>,
        now_ms: i64,
        expires_ms: i64,
    ) -> Result<(), Error> {
        let mut writing = self.write(Durability::Machine).await?;
        let changed = sqlx::query(
            "UPDATE approvals SET state = 'answered', answer = $2, reason = $3, \
             answered_by = $4, answered_ms = $5, expires_ms = $6 \
             WHERE id = $1 AND state = 'open' AND expires_ms > $5",
        )
        .bind(id)
        .bind(answer.kind.name())
        .bind(&answer.reason)
        .bind(&answer.by)
        .bind(now_ms)
        .bind(expires_ms)
        .execute(writing.connection())
        .await?
        .rows_affected();
        if changed == 0 {
            writing.roll_back().await?;
            return Err(self.why_not_open(id, now_ms).await?);
        }
        if let Some(allow) = allow {
            sqlx::query(
                "INSERT INTO session_allows (session, tool, definition, answered_by, at_ms) \
                 VALUES ($1, $2, $3, $4, $5) ON CONFLICT (session, tool, definition) DO NOTHING",
            )
            .bind(&allow.session)
            .bind(&allow.tool)
            .bind(&allow.definition)
            .bind(&answer.by)
            .bind(now_ms)
            .execute(writing.connection())
            .await?;
        }
        writing.commit().await
    }

    /// Makes an open question void, because what it was about has changed. Whether it was open.
    pub async fn void_approval(&self, id: &str) -> Result<bool, Error> {
        let mut single = self.write_one(Durability::Process).await?;
        let changed =
            sqlx::query("UPDATE approvals SET state = 'void' WHERE id = $1 AND state = 'open'")
                .bind(id)
                .execute(single.connection())
                .await?;
        Ok(changed.rows_affected() > 0)
    }

    async fn why_not_open(&self, id: &str, now_ms: i64) -> Result<Error, Error> {
        let Some(row) = self.approval(id).await? else {
            return Ok(Error::Conflict(format!("there is no approval {id}")));
        };
        Ok(Error::Conflict(match row.state {
            ApprovalState::Answered | ApprovalState::Used => {
                let answer = row.answer.map(|answer| match answer.kind {
                    AnswerKind::Deny => format!(": {} denied it", answer.by),
                    AnswerKind::Once | AnswerKind::Session => format!(": {} allowed it", answer.by),
                });
                format!("approval {id} was answered already{}", answer.unwrap_or_default())
            }
            ApprovalState::Void => {
                format!("approval {id} is void: what it was about has changed; make the call again")
            }
            ApprovalState::Open if row.expires_ms > now_ms => {
                format!("approval {id} was changed at the same time; look again")
            }
            ApprovalState::Open | ApprovalState::Expired => {
                format!("approval {id} has expired; make the call again to be asked again")
            }
        }))
    }
}

//! Calls in the background, as MCP's tasks and as what a model without them is told.

use std::time::Duration;

use gateway::{BackgroundCall, BackgroundState, Gateway, Session, Whose};
use mcp::server::{Answer, Call, Caller, Refusal, Task, TaskState, Tasks};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::watch;

use super::Offer;

/// How long one look for the end of a call lasts.
const LOOK: Duration = Duration::from_secs(20);

/// How long a call may take to end once it was told to, before the answer says that it will.
const ENDING: Duration = Duration::from_secs(5);

/// Tasks in one page.
const PAGE: u32 = 100;

/// What a caller gets whose call goes on in the background.
pub(crate) fn answer(background: &BackgroundCall, caller: &Caller, call: &Call) -> Answer {
    if call.as_task || (caller.revision.is_modern() && caller.tasks) {
        return Answer::Task(Box::new(task(background)));
    }
    Answer::text(&still_running(background), false)
}

/// For a client that was promised a task, a result that was there at once.
pub(crate) async fn kept(
    gateway: &Gateway,
    session: &Session,
    call: &Call,
    answer: Answer,
) -> Result<Answer, Refusal> {
    let result = match answer {
        Answer::Result(result) if call.as_task => result,
        answer => return Ok(answer),
    };
    let result = mcp::CallResult::parse((*result).to_owned())
        .map_err(|error| Refusal::internal(error.to_string()))?;
    let kept = gateway.keep_in_background(session, &call.name, &call.arguments, &result).await;
    let kept = kept.map_err(|error| Refusal::internal(error.to_string()))?;
    Ok(Answer::Task(Box::new(task(&kept))))
}

/// For a model whose client knows no tasks.
fn still_running(background: &BackgroundCall) -> String {
    let BackgroundCall { id, tool, description, started_ms, .. } = background;
    let seconds = (jiff::Timestamp::now().as_millisecond() - started_ms).max(0) / 1000;
    let what = if description.is_empty() {
        tool.clone()
    } else {
        format!("{tool} {}", json!(description))
    };
    let id_argument = json!({"id": id});
    let progress = background.progress.as_ref().map(gateway::LastProgress::line);
    let progress = progress.filter(|line| !line.is_empty());
    let progress = progress.map_or_else(String::new, |line| format!(" ({line})"));
    format!(
        "still running: {what} has taken {seconds} s until now{progress} and goes on in the \
         background with the id {id}.\nGet its result with background_result {id_argument}: that \
         waits for it and gives exactly what this call would have given; as long as it says \
         \"still running\", ask again. Do not make the same call again, or it is done twice. \
         background_cancel {id_argument} ends it, background_list shows all that go on."
    )
}

fn task(background: &BackgroundCall) -> Task {
    let at = |ms: i64| {
        jiff::Timestamp::from_millisecond(ms)
            .map_or_else(|_| String::new(), |at| at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
    };
    let state = match background.state {
        BackgroundState::Running => TaskState::Working,
        BackgroundState::Finished => TaskState::Done,
        BackgroundState::Failed => TaskState::Failed,
        BackgroundState::Cancelled => TaskState::Cancelled,
        BackgroundState::Interrupted => TaskState::Lost,
    };
    let message = match background.state {
        BackgroundState::Running => background.progress.as_ref().map(gateway::LastProgress::line),
        BackgroundState::Finished => None,
        BackgroundState::Failed => Some("it ended with an error".to_owned()),
        BackgroundState::Cancelled => Some("it was cancelled".to_owned()),
        BackgroundState::Interrupted => {
            Some("interrupted: pinfold ended while it ran in the background".to_owned())
        }
    };
    let updated = background.progress.as_ref().map_or(background.started_ms, |last| last.at_ms);
    let lasts = background.expires_ms.saturating_sub(background.started_ms);
    Task {
        id: background.id.clone(),
        state,
        message: message.filter(|message| !message.is_empty()),
        created_at: at(background.started_ms),
        updated_at: at(background.ended_ms.unwrap_or(updated)),
        lasts: Duration::from_millis(u64::try_from(lasts).unwrap_or_default()),
        result: background.result.clone(),
    }
}

fn failed(error: gateway::Error) -> Refusal {
    Refusal::internal(error.to_string())
}

#[async_trait::async_trait]
impl Tasks for Offer {
    async fn changes(&self) -> Result<watch::Receiver<u64>, Refusal> {
        Ok(self.gateway().await?.background_changes())
    }

    async fn task(
        &self,
        caller: &Caller,
        meta: Option<&RawValue>,
        id: &str,
    ) -> Result<Option<Task>, Refusal> {
        let gateway = self.gateway().await?;
        let session = self.session_of(&gateway, caller, meta).await?;
        let found = gateway.background_call(Whose::Session(&session), id).await;
        Ok(found.map_err(failed)?.as_ref().map(task))
    }

    async fn finished(
        &self,
        caller: &Caller,
        meta: Option<&RawValue>,
        id: &str,
    ) -> Result<Option<Task>, Refusal> {
        let gateway = self.gateway().await?;
        let session = self.session_of(&gateway, caller, meta).await?;
        loop {
            let found = gateway.wait_for_background(Whose::Session(&session), id, LOOK).await;
            match found.map_err(failed)? {
                Some(found) if !found.is_over() => {}
                found => return Ok(found.as_ref().map(task)),
            }
        }
    }

    async fn cancel(
        &self,
        caller: &Caller,
        meta: Option<&RawValue>,
        id: &str,
    ) -> Result<Option<(bool, Task)>, Refusal> {
        let gateway = self.gateway().await?;
        let session = self.session_of(&gateway, caller, meta).await?;
        let found = gateway.cancel_background(Whose::Session(&session), id, ENDING).await;
        Ok(found.map_err(failed)?.map(|(was_running, found)| (was_running, task(&found))))
    }

    async fn list(
        &self,
        caller: &Caller,
        meta: Option<&RawValue>,
        cursor: Option<&str>,
    ) -> Result<(Vec<Task>, Option<String>), Refusal> {
        let gateway = self.gateway().await?;
        let session = self.session_of(&gateway, caller, meta).await?;
        let whose = Whose::Session(&session);
        // A page goes on behind a task that there is.
        if let Some(cursor) = cursor
            && gateway.background_call(whose, cursor).await.map_err(failed)?.is_none()
        {
            return Err(Refusal::invalid("there is no page with this cursor; list from the start"));
        }
        let found = gateway.background_calls(whose, cursor, PAGE).await.map_err(failed)?;
        let next = found.last().filter(|_| found.len() == PAGE as usize);
        let next = next.map(|last| last.id.clone());
        Ok((found.iter().map(task).collect(), next))
    }
}

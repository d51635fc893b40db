//! Calls that go on without their request, in the form of either era: the extension
//! `io.modelcontextprotocol/tasks` of 2026-07-28, where the server decides, and the tasks of
//! 2025-11-25, where the client does.
//!
//! What goes on, for how long it is kept and whose it is, the service knows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::value::RawValue;
use tokio::sync::watch;

use super::object::Object;
use super::peer::{Begun, Outcome, Peer};
use super::{About, Caller, Refusal, Service, results};
use crate::message::{code, notification, object, quote, text};
use crate::revision::Revision;

/// Names the extension.
pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The one older revision that has tasks.
const LEGACY: &str = "2025-11-25";

/// Says in `_meta` to which task something belongs.
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// How often a client should ask.
const POLL: Duration = Duration::from_secs(1);

/// How often is looked for changes that are not told, because another process makes them.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Most tasks that one client has watched.
const MOST_WATCHED: usize = 200;

/// A call that goes on without its request.
#[derive(Clone, Debug)]
pub struct Task {
    /// Names it.
    pub id: String,
    /// How it is.
    pub state: TaskState,
    /// How far it is, or what became of it.
    pub message: Option<String>,
    /// When it was called, as RFC 3339 says.
    pub created_at: String,
    /// When its state changed last.
    pub updated_at: String,
    /// How long it is kept, from when it was called.
    pub lasts: Duration,
    /// What the call gave, once it is over.
    pub result: Option<Arc<RawValue>>,
}

/// How a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// It goes on.
    Working,
    /// There is a result.
    Done,
    /// There is a result that says what went wrong.
    Failed,
    /// Somebody ended it.
    Cancelled,
    /// It will never have a result, through no fault of the tool's.
    Lost,
}

/// The tasks of a service. One that is not the caller's does not exist.
#[async_trait::async_trait]
pub trait Tasks: Send + Sync {
    /// Told whenever one begins or ends.
    async fn changes(&self) -> Result<watch::Receiver<u64>, Refusal>;

    /// How one is.
    async fn task(
        &self,
        caller: &Caller,
        meta: Option<&RawValue>,
        id: &str,
    ) -> Result<Option<Task>, Refusal>;

    /// Waits until it is over.
    async fn finished(
        &self,
        caller: &Caller,
        meta: Option<&RawValue>,
        id: &str,
    ) -> Result<Option<Task>, Refusal>;

    /// Ends it. Whether it was going on until now, and how it is.
    async fn cancel(
        &self,
        caller: &Caller,
        meta: Option<&RawValue>,
        id: &str,
    ) -> Result<Option<(bool, Task)>, Refusal>;

    /// All of them, newest first, in pages, without results; with where the next page begins.
    async fn list(
        &self,
        caller: &Caller,
        meta: Option<&RawValue>,
        cursor: Option<&str>,
    ) -> Result<(Vec<Task>, Option<String>), Refusal>;
}

impl Task {
    fn is_over(&self) -> bool {
        self.state != TaskState::Working
    }

    /// Its members, in the names of the era.
    fn members(&self, modern: bool) -> Vec<(&'static str, String)> {
        let status = match (self.state, modern) {
            (TaskState::Working, _) => "working",
            // An error of the tool's is a result like any other.
            (TaskState::Done, _) | (TaskState::Failed, true) => "completed",
            (TaskState::Failed | TaskState::Lost, _) => "failed",
            (TaskState::Cancelled, _) => "cancelled",
        };
        let mut members = vec![("taskId", quote(&self.id)), ("status", quote(status))];
        if let Some(message) = &self.message {
            members.push(("statusMessage", quote(message)));
        }
        let (lasts, poll) =
            if modern { ("ttlMs", "pollIntervalMs") } else { ("ttl", "pollInterval") };
        members.push(("createdAt", quote(&self.created_at)));
        members.push(("lastUpdatedAt", quote(&self.updated_at)));
        members.push((lasts, self.lasts.as_millis().to_string()));
        members.push((poll, POLL.as_millis().to_string()));
        members
    }

    /// The members with what came of it: of 2026-07-28 only.
    fn detailed(&self, about: &About, revision: &Revision) -> Vec<(&'static str, String)> {
        let mut members = self.members(true);
        match self.state {
            TaskState::Done | TaskState::Failed => {
                let result =
                    self.result.as_deref().map(|raw| results::called(about, raw, revision));
                members.push(("result", result.unwrap_or_else(|| r#"{"content":[]}"#.to_owned())));
            }
            TaskState::Lost => {
                let message = self.message.as_deref().unwrap_or("it was interrupted");
                let code = code::INTERNAL.to_string();
                members.push(("error", object(&[("code", &code), ("message", &quote(message))])));
            }
            TaskState::Working | TaskState::Cancelled => {}
        }
        members
    }

    /// Instead of the result of a call: what it became.
    pub(crate) fn created(&self, about: &About, revision: &Revision) -> String {
        // A task begins by working, however soon it is over.
        let task = Self { state: TaskState::Working, result: None, ..self.clone() };
        let members = task.members(revision.is_modern());
        if revision.is_modern() {
            let mut all = vec![("resultType", quote("task"))];
            all.extend(members);
            all.push(("_meta", results::meta(about)));
            written(&all)
        } else {
            object(&[("task", &written(&members))])
        }
    }
}

fn written(members: &[(&'static str, String)]) -> String {
    let members: Vec<(&str, &str)> =
        members.iter().map(|(name, value)| (*name, value.as_str())).collect();
    object(&members)
}

/// Whether a call of this client may become a task because the client says so.
pub(crate) fn is_wanted(caller: &Caller, params: Option<&RawValue>) -> bool {
    caller.revision.0 == LEGACY
        && Object::read(params).is_some_and(|params| Object::read(params.get("task")).is_some())
}

/// Whether a client of this revision knows what the answer would be; `capabilities` are its own.
pub(crate) fn are_known(revision: &str, capabilities: Option<&RawValue>) -> bool {
    if !Revision(revision.to_owned()).is_modern() {
        return revision == LEGACY;
    }
    let extensions = Object::read(capabilities)
        .and_then(|capabilities| Object::read(capabilities.get("extensions")));
    extensions.is_some_and(|extensions| Object::read(extensions.get(EXTENSION)).is_some())
}

/// What is said of them in the capabilities.
pub(crate) fn capability(revision: Option<&Revision>) -> Option<(&'static str, &'static str)> {
    match revision {
        None => Some(("extensions", r#"{"io.modelcontextprotocol/tasks":{}}"#)),
        Some(revision) if revision.0 == LEGACY => {
            Some(("tasks", r#"{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}"#))
        }
        Some(_) => None,
    }
}

fn no_task() -> Refusal {
    Refusal::invalid("there is no such task; it may have expired")
}

fn wrong_cursor() -> Refusal {
    Refusal::invalid("there is no page with this cursor; list from the start")
}

/// Reads a request about a task; the future answers it.
pub(crate) fn begin<S: Service>(
    peer: &Arc<Peer<S>>,
    method: &str,
    begun: Begun,
) -> Result<BoxFuture<'static, Outcome>, Refusal> {
    let modern = begun.caller.revision.is_modern();
    let wish = match (method, modern) {
        ("tasks/get", _) => Wish::Get,
        ("tasks/cancel", _) => Wish::Cancel,
        ("tasks/update", true) => Wish::Update,
        ("tasks/result", false) => Wish::Result,
        ("tasks/list", false) => Wish::List,
        _ => return Err(Refusal::unknown_method(method)),
    };
    if peer.service.tasks().is_none() || (!modern && !begun.caller.tasks) {
        return Err(Refusal::unknown_method(method));
    }
    if !begun.caller.tasks {
        return Err(Refusal::missing_extension(EXTENSION));
    }
    let params = Object::read(begun.params.as_deref()).unwrap_or_default();
    let id = match wish {
        Wish::List => match params.get("cursor").filter(|cursor| cursor.get() != "null") {
            Some(cursor) => Some(text(Some(cursor)).ok_or_else(wrong_cursor)?),
            None => None,
        },
        _ => {
            let id = text(params.get("taskId"));
            Some(id.ok_or_else(|| Refusal::invalid(format!("{method} needs `taskId`, a string")))?)
        }
    };
    let peer = Arc::clone(peer);
    Ok(async move {
        tokio::select! {
            answer = wish.meet(&peer, &begun, id.as_deref()) => Some(answer),
            () = begun.running.cancel.cancelled() => None,
        }
    }
    .boxed())
}

#[derive(Clone, Copy)]
enum Wish {
    Get,
    Update,
    Cancel,
    Result,
    List,
}

impl Wish {
    async fn meet<S: Service>(
        self,
        peer: &Peer<S>,
        begun: &Begun,
        id: Option<&str>,
    ) -> Result<String, Refusal> {
        let tasks = peer.service.tasks().ok_or_else(no_task)?;
        let (caller, meta) = (&begun.caller, begun.meta.as_deref());
        let (about, revision) = (peer.service.about(), &caller.revision);
        if matches!(self, Self::List) {
            let (tasks, next) = tasks.list(caller, meta, id).await?;
            let tasks: Vec<String> =
                tasks.iter().map(|task| written(&task.members(false))).collect();
            let mut fields = vec![("tasks", format!("[{}]", tasks.join(",")))];
            fields.extend(next.map(|next| ("nextCursor", quote(&next))));
            return Ok(written(&fields));
        }
        let id = id.unwrap_or_default();
        let modern = revision.is_modern();
        let complete = |mut members: Vec<(&'static str, String)>| {
            members.insert(0, ("resultType", quote("complete")));
            members.push(("_meta", results::meta(&about)));
            written(&members)
        };
        match self {
            Self::Result => {
                let task = tasks.finished(caller, meta, id).await?.ok_or_else(no_task)?;
                let raw = task.result.clone().unwrap_or_else(|| {
                    let message = task.message.as_deref().unwrap_or("there is no result");
                    results::text(message, true)
                });
                let result = results::called(&about, &raw, revision);
                Ok(related(&result, &task.id))
            }
            Self::Cancel => {
                let (was_going_on, task) =
                    tasks.cancel(caller, meta, id).await?.ok_or_else(no_task)?;
                if modern {
                    return Ok(complete(Vec::new()));
                }
                if !was_going_on {
                    return Err(Refusal::invalid("the task is over already"));
                }
                Ok(written(&task.members(false)))
            }
            _ => {
                let task = tasks.task(caller, meta, id).await?.ok_or_else(no_task)?;
                Ok(match self {
                    // No task here ever asks for input, so every response is one to nothing.
                    Self::Update => complete(Vec::new()),
                    _ if modern => complete(task.detailed(&about, revision)),
                    _ => written(&task.members(false)),
                })
            }
        }
    }
}

/// A result with the task it came of in its `_meta`.
fn related(result: &str, id: &str) -> String {
    let raw = RawValue::from_string(result.to_owned()).ok();
    let mut result = Object::read(raw.as_deref()).unwrap_or_default();
    let mut meta = Object::read(result.get("_meta")).unwrap_or_default();
    meta.set(RELATED, object(&[("taskId", &quote(id))]));
    result.set("_meta", meta.write());
    result.write()
}

/// The tasks that a listening client of 2026-07-28 wants to hear of.
pub(crate) struct Watched<S> {
    peer: Arc<Peer<S>>,
    caller: Caller,
    meta: Option<Box<RawValue>>,
    /// By id, whether their end was told.
    told: BTreeMap<String, bool>,
    changes: Option<watch::Receiver<u64>>,
}

impl<S: Service> Watched<S> {
    /// Of those that were named, the ones there are.
    pub(crate) async fn of(
        peer: &Arc<Peer<S>>,
        caller: &Caller,
        meta: Option<Box<RawValue>>,
        ids: Vec<String>,
    ) -> Self {
        let mut told = BTreeMap::new();
        let mut changes = None;
        if let Some(tasks) = peer.service.tasks().filter(|_| !ids.is_empty()) {
            changes = tasks.changes().await.ok();
            for id in ids.into_iter().take(MOST_WATCHED) {
                if let Ok(Some(_)) = tasks.task(caller, meta.as_deref(), &id).await {
                    told.insert(id, false);
                }
            }
        }
        Self { peer: Arc::clone(peer), caller: caller.clone(), meta, told, changes }
    }

    /// Their ids, as JSON; nothing if there are none.
    pub(crate) fn ids(&self) -> Option<String> {
        let ids: Vec<String> = self.told.keys().map(|id| quote(id)).collect();
        (!ids.is_empty()).then(|| format!("[{}]", ids.join(",")))
    }

    /// The next notifications; waits for ever when there is nothing more to tell.
    pub(crate) async fn next(&mut self, listening: &str) -> Vec<String> {
        let service = Arc::clone(&self.peer.service);
        loop {
            let open: Vec<String> =
                self.told.iter().filter(|(_, told)| !**told).map(|(id, _)| id.clone()).collect();
            let (Some(tasks), Some(changes)) = (service.tasks(), &mut self.changes) else {
                return std::future::pending().await;
            };
            if open.is_empty() {
                return std::future::pending().await;
            }
            changes.borrow_and_update();
            let mut messages = Vec::new();
            for id in open {
                let found = tasks.task(&self.caller, self.meta.as_deref(), &id).await;
                if let Ok(Some(task)) = found
                    && task.is_over()
                {
                    let mut members = task.detailed(&service.about(), &self.caller.revision);
                    members.push(("_meta", listening.to_owned()));
                    messages.push(notification("notifications/tasks", &written(&members)));
                    self.told.insert(id, true);
                }
            }
            if !messages.is_empty() {
                return messages;
            }
            changed(changes).await;
        }
    }
}

/// For an older client: the ends of tasks that it made over this connection.
pub(crate) async fn ends<S: Service>(peer: &Arc<Peer<S>>) -> Vec<String> {
    let (Some(tasks), Some(caller)) = (peer.service.tasks(), peer.connection.agreed()) else {
        return std::future::pending().await;
    };
    let Ok(mut changes) = tasks.changes().await else { return std::future::pending().await };
    loop {
        changes.borrow_and_update();
        let mut messages = Vec::new();
        for id in peer.connection.tasks() {
            let found = tasks.task(&caller, None, &id).await;
            match found {
                Ok(Some(task)) if task.is_over() => {
                    let params = written(&task.members(false));
                    messages.push(notification("notifications/tasks/status", &params));
                    peer.connection.forget_task(&id);
                }
                Ok(None) => peer.connection.forget_task(&id),
                _ => {}
            }
        }
        if !messages.is_empty() {
            return messages;
        }
        changed(&mut changes).await;
    }
}

async fn changed(changes: &mut watch::Receiver<u64>) {
    let told = tokio::time::timeout(LOOK_AGAIN, changes.changed()).await;
    if let Ok(Err(_)) = told {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn about() -> About {
        About {
            name: "n".to_owned(),
            title: "t".to_owned(),
            version: "1".to_owned(),
            instructions: String::new(),
        }
    }

    fn task(state: TaskState) -> Task {
        Task {
            id: "x".to_owned(),
            state,
            message: Some("said".to_owned()),
            created_at: "2026-01-01T00:00:00Z".to_owned(),
            updated_at: "2026-01-01T00:00:01Z".to_owned(),
            lasts: Duration::from_secs(60),
            result: Some(results::text("r", state == TaskState::Failed)),
        }
    }

    #[test]
    fn each_era_has_its_words() {
        let modern = Revision("2026-07-28".to_owned());
        let detailed = |state| -> Value {
            let members = task(state).detailed(&about(), &modern);
            serde_json::from_str(&written(&members)).unwrap()
        };
        let status = |state, modern| {
            let members: Value =
                serde_json::from_str(&written(&task(state).members(modern))).unwrap();
            members["status"].as_str().unwrap().to_owned()
        };
        for (state, new, old) in [
            (TaskState::Working, "working", "working"),
            (TaskState::Done, "completed", "completed"),
            (TaskState::Failed, "completed", "failed"),
            (TaskState::Cancelled, "cancelled", "cancelled"),
            (TaskState::Lost, "failed", "failed"),
        ] {
            assert_eq!((status(state, true).as_str(), status(state, false).as_str()), (new, old));
            let detailed = detailed(state);
            assert_eq!(detailed["ttlMs"], 60_000);
            let has_result = matches!(state, TaskState::Done | TaskState::Failed);
            assert_eq!(detailed.get("result").is_some(), has_result, "{detailed}");
            assert_eq!(detailed.get("error").is_some(), state == TaskState::Lost, "{detailed}");
        }
        let created: Value =
            serde_json::from_str(&task(TaskState::Done).created(&about(), &modern)).unwrap();
        assert_eq!(
            (&created["resultType"], &created["status"]),
            (&json!("task"), &json!("working"))
        );
        let old = Revision("2025-11-25".to_owned());
        let created: Value =
            serde_json::from_str(&task(TaskState::Done).created(&about(), &old)).unwrap();
        assert_eq!(created["task"]["ttl"], 60_000);
        assert_eq!(created["task"]["pollInterval"], 1_000);
    }

    #[test]
    fn who_does_not_say_so_knows_no_tasks() {
        let known = |revision: &str, capabilities: &str| {
            let capabilities = RawValue::from_string(capabilities.to_owned()).unwrap();
            are_known(revision, Some(&capabilities))
        };
        let declared = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
        assert!(known("2026-07-28", declared) && known("2025-11-25", "{}"));
        assert!(!known("2025-06-18", declared));
        for undeclared in [
            "{}",
            "[]",
            r#"{"tasks":{}}"#,
            r#"{"extensions":{"io.modelcontextprotocol/tasks":true}}"#,
            r#"{"extensions":null}"#,
        ] {
            assert!(!known("2026-07-28", undeclared), "{undeclared}");
        }
    }
}

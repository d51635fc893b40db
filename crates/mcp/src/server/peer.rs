//! Takes what a client sends and gives back what is to be answered. Knows methods, not transports.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::connection::{Connection, Outlet, Running};
use super::{Caller, Refusal, Seal, Service, call, era, listen, passing, results, tasks};
use crate::message::{self, Incoming, LONGEST_BATCH, code, fields};
use crate::revision::Revision;

/// Revisions in which several messages may come as one.
const WITH_BATCHES: [&str; 2] = ["2025-03-26", "2024-11-05"];

/// One client of a service.
#[derive(Debug)]
pub(crate) struct Peer<S> {
    pub(crate) service: Arc<S>,
    pub(crate) seal: Seal,
    pub(crate) connection: Arc<Connection>,
    /// The transport's session, where there is one.
    pub(crate) session: Option<String>,
}

/// What is to be answered.
pub(crate) enum Reply {
    /// This.
    Now(String),
    /// What comes of it; nothing if it is cancelled.
    Later(BoxFuture<'static, Option<String>>),
}

impl Reply {
    async fn text(self) -> Option<String> {
        match self {
            Self::Now(text) => Some(text),
            Self::Later(text) => text.await,
        }
    }
}

/// What comes of a request; nothing if it was cancelled.
pub(crate) type Outcome = Option<Result<String, Refusal>>;

/// How a request goes on.
enum Course {
    /// Its result.
    Over(String),
    /// What it still waits for.
    On(BoxFuture<'static, Outcome>),
}

/// A request that has begun.
pub(crate) struct Begun {
    pub(crate) caller: Caller,
    pub(crate) id: Box<RawValue>,
    pub(crate) params: Option<Box<RawValue>>,
    pub(crate) meta: Option<Box<RawValue>>,
    pub(crate) running: Running,
    pub(crate) outlet: Outlet,
}

impl<S: Service> Peer<S> {
    /// Takes what was sent at once: a message, or a batch of them where the revision has such.
    pub(crate) fn receive(self: &Arc<Self>, sent: &str, outlet: &Outlet) -> Option<Reply> {
        let sent = sent.trim_start_matches('\u{feff}').trim_ascii();
        if !sent.starts_with('[') {
            return self.take(sent, outlet);
        }
        let Ok(parts) = serde_json::from_str::<Vec<&RawValue>>(sent) else {
            return Some(Reply::Now(malformed(sent)));
        };
        let agreed = self.connection.agreed();
        let allowed =
            agreed.is_some_and(|caller| WITH_BATCHES.contains(&caller.revision.0.as_str()));
        if !allowed || parts.is_empty() || parts.len() > LONGEST_BATCH {
            let why = if allowed {
                format!("a batch holds 1 to {LONGEST_BATCH} messages")
            } else {
                "the revision in use has no batches; send one message at a time".to_owned()
            };
            return Some(Reply::Now(Refusal::new(code::INVALID_REQUEST, why).reply(None)));
        }
        let replies: Vec<_> = parts
            .into_iter()
            .filter_map(|part| Some(self.take(part.get(), outlet)?.text()))
            .collect();
        if replies.is_empty() {
            return None;
        }
        let all = async move {
            let texts: Vec<String> = join_all(replies).await.into_iter().flatten().collect();
            (!texts.is_empty()).then(|| format!("[{}]", texts.join(",")))
        };
        Some(Reply::Later(all.boxed()))
    }

    fn take(self: &Arc<Self>, sent: &str, outlet: &Outlet) -> Option<Reply> {
        let Ok(message) = message::parse_one(sent) else {
            return Some(Reply::Now(malformed(sent)));
        };
        match message {
            Incoming::Request { id, method, params } => {
                Some(self.request(id, &method, params, outlet))
            }
            Incoming::Response { id, outcome } => {
                self.connection.answered(id, outcome);
                None
            }
            Incoming::Notification { method, params } => {
                self.notice(&method, params);
                None
            }
        }
    }

    fn notice(&self, method: &str, params: Option<&RawValue>) {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Cancelled<'a> {
            #[serde(borrow, default)]
            request_id: Option<&'a RawValue>,
        }
        match method {
            "notifications/initialized" => self.connection.set_ready(),
            "notifications/cancelled" => {
                if let Some(id) = fields::<Cancelled<'_>>(params).request_id {
                    self.connection.cancel(id);
                }
            }
            _ => tracing::debug!(method, "a notification that means nothing here"),
        }
    }

    fn request(
        self: &Arc<Self>,
        id: &RawValue,
        method: &str,
        params: Option<&RawValue>,
        outlet: &Outlet,
    ) -> Reply {
        let course = match self.begin(id, method, params, outlet) {
            Ok(Course::Over(result)) => return Reply::Now(message::reply(id, &result)),
            Ok(Course::On(course)) => course,
            Err(refusal) => return Reply::Now(refusal.reply(Some(id))),
        };
        let id = id.to_owned();
        let reply = course.map(move |outcome| {
            Some(match outcome? {
                Ok(result) => message::reply(&id, &result),
                Err(refusal) => refusal.reply(Some(&id)),
            })
        });
        Reply::Later(reply.boxed())
    }

    fn begin(
        self: &Arc<Self>,
        id: &RawValue,
        method: &str,
        params: Option<&RawValue>,
        outlet: &Outlet,
    ) -> Result<Course, Refusal> {
        let running = self.connection.begin(id)?;
        let params = params.filter(|params| params.get() != "null");
        if params.is_some_and(|params| !params.get().starts_with('{')) {
            return Err(Refusal::invalid("params is not an object"));
        }
        let meta = era::meta(params);
        let begun = |caller| Begun {
            caller,
            id: id.to_owned(),
            params: params.map(ToOwned::to_owned),
            meta: meta.clone(),
            running,
            outlet: outlet.clone(),
        };
        match (method, self.connection.agreed()) {
            // A request that stands alone and offers no revision to agree on begins no session.
            ("initialize", _) if era::is_modern(meta.as_deref()) && !era::offers(params) => {}
            ("initialize", _) => return self.initialize(params).map(Course::Over),
            ("server/discover", _) => {}
            // It stands alone, though there may be a session beside it.
            _ if era::is_modern(meta.as_deref()) => {}
            ("ping", _) => return Ok(Course::Over("{}".to_owned())),
            (_, None) => {}
            ("tools/list", Some(caller)) => return self.list(begun(caller)),
            ("tools/call", Some(caller)) => {
                return call::begin(self, begun(caller)).map(Course::On);
            }
            (_, Some(caller)) if method.starts_with("tasks/") => {
                return tasks::begin(self, method, begun(caller)).map(Course::On);
            }
            (_, Some(caller)) => {
                return passing::begin(self, method, begun(caller)).map(Course::On);
            }
        }
        let caller = era::modern(meta.as_deref(), self.session.clone())?;
        match method {
            "server/discover" => Ok(Course::Over(results::discovered(
                &self.service.about(),
                self.service.has_more(),
                self.service.tasks().is_some(),
            ))),
            "tools/list" => self.list(begun(caller)),
            "tools/call" => call::begin(self, begun(caller)).map(Course::On),
            "subscriptions/listen" => listen::begin(self, begun(caller)).map(Course::On),
            method if method.starts_with("tasks/") => {
                tasks::begin(self, method, begun(caller)).map(Course::On)
            }
            _ => passing::begin(self, method, begun(caller)).map(Course::On),
        }
    }

    fn initialize(&self, params: Option<&RawValue>) -> Result<String, Refusal> {
        let caller = era::legacy(params, self.session.clone())?;
        let (has_more, with_tasks) = (self.service.has_more(), self.service.tasks().is_some());
        let about = self.service.about();
        let result = results::initialized(&about, has_more, with_tasks, &caller.revision);
        self.connection.agree(caller);
        Ok(result)
    }

    fn list(self: &Arc<Self>, begun: Begun) -> Result<Course, Refusal> {
        #[derive(Default, Deserialize)]
        struct Page<'a> {
            #[serde(borrow, default)]
            cursor: Option<&'a RawValue>,
        }
        let page: Page<'_> = fields(begun.params.as_deref());
        if page.cursor.is_some_and(|cursor| cursor.get() != "null") {
            return Err(Refusal::invalid(
                "there is no page with this cursor; all tools are in one",
            ));
        }
        let service = Arc::clone(&self.service);
        let listed = async move {
            let revision: &Revision = &begun.caller.revision;
            tokio::select! {
                tools = service.tools(&begun.caller) => {
                    Some(tools.map(|tools| results::listed(&service.about(), &tools, revision)))
                }
                () = begun.running.cancel.cancelled() => None,
            }
        };
        Ok(Course::On(listed.boxed()))
    }
}

/// The answer to what is no request.
fn malformed(sent: &str) -> String {
    #[derive(Default, Deserialize)]
    struct Numbered<'a> {
        #[serde(borrow, default)]
        id: Option<&'a RawValue>,
    }
    let Ok(raw) = serde_json::from_str::<&RawValue>(sent) else {
        return Refusal::new(code::PARSE, "this is not JSON").reply(None);
    };
    let id = fields::<Numbered<'_>>(Some(raw)).id;
    let id = id.filter(|id| {
        id.get().len() < 256 && id.get().starts_with(|c: char| c == '"' || c.is_ascii_digit())
    });
    Refusal::new(code::INVALID_REQUEST, "this is not a JSON-RPC message").reply(id)
}

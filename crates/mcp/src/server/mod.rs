//! The server side: what a [`Service`] offers, told to clients of either era.
//!
//! A service sees one form of everything, that of 2026-07-28: a call that needs a person answers
//! with a [`Question`] and is made again with the reply. Clients of 2026-07-28 do that round
//! themselves; for older ones `call` does it, over a request of the server's. Nothing here knows a
//! policy, and nothing here decides who may call.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::{broadcast, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::client::{Kind, Progress};
use crate::revision::Revision;

pub(crate) mod object;
mod refusal;
mod results;

mod connection;
mod era;

mod peer;

mod call;
mod listen;
mod progress;
mod tasks;

mod lists;
mod passing;
mod watching;

mod seal;

mod stdio;

mod headers;

mod http;

pub use headers::Headers;
pub use http::{Endpoint, Gate};
pub use passing::{Passage, Wish};
pub use refusal::Refusal;
pub use seal::Seal;
pub use stdio::{serve, serve_stdio};
pub use tasks::{Task, TaskState, Tasks};
pub use watching::Watch;

/// What is served. One per principal: who calls is not told again with each request.
#[async_trait::async_trait]
pub trait Service: Send + Sync + std::fmt::Debug + 'static {
    /// What the server says about itself. Must not wait for anything: clients connect with it.
    fn about(&self) -> About;

    /// Whom it is served to; a question's state is bound to this.
    fn principal(&self) -> &str;

    /// Every tool, in an order that only depends on which tools there are.
    async fn tools(&self, caller: &Caller) -> Result<Tools, Refusal>;

    /// Which arguments of a tool clients of 2026-07-28 have to repeat in headers; none by default.
    fn headers(&self, tool: &str) -> Headers {
        let _ = tool;
        Headers::default()
    }

    /// Told whenever the tools may have changed.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Carries out a call, or says what a person has to be asked first. It has to end soon after
    /// `call.cancel` was cancelled.
    async fn call(&self, caller: &Caller, call: Call) -> Result<Answer, Refusal>;

    /// Calls that go on without their requests, where there are such.
    fn tasks(&self) -> Option<&dyn Tasks> {
        None
    }

    /// Whether there is more than tools: resources, prompts, completion.
    fn has_more(&self) -> bool {
        false
    }

    /// Everything of a kind, in an order that only depends on what there is.
    async fn list(&self, _caller: &Caller, _kind: Kind) -> Result<Tools, Refusal> {
        Ok(Tools { definitions: Vec::new(), fresh: Duration::ZERO })
    }

    /// Told whenever the list of a kind may have changed.
    fn list_changes(&self, _kind: Kind) -> Option<watch::Receiver<u64>> {
        None
    }

    /// Carries out a request for something besides tools, or says what a person has to be asked
    /// first. It has to end soon after `passage.cancel` was cancelled.
    async fn pass(&self, _caller: &Caller, _passage: Passage) -> Result<Answer, Refusal> {
        Err(Refusal::internal("there is nothing besides tools"))
    }

    /// Has [`Service::updates`] told of changes of a resource for as long as what is returned is
    /// kept.
    async fn watch(&self, _caller: &Caller, _uri: &str) -> Result<Watch, Refusal> {
        Err(Refusal::internal("there is nothing besides tools"))
    }

    /// Told the URI of each watched resource that changes.
    fn updates(&self) -> Option<broadcast::Receiver<Arc<str>>> {
        None
    }

    /// Resolves when the question with this state was answered in another way than by the client,
    /// so that the client need not be waited for; then the call is made again.
    async fn answered_elsewhere(&self, state: &str);
}

/// What a server says about itself.
#[derive(Clone, Debug)]
pub struct About {
    /// Its name, for programs.
    pub name: String,
    /// Its name, for people.
    pub title: String,
    /// Its version.
    pub version: String,
    /// How to use it, for models.
    pub instructions: String,
}

/// The tools at one time.
#[derive(Clone, Debug)]
pub struct Tools {
    /// Their definitions, as they are sent.
    pub definitions: Vec<Arc<RawValue>>,
    /// How long a client may take them for true.
    pub fresh: Duration,
}

/// What a client said about itself.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The revision it speaks.
    pub revision: Revision,
    /// Its name, as it says.
    pub client: Option<String>,
    /// The transport's session, where there is one.
    pub session: Option<String>,
    /// Whether it can show a form to a person.
    pub asks: bool,
    /// Whether it knows tasks: said so in 2026-07-28, or speaks 2025-11-25.
    pub tasks: bool,
    /// Whether it can have a person open an address.
    pub opens: bool,
}

/// One call of a tool.
#[derive(Debug)]
pub struct Call {
    /// The tool's name.
    pub name: String,
    /// Arguments, an object.
    pub arguments: Box<RawValue>,
    /// `_meta` of the request, as it was sent.
    pub meta: Option<Box<RawValue>>,
    /// What came of the question that this very call was answered with before.
    pub given: Option<Given>,
    /// The client wants a task and no result; only where there are [`Service::tasks`].
    pub as_task: bool,
    /// Where progress goes; only there if the client wants any.
    pub progress: Option<mpsc::UnboundedSender<Progress>>,
    /// Ends the call.
    pub cancel: CancellationToken,
}

/// What came of a question.
#[derive(Debug)]
pub struct Given {
    /// The question's own state.
    pub state: String,
    /// What the client answered.
    pub reply: Reply,
}

/// What a client answered to a question.
#[derive(Debug)]
pub enum Reply {
    /// The form, as it was filled in.
    Accept(Option<Box<RawValue>>),
    /// A person does not want it.
    Decline,
    /// Nobody answered, or not in time.
    Cancel,
}

/// What comes of a call.
#[derive(Debug)]
pub enum Answer {
    /// The result object, as the tool gave it.
    Result(Arc<RawValue>),
    /// A person has to be asked; only to a caller that [asks](Caller::asks).
    Ask(Question),
    /// It goes on without the request: only for [`Call::as_task`], or in 2026-07-28 to a caller
    /// that knows [tasks](Caller::tasks).
    Task(Box<Task>),
}

/// What a person is asked for.
#[derive(Debug)]
pub enum Shape {
    /// A form, by its JSON Schema.
    Form(Box<RawValue>),
    /// To open an address; only of a caller that [opens](Caller::opens) them.
    Link {
        /// The address.
        url: String,
        /// What names it later.
        id: String,
    },
}

/// A question to a person.
#[derive(Debug)]
pub struct Question {
    /// What it is about.
    pub message: String,
    /// What is asked for.
    pub shape: Shape,
    /// Comes back with the reply, unchanged and not to be read or made by the client.
    pub state: String,
    /// How long it can be answered.
    pub lasts: Duration,
}

impl Answer {
    /// A result of text alone.
    #[must_use]
    pub fn text(text: &str, is_error: bool) -> Self {
        Self::Result(results::text(text, is_error))
    }
}

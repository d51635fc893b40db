//! `resources/read`, `prompts/get`, `completion/complete`: what is wanted is read, the rest passes
//! through.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::value::RawValue;

use super::object::Object;
use super::peer::{Begun, Outcome, Peer};
use super::seal::Bound;
use super::{Answer, Given, Refusal, Reply, Service, call, lists, results, watching};
use crate::client::Kind;
use crate::message::text;

/// So often may one request of an older client come back with a question.
const MOST_QUESTIONS: usize = 16;

/// What is wanted besides tools.
#[derive(Clone, Debug)]
pub enum Wish {
    /// `resources/read`.
    Resource {
        /// Which.
        uri: String,
    },
    /// `prompts/get`.
    Prompt {
        /// Which.
        name: String,
        /// An object of strings, where there is one.
        arguments: Option<Box<RawValue>>,
    },
    /// `completion/complete`.
    Completion {
        /// What is completed: `ref/prompt` with a name, or `ref/resource` with a URI.
        reference: Box<RawValue>,
        /// The argument's name and what there is of its value.
        argument: Box<RawValue>,
        /// Arguments that are known already, where there are any.
        context: Option<Box<RawValue>>,
    },
}

/// A request for something besides tools.
#[derive(Debug)]
pub struct Passage {
    /// What is wanted.
    pub wish: Wish,
    /// `_meta` of the request, as it was sent.
    pub meta: Option<Box<RawValue>>,
    /// What came of the question that this very request was answered with before.
    pub given: Option<Given>,
    /// Ends the request.
    pub cancel: tokio_util::sync::CancellationToken,
}

impl Wish {
    fn read(method: &str, params: &Object) -> Result<Self, Refusal> {
        let needed = |name: &str| {
            text(params.get(name))
                .ok_or_else(|| Refusal::invalid(format!("{method} needs `{name}`, a string")))
        };
        let object = |name: &str| {
            let value = params.get(name).filter(|value| value.get() != "null");
            match value {
                Some(value) if !value.get().starts_with('{') => {
                    Err(Refusal::invalid(format!("`{name}` of {method} is not an object")))
                }
                value => Ok(value.map(ToOwned::to_owned)),
            }
        };
        let member = |name: &str| {
            let value = object(name)?;
            value.ok_or_else(|| Refusal::invalid(format!("{method} needs `{name}`, an object")))
        };
        match method {
            "resources/read" => Ok(Self::Resource { uri: needed("uri")? }),
            "prompts/get" => {
                Ok(Self::Prompt { name: needed("name")?, arguments: object("arguments")? })
            }
            "completion/complete" => Ok(Self::Completion {
                reference: member("ref")?,
                argument: member("argument")?,
                context: object("context")?,
            }),
            _ => Err(Refusal::unknown_method(method)),
        }
    }

    /// What a question's state is bound to.
    fn bound(&self, principal: &str) -> Bound {
        // No tool has a slash in front of its name.
        match self {
            Self::Resource { uri } => Bound::new(principal, &format!("/resource/{uri}"), NOTHING),
            Self::Prompt { name, arguments } => {
                let arguments = arguments.as_deref().unwrap_or(NOTHING);
                Bound::new(principal, &format!("/prompt/{name}"), arguments)
            }
            Self::Completion { reference, .. } => Bound::new(principal, "/completion", reference),
        }
    }
}

const NOTHING: &RawValue = RawValue::NULL;

/// Begins whatever is not about tools.
pub(crate) fn begin<S: Service>(
    peer: &Arc<Peer<S>>,
    method: &str,
    begun: Begun,
) -> Result<BoxFuture<'static, Outcome>, Refusal> {
    if !peer.service.has_more() {
        return Err(Refusal::unknown_method(method));
    }
    match method {
        "resources/list" => return lists::begin(peer, Kind::Resources, begun),
        "resources/templates/list" => return lists::begin(peer, Kind::Templates, begun),
        "prompts/list" => return lists::begin(peer, Kind::Prompts, begun),
        "resources/subscribe" | "resources/unsubscribe" if !begun.caller.revision.is_modern() => {
            return watching::begin(peer, method == "resources/subscribe", begun);
        }
        _ => {}
    }
    let params = Object::read(begun.params.as_deref()).unwrap_or_default();
    let wish = Wish::read(method, &params)?;
    let given = given(peer, &begun, &wish, &params)?;
    let peer = Arc::clone(peer);
    Ok(async move {
        let outcome = carry_out(&peer, &begun, wish, given).await;
        // Whoever cancelled does not wait for an answer, and must not get one.
        (!begun.running.cancel.is_cancelled()).then_some(outcome)
    }
    .boxed())
}

/// What a client of 2026-07-28 comes back with.
fn given<S: Service>(
    peer: &Peer<S>,
    begun: &Begun,
    wish: &Wish,
    params: &Object,
) -> Result<Option<Given>, Refusal> {
    let Some(state) = params.get("requestState").filter(|_| begun.caller.revision.is_modern())
    else {
        return Ok(None);
    };
    let state = text(Some(state)).ok_or_else(|| Refusal::invalid("requestState is no text"))?;
    let state = peer.seal.open(&state, &wish.bound(peer.service.principal()))?;
    let responses = Object::read(params.get("inputResponses")).unwrap_or_default();
    let response = responses.get(results::QUESTION);
    Ok(response.map(|response| Given { state, reply: Reply::read(response) }))
}

async fn carry_out<S: Service>(
    peer: &Peer<S>,
    begun: &Begun,
    wish: Wish,
    mut given: Option<Given>,
) -> Result<String, Refusal> {
    let about = peer.service.about();
    let is_read = matches!(wish, Wish::Resource { .. });
    for _ in 0..MOST_QUESTIONS {
        let passage = Passage {
            wish: wish.clone(),
            meta: begun.meta.clone(),
            given: given.take(),
            cancel: begun.running.cancel.clone(),
        };
        let question = match peer.service.pass(&begun.caller, passage).await? {
            Answer::Result(result) => {
                return Ok(results::passed(&about, &result, is_read, &begun.caller.revision));
            }
            Answer::Task(_) => {
                return Err(Refusal::internal("only a call of a tool goes on without its request"));
            }
            Answer::Ask(question) => question,
        };
        if begun.caller.revision.is_modern() {
            let bound = wish.bound(peer.service.principal());
            let state = peer.seal.close(&question.state, &bound, question.lasts);
            let state = state.ok_or_else(|| Refusal::internal("the question cannot be asked"))?;
            return Ok(results::asking(&about, &question, &state));
        }
        let reply = call::ask(peer, begun, &question).await;
        given = Some(Given { state: question.state, reply });
    }
    Err(Refusal::internal("the same request asked too often; make it again later"))
}

//! `tools/call`: progress, cancellation, and the round that a question makes.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::object::Object;
use super::peer::{Begun, Outcome, Peer};
use super::progress::Teller;
use super::seal::Bound;
use super::{Answer, Call, Given, Question, Refusal, Reply, Service, results, tasks};
use crate::client::Progress;
use crate::message::{fields, text};

/// So often may one call of an older client come back with a question.
const MOST_QUESTIONS: usize = 16;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input_responses: Option<&'a RawValue>,
    #[serde(borrow, default)]
    request_state: Option<&'a RawValue>,
}

/// What is called.
struct Wanted {
    name: String,
    arguments: Box<RawValue>,
    as_task: bool,
    /// Of a call that is made again with an answer.
    given: Option<Given>,
}

/// Reads a call; the future carries it out.
pub(crate) fn begin<S: Service>(
    peer: &Arc<Peer<S>>,
    begun: Begun,
) -> Result<BoxFuture<'static, Outcome>, Refusal> {
    let wanted = read(peer, &begun)?;
    let peer = Arc::clone(peer);
    Ok(async move {
        let (mut teller, progress) = match token(begun.meta.as_deref()) {
            Some(token) => {
                let (teller, progress) = Teller::new(begun.outlet.clone(), token);
                (Some(teller), Some(progress))
            }
            None => (None, None),
        };
        let telling = async {
            match &mut teller {
                Some(teller) => teller.run().await,
                None => std::future::pending().await,
            }
        };
        let outcome = tokio::select! {
            outcome = carry_out(&peer, &begun, wanted, progress) => Some(outcome),
            () = telling => None,
        };
        // Whoever cancelled does not wait for an answer, and must not get one.
        if begun.running.cancel.is_cancelled() {
            return None;
        }
        if let Some(teller) = &mut teller {
            teller.flush();
        }
        outcome
    }
    .boxed())
}

fn read<S: Service>(peer: &Peer<S>, begun: &Begun) -> Result<Wanted, Refusal> {
    let params: Params<'_> = fields(begun.params.as_deref());
    let name = text(params.name).ok_or_else(|| Refusal::invalid("the call names no tool"))?;
    let arguments = match params.arguments.filter(|arguments| arguments.get() != "null") {
        Some(arguments) if arguments.get().starts_with('{') => arguments.to_owned(),
        Some(_) => return Err(Refusal::invalid("the arguments are not an object")),
        None => RawValue::from_string("{}".to_owned()).unwrap_or_default(),
    };
    let mut given = None;
    if let Some(state) = params.request_state.filter(|_| begun.caller.revision.is_modern()) {
        let state = text(Some(state)).ok_or_else(|| Refusal::invalid("requestState is no text"))?;
        let bound = Bound::new(peer.service.principal(), &name, &arguments);
        let state = peer.seal.open(&state, &bound)?;
        let responses = Object::read(params.input_responses).unwrap_or_default();
        given = responses
            .get(results::QUESTION)
            .map(|response| Given { state, reply: Reply::read(response) });
    }
    let as_task =
        peer.service.tasks().is_some() && tasks::is_wanted(&begun.caller, begun.params.as_deref());
    Ok(Wanted { name, arguments, as_task, given })
}

impl Reply {
    /// Anything that is not a clear yes or no counts as no answer.
    pub(super) fn read(response: &RawValue) -> Self {
        #[derive(Default, Deserialize)]
        struct Response<'a> {
            #[serde(borrow, default)]
            action: Option<&'a RawValue>,
            #[serde(borrow, default)]
            content: Option<&'a RawValue>,
        }
        let response: Response<'_> = fields(Some(response));
        match text(response.action).as_deref() {
            Some("accept") => Self::Accept(response.content.map(ToOwned::to_owned)),
            Some("decline") => Self::Decline,
            _ => Self::Cancel,
        }
    }
}

/// The client's token, a string or a number.
fn token(meta: Option<&RawValue>) -> Option<Box<RawValue>> {
    const LONGEST: usize = 1_000;
    let meta = Object::read(meta)?;
    let token = meta.get("progressToken")?;
    let of_a_kind = token.get().starts_with(|c: char| "\"-".contains(c) || c.is_ascii_digit());
    (of_a_kind && token.get().len() <= LONGEST).then(|| token.to_owned())
}

async fn carry_out<S: Service>(
    peer: &Peer<S>,
    begun: &Begun,
    wanted: Wanted,
    progress: Option<mpsc::UnboundedSender<Progress>>,
) -> Result<String, Refusal> {
    let Wanted { name, arguments, as_task, mut given } = wanted;
    let about = peer.service.about();
    for _ in 0..MOST_QUESTIONS {
        let call = Call {
            name: name.clone(),
            arguments: arguments.clone(),
            meta: begun.meta.clone(),
            given: given.take(),
            as_task,
            progress: progress.clone(),
            cancel: begun.running.cancel.clone(),
        };
        let question = match peer.service.call(&begun.caller, call).await? {
            Answer::Result(result) => {
                return Ok(results::called(&about, &result, &begun.caller.revision));
            }
            Answer::Ask(question) => question,
            Answer::Task(task) => {
                if !begun.caller.revision.is_modern() {
                    peer.connection.add_task(&task.id);
                }
                return Ok(task.created(&about, &begun.caller.revision));
            }
        };
        if begun.caller.revision.is_modern() {
            let bound = Bound::new(peer.service.principal(), &name, &arguments);
            let state = peer.seal.close(&question.state, &bound, question.lasts);
            let state = state.ok_or_else(|| Refusal::internal("the question cannot be asked"))?;
            return Ok(results::asking(&about, &question, &state));
        }
        let reply = ask(peer, begun, &question).await;
        given = Some(Given { state: question.state, reply });
    }
    Err(Refusal::internal("the same call asked too often; make it again later"))
}

/// The round that an older client does not make by itself.
pub(super) async fn ask<S: Service>(peer: &Peer<S>, begun: &Begun, question: &Question) -> Reply {
    let params = results::form(question, begun.caller.revision.0.as_str() >= "2025-11-25");
    let given_up = async {
        tokio::select! {
            () = begun.running.cancel.cancelled() => {}
            () = tokio::time::sleep(question.lasts) => {}
            () = peer.service.answered_elsewhere(&question.state) => {}
        }
    };
    let asked = peer.connection.ask(&begun.outlet, "elicitation/create", &params, given_up);
    match asked.await {
        Some(Ok(response)) => Reply::read(&response),
        Some(Err(failure)) => {
            tracing::warn!(reason = failure.message, "the client could not ask");
            Reply::Cancel
        }
        None => Reply::Cancel,
    }
}

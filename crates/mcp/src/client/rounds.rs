//! A request during which the server may ask: one round in the older revisions, where it asks by a
//! request of its own; as many as it asks for in 2026-07-28, each a request with the answers to the
//! one before.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::asks::{Given, words};
use super::connection::{Limit, Request};
use super::{Passed, Progress, Shared, lists};
use crate::error::Error;
use crate::message::{code, object, quote, text};
use crate::result::wishes;
use crate::server::object::Object;

/// So often may one request come back with questions, and with so many of them.
const MOST_ROUNDS: usize = 16;
const MOST_QUESTIONS: usize = 16;

/// Longest state of a server's that is carried, in bytes.
const LONGEST_STATE: usize = 1024 * 1024;

/// Such a request.
pub(super) struct Round<'a> {
    pub(super) method: &'static str,
    /// The members of `params` without `_meta`, as JSON.
    pub(super) params: Vec<(&'static str, String)>,
    /// What `Mcp-Name` says.
    pub(super) name: Option<&'a str>,
    /// Of a tool: what may have to be repeated in headers.
    pub(super) arguments: Option<&'a RawValue>,
    pub(super) limit: Limit,
    pub(super) cancel: &'a CancellationToken,
    pub(super) progress: Option<mpsc::UnboundedSender<Progress>>,
    pub(super) passed: &'a Passed,
}

/// The result, whatever its kind, and what was asked that nobody could answer.
pub(super) async fn all(
    shared: &Shared,
    mut round: Round<'_>,
) -> Result<(Box<RawValue>, Option<String>), Error> {
    let plain = round.params.len();
    for _ in 0..MOST_ROUNDS {
        let (result, refused) = match ask(shared, &round).await {
            // The schema changed, and with it what must be repeated in headers. The server did not
            // run the call, so it may be made again.
            Err(Error::Rpc { code: code::HEADER_MISMATCH, .. }) if is_mirroring(shared, &round) => {
                lists::list_tools(shared).await?;
                shared.connection.inbox.suspect_change();
                ask(shared, &round).await?
            }
            outcome => outcome?,
        };
        if !shared.info.revision.is_modern() {
            return Ok((result, refused));
        }
        let object = Object::read(Some(&result)).unwrap_or_default();
        if text(object.get("resultType")).as_deref() != Some("input_required") {
            return Ok((result, refused));
        }
        let responses = answers(&round, object.get("inputRequests")).await?;
        round.params.truncate(plain);
        if let Some(responses) = responses {
            round.params.push(("inputResponses", responses));
        }
        if let Some(state) = object.get("requestState") {
            if state.get().len() > LONGEST_STATE {
                return Err(Error::Protocol("its requestState is too long".to_owned()));
            }
            round.params.push(("requestState", state.get().to_owned()));
        }
    }
    Err(Error::Protocol(format!("it asked for input more than {MOST_ROUNDS} times")))
}

/// What the caller answers to all that is asked in one round.
pub(super) async fn answers(
    round: &Round<'_>,
    requests: Option<&RawValue>,
) -> Result<Option<String>, Error> {
    // Without any it only wants to be asked again.
    let Some(requests) = requests.filter(|requests| requests.get() != "null") else {
        return Ok(None);
    };
    let unanswered = || Error::InputRequired(wishes(Some(requests)));
    let wanted = Object::read(Some(requests)).ok_or_else(unanswered)?.into_members();
    let Some(asks) = &round.passed.asks else { return Err(unanswered()) };
    if wanted.len() > MOST_QUESTIONS {
        return Err(unanswered());
    }
    let mut responses = Vec::new();
    for (name, request) in wanted {
        let request = Object::read(Some(&request)).unwrap_or_default();
        let method = text(request.get("method")).unwrap_or_default();
        if method != "elicitation/create" {
            return Err(Error::InputRequired(format!(
                "{}, though the client that calls did not offer {method}",
                words(&method, request.get("params"))
            )));
        }
        let asked = asks.ask(request.get("params"), CancellationToken::new());
        let answer = asked.ok_or_else(unanswered)?;
        let given = tokio::select! {
            given = answer => given.unwrap_or(Given::Cancel),
            () = round.cancel.cancelled() => return Err(Error::Cancelled),
        };
        responses.push((name, given.result()));
    }
    let responses: Vec<(&str, &str)> =
        responses.iter().map(|(name, given)| (name.as_str(), given.as_str())).collect();
    Ok(Some(object(&responses)))
}

fn is_mirroring(shared: &Shared, round: &Round<'_>) -> bool {
    round.arguments.is_some()
        && shared.connection.transport.is_streamed()
        && shared.info.revision.is_modern()
}

async fn ask(shared: &Shared, round: &Round<'_>) -> Result<(Box<RawValue>, Option<String>), Error> {
    let mirrored = match (round.name, round.arguments) {
        (Some(name), Some(arguments)) => shared
            .mirrored
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .map_or_else(BTreeMap::new, |mirrored| mirrored.of(arguments)),
        _ => BTreeMap::new(),
    };
    let params = round.params.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut request = Request::new(round.method, Some(&shared.info.revision), round.limit);
    request.params = params;
    request.name = round.name;
    request.mirrored = mirrored;
    request.cancel = Some(round.cancel);
    request.progress = round.progress.clone();
    request.meta = round.passed.meta();
    request.asking = Some(round.passed.asks.clone());
    request.capabilities = capabilities(round.passed);
    shared.connection.request_asking(request).await
}

/// What the caller of this request can do. Never more: a server may rely on it.
fn capabilities(passed: &Passed) -> String {
    let elicitation = passed.asks.as_ref().map(super::Asks::elicitation);
    let mut all = Vec::new();
    if let Some(elicitation) = &elicitation {
        all.push(("elicitation", elicitation.as_str()));
    }
    object(&all)
}

/// What a tool's call consists of.
pub(super) fn call_params(name: &str, arguments: &RawValue) -> Vec<(&'static str, String)> {
    vec![("name", quote(name)), ("arguments", arguments.get().to_owned())]
}

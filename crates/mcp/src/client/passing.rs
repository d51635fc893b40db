//! Requests that only pass through: `resources/read`, `prompts/get`, `completion/complete`.
//!
//! Their results stay as they came. What they mean is the caller's business.

use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::connection::Limit;
use super::rounds::{self, Round};
use super::{Asks, Progress, Shared};
use crate::error::Error;
use crate::server::object::Object;

/// What goes along with a request besides what it is about.
#[derive(Clone, Debug, Default)]
pub struct Passed {
    /// `_meta` of the caller's own request. What belongs to that request alone is left out.
    pub meta: Option<Box<RawValue>>,
    /// Who answers what the server asks; nobody can, if it is absent.
    pub asks: Option<Asks>,
}

/// Longest `_meta` that is passed on, in bytes.
const LONGEST_META: usize = 64 * 1024;

/// `_meta` that belongs to one request between two sides alone, by the beginning of its name.
const OURS: [&str; 2] = ["io.modelcontextprotocol/", "pinfold/"];

impl Passed {
    /// Of its `_meta`, what goes on to the server.
    pub(super) fn meta(&self) -> Vec<(String, Box<RawValue>)> {
        let meta = self.meta.as_deref().filter(|meta| meta.get().len() <= LONGEST_META);
        let Some(meta) = Object::read(meta) else { return Vec::new() };
        meta.into_members()
            .into_iter()
            .filter(|(name, _)| {
                name != "progressToken" && !OURS.iter().any(|ours| name.starts_with(ours))
            })
            .collect()
    }
}

/// A request that only passes through.
#[derive(Debug)]
pub struct Passing {
    /// The method.
    pub method: &'static str,
    /// The members of `params` without `_meta`, as JSON.
    pub params: Vec<(&'static str, String)>,
    /// What `Mcp-Name` says: the name or URI that it is about.
    pub name: Option<String>,
    /// Ends the request, here and at the server.
    pub cancel: CancellationToken,
    /// The longest wait.
    pub timeout: Duration,
    /// Where progress goes; a token is sent only if this is set.
    pub progress: Option<mpsc::UnboundedSender<Progress>>,
    /// What goes along with it.
    pub passed: Passed,
}

pub(super) async fn pass(shared: &Shared, passing: Passing) -> Result<Box<RawValue>, Error> {
    let round = Round {
        method: passing.method,
        params: passing.params,
        name: passing.name.as_deref(),
        arguments: None,
        limit: Limit::of(passing.timeout),
        cancel: &passing.cancel,
        progress: passing.progress,
        passed: &passing.passed,
    };
    let (result, refused) = rounds::all(shared, round).await?;
    if let Some(words) = refused {
        tracing::debug!(words, "a server asked, and nobody could answer");
    }
    if !result.get().starts_with('{') {
        return Err(Error::Protocol(format!("its answer to {} is not an object", passing.method)));
    }
    Ok(result)
}

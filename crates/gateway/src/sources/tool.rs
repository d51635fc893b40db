//! Sends a call to its source, within its time, and says what a fault means.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{SourceCall, SourceError};
use crate::audit;
use crate::background::Reports;
use crate::call::{Call, Ended, Grant};
use crate::catalog::Known;
use crate::gateway::Gateway;
use crate::policy::{Effect, Facts};
use crate::refusal;
use crate::request::{Failure, Outcome, Progress};

/// Longest time that a source has to end a call after it was told to.
const GRACE: Duration = Duration::from_secs(5);

/// Carries out a call of a server's tool. A write leaves its intent in the store first.
pub(crate) async fn run(
    _grant: Grant,
    gateway: &Arc<Gateway>,
    call: &Call,
    known: &Known,
    facts: Facts,
) -> Ended {
    let writes = facts.effect != Effect::Read;
    let mut intent = None;
    if writes {
        match audit::intend(gateway, call).await {
            Ok(id) => intent = Some(id),
            Err(reason) => {
                return Ended::before(Outcome::Refused(refusal::unstored(call, &reason)));
            }
        }
    }
    let limit = Duration::from_secs(gateway.scripts.call_timeout_sec);
    let (reports, reported) = mpsc::unbounded_channel();
    let source_call = SourceCall {
        tool: known.tool.name.clone(),
        arguments: call.arguments.clone(),
        cancel: call.cancel.clone(),
        timeout: limit,
        progress: call.progress.is_some().then_some(reports),
        passed: call.passed.clone(),
    };
    let sent = relayed(known.source.call(source_call), reported, call.progress.as_deref());
    let result = within(sent, &call.cancel, limit).await;
    let state = match &result {
        Ok(result) if result.is_error => store::IntentState::Failed,
        Ok(_) => store::IntentState::Done,
        Err(SourceError::Unavailable(_)) => store::IntentState::Failed,
        // A server's own refusal says that it did not do it; all else says nothing.
        Err(SourceError::Failed(_)) => store::IntentState::Failed,
        Err(_) => store::IntentState::Unknown,
    };
    let unsent = matches!(result, Err(SourceError::Unavailable(_)));
    let outcome = match result {
        Ok(result) => Outcome::Done(gateway.outside(&call.session, known, result)),
        Err(error) => Outcome::Failed(source_failure(call, known, &error, writes)),
    };
    let intent = intent.map(|id| (id, state));
    Ended { outcome, intent, approved_by: None, recorded: false, unsent }
}

/// The source's own limits, and ours behind them, for one that does not keep to them.
async fn within(
    sent: impl Future<Output = Result<mcp::CallResult, SourceError>>,
    cancel: &CancellationToken,
    limit: Duration,
) -> Result<mcp::CallResult, SourceError> {
    let overdue = async {
        tokio::select! {
            () = tokio::time::sleep(limit + GRACE) => {
                SourceError::Timeout(format!("no answer within {} s", limit.as_secs()))
            }
            () = async {
                cancel.cancelled().await;
                tokio::time::sleep(GRACE).await;
            } => SourceError::Cancelled,
        }
    };
    tokio::select! {
        biased;
        result = sent => result,
        error = overdue => Err(error),
    }
}

/// Passes progress on, all of it before the result: what is reported last counts most.
async fn relayed<T>(
    sent: impl Future<Output = T>,
    mut reported: mpsc::UnboundedReceiver<mcp::Progress>,
    to: Option<&Reports>,
) -> T {
    let pass = |report| {
        if let Some(to) = to {
            to.report(Progress::Tool(report));
        }
    };
    tokio::pin!(sent);
    let result = loop {
        tokio::select! {
            biased;
            Some(report) = reported.recv() => pass(report),
            result = &mut sent => break result,
        }
    };
    while let Ok(report) = reported.try_recv() {
        pass(report);
    }
    result
}

fn source_failure(call: &Call, known: &Known, error: &SourceError, writes: bool) -> Failure {
    let server = known.source.name();
    let unknown = if writes { "; whether it took effect is unknown" } else { "" };
    let (kind, retryable, message) = match error {
        SourceError::Unavailable(reason) => (
            script::Kind::Upstream,
            true,
            format!("the server {server:?} cannot be reached and nothing was sent: {reason}"),
        ),
        SourceError::Lost(reason) => (
            script::Kind::Upstream,
            !writes,
            format!("the server {server:?} was lost before it answered: {reason}{unknown}"),
        ),
        SourceError::Timeout(reason) => {
            (script::Kind::Timeout, !writes, format!("{}: {reason}{unknown}", known.name))
        }
        SourceError::Cancelled => {
            (script::Kind::Cancelled, false, format!("the call was cancelled{unknown}"))
        }
        SourceError::Failed(reason) => {
            (script::Kind::Upstream, false, format!("the server {server:?} answered: {reason}"))
        }
        SourceError::Unusable(reason) => (
            script::Kind::Upstream,
            false,
            format!("the server {server:?} broke the protocol: {reason}{unknown}"),
        ),
    };
    Failure { retryable, ..call.failure(kind, message) }
}

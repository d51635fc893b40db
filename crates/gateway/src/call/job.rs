//! A call as an owned job: whoever made it can end it by going away, until it goes on in the
//! background.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Call, Caller};
use crate::background::{BackgroundCall, Begun, Reports, Stays};
use crate::gateway::Gateway;
use crate::json;
use crate::request::{Failure, Origin, Outcome, Request};

/// When a call goes on in the background.
#[derive(Clone, Copy, Debug)]
enum Patience {
    /// Never.
    Endless,
    /// After this time, or as soon as its work begins if it can only be run there.
    Until(Duration),
    /// As soon as its work begins.
    None,
}

impl Gateway {
    /// Carries out a call. If the returned future is dropped, the call is cancelled. One of a model
    /// or a chat that takes long goes on in the background instead, and the outcome says so; from
    /// then on it does not depend on whoever made it.
    pub async fn call(self: &Arc<Self>, request: Request) -> Outcome {
        let patience = match (request.origin, self.background.after) {
            (Origin::Model | Origin::Chat, Some(after)) => Patience::Until(after),
            _ => Patience::Endless,
        };
        self.carry_out(request, None, patience).await
    }

    /// Like [`Gateway::call`], for a caller that wants to fetch the result in any case: the call is
    /// in the background as soon as its work begins.
    pub async fn call_in_background(self: &Arc<Self>, request: Request) -> Outcome {
        let patience = match self.background.after {
            Some(_) => Patience::None,
            None => Patience::Endless,
        };
        self.carry_out(request, None, patience).await
    }

    /// Like [`Gateway::call`], but never in the background, and what a script prints goes to
    /// `prints` as it comes, byte for byte and all of it; the answer holds the rest.
    pub async fn call_printing(
        self: &Arc<Self>,
        request: Request,
        prints: mpsc::UnboundedSender<Vec<u8>>,
    ) -> Outcome {
        self.carry_out(request, Some(prints), Patience::Endless).await
    }

    async fn carry_out(
        self: &Arc<Self>,
        request: Request,
        prints: Option<mpsc::UnboundedSender<Vec<u8>>>,
        patience: Patience,
    ) -> Outcome {
        let Request { session, tool, arguments, origin, progress, passed, cancel } = request;
        let failure = |kind, message: &str, retryable| Failure {
            tool: json::cut(&tool, 200),
            kind,
            message: message.to_owned(),
            retryable,
        };
        if self.stop.is_cancelled() {
            let message = "the gateway is closing";
            return Outcome::Refused(failure(script::Kind::Cancelled, message, true));
        }
        let ended = self.stop.child_token();
        let dropped = ended.clone().drop_guard();
        let endless = matches!(patience, Patience::Endless);
        let (begins, begun) = watch::channel(None);
        let told = progress.is_some() || !endless;
        let call = Arc::new(Call {
            session,
            tool: tool.clone(),
            arguments,
            caller: Caller::Direct(origin),
            number: 0,
            progress: told.then(|| Arc::new(Reports::new(progress))),
            begun: (!endless).then_some(begins),
            passed,
            prints,
            cancel: ended.clone(),
            at: jiff::Timestamp::now(),
            began: Instant::now(),
        });
        let (gateway, travelling) = (self.clone(), call.clone());
        let mut job = self.jobs.spawn(async move { gateway.travel(travelling).await });
        let outcome = tokio::select! {
            biased;
            outcome = &mut job => outcome,
            () = cancel.cancelled() => {
                ended.cancel();
                job.await
            }
            begun = has_to_wait(begun, patience) => {
                let reason = match self.detach(&call, begun, job, &cancel).await {
                    Detached::InBackground(background) => {
                        dropped.disarm();
                        return Outcome::Background(background);
                    }
                    Detached::Cancelled => {
                        let message = "the call was cancelled";
                        return Outcome::Failed(failure(script::Kind::Cancelled, message, false));
                    }
                    Detached::Stays(stays, reason) => {
                        job = stays;
                        reason
                    }
                };
                // Who was promised to find it there does not wait here.
                if matches!(patience, Patience::None) {
                    ended.cancel();
                    let _ = job.await;
                    let message = format!("the call was ended, since it cannot go on in the \
                                           background: {reason}");
                    return Outcome::Failed(failure(script::Kind::Limit, &message, true));
                }
                tracing::warn!(reason, "a call does not go on in the background");
                tokio::select! {
                    outcome = &mut job => outcome,
                    () = cancel.cancelled() => {
                        ended.cancel();
                        job.await
                    }
                }
            }
        };
        dropped.disarm();
        outcome.unwrap_or_else(|error| {
            tracing::error!(%error, "a call broke off");
            let message = "the call broke off because of a fault in pinfold; see its log";
            Outcome::Failed(failure(script::Kind::Upstream, message, false))
        })
    }

    /// Puts a call into the background. If this is dropped meanwhile, the call is cancelled.
    async fn detach(
        self: &Arc<Self>,
        call: &Arc<Call>,
        begun: Begun,
        job: JoinHandle<Outcome>,
        cancel: &CancellationToken,
    ) -> Detached {
        let (said, answer) = oneshot::channel();
        self.jobs.spawn(self.clone().follow(call.clone(), begun, job, said));
        tokio::select! {
            biased;
            () = cancel.cancelled() => {
                call.cancel.cancel();
                Detached::Cancelled
            }
            answer = answer => match answer {
                Ok(Ok(background)) => Detached::InBackground(Box::new(background)),
                Ok(Err(Stays { job, reason })) => Detached::Stays(job, reason),
                Err(_) => {
                    call.cancel.cancel();
                    Detached::Cancelled
                }
            },
        }
    }
}

/// What came of putting a call into the background.
enum Detached {
    InBackground(Box<BackgroundCall>),
    Cancelled,
    Stays(JoinHandle<Outcome>, String),
}

/// Resolves when a call has used up the patience with it. One whose work has not begun is waited
/// for: a person may have to be asked about it, or it is refused.
async fn has_to_wait(mut begun: watch::Receiver<Option<Begun>>, patience: Patience) -> Begun {
    let time = match patience {
        Patience::Endless => return std::future::pending().await,
        Patience::None => Duration::ZERO,
        Patience::Until(time) => time,
    };
    let started = tokio::time::Instant::now();
    let found = match begun.wait_for(Option::is_some).await {
        Ok(found) => found.clone(),
        Err(_) => None,
    };
    // It ended without any work.
    let Some(found) = found else { return std::future::pending().await };
    if !found.task_only {
        tokio::time::sleep_until(started + time).await;
    }
    found
}

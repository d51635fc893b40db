//! What a server offers besides tools: listed with them, kept like them, asked for on a call's road.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::Instant;

use super::{Shared, explained};
use crate::sources::{Extras, PassError, SourceError, SourceRequest};

/// How long one who wants a resource watched waits for a server that is down.
const PATIENCE: Duration = Duration::from_secs(5);

impl Shared {
    pub(super) fn extras(&self) -> Arc<Extras> {
        Arc::clone(&self.extras.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lists everything besides tools. What cannot be listed stays as it was. Whether it is worth
    /// another attempt.
    pub(super) async fn list_extras(&self, client: &mcp::Client) -> bool {
        let before = self.extras();
        let mut again = false;
        let mut kept = |kind, before: &Vec<mcp::Item>, listed| match listed {
            Ok(items) => items,
            Err(error) => {
                // What a server refuses it will refuse again.
                again |= !matches!(error, mcp::Error::Rpc { .. });
                let what = mcp::Kind::method(kind);
                tracing::warn!(server = self.name, %error, "{what} gave nothing");
                before.clone()
            }
        };
        let kind = mcp::Kind::Resources;
        let resources = kept(kind, &before.resources, client.list(kind).await);
        let kind = mcp::Kind::Templates;
        let templates = kept(kind, &before.templates, client.list(kind).await);
        let kind = mcp::Kind::Prompts;
        let prompts = kept(kind, &before.prompts, client.list(kind).await);
        let abilities = client.info().abilities;
        let now = Extras { resources, templates, prompts, abilities };
        if now != *before {
            *self.extras.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(now);
            self.changes.send_modify(|version| *version += 1);
        }
        again
    }

    pub(super) async fn pass(&self, request: SourceRequest) -> Result<Box<RawValue>, PassError> {
        let deadline = Instant::now() + self.patience.call.min(request.timeout);
        let mut used = 0;
        loop {
            let (client, number) = tokio::select! {
                () = request.cancel.cancelled() => return Err(SourceError::Cancelled.into()),
                client = self.connected(used, deadline) => client?,
            };
            let outcome = client
                .pass(mcp::Passing {
                    method: request.method,
                    params: request.params.clone(),
                    name: request.name.clone(),
                    cancel: request.cancel.clone(),
                    timeout: request.timeout,
                    progress: None,
                    passed: request.passed.clone(),
                })
                .await;
            match outcome {
                // Nothing was sent, so the next connection may be used; only once.
                Err(mcp::Error::Connect(_)) if used == 0 => used = number,
                outcome => return outcome.map_err(answered),
            }
        }
    }

    pub(super) async fn watch(&self, uri: &str) -> Result<(), PassError> {
        let is_first = {
            let mut watched = self.watched();
            let count = watched.entry(uri.to_owned()).or_default();
            *count += 1;
            *count == 1
        };
        if !is_first {
            return Ok(());
        }
        let asked = async {
            let (client, _) = self.connected(0, Instant::now() + PATIENCE).await?;
            client.watch(uri).await.map_err(answered)
        };
        let outcome = asked.await;
        if outcome.is_err() {
            self.forget(uri);
        }
        outcome
    }

    pub(super) fn unwatch(&self, uri: &str) {
        if !self.forget(uri) {
            return;
        }
        let client = self.link.borrow().client.clone();
        if let (Some(client), Ok(runtime)) = (client, tokio::runtime::Handle::try_current()) {
            let uri = uri.to_owned();
            runtime.spawn(async move { client.unwatch(&uri).await });
        }
    }

    /// One who had it watched does not want it any more. Whether nobody does.
    fn forget(&self, uri: &str) -> bool {
        let mut watched = self.watched();
        let Some(count) = watched.get_mut(uri) else { return false };
        *count -= 1;
        if *count == 0 {
            watched.remove(uri);
            return true;
        }
        false
    }

    /// On a new connection: what is watched is watched on, and may have changed meanwhile.
    pub(super) fn watch_on(self: &Arc<Self>, client: &mcp::Client) {
        let uris: Vec<String> = self.watched().keys().cloned().collect();
        if uris.is_empty() {
            return;
        }
        let (shared, client) = (Arc::clone(self), client.clone());
        tokio::spawn(async move {
            for uri in uris {
                if let Err(error) = client.watch(&uri).await {
                    tracing::warn!(server = shared.name, %error, "a resource is not watched");
                }
                shared.updated(&uri);
            }
        });
    }

    /// The server says that a resource changed.
    pub(super) fn updated(&self, uri: &str) {
        // Nobody listening is the listener's choice.
        let _ = self.updates.send(uri.into());
    }

    fn watched(&self) -> MutexGuard<'_, std::collections::BTreeMap<String, usize>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn answered(error: mcp::Error) -> PassError {
    match error {
        mcp::Error::Rpc { code, message, data } => PassError::Answered { code, message, data },
        error => explained(error).into(),
    }
}

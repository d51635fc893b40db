//! Resources whose changes a client wants told.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::object::Object;
use super::peer::{Begun, Outcome, Peer};
use super::{Refusal, Service};
use crate::message::text;

/// Most resources that one client has watched.
pub(crate) const MOST: usize = 200;

/// A resource is watched for as long as this is kept.
pub type Watch = Box<dyn Send + Sync>;

/// What an older client subscribed to.
#[derive(Default)]
pub(crate) struct Watching(Mutex<BTreeMap<String, Watch>>);

impl Watching {
    pub(crate) fn has(&self, uri: &str) -> bool {
        self.all().contains_key(uri)
    }

    pub(crate) fn uris(&self) -> Vec<String> {
        self.all().keys().cloned().collect()
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Watch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Watching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.all().keys()).finish()
    }
}

/// `resources/subscribe` and, unless `begins`, `resources/unsubscribe`.
pub(crate) fn begin<S: Service>(
    peer: &Arc<Peer<S>>,
    begins: bool,
    begun: Begun,
) -> Result<BoxFuture<'static, Outcome>, Refusal> {
    let params = Object::read(begun.params.as_deref()).unwrap_or_default();
    let uri = text(params.get("uri"))
        .ok_or_else(|| Refusal::invalid("a subscription needs `uri`, a string"))?;
    let peer = Arc::clone(peer);
    Ok(async move {
        let watching = &peer.connection.watching;
        if !begins {
            let watch = watching.all().remove(&uri);
            drop(watch);
            return Some(Ok("{}".to_owned()));
        }
        if watching.has(&uri) {
            return Some(Ok("{}".to_owned()));
        }
        if watching.all().len() >= MOST {
            return Some(Err(Refusal::invalid(format!(
                "{MOST} resources are subscribed to already; unsubscribe from some"
            ))));
        }
        let watch = tokio::select! {
            watch = peer.service.watch(&begun.caller, &uri) => watch,
            () = begun.running.cancel.cancelled() => return None,
        };
        Some(watch.map(|watch| {
            watching.all().insert(uri, watch);
            "{}".to_owned()
        }))
    }
    .boxed())
}

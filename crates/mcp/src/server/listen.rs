//! Tells that the tools have changed, in either era's way.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::connection::Outlet;
use super::peer::{Begun, Outcome, Peer};
use super::tasks::Watched;
use super::{Refusal, Service, tasks};
use crate::message::{fields, flag, notification, object};

const CHANGED: &str = "notifications/tools/list_changed";

/// `subscriptions/listen`: runs until it is cancelled.
pub(crate) fn begin<S: Service>(
    peer: &Arc<Peer<S>>,
    begun: Begun,
) -> Result<BoxFuture<'static, Outcome>, Refusal> {
    #[derive(Default, Deserialize)]
    struct Params<'a> {
        #[serde(borrow, default)]
        notifications: Option<&'a RawValue>,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Filter<'a> {
        #[serde(borrow, default)]
        tools_list_changed: Option<&'a RawValue>,
        #[serde(borrow, default)]
        task_ids: Option<&'a RawValue>,
    }
    let params: Params<'_> = fields(begun.params.as_deref());
    let filter: Filter<'_> = fields(params.notifications);
    let tools = flag(filter.tools_list_changed) == Some(true);
    let ids: Vec<String> =
        filter.task_ids.and_then(|ids| serde_json::from_str(ids.get()).ok()).unwrap_or_default();
    if !ids.is_empty() && !begun.caller.tasks {
        return Err(Refusal::missing_extension(tasks::EXTENSION));
    }
    let mut changes = peer.service.changes();
    let peer = Arc::clone(peer);
    Ok(async move {
        let Begun { caller, id, meta, running, outlet, .. } = begun;
        let mut watched = Watched::of(&peer, &caller, meta, ids).await;
        let meta = object(&[("io.modelcontextprotocol/subscriptionId", id.get())]);
        // What is not named here is not told.
        let ids = watched.ids();
        let mut accepted = Vec::new();
        if tools {
            accepted.push(("toolsListChanged", "true"));
        }
        accepted.extend(ids.as_deref().map(|ids| ("taskIds", ids)));
        let params = object(&[("_meta", &meta), ("notifications", &object(&accepted))]);
        outlet.send(notification("notifications/subscriptions/acknowledged", &params)).await;
        loop {
            tokio::select! {
                () = running.cancel.cancelled() => return None,
                changed = changes.changed(), if tools => if changed.is_err() {
                    running.cancel.cancelled().await;
                    return None;
                },
                told = watched.next(&meta) => {
                    for message in told {
                        outlet.send(message).await;
                    }
                    continue;
                }
            }
            outlet.send(notification(CHANGED, &object(&[("_meta", &meta)]))).await;
        }
    }
    .boxed())
}

/// For an older client: tells it without being asked, from when it is ready, for as long as this
/// is polled.
pub(crate) async fn announce<S: Service>(peer: Arc<Peer<S>>, outlet: Outlet) {
    let mut changes = peer.service.changes();
    peer.connection.ready().await;
    loop {
        let messages = tokio::select! {
            changed = changes.changed() => match changed {
                Ok(()) => vec![notification(CHANGED, "{}")],
                Err(_) => return,
            },
            ends = tasks::ends(&peer) => ends,
        };
        for message in messages {
            outlet.send(message).await;
        }
    }
}

//! Tells that the tools have changed, in either era's way.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Service;
use super::connection::Outlet;
use super::peer::{Begun, Outcome, Peer};
use crate::message::{fields, flag, notification, object};

const CHANGED: &str = "notifications/tools/list_changed";

/// `subscriptions/listen`: runs until it is cancelled.
pub(crate) fn begin<S: Service>(
    peer: &Arc<Peer<S>>,
    begun: Begun,
) -> impl Future<Output = Outcome> + Send + 'static {
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
    }
    let params: Params<'_> = fields(begun.params.as_deref());
    let filter: Filter<'_> = fields(params.notifications);
    let tools = flag(filter.tools_list_changed) == Some(true);
    let mut changes = peer.service.changes();
    async move {
        let Begun { id, running, outlet, .. } = begun;
        let meta = object(&[("io.modelcontextprotocol/subscriptionId", id.get())]);
        // What is not named here is not told.
        let accepted = if tools { r#"{"toolsListChanged":true}"# } else { "{}" };
        let params = object(&[("_meta", &meta), ("notifications", accepted)]);
        outlet.send(notification("notifications/subscriptions/acknowledged", &params)).await;
        loop {
            tokio::select! {
                () = running.cancel.cancelled() => return None,
                changed = changes.changed(), if tools => if changed.is_err() {
                    running.cancel.cancelled().await;
                    return None;
                },
            }
            outlet.send(notification(CHANGED, &object(&[("_meta", &meta)]))).await;
        }
    }
}

/// For an older client: tells it without being asked, from when it is ready, for as long as this
/// is polled.
pub(crate) async fn announce<S: Service>(peer: Arc<Peer<S>>, outlet: Outlet) {
    let mut changes = peer.service.changes();
    peer.connection.ready().await;
    while changes.changed().await.is_ok() {
        outlet.send(notification(CHANGED, "{}")).await;
    }
}

//! Tells that lists or resources have changed, in either era's way.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::watch;

use super::connection::Outlet;
use super::peer::{Begun, Outcome, Peer};
use super::tasks::Watched;
use super::watching::{self, Watch};
use super::{Refusal, Service, tasks};
use crate::client::Kind;
use crate::message::{fields, flag, notification, object, quote};

const TOOLS: &str = "notifications/tools/list_changed";
const PROMPTS: &str = "notifications/prompts/list_changed";
const RESOURCES: &str = "notifications/resources/list_changed";
const UPDATED: &str = "notifications/resources/updated";

/// What is told of lists.
struct Lists {
    tools: Option<watch::Receiver<u64>>,
    prompts: Option<watch::Receiver<u64>>,
    resources: Option<watch::Receiver<u64>>,
}

impl Lists {
    /// The notification of the next change; waits for ever where nothing changes any more.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            () = changed(&mut self.tools) => TOOLS,
            () = changed(&mut self.prompts) => PROMPTS,
            () = changed(&mut self.resources) => RESOURCES,
        }
    }
}

async fn changed(changes: &mut Option<watch::Receiver<u64>>) {
    if let Some(receiver) = changes
        && receiver.changed().await.is_ok()
    {
        return;
    }
    *changes = None;
    std::future::pending().await
}

/// The next resource that was updated; `None` where some were missed.
async fn updated(updates: &mut Option<broadcast::Receiver<Arc<str>>>) -> Option<Arc<str>> {
    if let Some(receiver) = updates {
        match receiver.recv().await {
            Ok(uri) => return Some(uri),
            Err(RecvError::Lagged(_)) => return None,
            Err(RecvError::Closed) => {}
        }
    }
    *updates = None;
    std::future::pending().await
}

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
        prompts_list_changed: Option<&'a RawValue>,
        #[serde(borrow, default)]
        resources_list_changed: Option<&'a RawValue>,
        #[serde(borrow, default)]
        resource_subscriptions: Option<&'a RawValue>,
        #[serde(borrow, default)]
        task_ids: Option<&'a RawValue>,
    }
    let params: Params<'_> = fields(begun.params.as_deref());
    let filter: Filter<'_> = fields(params.notifications);
    let ids: Vec<String> =
        filter.task_ids.and_then(|ids| serde_json::from_str(ids.get()).ok()).unwrap_or_default();
    if !ids.is_empty() && !begun.caller.tasks {
        return Err(Refusal::missing_extension(tasks::EXTENSION));
    }
    let wanted = |asked: Option<&RawValue>, changes: Option<watch::Receiver<u64>>| {
        changes.filter(|_| flag(asked) == Some(true))
    };
    let service = Arc::clone(&peer.service);
    let mut lists = Lists {
        tools: wanted(filter.tools_list_changed, Some(service.changes())),
        prompts: wanted(filter.prompts_list_changed, service.list_changes(Kind::Prompts)),
        resources: wanted(filter.resources_list_changed, service.list_changes(Kind::Resources)),
    };
    let mut uris: Vec<String> = filter
        .resource_subscriptions
        .and_then(|uris| serde_json::from_str(uris.get()).ok())
        .unwrap_or_default();
    uris.sort();
    uris.dedup();
    uris.truncate(watching::MOST);
    let peer = Arc::clone(peer);
    Ok(async move {
        let Begun { caller, id, meta: sent, running, outlet, .. } = begun;
        let mut going = Watched::of(&peer, &caller, sent, ids).await;
        let meta = object(&[("io.modelcontextprotocol/subscriptionId", id.get())]);
        // From before the first is watched, so that nothing is missed.
        let mut updates = service.updates().filter(|_| !uris.is_empty());
        let mut watched: BTreeMap<String, Watch> = BTreeMap::new();
        for uri in uris {
            match service.watch(&caller, &uri).await {
                Ok(watch) => drop(watched.insert(uri, watch)),
                Err(refusal) => tracing::debug!(?refusal, "a resource is not watched"),
            }
        }
        // What is not named here is not told.
        let subscribed: Vec<String> = watched.keys().map(|uri| quote(uri)).collect();
        let subscribed = format!("[{}]", subscribed.join(","));
        let ids = going.ids();
        let mut accepted: Vec<(&str, &str)> = [
            ("toolsListChanged", "true", lists.tools.is_some()),
            ("promptsListChanged", "true", lists.prompts.is_some()),
            ("resourcesListChanged", "true", lists.resources.is_some()),
            ("resourceSubscriptions", subscribed.as_str(), !watched.is_empty()),
        ]
        .into_iter()
        .filter_map(|(name, value, told)| told.then_some((name, value)))
        .collect();
        accepted.extend(ids.as_deref().map(|ids| ("taskIds", ids)));
        let params = object(&[("_meta", &meta), ("notifications", &object(&accepted))]);
        outlet.send(notification("notifications/subscriptions/acknowledged", &params)).await;
        loop {
            let uris = tokio::select! {
                () = running.cancel.cancelled() => return None,
                change = lists.next() => {
                    outlet.send(notification(change, &object(&[("_meta", &meta)]))).await;
                    continue;
                }
                uri = updated(&mut updates) => match uri {
                    Some(uri) if watched.contains_key(&*uri) => vec![uri.to_string()],
                    Some(_) => continue,
                    None => watched.keys().cloned().collect(),
                },
                told = going.next(&meta) => {
                    for message in told {
                        outlet.send(message).await;
                    }
                    continue;
                }
            };
            for uri in uris {
                let params = object(&[("_meta", &meta), ("uri", &quote(&uri))]);
                outlet.send(notification(UPDATED, &params)).await;
            }
        }
    }
    .boxed())
}

/// For an older client: tells it without being asked, from when it is ready, for as long as this
/// is polled.
pub(crate) async fn announce<S: Service>(peer: Arc<Peer<S>>, outlet: Outlet) {
    let service = &peer.service;
    let mut lists = Lists {
        tools: Some(service.changes()),
        prompts: service.list_changes(Kind::Prompts),
        resources: service.list_changes(Kind::Resources),
    };
    let mut updates = service.updates();
    peer.connection.ready().await;
    loop {
        let watching = &peer.connection.watching;
        let uris = tokio::select! {
            change = lists.next() => {
                outlet.send(notification(change, "{}")).await;
                continue;
            }
            uri = updated(&mut updates) => match uri {
                Some(uri) if watching.has(&uri) => vec![uri.to_string()],
                Some(_) => continue,
                None => watching.uris(),
            },
            ends = tasks::ends(&peer) => {
                for message in ends {
                    outlet.send(message).await;
                }
                continue;
            }
        };
        for uri in uris {
            outlet.send(notification(UPDATED, &object(&[("uri", &quote(&uri))]))).await;
        }
    }
}

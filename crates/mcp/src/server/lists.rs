//! `resources/list`, `resources/templates/list`, `prompts/list`, in pages.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::peer::{Begun, Outcome, Peer};
use super::{Refusal, Service, results};
use crate::client::Kind;
use crate::message::{fields, text};

/// Most of them in one page.
const PAGE: usize = 1_000;

/// Reads the request; the future answers it.
pub(crate) fn begin<S: Service>(
    peer: &Arc<Peer<S>>,
    kind: Kind,
    begun: Begun,
) -> Result<BoxFuture<'static, Outcome>, Refusal> {
    #[derive(Default, Deserialize)]
    struct Page<'a> {
        #[serde(borrow, default)]
        cursor: Option<&'a RawValue>,
    }
    let page: Page<'_> = fields(begun.params.as_deref());
    let from = match page.cursor.filter(|cursor| cursor.get() != "null") {
        None => 0,
        Some(cursor) => {
            let from = text(Some(cursor)).and_then(|cursor| cursor.parse::<usize>().ok());
            from.ok_or_else(|| {
                Refusal::invalid("there is no page with this cursor; list from the start")
            })?
        }
    };
    let service = Arc::clone(&peer.service);
    let listed = async move {
        let listed = tokio::select! {
            listed = service.list(&begun.caller, kind) => listed,
            () = begun.running.cancel.cancelled() => return None,
        };
        Some(listed.map(|mut listed| {
            let next = from.saturating_add(PAGE);
            let next = (next < listed.definitions.len()).then(|| next.to_string());
            listed.definitions = listed.definitions.into_iter().skip(from).take(PAGE).collect();
            let revision = &begun.caller.revision;
            results::listed_page(&service.about(), kind.field(), &listed, next.as_deref(), revision)
        }))
    };
    Ok(listed.boxed())
}

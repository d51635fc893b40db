//! What only 2026-07-28 has: `server/discover`, and `subscriptions/listen`, which tells about
//! changes.

use std::sync::Arc;
use std::time::Duration;

use super::ServerInfo;
use super::about::About;
use super::connection::{Connection, Limit, Request};
use crate::error::Error;
use crate::message::{object, shorten};
use crate::revision::Revision;

/// Waits before a stream that ended is opened again: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Asks what the server is and speaks. The revision in the answer is the best that both speak, and
/// may be an older one.
pub(super) async fn discover(
    connection: &Connection,
    revision: &Revision,
    limit: Limit,
) -> Result<ServerInfo, Error> {
    let method = "server/discover";
    let result = connection.request(Request::new(method, Some(revision), limit)).await?;
    let about = About::read(method, &result)?;
    let versions: Vec<String> = about
        .supported_versions
        .and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or_default();
    let chosen = Revision::choose(versions.iter().map(String::as_str)).ok_or_else(|| {
        Error::Refused(format!(
            "the server speaks {} and here {} are spoken: there is none in common",
            shorten(&versions.join(", "), 200),
            Revision::spoken(),
        ))
    })?;
    Ok(about.into_info(chosen))
}

/// Keeps a stream of changes open until the connection ends or the server refuses one.
pub(super) async fn keep_listening(connection: Arc<Connection>, info: ServerInfo) {
    let told = [
        ("toolsListChanged", info.abilities.tools_change),
        ("promptsListChanged", info.abilities.prompts_change),
        ("resourcesListChanged", info.abilities.resources_change),
    ];
    let filter: Vec<(&str, &str)> =
        told.iter().filter(|(_, told)| *told).map(|(name, _)| (*name, "true")).collect();
    if filter.is_empty() {
        return;
    }
    let filter = object(&filter);
    // What changed while no stream was open was not told.
    let missed = || connection.inbox.suspect_change();
    tokio::select! {
        () = connection.closing.cancelled() => {}
        _ = connection.inbox.ended() => {}
        () = open_again_and_again(&connection, &info.revision, &filter, missed) => {}
    }
}

/// Opens a stream of what `filter` names, each time that it ends; `missed` is called after a gap.
pub(super) async fn open_again_and_again(
    connection: &Connection,
    revision: &Revision,
    filter: &str,
    missed: impl Fn(),
) {
    let mut pause = FIRST_PAUSE;
    loop {
        let opened = tokio::time::Instant::now();
        let forever = Limit { silence: None, total: None };
        let mut request = Request::new("subscriptions/listen", Some(revision), forever);
        request.params = vec![("notifications", filter)];
        let outcome = connection.request(request).await;
        if let Err(error @ (Error::Rpc { .. } | Error::Refused(_) | Error::Connect(_))) = outcome {
            tracing::debug!(%error, "changes are not told");
            return;
        }
        // An answer ends the stream in good order; a loss may be a proxy's time limit.
        if opened.elapsed() > LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        missed();
    }
}

//! `subscriptions/listen` of 2026-07-28, which tells about changes of the tool list.

use std::sync::Arc;
use std::time::Duration;

use super::connection::{Connection, Limit, Request};
use crate::error::Error;
use crate::revision::Revision;

/// Waits before a stream that ended is opened again: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Keeps a stream open until the connection ends or the server refuses one.
pub(super) async fn keep_listening(connection: Arc<Connection>, revision: Revision) {
    tokio::select! {
        () = connection.closing.cancelled() => {}
        _ = connection.inbox.ended() => {}
        () = open_again_and_again(&connection, &revision) => {}
    }
}

async fn open_again_and_again(connection: &Connection, revision: &Revision) {
    let mut pause = FIRST_PAUSE;
    loop {
        let opened = tokio::time::Instant::now();
        let forever = Limit { silence: None, total: None };
        let mut request = Request::new("subscriptions/listen", Some(revision), forever);
        request.params = vec![("notifications", r#"{"toolsListChanged":true}"#)];
        let outcome = connection.request(request).await;
        if let Err(error @ (Error::Rpc { .. } | Error::Refused(_) | Error::Connect(_))) = outcome {
            tracing::debug!(%error, "changes of the tool list are not told");
            return;
        }
        // An answer ends the stream in good order; a loss may be a proxy's time limit.
        if opened.elapsed() > LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        // What changed while no stream was open was not told.
        connection.inbox.suspect_change();
    }
}

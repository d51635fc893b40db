//! Resources whose changes are wanted: `resources/subscribe` in the older revisions, a stream of
//! its own in 2026-07-28.
//!
//! It counts nothing: whoever wants a resource watched says so once, and once that it no longer
//! does.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::ServerInfo;
use super::connection::{Connection, Limit, Request};
use super::modern::open_again_and_again;
use crate::error::Error;
use crate::message::{object, quote};
use crate::revision::Revision;

/// For the server to say that it will tell.
const PATIENCE: Duration = Duration::from_secs(10);

/// The same, where the words do not say which stream they are about, so that more than the wait is
/// not known.
const MOMENT: Duration = Duration::from_secs(2);

/// Most resources that are watched over one connection.
const MOST: usize = 10_000;

pub(super) struct Watched {
    connection: Arc<Connection>,
    revision: Revision,
    wanted: watch::Sender<BTreeSet<String>>,
}

impl Watched {
    pub(super) fn new(connection: &Arc<Connection>, info: &ServerInfo) -> Self {
        let wanted = watch::Sender::default();
        if info.revision.is_modern() && info.abilities.subscribe {
            let stream =
                keep_watching(Arc::clone(connection), info.revision.clone(), wanted.subscribe());
            tokio::spawn(stream);
        }
        Self { connection: Arc::clone(connection), revision: info.revision.clone(), wanted }
    }

    pub(super) async fn add(&self, uri: &str) -> Result<(), Error> {
        if self.wanted.borrow().len() >= MOST {
            return Err(Error::Refused(format!(
                "{MOST} resources of this server are watched already"
            )));
        }
        if !self.revision.is_modern() {
            self.ask("resources/subscribe", uri).await?;
            self.wanted.send_modify(|wanted| {
                wanted.insert(uri.to_owned());
            });
            return Ok(());
        }
        let mut accepted = self.connection.inbox.accepted();
        accepted.mark_unchanged();
        self.wanted.send_modify(|wanted| {
            wanted.insert(uri.to_owned());
        });
        let _ = tokio::time::timeout(MOMENT, accepted.changed()).await;
        Ok(())
    }

    pub(super) async fn remove(&self, uri: &str) {
        let mut was_there = false;
        self.wanted.send_modify(|wanted| was_there = wanted.remove(uri));
        if was_there && !self.revision.is_modern() {
            // A server that goes on telling is not listened to.
            let _ = self.ask("resources/unsubscribe", uri).await;
        }
    }

    async fn ask(&self, method: &str, uri: &str) -> Result<(), Error> {
        let uri = quote(uri);
        let mut request = Request::new(method, Some(&self.revision), Limit::of(PATIENCE));
        request.params = vec![("uri", &uri)];
        self.connection.request(request).await.map(drop)
    }
}

/// A stream for as long as there is something to tell, opened anew with each change of that.
async fn keep_watching(
    connection: Arc<Connection>,
    revision: Revision,
    mut wanted: watch::Receiver<BTreeSet<String>>,
) {
    loop {
        let uris: Vec<String> = wanted.borrow_and_update().iter().map(|uri| quote(uri)).collect();
        let telling = async {
            if uris.is_empty() {
                return std::future::pending().await;
            }
            let filter = object(&[("resourceSubscriptions", &format!("[{}]", uris.join(",")))]);
            open_again_and_again(&connection, &revision, &filter, || {}).await;
            // Refused: with other resources it may be taken.
            std::future::pending().await
        };
        tokio::select! {
            () = connection.closing.cancelled() => return,
            _ = connection.inbox.ended() => return,
            changed = wanted.changed() => if changed.is_err() { return },
            () = telling => {}
        }
    }
}

//! One connection to one server, from the agreement on a revision to its end.
//!
//! It does not reconnect: whoever supervises makes a new one, knowing what a lost call means.

mod connect;

mod modern;

mod legacy;

mod about;

mod lists;

mod calls;

mod passing;

mod asks;

mod rounds;

mod watched;

mod connection;

mod inbox;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub(crate) use self::inbox::Inbox;

pub use self::about::Abilities;
pub use self::asks::{Asked, Asks, Given};
pub use self::lists::{Item, Kind};
pub use self::passing::{Passed, Passing};

use self::connection::Connection;
use self::watched::Watched;
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::journal::Event;
use crate::result::CallResult;
use crate::revision::Revision;
use crate::tool::Tool;
use crate::transport::http::Mirrored;

/// One live connection to a server. It ends with its transport; whoever supervises makes a new one.
///
/// Clones share the connection. When the last one is dropped the connection is closed in the
/// background, as [`close`](Self::close) does it.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    endpoint: Endpoint,
    connection: Arc<Connection>,
    info: ServerInfo,
    /// Of the tools that were listed last, those with arguments that are repeated in headers.
    mirrored: Mutex<HashMap<String, Mirrored>>,
    watched: Watched,
    /// What of that list could not be used, and why.
    left_out: Mutex<Vec<String>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.connection.closing.cancel();
    }
}

/// What a server says about itself.
#[derive(Clone, Debug)]
pub struct ServerInfo {
    /// The revision that was agreed on.
    pub revision: Revision,
    /// What it can do, as far as that matters here.
    pub abilities: Abilities,
    /// Its name, for people.
    pub name: Option<String>,
    /// Its version, for people.
    pub version: Option<String>,
    /// How to use it, in its words: untrusted text.
    pub instructions: Option<String>,
    /// Its capabilities, as it sent them.
    pub capabilities: Option<Box<RawValue>>,
}

/// One call of a tool.
#[derive(Debug)]
pub struct ToolCall {
    /// The server's own name for the tool.
    pub name: String,
    /// Arguments, an object.
    pub arguments: Box<RawValue>,
    /// Ends the call, here and at the server.
    pub cancel: CancellationToken,
    /// The longest silence. Progress starts it anew, up to ten times this in all; without
    /// `progress` it is the longest time in all.
    pub timeout: Duration,
    /// Where progress goes; a token is sent only if this is set.
    pub progress: Option<mpsc::UnboundedSender<Progress>>,
    /// What goes along with it.
    pub passed: Passed,
}

/// A progress notification.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Rising.
    pub progress: f64,
    /// Where it ends, if known.
    pub total: Option<f64>,
    /// For people.
    pub message: Option<String>,
}

impl Client {
    /// Connects and agrees on a revision: `server/discover` first, `initialize` where that is
    /// unknown; a stdio server that dies of the probe, or hangs, is started again for `initialize`.
    pub async fn connect(
        endpoint: &Endpoint,
        timeout: Duration,
        events: mpsc::UnboundedSender<Event>,
    ) -> Result<Self, Error> {
        connect::connect(endpoint, timeout, events, None).await
    }

    /// Connects to the same server again, beginning with what was agreed on the last time: a
    /// server that dies of the probe does so only once.
    pub async fn reconnect(
        &self,
        timeout: Duration,
        events: mpsc::UnboundedSender<Event>,
    ) -> Result<Self, Error> {
        let revision = Some(&self.shared.info.revision);
        connect::connect(&self.shared.endpoint, timeout, events, revision).await
    }

    /// What the server says about itself.
    #[must_use]
    pub fn info(&self) -> &ServerInfo {
        &self.shared.info
    }

    /// How often the server has announced that its tools changed. A list that was asked for after
    /// this was read holds all that was announced until then.
    #[must_use]
    pub fn announced_changes(&self) -> u64 {
        self.shared.connection.inbox.announced()
    }

    /// All tools, every page, raw. Definitions that are broken are left out and logged.
    pub async fn list_tools(&self) -> Result<Vec<Tool>, Error> {
        lists::list_tools(&self.shared).await
    }

    /// Everything of a kind, every page, raw. What is broken is left out and logged.
    pub async fn list(&self, kind: Kind) -> Result<Vec<Item>, Error> {
        lists::list(&self.shared, kind).await
    }

    /// Sends a request that only passes through; its result, as it came.
    pub async fn pass(&self, passing: Passing) -> Result<Box<RawValue>, Error> {
        passing::pass(&self.shared, passing).await
    }

    /// Has changes of a resource told, as [`Event::ResourceUpdated`].
    pub async fn watch(&self, uri: &str) -> Result<(), Error> {
        self.shared.watched.add(uri).await
    }

    /// They are no longer wanted.
    pub async fn unwatch(&self, uri: &str) {
        self.shared.watched.remove(uri).await;
    }

    /// What of the last list could not be used, and why: the server's words are in it.
    #[must_use]
    pub fn left_out(&self) -> Vec<String> {
        self.shared.left_out.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Calls a tool.
    pub async fn call_tool(&self, call: ToolCall) -> Result<CallResult, Error> {
        calls::call_tool(&self.shared, call).await
    }

    /// Resolves when the connection is over, with the reason.
    pub async fn closed(&self) -> String {
        self.shared.connection.inbox.ended().await
    }

    /// Ends the connection; a stdio server's whole process group is ended.
    pub async fn close(&self) {
        self.shared.connection.closing.cancel();
        // A connection that broke earlier has its reason already; its farewell is short.
        self.shared.connection.finished.cancelled().await;
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("endpoint", &self.shared.endpoint)
            .field("revision", &self.shared.info.revision.0)
            .finish_non_exhaustive()
    }
}

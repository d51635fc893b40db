//! How messages travel. Each transport carries requests out and hands what arrives to the inbox.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::revision::Revision;

pub(crate) mod http;
pub(crate) mod stdio;

/// Longest message that is taken from a server, in bytes.
pub(crate) const LONGEST_MESSAGE: usize = 64 * 1024 * 1024;

/// Longest excerpt of a server's words in an error text, in bytes.
pub(crate) const LONGEST_EXCERPT: usize = 600;

/// A request on its way out.
#[derive(Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) id: i64,
    pub(crate) method: &'a str,
    /// The whole message, one line.
    pub(crate) body: String,
    /// The revision this request is made under; `None` before a legacy one is agreed on.
    pub(crate) revision: Option<&'a Revision>,
    /// What `Mcp-Name` says.
    pub(crate) name: Option<&'a str>,
    /// `Mcp-Param-*` headers, without that prefix, not yet encoded.
    pub(crate) mirrored: BTreeMap<String, String>,
}

/// The transport of one connection.
#[derive(Debug)]
pub(crate) enum Transport {
    Stdio(stdio::Stdio),
    Http(http::Http),
}

impl Transport {
    /// Sends a request. Over stdio this is over when the request is on its way, over HTTP when the
    /// response stream is; the answer goes to the inbox in both cases.
    pub(crate) async fn exchange(&self, outgoing: Outgoing<'_>) -> Result<(), Error> {
        match self {
            Self::Stdio(stdio) => stdio.send(outgoing.body).await,
            Self::Http(http) => http.exchange(outgoing).await,
        }
    }

    /// Sends a message that has no answer, and waits until it is on its way.
    pub(crate) async fn tell(&self, body: String) -> Result<(), Error> {
        match self {
            Self::Stdio(stdio) => stdio.send(body).await,
            Self::Http(http) => http.tell(body).await,
        }
    }

    /// Sends a message that has no answer, if there is room; never waits.
    pub(crate) fn mention(&self, body: String) {
        match self {
            Self::Stdio(stdio) => stdio.mention(body),
            Self::Http(http) => http.mention(body),
        }
    }

    /// Whether the answer can only come while [`exchange`](Self::exchange) runs, so that ending it
    /// is how a modern request is cancelled.
    pub(crate) fn is_streamed(&self) -> bool {
        matches!(self, Self::Http(_))
    }

    /// A legacy revision was agreed on: it is named from now on, where there are headers.
    pub(crate) fn agree(&self, revision: &Revision) {
        if let Self::Http(http) = self {
            http.agree(revision);
        }
    }

    /// Begins to listen to what a legacy server says on its own, where that needs a stream.
    pub(crate) fn listen(&self) {
        if let Self::Http(http) = self {
            http.listen();
        }
    }
}

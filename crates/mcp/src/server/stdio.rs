//! Lines in, lines out: the transport of clients that start the server themselves.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{Connection, Outlet};
use super::peer::{Peer, Reply};
use super::{Refusal, Seal, Service, listen};
use crate::message::{asked_at_ends, code};
use crate::transport::stdio::lines::{Line, Lines};

/// Longest message that is taken, in bytes.
const LONGEST_MESSAGE: usize = 16 * 1024 * 1024;

/// So many messages may wait for a client that does not read.
const QUEUED: usize = 64;

/// So long may what runs take to end, once it was told to.
const GRACE: Duration = Duration::from_secs(10);

/// So long may a client take to read what was answered last.
const FAREWELL: Duration = Duration::from_secs(2);

/// Serves the client at standard input and output. Nothing else may be written there.
pub async fn serve_stdio<S: Service>(
    service: Arc<S>,
    seal: Seal,
    stop: CancellationToken,
) -> io::Result<()> {
    serve(service, seal, tokio::io::stdin(), tokio::io::stdout(), stop).await
}

/// Serves one client until its input ends, or until `stop`; what runs then is cancelled first.
pub async fn serve<S: Service>(
    service: Arc<S>,
    seal: Seal,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Send + Unpin + 'static,
    stop: CancellationToken,
) -> io::Result<()> {
    let closing = stop.child_token();
    let (lines, queue) = mpsc::channel(QUEUED);
    let mut writer = tokio::spawn(write(output, queue, closing.clone()));
    let outlet = Outlet::new(lines);
    let connection = Connection::new(closing.clone());
    let peer = Arc::new(Peer { service, seal, connection, session: None });
    let announcing = tokio::spawn(listen::announce(Arc::clone(&peer), outlet.clone()));
    let tasks = TaskTracker::new();
    let read = read(&peer, input, &outlet, &tasks, &closing).await;
    closing.cancel();
    announcing.abort();
    let _ = announcing.await;
    tasks.close();
    if tokio::time::timeout(GRACE, tasks.wait()).await.is_err() {
        tracing::warn!("some calls did not end in time");
    }
    drop(outlet);
    if tokio::time::timeout(FAREWELL, &mut writer).await.is_err() {
        writer.abort();
    }
    read
}

async fn read<S: Service>(
    peer: &Arc<Peer<S>>,
    input: impl AsyncRead + Unpin,
    outlet: &Outlet,
    tasks: &TaskTracker,
    closing: &CancellationToken,
) -> io::Result<()> {
    let mut lines = Lines::new(BufReader::with_capacity(64 * 1024, input), LONGEST_MESSAGE);
    loop {
        let line = tokio::select! {
            line = lines.next() => line?,
            () = closing.cancelled() => return Ok(()),
        };
        let reply = match line {
            None => return Ok(()),
            Some(Line::Whole(line)) if line.trim_ascii().is_empty() => None,
            Some(Line::Whole(line)) => match std::str::from_utf8(line) {
                Ok(line) => peer.receive(line, outlet),
                Err(_) => {
                    let refusal = Refusal::new(code::PARSE, "this is not UTF-8");
                    Some(Reply::Now(refusal.reply(None)))
                }
            },
            Some(Line::Cut { head, tail }) => {
                let id = asked_at_ends(head, tail).map(|id| id.to_string());
                let id = id.and_then(|id| serde_json::value::RawValue::from_string(id).ok());
                let refusal = Refusal::new(
                    code::INVALID_REQUEST,
                    format!("a message of more than {LONGEST_MESSAGE} bytes is not taken"),
                );
                Some(Reply::Now(refusal.reply(id.as_deref())))
            }
        };
        match reply {
            None => {}
            // Sent from here, so that a client which does not read is not read from either.
            Some(Reply::Now(text)) => tokio::select! {
                () = outlet.send(text) => {}
                () = closing.cancelled() => return Ok(()),
            },
            Some(Reply::Later(text)) => {
                let outlet = outlet.clone();
                tasks.spawn(async move {
                    if let Some(text) = text.await {
                        outlet.send(text).await;
                    }
                });
            }
        }
    }
}

/// Writes whole lines, one after the other. Where nobody reads any more, everything ends.
async fn write(
    mut output: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<String>,
    closing: CancellationToken,
) {
    let mut lines = Vec::new();
    let mut bytes = Vec::new();
    while queue.recv_many(&mut lines, QUEUED).await > 0 {
        bytes.clear();
        bytes.shrink_to(1024 * 1024);
        for line in lines.drain(..) {
            bytes.extend_from_slice(line.as_bytes());
            bytes.push(b'\n');
        }
        let written = async {
            output.write_all(&bytes).await?;
            output.flush().await
        };
        if let Err(error) = written.await {
            tracing::debug!(%error, "the client no longer reads");
            closing.cancel();
            return;
        }
    }
}

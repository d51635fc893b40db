//! Messages as lines over a program's standard input and output.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncWriteExt, BufReader};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::lines::{Line, Lines};
use self::process::{Pipes, Process};
use super::LONGEST_MESSAGE;
use crate::client::Inbox;
use crate::error::Error;

pub(crate) mod lines;
pub(crate) mod process;

/// So many messages may wait for a server that does not read.
const QUEUED: usize = 64;

/// Longest line of stderr, in bytes; the rest of it is dropped.
const LONGEST_WORDS: usize = 4_096;

/// So long output may still come after the process ended (from a process that left the group).
const AFTERGLOW: Duration = Duration::from_secs(1);

/// Between the end of a server's output and the end of the server, where one brings the other.
const MOMENT: Duration = Duration::from_millis(200);

/// The way to a server's standard input.
#[derive(Debug)]
pub(crate) struct Stdio {
    lines: mpsc::Sender<String>,
}

impl Stdio {
    /// Begins to talk to a started process. When `closing` is cancelled the process is ended; when
    /// it has ended, however that came, the inbox is told why.
    pub(crate) fn over(
        process: Process,
        pipes: Pipes,
        inbox: &Arc<Inbox>,
        closing: &CancellationToken,
        finished: &CancellationToken,
    ) -> Self {
        let (lines, queue) = mpsc::channel(QUEUED);
        let supervised =
            supervise(process, pipes, queue, lines.downgrade(), Arc::clone(inbox), closing.clone());
        let finished = finished.clone();
        tokio::spawn(async move {
            supervised.await;
            finished.cancel();
        });
        Self { lines }
    }

    /// Queues a message, waiting for room.
    pub(crate) async fn send(&self, line: String) -> Result<(), Error> {
        self.lines
            .send(line)
            .await
            .map_err(|_| Error::Connect("the server no longer reads its input".to_owned()))
    }

    /// Queues a message if there is room: a server that does not read would not see it anyway.
    pub(crate) fn mention(&self, line: String) {
        let _ = self.lines.try_send(line);
    }
}

async fn supervise(
    mut process: Process,
    pipes: Pipes,
    queue: mpsc::Receiver<String>,
    replies: mpsc::WeakSender<String>,
    inbox: Arc<Inbox>,
    closing: CancellationToken,
) {
    let stop = closing.child_token();
    let writer = tokio::spawn(write(pipes.input, queue, stop.clone()));
    let mut reader = tokio::spawn(read(pipes.output, replies, Arc::clone(&inbox)));
    let listener = tokio::spawn(listen(pipes.errors, Arc::clone(&inbox)));
    let mut has_read_all = false;
    let closed_by_us = tokio::select! {
        () = process.exited() => false,
        () = closing.cancelled() => true,
        _ = &mut reader => {
            has_read_all = true;
            false
        }
    };
    // The end of a process closes its output a moment before it can be seen to have ended.
    let ended_by_itself =
        !closed_by_us && tokio::time::timeout(MOMENT, process.exited()).await.is_ok();
    // Its standard input ends here, which is how a server is asked to go.
    stop.cancel();
    let _ = writer.await;
    process.ask_to_end().await;
    let status = process.end().await;
    // The group is gone, so the pipes end as soon as what is in them was read.
    if !has_read_all && tokio::time::timeout(AFTERGLOW, &mut reader).await.is_err() {
        reader.abort();
    }
    let aborting = listener.abort_handle();
    if tokio::time::timeout(AFTERGLOW, listener).await.is_err() {
        aborting.abort();
    }
    let mut reason = if closed_by_us {
        "the connection was closed".to_owned()
    } else if !ended_by_itself {
        format!("the server closed its output ({})", process::describe(status))
    } else {
        process::describe(status)
    };
    if !closed_by_us {
        reason = inbox.journal().with_last_words(&reason);
    }
    inbox.end(&reason, true);
}

async fn write(mut input: ChildStdin, mut queue: mpsc::Receiver<String>, stop: CancellationToken) {
    let mut lines = Vec::new();
    let mut bytes = Vec::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            count = queue.recv_many(&mut lines, QUEUED) => if count == 0 { return },
        }
        bytes.clear();
        bytes.shrink_to(1024 * 1024);
        for line in lines.drain(..) {
            bytes.extend_from_slice(line.as_bytes());
            bytes.push(b'\n');
        }
        tokio::select! {
            () = stop.cancelled() => return,
            written = input.write_all(&bytes) => if written.is_err() { return },
        }
    }
}

async fn read(output: ChildStdout, replies: mpsc::WeakSender<String>, inbox: Arc<Inbox>) {
    let mut lines = Lines::new(BufReader::with_capacity(65_536, output), LONGEST_MESSAGE);
    while let Ok(Some(line)) = lines.next().await {
        match line {
            Line::Whole(line) => {
                // A server that writes another encoding still gets its answer through.
                let line = String::from_utf8_lossy(line);
                for reply in inbox.receive(&line, None) {
                    if let Some(replies) = replies.upgrade() {
                        let _ = replies.try_send(reply);
                    }
                }
            }
            Line::Cut { head, tail } => {
                let limit = LONGEST_MESSAGE >> 20;
                match lines::answered(head, tail) {
                    Some(id) => inbox
                        .fail(id, Error::Protocol(format!("its answer is longer than {limit} MB"))),
                    None => inbox
                        .journal()
                        .line("noise", &format!("a line longer than {limit} MB was dropped")),
                }
            }
        }
    }
}

async fn listen(errors: ChildStderr, inbox: Arc<Inbox>) {
    let mut lines = Lines::new(BufReader::new(errors), LONGEST_WORDS);
    while let Ok(Some(line)) = lines.next().await {
        let (Line::Whole(line) | Line::Cut { head: line, .. }) = line;
        inbox.journal().words(&String::from_utf8_lossy(line));
    }
}

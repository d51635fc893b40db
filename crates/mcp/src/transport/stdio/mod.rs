//! Messages as lines over a program's standard input and output.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::BufReader;
use tokio::process::{ChildStderr, ChildStdout};
use tokio_util::sync::CancellationToken;

use self::input::Input;
use self::lines::{Line, Lines};
use self::process::{Pipes, Process};
use super::LONGEST_MESSAGE;
use crate::client::Inbox;
use crate::error::Error;
use crate::message::answered_at_ends;

mod input;
pub(crate) mod lines;
pub(crate) mod process;

/// Longest line of stderr, in bytes; the rest of it is dropped.
const LONGEST_WORDS: usize = 4_096;

/// So long output may still come after the process ended (from a process that left the group).
const AFTERGLOW: Duration = Duration::from_secs(1);

/// Between the end of a server's output and the end of the server, where one brings the other.
const MOMENT: Duration = Duration::from_millis(200);

/// A server that is a program.
#[derive(Debug)]
pub(crate) struct Stdio {
    input: Input,
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
    ) -> Result<Self, Error> {
        let Pipes { input, output, errors } = pipes;
        let input = Input::new(input)
            .map_err(|error| Error::Connect(format!("its standard input is no pipe: {error}")))?;
        let supervised =
            supervise(process, input.clone(), (output, errors), Arc::clone(inbox), closing.clone());
        let finished = finished.clone();
        tokio::spawn(async move {
            supervised.await;
            finished.cancel();
        });
        Ok(Self { input })
    }

    /// Sends a message, waiting for room.
    pub(crate) async fn send(&self, line: String) -> Result<(), Error> {
        let sent = self.input.send(line).await;
        sent.map_err(|_| Error::Connect("the server no longer reads its input".to_owned()))
    }

    /// Sends a message if there is room: a server that does not read would not see it anyway.
    pub(crate) fn mention(&self, line: String) {
        self.input.try_send(line);
    }
}

async fn supervise(
    mut process: Process,
    input: Input,
    (output, errors): (ChildStdout, ChildStderr),
    inbox: Arc<Inbox>,
    closing: CancellationToken,
) {
    let stop = closing.child_token();
    let writer = tokio::spawn(input.clone().write_until(stop.clone()));
    let mut reader = tokio::spawn(read(output, input, Arc::clone(&inbox)));
    let listener = tokio::spawn(listen(errors, Arc::clone(&inbox)));
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

async fn read(output: ChildStdout, input: Input, inbox: Arc<Inbox>) {
    let mut lines = Lines::new(BufReader::with_capacity(65_536, output), LONGEST_MESSAGE);
    while let Ok(Some(line)) = lines.next().await {
        match line {
            Line::Whole(line) => {
                // A server that writes another encoding still gets its answer through.
                let line = String::from_utf8_lossy(line);
                for reply in inbox.receive(&line, None) {
                    input.try_send(reply);
                }
            }
            Line::Cut { head, tail } => {
                let limit = LONGEST_MESSAGE >> 20;
                match answered_at_ends(head, tail) {
                    Some(id) => inbox
                        .fail(id, Error::Protocol(format!("its answer is longer than {limit} MB"))),
                    None => inbox.note_unreadable(&format!(
                        "a line longer than {limit} MB was dropped: {}",
                        String::from_utf8_lossy(head)
                    )),
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

//! Serves one script until it is over.
//!
//! One loop: read requests, start calls, take what ended, write replies, tell progress. Calls are
//! polled here and not spawned, replies are written without waiting to be told that there is
//! room: a call whose tool answers at once costs one read and one write.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use super::calls::{Calls, Counts};
use super::lines::{Line, Lines};
use super::message::{self, EndReport, Message};
use super::report::Report;
use crate::Error;
use crate::host::Host;

/// What a pipe holds.
const PIPE: usize = 256 << 10;
/// A request line may be this long.
const LONGEST_LINE: usize = 64 << 20;
/// Replies that are not taken, in bytes, beyond which no calls are started or read.
const UNTAKEN: usize = 1 << 20;
/// What cannot be understood is passed over this often.
const PATIENCE: u32 = 1000;
/// What is still read when the script is over: more than a pipe holds, unless the script enlarged it.
const LEFTOVER: usize = 1 << 20;

/// Both ends of both pipes.
#[derive(Debug)]
pub(crate) struct Pipes {
    /// Where requests are read.
    pub(crate) requests: pipe::Receiver,
    /// Where replies are written.
    pub(crate) replies: pipe::Sender,
    /// The script's descriptor 3.
    pub(crate) script_requests: OwnedFd,
    /// The script's descriptor 4.
    pub(crate) script_replies: OwnedFd,
}

impl Pipes {
    /// Makes both pipes.
    pub(crate) fn new() -> Result<Self, Error> {
        let failed = |error| Error::io("make the pipes of a script", error);
        let (requests, script_requests) =
            pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let (script_replies, replies) =
            pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        for pipe in [&requests, &replies] {
            // Large results are then handed over in fewer turns. A user who has many pipes is
            // refused, and then it is slower.
            let _ = fcntl_setpipe_size(pipe, PIPE);
        }
        Ok(Self {
            requests: pipe::Receiver::from_owned_fd(requests).map_err(failed)?,
            replies: pipe::Sender::from_owned_fd(replies).map_err(failed)?,
            script_requests,
            script_replies,
        })
    }
}

/// What was learnt from a script that is over.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub(crate) counts: Counts,
    /// What it said of its end, if it failed.
    pub(crate) end: Option<EndReport>,
}

/// Sends `code`, then serves the calls that come, until `over` says that the program has ended.
pub(crate) async fn serve<T>(
    requests: pipe::Receiver,
    replies: pipe::Sender,
    code: String,
    host: Arc<dyn Host>,
    (max_calls, concurrency): (u64, usize),
    over: impl Future<Output = T>,
) -> (T, Served) {
    let mut incoming = Incoming::new(requests);
    let mut outgoing = Outgoing::new(replies);
    let mut calls = Calls::new(host.clone(), max_calls, concurrency);
    let mut report = Report::new(host);
    outgoing.bytes = message::code_line(&code);
    tokio::pin!(over);
    let ended = loop {
        loop {
            // Calls that run are always let go on: they may hold what other scripts wait for.
            if outgoing.pipe.is_some() && outgoing.has_room() {
                calls.start(&mut outgoing.bytes);
            }
            let Some(ended) = calls.ended_already() else { break };
            calls.answer(&ended, &mut outgoing.bytes);
        }
        outgoing.flush();
        if outgoing.pipe.is_none() {
            calls.forget_waiting();
        }
        let counts = calls.counts();
        report.calls_ended(counts.reached + counts.refused, counts.failed);
        let reads = calls.has_room() && outgoing.has_room();
        tokio::select! {
            biased;
            ended = &mut over => break ended,
            () = report.pause(), if report.is_due() => report.tell(),
            Some(ended) = calls.ended(), if calls.is_running() => calls.answer(&ended, &mut outgoing.bytes),
            () = outgoing.writable(), if outgoing.is_waiting() => {}
            () = incoming.read(), if incoming.pipe.is_some() && reads => {
                incoming.take(|message| match message {
                    Message::Call(request) => calls.ask(request),
                    Message::Wrong { id, error } => {
                        calls.refuse(id, error, &mut outgoing.bytes);
                    }
                    Message::GiveUp(ids) => calls.give_up(&ids, &mut outgoing.bytes),
                    Message::Progress(said) => report.script_said(said),
                    _ => {}
                });
            }
        }
    };
    incoming.read_leftover();
    incoming.take(|message| {
        if let Message::Progress(said) = message {
            report.script_said(said);
        }
    });
    drop(outgoing);
    calls.finish().await;
    let counts = calls.counts();
    report.calls_ended(counts.reached + counts.refused, counts.failed);
    report.tell();
    (ended, Served { counts, end: incoming.end })
}

/// What the script sends.
struct Incoming {
    /// `None` once it has ended or is no longer listened to.
    pipe: Option<pipe::Receiver>,
    lines: Lines,
    unreadable: u32,
    /// The last report of progress that has come, not yet understood.
    report: Vec<u8>,
    end: Option<EndReport>,
}

impl Incoming {
    fn new(pipe: pipe::Receiver) -> Self {
        let lines = Lines::new(LONGEST_LINE);
        Self { pipe: Some(pipe), lines, unreadable: 0, report: Vec::new(), end: None }
    }

    /// Waits for something to come, and reads it. Cancel-safe.
    async fn read(&mut self) {
        let Some(pipe) = &mut self.pipe else { return };
        let space = self.lines.space();
        space.reserve(64 << 10);
        // Spares a read that finds nothing: what comes short of the space was all there is.
        if !matches!(pipe.read_buf(space).await, Ok(1..)) {
            self.pipe = None;
        }
    }

    /// Reads what a script that is over has left in the pipe.
    fn read_leftover(&mut self) {
        let Some(pipe) = &self.pipe else { return };
        let mut piece = vec![0; 64 << 10];
        let mut length = 0;
        // Not by way of the runtime, which may not have heard yet that there is something.
        while length < LEFTOVER
            && let Ok(more @ 1..) = rustix::io::read(pipe, &mut piece)
        {
            self.lines.space().extend_from_slice(&piece[..more]);
            length += more;
        }
    }

    /// Hands on what has come in whole lines; of several reports the last one only.
    fn take(&mut self, mut hand_on: impl FnMut(Message)) {
        self.report.clear();
        while let Some(line) = self.lines.next() {
            let message = match line {
                Line::Whole(line) if message::is_report(line) => {
                    self.report.clear();
                    self.report.extend_from_slice(line);
                    continue;
                }
                Line::Whole(line) => message::read(line),
                Line::TooLong(beginning) => message::too_long(&beginning, LONGEST_LINE),
            };
            match message {
                Message::End(end) => self.end = Some(end.shortened()),
                Message::Unreadable => {
                    self.unreadable += 1;
                    if self.unreadable > PATIENCE {
                        // The script finds its descriptor 3 closed.
                        tracing::debug!("a script sends what cannot be understood; not heard on");
                        self.pipe = None;
                        self.lines = Lines::new(LONGEST_LINE);
                        return;
                    }
                }
                message => hand_on(message),
            }
        }
        if !self.report.is_empty() {
            hand_on(message::read(&self.report));
        }
    }
}

/// What the script is sent.
struct Outgoing {
    /// `None` once nobody takes it.
    pipe: Option<pipe::Sender>,
    bytes: Vec<u8>,
    written: usize,
}

impl Outgoing {
    fn new(pipe: pipe::Sender) -> Self {
        Self { pipe: Some(pipe), bytes: Vec::new(), written: 0 }
    }

    fn has_room(&self) -> bool {
        self.bytes.len() - self.written < UNTAKEN
    }

    fn is_waiting(&self) -> bool {
        self.pipe.is_some() && self.written < self.bytes.len()
    }

    /// Writes what the pipe takes; throws it away once nobody takes it.
    fn flush(&mut self) {
        while let Some(pipe) = &self.pipe
            && self.written < self.bytes.len()
        {
            match pipe.try_write(&self.bytes[self.written..]) {
                Ok(length) => self.written += length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if self.written >= UNTAKEN {
                        self.bytes.drain(..self.written);
                        self.written = 0;
                    }
                    return;
                }
                Err(_) => self.pipe = None,
            }
        }
        self.written = 0;
        self.bytes.clear();
        self.bytes.shrink_to(UNTAKEN);
    }

    /// Waits until the pipe takes something. Cancel-safe.
    async fn writable(&self) {
        if let Some(pipe) = &self.pipe {
            // An error shows again, and is dealt with, when it is written to.
            let _ = pipe.writable().await;
        }
    }
}

#[cfg(test)]
mod tests;

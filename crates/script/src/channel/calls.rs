//! The calls of one script: which wait, which run, and how many it may still make.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio_util::sync::CancellationToken;

use super::message::{Request, write_reply};
use crate::host::{Call, Host, Kind, Reply, ToolError};

/// How long calls that run when the script is over may take to notice.
const GRACE: Duration = Duration::from_secs(2);
/// Requests that wait, in number and bytes, beyond which no more are read.
const WAITING: usize = 128;
const WAITING_BYTES: usize = 4 << 20;

pub(super) struct Calls {
    host: Arc<dyn Host>,
    max_calls: u64,
    concurrency: usize,
    /// Of the calls that run: id, number, and what cancels it.
    cancels: Vec<(u64, u64, CancellationToken)>,
    waiting: VecDeque<Request>,
    waiting_bytes: usize,
    running: FuturesUnordered<BoxFuture<'static, Ended>>,
    numbers: u64,
    counts: Counts,
}

/// How many calls there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// That reached a tool.
    pub(crate) reached: u64,
    /// Of them and of the refused ones, failed.
    pub(crate) failed: u64,
    /// Refused before they reached a tool.
    pub(crate) refused: u64,
}

pub(super) struct Ended {
    id: u64,
    number: u64,
    raw: bool,
    outcome: Result<Reply, ToolError>,
}

impl Calls {
    pub(super) fn new(host: Arc<dyn Host>, max_calls: u64, concurrency: usize) -> Self {
        Self {
            host,
            max_calls,
            concurrency,
            cancels: Vec::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            running: FuturesUnordered::new(),
            numbers: 0,
            counts: Counts::default(),
        }
    }

    /// Whether further requests are to be read.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < WAITING && self.waiting_bytes < WAITING_BYTES
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// Takes a request; [`Self::start`] gets to it in its turn.
    pub(super) fn ask(&mut self, request: Request) {
        self.waiting_bytes += request.args.get().len();
        self.waiting.push_back(request);
    }

    /// Answers a call that goes nowhere.
    pub(super) fn refuse(&mut self, id: u64, error: ToolError, out: &mut Vec<u8>) {
        self.counts.refused += 1;
        self.counts.failed += 1;
        write_reply(id, false, &Err(error), out);
    }

    /// Starts what may run now.
    pub(super) fn start(&mut self, out: &mut Vec<u8>) {
        while self.running.len() < self.concurrency && !self.waiting.is_empty() {
            if self.counts.reached + self.running.len() as u64 >= self.max_calls {
                // One of those that run may yet be refused and give its share back.
                if !self.running.is_empty() {
                    return;
                }
                let message = format!("the script has made its {} calls", self.max_calls);
                if let Some(request) = self.next_waiting() {
                    self.refuse(request.id, ToolError::lasting(Kind::Limit, message), out);
                }
                continue;
            }
            let Some(request) = self.next_waiting() else { return };
            self.numbers += 1;
            let call = Call {
                number: self.numbers,
                tool: request.tool,
                args: request.args,
                cancel: CancellationToken::new(),
            };
            self.cancels.push((request.id, call.number, call.cancel.clone()));
            self.running.push(run(self.host.clone(), request.id, request.raw, call).boxed());
        }
    }

    fn next_waiting(&mut self) -> Option<Request> {
        let request = self.waiting.pop_front()?;
        self.waiting_bytes -= request.args.get().len();
        Some(request)
    }

    pub(super) fn is_running(&self) -> bool {
        !self.running.is_empty()
    }

    /// Waits for one of the running calls to end. Cancel-safe.
    pub(super) async fn ended(&mut self) -> Option<Ended> {
        self.running.next().await
    }

    /// One of the running calls, if it has ended already.
    pub(super) fn ended_already(&mut self) -> Option<Ended> {
        self.running.next().now_or_never().flatten()
    }

    /// Counts and answers a call that has ended.
    pub(super) fn answer(&mut self, ended: &Ended, out: &mut Vec<u8>) {
        self.cancels.retain(|(_, number, _)| *number != ended.number);
        match &ended.outcome {
            Err(error) if error.kind.is_refusal() => self.counts.refused += 1,
            _ => self.counts.reached += 1,
        }
        if !matches!(&ended.outcome, Ok(Reply { is_error: false, .. })) {
            self.counts.failed += 1;
        }
        write_reply(ended.id, ended.raw, &ended.outcome, out);
    }

    /// Cancels what the script no longer waits for. It is answered all the same, since one of its
    /// threads may sleep until then.
    pub(super) fn give_up(&mut self, ids: &[u64], out: &mut Vec<u8>) {
        self.cancels
            .iter()
            .filter(|(id, _, _)| ids.contains(id))
            .for_each(|(_, _, cancel)| cancel.cancel());
        let (given_up, waiting): (VecDeque<_>, _) =
            std::mem::take(&mut self.waiting).into_iter().partition(|call| ids.contains(&call.id));
        self.waiting = waiting;
        for request in given_up {
            self.waiting_bytes -= request.args.get().len();
            let error = ToolError::lasting(Kind::Cancelled, "the script has given the call up");
            self.refuse(request.id, error, out);
        }
    }

    /// Nobody takes replies any more: what has not started never will.
    pub(super) fn forget_waiting(&mut self) {
        self.waiting.clear();
        self.waiting_bytes = 0;
    }

    fn cancel_running(&self) {
        self.cancels.iter().for_each(|(_, _, cancel)| cancel.cancel());
    }

    /// The script is over: ends what still runs.
    pub(super) async fn finish(&mut self) {
        self.forget_waiting();
        self.cancel_running();
        let mut unread = Vec::new();
        let all = async {
            while let Some(ended) = self.ended().await {
                self.answer(&ended, &mut unread);
                unread.clear();
            }
        };
        if tokio::time::timeout(GRACE, all).await.is_err() {
            // They did reach a tool, as far as anyone can tell.
            let left = self.running.len() as u64;
            self.counts.reached += left;
            self.counts.failed += left;
            self.running.clear();
        }
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        self.cancel_running();
    }
}

async fn run(host: Arc<dyn Host>, id: u64, raw: bool, call: Call) -> Ended {
    let number = call.number;
    let outcome = AssertUnwindSafe(host.call(call)).catch_unwind().await.unwrap_or_else(|_| {
        let message = "the call failed inside pinfold; its log says more";
        Err(ToolError::lasting(Kind::Upstream, message))
    });
    Ended { id, number, raw, outcome }
}

//! Draining an output stream, capped, so that a flood never blocks the program nor fills memory.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use tokio::sync::watch;

use crate::limits::Captured;
use crate::spec::Output;
use crate::sys;

/// Reads until the end of the stream, or, once `over` says that no process of the cell is left,
/// until nothing is there any more: some stranger may still hold the other end.
pub(crate) async fn drain(
    reader: OwnedFd,
    output: Output,
    capped: bool,
    mut over: watch::Receiver<bool>,
) -> Captured {
    let mut keeper = Keep::new(output, capped);
    let Ok(reader) = sys::watch(reader) else { return keeper.finish() };
    let mut buffer = vec![0u8; 64 << 10];
    loop {
        let is_over = *over.borrow_and_update();
        match rustix::io::read(reader.get_ref(), &mut buffer).map_err(io::Error::from) {
            Ok(0) => break,
            Ok(length) => {
                keeper.take(&buffer[..length]);
                // A flood must not keep a thread of the server to itself.
                tokio::task::yield_now().await;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if is_over {
                    break;
                }
                tokio::select! {
                    ready = reader.readable() => match ready {
                        Ok(mut guard) => guard.clear_ready(),
                        Err(_) => break,
                    },
                    changed = over.changed() => if changed.is_err() { break },
                }
            }
            Err(_) => break,
        }
    }
    keeper.finish()
}

struct Keep {
    output: Output,
    capped: bool,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
    given: u64,
}

impl Keep {
    fn new(output: Output, capped: bool) -> Self {
        Self { output, capped, head: Vec::new(), tail: VecDeque::new(), total: 0, given: 0 }
    }

    fn take(&mut self, piece: &[u8]) {
        self.total += piece.len() as u64;
        match &mut self.output {
            Output::Null => {}
            Output::Capture { head, tail } => {
                let room =
                    if self.capped { head.saturating_sub(self.head.len()) } else { usize::MAX };
                let (first, rest) = piece.split_at(room.min(piece.len()));
                self.head.extend_from_slice(first);
                let rest = &rest[rest.len().saturating_sub(*tail)..];
                let too_many = (self.tail.len() + rest.len()).saturating_sub(*tail);
                self.tail.drain(..too_many.min(self.tail.len()));
                self.tail.extend(rest);
            }
            Output::Sink { sink, limit } => {
                let limit = if self.capped { *limit } else { u64::MAX };
                let room = usize::try_from(limit - self.given).unwrap_or(usize::MAX);
                let piece = &piece[..room.min(piece.len())];
                if !piece.is_empty() {
                    self.given += piece.len() as u64;
                    sink(piece);
                }
            }
        }
    }

    fn finish(self) -> Captured {
        Captured { head: self.head, tail: self.tail.into(), total: self.total }
    }
}

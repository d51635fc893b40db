//! The way to a server's standard input.
//!
//! A message is written at once, by whoever sends it, if the pipe has room; only what the pipe does
//! not take is left to a task. That saves a change of task for nearly every call. What waits has a
//! bound, and senders beyond it wait themselves.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::unix::pipe;
use tokio::process::ChildStdin;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Once so many bytes wait for a server that does not read, senders wait.
const ROOM: usize = 1024 * 1024;

/// Clones share the pipe.
#[derive(Clone, Debug)]
pub(super) struct Input {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Something waits to be written.
    waiting: Notify,
    /// There is room again, or never will be.
    room: Notify,
}

#[derive(Debug)]
struct State {
    /// `None` once the input has ended.
    pipe: Option<Arc<pipe::Sender>>,
    /// What the pipe did not take, from `written` on.
    left: Vec<u8>,
    written: usize,
}

/// The input has ended.
#[derive(Debug)]
pub(super) struct Ended;

impl Input {
    pub(super) fn new(input: ChildStdin) -> io::Result<Self> {
        let pipe = pipe::Sender::from_owned_fd(input.into_owned_fd()?)?;
        let state = State { pipe: Some(Arc::new(pipe)), left: Vec::new(), written: 0 };
        Ok(Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                waiting: Notify::new(),
                room: Notify::new(),
            }),
        })
    }

    /// Sends a line (its line feed is added), waiting for room.
    pub(super) async fn send(&self, mut line: String) -> Result<(), Ended> {
        line.push('\n');
        loop {
            let room = self.shared.room.notified();
            tokio::pin!(room);
            // Registered before the look, so that room made in between is not missed.
            room.as_mut().enable();
            if self.offer(line.as_bytes())? {
                return Ok(());
            }
            room.await;
        }
    }

    /// Sends a line if there is room.
    pub(super) fn try_send(&self, mut line: String) {
        line.push('\n');
        let _ = self.offer(line.as_bytes());
    }

    /// Whether there was room.
    fn offer(&self, line: &[u8]) -> Result<bool, Ended> {
        let mut state = self.state();
        let Some(pipe) = &state.pipe else { return Err(Ended) };
        if state.left.len() - state.written >= ROOM {
            return Ok(false);
        }
        let mut taken = 0;
        if state.left.is_empty() {
            taken = match pipe.try_write(line) {
                Ok(taken) => taken,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(_) => return Err(Ended),
            };
        }
        if taken < line.len() {
            state.left.extend_from_slice(&line[taken..]);
            self.shared.waiting.notify_one();
        }
        Ok(true)
    }

    /// Writes what waits, until `stop` or the end of the pipe; then ends the input.
    pub(super) async fn write_until(self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.write() => {}
        }
        self.state().pipe = None;
        self.shared.room.notify_waiters();
    }

    async fn write(&self) {
        loop {
            self.shared.waiting.notified().await;
            loop {
                let Some(pipe) = self.state().pipe.clone() else { return };
                if pipe.writable().await.is_err() {
                    return;
                }
                let mut state = self.state();
                match pipe.try_write(&state.left[state.written..]) {
                    Ok(count) => state.written += count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => return,
                }
                if state.written == state.left.len() {
                    // One long message should not keep its memory.
                    state.left = Vec::new();
                    state.written = 0;
                }
                if state.left.len() - state.written < ROOM {
                    self.shared.room.notify_waiters();
                }
                if state.left.is_empty() {
                    break;
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use tokio::io::{AsyncBufReadExt, BufReader};

    use super::*;

    #[tokio::test]
    async fn lines_longer_than_the_pipe_arrive_whole() {
        let mut child = tokio::process::Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let input = Input::new(child.stdin.take().unwrap()).unwrap();
        let stop = CancellationToken::new();
        let writer = tokio::spawn(input.clone().write_until(stop.clone()));
        // Together they pass the bound several times.
        for n in 0..30_usize {
            let input = input.clone();
            tokio::spawn(async move {
                input.send(format!("{n} {}", "x".repeat(n * 10_000))).await.unwrap();
            });
        }
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut seen = Vec::new();
        while seen.len() < 30 {
            let line = lines.next_line().await.unwrap().unwrap();
            let (number, rest) = line.split_once(' ').unwrap();
            let number: usize = number.parse().unwrap();
            assert_eq!(rest.len(), number * 10_000);
            seen.push(number);
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..30).collect::<Vec<_>>());
        stop.cancel();
        writer.await.unwrap();
        assert!(input.send(String::new()).await.is_err());
        assert_eq!(lines.next_line().await.unwrap(), None);
    }

    #[tokio::test]
    async fn who_waits_for_room_is_told_of_the_end() {
        let mut child = tokio::process::Command::new("sleep")
            .arg("60")
            .stdin(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let input = Input::new(child.stdin.take().unwrap()).unwrap();
        let stop = CancellationToken::new();
        let writer = tokio::spawn(input.clone().write_until(stop.clone()));
        input.send("x".repeat(2 * ROOM)).await.unwrap();
        let waiting = tokio::spawn({
            let input = input.clone();
            async move { input.send("y".to_owned()).await }
        });
        tokio::task::yield_now().await;
        stop.cancel();
        writer.await.unwrap();
        assert!(waiting.await.unwrap().is_err());
    }
}

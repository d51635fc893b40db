//! Hands what a script prints on to standard output.
//!
//! Into a pipe or a file it goes byte for byte, as it comes. A terminal gets it at the end, when
//! the bar is gone, as lines that can do nothing but be read.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Bytes that wait at most for a reader who is slower than the script.
const MOST_WAITING: usize = 256 << 20;

/// Takes pieces until the sender is gone and `bar` is over; the error says why some are missing at
/// the other end.
pub(crate) async fn hand_on(
    pieces: mpsc::UnboundedReceiver<Vec<u8>>,
    bar: JoinHandle<()>,
) -> Result<(), String> {
    if io::stdout().is_terminal() {
        return at_the_end(pieces, bar).await;
    }
    let result = as_they_come(pieces).await;
    let _ = bar.await;
    result
}

async fn at_the_end(
    mut pieces: mpsc::UnboundedReceiver<Vec<u8>>,
    bar: JoinHandle<()>,
) -> Result<(), String> {
    let (mut all, mut cut) = (Vec::new(), false);
    while let Some(piece) = pieces.recv().await {
        cut |= all.len() + piece.len() > MOST_WAITING;
        if !cut {
            all.extend_from_slice(&piece);
        }
    }
    let _ = bar.await;
    if all.last().is_some_and(|last| *last != b'\n') {
        all.push(b'\n');
    }
    super::print_foreign(&String::from_utf8_lossy(&all)).map_err(|error| error.to_string())?;
    complete(cut)
}

async fn as_they_come(mut pieces: mpsc::UnboundedReceiver<Vec<u8>>) -> Result<(), String> {
    let waiting = Arc::new(AtomicUsize::new(0));
    let (to, writer) = {
        let (to, from) = std::sync::mpsc::channel::<Vec<u8>>();
        let waiting = waiting.clone();
        // A reader may take its time, so writing has a thread of its own.
        (to, tokio::task::spawn_blocking(move || write(from, &waiting)))
    };
    let mut cut = false;
    while let Some(piece) = pieces.recv().await {
        cut |= waiting.load(Ordering::Relaxed) + piece.len() > MOST_WAITING;
        if !cut {
            waiting.fetch_add(piece.len(), Ordering::Relaxed);
            // The writer takes everything until this end is dropped.
            let _ = to.send(piece);
        }
    }
    drop(to);
    let written = writer.await.map_err(|error| error.to_string())?;
    written.map_err(|error| error.to_string())?;
    complete(cut)
}

fn complete(cut: bool) -> Result<(), String> {
    if cut { Err(format!("more than {} MB waited to be read", MOST_WAITING >> 20)) } else { Ok(()) }
}

/// Writes what comes. After a fault it only takes; a reader that has gone away is none.
fn write(pieces: std::sync::mpsc::Receiver<Vec<u8>>, waiting: &AtomicUsize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let mut result = Ok(());
    for piece in pieces {
        if result.is_ok() {
            result = out.write_all(&piece).and_then(|()| out.flush());
        }
        waiting.fetch_sub(piece.len(), Ordering::Relaxed);
    }
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

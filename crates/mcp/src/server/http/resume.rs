//! Streams of an older client's session that can be taken up again where they broke off.
//!
//! What is sent has a number and is kept for a while; a client that lost its connection says which
//! number it saw last, and gets what came after it. That a connection broke does not end what runs
//! for it, but that nobody came back within [`WINDOW`] does. How much is kept has bounds: for one
//! stream, for one session, and for all of them together.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::Response;
use futures_util::stream;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::reply::{self, KEEP_ALIVE, Text};
use super::sessions::Session;

/// So long after its connection broke a stream can be taken up again.
const WINDOW: Duration = Duration::from_secs(30);

/// So soon a client may come back, in milliseconds.
const RETRY: u32 = 1_000;

/// So many events may wait for a reader.
const UNREAD: usize = 64;

/// So many events that were read are kept, of at most so many bytes.
const READ: usize = 64;
const READ_BYTES: usize = 1024 * 1024;

/// So many streams that are over are kept for one session.
const OVER: usize = 8;

/// So many bytes of streams that are over are kept for all sessions.
const OVER_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of streams that are over, of the whole process.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// What was read so shortly before its connection broke may not have arrived.
const RECENT: Duration = Duration::from_secs(60);

/// What a stream is about; the first letter of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One request.
    Answer,
    /// What the server says on its own.
    Own,
}

impl Kind {
    fn letter(self) -> char {
        match self {
            Self::Answer => 'a',
            Self::Own => 'o',
        }
    }
}

/// The streams of one session.
#[derive(Debug, Default)]
pub(super) struct Streams(Mutex<All>);

#[derive(Debug, Default)]
struct All {
    last: u64,
    by_number: BTreeMap<u64, Arc<Stream>>,
}

impl All {
    fn own(&self) -> Option<Arc<Stream>> {
        let own = |stream: &&Arc<Stream>| stream.kind == Kind::Own && !stream.is_over();
        self.by_number.values().find(own).cloned()
    }
}

/// One of them.
#[derive(Debug)]
pub(super) struct Stream {
    kind: Kind,
    number: u64,
    log: Mutex<Log>,
    /// Counts whatever happens to the log.
    changed: watch::Sender<u64>,
}

#[derive(Debug)]
struct Event {
    bytes: Bytes,
    /// When it was read last.
    read: Option<Instant>,
}

#[derive(Debug)]
struct Log {
    events: VecDeque<Event>,
    /// The number of the first of them.
    first: u64,
    /// The number that is read next.
    next: u64,
    /// Who reads.
    reader: Option<u64>,
    readers: u64,
    /// Since when nobody reads.
    left: Option<Instant>,
    is_over: bool,
}

/// What an event id says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    kind: Kind,
    stream: u64,
    event: u64,
}

impl Place {
    /// Reads an event id; only what this module wrote is one.
    pub(super) fn read(id: &str) -> Option<Self> {
        let (stream, event) = id.split_once('-')?;
        let (letter, stream) = stream.split_at_checked(1)?;
        let kind = match letter {
            "a" => Kind::Answer,
            "o" => Kind::Own,
            _ => return None,
        };
        let number =
            |text: &str| text.parse().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
        Some(Self { kind, stream: number(stream)?, event: number(event)? })
    }

    /// Whether it is of a stream of the server's own.
    pub(super) fn is_own(self) -> bool {
        self.kind == Kind::Own
    }
}

impl Streams {
    /// A new stream; of the server's own there is one at a time.
    fn open(&self, kind: Kind) -> Option<Arc<Stream>> {
        let mut all = lock(&self.0);
        if kind == Kind::Own && all.own().is_some() {
            return None;
        }
        all.last += 1;
        let log = Log {
            events: VecDeque::new(),
            first: 1,
            next: 1,
            reader: None,
            readers: 0,
            left: Some(Instant::now()),
            is_over: false,
        };
        let stream =
            Stream { kind, number: all.last, log: Mutex::new(log), changed: watch::Sender::new(0) };
        let stream = Arc::new(stream);
        all.by_number.insert(stream.number, Arc::clone(&stream));
        Some(stream)
    }

    /// The reader of the server's own stream, if there is one that nobody reads: it goes on where
    /// the last one ended, or somewhat before, because what was sent may not have arrived.
    pub(super) fn take_over(&self) -> Option<Reader> {
        let stream = lock(&self.0).own()?;
        let next = {
            let log = lock(&stream.log);
            let is_told = |event: &&Event| event.read.is_some_and(|at| at.elapsed() > RECENT);
            let told = log.events.iter().take_while(is_told).count() as u64;
            log.reader.is_none().then_some(log.first + told)?
        };
        stream.read_behind(next - 1)
    }

    /// The reader that goes on behind an event, if everything from there on is still known. Whoever
    /// read the stream until now does so no longer.
    pub(super) fn resume(&self, place: Place) -> Option<Reader> {
        let stream = lock(&self.0).by_number.get(&place.stream)?.clone();
        (stream.kind == place.kind).then(|| stream.read_behind(place.event)).flatten()
    }

    /// Keeps a stream that is over for a while, where there is room.
    async fn keep(&self, stream: &Arc<Stream>) {
        let bytes = stream.bytes();
        let before = KEPT.fetch_add(bytes, Ordering::Relaxed);
        let fits = before + bytes <= OVER_BYTES && {
            let mut all = lock(&self.0);
            let over: Vec<u64> =
                all.by_number.values().filter(|one| one.is_over()).map(|one| one.number).collect();
            for number in &over[..over.len().saturating_sub(OVER)] {
                all.by_number.remove(number);
            }
            true
        };
        if fits {
            sleep(WINDOW).await;
        }
        KEPT.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn forget(&self, stream: &Stream) {
        lock(&self.0).by_number.remove(&stream.number);
    }
}

impl Stream {
    fn change<T>(&self, change: impl FnOnce(&mut Log) -> T) -> T {
        let result = change(&mut lock(&self.log));
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
        result
    }

    fn is_over(&self) -> bool {
        lock(&self.log).is_over
    }

    fn bytes(&self) -> usize {
        lock(&self.log).events.iter().map(|event| event.bytes.len()).sum()
    }

    /// Writes an event, when there is room for it.
    async fn write(&self, message: &str) {
        let mut changed = self.changed.subscribe();
        let has_room = |stream: &Self| {
            let log = lock(&stream.log);
            log.first + log.events.len() as u64 - log.next < UNREAD as u64
        };
        // The sender lives as long as `self`.
        let _ = changed.wait_for(|_| has_room(self)).await;
        self.change(|log| {
            let number = log.first + log.events.len() as u64;
            let id = format!("{}{}-{number}", self.kind.letter(), self.number);
            let bytes = Bytes::from(format!("id: {id}\n{}", reply::event(message)));
            log.events.push_back(Event { bytes, read: None });
        });
    }

    fn read_behind(self: Arc<Self>, event: u64) -> Option<Reader> {
        let number = self.change(|log| {
            let behind = event.checked_add(1)?;
            if !(log.first..=log.first + log.events.len() as u64).contains(&behind) {
                return None;
            }
            log.readers += 1;
            log.next = behind;
            log.reader = Some(log.readers);
            log.left = None;
            log.reader
        })?;
        let changed = self.changed.subscribe();
        Some(Reader { stream: self, number, changed })
    }

    /// Resolves when nobody has read it for so long.
    async fn abandoned(&self, window: Duration) {
        let mut changed = self.changed.subscribe();
        loop {
            let left = lock(&self.log).left;
            match left {
                Some(left) => tokio::select! {
                    () = sleep_until(left + window) => return,
                    _ = changed.changed() => {}
                },
                None => drop(changed.changed().await),
            }
        }
    }
}

/// Whoever reads a stream.
#[derive(Debug)]
pub(super) struct Reader {
    stream: Arc<Stream>,
    number: u64,
    changed: watch::Receiver<u64>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stream.change(|log| {
            if log.reader == Some(self.number) {
                log.reader = None;
                log.left = Some(Instant::now());
            }
        });
    }
}

/// What a reader finds.
enum Found {
    Event(Bytes),
    Nothing,
    End,
}

impl Reader {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            self.changed.borrow_and_update();
            match self.look() {
                Found::Event(event) => return Some(event),
                Found::End => return None,
                Found::Nothing => {}
            }
            tokio::select! {
                changed = self.changed.changed() => changed.ok()?,
                () = sleep(KEEP_ALIVE) => return Some(Bytes::from_static(reply::COMMENT)),
            }
        }
    }

    fn look(&self) -> Found {
        let mut log = lock(&self.stream.log);
        if log.reader != Some(self.number) {
            return Found::End;
        }
        let index = usize::try_from(log.next - log.first).unwrap_or(usize::MAX);
        let Some(event) = log.events.get_mut(index) else {
            return if log.is_over { Found::End } else { Found::Nothing };
        };
        event.read = Some(Instant::now());
        let event = event.bytes.clone();
        log.next += 1;
        let mut read = index + 1;
        let mut bytes: usize = log.events.iter().take(read).map(|event| event.bytes.len()).sum();
        // The last one is kept however long it is: it may be the answer.
        while read > READ || (read > 1 && bytes > READ_BYTES) {
            bytes -= log.events.pop_front().map_or(0, |event| event.bytes.len());
            log.first += 1;
            read -= 1;
        }
        drop(log);
        // Whoever writes may go on.
        self.stream.changed.send_modify(|count| *count = count.wrapping_add(1));
        Found::Event(event)
    }

    /// The body of an answer.
    /// `held` is dropped with it.
    pub(super) fn respond(self, first: Bytes, held: impl Send + 'static) -> Response<Body> {
        let state = (Some(first), self, held);
        let events = stream::unfold(state, |(first, mut reader, held)| async move {
            let chunk = match first {
                Some(first) => first,
                None => reader.next().await?,
            };
            Some((Ok::<_, Infallible>(chunk), (None, reader, held)))
        });
        reply::events(Body::from_stream(events))
    }
}

/// Opens a stream: `first`, what comes out of `outgoing`, and `text` at its end. `held` is dropped
/// when that was written or nobody wants it. Nothing where the session has its own stream already.
pub(super) fn begin<S: Send + Sync + 'static>(
    session: &Arc<Session<S>>,
    kind: Kind,
    first: Option<String>,
    text: Text,
    outgoing: mpsc::Receiver<String>,
    held: impl Send + 'static,
) -> Option<Response<Body>> {
    let stream = session.streams.open(kind)?;
    let reader = Arc::clone(&stream).read_behind(0)?;
    let session = Arc::clone(session);
    let primes = session.primes();
    let start = if primes {
        format!("id: {}{}-0\nretry: {RETRY}\ndata:\n\n", kind.letter(), stream.number)
    } else {
        // So that the headers are on their way at once.
        format!("retry: {RETRY}\n\n")
    };
    tokio::spawn(async move {
        tokio::select! {
            () = fill(&stream, first, text, outgoing) => {}
            () = stream.abandoned(WINDOW) => {}
            () = session.closing.cancelled() => {}
        }
        stream.change(|log| log.is_over = true);
        drop(held);
        tokio::select! {
            () = session.streams.keep(&stream) => {}
            () = session.closing.cancelled() => {}
        }
        session.streams.forget(&stream);
    });
    Some(reader.respond(Bytes::from(start), ()))
}

async fn fill(
    stream: &Stream,
    first: Option<String>,
    mut text: Text,
    mut outgoing: mpsc::Receiver<String>,
) {
    if let Some(first) = first {
        stream.write(&first).await;
    }
    let answer = loop {
        tokio::select! {
            biased;
            Some(message) = outgoing.recv() => stream.write(&message).await,
            answer = &mut text => break answer,
        }
    };
    // What was said before the answer comes before it.
    while let Ok(message) = outgoing.try_recv() {
        stream.write(&message).await;
    }
    if let Some(answer) = answer {
        stream.write(&answer).await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(event: &Bytes) -> String {
        String::from_utf8(event.to_vec()).unwrap()
    }

    async fn read(reader: &mut Reader) -> String {
        let event = reader.next().await.unwrap();
        text(&event)
            .lines()
            .find_map(|line| line.strip_prefix("data: ").map(str::to_owned))
            .unwrap()
    }

    #[test]
    fn only_our_own_ids_are_places() {
        let place = |kind, stream, event| Some(Place { kind, stream, event });
        assert_eq!(Place::read("a12-7"), place(Kind::Answer, 12, 7));
        assert_eq!(Place::read("o1-0"), place(Kind::Own, 1, 0));
        for wrong in
            ["", "a", "a1", "a1-", "a-1", "x1-1", "a+1-1", "a1--1", "é1-1", "a1-1 ", "-1-1"]
        {
            assert_eq!(Place::read(wrong), None, "{wrong:?}");
        }
        assert_eq!(Place::read(&format!("a1-{}0", u64::MAX)), None);
    }

    #[tokio::test]
    async fn reading_goes_on_behind_what_was_seen() {
        let streams = Streams::default();
        let stream = streams.open(Kind::Answer).unwrap();
        let mut first = Arc::clone(&stream).read_behind(0).unwrap();
        for message in ["1", "2", "3"] {
            stream.write(message).await;
        }
        assert_eq!((read(&mut first).await, read(&mut first).await), ("1".into(), "2".into()));
        let place = |event| Place { kind: Kind::Answer, stream: 1, event };
        let mut second = streams.resume(place(1)).unwrap();
        assert!(first.next().await.is_none(), "it was taken over");
        drop(first);
        assert_eq!(read(&mut second).await, "2");
        stream.change(|log| log.is_over = true);
        assert_eq!(read(&mut second).await, "3");
        assert!(second.next().await.is_none());
        assert!(streams.resume(place(3)).unwrap().next().await.is_none());
        assert!(streams.resume(place(4)).is_none() && streams.resume(place(u64::MAX)).is_none());
        assert!(streams.resume(Place { kind: Kind::Own, stream: 1, event: 0 }).is_none());
        assert!(streams.resume(Place { kind: Kind::Answer, stream: 2, event: 0 }).is_none());
    }

    #[tokio::test]
    async fn what_is_kept_has_bounds() {
        let streams = Streams::default();
        let stream = streams.open(Kind::Answer).unwrap();
        let mut reader = Arc::clone(&stream).read_behind(0).unwrap();
        for number in 0..UNREAD {
            stream.write(&number.to_string()).await;
        }
        let one_more = stream.write("more");
        let none = tokio::time::timeout(Duration::from_millis(50), one_more).await;
        assert!(none.is_err(), "nobody has read yet");
        for number in 0..UNREAD {
            assert_eq!(read(&mut reader).await, number.to_string());
        }
        for _ in 0..3 {
            stream.write(&"x".repeat(READ_BYTES)).await;
            reader.next().await.unwrap();
            assert!(stream.bytes() < 2 * READ_BYTES, "{}", stream.bytes());
        }
        assert!(streams.resume(Place { kind: Kind::Answer, stream: 1, event: 1 }).is_none());
        let last = UNREAD as u64 + 2;
        assert!(streams.resume(Place { kind: Kind::Answer, stream: 1, event: last }).is_some());
    }

    #[tokio::test]
    async fn there_is_one_stream_of_the_servers_own() {
        let streams = Streams::default();
        assert!(streams.take_over().is_none());
        let stream = streams.open(Kind::Own).unwrap();
        assert!(streams.open(Kind::Own).is_none());
        let mut first = Arc::clone(&stream).read_behind(0).unwrap();
        stream.write("1").await;
        assert_eq!(read(&mut first).await, "1");
        assert!(streams.take_over().is_none(), "somebody reads it");
        drop(first);
        stream.write("2").await;
        let mut second = streams.take_over().unwrap();
        assert_eq!(read(&mut second).await, "1", "it may not have arrived");
        assert_eq!(read(&mut second).await, "2");
        drop(second);
        stream.change(|log| log.is_over = true);
        assert!(streams.take_over().is_none());
        assert!(streams.open(Kind::Own).is_some());
    }

    #[tokio::test]
    async fn a_stream_that_nobody_reads_is_given_up_and_no_other() {
        let streams = Streams::default();
        let stream = streams.open(Kind::Answer).unwrap();
        let window = Duration::from_millis(20);
        let reader = Arc::clone(&stream).read_behind(0).unwrap();
        let given_up = tokio::time::timeout(10 * window, stream.abandoned(window)).await;
        assert!(given_up.is_err(), "somebody reads it");
        drop(reader);
        stream.abandoned(window).await;
        let again = Arc::clone(&stream).read_behind(0).unwrap();
        let given_up = tokio::time::timeout(10 * window, stream.abandoned(window)).await;
        assert!(given_up.is_err(), "somebody came back");
        drop(again);
        stream.abandoned(window).await;
    }
}

//! The sessions of older clients.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::{CancellationToken, DropGuard};

use super::resume::Streams;
use crate::server::peer::Peer;

/// Most sessions at once.
const MOST: usize = 10_000;

/// A session that was not used for so long is over.
const IDLE: Duration = Duration::from_secs(3600);

/// First revision whose clients take an event without data.
const PRIMES_SINCE: &str = "2025-11-25";

/// One older client.
#[derive(Debug)]
pub(super) struct Session<S> {
    pub(super) peer: Arc<Peer<S>>,
    pub(super) closing: CancellationToken,
    pub(super) streams: Streams,
    /// Requests and streams that are open.
    open: AtomicUsize,
    used: Mutex<Instant>,
    _guard: DropGuard,
}

impl<S> Session<S> {
    pub(super) fn new(peer: Arc<Peer<S>>, closing: CancellationToken) -> Self {
        Self {
            peer,
            closing: closing.clone(),
            streams: Streams::default(),
            open: AtomicUsize::new(0),
            used: Mutex::new(Instant::now()),
            _guard: closing.drop_guard(),
        }
    }

    /// Whether its client takes an event that only says where a stream begins.
    pub(super) fn primes(&self) -> bool {
        self.peer
            .connection
            .agreed()
            .is_some_and(|caller| caller.revision.0.as_str() >= PRIMES_SINCE)
    }

    /// It does not end of idleness while this is held.
    pub(super) fn in_use(self: &Arc<Self>) -> InUse<S> {
        self.open.fetch_add(1, Ordering::SeqCst);
        InUse(Arc::clone(self))
    }

    fn touch(&self) {
        *lock(&self.used) = Instant::now();
    }

    fn is_idle(&self, for_so_long: Duration) -> bool {
        self.open.load(Ordering::SeqCst) == 0 && lock(&self.used).elapsed() > for_so_long
    }
}

/// See [`Session::in_use`].
pub(super) struct InUse<S>(Arc<Session<S>>);

impl<S> Drop for InUse<S> {
    fn drop(&mut self) {
        self.0.touch();
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// All of them, by name.
#[derive(Debug)]
pub(super) struct Sessions<S> {
    all: Mutex<HashMap<String, Arc<Session<S>>>>,
    most: usize,
    idle: Duration,
}

impl<S> Sessions<S> {
    pub(super) fn new() -> Self {
        Self { all: Mutex::default(), most: MOST, idle: IDLE }
    }

    pub(super) fn add(&self, name: String, session: Session<S>) -> Result<(), &'static str> {
        let mut all = lock(&self.all);
        all.retain(|_, session| !session.is_idle(self.idle));
        if all.len() >= self.most {
            return Err("too many sessions are open; end some, or try later");
        }
        all.insert(name, Arc::new(session));
        Ok(())
    }

    pub(super) fn get(&self, name: &str) -> Option<Arc<Session<S>>> {
        let mut all = lock(&self.all);
        let session = all.get(name)?.clone();
        if session.is_idle(self.idle) {
            all.remove(name);
            session.closing.cancel();
            return None;
        }
        session.touch();
        Some(session)
    }

    pub(super) fn remove(&self, session: &Arc<Session<S>>) {
        session.closing.cancel();
        lock(&self.all).retain(|_, other| !Arc::ptr_eq(other, session));
    }
}

/// A name that nobody guesses.
pub(super) fn name() -> std::io::Result<String> {
    let mut bytes = [0_u8; 20];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Seal;
    use crate::server::connection::Connection;

    fn session() -> (Session<()>, CancellationToken) {
        let closing = CancellationToken::new();
        let peer = Peer {
            service: Arc::new(()),
            seal: Seal::with_key([7; 32]),
            connection: Connection::new(closing.clone()),
            session: None,
        };
        (Session::new(Arc::new(peer), closing.clone()), closing)
    }

    /// Makes it look as if it had not been used for long.
    fn age(sessions: &Sessions<()>, name: &str) {
        let all = lock(&sessions.all);
        *lock(&all[name].used) = Instant::now() - 2 * sessions.idle;
    }

    #[test]
    fn there_are_only_so_many_and_idle_ones_make_room() {
        let idle = Duration::from_secs(10);
        let sessions = Sessions { all: Mutex::default(), most: 2, idle };
        let (first, first_ends) = session();
        sessions.add("first".to_owned(), first).unwrap();
        let (second, second_ends) = session();
        sessions.add("second".to_owned(), second).unwrap();
        assert!(sessions.add("third".to_owned(), session().0).is_err());
        let in_use = sessions.get("first").unwrap().in_use();
        age(&sessions, "first");
        age(&sessions, "second");
        sessions.add("third".to_owned(), session().0).unwrap();
        assert!(second_ends.is_cancelled() && sessions.get("second").is_none());
        assert!(!first_ends.is_cancelled() && sessions.get("first").is_some());
        drop(in_use);
        age(&sessions, "first");
        assert!(sessions.get("first").is_none() && first_ends.is_cancelled());
    }
}

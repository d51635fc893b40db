//! What was started ahead and waits: kept by what it will do for, within bounds.
//!
//! It only keeps. What is started, and when, is the engine's matter; that nothing waits for ever is
//! the sandbox's (`Spec::waits`).

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Things that wait, the oldest first.
#[derive(Debug)]
pub(crate) struct Ahead<K, T> {
    most: usize,
    waiting: Mutex<Vec<(K, T)>>,
}

/// What can end while it waits.
pub(crate) trait Waits {
    /// Whether it has.
    fn is_over(&self) -> bool;
}

impl<K: PartialEq, T: Waits> Ahead<K, T> {
    /// At most `most` of them.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, waiting: Mutex::default() }
    }

    /// One that will do for `kind`. It serves once: it is the taker's now.
    pub(crate) fn take(&self, kind: &K) -> Option<T> {
        let mut waiting = self.alive();
        let place = waiting.iter().position(|(known, _)| known == kind)?;
        Some(waiting.remove(place).1)
    }

    /// Whether another one for `kind` is of use.
    pub(crate) fn lacks(&self, kind: &K) -> bool {
        self.most > 0 && !self.alive().iter().any(|(known, _)| known == kind)
    }

    /// Keeps one; what has waited longest makes room.
    pub(crate) fn put(&self, kind: K, one: T) {
        let mut waiting = self.alive();
        waiting.push((kind, one));
        let too_many = waiting.len().saturating_sub(self.most);
        let gone: Vec<_> = waiting.drain(..too_many).collect();
        drop(waiting);
        drop(gone);
    }

    /// How many wait.
    pub(crate) fn count(&self) -> usize {
        self.alive().len()
    }

    fn alive(&self) -> MutexGuard<'_, Vec<(K, T)>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|(_, one)| !one.is_over());
        waiting
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    #[derive(Clone, Debug)]
    struct One(u32, Rc<Cell<bool>>);

    impl Waits for One {
        fn is_over(&self) -> bool {
            self.1.get()
        }
    }

    fn one(number: u32) -> One {
        One(number, Rc::default())
    }

    #[test]
    fn each_serves_once_and_only_what_it_was_started_for() {
        let ahead = Ahead::new(2);
        assert!(ahead.take(&"a").is_none() && ahead.lacks(&"a"));
        ahead.put("a", one(1));
        assert!(!ahead.lacks(&"a") && ahead.lacks(&"b"));
        assert!(ahead.take(&"b").is_none());
        assert_eq!(ahead.take(&"a").map(|one| one.0), Some(1));
        assert!(ahead.take(&"a").is_none());
    }

    #[test]
    fn the_oldest_makes_room_and_what_has_ended_is_not_handed_out() {
        let ahead = Ahead::new(2);
        let ended = one(3);
        ahead.put("a", one(1));
        ahead.put("b", one(2));
        ahead.put("c", ended.clone());
        assert_eq!(ahead.count(), 2);
        assert!(ahead.take(&"a").is_none());
        ended.1.set(true);
        assert!(ahead.take(&"c").is_none() && ahead.lacks(&"c"));
        assert_eq!(ahead.count(), 1);
    }

    #[test]
    fn where_nothing_is_to_wait_nothing_does() {
        let ahead = Ahead::new(0);
        assert!(!ahead.lacks(&"a"));
        ahead.put("a", one(1));
        assert_eq!(ahead.count(), 0);
    }
}

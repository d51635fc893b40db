//! Who may run when: so many at once, and then by turns, so that nobody's queue is another's.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Places for runs, given to those who wait by turns.
#[derive(Clone, Debug)]
pub(crate) struct Lines(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    free: usize,
    /// Longest line of one who asks.
    longest: usize,
    /// By who asks; those whose line is empty are not here.
    waiting: HashMap<String, VecDeque<oneshot::Sender<Place>>>,
    /// Whose turn it is next.
    turns: VecDeque<String>,
}

/// The right to run; given on when it is dropped.
#[derive(Debug)]
pub(crate) struct Place(Option<Lines>);

/// The line is full.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Lines {
    pub(crate) fn new(places: usize, longest: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            free: places,
            longest,
            waiting: HashMap::new(),
            turns: VecDeque::new(),
        })))
    }

    /// Waits for a place; whoever drops the future gives up the wait.
    pub(crate) async fn enter(&self, who: &str) -> Result<Place, Full> {
        let turn = {
            let mut state = self.lock();
            if state.free > 0 && state.turns.is_empty() {
                state.free -= 1;
                return Ok(Place(Some(self.clone())));
            }
            let longest = state.longest;
            let line = state.waiting.entry(who.to_owned()).or_default();
            line.retain(|waiting| !waiting.is_closed());
            if line.len() >= longest {
                return Err(Full);
            }
            let (sender, turn) = oneshot::channel();
            line.push_back(sender);
            if line.len() == 1 && !state.turns.iter().any(|name| name == who) {
                state.turns.push_back(who.to_owned());
            }
            turn
        };
        turn.await.map_err(|_| Full)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a place that has become free to whose turn it is.
    fn pass_on(&self) {
        let mut place = Place(Some(self.clone()));
        loop {
            let next = {
                let mut state = self.lock();
                let Some(next) = state.next() else {
                    state.free += 1;
                    place.0 = None;
                    return;
                };
                next
            };
            match next.send(place) {
                Ok(()) => return,
                // It went away in the meantime.
                Err(back) => place = back,
            }
        }
    }
}

impl State {
    fn next(&mut self) -> Option<oneshot::Sender<Place>> {
        while let Some(who) = self.turns.pop_front() {
            let Some(line) = self.waiting.get_mut(&who) else { continue };
            let next = line.pop_front();
            if line.is_empty() {
                self.waiting.remove(&who);
            } else {
                self.turns.push_back(who);
            }
            if next.is_some() {
                return next;
            }
        }
        None
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(lines) = self.0.take() {
            lines.pass_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn enters(lines: &Lines, who: &str) -> Option<Place> {
        let entering = tokio::time::timeout(Duration::from_millis(50), lines.enter(who));
        entering.await.ok().map(|place| place.unwrap())
    }

    #[tokio::test]
    async fn so_many_at_once_and_the_next_when_one_leaves() {
        let lines = Lines::new(2, 10);
        let (a, _b) = (enters(&lines, "a").await.unwrap(), enters(&lines, "a").await.unwrap());
        assert!(enters(&lines, "a").await.is_none());
        drop(a);
        assert!(enters(&lines, "a").await.is_some());
    }

    #[tokio::test]
    async fn whoever_waits_in_a_long_line_lets_others_take_turns() {
        let lines = Lines::new(1, 100);
        let first = lines.enter("many").await.unwrap();
        let (done, mut order) = tokio::sync::mpsc::unbounded_channel();
        for who in ["many", "many", "many", "one"] {
            let (lines, done) = (lines.clone(), done.clone());
            tokio::spawn(async move {
                let place = lines.enter(who).await.unwrap();
                done.send(who).unwrap();
                drop(place);
            });
            tokio::task::yield_now().await;
        }
        drop(first);
        let mut found = Vec::new();
        for _ in 0..4 {
            found.push(order.recv().await.unwrap());
        }
        assert_eq!(found, ["many", "one", "many", "many"]);
    }

    #[tokio::test]
    async fn a_full_line_refuses_its_own_and_nobody_else() {
        let lines = Lines::new(1, 1);
        let _place = lines.enter("a").await.unwrap();
        let waiting = lines.clone();
        let waiting = tokio::spawn(async move { waiting.enter("a").await.map(drop) });
        tokio::task::yield_now().await;
        assert_eq!(lines.enter("a").await.err(), Some(Full));
        assert!(enters(&lines, "b").await.is_none());
        waiting.abort();
        let _ = waiting.await;
        // Who gave up takes no room.
        assert!(enters(&lines, "a").await.is_none());
    }

    #[tokio::test]
    async fn a_place_survives_those_who_gave_up_while_they_waited() {
        let lines = Lines::new(1, 10);
        let place = lines.enter("a").await.unwrap();
        for _ in 0..3 {
            assert!(enters(&lines, "b").await.is_none());
        }
        drop(place);
        assert!(enters(&lines, "c").await.is_some());
        assert!(enters(&lines, "a").await.is_some());
    }
}

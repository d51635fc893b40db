//! How much at once: requests of one token in a second, and listeners.

use std::num::NonZeroU32;
use std::sync::Arc;

use governor::clock::{Clock as _, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::Refusal;
use crate::config::file;

/// The bounds.
#[derive(Debug)]
pub(crate) struct Limits {
    requests: Option<RateLimiter<String, HashMapStateStore<String>, DefaultClock>>,
    listeners: Arc<Semaphore>,
}

impl Limits {
    pub(crate) fn new(limits: &file::Limits) -> Self {
        let rate = NonZeroU32::new(limits.requests_per_sec);
        let requests = rate.map(|rate| {
            let burst = NonZeroU32::new(limits.burst).unwrap_or(rate);
            RateLimiter::hashmap(Quota::per_second(rate).allow_burst(burst))
        });
        let listeners = match limits.listeners {
            0 => Semaphore::MAX_PERMITS,
            listeners => listeners as usize,
        };
        Self { requests, listeners: Arc::new(Semaphore::new(listeners)) }
    }

    /// Counts a request. Principals are those of the configuration, so there are few.
    pub(super) fn count(&self, principal: &str) -> Result<(), Refusal> {
        let Some(requests) = &self.requests else { return Ok(()) };
        requests.check_key(&principal.to_owned()).map_err(|early| {
            let wait = early.wait_time_from(DefaultClock::default().now());
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            Refusal::too_much(
                format!("{principal} makes too many requests: wait {} s", seconds.max(1)),
                seconds.max(1),
            )
        })
    }

    /// A place for a listener, held as long as it listens.
    pub(super) fn listen(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        self.listeners.clone().try_acquire_owned().map_err(|_| {
            Refusal::unavailable("too many listeners: close one, or raise limits.listeners")
        })
    }
}

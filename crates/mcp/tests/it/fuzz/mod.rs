//! Real messages of both eras, damaged in every way that comes to mind, for both sides.
//!
//! What happens depends on a number alone, which a failure tells. `PINFOLD_FUZZ_SECONDS` is how long
//! each of the tests goes on (4 by default), `PINFOLD_FUZZ_SEED` the number to begin with.

mod damage;

mod client;

mod server;

use std::time::{Duration, Instant};

pub(crate) use damage::Damage;

/// Runs `attempt` with one number after the other until the time is over; at least a few.
fn for_a_while(mut attempt: impl FnMut(Damage)) {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seconds = number("PINFOLD_FUZZ_SECONDS").unwrap_or(4);
    let first = number("PINFOLD_FUZZ_SEED").unwrap_or(1);
    let end = Instant::now() + Duration::from_secs(seconds);
    for seed in first.. {
        let told = Told(seed);
        attempt(Damage::new(seed));
        std::mem::forget(told);
        if Instant::now() >= end && seed >= first + 3 {
            return;
        }
    }
}

/// Tells the number if an attempt panics.
struct Told(u64);

impl Drop for Told {
    fn drop(&mut self) {
        eprintln!("to see it again: PINFOLD_FUZZ_SEED={}", self.0);
    }
}

#[test]
fn reading_takes_anything() {
    for_a_while(|mut damage| {
        for _ in 0..200 {
            let text = damage.message();
            if let Ok(messages) = mcp::message::parse(&text) {
                assert!(!messages.is_empty() || text.trim_start().starts_with('['), "{text:?}");
            }
        }
    });
}

//! The crate as its callers use it: real programs in real cells.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed test may panic")]

mod basics;
mod bubblewrap;
// Its attacks know the system call numbers of one architecture.
#[cfg(target_arch = "x86_64")]
mod escapes;
mod ground;
mod leave_out;
mod level;
mod limits;
mod ordinary;
mod programs;
mod residue;
mod view;

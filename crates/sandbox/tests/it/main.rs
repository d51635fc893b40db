//! The crate as its callers use it: real programs in real cells.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed test may panic")]

mod basics;
mod bubblewrap;
mod escapes;
mod ground;
mod leave_out;
mod level;
mod limits;
mod ordinary;
mod programs;
mod residue;
mod view;

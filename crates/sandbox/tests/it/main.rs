//! The crate as its callers use it: real programs in real cells.

mod basics;
mod bubblewrap;
mod ground;
mod leave_out;
mod level;
mod limits;
mod ordinary;
mod view;

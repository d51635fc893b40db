//! The crate as its callers use it: real programs in real cells.

mod basics;
mod escapes;
mod bubblewrap;
mod ground;
mod leave_out;
mod level;
mod limits;
mod ordinary;
mod programs;
mod residue;
mod view;

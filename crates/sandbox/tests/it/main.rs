//! The crate as its callers use it: real programs in real cells.

mod basics;
mod ground;
mod limits;
mod ordinary;
mod view;

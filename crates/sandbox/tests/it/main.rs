//! The crate as its callers use it: real programs in real cells.

mod basics;
mod ground;
mod ordinary;
mod view;

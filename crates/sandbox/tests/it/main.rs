//! The crate as its callers use it: real programs in real cells.

mod escapes;

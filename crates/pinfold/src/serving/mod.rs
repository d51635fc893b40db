//! What MCP clients are served: the gateway's tools, and a person's answers on the way back.
//!
//! It translates and decides nothing: what may run is decided in `gateway`, how a message looks in
//! `mcp`.

mod offer;

mod extras;

mod parked;

mod ask;

mod outcome;

mod tasks;

mod key;

pub(crate) use key::{PERSON, person, seal};
pub(crate) use offer::{Answers, Offer};

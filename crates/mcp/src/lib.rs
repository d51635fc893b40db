//! MCP messages and transports of both protocol eras; no policy.
//!
//! Inside, everything has the 2026-07-28 form; older revisions are adapters at the edge. What only
//! passes through stays [`RawValue`](serde_json::value::RawValue), so unknown fields and key order
//! survive. A [`Client`] is one connection to a server: it does not reconnect by itself, does not
//! decide which tool may be called, and keeps nothing on disk. [`server`] is the other side: it
//! tells clients of either era what a [`Service`](server::Service) offers.

pub mod auth;

pub mod message;

pub mod server;

mod censor;
mod client;
mod endpoint;
mod error;
mod journal;
mod result;
mod revision;
mod secrets;
mod tool;
mod transport;

pub use client::{
    Abilities, Asked, Asks, Client, Given, Item, Kind, Passed, Passing, Progress, ServerInfo,
    ToolCall,
};
pub use endpoint::Endpoint;
pub use error::Error;
pub use journal::Event;
pub use result::CallResult;
pub use revision::Revision;
pub use secrets::Secrets;
pub use tool::{Annotations, TaskSupport, Tool};

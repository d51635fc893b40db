//! Six tools (`Bash`, `Read`, `Write`, `Edit`, `Grep`, `Glob`) over any place where files and
//! programs are.
//!
//! A [`Backend`] is such a place, connected; a [`Session`] is one agent's use of it, with what it
//! has read and what it left running; [`tools::BUILT_IN`] are the tools. This crate knows no MCP,
//! no gateway and no HTTP, and grants nothing: whoever calls a tool has decided that it may run.

mod backend;
mod embedded;
mod jobs;
mod seen;
mod session;

pub mod backends;
pub mod permissions;
pub mod tools;

pub use backend::{Asked, Backend, Fault, Outcome, Output, Program};
pub use backends::Place;
pub use session::Session;

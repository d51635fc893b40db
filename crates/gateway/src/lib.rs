//! Decides about, runs and records every tool call.
//!
//! [`Gateway::open`] takes the sources, the profiles and the store; [`Gateway::call`] is the one
//! way to a tool, for models, scripts, the chat and the command line alike (`call`). This crate
//! knows what MCP results mean, but no routes, no configuration files and no terminal.

pub mod config;

mod json;
mod names;
mod schema;

mod gateway;
mod session;

mod call;

mod approval;
pub mod policy;

pub mod sources;

pub use approval::{Answer, Answered, Approval, Choice, ListedTool};
pub use call::{Failure, Origin, Outcome, Progress, Request, ScriptProgress, ScriptState};
pub use gateway::{Error, Gateway, Listed, Parts};
pub use script::Kind;
pub use session::Session;

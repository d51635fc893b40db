//! Decides about, runs and records every tool call.
//!
//! [`Gateway::open`] takes the sources, the profiles and the store; [`Gateway::call`] is the one
//! way to a tool, for models, scripts, the chat and the command line alike (`call`). This crate
//! knows what MCP results mean, but no routes, no configuration files and no terminal.

pub mod config;

mod gateway;
mod request;
mod session;

mod call;

mod extras;

mod catalog;
mod names;
mod search;
mod signature;
mod view;

mod refusal;
mod schema;

pub mod policy;

mod approval;

mod background;
mod events;

mod look;

pub mod sources;

mod audit;
mod backlog;
mod records;

mod owner;
mod recovery;

mod json;

pub use approval::{Answer, Answered, Approval, ApprovalState, Choice, Given, ListedTool};
pub use background::{BackgroundCall, BackgroundState, LastProgress, Whose};
pub use events::{Event, Listener, Resolution, Told};
pub use extras::{Along, ExtraError, Watched};
pub use gateway::{Error, Gateway, Listed, Parts};
pub use look::ScriptSeen;
pub use request::{Failure, Origin, Outcome, Progress, Request, ScriptProgress, ScriptState};
pub use script::Kind;
pub use session::Session;

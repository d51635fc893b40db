//! Runs one script and serves its calls.
//!
//! The script talks to a [`Host`] over two pipes (descriptors 3 and 4, one JSON value a line);
//! what a call means is the host's matter. This crate knows languages and the channel. It knows
//! neither MCP nor HTTP, decides nothing about tools, writes no records, and starts no process
//! that runs a script except through the crate `sandbox`.

mod host;
mod job;

mod ahead;
mod engine;
mod interpreter;

mod function;

mod channel;
mod check;

mod language;
mod python;
mod runtime;

mod error;

pub use check::Checked;
pub use engine::Engine;
pub use error::Error;
pub use function::{
    ErrorKind, Evaluated, Executor, Fault, FunctionJob, FunctionLanguage, Image, Node,
};
pub use host::{Call, Host, Kind, NoTools, Progress, Reply, ToolError};
pub use job::{Ending, Finished, Job, Limits, Sink};
pub use python::Python;

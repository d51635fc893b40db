//! Runs one function of Python or JavaScript code and gives back its value: what `POST /execute`,
//! `execute_script` and the skills do.
//!
//! Such code has no tools to call, so there is no channel: the request goes in as a whole, the
//! answer comes out as a whole. Where requests come from, who may send them, and what of their
//! files is kept are not here.

mod answer;
mod executor;
mod job;
mod node;

pub use executor::Executor;
pub use job::{ErrorKind, Evaluated, Fault, FunctionJob, FunctionLanguage, Image};
pub use node::Node;

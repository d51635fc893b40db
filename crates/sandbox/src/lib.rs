//! Runs one program, confined.
//!
//! A [`Spec`] says what a program sees and may use; a [`Sandbox`] (one keeper process, see
//! `keeper`) makes the cell and runs it; [`Running`] is the program while it lives. This crate
//! knows no language, no MCP and no HTTP, and it is the only one with `unsafe`.

mod bwrap;
mod cgroup;
mod error;
mod keeper;
mod landlock;
mod level;
mod limits;
mod output;
mod plan;
mod prefixes;
mod running;
mod sandbox;
mod seccomp;
mod self_test;
mod spec;
mod sys;
mod view;

pub use error::Error;
pub use level::{Layer, Level};
pub use limits::{Captured, Ended, Ending, Limits, Usage};
pub use prefixes::program_prefixes;
pub use running::Running;
pub use sandbox::{Options, Sandbox, Way};
#[cfg(feature = "leave-out")]
pub use spec::LeftOut;
pub use spec::{Access, Mount, Output, Sink, Source, Spec};

//! Runs one program, confined.
//!
//! A [`Spec`] says what a program sees and may use; a [`Sandbox`] (one keeper process, see
//! `keeper`) makes the cell and runs it; [`Running`] is the program while it lives. This crate
//! knows no language, no MCP and no HTTP, and it is the only one with `unsafe`.

mod error;
mod level;
mod limits;
mod spec;

pub use error::Error;
pub use level::{Layer, Level};
pub use limits::{Captured, Ended, Ending, Limits, Usage};
#[cfg(feature = "leave-out")]
pub use spec::LeftOut;
pub use spec::{Access, Mount, Output, Source, Spec};

use std::path::PathBuf;

/// How a [`Sandbox`] is started. The default takes the best way this host gives.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Take one way rather than find the best one (for tests and for `doctor`).
    pub way: Option<Way>,
    /// Use no cgroups even where they could be had: limits are then held by watching the tree.
    pub without_cgroups: bool,
}

/// The way namespaces are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum Way {
    /// By real root, outside the user namespace of the cell.
    Root,
    /// By an ordinary user (or a root without `CAP_SYS_ADMIN`) in a user namespace of its own.
    Ordinary,
    /// Through `/usr/bin/bwrap`.
    Bubblewrap,
}

/// The way to run programs confined. Cheap to clone; the keeper ends with the last clone.
#[derive(Clone, Debug)]
pub struct Sandbox {}

impl Sandbox {
    /// Starts the keeper and runs the self-test.
    pub async fn start(_options: Options) -> Result<Self, Error> {
        unimplemented!()
    }

    /// What this host gives.
    pub fn level(&self) -> &Level {
        unimplemented!()
    }

    /// Starts `spec` in a fresh cell. When this returns, the program runs (or failed to be executed).
    pub async fn spawn(&self, _spec: Spec) -> Result<Running, Error> {
        unimplemented!()
    }
}

/// A program that runs. Dropping it kills the whole tree.
#[derive(Debug)]
pub struct Running {}

impl Running {
    /// Kills the whole tree; `wait` then says [`Ending::Cancelled`].
    pub fn kill(&self) {
        unimplemented!()
    }

    /// Waits for the end. Cancel-safe.
    pub async fn wait(&mut self) -> Ended {
        unimplemented!()
    }
}

/// Absolute host paths that a run needs to see for the interpreter at `program`: its real path
/// and prefix. Kept here because what may be shown of a home directory is a matter of confinement.
pub fn program_prefixes(_program: &std::path::Path) -> Result<Vec<PathBuf>, Error> {
    unimplemented!()
}

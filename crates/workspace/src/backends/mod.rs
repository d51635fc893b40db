//! The places where a workspace can be: one file for each, and one arm here.

use std::path::PathBuf;
use std::sync::Arc;

use crate::backend::{Backend, Fault};
use crate::tools::About;

mod local;
mod memory;
mod sandbox;

pub use local::Local;
pub use memory::{Memory, Programs};
pub use sandbox::Sandbox;

/// Where a workspace is. Opening it is the only way to a backend, and there is no default.
#[derive(Clone, Debug)]
pub enum Place {
    /// On this host: commands run as the user who runs the server, with all that user may do.
    Local {
        /// The folder; links on the way to it are resolved once.
        folder: PathBuf,
    },
    /// In our sandbox.
    Sandbox {
        /// What confines.
        sandbox: ::sandbox::Sandbox,
        /// The folder on this host.
        folder: PathBuf,
        /// Where the program that acts inside is kept, outside of every workspace.
        programs: PathBuf,
        /// Bounds of each command; its time is bounded by the call.
        limits: ::sandbox::Limits,
    },
    /// Wherever somebody has connected to already.
    Open(Arc<dyn Backend>),
    /// Nowhere but in memory, for tests; it runs nothing.
    Memory(Memory),
}

impl Place {
    /// What an agent should know before the place is opened.
    pub fn about(&self) -> About {
        let (root, place) = match self {
            Self::Local { folder } => {
                let folder = folder.canonicalize().unwrap_or_else(|_| folder.clone());
                (folder.to_string_lossy().into_owned(), local::ABOUT)
            }
            Self::Sandbox { .. } => (sandbox::ROOT.to_owned(), sandbox::ABOUT),
            Self::Open(backend) => (backend.root().to_owned(), ""),
            Self::Memory(_) => (memory::ROOT.to_owned(), ""),
        };
        About { root, place }
    }

    /// Connects.
    pub async fn open(&self) -> Result<Arc<dyn Backend>, Fault> {
        match self {
            Self::Local { folder } => Ok(Arc::new(Local::open(folder)?)),
            Self::Sandbox { sandbox, folder, programs, limits } => {
                Ok(Arc::new(Sandbox::open(sandbox.clone(), folder, programs, limits.clone())?))
            }
            Self::Open(backend) => Ok(Arc::clone(backend)),
            Self::Memory(memory) => Ok(Arc::new(memory.clone())),
        }
    }
}

//! Why a script could not be run at all. A script that fails is a result, not an error.

/// Why a script could not be run at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No usable interpreter.
    #[error("{0}")]
    NoPython(String),
    /// No usable Node.
    #[error("{0}")]
    NoNode(String),
    /// The job itself is wrong.
    #[error("{0}")]
    BadJob(String),
    /// The sandbox refused or is gone.
    #[error(transparent)]
    Sandbox(#[from] sandbox::Error),
    /// It was started, and what became of it is not known. After any other error nothing ran.
    #[error("{0}")]
    Lost(String),
    /// The runtime files or pipes could not be made.
    #[error("{0}")]
    Io(String),
}

impl Error {
    /// An [`Error::Io`] that names what was attempted.
    pub(crate) fn io(attempt: impl std::fmt::Display, error: impl std::fmt::Display) -> Self {
        Self::Io(format!("cannot {attempt}: {error}"))
    }
}

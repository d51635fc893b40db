//! Why a sandbox or a run could not be had.

/// Why a sandbox or a run could not be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This host cannot isolate; `run_script` is not to be offered.
    #[error("this host cannot confine programs: {what}; {hint}")]
    Unavailable {
        /// What is missing.
        what: String,
        /// What to do about it.
        hint: String,
    },
    /// The spec cannot be carried out (a mount's source is absent, a bad target …).
    #[error("{0}")]
    BadSpec(String),
    /// The keeper is gone or does not answer.
    #[error("the sandbox keeper is gone: {0}")]
    KeeperLost(String),
}

//! How a command ends that did not do what was asked, with the exit code for it.

use std::fmt;

/// A failure of a command: one fragment for standard error and an exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    /// What the process ends with.
    pub(crate) code: u8,
    /// What to say; empty where everything was said already.
    error: Option<anyhow::Error>,
}

impl Failure {
    /// The script or the tool failed, or something this process needs.
    pub(crate) fn failed(error: impl Into<anyhow::Error>) -> Self {
        Self { code: 1, error: Some(error.into()) }
    }

    /// The script failed and its answer, which says so, was shown.
    pub(crate) fn shown() -> Self {
        Self { code: 1, error: None }
    }

    /// What was asked for could not be printed.
    pub(crate) fn unwritten(error: std::io::Error) -> Self {
        let context = "standard output cannot be written; make room or send it somewhere else";
        Self::failed(anyhow::Error::new(error).context(context))
    }

    /// Wrong usage or configuration; unless it shows that the machine is what gives out.
    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        let error = error.into();
        let code = if error.chain().any(is_of_the_machine) { 1 } else { 2 };
        Self { code, error: Some(error) }
    }

    /// Refused by policy or by a person.
    pub(crate) fn refused(error: impl Into<anyhow::Error>) -> Self {
        Self { code: 3, error: Some(error.into()) }
    }
}

/// Whether no other configuration would have helped.
fn is_of_the_machine(error: &(dyn std::error::Error + 'static)) -> bool {
    use std::io::ErrorKind::{OutOfMemory, QuotaExceeded, StorageFull};
    if let Some(error) = error.downcast_ref::<std::io::Error>() {
        return [OutOfMemory, QuotaExceeded, StorageFull].contains(&error.kind());
    }
    matches!(error.downcast_ref(), Some(store::Error::Full(_)))
        || matches!(error.downcast_ref(), Some(gateway::Error::Store(store::Error::Full(_))))
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.error {
            Some(error) => write!(f, "{error:#}"),
            None => Ok(()),
        }
    }
}

//! One script to run, its bounds, and how it ended.

use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::Error;

/// Takes what a script prints, as it comes; must not block.
pub type Sink = Box<dyn FnMut(&[u8]) + Send>;

/// One script to run.
pub struct Job {
    /// The script.
    pub code: String,
    /// The session's workspace, opened by the caller; seen at `/workspace` and the current directory.
    pub workspace: OwnedFd,
    /// Whether the script may write there.
    pub access: sandbox::Access,
    /// `.agent` of the workspace, opened by the caller; laid over it read-only.
    pub records: Option<OwnedFd>,
    /// Bounds.
    pub limits: Limits,
    /// Called with everything the script prints on standard output.
    pub stdout: Sink,
    /// The same for standard error.
    pub stderr: Sink,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// Bounds of a script.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Calls in all that reached a tool.
    pub max_calls: u64,
    /// Calls at once, 1–64.
    pub concurrency: usize,
    /// Wall time.
    pub timeout: Duration,
    /// Memory in MB on top of the interpreter's own.
    pub memory_mb: u64,
}

impl Limits {
    /// Refuses bounds under which no script could run, or too many calls would at once.
    pub fn check(&self) -> Result<(), Error> {
        let Self { concurrency, timeout, memory_mb, .. } = self;
        let wrong = if !(1..=64).contains(concurrency) {
            format!("concurrency must be between 1 and 64, not {concurrency}")
        } else if timeout.is_zero() {
            "timeout must be longer than 0 seconds".to_owned()
        } else if !(16..=1 << 20).contains(memory_mb) {
            format!("memory_mb must be between 16 and 1048576, not {memory_mb}")
        } else {
            return Ok(());
        };
        Err(Error::BadJob(wrong))
    }
}

/// A script that is over.
#[derive(Clone, Debug)]
pub struct Finished {
    /// How it ended.
    pub ending: Ending,
    /// Calls that reached a tool.
    pub calls: u64,
    /// Of them, failed.
    pub failed: u64,
    /// Calls refused before they reached a tool.
    pub refused: u64,
    /// Exit code, where there is one.
    pub exit_code: Option<i32>,
    /// The last frames of an uncaught exception, also where `ending` says more than that
    /// ([`Ending::MemoryLimit`], [`Ending::ProcessLimit`]); else empty.
    pub traceback: String,
    /// What is wrong with what it wrote to the channel of its calls, in one sentence, if something
    /// is: that explains calls that were never made, and perhaps its end.
    pub complaint: Option<String>,
    /// What it used.
    pub usage: sandbox::Usage,
}

/// How a script ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It ran to its end.
    Completed,
    /// It raised, or exited with a code other than 0; the last frames of the traceback in the
    /// script's own line numbers.
    Failed {
        /// See above; empty for a bare exit code.
        traceback: String,
    },
    /// The time limit was reached.
    TimedOut,
    /// The memory limit was reached.
    MemoryLimit,
    /// The process limit was reached.
    ProcessLimit,
    /// Cancelled from outside.
    Cancelled,
    /// A signal ended the interpreter.
    Signaled(i32),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_outside_their_range_are_refused_by_name() {
        let limits = |concurrency, seconds, memory_mb| Limits {
            max_calls: 0,
            concurrency,
            timeout: Duration::from_secs(seconds),
            memory_mb,
        };
        assert!(limits(1, 1, 512).check().is_ok());
        assert!(limits(64, 1, 512).check().is_ok());
        let refused = |limits: Limits| limits.check().unwrap_err().to_string();
        assert!(refused(limits(0, 1, 512)).contains("between 1 and 64"));
        assert!(refused(limits(65, 1, 512)).contains("not 65"));
        assert!(refused(limits(1, 1, 1)).contains("memory_mb"));
        assert!(refused(limits(1, 0, 512)).contains("timeout"));
    }
}

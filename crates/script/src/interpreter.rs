//! An interpreter in its cell, from its start until it is given a script.
//!
//! Everything about the cell is settled when it starts, and the cell is sealed before the
//! interpreter is executed. So one that was started ahead is as confined as one that was not, and
//! does only for a script that asks for the very same cell: its [`Shape`].

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sandbox::{Access, Mount, Output, Running, Sandbox, Source, Spec};

use crate::Error;
use crate::ahead::Waits;
use crate::channel::Pipes;
use crate::job::{Limits, Sink};

/// Where a script sees its workspace.
const WORKSPACE: &str = "/workspace";
/// What is handed on of each output stream.
const LONGEST_OUTPUT: u64 = 1 << 30;
/// What is kept of what an interpreter says before it has a script.
const LONGEST_PREFACE: usize = 64 << 10;

/// What of a job the cell depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Device and inode. They stay taken as long as a cell has the directory mounted.
    workspace: (u64, u64),
    records: Option<(u64, u64)>,
    access: Access,
    timeout: Duration,
    memory_mb: u64,
}

/// The directories of a job.
#[derive(Debug)]
pub(crate) struct Directories {
    pub(crate) workspace: OwnedFd,
    pub(crate) records: Option<OwnedFd>,
}

impl Shape {
    pub(crate) fn of(
        directories: &Directories,
        access: Access,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let identity = |directory: &OwnedFd| {
            rustix::fs::fstat(directory)
                .map(|found| (found.st_dev, found.st_ino))
                .map_err(|error| Error::io("examine the workspace of a script", error))
        };
        let Limits { timeout, memory_mb, .. } = *limits;
        let workspace = identity(&directories.workspace)?;
        let records = directories.records.as_ref().map(identity).transpose()?;
        Ok(Self { workspace, records, access, timeout, memory_mb })
    }
}

impl Directories {
    pub(crate) fn again(&self) -> Result<Self, Error> {
        let again = |directory: &OwnedFd| {
            directory
                .as_fd()
                .try_clone_to_owned()
                .map_err(|error| Error::io("open the workspace of a script again", error))
        };
        let workspace = again(&self.workspace)?;
        Ok(Self { workspace, records: self.records.as_ref().map(again).transpose()? })
    }
}

/// An interpreter that runs and has no script yet.
#[derive(Debug)]
pub(crate) struct Interpreter {
    pub(crate) running: Running,
    pub(crate) pipes: Ends,
    stdout: Later,
    stderr: Later,
}

/// Our ends of its pipes.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) requests: tokio::net::unix::pipe::Receiver,
    pub(crate) replies: tokio::net::unix::pipe::Sender,
}

impl Waits for Interpreter {
    fn is_over(&self) -> bool {
        self.running.is_over()
    }
}

impl Interpreter {
    /// Starts one in the cell that `spec` and `shape` describe. If it `waits`, its time begins when
    /// it is given a script.
    pub(crate) async fn start(
        sandbox: &Sandbox,
        mut spec: Spec,
        (shape, directories): (&Shape, Directories),
        own_memory: u64,
        waits: Option<Duration>,
    ) -> Result<Self, Error> {
        let Pipes { requests, replies, script_requests, script_replies } = Pipes::new()?;
        spec.cwd = PathBuf::from(WORKSPACE);
        spec.mounts.extend(mounts(directories, shape.access));
        spec.limits.wall = shape.timeout;
        spec.limits.memory = (shape.memory_mb << 20) + own_memory;
        spec.limits.tmp_size = shape.memory_mb << 20;
        spec.fds = vec![(3, script_requests), (4, script_replies)];
        spec.waits = waits;
        let (stdout, stderr) = (Later::default(), Later::default());
        let output = |later: &Later| Output::Sink { sink: later.sink(), limit: LONGEST_OUTPUT };
        (spec.stdout, spec.stderr) = (output(&stdout), output(&stderr));
        let running = sandbox.spawn(spec).await?;
        Ok(Self { running, pipes: Ends { requests, replies }, stdout, stderr })
    }

    /// Its time begins; what it prints goes there from now on.
    pub(crate) fn begin(self, stdout: Sink, stderr: Sink) -> (Running, Ends) {
        self.stdout.hand_to(stdout);
        self.stderr.hand_to(stderr);
        self.running.begin();
        (self.running, self.pipes)
    }
}

fn mounts(directories: Directories, access: Access) -> impl Iterator<Item = Mount> {
    let target = PathBuf::from(WORKSPACE);
    let records = directories.records.map(|records| Mount {
        source: Source::Fd(records),
        target: target.join(".agent"),
        access: Access::ReadOnly,
    });
    let workspace = Mount { source: Source::Fd(directories.workspace), target, access };
    [workspace].into_iter().chain(records)
}

/// A sink for which nobody listens yet. What comes before is kept, within bounds.
#[derive(Clone, Default)]
struct Later(Arc<Mutex<Listener>>);

enum Listener {
    Nobody(Vec<u8>),
    Somebody(Sink),
}

impl Default for Listener {
    fn default() -> Self {
        Self::Nobody(Vec::new())
    }
}

impl std::fmt::Debug for Later {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Later")
    }
}

impl Later {
    fn sink(&self) -> Sink {
        let later = self.clone();
        Box::new(move |piece| match &mut *later.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Listener::Somebody(sink) => sink(piece),
            Listener::Nobody(kept) => {
                let room = LONGEST_PREFACE.saturating_sub(kept.len());
                kept.extend_from_slice(&piece[..room.min(piece.len())]);
            }
        })
    }

    fn hand_to(&self, mut sink: Sink) {
        let mut listener = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Listener::Nobody(kept) = &*listener
            && !kept.is_empty()
        {
            sink(kept);
        }
        *listener = Listener::Somebody(sink);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_before_somebody_listens_comes_first_and_is_bounded() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let later = Later::default();
        let mut sink = later.sink();
        sink(b"a");
        sink(&vec![b'b'; 1 << 20]);
        let kept = heard.clone();
        later.hand_to(Box::new(move |piece| kept.lock().unwrap().extend_from_slice(piece)));
        sink(b"c");
        let heard = heard.lock().unwrap();
        assert_eq!((heard.len(), heard[0], heard.last()), (LONGEST_PREFACE + 1, b'a', Some(&b'c')));
    }
}

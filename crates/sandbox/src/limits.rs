//! Bounds of a run, how it ended and what it used.

use std::time::Duration;

/// Bounds of one run, over its whole process tree.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Wall time from start to kill.
    pub wall: Duration,
    /// Memory of the tree in bytes, `/tmp` included.
    pub memory: u64,
    /// Processes and threads at once.
    pub processes: u32,
    /// CPU as a share of one core in percent (100 = one core), if bounded.
    pub cpu_percent: Option<u32>,
    /// Size of the private `/tmp` in bytes.
    pub tmp_size: u64,
    /// Inodes of the private `/tmp`.
    pub tmp_inodes: u64,
    /// Largest file that can be written, in bytes.
    pub file_size: u64,
    /// Open files per process.
    pub open_files: u64,
}

impl Default for Limits {
    /// A minute, 512 MB, 128 processes: killing and reaping 128 processes still takes only a few
    /// milliseconds.
    fn default() -> Self {
        Self {
            wall: Duration::from_secs(60),
            memory: 512 << 20,
            processes: 128,
            cpu_percent: None,
            tmp_size: 256 << 20,
            tmp_inodes: 65_536,
            file_size: 1 << 30,
            open_files: 1024,
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The program ended by itself.
    Exited(i32),
    /// A signal ended the program.
    Signaled(i32),
    /// The wall limit was reached; the whole tree was killed.
    TimedOut,
    /// [`Running::kill`](crate::Running::kill) or a drop ended it.
    Cancelled,
    /// The memory limit was reached.
    MemoryLimit,
    /// The run failed after it had met the process limit.
    ProcessLimit,
}

/// What a run used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// From start to end.
    pub wall: Duration,
    /// CPU time of the tree.
    pub cpu: Duration,
    /// Highest memory of the tree in bytes, where it can be known.
    pub peak_memory: u64,
}

/// A run that is over.
#[derive(Clone, Debug)]
pub struct Ended {
    /// How it ended.
    pub ending: Ending,
    /// Standard output as far as captured.
    pub stdout: Captured,
    /// Standard error as far as captured.
    pub stderr: Captured,
    /// What it used.
    pub usage: Usage,
}

/// What is left of an output stream after the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// First bytes.
    pub head: Vec<u8>,
    /// Last bytes; empty when all of it is in `head`.
    pub tail: Vec<u8>,
    /// Bytes written in all.
    pub total: u64,
}

//! Bounds held by looking, where no control group can be had.
//!
//! The cell's init adds up the memory and the processes of its pid namespace every few
//! milliseconds. A cheap upper bound comes first; only where that is too high are shared pages
//! told from private ones. What could not be seen here (`memfd_create`) is denied by seccomp.

use std::fs;
use std::time::Duration;

use super::wire::Overuse;
use crate::plan::Watch;

/// First looks come faster: most runs that go astray do so at once.
const EARLY: Duration = Duration::from_millis(5);
const LATER: Duration = Duration::from_millis(20);
const EARLY_LOOKS: u32 = 40;

/// What has been seen so far.
pub(crate) struct Watcher {
    bounds: Watch,
    looks: u32,
    pub(crate) peak: u64,
    /// The process limit was reached at some look.
    pub(crate) was_full: bool,
}

impl Watcher {
    pub(crate) fn new(bounds: Watch) -> Self {
        Self { bounds, looks: 0, peak: 0, was_full: false }
    }

    /// How long to wait before the next look.
    pub(crate) fn pause(&self) -> Duration {
        if self.looks < EARLY_LOOKS { EARLY } else { LATER }
    }

    /// Looks a last time, when the program itself is gone: it may have met a limit between two looks.
    pub(crate) fn look_back(&mut self) {
        self.look_beside(1);
    }

    /// Looks once; answers what there is too much of.
    pub(crate) fn look(&mut self) -> Option<Overuse> {
        self.look_beside(0)
    }

    /// Looks, with so many processes that are gone counted in.
    fn look_beside(&mut self, gone: u64) -> Option<Overuse> {
        self.looks += 1;
        let processes = processes();
        let mut tasks = gone;
        let mut memory = temporary_files() + system_v_memory();
        let shared = memory;
        for process in &processes {
            let Ok(status) = fs::read_to_string(format!("/proc/{process}/status")) else {
                continue;
            };
            tasks += field(&status, "Threads:").unwrap_or(1);
            let kilobytes = ["RssAnon:", "RssShmem:", "VmPTE:"].map(|key| field(&status, key));
            memory += kilobytes.into_iter().flatten().sum::<u64>() * 1024;
        }
        let most = u64::from(self.bounds.processes);
        self.was_full |= tasks >= most;
        if tasks > most {
            return Some(Overuse::Processes);
        }
        if memory > self.bounds.memory {
            memory = shared + processes.iter().map(|process| exact(*process)).sum::<u64>();
        }
        self.peak = self.peak.max(memory);
        (memory > self.bounds.memory).then_some(Overuse::Memory)
    }
}

/// Every process of the cell but this one, which is the first.
fn processes() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|pid| *pid != 1).collect()
}

/// The number after a key of a `status`-like file.
fn field(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Bytes in the file system that `/tmp` and `/dev/shm` share.
fn temporary_files() -> u64 {
    rustix::fs::statvfs("/tmp")
        .map_or(0, |found| found.f_blocks.saturating_sub(found.f_bfree) * found.f_frsize)
}

/// Bytes in System V segments, attached or not.
fn system_v_memory() -> u64 {
    let table = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    let resident = |line: &str| line.split_whitespace().nth(14)?.parse::<u64>().ok();
    table.lines().skip(1).filter_map(resident).sum()
}

/// A process's share of memory that is no file's: of pages shared with others, its part.
fn exact(process: i32) -> u64 {
    sum_mappings(&fs::read_to_string(format!("/proc/{process}/smaps")).unwrap_or_default())
}

fn sum_mappings(text: &str) -> u64 {
    let mut total = 0;
    let (mut kind, mut share) = (Kind::Private, 0);
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { continue };
        if !first.ends_with(':') {
            kind = Kind::of(words.nth(4).unwrap_or(""));
            continue;
        }
        let number = || line.split_whitespace().nth(1)?.parse::<u64>().ok();
        match (first, kind) {
            ("Pss:", _) => share = number().unwrap_or(0),
            // A file's own pages are the page cache's; only what was written apart counts. Written
            // pages shared with a parent count by the same part as the mapping as a whole.
            ("Anonymous:", Kind::File) => total += share.min(number().unwrap_or(0)),
            ("Anonymous:", Kind::Private) => total += share,
            _ => {}
        }
    }
    total * 1024
}

#[derive(Clone, Copy)]
enum Kind {
    /// Memory of nobody else's.
    Private,
    /// A file of the host or of a workspace.
    File,
    /// Counted where it lives: in `/tmp`, in `/dev/shm`, as a System V segment.
    Elsewhere,
}

impl Kind {
    fn of(name: &str) -> Self {
        let elsewhere = ["/tmp/", "/dev/shm/", "/SYSV"];
        if name.is_empty() || name.starts_with('[') || name.starts_with("/dev/zero") {
            Self::Private
        } else if elsewhere.iter().any(|start| name.starts_with(start)) {
            Self::Elsewhere
        } else {
            Self::File
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_count_by_what_they_are() {
        let mapping = |name: &str, share: u64, anonymous: u64| {
            format!(
                "7f00-7f10 rw-p 00000000 00:00 0 {name}\nSize: 99 kB\nPss: {share} kB\nAnonymous: {anonymous} kB\nVmFlags: rd wr\n"
            )
        };
        let text = mapping("", 100, 200)
            + &mapping("[heap]", 10, 10)
            + &mapping("/usr/lib/libc.so", 1000, 8)
            + &mapping("/dev/zero (deleted)", 50, 0)
            + &mapping("/tmp/file", 5000, 0)
            + &mapping("/SYSV00000000 (deleted)", 700, 0);
        assert_eq!(sum_mappings(&text), (100 + 10 + 8 + 50) * 1024);
    }

    #[test]
    fn nonsense_is_nothing() {
        assert_eq!(sum_mappings("\n\nPss: x\nAnonymous:\n"), 0);
        assert_eq!(field("Threads:\n", "Threads:"), None);
    }
}

//! Bounds held by looking, where no control group can be had.
//!
//! The cell's init adds up the memory and the processes of its pid namespace every few
//! milliseconds. A cheap upper bound comes first; only where that is too high are shared pages
//! told from private ones, in two steps, and never for long: a look that takes too long would be
//! what a hog waits for. What could not be seen here (`memfd_create`, System V messages and
//! semaphores) is denied by seccomp. Memory of the kernel's own is counted for sockets only.

use std::fs;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use super::wire::Overuse;
use crate::plan::Watch;

/// First looks come faster: most runs that go astray do so at once.
const EARLY: Duration = Duration::from_millis(5);
const LATER: Duration = Duration::from_millis(20);
const EARLY_LOOKS: u32 = 40;
/// Longest time for telling shared pages from private ones. Real programs take a tenth of it.
const LONGEST_LOOK: Duration = Duration::from_millis(400);

/// Sockets that are not counted, and what each beyond them may hold.
const FREE_SOCKETS: u64 = 64;
const SOCKET_BUFFER: u64 = 212_992;
/// What the kernel keeps for a file in memory besides its content.
const INODE: u64 = 1024;

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
        let processes: Vec<Process> = processes().into_iter().filter_map(Process::of).collect();
        let tasks = gone + processes.iter().map(|process| process.tasks).sum::<u64>();
        let most = u64::from(self.bounds.processes);
        self.was_full |= tasks >= most;
        if tasks > most {
            return Some(Overuse::Processes);
        }
        let files = temporary_files() + system_v_memory();
        let kernel = socket_memory();
        let resident: u64 = processes.iter().map(|process| process.resident).sum();
        let mut memory = kernel + files + resident;
        if memory > self.bounds.memory {
            let left = self.bounds.memory.saturating_sub(kernel);
            let Some(known) = shared_once(&processes, files, left) else {
                return Some(Overuse::Memory);
            };
            memory = kernel + known;
        }
        self.peak = self.peak.max(memory);
        (memory > self.bounds.memory).then_some(Overuse::Memory)
    }
}

/// What the cheap look sees of one process.
struct Process {
    /// Directory in which its memory is described.
    directory: String,
    tasks: u64,
    /// Pages that are no file's, with the page tables.
    resident: u64,
}

impl Process {
    fn of(pid: i32) -> Option<Self> {
        let directory = format!("/proc/{pid}");
        let status = fs::read_to_string(format!("{directory}/status")).ok()?;
        let tasks = field(&status, "Threads:").unwrap_or(1);
        if tasks > 1 && field(&status, "VmRSS:").is_none() {
            // Its first thread has ended; the memory is described with those that still run.
            let threads = fs::read_dir(format!("{directory}/task")).ok()?;
            let running = threads.flatten().find_map(|thread| {
                let directory = thread.path().to_str()?.to_owned();
                let status = fs::read_to_string(format!("{directory}/status")).ok()?;
                field(&status, "VmRSS:")?;
                Some(Self { directory, tasks, resident: resident(&status) })
            });
            return running.or(Some(Self { directory, tasks, resident: 0 }));
        }
        Some(Self { directory, tasks, resident: resident(&status) })
    }
}

fn resident(status: &str) -> u64 {
    let kilobytes = ["RssAnon:", "RssShmem:", "VmPTE:"].map(|key| field(status, key));
    kilobytes.into_iter().flatten().sum::<u64>() * 1024
}

/// Memory of all the processes with pages that they share counted once, and of the file systems.
///
/// `files` may be mapped too. First the kernel's own sums, which cannot tell that; mapping by
/// mapping only where it decides. Answers nothing when it takes too long to know.
fn shared_once(processes: &[Process], files: u64, bound: u64) -> Option<u64> {
    let start = Instant::now();
    let (mut private, mut shared) = (0, 0);
    for process in processes {
        match fs::read_to_string(format!("{}/smaps_rollup", process.directory)) {
            Ok(sums) => {
                private += field(&sums, "Pss_Anon:").unwrap_or(0) * 1024;
                shared += field(&sums, "Pss_Shmem:").unwrap_or(0) * 1024;
            }
            // Made unreadable by the program itself: it loses the benefit of sharing.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                private += process.resident;
            }
            Err(_) => {}
        }
        if start.elapsed() > LONGEST_LOOK {
            return None;
        }
    }
    if private + shared + files <= bound {
        return Some(private + shared + files);
    }
    let least = private + shared.max(files);
    if least > bound {
        return Some(least);
    }
    let mut total = files;
    for process in processes {
        total += match fs::read_to_string(format!("{}/smaps", process.directory)) {
            Ok(mappings) => sum_mappings(&mappings),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => process.resident,
            Err(_) => 0,
        };
        if start.elapsed() > LONGEST_LOOK {
            return None;
        }
    }
    Some(total)
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

/// Bytes in the file system that `/tmp` and `/dev/shm` share. An empty file takes memory too.
fn temporary_files() -> u64 {
    rustix::fs::statvfs("/tmp").map_or(0, |found| {
        found.f_blocks.saturating_sub(found.f_bfree) * found.f_frsize
            + found.f_files.saturating_sub(found.f_ffree) * INODE
    })
}

/// Bytes in System V segments, attached or not.
fn system_v_memory() -> u64 {
    let table = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    let resident = |line: &str| line.split_whitespace().nth(14)?.parse::<u64>().ok();
    table.lines().skip(1).filter_map(resident).sum()
}

/// Bytes that the cell's sockets may hold in buffers. Those that are on their way in another
/// socket count too.
fn socket_memory() -> u64 {
    let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let sockets = table.lines().skip(1).count() as u64;
    sockets.saturating_sub(FREE_SOCKETS) * SOCKET_BUFFER
}

/// A process's share of memory that is no file's: of pages shared with others, its part.
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
            // A file's own pages are counted elsewhere; of what was written apart, so much. Written
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
    /// A file, counted where it lives: in the page cache, in `/tmp`, as a System V segment.
    File,
}

impl Kind {
    fn of(name: &str) -> Self {
        if name.is_empty() || name.starts_with('[') || name.starts_with("/dev/zero") {
            Self::Private
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
            + &mapping("/SYSV00000000 (deleted)", 700, 0)
            + &mapping("/tmp/written-apart", 60, 30);
        assert_eq!(sum_mappings(&text), (100 + 10 + 8 + 50 + 30) * 1024);
    }

    #[test]
    fn nonsense_is_nothing() {
        assert_eq!(sum_mappings("\n\nPss: x\nAnonymous:\n"), 0);
        assert_eq!(field("Threads:\n", "Threads:"), None);
    }
}

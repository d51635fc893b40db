//! Ending everything that a program started, also what left its group or its session.
//!
//! This process is the one to which orphans are given, so whatever descends from the program can
//! be found as a descendant of this process.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions};

/// How long processes may take to be gone after they were killed.
const PATIENCE: Duration = Duration::from_secs(3);

/// Has orphans given to this process. Where that cannot be, those that left their group survive
/// on a bare host; in a sandbox they end with it.
pub(crate) fn adopt_orphans() {
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Asks the program's group and all descendants to end.
pub(crate) fn ask(leader: Pid) {
    let _ = rustix::process::kill_process_group(leader, Signal::TERM);
    for pid in descendants() {
        let _ = rustix::process::kill_process(pid, Signal::TERM);
    }
}

/// Ends all of them, and answers when they are gone.
pub(crate) fn end(leader: Pid) {
    let until = Instant::now() + PATIENCE;
    let _ = rustix::process::kill_process_group(leader, Signal::KILL);
    loop {
        let left = descendants();
        for pid in &left {
            let _ = rustix::process::kill_process(*pid, Signal::KILL);
        }
        reap(leader);
        if left.is_empty() || Instant::now() > until {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Clears away what has ended, except the program itself, whose end is waited for elsewhere.
fn reap(leader: Pid) {
    for pid in children_of(&processes(), rustix::process::getpid().as_raw_pid()) {
        if let Some(pid) = Pid::from_raw(pid).filter(|pid| *pid != leader) {
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
}

/// Those that live.
pub(crate) fn descendants() -> Vec<Pid> {
    let all = processes();
    let mut found = Vec::new();
    let mut parents = vec![rustix::process::getpid().as_raw_pid()];
    while let Some(parent) = parents.pop() {
        for process in all.iter().filter(|process| process.parent == parent) {
            parents.push(process.pid);
            if !process.ended {
                found.extend(Pid::from_raw(process.pid));
            }
        }
    }
    found
}

fn children_of(all: &[Process], parent: i32) -> Vec<i32> {
    all.iter().filter(|process| process.parent == parent).map(|process| process.pid).collect()
}

struct Process {
    pid: i32,
    parent: i32,
    ended: bool,
}

fn processes() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(process).collect()
}

fn process(pid: i32) -> Option<Process> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 2..)?).ok()?;
    let mut fields = rest.split(' ');
    let ended = matches!(fields.next()?, "Z" | "X");
    Some(Process { pid, parent: fields.next()?.parse().ok()?, ended })
}

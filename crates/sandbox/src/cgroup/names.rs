//! Names of our groups, by which a later server knows which are a dead one's.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::discover::Place;

const PREFIX: &str = "pinfold";

/// `pinfold.<pid namespace>.<pid>.<start time>.<number>`: the namespace and the start time say
/// which process of that number is meant.
pub(super) fn fresh() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let pid = std::process::id();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let (namespace, start) = (pid_namespace().unwrap_or(0), start_time(pid).unwrap_or(0));
    format!("{PREFIX}.{namespace}.{pid}.{start}.{number}")
}

fn pid_namespace() -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    Some(std::fs::metadata("/proc/self/ns/pid").ok()?.ino())
}

fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, so fields count from the last one.
    let fields = stat.get(stat.rfind(')')? + 1..)?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

/// Whether this name is one of ours whose maker is dead. A server of another pid namespace cannot
/// be judged from here and counts as alive.
fn is_of_the_dead(name: &str) -> bool {
    let mut parts = name.split('.');
    if parts.next() != Some(PREFIX) {
        return false;
    }
    let numbers: Option<Vec<u64>> = parts.map(|part| part.parse().ok()).collect();
    let Some([namespace, pid, start, _number]) = numbers.as_deref() else { return false };
    if Some(*namespace) != pid_namespace() {
        return false;
    }
    u32::try_from(*pid).is_ok_and(|pid| start_time(pid) != Some(*start))
}

/// Removes what servers that are dead left behind, beside our own groups and in their parents.
pub(crate) fn remove_leftovers() {
    for place in super::discover::places() {
        for directory in parents(&place) {
            let Ok(entries) = std::fs::read_dir(&directory) else { continue };
            for entry in entries.flatten() {
                if is_of_the_dead(&entry.file_name().to_string_lossy()) {
                    remove_tree(&entry.path());
                }
            }
        }
    }
}

fn parents(place: &Place) -> Vec<PathBuf> {
    place
        .own
        .ancestors()
        .take_while(|ancestor| ancestor.starts_with(&place.mount))
        .map(Path::to_owned)
        .collect()
}

/// Kills what is left in a dead server's groups and removes them.
pub(super) fn remove_tree(directory: &Path) {
    if let Ok(entries) = std::fs::read_dir(directory) {
        for entry in entries.flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                remove_tree(&entry.path());
            }
        }
    }
    for attempt in 0..20 {
        match std::fs::remove_dir(directory) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && attempt < 19 => {
                let processes =
                    std::fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
                for pid in processes.lines().filter_map(|line| line.parse().ok()) {
                    // Zero and below would mean whole groups of processes.
                    if pid > 1 && pid != std::process::id() as i32 {
                        crate::sys::kill(pid, libc::SIGKILL);
                    }
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_dead_server_of_ours_is_cleaned_after() {
        let own = fresh();
        assert!(!is_of_the_dead(&own), "{own}");
        let mut parts: Vec<_> = own.split('.').map(str::to_owned).collect();
        parts[3] = "1".to_owned();
        assert!(is_of_the_dead(&parts.join(".")));
        parts[1] = "1".to_owned();
        assert!(!is_of_the_dead(&parts.join(".")), "another pid namespace");
        for name in ["pinfold", "pinfold.x.1.1.1", "docker", "pinfold.1.2.3", "pinfold.1.2.3.4.5"] {
            assert!(!is_of_the_dead(name), "{name}");
        }
    }
}

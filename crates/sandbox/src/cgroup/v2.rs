//! Groups of the unified hierarchy (v2): a fresh one per run, entered at creation.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::discover::Place;
use super::{Controller, Verdict, names, open, present, read_key, read_number, write};
use crate::level::Layer;
use crate::limits::Limits;

const PERIOD: u64 = 100_000;

/// Our parent group.
#[derive(Debug)]
pub(crate) struct Hierarchy {
    parent: PathBuf,
    controllers: Vec<Controller>,
    next: AtomicU32,
}

impl Hierarchy {
    /// Makes our parent group where this server may, with as many of `wanted` as there are.
    pub(super) fn open(
        places: &[Place],
        wanted: &[Controller],
    ) -> Result<(Self, Vec<Layer>), String> {
        let Some(place) = places.iter().find(|place| place.unified) else {
            return Err("no cgroup file system is mounted that holds this process".to_owned());
        };
        if wanted.is_empty() {
            return Err("not needed".to_owned());
        }
        // The own group first, then those above it that this user may divide (root, or a user whose
        // service manager has given them a part of the tree). A service manager hands a group only
        // what some unit below it asked for, so the first that offers everything is preferred to
        // the first that offers something.
        let mut reason = String::new();
        for at_least in [wanted.len(), 1] {
            let candidates = place.own.ancestors().take_while(|at| at.starts_with(&place.mount));
            for candidate in candidates {
                match Self::open_at(candidate, wanted, at_least) {
                    Ok(found) => return Ok(found),
                    Err(error) if reason.is_empty() => {
                        reason = format!("v2, {} cannot be used: {error}", candidate.display());
                    }
                    Err(_) => {}
                }
            }
        }
        Err(reason)
    }

    fn open_at(
        at: &Path,
        wanted: &[Controller],
        at_least: usize,
    ) -> Result<(Self, Vec<Layer>), String> {
        let listed = |file: &str| {
            let text = std::fs::read_to_string(at.join(file)).unwrap_or_default();
            let has = |wanted: &Controller| text.split_whitespace().any(|n| n == wanted.name());
            wanted.iter().copied().filter(has).collect::<Vec<_>>()
        };
        let offered = listed("cgroup.controllers");
        if offered.is_empty() {
            return Err("it offers none of the controllers".to_owned());
        }
        if offered.len() < at_least {
            return Err("it does not offer all of the controllers".to_owned());
        }
        let text = |error: io::Error| error.to_string();
        let mut leaf = None;
        if listed("cgroup.subtree_control").len() < offered.len() {
            // A group that holds processes cannot be divided: this server moves to a leaf.
            let is_root_group = !at.join("cgroup.type").exists();
            if !is_root_group {
                leaf = Some(move_to_leaf(at)?);
            }
            for controller in &offered {
                write(at, "cgroup.subtree_control", format!("+{}", controller.name()))
                    .map_err(text)?;
            }
        }
        let parent = at.join(names::fresh());
        std::fs::create_dir(&parent).map_err(text)?;
        let made = Self { parent, controllers: offered, next: AtomicU32::new(0) };
        for controller in &made.controllers {
            write(&made.parent, "cgroup.subtree_control", format!("+{}", controller.name()))
                .map_err(text)?;
        }
        let mut found = format!("v2, below {}", at.display());
        if leaf.is_some() {
            found += ", the server in a leaf of its own";
        }
        let layers = made.controllers.iter().map(|has| present(*has, found.clone())).collect();
        Ok((made, layers))
    }

    pub(super) fn has(&self, controller: Controller) -> bool {
        self.controllers.contains(&controller)
    }

    /// A fresh group with its limits set.
    pub(super) fn make(&self, limits: &Limits, without: &[Controller]) -> io::Result<Group> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let group = Group { directory: self.parent.join(number.to_string()) };
        std::fs::create_dir(&group.directory)?;
        for (file, value, needed) in
            settings(limits, |controller| self.has(controller) && !without.contains(&controller))
        {
            match write(&group.directory, file, value) {
                Err(error) if needed => return Err(error),
                _ => {}
            }
        }
        Ok(group)
    }
}

/// The files of a group, what is written to each, and whether it must be there.
fn settings(
    limits: &Limits,
    bounds: impl Fn(Controller) -> bool,
) -> Vec<(&'static str, String, bool)> {
    let mut settings = Vec::new();
    if bounds(Controller::Memory) {
        settings.push(("memory.max", limits.memory.to_string(), true));
        // Absent where swap is not counted.
        settings.push(("memory.swap.max", "0".to_owned(), false));
        // All or nothing: a tree that lost one process is not a result.
        settings.push(("memory.oom.group", "1".to_owned(), false));
    }
    if bounds(Controller::Processes) {
        // One more for the cell's init.
        settings.push(("pids.max", (u64::from(limits.processes) + 1).to_string(), true));
    }
    if let Some(percent) = limits.cpu_percent.filter(|_| bounds(Controller::Cpu)) {
        let quota = u64::from(percent) * PERIOD / 100;
        settings.push(("cpu.max", format!("{quota} {PERIOD}"), true));
    }
    settings
}

impl Drop for Hierarchy {
    fn drop(&mut self) {
        names::remove_tree(&self.parent);
    }
}

/// Moves this process, if it is alone in its group, to a new leaf.
fn move_to_leaf(at: &Path) -> Result<PathBuf, String> {
    let text = |error: io::Error| error.to_string();
    let own = std::process::id().to_string();
    let processes = std::fs::read_to_string(at.join("cgroup.procs")).map_err(text)?;
    if processes.lines().any(|line| line != own) {
        return Err("it holds other processes, so it cannot be divided".to_owned());
    }
    let leaf = at.join(names::fresh());
    std::fs::create_dir(&leaf).map_err(text)?;
    write(&leaf, "cgroup.procs", own).map_err(text)?;
    Ok(leaf)
}

/// The group of one run. Removed with its run.
#[derive(Debug)]
pub(crate) struct Group {
    directory: PathBuf,
}

impl Group {
    pub(super) fn directory(&self) -> io::Result<OwnedFd> {
        open(&self.directory, libc::O_DIRECTORY)
    }

    pub(super) fn file(&self) -> io::Result<OwnedFd> {
        open(&self.directory.join("cgroup.procs"), 0)
    }

    pub(super) fn kill(&self) {
        let _ = write(&self.directory, "cgroup.kill", 1);
    }

    pub(super) fn judge(&self, verdict: &mut Verdict) {
        let at = self.directory.as_path();
        verdict.memory_met |= read_key(at, "memory.events", "oom_kill ").unwrap_or(0) > 0;
        verdict.processes_met |= read_key(at, "pids.events", "max ").unwrap_or(0) > 0;
        verdict.peak_memory = read_number(at, "memory.peak").or(verdict.peak_memory);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        names::remove_tree(&self.directory);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::sys::{self, Forked};

    #[test]
    fn limits_are_written_as_the_kernel_reads_them() {
        let limits =
            Limits { memory: 1 << 20, processes: 9, cpu_percent: Some(150), ..Limits::default() };
        let written = settings(&limits, |_| true);
        let value = |name| written.iter().find(|(file, ..)| *file == name).unwrap().1.as_str();
        assert_eq!(value("memory.max"), "1048576");
        assert_eq!(value("pids.max"), "10");
        assert_eq!(value("cpu.max"), "150000 100000");
        assert!(settings(&limits, |_| false).is_empty());
    }

    #[test]
    fn groups_that_offer_nothing_are_said_to() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("cgroup.controllers"), "hugetlb misc\n").unwrap();
        let error = Hierarchy::open_at(place.path(), &Controller::ALL, 1).unwrap_err();
        assert!(error.contains("none of the controllers"), "{error}");
    }

    #[test]
    fn a_group_that_holds_others_is_not_divided() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("cgroup.procs"), "1\n2\n").unwrap();
        let error = move_to_leaf(place.path()).unwrap_err();
        assert!(error.contains("other processes"), "{error}");
    }

    /// On the real hierarchy, if there is one that this user may write.
    #[test]
    fn a_process_made_in_a_group_is_killed_with_it() {
        let places = super::super::discover::places();
        let Some(place) = places.iter().find(|place| place.unified) else {
            let _ = std::io::Write::write_fmt(
                &mut std::io::stderr(),
                format_args!("SKIPPED: no unified hierarchy is mounted\n"),
            );
            return;
        };
        let parent = place.own.join(names::fresh());
        if std::fs::create_dir(&parent).is_err() {
            let _ = std::io::Write::write_fmt(
                &mut std::io::stderr(),
                format_args!("SKIPPED: {} cannot be written\n", place.own.display()),
            );
            return;
        }
        let hierarchy =
            Hierarchy { parent: parent.clone(), controllers: Vec::new(), next: AtomicU32::new(0) };
        let group = hierarchy.make(&Limits::default(), &[]).unwrap();
        let directory = group.directory().unwrap();
        // The child of a process with threads does nothing but one call at a time.
        match sys::fork(0, Some(directory.as_fd())).unwrap() {
            Forked::Child => loop {
                sys::wait_for_child(std::time::Duration::from_millis(900));
            },
            Forked::Parent { pid, .. } => {
                let members =
                    std::fs::read_to_string(group.directory.join("cgroup.procs")).unwrap();
                assert_eq!(members.trim(), pid.to_string());
                group.kill();
                let reaped = sys::reap(pid, 0).unwrap().unwrap();
                assert_eq!(libc::WTERMSIG(reaped.status), libc::SIGKILL);
            }
        }
        drop(group);
        drop(hierarchy);
        assert!(!parent.exists());
    }
}

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
        // service manager has given them a part of the tree).
        let mut reason = String::new();
        let candidates = place.own.ancestors().take_while(|at| at.starts_with(&place.mount));
        for candidate in candidates {
            match Self::open_at(candidate, wanted) {
                Ok(found) => return Ok(found),
                Err(error) if reason.is_empty() => {
                    reason = format!("v2, {} cannot be used: {error}", candidate.display());
                }
                Err(_) => {}
            }
        }
        Err(reason)
    }

    fn open_at(at: &Path, wanted: &[Controller]) -> Result<(Self, Vec<Layer>), String> {
        let listed = |file: &str| {
            let text = std::fs::read_to_string(at.join(file)).unwrap_or_default();
            let has = |wanted: &Controller| text.split_whitespace().any(|n| n == wanted.name());
            wanted.iter().copied().filter(has).collect::<Vec<_>>()
        };
        let offered = listed("cgroup.controllers");
        if offered.is_empty() {
            return Err("it offers none of the controllers".to_owned());
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
        let bounds = |controller| self.has(controller) && !without.contains(&controller);
        let at = group.directory.as_path();
        if bounds(Controller::Memory) {
            write(at, "memory.max", limits.memory)?;
            // Absent where swap is not counted.
            let _ = write(at, "memory.swap.max", 0);
            // All or nothing: a tree that lost one process is not a result.
            let _ = write(at, "memory.oom.group", 1);
        }
        if bounds(Controller::Processes) {
            // One more for the cell's init.
            write(at, "pids.max", u64::from(limits.processes) + 1)?;
        }
        if let Some(percent) = limits.cpu_percent.filter(|_| bounds(Controller::Cpu)) {
            write(at, "cpu.max", format!("{} {PERIOD}", u64::from(percent) * PERIOD / 100))?;
        }
        Ok(group)
    }
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

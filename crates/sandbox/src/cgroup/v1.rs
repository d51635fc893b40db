//! Groups of the separate hierarchies (v1), kept and used again: a process is attached by writing
//! itself in, and that now and then takes milliseconds in a fresh group.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use super::discover::Place;
use super::{Controller, Verdict, absent, names, open, present, read_key, read_number, write};
use crate::level::Layer;
use crate::limits::Limits;

const PERIOD: u64 = 100_000;
/// No limit, as the memory controller writes it.
const UNLIMITED: &str = "-1";

/// Our parent group in each hierarchy.
#[derive(Debug)]
pub(crate) struct Hierarchies {
    parents: Vec<(Controller, PathBuf)>,
    free: Mutex<Vec<Set>>,
    next: AtomicU32,
}

/// The groups of one run, one per controller.
#[derive(Debug)]
pub(crate) struct Set {
    groups: Vec<(Controller, PathBuf)>,
    /// The files into which a process writes itself.
    files: Vec<(Controller, OwnedFd)>,
    /// Controllers that bound this run.
    bound: Vec<Controller>,
    /// The limits that are set: memory, processes, CPU, for these controllers.
    applied: Option<(u64, u32, Option<u32>, Vec<Controller>)>,
    /// Counts before this run.
    killed_before: u64,
    refused_before: u64,
    /// Whether they are those after the last run.
    judged: bool,
}

impl Hierarchies {
    /// Makes our parent groups below the own ones.
    pub(super) fn open(places: &[Place]) -> (Option<Self>, Vec<Layer>) {
        let name = names::fresh();
        let (mut parents, mut layers) = (Vec::new(), Vec::new());
        for controller in Controller::ALL {
            let has = |place: &&Place| {
                !place.unified && place.controllers.iter().any(|name| name == controller.name())
            };
            let Some(place) = places.iter().find(has) else { continue };
            let parent = place.own.join(&name);
            let shown = place.own.display();
            match std::fs::create_dir(&parent).and_then(|()| usable(controller, &parent)) {
                Ok(()) => {
                    let mut found = format!("v1, below {shown}");
                    if controller == Controller::Memory && !parent.join(MEMORY_AND_SWAP).exists() {
                        found += ", swap not counted";
                    }
                    layers.push(present(controller, found));
                    parents.push((controller, parent));
                }
                Err(error) => {
                    let _ = std::fs::remove_dir(&parent);
                    layers.push(absent(controller, format!("v1, {shown} cannot be used: {error}")));
                }
            }
        }
        let found = (!parents.is_empty()).then(|| Self {
            parents,
            free: Mutex::new(Vec::new()),
            next: AtomicU32::new(0),
        });
        (found, layers)
    }

    pub(super) fn has(&self, controller: Controller) -> bool {
        self.parents.iter().any(|(has, _)| *has == controller)
    }

    /// A set from the pool or a new one, with its limits set.
    pub(super) fn take(&self, limits: &Limits, without: &[Controller]) -> io::Result<Set> {
        let pooled = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(mut set) = pooled {
            match set.assign(limits, without) {
                Ok(()) => return Ok(set),
                // What the last run left is more than the new limit and cannot be given up.
                Err(_) => set.groups.iter().for_each(|(_, group)| names::remove_tree(group)),
            }
        }
        let mut set = self.make()?;
        set.assign(limits, without)?;
        Ok(set)
    }

    fn make(&self) -> io::Result<Set> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (mut groups, mut files) = (Vec::new(), Vec::new());
        for (controller, parent) in &self.parents {
            let group = parent.join(number.to_string());
            std::fs::create_dir(&group)?;
            files.push((*controller, open(&group.join("cgroup.procs"), 0)?));
            groups.push((*controller, group));
        }
        let bound = Vec::new();
        Ok(Set {
            groups,
            files,
            bound,
            applied: None,
            killed_before: 0,
            refused_before: 0,
            judged: true,
        })
    }

    /// Takes a set back after its run. One that still holds a process is not used again.
    pub(super) fn give_back(&self, mut set: Set) {
        let is_empty = set.groups.iter().all(|(_, group)| {
            std::fs::read_to_string(group.join("cgroup.procs")).is_ok_and(|text| text.is_empty())
        });
        if !is_empty {
            set.groups.iter().for_each(|(_, group)| names::remove_tree(group));
            return;
        }
        if !set.judged {
            set.judge(&mut Verdict::default());
        }
        if let Some(memory) = set.directory(Controller::Memory) {
            // What the last run left in the page cache must not count against the next.
            let left = read_number(memory, "memory.usage_in_bytes");
            if left.is_none_or(|left| left > WORTH_EMPTYING) {
                let _ = write(memory, "memory.force_empty", 0);
            }
            let _ = write(memory, "memory.max_usage_in_bytes", 0);
        }
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(set);
    }
}

impl Drop for Hierarchies {
    fn drop(&mut self) {
        for (_, parent) in &self.parents {
            names::remove_tree(parent);
        }
    }
}

const WORTH_EMPTYING: u64 = 4 << 20;
const MEMORY_AND_SWAP: &str = "memory.memsw.limit_in_bytes";

/// Whether the limit of a controller can be set at all.
fn usable(controller: Controller, group: &Path) -> io::Result<()> {
    match controller {
        Controller::Memory => write(group, "memory.limit_in_bytes", UNLIMITED),
        Controller::Processes => write(group, "pids.max", "max"),
        Controller::Cpu => write(group, "cpu.cfs_quota_us", UNLIMITED),
    }
}

impl Set {
    fn directory(&self, controller: Controller) -> Option<&Path> {
        let found = self.groups.iter().find(|(has, _)| *has == controller);
        found.map(|(_, directory)| directory.as_path())
    }

    fn bounds(&self, controller: Controller) -> Option<&Path> {
        self.directory(controller).filter(|_| self.bound.contains(&controller))
    }

    /// Sets the limits of the next run.
    fn assign(&mut self, limits: &Limits, without: &[Controller]) -> io::Result<()> {
        self.judged = false;
        self.bound = Controller::ALL
            .into_iter()
            .filter(|controller| !without.contains(controller))
            .collect();
        let wanted = (limits.memory, limits.processes, limits.cpu_percent, self.bound.clone());
        if self.applied.as_ref() != Some(&wanted) {
            self.limit(limits)?;
            self.applied = Some(wanted);
        }
        Ok(())
    }

    fn limit(&self, limits: &Limits) -> io::Result<()> {
        if let Some(memory) = self.directory(Controller::Memory) {
            let with_swap = memory.join(MEMORY_AND_SWAP).exists();
            // The limit with swap may never be below the one without, at no moment.
            if with_swap {
                write(memory, MEMORY_AND_SWAP, UNLIMITED)?;
            }
            let limit = match self.bounds(Controller::Memory) {
                Some(_) => limits.memory.to_string(),
                None => UNLIMITED.to_owned(),
            };
            write(memory, "memory.limit_in_bytes", &limit)?;
            if with_swap {
                write(memory, MEMORY_AND_SWAP, &limit)?;
            }
        }
        if let Some(processes) = self.directory(Controller::Processes) {
            match self.bounds(Controller::Processes) {
                // One more for the cell's init.
                Some(_) => write(processes, "pids.max", u64::from(limits.processes) + 1)?,
                None => write(processes, "pids.max", "max")?,
            }
        }
        if let Some(cpu) = self.directory(Controller::Cpu) {
            write(cpu, "cpu.cfs_period_us", PERIOD)?;
            match limits.cpu_percent.filter(|_| self.bounds(Controller::Cpu).is_some()) {
                Some(percent) => {
                    write(cpu, "cpu.cfs_quota_us", u64::from(percent) * PERIOD / 100)?;
                }
                None => write(cpu, "cpu.cfs_quota_us", UNLIMITED)?,
            }
        }
        Ok(())
    }

    pub(super) fn files(&self) -> io::Result<Vec<OwnedFd>> {
        // Each entry costs, and where nothing is bounded there is no need to enter.
        let unbounded = self.applied.as_ref().is_none_or(|(_, _, cpu, _)| cpu.is_none());
        let enters = |controller| {
            self.bound.contains(&controller) && !(unbounded && controller == Controller::Cpu)
        };
        let files = self.files.iter().filter(|(controller, _)| enters(*controller));
        files.map(|(_, file)| file.try_clone()).collect()
    }

    fn killed(&self) -> u64 {
        let memory = self.directory(Controller::Memory);
        memory.and_then(|memory| read_key(memory, "memory.oom_control", "oom_kill ")).unwrap_or(0)
    }

    fn refused(&self) -> u64 {
        let processes = self.directory(Controller::Processes);
        processes.and_then(|processes| read_key(processes, "pids.events", "max ")).unwrap_or(0)
    }

    pub(super) fn judge(&mut self, verdict: &mut Verdict) {
        let (killed, refused) = (self.killed(), self.refused());
        verdict.memory_met |= killed > self.killed_before;
        verdict.processes_met |= refused > self.refused_before;
        self.judged = true;
        (self.killed_before, self.refused_before) = (killed, refused);
        if let Some(memory) = self.directory(Controller::Memory) {
            verdict.peak_memory = read_number(memory, "memory.max_usage_in_bytes");
        }
    }
}

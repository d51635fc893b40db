//! Bounds by control group: memory, processes and CPU of a whole tree, whatever its shape.
//!
//! Each controller is used where this host has it: in the unified hierarchy (v2), in one of its
//! own (v1), or some here and some there (hybrid). What cannot be had is said in `found`, and
//! `plan::Watch` takes its place.

mod discover;
mod names;
mod v1;
mod v2;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use crate::level::Layer;
use crate::limits::Limits;

pub(crate) use names::remove_leftovers;

/// The controllers that bound a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Controller {
    Memory,
    Processes,
    Cpu,
}

impl Controller {
    pub(crate) const ALL: [Self; 3] = [Self::Memory, Self::Processes, Self::Cpu];

    /// The kernel's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Processes => "pids",
            Self::Cpu => "cpu",
        }
    }
}

/// Where groups are made on this host, for the life of a sandbox.
#[derive(Debug, Default)]
pub(crate) struct Cgroups {
    separate: Option<v1::Hierarchies>,
    unified: Option<v2::Hierarchy>,
    /// Of each controller, what was found.
    layers: Vec<Layer>,
}

impl Cgroups {
    /// Finds out what can be had; makes this server's own parent groups.
    pub(crate) fn discover(without: bool) -> Self {
        if without {
            let layers = Controller::ALL
                .map(|controller| absent(controller, "switched off by an option".to_owned()))
                .to_vec();
            return Self { layers, ..Self::default() };
        }
        let places = discover::places();
        let (separate, mut layers) = v1::Hierarchies::open(&places);
        let missing: Vec<_> = Controller::ALL
            .into_iter()
            .filter(|wanted| !separate.as_ref().is_some_and(|groups| groups.has(*wanted)))
            .collect();
        let (unified, reason) = match v2::Hierarchy::open(&places, &missing) {
            Ok((unified, found)) => {
                layers.retain(|layer| !found.iter().any(|new: &Layer| new.name == layer.name));
                layers.extend(found);
                (Some(unified), "v2, the group that can be divided does not have it".to_owned())
            }
            Err(reason) => (None, reason),
        };
        for controller in missing {
            let name = layer_name(controller);
            if !layers.iter().any(|layer| layer.name == name) {
                layers.push(absent(controller, reason.clone()));
            }
        }
        Self { separate, unified, layers }
    }

    pub(crate) fn has(&self, controller: Controller) -> bool {
        self.separate.as_ref().is_some_and(|groups| groups.has(controller))
            || self.unified.as_ref().is_some_and(|groups| groups.has(controller))
    }

    pub(crate) fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// A group for one run, with its limits set. `without` lists controllers that do not bound it.
    pub(crate) fn group(
        self: &Arc<Self>,
        limits: &Limits,
        without: &[Controller],
    ) -> std::io::Result<Group> {
        let separate = match &self.separate {
            Some(hierarchies) => Some(hierarchies.take(limits, without)?),
            None => None,
        };
        let unified = match &self.unified {
            Some(hierarchy) => Some(hierarchy.make(limits, without)?),
            None => None,
        };
        Ok(Group { cgroups: Arc::clone(self), separate, unified })
    }
}

/// The groups of one run.
#[derive(Debug)]
pub(crate) struct Group {
    cgroups: Arc<Cgroups>,
    separate: Option<v1::Set>,
    unified: Option<v2::Group>,
}

/// What a group says after the run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Verdict {
    /// The kernel killed something for want of memory.
    pub(crate) memory_met: bool,
    /// A process could not be made.
    pub(crate) processes_met: bool,
    /// Highest memory in bytes.
    pub(crate) peak_memory: Option<u64>,
}

impl Group {
    /// Files into which the cell's first process writes itself.
    pub(crate) fn files(&self) -> std::io::Result<Vec<OwnedFd>> {
        self.separate.as_ref().map_or_else(|| Ok(Vec::new()), v1::Set::files)
    }

    /// The directory in which the cell's first process is made.
    pub(crate) fn directory(&self) -> std::io::Result<Option<OwnedFd>> {
        self.unified.as_ref().map(v2::Group::directory).transpose()
    }

    /// The file of the same group into which a process writes itself.
    pub(crate) fn unified_file(&self) -> std::io::Result<Option<OwnedFd>> {
        self.unified.as_ref().map(v2::Group::file).transpose()
    }

    /// Kills everything in the group, where the kernel has a way.
    pub(crate) fn kill(&self) {
        if let Some(unified) = &self.unified {
            unified.kill();
        }
    }

    pub(crate) fn verdict(&mut self) -> Verdict {
        let mut verdict = Verdict::default();
        if let Some(set) = &mut self.separate {
            set.judge(&mut verdict);
        }
        if let Some(unified) = &self.unified {
            unified.judge(&mut verdict);
        }
        verdict
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let (Some(hierarchies), Some(set)) = (&self.cgroups.separate, self.separate.take()) {
            hierarchies.give_back(set);
        }
    }
}

fn layer_name(controller: Controller) -> String {
    match controller {
        Controller::Memory => "cgroup memory",
        Controller::Processes => "cgroup processes",
        Controller::Cpu => "cgroup cpu",
    }
    .to_owned()
}

fn present(controller: Controller, found: String) -> Layer {
    Layer { name: layer_name(controller), works: true, found, hint: None }
}

fn absent(controller: Controller, found: String) -> Layer {
    let hint = match controller {
        Controller::Memory | Controller::Processes => {
            "limits are held by watching the tree; for exact ones run as root, or delegate a \
             group: systemd-run --user --scope -p Delegate=yes pinfold …"
        }
        Controller::Cpu => {
            "the share of CPU cannot be bounded; run as root, or delegate a group: \
             systemd-run --user --scope -p Delegate=yes pinfold …"
        }
    };
    Layer { name: layer_name(controller), works: false, found, hint: Some(hint.to_owned()) }
}

fn write(directory: &Path, file: &str, value: impl std::fmt::Display) -> std::io::Result<()> {
    use std::io::Write;
    let path = directory.join(file);
    let mut file = std::fs::OpenOptions::new().write(true).open(&path)?;
    // One write, as the kernel takes each for a whole value.
    file.write_all(value.to_string().as_bytes())
}

fn read_number(directory: &Path, file: &str) -> Option<u64> {
    std::fs::read_to_string(directory.join(file)).ok()?.trim().parse().ok()
}

/// The number after `key` in a file of `key number` lines.
fn read_key(directory: &Path, file: &str, key: &str) -> Option<u64> {
    let text = std::fs::read_to_string(directory.join(file)).ok()?;
    text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
}

fn open(path: &Path, flags: i32) -> std::io::Result<OwnedFd> {
    use std::os::unix::fs::OpenOptionsExt;
    let write = flags & libc::O_DIRECTORY == 0;
    let file =
        std::fs::OpenOptions::new().read(!write).write(write).custom_flags(flags).open(path)?;
    Ok(file.into())
}

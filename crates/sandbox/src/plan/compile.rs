//! Checks a spec and turns it into a plan.
//!
//! Every complaint names the field and says what would be right. Nothing is changed silently.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path};
use std::sync::Arc;
use std::time::Duration;

use super::{Act, Bind, Place, Plan, Skip, Watch, skips};
use crate::cgroup::{self, Cgroups, Controller};
use crate::error::Error;
use crate::limits::Limits;
use crate::spec::{Access, Mount, Output, Source, Spec};
use crate::{Way, view};

/// A plan, the descriptors that travel with it, and what stays in the server.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) plan: Plan,
    pub(crate) fds: Vec<OwnedFd>,
    pub(crate) stdout: (Option<OwnedFd>, Output),
    pub(crate) stderr: (Option<OwnedFd>, Output),
    pub(crate) limits: Limits,
    /// See [`Spec::waits`].
    pub(crate) waits: Option<Duration>,
    /// The control groups that bound it, once there are some.
    pub(crate) group: Option<cgroup::Group>,
    /// Kept to name things in errors.
    pub(crate) names: Names,
}

/// How the parts of a plan are called in errors.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) program: String,
    pub(crate) cwd: String,
    pub(crate) binds: Vec<(String, String)>,
}

fn bad(what: impl Into<String>) -> Error {
    Error::BadSpec(what.into())
}

pub(crate) fn compile(spec: Spec) -> Result<Compiled, Error> {
    let program = absolute("program", &spec.program)?;
    let cwd = absolute("cwd", &spec.cwd)?;
    let limits = check_limits(&spec.limits)?;
    let left_out = left_out(&spec);
    let mut fds = Vec::new();
    let mut send = |fd: OwnedFd| {
        fds.push(fd);
        (fds.len() - 1) as u16
    };

    let mut arguments = vec![program.clone()];
    for argument in spec.args {
        arguments.push(without_nul("an argument", argument.into_vec())?);
    }
    let mut environment = Vec::new();
    for (name, value) in spec.env {
        let name = name.into_vec();
        if name.is_empty() || name.contains(&b'=') {
            return Err(bad(format!(
                "environment name {:?} is empty or has a =; give a plain name",
                String::from_utf8_lossy(&name)
            )));
        }
        let mut entry = name;
        entry.push(b'=');
        entry.extend(value.into_vec());
        environment.push(without_nul("an environment entry", entry)?);
    }

    if skips(left_out, Skip::CleanEnvironment) {
        for (name, value) in std::env::vars_os() {
            environment.push([name.into_vec(), value.into_vec()].join(&b'='));
        }
    }

    let mut binds: Vec<Bind> = Vec::new();
    for mount in spec.mounts {
        let (bind, fd) = compile_mount(mount, &binds)?;
        binds.push(Bind { fd: send(fd), ..bind });
    }
    let places = places(&binds);

    let (stdout_reader, stdout) = stream(&spec.stdout)?;
    let (stderr_reader, stderr) = stream(&spec.stderr)?;
    let (stdout, stderr) = (send(stdout), send(stderr));
    let mut given = Vec::new();
    let mut taken = HashSet::new();
    for (number, fd) in spec.fds {
        if !(3..limits.open_files as i32).contains(&number) || !taken.insert(number) {
            return Err(bad(format!(
                "descriptor number {number} cannot be given; use distinct numbers from 3 to {}",
                limits.open_files - 1
            )));
        }
        given.push((number, send(fd)));
    }

    let names = Names {
        program: String::from_utf8_lossy(&program).into_owned(),
        cwd: String::from_utf8_lossy(&cwd).into_owned(),
        binds: binds
            .iter()
            .map(|bind| {
                let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                (text(&bind.source), text(&bind.target))
            })
            .collect(),
    };
    let plan = Plan {
        act: Act::Execute { program, arguments, environment },
        cwd,
        places,
        binds,
        tmp_size: limits.tmp_size,
        tmp_inodes: limits.tmp_inodes,
        rlimits: rlimits(&limits),
        seccomp: Vec::new(),
        stdout,
        stderr,
        fds: given,
        cgroup_files: Vec::new(),
        cgroup_directory: None,
        watch: None,
        left_out,
    };
    Ok(Compiled {
        group: None,
        plan,
        fds,
        stdout: (stdout_reader, spec.stdout),
        stderr: (stderr_reader, spec.stderr),
        limits,
        waits: spec.waits,
        names,
    })
}

impl Compiled {
    /// Bounds the run by control groups as far as there are any, and by a watch beyond.
    pub(crate) fn bound(&mut self, cgroups: &Arc<Cgroups>, way: Way) -> Result<(), Error> {
        let lost = |error: io::Error| {
            Error::KeeperLost(format!("no control group can be made for a run: {error}"))
        };
        let left_out = self.plan.left_out;
        let layers = [
            (Skip::CgroupMemory, Controller::Memory),
            (Skip::CgroupPids, Controller::Processes),
            (Skip::CgroupCpu, Controller::Cpu),
        ];
        let without: Vec<_> = layers
            .into_iter()
            .filter_map(|(layer, controller)| skips(left_out, layer).then_some(controller))
            .collect();
        let group = cgroups.group(&self.limits, &without).map_err(lost)?;
        for file in group.files().map_err(lost)? {
            self.plan.cgroup_files.push(self.fds.len() as u16);
            self.fds.push(file);
        }
        // Only the keeper makes the first process in its group; bubblewrap's writes itself in.
        if way == Way::Bubblewrap {
            if let Some(file) = group.unified_file().map_err(lost)? {
                self.plan.cgroup_files.push(self.fds.len() as u16);
                self.fds.push(file);
            }
        } else if let Some(directory) = group.directory().map_err(lost)? {
            self.plan.cgroup_directory = Some(self.fds.len() as u16);
            self.fds.push(directory);
        }
        self.group = Some(group);
        let memory = cgroups.has(Controller::Memory);
        let processes = cgroups.has(Controller::Processes);
        let bounded = memory && processes;
        if !bounded && !skips(left_out, Skip::Watch) {
            self.plan.watch = Some(Watch {
                memory: if memory { u64::MAX } else { self.limits.memory },
                processes: if processes { u32::MAX } else { self.limits.processes },
            });
        }
        self.plan.rlimits.extend(rlimits_beside(&self.limits, way, memory, processes));
        self.plan.seccomp = crate::seccomp::program(!memory);
        Ok(())
    }
}

#[cfg(feature = "leave-out")]
fn left_out(spec: &Spec) -> u32 {
    spec.leave_out.iter().fold(0, |bits, layer| bits | 1 << *layer as u32)
}

#[cfg(not(feature = "leave-out"))]
fn left_out(_spec: &Spec) -> u32 {
    0
}

fn without_nul(what: &str, bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
    if bytes.contains(&0) {
        return Err(bad(format!("{what} has a NUL byte; remove it")));
    }
    Ok(bytes)
}

/// A path as bytes, if it is absolute and plain.
fn absolute(what: &str, path: &Path) -> Result<Vec<u8>, Error> {
    let plain = path.is_absolute()
        && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !plain {
        return Err(bad(format!("{what} {} must be an absolute path without ..", path.display())));
    }
    // Components, so that doubled slashes and dots do not make two names of one place.
    let path: std::path::PathBuf = path.components().collect();
    without_nul(what, path.into_os_string().into_vec())
}

fn check_limits(limits: &Limits) -> Result<Limits, Error> {
    let at_least = |what: &str, value: u64, least: u64| {
        if value < least {
            return Err(bad(format!("limit {what} is {value}; give at least {least}")));
        }
        Ok(())
    };
    at_least("wall (ms)", limits.wall.as_millis() as u64, 1)?;
    at_least("memory", limits.memory, 1 << 20)?;
    at_least("processes", limits.processes.into(), 1)?;
    at_least("tmp_size", limits.tmp_size, 1 << 12)?;
    at_least("tmp_inodes", limits.tmp_inodes, 16)?;
    at_least("open_files", limits.open_files, 8)?;
    if limits.cpu_percent == Some(0) {
        return Err(bad("limit cpu_percent is 0; give at least 1, or none"));
    }
    let mut limits = limits.clone();
    // What this process may hand on; more would not be had.
    limits.open_files = limits.open_files.min(crate::sys::descriptor_limit());
    Ok(limits)
}

fn compile_mount(mount: Mount, before: &[Bind]) -> Result<(Bind, OwnedFd), Error> {
    let target = absolute("mount target", &mount.target)?;
    let shown = mount.target.display();
    if view::is_reserved(&target) {
        return Err(bad(format!(
            "mount target {shown} is the sandbox's own; choose a place outside /proc, /dev and the system directories"
        )));
    }
    if before.iter().any(|bind| bind.target == target) {
        return Err(bad(format!("mount target {shown} is named twice; name it once")));
    }
    let fd = match mount.source {
        Source::Fd(fd) => fd,
        Source::Path(path) => {
            use std::os::unix::fs::OpenOptionsExt;
            std::fs::OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_PATH)
                .open(&path)
                .map_err(|error| {
                    bad(format!("mount source {} cannot be opened: {error}", path.display()))
                })?
                .into()
        }
    };
    let identity = crate::sys::identity(fd.as_fd())
        .map_err(|error| bad(format!("the source of mount {shown} cannot be examined: {error}")))?;
    let kind = identity.mode & libc::S_IFMT;
    if ![libc::S_IFDIR, libc::S_IFREG, libc::S_IFSOCK].contains(&kind) {
        return Err(bad(format!(
            "the source of mount {shown} is no directory, file or socket; mount one of these"
        )));
    }
    let source = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))
        .map_err(|error| bad(format!("the source of mount {shown} cannot be named: {error}")))?;
    let nested = before.iter().any(|earlier| is_below(&target, &earlier.target));
    let bind = Bind {
        fd: 0,
        in_tmp: target.starts_with(b"/tmp/") && !nested,
        source: without_nul("mount source", source.into_os_string().into_vec())?,
        target,
        directory: identity.is_directory(),
        read_only: mount.access == Access::ReadOnly,
    };
    Ok((bind, fd))
}

fn is_below(path: &[u8], parent: &[u8]) -> bool {
    Path::new(OsStr::from_bytes(path)).starts_with(OsStr::from_bytes(parent))
}

/// The mount points that lie in the root itself, not in something mounted before.
fn places(binds: &[Bind]) -> Vec<Place> {
    let mut places = Vec::new();
    for (position, bind) in binds.iter().enumerate() {
        let nested =
            binds[..position].iter().any(|earlier| is_below(&bind.target, &earlier.target));
        if !nested && !view::is_provided(&bind.target) {
            places.push(Place { path: bind.target.clone(), directory: bind.directory });
        }
    }
    places.sort_by(|a, b| a.path.cmp(&b.path));
    places
}

fn rlimits(limits: &Limits) -> Vec<(u32, u64, u64)> {
    let both = |resource: libc::__rlimit_resource_t, value: u64| (resource, value, value);
    // As seconds of CPU over all of wall time and every core it might use, as a backup of the
    // wall timer only.
    let cpu = limits.wall.as_secs().saturating_mul(64).saturating_add(60);
    vec![
        both(libc::RLIMIT_CORE, 0),
        both(libc::RLIMIT_FSIZE, limits.file_size),
        both(libc::RLIMIT_NOFILE, limits.open_files),
        (libc::RLIMIT_STACK, 8 << 20, 64 << 20),
        both(libc::RLIMIT_MEMLOCK, 64 << 10),
        both(libc::RLIMIT_MSGQUEUE, 0),
        both(libc::RLIMIT_SIGPENDING, 1024),
        both(libc::RLIMIT_RTPRIO, 0),
        both(libc::RLIMIT_NICE, 0),
        both(libc::RLIMIT_CPU, cpu),
    ]
}

/// Limits that depend on what control groups hold. Beside them the number of processes has room, so
/// that it is the group that refuses, and says so.
fn rlimits_beside(
    limits: &Limits,
    way: Way,
    memory: bool,
    processes: bool,
) -> Vec<(u32, u64, u64)> {
    // Behind bubblewrap the cell's first process has the program's own id and counts too.
    let most = u64::from(limits.processes)
        + if processes { 16 } else { u64::from(way == Way::Bubblewrap) };
    let mut beside = vec![(libc::RLIMIT_NPROC, most, most)];
    if !memory {
        // Of one process's own memory; address space is no measure of use.
        beside.push((libc::RLIMIT_DATA, limits.memory, limits.memory));
    }
    beside
}

/// What an output stream is written to, and what of it the server reads.
fn stream(output: &Output) -> Result<(Option<OwnedFd>, OwnedFd), Error> {
    let lost = |error: io::Error| Error::KeeperLost(format!("no output can be had: {error}"));
    if matches!(output, Output::Null) {
        let null = std::fs::OpenOptions::new().write(true).open("/dev/null").map_err(lost)?;
        return Ok((None, null.into()));
    }
    let (reader, writer) = pipe().map_err(lost)?;
    Ok((Some(reader), writer))
}

/// A pipe whose reading end does not block.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let flags = rustix::fs::fcntl_getfl(&reader)?;
    rustix::fs::fcntl_setfl(&reader, flags | rustix::fs::OFlags::NONBLOCK)?;
    Ok((reader, writer))
}

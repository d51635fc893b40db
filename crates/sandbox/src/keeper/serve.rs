//! The keeper's loop: takes plans, makes cells, reports their ends.
//!
//! It never waits for a cell: a cell's own first process makes it, so the next plan is taken at
//! once.

use std::collections::HashMap;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::cell::{self, Ground};
use super::identity::{Identities, outside_id};
use super::template::Templates;
use super::wire::{self, Failure, Report, Stage};
use crate::Way;
use crate::plan::{Plan, Skip};
use crate::sys::{self, Errno, Forked};

/// What the keeper has for its whole life.
pub(crate) struct Context {
    pub(crate) way: Way,
    /// As root: the id of the first cell.
    pub(crate) first_id: u32,
    /// A clean `/proc` of the keeper's pid namespace.
    pub(crate) proc: OwnedFd,
    /// The mount namespace in which host paths are found.
    pub(crate) host: OwnedFd,
    pub(crate) identities: Identities,
    pub(crate) templates: Templates,
    /// Network namespaces that no cell uses: empty, and the dearest thing to make.
    pub(crate) networks: Vec<OwnedFd>,
    /// Which names of `view::PROC_MASKED` this kernel has, and whether each is a directory.
    pub(crate) masks: Vec<(std::ffi::CString, bool)>,
    pub(crate) landlock: u32,
}

impl Context {
    pub(crate) fn new(way: Way, first_id: u32) -> Result<Self, (&'static str, Errno)> {
        let attributes = sys::NO_SUID | sys::NO_DEVICES | sys::NO_EXEC;
        let proc = sys::new_file_system(c"proc", &[], attributes)
            .map_err(|errno| ("mount a /proc", errno))?;
        let host = sys::open(proc.as_fd(), c"self/ns/mnt", libc::O_RDONLY, 0)
            .map_err(|errno| ("open the mount namespace", errno))?;
        let mut masks = Vec::new();
        for name in crate::view::PROC_MASKED {
            let Ok(relative) = sys::c_string(name.as_bytes()) else { continue };
            if let Ok(found) = sys::open(proc.as_fd(), &relative, libc::O_PATH, 0)
                && let Ok(identity) = sys::identity(found.as_fd())
                && let Ok(path) = sys::c_string(format!("/proc/{name}").as_bytes())
            {
                masks.push((path, identity.is_directory()));
            }
        }
        Ok(Self {
            way,
            first_id,
            proc,
            host,
            identities: Identities::default(),
            templates: Templates::default(),
            networks: Vec::new(),
            masks,
            landlock: sys::landlock_version().unwrap_or(0),
        })
    }

    pub(crate) fn namespace_of(&self, pid: i32, kind: &str) -> Result<OwnedFd, Errno> {
        let path = sys::c_string(format!("{pid}/ns/{kind}").as_bytes())?;
        sys::open(self.proc.as_fd(), &path, libc::O_RDONLY, 0)
    }

    pub(crate) fn write_proc(&self, pid: i32, file: &str, text: &str) -> Result<(), Errno> {
        let path = sys::c_string(format!("{pid}/{file}").as_bytes())?;
        sys::write_file(self.proc.as_fd(), &path, text.as_bytes())
    }

    pub(crate) fn own_mount_namespace(&self) -> Result<OwnedFd, Errno> {
        let path: &CStr = c"self/ns/mnt";
        sys::open(self.proc.as_fd(), path, libc::O_RDONLY, 0)
    }
}

const KEPT_NETWORKS: usize = 64;

/// A cell that lives.
struct Live {
    slot: u32,
    report: OwnedFd,
    /// The server does not listen any more; it was killed for that.
    forsaken: bool,
    /// Given back when the cell is gone: nothing in it can have outlived the processes.
    network: Option<OwnedFd>,
}

/// Serves until the server is gone.
pub(crate) fn serve(socket: &OwnedFd, mut context: Context) {
    let Ok(children) = sys::child_events() else { return };
    // Each cell that lives holds a few, and those of a plan are put above all that it names.
    sys::raise_descriptor_limit();
    let mut live: HashMap<i32, Live> = HashMap::new();
    loop {
        let Some(news) = wait(socket, &children, &live) else { continue };
        for pid in news.forsaken {
            sys::kill(pid, libc::SIGKILL);
            if let Some(cell) = live.get_mut(&pid) {
                cell.forsaken = true;
            }
        }
        let (asked, ended) = (news.asked, news.ended);
        if ended {
            let mut buffer = [0u8; 1024];
            let _ = rustix::io::read(&children, &mut buffer);
            reap_cells(&mut live, &mut context);
        }
        if asked {
            match wire::receive::<Plan>(socket.as_fd()) {
                Ok(Some((plan, fds))) => start(plan, fds, &mut context, &mut live),
                Ok(None) => return,
                // What cannot be read has no report socket that could be trusted.
                Err(Errno(libc::EBADMSG | libc::EMSGSIZE)) => {}
                Err(_) => return,
            }
        }
    }
}

struct News {
    asked: bool,
    ended: bool,
    /// Cells of which nobody hears any more, so that nobody would end them in time.
    forsaken: Vec<i32>,
}

fn wait(socket: &OwnedFd, children: &OwnedFd, live: &HashMap<i32, Live>) -> Option<News> {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut events = vec![PollFd::new(socket, PollFlags::IN), PollFd::new(children, PollFlags::IN)];
    let cells: Vec<_> = live.iter().filter(|(_, cell)| !cell.forsaken).collect();
    events.extend(cells.iter().map(|(_, cell)| PollFd::new(&cell.report, PollFlags::empty())));
    poll(&mut events, None).ok()?;
    let happened: Vec<_> = events.iter().map(|event| !event.revents().is_empty()).collect();
    let forsaken = cells.iter().zip(&happened[2..]).filter(|(_, hung_up)| **hung_up);
    Some(News {
        asked: happened[0],
        ended: happened[1],
        forsaken: forsaken.map(|((pid, _), _)| **pid).collect(),
    })
}

fn reap_cells(live: &mut HashMap<i32, Live>, context: &mut Context) {
    while let Ok(Some(reaped)) = sys::reap(-1, libc::WNOHANG) {
        let Some(cell) = live.remove(&reaped.pid) else { continue };
        context.identities.give_back(cell.slot);
        if context.networks.len() < KEPT_NETWORKS {
            context.networks.extend(cell.network);
        }
        let _ = wire::send(cell.report.as_fd(), &Report::over(&reaped), &[]);
    }
}

fn start(plan: Plan, mut fds: Vec<OwnedFd>, context: &mut Context, live: &mut HashMap<i32, Live>) {
    if fds.is_empty() {
        return;
    }
    let report = fds.remove(0);
    let slot = context.identities.take();
    let network = if plan.skips(Skip::NetNamespace) { None } else { context.networks.pop() };
    match make(&plan, &fds, &report, slot, network.as_ref(), context) {
        Ok(pid) => {
            // One that was made with the cell serves others after it.
            let network = match network {
                None if !plan.skips(Skip::NetNamespace) => context.namespace_of(pid, "net").ok(),
                other => other,
            };
            live.insert(pid, Live { slot, report, forsaken: false, network });
        }
        Err(failure) => {
            context.identities.give_back(slot);
            let _ = wire::send(report.as_fd(), &Report::Failed(failure), &[]);
        }
    }
}

fn make(
    plan: &Plan,
    fds: &[OwnedFd],
    report: &OwnedFd,
    slot: u32,
    network: Option<&OwnedFd>,
    context: &mut Context,
) -> Result<i32, Failure> {
    let get = |position: u16| {
        fds.get(usize::from(position))
            .map(AsFd::as_fd)
            .ok_or(Stage::Plan.failed(Errno(libc::EBADF)))
    };
    super::identity::prepare(plan, fds, slot, context)?;
    super::template::prepare(plan, context)?;
    let mut flags = 0;
    let namespaces = [
        (Skip::PidNamespace, libc::CLONE_NEWPID),
        (Skip::IpcNamespace, libc::CLONE_NEWIPC),
        (Skip::UtsNamespace, libc::CLONE_NEWUTS),
    ];
    for (layer, flag) in namespaces {
        if !plan.skips(layer) {
            flags |= flag as u64;
        }
    }
    if network.is_none() && !plan.skips(Skip::NetNamespace) {
        flags |= libc::CLONE_NEWNET as u64;
    }
    let cgroup: Option<BorrowedFd<'_>> = plan.cgroup_directory.map(get).transpose()?;
    match sys::fork(flags, cgroup).map_err(|errno| Stage::Namespaces.failed(errno))? {
        Forked::Parent { pid, pidfd } => {
            let _ = wire::send(report.as_fd(), &Report::Made, &[pidfd.as_fd()]);
            Ok(pid)
        }
        Forked::Child => {
            let ground = Ground {
                way: context.way,
                outside_id: outside_id(context, slot),
                user_namespace: context.identities.cell(slot).map(AsFd::as_fd),
                landlock: context.landlock,
                network: network.map(AsFd::as_fd),
                fds,
                report,
            };
            let failure = match cell::make(plan, &ground, context, slot) {
                Err(failure) => failure,
                Ok(()) => super::init::run(plan, &ground),
            };
            let _ = wire::send(report.as_fd(), &Report::Failed(failure), &[]);
            sys::end(1)
        }
    }
}

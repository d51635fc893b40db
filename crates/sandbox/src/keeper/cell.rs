//! Makes a cell, in its own first process: joins the cgroup, takes a copy of the template's
//! mounts, adds `/tmp`, `/proc` and the mounts of the plan.
//!
//! Still with the keeper's rights; `seal` gives them up, in the process that executes.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::serve::Context;
use super::template::make_place;
use super::wire::{Failure, Stage};
use crate::Way;
use crate::plan::{Bind, Place, Plan, Skip};
use crate::sys::{self, Errno};
use crate::view;

/// What a cell is made from.
pub(crate) struct Ground<'a> {
    pub(crate) way: Way,
    /// The id of the cell in the keeper's user namespace.
    pub(crate) outside_id: u32,
    /// The cell's user namespace; none where bubblewrap made it already.
    pub(crate) user_namespace: Option<BorrowedFd<'a>>,
    pub(crate) landlock: u32,
    /// A network namespace made ahead, to be entered.
    pub(crate) network: Option<BorrowedFd<'a>>,
    pub(crate) fds: &'a [OwnedFd],
    pub(crate) report: &'a OwnedFd,
}

impl Ground<'_> {
    pub(crate) fn fd(&self, position: u16) -> Result<BorrowedFd<'_>, Failure> {
        let found = self.fds.get(usize::from(position)).map(AsFd::as_fd);
        found.ok_or(Stage::Plan.failed(Errno(libc::EBADF)))
    }
}

/// Makes the cell around this process.
pub(crate) fn make(
    plan: &Plan,
    ground: &Ground<'_>,
    context: &Context,
    slot: u32,
) -> Result<(), Failure> {
    join_groups(plan, ground)?;
    if let Some(network) = ground.network {
        sys::enter_namespace(network, libc::CLONE_NEWNET)
            .map_err(|errno| Stage::Namespaces.failed(errno))?;
    }
    let mut trees = Vec::new();
    for (position, bind) in plan.binds.iter().enumerate() {
        trees.push(take(position, bind, plan, ground, (context, slot))?);
    }
    enter_template(plan, context).map_err(|errno| Stage::Namespaces.failed(errno))?;
    mount_tmp(plan).map_err(|errno| Stage::Tmp.failed(errno))?;
    mount_proc(plan, context).map_err(|errno| Stage::Proc.failed(errno))?;
    for (position, (bind, tree)) in plan.binds.iter().zip(&trees).enumerate() {
        put(bind, tree).map_err(|errno| Stage::MountTarget.failed_at(position, errno))?;
    }
    Ok(())
}

/// Writes this process into the groups that bound the run.
pub(crate) fn join_groups(plan: &Plan, ground: &Ground<'_>) -> Result<(), Failure> {
    for (position, file) in plan.cgroup_files.iter().enumerate() {
        sys::write(ground.fd(*file)?, b"0")
            .map_err(|errno| Stage::Cgroup.failed_at(position, errno))?;
    }
    Ok(())
}

/// A detached copy of what a bind names, found by its path in the keeper's own namespace and
/// compared with the file that the server opened.
fn take(
    position: usize,
    bind: &Bind,
    plan: &Plan,
    ground: &Ground<'_>,
    (context, slot): (&Context, u32),
) -> Result<OwnedFd, Failure> {
    let failed = |errno| Stage::MountSource.failed_at(position, errno);
    let path = sys::c_string(&bind.source).map_err(failed)?;
    let meant = sys::identity(ground.fd(bind.fd)?).map_err(failed)?;
    let flags = libc::O_PATH | libc::O_NOFOLLOW;
    let found = sys::open(sys::AT_CWD, &path, flags, sys::RESOLVE_NO_LINKS).map_err(failed)?;
    if !sys::identity(found.as_fd()).map_err(failed)?.same_file(&meant) {
        return Err(failed(Errno(libc::ESTALE)));
    }
    let tree = sys::clone_tree(found.as_fd(), c"").map_err(failed)?;
    let mut attributes = 0;
    if bind.read_only && !plan.skips(Skip::ReadOnly) {
        attributes |= sys::READ_ONLY;
    }
    if !plan.skips(Skip::Nosuid) {
        attributes |= sys::NO_SUID | sys::NO_DEVICES;
    }
    if attributes != 0 {
        sys::restrict_mount(tree.as_fd(), attributes).map_err(failed)?;
    }
    // Read-only mounts are mapped too, so that a read-only workspace can be read by its owner.
    if context.way == Way::Root && !plan.skips(Skip::Capabilities) {
        let namespace = context.identities.owner(slot, meant.uid, meant.gid);
        let namespace = namespace.ok_or(failed(Errno(libc::ENOENT)))?;
        let mapped = sys::map_owners(tree.as_fd(), namespace.as_fd());
        // Unmapped, a read-only mount shows less, never more.
        if let Err(errno) = mapped
            && !bind.read_only
        {
            return Err(Stage::MountOwners.failed_at(position, errno));
        }
    }
    sys::make_private(tree.as_fd()).map_err(failed)?;
    Ok(tree)
}

fn enter_template(plan: &Plan, context: &Context) -> Result<(), Errno> {
    if !plan.skips(Skip::UtsNamespace) {
        sys::set_host_name(view::HOST_NAME.as_bytes())?;
    }
    sys::enter_namespace(context.templates.current()?, libc::CLONE_NEWNS)?;
    let cgroup = if plan.skips(Skip::CgroupNamespace) { 0 } else { libc::CLONE_NEWCGROUP };
    sys::leave_namespaces(libc::CLONE_NEWNS | cgroup)
}

/// The private `/tmp`; `/dev/shm` is a link to it, so that one bound holds for both.
fn mount_tmp(plan: &Plan) -> Result<(), Errno> {
    let size = CString::new(plan.tmp_size.to_string()).map_err(|_| Errno(libc::EINVAL))?;
    let inodes =
        CString::new((plan.tmp_inodes + 1).to_string()).map_err(|_| Errno(libc::EINVAL))?;
    let bounds =
        [(c"mode", c"1777"), (c"size", size.as_c_str()), (c"nr_inodes", inodes.as_c_str())];
    let bounds = if plan.skips(Skip::TmpLimits) { &bounds[..1] } else { &bounds[..] };
    let attributes = if plan.skips(Skip::Nosuid) { 0 } else { sys::NO_SUID | sys::NO_DEVICES };
    let store = sys::new_file_system(c"tmpfs", bounds, attributes)?;
    let over = sys::open(sys::AT_CWD, c"/tmp", libc::O_PATH, 0)?;
    sys::attach(store.as_fd(), over.as_fd())
}

fn mount_proc(plan: &Plan, context: &Context) -> Result<(), Errno> {
    let attributes = sys::NO_SUID | sys::NO_DEVICES | sys::NO_EXEC;
    let hidden: &[_] =
        if plan.skips(Skip::ProcMasks) { &[] } else { &[(c"hidepid", c"invisible")] };
    let proc = sys::new_file_system(c"proc", hidden, attributes)?;
    if context.way != Way::Root {
        sys::detach(c"/proc")?;
    }
    let over = sys::open(sys::AT_CWD, c"/proc", libc::O_PATH, 0)?;
    sys::attach(proc.as_fd(), over.as_fd())?;
    // The cell goes first when memory is short, not the server.
    let _ = sys::write_file(proc.as_fd(), c"self/oom_score_adj", b"500");
    if plan.skips(Skip::ProcMasks) {
        return Ok(());
    }
    if !plan.skips(Skip::MountView) {
        for (path, directory) in &context.masks {
            let from = if *directory { view::EMPTY_DIRECTORY } else { view::EMPTY_FILE };
            sys::bind(from, path)?;
        }
    }
    sys::restrict_mount(proc.as_fd(), sys::READ_ONLY)
}

/// Attaches a bind at its target. No link is followed on the way: a script may have put one into
/// a workspace that is mounted already.
fn put(bind: &Bind, tree: &OwnedFd) -> Result<(), Errno> {
    let relative = sys::c_string(bind.target.strip_prefix(b"/").unwrap_or(&bind.target))?;
    let root = sys::open(sys::AT_CWD, c"/", libc::O_PATH | libc::O_DIRECTORY, 0)?;
    if bind.in_tmp {
        let place = Place { path: bind.target.clone(), directory: bind.directory };
        make_place(root.as_fd(), &place)?;
    }
    let resolve = sys::RESOLVE_NO_LINKS | sys::RESOLVE_BENEATH;
    let place = sys::open(root.as_fd(), &relative, libc::O_PATH | libc::O_NOFOLLOW, resolve)?;
    sys::attach(tree.as_fd(), place.as_fd())
}

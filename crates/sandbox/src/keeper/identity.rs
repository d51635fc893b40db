//! Who a cell is: one user namespace per live cell, kept and used again.
//!
//! As root each live cell has an id of its own from a high range, so that two cells are strangers
//! to each other even outside their namespaces. A user namespace is entered last, after the
//! mounts: they belong to the namespace outside, and no capability inside reaches them.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::{AsFd, OwnedFd};

use super::serve::Context;
use super::wire::{Failure, Stage};
use crate::Way;
use crate::plan::Plan;
use crate::sys::{self, Errno, Forked};
use crate::view::INSIDE_ID;

/// First id of the range, as root. Far above what distributions and container engines hand out.
const FIRST_ID: u32 = 0x4000_0000;
/// Id of every cell's init, as root.
pub(crate) const INIT_ID: u32 = FIRST_ID - 1;

/// Slots and the namespaces made for them.
#[derive(Default)]
pub(crate) struct Identities {
    free: BTreeSet<u32>,
    next: u32,
    cells: HashMap<u32, OwnedFd>,
    /// By slot and by owner (uid, gid) of what is mounted.
    owners: HashMap<(u32, u32, u32), OwnedFd>,
}

impl Identities {
    /// The lowest free slot, so that the namespaces made before are used again.
    pub(crate) fn take(&mut self) -> u32 {
        if let Some(slot) = self.free.pop_first() {
            return slot;
        }
        self.next += 1;
        self.next - 1
    }

    pub(crate) fn give_back(&mut self, slot: u32) {
        self.free.insert(slot);
    }

    pub(crate) fn cell(&self, slot: u32) -> Option<&OwnedFd> {
        self.cells.get(&slot)
    }

    pub(crate) fn owner(&self, slot: u32, uid: u32, gid: u32) -> Option<&OwnedFd> {
        self.owners.get(&(slot, uid, gid))
    }
}

/// Where a keeper's ids begin, by its number as the server sees it: two servers on one host, or two
/// sandboxes in one, hand out different ones.
pub(crate) fn first_id(keeper: u32) -> u32 {
    FIRST_ID + ((keeper & 0xFFFF) << 12)
}

/// The id of a slot in the keeper's user namespace.
pub(crate) fn outside_id(context: &Context, slot: u32) -> u32 {
    if context.way == Way::Root { context.first_id + slot } else { 0 }
}

/// Makes the namespaces that this plan needs, unless they are there.
pub(crate) fn prepare(
    plan: &Plan,
    fds: &[OwnedFd],
    slot: u32,
    context: &mut Context,
) -> Result<(), Failure> {
    let outside = outside_id(context, slot);
    let failed = |errno| Stage::UserNamespace.failed(errno);
    if context.identities.cell(slot).is_none() {
        let made = user_namespace(context, (INSIDE_ID, INSIDE_ID), outside).map_err(failed)?;
        context.identities.cells.insert(slot, made);
    }
    if context.way != Way::Root {
        return Ok(());
    }
    for (position, bind) in plan.binds.iter().enumerate() {
        let fd = fds.get(usize::from(bind.fd)).ok_or(Stage::Plan.failed(Errno(libc::EBADF)))?;
        let owner = sys::identity(fd.as_fd())
            .map_err(|errno| Stage::MountSource.failed_at(position, errno))?;
        if context.identities.owner(slot, owner.uid, owner.gid).is_none() {
            let made = user_namespace(context, (owner.uid, owner.gid), outside).map_err(failed)?;
            // Owners differ per mount only in unusual set-ups; the bound keeps a long life from
            // collecting descriptors.
            if context.identities.owners.len() > 2048 {
                context.identities.owners.clear();
            }
            context.identities.owners.insert((slot, owner.uid, owner.gid), made);
        }
    }
    Ok(())
}

/// Whether owners can be mapped on the root file system: tried, on a copy that is thrown away.
pub(crate) fn can_map_owners(context: &Context) -> bool {
    let mapped = || -> Result<(), Errno> {
        let namespace = user_namespace(context, (0, 0), outside_id(context, 0))?;
        let tree = sys::clone_one(c"/")?;
        sys::map_owners(tree.as_fd(), namespace.as_fd())
    };
    context.way == Way::Root && mapped().is_ok()
}

/// A user namespace that maps one inside uid and gid to one outside id, made by a child that ends
/// at once.
fn user_namespace(context: &Context, inside: (u32, u32), outside: u32) -> Result<OwnedFd, Errno> {
    match sys::fork(libc::CLONE_NEWUSER as u64, None)? {
        Forked::Child => loop {
            std::thread::sleep(std::time::Duration::from_secs(3600));
        },
        Forked::Parent { pid, pidfd: _ } => {
            let made = (|| {
                context.write_proc(pid, "uid_map", &format!("{} {outside} 1", inside.0))?;
                context.write_proc(pid, "gid_map", &format!("{} {outside} 1", inside.1))?;
                context.namespace_of(pid, "user")
            })();
            sys::kill(pid, libc::SIGKILL);
            let _ = sys::reap(pid, 0);
            made
        }
    }
}

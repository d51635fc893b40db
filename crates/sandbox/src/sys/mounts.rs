//! Mounts: detached trees, their attributes, new file systems.
#![expect(unsafe_code, reason = "raw system calls")]

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use super::{Result, change_directory, check, owned};

const OPEN_TREE_CLONE: u32 = 1;
const AT_RECURSIVE: u32 = 0x8000;

/// A detached copy of one mount, without those below it.
pub(crate) fn clone_one(path: &CStr) -> Result<OwnedFd> {
    let flags = OPEN_TREE_CLONE | libc::O_CLOEXEC as u32;
    // SAFETY: `path` lives through the call.
    owned(unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) })
}

/// A detached copy of what is mounted at `path` below `dir` (empty: `dir` itself), with all
/// mounts below it.
pub(crate) fn clone_tree(dir: BorrowedFd<'_>, path: &CStr) -> Result<OwnedFd> {
    let flags = OPEN_TREE_CLONE
        | AT_RECURSIVE
        | libc::AT_EMPTY_PATH as u32
        | libc::AT_SYMLINK_NOFOLLOW as u32
        | libc::O_CLOEXEC as u32;
    // SAFETY: `path` lives through the call.
    owned(unsafe { libc::syscall(libc::SYS_open_tree, dir.as_raw_fd(), path.as_ptr(), flags) })
}

/// Attaches a detached tree at the place that `to` refers to.
pub(crate) fn attach(tree: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<()> {
    const FROM_EMPTY: u32 = 0x4;
    const TO_EMPTY: u32 = 0x40;
    // SAFETY: both paths are static empty strings.
    check(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree.as_raw_fd(),
            c"".as_ptr(),
            to.as_raw_fd(),
            c"".as_ptr(),
            FROM_EMPTY | TO_EMPTY,
        )
    })?;
    Ok(())
}

pub(crate) const READ_ONLY: u64 = 0x1;
pub(crate) const NO_SUID: u64 = 0x2;
pub(crate) const NO_DEVICES: u64 = 0x4;
pub(crate) const NO_EXEC: u64 = 0x8;
const ID_MAP: u64 = 0x0010_0000;

#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

fn change_mount(tree: BorrowedFd<'_>, attributes: &MountAttributes) -> Result<()> {
    // SAFETY: `attributes` lives through the call and has the size that is stated.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH as u32 | AT_RECURSIVE,
            std::ptr::from_ref(attributes),
            size_of::<MountAttributes>(),
        )
    })?;
    Ok(())
}

/// Adds attributes to a mount and all below it.
pub(crate) fn restrict_mount(tree: BorrowedFd<'_>, set: u64) -> Result<()> {
    change_mount(tree, &MountAttributes { set, clear: 0, propagation: 0, user_namespace: 0 })
}

/// Lets a mount and all below it neither send nor receive mounts.
pub(crate) fn make_private(tree: BorrowedFd<'_>) -> Result<()> {
    let propagation = libc::MS_PRIVATE;
    change_mount(tree, &MountAttributes { set: 0, clear: 0, propagation, user_namespace: 0 })
}

/// Maps the owners of files in a detached tree as the user namespace says.
pub(crate) fn map_owners(tree: BorrowedFd<'_>, user_namespace: BorrowedFd<'_>) -> Result<()> {
    let user_namespace = user_namespace.as_raw_fd() as u64;
    change_mount(tree, &MountAttributes { set: ID_MAP, clear: 0, propagation: 0, user_namespace })
}

/// A new, detached instance of a file system.
pub(crate) fn new_file_system(
    kind: &CStr,
    options: &[(&CStr, &CStr)],
    attributes: u64,
) -> Result<OwnedFd> {
    const SET_STRING: u32 = 1;
    const CREATE: u32 = 6;
    const CLOEXEC: u32 = 1;
    // SAFETY: `kind` lives through the call.
    let context = owned(unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), CLOEXEC) })?;
    for (key, value) in options {
        // SAFETY: both strings live through the call.
        check(unsafe {
            libc::syscall(
                libc::SYS_fsconfig,
                context.as_raw_fd(),
                SET_STRING,
                key.as_ptr(),
                value.as_ptr(),
                0,
            )
        })?;
    }
    let nothing = std::ptr::null::<libc::c_char>();
    // SAFETY: this command takes null for key and value.
    check(unsafe {
        libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), CREATE, nothing, nothing, 0)
    })?;
    // SAFETY: no pointers.
    owned(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), CLOEXEC, attributes) })
}

/// Binds one place onto another by path, in one call.
pub(crate) fn bind(from: &CStr, to: &CStr) -> Result<()> {
    let nothing = std::ptr::null();
    let (from, to) = (from.as_ptr(), to.as_ptr());
    // SAFETY: both strings live through the call; a bind takes null for kind and data.
    check(unsafe { libc::mount(from, to, nothing, libc::MS_BIND, nothing.cast()) } as _)?;
    Ok(())
}

/// Makes every mount of this namespace receive, but not send, mounts.
pub(crate) fn make_all_slaves() -> Result<()> {
    let nothing = std::ptr::null();
    let flags = libc::MS_REC | libc::MS_SLAVE;
    // SAFETY: static string; a change of propagation takes null for the rest.
    check(unsafe { libc::mount(nothing, c"/".as_ptr(), nothing, flags, nothing.cast()) } as _)?;
    Ok(())
}

pub(crate) fn detach(path: &CStr) -> Result<()> {
    // SAFETY: `path` lives through the call.
    check(unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) } as _)?;
    Ok(())
}

/// Makes the current directory the root and detaches the old one.
pub(crate) fn pivot_to_current_directory() -> Result<()> {
    let here = c".";
    // SAFETY: static strings.
    check(unsafe { libc::syscall(libc::SYS_pivot_root, here.as_ptr(), here.as_ptr()) })?;
    // The old root now lies over the new one at the same place.
    detach(here)?;
    change_directory(c"/")
}

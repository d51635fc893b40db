//! The system calls that neither std nor rustix offers in the form the keeper needs.
//!
//! Thin and total: each function makes one call (or one short, fixed sequence), owns what it
//! opens, and answers the error number. No policy here.
#![expect(unsafe_code, reason = "raw system calls")]

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

mod mounts;
mod processes;
mod rights;

pub(crate) use mounts::{
    NO_DEVICES, NO_EXEC, NO_SUID, READ_ONLY, attach, bind, clone_one, clone_tree, detach,
    make_all_slaves, make_private, map_owners, new_file_system, pivot_to_current_directory,
    restrict_mount,
};
pub(crate) use processes::{
    Forked, Reaped, child_events, end, enter_namespace, execute, fork, kill, leave_namespaces,
    open_process, own_process, pass_on, reap, reset_signals, signal_process, wait_for_child, watch,
};
pub(crate) use rights::{
    control, descriptor_limit, drop_groups, keep_capabilities, landlock_allow, landlock_enter,
    landlock_ruleset, landlock_version, limit, new_session, raise_descriptor_limit, seccomp,
    set_host_name, set_ids,
};

/// An error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Errno(pub(crate) i32);

impl Errno {
    pub(crate) fn last() -> Self {
        Self(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    }
}

impl std::fmt::Display for Errno {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::io::Error::from_raw_os_error(self.0).fmt(f)
    }
}

pub(crate) type Result<T> = std::result::Result<T, Errno>;

fn check(answer: libc::c_long) -> Result<libc::c_long> {
    if answer < 0 { Err(Errno::last()) } else { Ok(answer) }
}

fn owned(answer: libc::c_long) -> Result<OwnedFd> {
    let number = check(answer)? as RawFd;
    // SAFETY: the kernel just made this descriptor for us and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Bytes as a C string; an inner NUL is `EINVAL`.
pub(crate) fn c_string(bytes: &[u8]) -> Result<CString> {
    CString::new(bytes).map_err(|_| Errno(libc::EINVAL))
}

pub(crate) const AT_CWD: BorrowedFd<'static> =
    // SAFETY: AT_FDCWD is no real descriptor; it is only handed to calls that know it.
    unsafe { BorrowedFd::borrow_raw(libc::AT_FDCWD) };

#[repr(C)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

pub(crate) const RESOLVE_NO_LINKS: u64 = 0x02 | 0x04;
pub(crate) const RESOLVE_BENEATH: u64 = 0x08;

/// `openat2`, close-on-exec.
pub(crate) fn open(dir: BorrowedFd<'_>, path: &CStr, flags: i32, resolve: u64) -> Result<OwnedFd> {
    let mode = if flags & libc::O_CREAT != 0 { 0o644 } else { 0 };
    let how = OpenHow { flags: (flags | libc::O_CLOEXEC) as u32 as u64, mode, resolve };
    // SAFETY: `path` and `how` live through the call and `how` has the size that is stated.
    owned(unsafe {
        libc::syscall(
            libc::SYS_openat2,
            dir.as_raw_fd(),
            path.as_ptr(),
            &raw const how,
            size_of::<OpenHow>(),
        )
    })
}

/// Opens, writes all in one call, closes.
pub(crate) fn write_file(dir: BorrowedFd<'_>, path: &CStr, bytes: &[u8]) -> Result<()> {
    let file = open(dir, path, libc::O_WRONLY, 0)?;
    write(file.as_fd(), bytes)
}

pub(crate) fn write(fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<()> {
    // SAFETY: the pointer and the length are of one live slice.
    let written =
        check(unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) } as _)?;
    if written as usize == bytes.len() { Ok(()) } else { Err(Errno(libc::EIO)) }
}

pub(crate) fn make_directory(dir: BorrowedFd<'_>, path: &CStr, mode: u32) -> Result<()> {
    // SAFETY: `path` lives through the call.
    check(unsafe { libc::mkdirat(dir.as_raw_fd(), path.as_ptr(), 0o700) } as _)?;
    // The umask of whoever started us must not decide the mode.
    // SAFETY: as above.
    check(unsafe { libc::fchmodat(dir.as_raw_fd(), path.as_ptr(), mode, 0) } as _)?;
    Ok(())
}

pub(crate) fn make_link(target: &CStr, dir: BorrowedFd<'_>, path: &CStr) -> Result<()> {
    // SAFETY: both strings live through the call.
    check(unsafe { libc::symlinkat(target.as_ptr(), dir.as_raw_fd(), path.as_ptr()) } as _)?;
    Ok(())
}

/// Device and inode of what a descriptor refers to, with its mode and owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Identity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Identity {
    pub(crate) fn is_directory(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFDIR
    }

    pub(crate) fn same_file(&self, other: &Self) -> bool {
        self.device == other.device && self.inode == other.inode
    }
}

pub(crate) fn identity(fd: BorrowedFd<'_>) -> Result<Identity> {
    // SAFETY: all-zero is a valid `stat`.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` is a live, writable `stat`.
    check(unsafe { libc::fstat(fd.as_raw_fd(), &raw mut stat) } as _)?;
    Ok(Identity {
        device: stat.st_dev,
        inode: stat.st_ino,
        mode: stat.st_mode,
        uid: stat.st_uid,
        gid: stat.st_gid,
    })
}

pub(crate) fn change_directory(path: &CStr) -> Result<()> {
    // SAFETY: `path` lives through the call.
    check(unsafe { libc::chdir(path.as_ptr()) } as _)?;
    Ok(())
}

pub(crate) fn change_directory_to(fd: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::fchdir(fd.as_raw_fd()) } as _)?;
    Ok(())
}

/// Closes every descriptor from `first` to `last`.
pub(crate) fn close_range(first: u32, last: u32) -> Result<()> {
    if first > last {
        return Ok(());
    }
    // SAFETY: callers own every descriptor of the process.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) })?;
    Ok(())
}

/// A close-on-exec copy numbered at least `least`.
pub(crate) fn duplicate_above(fd: BorrowedFd<'_>, least: i32) -> Result<OwnedFd> {
    // SAFETY: no pointers.
    owned(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, least) } as _)
}

/// Lets a descriptor stay open over exec, if there is one of this number.
pub(crate) fn keep_over_exec(number: RawFd) {
    // SAFETY: no pointers.
    unsafe { libc::fcntl(number, libc::F_SETFD, 0) };
}

/// Puts a copy at exactly `to`, open over exec.
pub(crate) fn place(fd: RawFd, to: RawFd) -> Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::dup2(fd, to) } as _)?;
    Ok(())
}

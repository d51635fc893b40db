//! The second layer over the file system, and scopes for signals and abstract sockets.
//!
//! Rules name the places of the view one by one, never the root with its files: should a mount
//! show too much, Landlock still does not let it be read. As much as the kernel's version knows is
//! used; `level` says which that is.

use std::os::fd::{AsFd, BorrowedFd};

use crate::plan::Plan;
use crate::sys::{self, Errno};
use crate::view;

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIRECTORY: u64 = 1 << 3;
const TRUNCATE: u64 = 1 << 14;
const CONTROL_DEVICE: u64 = 1 << 15;
/// Making of character and block devices.
const MAKE_DEVICES: u64 = 1 << 6 | 1 << 11;

/// Rights that make sense on something that is no directory.
const ON_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | CONTROL_DEVICE;

/// The rights each version of the interface knows.
fn file_rights(version: u32) -> u64 {
    match version {
        0 => 0,
        1 => (1 << 13) - 1,
        2 => (1 << 14) - 1,
        3 | 4 => (1 << 15) - 1,
        _ => (1 << 16) - 1,
    }
}

/// Puts this process under the rules for `plan`, as far as this kernel has Landlock.
pub(crate) fn enter(plan: &Plan, version: u32) -> Result<(), Errno> {
    if version == 0 {
        return Ok(());
    }
    let all = file_rights(version);
    let tcp = if version >= 4 { 0b11 } else { 0 };
    let scopes = if version >= 6 { 0b11 } else { 0 };
    let size = match version {
        ..=3 => 8,
        4 | 5 => 16,
        _ => 24,
    };
    let ruleset = sys::landlock_ruleset(all, tcp, scopes, size)?;
    let rules = Rules { ruleset: ruleset.as_fd(), all };
    let read = EXECUTE | READ_FILE | READ_DIRECTORY;
    let write = all & !(CONTROL_DEVICE | MAKE_DEVICES);
    rules.allow(b"/", READ_DIRECTORY)?;
    for name in view::SYSTEM.iter().chain(&["etc", "proc"]) {
        rules.allow(format!("/{name}").as_bytes(), read)?;
    }
    rules.allow(b"/dev", READ_FILE | READ_DIRECTORY | WRITE_FILE | TRUNCATE)?;
    rules.allow(b"/tmp", write)?;
    for bind in &plan.binds {
        rules.allow(&bind.target, if bind.read_only { read } else { write })?;
    }
    sys::landlock_enter(ruleset.as_fd())
}

struct Rules<'a> {
    ruleset: BorrowedFd<'a>,
    all: u64,
}

impl Rules<'_> {
    /// Allows rights at a place and beneath. Links lead to places with rules of their own.
    fn allow(&self, path: &[u8], rights: u64) -> Result<(), Errno> {
        let path = sys::c_string(path)?;
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        let place = match sys::open(sys::AT_CWD, &path, flags, 0) {
            Ok(place) => place,
            Err(Errno(libc::ENOENT)) => return Ok(()),
            Err(errno) => return Err(errno),
        };
        let identity = sys::identity(place.as_fd())?;
        let rights = match identity.mode & libc::S_IFMT {
            libc::S_IFLNK => return Ok(()),
            libc::S_IFDIR => rights,
            _ => rights & ON_FILES,
        };
        sys::landlock_allow(self.ruleset, place.as_fd(), rights & self.all)
    }
}

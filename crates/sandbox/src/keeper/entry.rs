//! How this executable becomes a keeper before `main` runs.
//!
//! The constructor looks at the program's own name and does nothing unless it is the keeper's. So
//! every executable that links this crate is its own keeper, and no `main` has to know.
#![expect(unsafe_code, reason = "a constructor and the keeper's first system calls")]

use std::ffi::{CStr, c_char, c_int};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use super::serve::{Context, serve};
use super::wire::{self, Hello};
use crate::Way;
use crate::sys::{self, Errno, Forked};

/// Name by which the executable knows that it is to be a keeper.
pub(crate) const NAME: &str = "pinfold-keeper";
/// Name by which it knows that it is to seal itself inside bubblewrap and execute.
pub(crate) const SEAL_NAME: &str = "pinfold-seal";

/// The socket to the server, once the standard descriptors are closed.
const SOCKET: i32 = 3;

static LINKED: AtomicBool = AtomicBool::new(false);

/// Whether the constructor is part of this executable. Asked by `Sandbox::start`, which also
/// makes the linker keep it.
pub(crate) fn is_linked() -> bool {
    LINKED.load(Ordering::Relaxed)
}

#[used]
// SAFETY: glibc calls each entry of this section once with these arguments, before `main`.
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = constructor;

extern "C" fn constructor(count: c_int, arguments: *const *const c_char, _: *const *const c_char) {
    LINKED.store(true, Ordering::Relaxed);
    if count < 2 {
        return;
    }
    // SAFETY: the C library passes `count` valid strings.
    let (name, first) = unsafe { (CStr::from_ptr(*arguments), CStr::from_ptr(*arguments.add(1))) };
    if name.to_bytes() == NAME.as_bytes() {
        let way = if first.to_bytes() == b"root" { Way::Root } else { Way::Ordinary };
        become_keeper(way);
    }
    if name.to_bytes().strip_prefix(b"/") == Some(SEAL_NAME.as_bytes()) {
        become_shim(first);
    }
}

/// Never returns. Inside bubblewrap, as the first process of a cell; the argument is the number of
/// the socket to the server.
fn become_shim(number: &CStr) -> ! {
    let number = number.to_str().ok().and_then(|number| number.parse().ok());
    let Some(number) = number.filter(|number: &i32| *number > 2) else { sys::end(1) };
    // SAFETY: bubblewrap passed it on, and nobody else in this process knows of it.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    if rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC).is_err() {
        sys::end(1);
    }
    super::shim::run(&socket)
}

/// Never returns. Two processes: this one waits in the server's pid namespace and dies with the
/// server; its child is the first process of the outer pid namespace, which dies with it, and
/// takes every cell along.
fn become_keeper(way: Way) -> ! {
    // The socket is standard input. Everything else is closed: nothing of the server's is kept.
    if sys::control(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64).is_err()
        || sys::place(0, SOCKET).is_err()
        || sys::close_range(SOCKET as u32 + 1, u32::MAX).is_err()
    {
        sys::end(1);
    }
    if let Ok(null) = sys::open(sys::AT_CWD, c"/dev/null", libc::O_RDWR, 0) {
        for number in 0..3 {
            if sys::place(std::os::fd::AsRawFd::as_raw_fd(&null), number).is_err() {
                sys::end(1);
            }
        }
    }
    // SAFETY: the descriptor was just placed there and nobody else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(SOCKET) };
    let _ = rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC);
    sys::reset_signals();
    // Its number in the server's namespace, which the child does not know.
    let first_id = super::identity::first_id(std::process::id());
    if let Err((step, errno)) = separate(way) {
        refuse(socket.as_fd(), step, errno)
    }
    match sys::fork(0, None) {
        Err(errno) => refuse(socket.as_fd(), "fork", errno),
        Ok(Forked::Parent { pid, pidfd: _ }) => {
            drop(socket);
            let _ = sys::reap(pid, 0);
            sys::end(0)
        }
        Ok(Forked::Child) => {
            let _ = sys::control(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64);
            match Context::new(way, first_id) {
                Err((step, errno)) => refuse(socket.as_fd(), step, errno),
                Ok(context) => {
                    let maps_owners = super::identity::can_map_owners(&context);
                    let hello = Hello::Ready { maps_owners };
                    if wire::send(socket.as_fd(), &hello, &[]).is_ok() {
                        serve(&socket, context);
                    }
                    sys::end(0)
                }
            }
        }
    }
}

fn refuse(socket: BorrowedFd<'_>, step: &str, errno: Errno) -> ! {
    let _ = wire::send(socket, &Hello::Failed { step: step.to_owned(), errno }, &[]);
    sys::end(1)
}

/// Leaves the server's namespaces for the keeper's own.
fn separate(way: Way) -> Result<(), (&'static str, Errno)> {
    let at = |step| move |errno| (step, errno);
    if way == Way::Ordinary {
        // SAFETY: no pointers, cannot fail.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        sys::leave_namespaces(libc::CLONE_NEWUSER).map_err(at("make a user namespace"))?;
        let write = |path: &CStr, text: &str| sys::write_file(sys::AT_CWD, path, text.as_bytes());
        write(c"/proc/self/setgroups", "deny").map_err(at("deny setgroups"))?;
        write(c"/proc/self/uid_map", &format!("0 {uid} 1")).map_err(at("map the user"))?;
        write(c"/proc/self/gid_map", &format!("0 {gid} 1")).map_err(at("map the group"))?;
    }
    sys::leave_namespaces(libc::CLONE_NEWPID | libc::CLONE_NEWNS)
        .map_err(at("make pid and mount namespaces"))?;
    sys::make_all_slaves().map_err(at("make mounts private"))
}

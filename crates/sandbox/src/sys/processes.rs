//! Processes: forks into namespaces, their ends, signals, execution.
#![expect(unsafe_code, reason = "raw system calls")]

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use super::{Errno, Result, check, keep_over_exec, owned};

pub(crate) fn leave_namespaces(flags: i32) -> Result<()> {
    // SAFETY: the keeper and its children have one thread.
    check(unsafe { libc::unshare(flags) } as _)?;
    Ok(())
}

pub(crate) fn enter_namespace(fd: BorrowedFd<'_>, kind: i32) -> Result<()> {
    // SAFETY: no pointers; one thread.
    check(unsafe { libc::setns(fd.as_raw_fd(), kind) } as _)?;
    Ok(())
}

/// What `fork` answers.
pub(crate) enum Forked {
    Parent { pid: i32, pidfd: OwnedFd },
    Child,
}

/// `clone3` without a new stack: a fork into new namespaces and, if given, into a cgroup (v2).
/// Only for processes with one thread.
pub(crate) fn fork(flags: u64, cgroup: Option<BorrowedFd<'_>>) -> Result<Forked> {
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    let mut pidfd: RawFd = -1;
    // SAFETY: all-zero is a valid `clone_args`.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = flags | libc::CLONE_PIDFD as u64;
    arguments.pidfd = &raw mut pidfd as u64;
    arguments.exit_signal = libc::SIGCHLD as u64;
    if let Some(cgroup) = cgroup {
        arguments.flags |= CLONE_INTO_CGROUP;
        arguments.cgroup = cgroup.as_raw_fd() as u64;
    }
    // SAFETY: no memory is shared with the child, so this is a fork of a process with one thread;
    // `arguments` and `pidfd` live through the call.
    let pid = check(unsafe {
        libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<libc::clone_args>())
    })? as i32;
    if pid == 0 {
        return Ok(Forked::Child);
    }
    // SAFETY: the kernel just made this descriptor for us.
    Ok(Forked::Parent { pid, pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) } })
}

/// A child that ended.
pub(crate) struct Reaped {
    pub(crate) pid: i32,
    pub(crate) status: i32,
    pub(crate) usage: libc::rusage,
}

impl Reaped {
    /// CPU time of the child and of all that it waited for.
    pub(crate) fn cpu_microseconds(&self) -> u64 {
        let micro = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
        micro(self.usage.ru_utime) + micro(self.usage.ru_stime)
    }
}

/// Waits for a child (-1: any); `None` when none has ended and `flags` has `WNOHANG`.
pub(crate) fn reap(pid: i32, flags: i32) -> Result<Option<Reaped>> {
    let mut status = 0;
    // SAFETY: all-zero is a valid `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both places are live and writable.
    let pid = check(unsafe { libc::wait4(pid, &raw mut status, flags, &raw mut usage) } as _)?;
    Ok((pid != 0).then_some(Reaped { pid: pid as i32, status, usage }))
}

pub(crate) fn kill(pid: i32, signal: i32) {
    // SAFETY: no pointers.
    unsafe { libc::kill(pid, signal) };
}

/// Sends a signal to the very process a pidfd refers to.
pub(crate) fn signal_process(pidfd: BorrowedFd<'_>, signal: i32) {
    let nothing = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: null stands for the default information.
    unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal, nothing, 0);
    }
}

/// Ends this process at once, with no handler run.
pub(crate) fn end(code: i32) -> ! {
    // SAFETY: never returns and touches nothing.
    unsafe { libc::_exit(code) }
}

/// Lets a command have these descriptors, at their own numbers.
pub(crate) fn pass_on(command: &mut std::process::Command, kept: &[OwnedFd]) {
    use std::os::unix::process::CommandExt;
    let numbers: Vec<RawFd> = kept.iter().map(AsRawFd::as_raw_fd).collect();
    // SAFETY: between fork and exec only `fcntl` is called, which is allowed there.
    unsafe {
        command.pre_exec(move || {
            numbers.iter().for_each(|number| keep_over_exec(*number));
            Ok(())
        });
    }
}

/// A pidfd of a child.
pub(crate) fn open_process(pid: i32) -> Result<OwnedFd> {
    // SAFETY: no pointers.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })
}

/// A pidfd of this process.
pub(crate) fn own_process() -> Result<OwnedFd> {
    // SAFETY: no pointers.
    open_process(unsafe { libc::getpid() })
}

/// Every signal back to its default and none blocked.
pub(crate) fn reset_signals() {
    // SAFETY: all-zero is a valid, empty set; SIG_DFL is a valid disposition. Errors (for the two
    // signals that cannot be set) do not matter.
    unsafe {
        for signal in 1..=64 {
            libc::signal(signal, libc::SIG_DFL);
        }
        let empty: libc::sigset_t = std::mem::zeroed();
        libc::sigprocmask(libc::SIG_SETMASK, &raw const empty, std::ptr::null_mut());
    }
}

/// Lets tokio tell when a descriptor is ready.
pub(crate) fn watch(fd: OwnedFd) -> std::io::Result<tokio::io::unix::AsyncFd<OwnedFd>> {
    // SAFETY: an owned descriptor stays open and keeps its number as long as it is registered.
    Ok(unsafe { tokio::io::unix::AsyncFd::register(fd) }?)
}

/// Waits for SIGCHLD, which is blocked, at most so long.
pub(crate) fn wait_for_child(at_most: std::time::Duration) {
    let timeout = libc::timespec { tv_sec: 0, tv_nsec: at_most.subsec_nanos().into() };
    // SAFETY: `set` is initialised by sigemptyset before it is used; no information is asked for.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const timeout);
    }
}

/// Blocks SIGCHLD and gives a descriptor that becomes readable when a child ends.
pub(crate) fn child_events() -> Result<OwnedFd> {
    // SAFETY: `set` is initialised by sigemptyset before it is used.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        owned(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) as _)
    }
}

/// Executes a program; answers only when that failed.
pub(crate) fn execute(program: &CStr, arguments: &[CString], environment: &[CString]) -> Errno {
    let pointers = |list: &[CString]| {
        let mut pointers: Vec<_> = list.iter().map(|item| item.as_ptr()).collect();
        pointers.push(std::ptr::null());
        pointers
    };
    let (arguments, environment) = (pointers(arguments), pointers(environment));
    // SAFETY: both lists end with null and their strings live through the call.
    unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    Errno::last()
}

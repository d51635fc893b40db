//! The self-test, from inside: tries what must not be possible, sealed exactly as a program is.
#![expect(unsafe_code, reason = "each attempt is a raw system call")]

use std::ffi::CStr;
use std::os::fd::AsFd;

use crate::plan::Plan;
use crate::sys::{self, Errno};

/// One attempt and whether it was refused.
pub(crate) type Finding = (String, bool);

/// Tries everything once.
pub(crate) fn attempt_all(plan: &Plan, landlock: u32) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut note = |what: &str, refused: bool| findings.push((what.to_owned(), refused));
    note("mounting a file system", refused(mount));
    note("making a user namespace", refused(make_user_namespace));
    for (name, family) in [
        ("AF_INET", libc::AF_INET),
        ("AF_INET6", libc::AF_INET6),
        ("AF_NETLINK", libc::AF_NETLINK),
        ("AF_PACKET", libc::AF_PACKET),
        ("AF_VSOCK", libc::AF_VSOCK),
        ("AF_ALG", libc::AF_ALG),
    ] {
        note(&format!("an {name} socket"), refused(|| socket(family)));
    }
    note("tracing a process", refused(trace));
    note("reading a host file", ["/etc/shadow", "/root", "/home", "/boot"].iter().all(is_absent));
    note("writing to /usr", refused(|| write_to(c"/usr/.pinfold-probe")));
    note("writing to the root", refused(|| write_to(c"/.pinfold-probe")));
    note("writing to /proc/sys", refused(|| write_to(c"/proc/sys/kernel/hostname")));
    note("seeing other processes", own_number() == 2);
    note("gaining rights by execution", flag(libc::PR_GET_NO_NEW_PRIVS) == 1);
    note("unfiltered system calls", flag(libc::PR_GET_SECCOMP) == 2);
    note("holding capabilities", holds_no_capability());
    if landlock > 0 {
        // The file is there and its mode lets everybody read it; only Landlock does not.
        let read = open(crate::view::EMPTY_FILE, libc::O_RDONLY);
        note("what Landlock denies", read == Err(Errno(libc::EACCES)));
    }
    let most = plan.rlimits.iter().find(|(resource, ..)| *resource == libc::RLIMIT_NPROC);
    let most = most.map_or(0, |(_, soft, _)| *soft);
    note("processes without bound", most > 0 && forks(most + 8) <= most);
    findings
}

fn refused(attempt: impl FnOnce() -> Result<(), Errno>) -> bool {
    attempt().is_err()
}

fn make_user_namespace() -> Result<(), Errno> {
    sys::leave_namespaces(libc::CLONE_NEWUSER)
}

fn mount() -> Result<(), Errno> {
    sys::bind(c"/tmp", c"/tmp").and_then(|()| sys::detach(c"/tmp"))
}

fn socket(family: i32) -> Result<(), Errno> {
    for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_SEQPACKET] {
        // SAFETY: no pointers.
        if unsafe { libc::socket(family, kind, 0) } >= 0 {
            return Ok(());
        }
    }
    Err(Errno::last())
}

fn trace() -> Result<(), Errno> {
    // SAFETY: this request takes no pointers.
    let answer = unsafe { libc::syscall(libc::SYS_ptrace, libc::PTRACE_TRACEME, 0, 0, 0) };
    if answer < 0 { Err(Errno::last()) } else { Ok(()) }
}

fn is_absent(path: &&str) -> bool {
    let Ok(path) = sys::c_string(path.as_bytes()) else { return false };
    open(&path, libc::O_PATH).is_err()
}

fn write_to(path: &CStr) -> Result<(), Errno> {
    open(path, libc::O_WRONLY | libc::O_CREAT)
}

/// The plain call: `openat2` is denied whatever the path.
fn open(path: &CStr, flags: i32) -> Result<(), Errno> {
    // SAFETY: `path` lives through the call.
    let answer = unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC, 0o600) };
    if answer < 0 { Err(Errno::last()) } else { Ok(()) }
}

fn own_number() -> i32 {
    // SAFETY: no pointers.
    unsafe { libc::getpid() }
}

fn flag(option: i32) -> i32 {
    // SAFETY: these options take no pointers.
    unsafe { libc::prctl(option, 0, 0, 0, 0) }
}

fn holds_no_capability() -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return false };
    let sets = status.lines().filter(|line| line.starts_with("Cap"));
    let empty = |line: &str| {
        line.split_whitespace().nth(1).is_some_and(|set| set.trim_matches('0').is_empty())
    };
    let (mut count, mut all) = (0, true);
    for line in sets {
        count += 1;
        all &= empty(line);
    }
    count == 5 && all
}

/// How many processes can be made at once, at most `most`. They end with the cell.
fn forks(most: u64) -> u64 {
    for made in 0..most {
        // SAFETY: one thread; the child only sleeps.
        match unsafe { libc::fork() } {
            -1 => return made,
            0 => loop {
                std::thread::sleep(std::time::Duration::from_secs(60));
            },
            _ => {}
        }
    }
    most
}

/// Tells the server.
pub(crate) fn run(plan: &Plan, landlock: u32, report: &std::os::fd::OwnedFd) -> ! {
    let findings = attempt_all(plan, landlock);
    let _ = super::wire::send(report.as_fd(), &super::wire::Report::Probed(findings), &[]);
    sys::end(0)
}

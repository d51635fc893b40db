//! The system calls that neither std nor rustix offers in the form the keeper needs.
//!
//! Thin and total: each function makes one call (or one short, fixed sequence), owns what it
//! opens, and answers the error number. No policy here.
#![expect(unsafe_code, reason = "raw system calls")]

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

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
    // SAFETY: both strings live through the call; a bind takes null for kind and data.
    check(
        unsafe { libc::mount(from.as_ptr(), to.as_ptr(), nothing, libc::MS_BIND, nothing.cast()) }
            as _,
    )?;
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

pub(crate) fn control(option: i32, value: u64) -> Result<()> {
    // SAFETY: only used with options that take numbers.
    check(unsafe { libc::prctl(option, value, 0u64, 0u64, 0u64) } as _)?;
    Ok(())
}

pub(crate) fn new_session() -> Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::setsid() } as _)?;
    Ok(())
}

pub(crate) fn limit(resource: u32, soft: u64, hard: u64) -> Result<()> {
    let new = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    // SAFETY: `new` lives through the call.
    check(unsafe { libc::setrlimit(resource as _, &raw const new) } as _)?;
    Ok(())
}

/// Gives up supplementary groups.
pub(crate) fn drop_groups() -> Result<()> {
    // The raw call: libc's own would signal threads that are not there.
    // SAFETY: an empty list needs no pointer.
    check(unsafe { libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()) })?;
    Ok(())
}

pub(crate) fn set_ids(uid: u32, gid: u32) -> Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::syscall(libc::SYS_setresgid, gid, gid, gid) })?;
    // SAFETY: no pointers.
    check(unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) })?;
    Ok(())
}

/// Empties the effective, permitted and inheritable capability sets but for `kept` (of the first
/// 32), which stay effective and permitted.
pub(crate) fn keep_capabilities(kept: u32) -> Result<()> {
    const VERSION_3: u32 = 0x2008_0522;
    let header: [u32; 2] = [VERSION_3, 0];
    let sets: [u32; 6] = [kept, kept, 0, 0, 0, 0];
    // SAFETY: version 3 reads two words of header and six of sets.
    check(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) })?;
    Ok(())
}

pub(crate) fn seccomp(program: &[libc::sock_filter]) -> Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| Errno(libc::E2BIG))?,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel only reads the program, which lives through the call.
    check(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program)
    })?;
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

/// Puts a copy at exactly `to`, open over exec.
pub(crate) fn place(fd: RawFd, to: RawFd) -> Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::dup2(fd, to) } as _)?;
    Ok(())
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

pub(crate) fn set_host_name(name: &[u8]) -> Result<()> {
    // SAFETY: pointer and length are of one live slice.
    check(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) } as _)?;
    Ok(())
}

/// Landlock: the ABI version, or an error where there is none.
pub(crate) fn landlock_version() -> Result<u32> {
    const VERSION: u32 = 1;
    let nothing = std::ptr::null::<u8>();
    // SAFETY: this form of the call takes null and zero.
    check(unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0usize, VERSION) })
        .map(|version| version as u32)
}

/// Landlock: a ruleset that handles these rights.
pub(crate) fn landlock_ruleset(
    files: u64,
    network: u64,
    scoped: u64,
    size: usize,
) -> Result<OwnedFd> {
    let attributes: [u64; 3] = [files, network, scoped];
    // SAFETY: `size` is at most the size of `attributes`, which lives through the call.
    owned(unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            attributes.as_ptr(),
            size.min(size_of_val(&attributes)),
            0,
        )
    })
}

/// Landlock: allows `rights` beneath the place that `fd` refers to.
pub(crate) fn landlock_allow(
    ruleset: BorrowedFd<'_>,
    fd: BorrowedFd<'_>,
    rights: u64,
) -> Result<()> {
    const PATH_BENEATH: u32 = 1;
    #[repr(C, packed)]
    struct Rule {
        rights: u64,
        fd: i32,
    }
    let rule = Rule { rights, fd: fd.as_raw_fd() };
    // SAFETY: `rule` has the layout of `landlock_path_beneath_attr` and lives through the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            ruleset.as_raw_fd(),
            PATH_BENEATH,
            &raw const rule,
            0,
        )
    })?;
    Ok(())
}

/// Landlock: puts this process and all it starts under the ruleset.
pub(crate) fn landlock_enter(ruleset: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) })?;
    Ok(())
}

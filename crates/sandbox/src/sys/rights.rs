//! What a process may: ids, capabilities, limits, seccomp, Landlock.
#![expect(unsafe_code, reason = "raw system calls")]

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use super::{Errno, Result, check, owned};

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

/// Sets a resource limit, or keeps the one in force where that is tighter.
pub(crate) fn limit(resource: u32, soft: u64, hard: u64) -> Result<()> {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `now` is live and writable.
    check(unsafe { libc::getrlimit(resource as _, &raw mut now) } as _)?;
    let hard = hard.min(now.rlim_max);
    let new = libc::rlimit { rlim_cur: soft.min(hard), rlim_max: hard };
    // SAFETY: `new` lives through the call.
    check(unsafe { libc::setrlimit(resource as _, &raw const new) } as _)?;
    Ok(())
}

/// Lets this process have as many descriptors open as it may.
pub(crate) fn raise_descriptor_limit() {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `now` is live; that the limit stays as it was is no harm.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut now) == 0 {
            now.rlim_cur = now.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const now);
        }
    }
}

/// The most descriptors this process may have open.
pub(crate) fn descriptor_limit() -> u64 {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `now` is live and writable.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut now) } {
        0 => now.rlim_max,
        _ => 1024,
    }
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

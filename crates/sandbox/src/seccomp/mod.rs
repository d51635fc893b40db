//! The seccomp program: a list of what is denied, everything else allowed.
//!
//! Assembled here rather than by a library, because one program must answer in three ways (kill,
//! ENOSYS, EPERM) and must catch the x32 numbers, which a comparison with each number misses.

use std::collections::BTreeMap;

use libc::{
    AF_UNIX, BPF_ABS, BPF_ALU, BPF_AND, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD,
    BPF_RET, BPF_W,
};

/// Code, jump if true, jump if false, operand.
pub(crate) type Instruction = (u16, u8, u8, u32);

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;
const NOT_PERMITTED: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
const NO_CALL: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
const NO_FAMILY: u32 = libc::SECCOMP_RET_ERRNO | libc::EAFNOSUPPORT as u32;

const NUMBER: u32 = 0;
const ARCHITECTURE_OFFSET: u32 = 4;

/// Offset of the low half of an argument (both architectures are little-endian).
const fn argument(position: u32) -> u32 {
    16 + 8 * position
}

/// Denied whatever their arguments.
const DENIED: &[libc::c_long] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_madvise,
    // Wide kernel interfaces.
    libc::SYS_perf_event_open,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    libc::SYS_seccomp,
    libc::SYS_vmsplice,
    libc::SYS_personality,
    libc::SYS_lookup_dcookie,
    // Keys.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    OPEN_TREE_ATTR,
    libc::SYS_unshare,
    libc::SYS_setns,
    // Files without a path.
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    // The machine.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_nfsservctl,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
];

#[cfg(target_arch = "x86_64")]
const DENIED_HERE: &[libc::c_long] = &[
    libc::SYS_kexec_file_load,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_sysfs,
    libc::SYS__sysctl,
];
#[cfg(target_arch = "aarch64")]
const DENIED_HERE: &[libc::c_long] = &[libc::SYS_kexec_file_load];

/// Too new for libc's list; the same number on every architecture.
const OPEN_TREE_ATTR: libc::c_long = 467;

/// Said not to exist, so that a library takes its other way. `memfd_secret` is memory that no
/// cgroup counts.
const ABSENT: &[libc::c_long] = &[
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_memfd_secret,
    libc::SYS_openat2,
    // Its slots are counted over the whole host, and one call can take them all.
    libc::SYS_io_setup,
];

/// Commands of `fcntl` by which a reader of a file holds up or observes everybody else who uses it:
/// a lease (also on a read-only mount, if the file's owner is the program's) and `F_NOTIFY`.
const HOLDS_UP_OTHERS: &[u32] = &[1024, 1026, 1040];

/// Calls that change how a process is scheduled, and which argument names it.
const SCHEDULING: &[(libc::c_long, u32)] = &[
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_sched_setaffinity, 0),
];

/// Memory that only a control group can count: files without a name, and two of the kernel's own
/// stores that have no useful bounds (a set of 32,000 semaphores takes 2 MB).
const UNCOUNTED: &[libc::c_long] = &[
    libc::SYS_memfd_create,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_landlock_create_ruleset,
];

/// Calls that set a file's mode, and which argument it is. `openat2`, whose mode no filter can see,
/// is said to be absent.
const SET_MODE: &[(libc::c_long, u32)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (FCHMODAT2, 2),
    (libc::SYS_mknodat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
];
/// Calls that open, and which argument the flags are; the mode is the next.
const OPEN: &[(libc::c_long, u32)] = &[
    (libc::SYS_openat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
];
/// `O_CREAT`, and of `O_TMPFILE` the bit that is its own.
const CREATES: u32 = libc::O_CREAT as u32 | (libc::O_TMPFILE & !libc::O_DIRECTORY) as u32;
const FCHMODAT2: libc::c_long = 452;

const NAMESPACE_FLAGS: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;

/// Control calls by which a process types into a terminal.
const TERMINAL_INJECTION: &[u32] = &[libc::TIOCSTI as u32, libc::TIOCLINUX as u32];
const KVM: u32 = 0xAE00;

fn load(offset: u32) -> Instruction {
    ((BPF_LD | BPF_W | BPF_ABS) as u16, 0, 0, offset)
}

fn answer(value: u32) -> Instruction {
    ((BPF_RET | BPF_K) as u16, 0, 0, value)
}

/// Goes on with the next instruction if the comparison holds, else skips `skip`.
fn unless(comparison: u32, operand: u32, skip: u8) -> Instruction {
    ((BPF_JMP | comparison | BPF_K) as u16, 0, skip, operand)
}

/// `then` if the loaded word stands to `operand` as the comparison says.
fn when(program: &mut Vec<Instruction>, comparison: u32, operand: u32, then: u32) {
    program.push(unless(comparison, operand, 1));
    program.push(answer(then));
}

/// The whole program.
///
/// `watched`: no control group counts memory, so what the watch cannot see is denied too.
///
/// A tree over the numbers, not a list: the kernel runs a new program once for every number to
/// learn which are always allowed, and with a list that is most of the cost of a cold start.
pub(crate) fn program(watched: bool) -> Vec<Instruction> {
    let mut program = vec![load(ARCHITECTURE_OFFSET)];
    program.push(((BPF_JMP | BPF_JEQ | BPF_K) as u16, 1, 0, ARCHITECTURE));
    program.push(answer(KILL));
    program.push(load(NUMBER));
    // x32 on x86-64; no number is that large elsewhere.
    when(&mut program, BPF_JGE, 0x4000_0000, NO_CALL);
    program.extend(tree(&ranges(&rules(watched))));
    program
}

/// What is done for each number that is not simply allowed.
fn rules(watched: bool) -> BTreeMap<u32, Vec<Instruction>> {
    let mut rules = BTreeMap::new();
    for number in DENIED.iter().chain(DENIED_HERE) {
        rules.insert(*number as u32, vec![answer(NOT_PERMITTED)]);
    }
    let unseen = if watched { UNCOUNTED } else { &[] };
    for number in ABSENT.iter().chain(unseen) {
        rules.insert(*number as u32, vec![answer(NO_CALL)]);
    }

    let mut clone = vec![load(argument(0))];
    when(&mut clone, BPF_JSET, NAMESPACE_FLAGS, NOT_PERMITTED);
    clone.push(answer(ALLOW));
    rules.insert(libc::SYS_clone as u32, clone);

    for call in [libc::SYS_socket, libc::SYS_socketpair] {
        let mut socket = vec![load(argument(0))];
        when(&mut socket, BPF_JEQ, AF_UNIX as u32, ALLOW);
        socket.push(answer(NO_FAMILY));
        rules.insert(call as u32, socket);
    }

    let mut control = vec![load(argument(1))];
    for request in TERMINAL_INJECTION {
        when(&mut control, BPF_JEQ, *request, NOT_PERMITTED);
    }
    control.push(((BPF_ALU | BPF_AND | BPF_K) as u16, 0, 0, 0xFF00));
    when(&mut control, BPF_JEQ, KVM, NOT_PERMITTED);
    control.push(answer(ALLOW));
    rules.insert(libc::SYS_ioctl as u32, control);

    let mut process_control = vec![load(argument(0))];
    when(&mut process_control, BPF_JEQ, libc::PR_SET_SECCOMP as u32, NOT_PERMITTED);
    process_control.push(answer(ALLOW));
    rules.insert(libc::SYS_prctl as u32, process_control);

    let mut file_control = vec![load(argument(1))];
    for command in HOLDS_UP_OTHERS {
        when(&mut file_control, BPF_JEQ, *command, NOT_PERMITTED);
    }
    file_control.push(answer(ALLOW));
    rules.insert(libc::SYS_fcntl as u32, file_control);

    // Limits of another process can be read, not set: an ordinary user's first process of the cell
    // has the program's own id.
    let mut limits = vec![load(argument(0))];
    when(&mut limits, BPF_JEQ, 0, ALLOW);
    for half in [0, 4] {
        limits.push(load(argument(2) + half));
        limits.push(((BPF_JMP | BPF_JEQ | BPF_K) as u16, 1, 0, 0));
        limits.push(answer(NOT_PERMITTED));
    }
    limits.push(answer(ALLOW));
    rules.insert(libc::SYS_prlimit64 as u32, limits);

    // The cell's first process kills what takes too much, so nothing may slow it down. Behind
    // bubblewrap it has the program's own id.
    for (call, position) in SCHEDULING {
        let mut target = vec![load(argument(*position))];
        when(&mut target, BPF_JEQ, 1, NOT_PERMITTED);
        target.push(answer(ALLOW));
        rules.insert(*call as u32, target);
    }
    let mut priority = vec![load(argument(0))];
    when(&mut priority, BPF_JGE, 1, NOT_PERMITTED);
    priority.push(load(argument(1)));
    when(&mut priority, BPF_JEQ, 1, NOT_PERMITTED);
    priority.push(answer(ALLOW));
    rules.insert(libc::SYS_setpriority as u32, priority);

    // Nothing that the program makes carries its owner's rights to whoever executes it: in a
    // workspace that owner is a user of the host.
    for (call, position) in SET_MODE {
        let mut mode = vec![load(argument(*position))];
        when(&mut mode, BPF_JSET, libc::S_ISUID | libc::S_ISGID, NOT_PERMITTED);
        mode.push(answer(ALLOW));
        rules.insert(*call as u32, mode);
    }
    for (call, flags) in OPEN {
        let mut open = vec![load(argument(*flags))];
        // Without one of these flags the mode means nothing and may be anything.
        open.push(((BPF_JMP | BPF_JSET | BPF_K) as u16, 1, 0, CREATES));
        open.push(answer(ALLOW));
        open.push(load(argument(*flags + 1)));
        when(&mut open, BPF_JSET, libc::S_ISUID | libc::S_ISGID, NOT_PERMITTED);
        open.push(answer(ALLOW));
        rules.insert(*call as u32, open);
    }
    rules
}

/// Every number from zero up, as ranges that are treated alike: where each begins, what is done.
fn ranges(rules: &BTreeMap<u32, Vec<Instruction>>) -> Vec<(u32, Vec<Instruction>)> {
    let mut ranges: Vec<(u32, Vec<Instruction>)> = vec![(0, vec![answer(ALLOW)])];
    let mut push = |start: u32, body: Vec<Instruction>| match ranges.last_mut() {
        Some((_, last)) if *last == body => {}
        Some((begin, last)) if *begin == start => *last = body,
        _ => ranges.push((start, body)),
    };
    for (number, body) in rules {
        push(*number, body.clone());
        if !rules.contains_key(&(number + 1)) {
            push(number + 1, vec![answer(ALLOW)]);
        }
    }
    ranges
}

/// Finds the range of the loaded number by halving.
fn tree(ranges: &[(u32, Vec<Instruction>)]) -> Vec<Instruction> {
    let [(_, body)] = ranges else {
        let (low, high) = ranges.split_at(ranges.len() / 2);
        let Some((boundary, _)) = high.first() else { return vec![answer(NOT_PERMITTED)] };
        let (boundary, low, high) = (*boundary, tree(low), tree(high));
        // A conditional jump reaches 255 instructions only, this one as far as is needed.
        let over_low = ((BPF_JMP | BPF_JA) as u16, 0, 0, low.len() as u32);
        let mut both = vec![unless(BPF_JGE, boundary, 1), over_low];
        both.extend(low);
        both.extend(high);
        return both;
    };
    body.clone()
}

#[cfg(test)]
mod tests;

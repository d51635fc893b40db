//! Rows about system calls: what the kernel could be asked for, and by which door.
//!
//! Most are probes: the arguments are such that the kernel's own function, once reached, answers
//! something harmless that is not `EPERM`. Where the kernel of this host lacks the function, its
//! `ENOSYS` is that answer, and the filter's `EPERM` is told from it.

use sandbox::Ending;
use sandbox::LeftOut::{
    self, Capabilities, CgroupCpu, Landlock, NoNewPrivs, ProcMasks, Rlimits, Seccomp, UserNamespace,
};

use super::row::{Row, Who, row};
use super::stage::Stage;

/// Only the filter stands before it.
const FILTER: &[LeftOut] = &[Seccomp];
/// The filter, and that the program has no capability in the cell's user namespace.
const PRIVILEGE: &[LeftOut] = &[Seccomp, Capabilities, NoNewPrivs, Landlock];
/// The same, where the kernel asks for a capability in the host's own user namespace.
const HOST_PRIVILEGE: &[LeftOut] =
    &[Seccomp, Capabilities, NoNewPrivs, Landlock, UserNamespace, Rlimits, CgroupCpu];

struct Probe {
    id: &'static str,
    name: &'static str,
    number: i64,
    arguments: &'static str,
    /// What the kernel's function answers when it is reached.
    answers: &'static [&'static str],
    stopped_by: &'static [LeftOut],
    who: Who,
    held: &'static str,
}

const fn probe(
    id: &'static str,
    name: &'static str,
    number: i64,
    arguments: &'static str,
    answers: &'static [&'static str],
) -> Probe {
    Probe {
        id,
        name,
        number,
        arguments,
        answers,
        stopped_by: FILTER,
        who: Who::Both,
        held: "EPERM",
    }
}

/// Said not to exist, so that a library takes its other way.
const fn absent(
    id: &'static str,
    name: &'static str,
    number: i64,
    arguments: &'static str,
    answers: &'static [&'static str],
) -> Probe {
    let probe = probe(id, name, number, arguments, answers);
    Probe { held: "ENOSYS", ..probe }
}

const fn privileged(
    id: &'static str,
    name: &'static str,
    number: i64,
    arguments: &'static str,
    answers: &'static [&'static str],
) -> Probe {
    let probe = probe(id, name, number, arguments, answers);
    Probe { stopped_by: PRIVILEGE, ..probe }
}

/// A capability in the host's user namespace is asked for, so only root can show it.
const fn host_privileged(
    id: &'static str,
    name: &'static str,
    number: i64,
    arguments: &'static str,
    answers: &'static [&'static str],
) -> Probe {
    let probe = probe(id, name, number, arguments, answers);
    Probe { stopped_by: HOST_PRIVILEGE, who: Who::Root, ..probe }
}

const SYS_OPEN_TREE_ATTR: i64 = 467;

const PROBES: &[Probe] = &[
    // Mounts, the old way and the new.
    probe("S42", "mount reached", libc::SYS_mount, "0, 0, 0, 0, 0", &["EFAULT"]),
    probe("S42", "umount2 reached", libc::SYS_umount2, "0, 0", &["EFAULT", "EINVAL"]),
    privileged("S42", "pivot_root", libc::SYS_pivot_root, "0, 0", &["EFAULT"]),
    probe("S42", "chroot reached", libc::SYS_chroot, "0", &["EFAULT"]),
    privileged("S42", "fsopen", libc::SYS_fsopen, "b'tmpfs', 0", &[]),
    probe("S42", "fsconfig reached", libc::SYS_fsconfig, "-1, 0, 0, 0, 0", &["EINVAL", "EBADF"]),
    privileged("S42", "fsmount", libc::SYS_fsmount, "-1, 0, 0", &["EBADF"]),
    privileged("S42", "fspick", libc::SYS_fspick, "AT_FDCWD, b'/tmp', 0", &[]),
    probe("S42", "open_tree", libc::SYS_open_tree, "AT_FDCWD, b'/tmp', 0", &[]),
    privileged("S42", "open_tree, cloned", libc::SYS_open_tree, "AT_FDCWD, b'/tmp', 1", &[]),
    privileged(
        "S42",
        "move_mount",
        libc::SYS_move_mount,
        "-1, b'', -1, b'', 4",
        &["EBADF", "ENOENT"],
    ),
    probe("S42", "mount_setattr reached", libc::SYS_mount_setattr, "-1, 0, 0, 0, 0", &["EINVAL"]),
    probe("S42", "open_tree_attr", SYS_OPEN_TREE_ATTR, "AT_FDCWD, b'/tmp', 0, 0, 0", &["ENOSYS"]),
    probe(
        "S42",
        "name_to_handle_at",
        libc::SYS_name_to_handle_at,
        "AT_FDCWD, b'/usr', 8, 8, 0",
        &["EFAULT"],
    ),
    host_privileged(
        "S42",
        "open_by_handle_at reached",
        libc::SYS_open_by_handle_at,
        "AT_FDCWD, 8, 0",
        &["EFAULT"],
    ),
    // Namespaces.
    probe("S46", "unshare a user namespace", libc::SYS_unshare, "CLONE_NEWUSER", &[]),
    privileged("S46", "unshare a mount namespace", libc::SYS_unshare, "CLONE_NEWNS", &[]),
    probe(
        "S46",
        "unshare, high bits set",
        libc::SYS_unshare,
        "CLONE_NEWUSER | 1 << 40",
        &["EINVAL"],
    ),
    probe("S46", "setns reached", libc::SYS_setns, "-1, 0", &["EBADF"]),
    absent("S46", "clone3 reached", libc::SYS_clone3, "8, 88", &["EFAULT", "EINVAL"]),
    // Keys.
    probe("S47", "keyctl", libc::SYS_keyctl, "0, -2, 1", &[]),
    probe("S47", "keyctl, high bits set", libc::SYS_keyctl, "1 << 32, -2, 1", &[]),
    probe("S47", "add_key", libc::SYS_add_key, "b'user', b'escape', b'payload', 7, -2", &[]),
    probe(
        "S47",
        "request_key",
        libc::SYS_request_key,
        "b'user', b'escape-absent', 0, 0",
        &["ENOKEY"],
    ),
    // Kernel surface.
    absent(
        "S48",
        "io_uring_setup",
        libc::SYS_io_uring_setup,
        "1, ctypes.create_string_buffer(120)",
        &[],
    ),
    absent("S48", "io_uring_enter", libc::SYS_io_uring_enter, "-1, 0, 0, 0, 0, 0", &["EBADF"]),
    absent(
        "S48",
        "io_uring_register",
        libc::SYS_io_uring_register,
        "-1, 0, 0, 0",
        &["EBADF", "EINVAL"],
    ),
    probe("S48", "userfaultfd", libc::SYS_userfaultfd, "1", &[]),
    absent(
        "S48",
        "slots for asynchronous I/O, which are the host's",
        libc::SYS_io_setup,
        "1, ctypes.byref(ctypes.c_ulong(0))",
        &[],
    ),
    probe("S48", "bpf", libc::SYS_bpf, "0, 8, 1 << 20", &["E2BIG", "EFAULT"]),
    probe("S48", "perf_event_open", libc::SYS_perf_event_open, "0, 0, -1, -1, -1", &["EINVAL"]),
    probe("S48", "kexec_load", libc::SYS_kexec_load, "0, 99, 8, -1", &["ENOSYS", "EINVAL"]),
    probe(
        "S48",
        "kexec_file_load",
        libc::SYS_kexec_file_load,
        "-1, -1, 0, 0, -1",
        &["ENOSYS", "EINVAL"],
    ),
    probe("S48", "init_module", libc::SYS_init_module, "8, 1, 8", &["ENOSYS", "EFAULT"]),
    probe("S48", "finit_module", libc::SYS_finit_module, "-1, 8, 0", &["ENOSYS", "EBADF"]),
    probe("S48", "delete_module", libc::SYS_delete_module, "8, 0", &["ENOSYS", "EFAULT"]),
    host_privileged("S48", "reboot, wrong magic", libc::SYS_reboot, "0, 0, 0, 0", &["EINVAL"]),
    host_privileged("S48", "swapon", libc::SYS_swapon, "8, 0", &["EFAULT", "ENOSYS"]),
    host_privileged("S48", "swapoff", libc::SYS_swapoff, "8", &["EFAULT", "ENOSYS"]),
    host_privileged("S48", "acct", libc::SYS_acct, "8", &["EFAULT", "ENOSYS"]),
    host_privileged("S48", "syslog, size of the log", libc::SYS_syslog, "10, 0, 0", &[]),
    probe(
        "S48",
        "quotactl",
        libc::SYS_quotactl,
        "0, 0, 0, 0",
        &["ENODEV", "EINVAL", "ENOSYS", "EFAULT"],
    ),
    probe("S48", "settimeofday", libc::SYS_settimeofday, "8, 0", &["EFAULT"]),
    probe("S48", "clock_settime", libc::SYS_clock_settime, "0, 8", &["EFAULT"]),
    probe("S48", "clock_adjtime", libc::SYS_clock_adjtime, "0, 8", &["EFAULT"]),
    probe("S48", "adjtimex", libc::SYS_adjtimex, "8", &["EFAULT"]),
    probe("S48", "nfsservctl", libc::SYS_nfsservctl, "0, 0, 0", &["ENOSYS"]),
    probe("S48", "lookup_dcookie", libc::SYS_lookup_dcookie, "0, 0, 0", &["ENOSYS"]),
    probe("S48", "vmsplice", libc::SYS_vmsplice, "-1, 0, 0, 0", &["EBADF"]),
    probe("S48", "personality", libc::SYS_personality, "0x40000", &[]),
    probe("S48", "a seccomp program of its own", libc::SYS_seccomp, "1, 0, 8", &["EFAULT"]),
    probe("S48", "prctl(PR_SET_SECCOMP)", libc::SYS_prctl, "22, 2, 8", &["EFAULT"]),
    probe("S48", "modify_ldt", libc::SYS_modify_ldt, "0, ctypes.create_string_buffer(16), 16", &[]),
    host_privileged("S48", "iopl", libc::SYS_iopl, "3", &["ENOSYS"]),
    host_privileged("S48", "ioperm", libc::SYS_ioperm, "0x80, 1, 1", &["ENOSYS"]),
    // Other processes.
    probe("S44", "ptrace of its own child", libc::SYS_ptrace, "0x4206, sleeper(), 0, 0", &[]),
    probe("S44", "process_vm_readv", libc::SYS_process_vm_readv, "os.getpid(), 0, 0, 0, 0, 0", &[]),
    probe(
        "S44",
        "process_vm_writev",
        libc::SYS_process_vm_writev,
        "os.getpid(), 0, 0, 0, 0, 0",
        &[],
    ),
    probe("S44", "kcmp", libc::SYS_kcmp, "os.getpid(), os.getpid(), 0, 0, 1", &[]),
    probe("S44", "pidfd_getfd", libc::SYS_pidfd_getfd, "os.pidfd_open(os.getpid()), 0, 0", &[]),
    // Terminals and devices: commands are refused whatever the descriptor is.
    probe("S50", "ioctl TIOCSTI", libc::SYS_ioctl, "0, 0x5412, b'x'", &["ENOTTY"]),
    probe(
        "S50",
        "ioctl TIOCSTI, high bits set",
        libc::SYS_ioctl,
        "0, 1 << 32 | 0x5412, b'x'",
        &["ENOTTY"],
    ),
    probe("S50", "ioctl TIOCLINUX", libc::SYS_ioctl, "0, 0x541C, b'x'", &["ENOTTY"]),
    probe(
        "S50",
        "ioctl TIOCLINUX, high bits set",
        libc::SYS_ioctl,
        "0, 1 << 63 | 0x541C, b'x'",
        &["ENOTTY"],
    ),
    probe("S50", "ioctl of KVM", libc::SYS_ioctl, "0, 0xAE00, 0", &["ENOTTY"]),
    probe(
        "S50",
        "ioctl of KVM, high bits set",
        libc::SYS_ioctl,
        "0, 1 << 32 | 0xAE01, 0",
        &["ENOTTY"],
    ),
];

/// Socket families that no run needs. The same numbers are tried through `socketpair`, and with
/// bits above the 32 that the kernel looks at.
const FAMILIES: &[(&str, u64)] = &[
    ("NETLINK", 16),
    ("VSOCK", 40),
    ("ALG", 38),
    ("PACKET", 17),
    ("RXRPC", 33),
    ("KEY", 15),
    ("BLUETOOTH", 31),
    ("TIPC", 30),
    ("CAN", 29),
    ("XDP", 44),
    ("SMC", 43),
    ("QIPCRTR", 42),
    ("KCM", 41),
    ("NFC", 39),
    ("AX25", 3),
    ("INET", 2),
    ("INET6", 10),
];

pub(super) fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = PROBES.iter().map(row_of).collect();
    rows.extend(families());
    rows.extend(namespaces());
    rows.extend(other_doors());
    rows.extend(privileges());
    rows
}

fn row_of(probe: &Probe) -> Row {
    let attack = format!("probe({}, [{}], {:?})", probe.number, probe.arguments, probe.answers);
    let row = row(probe.id, probe.name, probe.stopped_by, attack);
    let row = row.who(probe.who).refused(&[probe.held]);
    // Where a capability is asked for, there is none even if the filter is not there. These look at
    // their arguments first, or are not in every kernel.
    let late = ["open_by_handle_at reached", "iopl", "ioperm"].contains(&probe.name);
    if late || probe.stopped_by == FILTER { row } else { row.second_behind(Seccomp) }
}

fn families() -> Vec<Row> {
    let mut rows = Vec::new();
    for &(name, family) in FAMILIES {
        let kind = match name {
            "VSOCK" => 1,
            "PACKET" | "KEY" | "XDP" => 3,
            _ => 2,
        };
        let layers = if kind == 3 { PRIVILEGE } else { FILTER };
        let attack = |number: i64, family: u64| {
            let last =
                if number == libc::SYS_socketpair { "ctypes.create_string_buffer(8)" } else { "0" };
            format!(
                "probe({number}, [{family}, {kind}, 0, {last}], \
                 ['EPROTONOSUPPORT', 'ESOCKTNOSUPPORT', 'EINVAL', 'ENOTSUP', 'ENODEV'])"
            )
        };
        let known = !Stage::outside(&attack(libc::SYS_socket, family)).ends_with("EAFNOSUPPORT");
        let mut add = |name: String, attack: String| {
            let row = row("S48", name, layers, attack).refused(&["EAFNOSUPPORT"]);
            rows.push(if known { row } else { row.unproven("this kernel has no such sockets") });
        };
        add(format!("socket AF_{name}"), attack(libc::SYS_socket, family));
        if known {
            add(
                format!("socket AF_{name}, high bits set"),
                attack(libc::SYS_socket, 1 << 32 | family),
            );
            add(format!("socketpair AF_{name}"), attack(libc::SYS_socketpair, family));
        }
    }
    rows
}

fn namespaces() -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, flag) in [
        ("user", libc::CLONE_NEWUSER),
        ("mount", libc::CLONE_NEWNS),
        ("net", libc::CLONE_NEWNET),
        ("pid", libc::CLONE_NEWPID),
        ("ipc", libc::CLONE_NEWIPC),
        ("uts", libc::CLONE_NEWUTS),
        ("cgroup", libc::CLONE_NEWCGROUP),
    ] {
        let layers = if flag == libc::CLONE_NEWUSER { FILTER } else { PRIVILEGE };
        let attack = format!(
            r#"
pid = call({}, {flag} | 17, 0, 0, 0, 0)
if pid == 0:
    os._exit(0)
escaped("made a process in a new {name} namespace")
"#,
            libc::SYS_clone
        );
        rows.push(
            row("S46", format!("clone into a {name} namespace"), layers, attack)
                .refused(&["EPERM"]),
        );
    }
    rows.push(
        row(
            "S46",
            "nested user namespace, then its own root and net",
            &[Seccomp, ProcMasks, Landlock],
            format!(
                r#"
user = os.getuid()
call({}, CLONE_NEWUSER | CLONE_NEWNET)
with open("/proc/self/uid_map", "w") as file:
    file.write(f"0 {{user}} 1")
escaped("is root of a nested namespace: uid", os.getuid())
"#,
                libc::SYS_unshare
            ),
        )
        .refused(&["EPERM"]),
    );
    for name in ["uts", "ipc", "net", "mnt", "cgroup"] {
        rows.push(
            row(
                "S46",
                format!("setns into its own {name} namespace file"),
                PRIVILEGE,
                format!(
                    r#"
fd = os.open("/proc/self/ns/{name}", os.O_RDONLY)
call({}, fd, 0)
escaped("setns went through")
"#,
                    libc::SYS_setns
                ),
            )
            .refused(&["EPERM"]),
        );
    }
    rows.push(
        row(
            "S46",
            "setns on a network namespace of the host that leaked",
            HOST_PRIVILEGE,
            format!("call({}, 7, 0)\nescaped('is in the network of the host')", libc::SYS_setns),
        )
        .who(Who::Root)
        .shape(|spec, _| {
            let file = std::fs::File::open("/proc/self/ns/net").unwrap();
            spec.fds.push((7, file.into()));
        })
        .refused(&["EPERM"]),
    );
    rows.push(
        row(
            "S42",
            "mount a tmpfs",
            PRIVILEGE,
            format!(
                r#"
os.mkdir("/tmp/point")
call({}, b"x", b"/tmp/point", b"tmpfs", 0, 0)
escaped("mounted")
"#,
                libc::SYS_mount
            ),
        )
        .refused(&["EPERM"]),
    );
    rows.push(
        row(
            "S42",
            "mount a control group hierarchy",
            HOST_PRIVILEGE,
            format!(
                r#"
os.mkdir("/tmp/point")
try:
    call({0}, b"x", b"/tmp/point", b"cgroup", 0, b"memory")
except OSError as error:
    if error.errno == errno.EPERM:
        raise
    call({0}, b"x", b"/tmp/point", b"cgroup2", 0, 0)
escaped("sees", os.listdir("/tmp/point"))
"#,
                libc::SYS_mount
            ),
        )
        .who(Who::Root)
        .refused(&["EPERM"]),
    );
    rows.push(
        row(
            "S42",
            "bind its own root",
            &[Seccomp, Capabilities, NoNewPrivs, Landlock, ProcMasks],
            format!(
                r#"
os.mkdir("/tmp/point")
call({}, b"/proc/self/root", b"/tmp/point", 0, 0x1000, 0)
escaped("bound", os.listdir("/tmp/point"))
"#,
                libc::SYS_mount
            ),
        )
        .refused(&["EPERM"]),
    );
    rows.push(
        row(
            "S42",
            "chroot break with a kept descriptor",
            PRIVILEGE,
            format!(
                r#"
os.mkdir("/tmp/jail")
fd = os.open("/", os.O_RDONLY)
call({}, b"/tmp/jail")
os.fchdir(fd)
escaped("left the jail:", os.listdir("."))
"#,
                libc::SYS_chroot
            ),
        )
        .refused(&["EPERM"]),
    );
    rows.push(
        row(
            "S42",
            "remount a read-only mount read-write, the old way",
            PRIVILEGE,
            format!(
                r#"
call({}, 0, b"/readonly", 0, 0x1020, 0)
open("/readonly/planted", "w").close()
escaped("wrote")
"#,
                libc::SYS_mount
            ),
        )
        .refused(&["EPERM"]),
    );
    rows
}

fn other_doors() -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, number) in [
        ("getpid", "20"),
        ("unshare a user namespace", "310, 0x10000000"),
        ("ptrace", "26"),
        ("keyctl", "288, 0, -2, 1"),
        ("socket AF_NETLINK", "359, 16, 2"),
    ] {
        let attack = format!("escaped('the other entry answered', i386({number}))");
        rows.push(
            row("S48", format!("int 0x80: {name}"), FILTER, attack)
                .ends(&[Ending::Signaled(libc::SIGSYS)]),
        );
    }
    for (name, number) in [("getpid", "39"), ("ptrace", "521, 0, 0, 0, 0")] {
        let attack = format!("escaped('returned', call(0x40000000 | {number}))");
        let known = Stage::outside(&attack).starts_with("ESCAPED");
        let row = row("S48", format!("x32 numbers: {name}"), FILTER, attack).refused(&["ENOSYS"]);
        rows.push(if known { row } else { row.unproven("this kernel has no x32 entry") });
    }
    rows.push(
        row(
            "S48",
            "fexecve of a memory file gains nothing",
            &[Seccomp, Capabilities, NoNewPrivs, Landlock],
            r#"
fd = os.memfd_create("program", 0)
with open("/usr/bin/python3", "rb") as source:
    os.write(fd, source.read())
status = [line for line in open("/proc/self/status") if line.startswith("CapEff")][0]
os.execve(fd, ["python3", "-I", "-S", "-c", '''
line = [line.split()[1] for line in open("/proc/self/status") if line.startswith("CapEff")][0]
print("ESCAPED with capabilities " + line if int(line, 16) else "NOTHING no capability")
'''], {})
"#,
        )
        .masked(),
    );
    rows
}

fn privileges() -> Vec<Row> {
    let status = |name: &str, mask: &str, layers: &[LeftOut]| {
        row(
            "S40",
            name,
            layers,
            format!(
                r#"
fields = dict(line.split(":", 1) for line in open("/proc/self/status"))
{mask}
"#
            ),
        )
        .nothing()
    };
    vec![
        status(
            "capabilities in any set",
            r#"
sets = {name: int(fields[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
if any(sets.values()):
    escaped(sets)
nothing("every set is empty")
"#,
            &[Capabilities],
        ),
        status(
            "no_new_privs is not set",
            r#"
if fields["NoNewPrivs"].strip() != "1":
    escaped("new privileges are possible")
nothing("it is set")
"#,
            &[NoNewPrivs, Seccomp, Landlock],
        ),
        status(
            "no seccomp program",
            r#"
if fields["Seccomp"].strip() != "2":
    escaped("no filter")
nothing("a filter is there")
"#,
            &[Seccomp],
        ),
        row(
            "S40",
            "raise an ambient capability",
            PRIVILEGE,
            format!(
                r#"
class Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]
data = (ctypes.c_uint32 * 6)()
header = Header(0x20080522, 0)
call({capget}, ctypes.byref(header), data)
data[2] = data[1]
data[2] |= 1 << 21
data[5] = data[4]
call({capset}, ctypes.byref(header), data)
call({prctl}, 47, 2, 21, 0, 0)
escaped("CAP_SYS_ADMIN is ambient")
"#,
                capget = libc::SYS_capget,
                capset = libc::SYS_capset,
                prctl = libc::SYS_prctl
            ),
        )
        .refused(&["EPERM"]),
        row(
            "S40",
            "become another user",
            &[Capabilities, UserNamespace, Seccomp],
            "os.setgroups([])\nos.setresuid(1, 1, 1)\nescaped('is uid', os.getuid())",
        )
        .who(Who::Root)
        .refused(&["EPERM"]),
        row(
            "S40",
            "real-time scheduling",
            HOST_PRIVILEGE,
            "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))\nos.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))\nescaped('was real-time')",
        )
        .who(Who::Root)
        .refused(&["EPERM"]),
        row(
            "S40",
            "a better nice value",
            HOST_PRIVILEGE,
            "os.setpriority(os.PRIO_PROCESS, 0, -5)\nescaped('nice', os.getpriority(os.PRIO_PROCESS, 0))",
        )
        .who(Who::Root)
        .refused(&["EACCES"]),
    ]
}

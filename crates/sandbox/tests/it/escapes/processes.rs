//! Rows about other processes: seeing, tracing, signalling, outliving.

use std::time::Duration;

use sandbox::Ending;
use sandbox::LeftOut::{
    self, Capabilities, CgroupCpu, CgroupMemory, CgroupNamespace, CgroupPids, CleanEnvironment,
    IpcNamespace, Landlock, NoNewPrivs, PidNamespace, ProcMasks, Rlimits, Seccomp, Setsid,
    UserNamespace, UtsNamespace, Watch,
};

use super::row::{Row, Who, row};

/// Another run's process is neither seen nor named, has other ids and another Landlock domain.
const OTHERS: &[LeftOut] =
    &[PidNamespace, ProcMasks, Landlock, Seccomp, Capabilities, NoNewPrivs, UserNamespace];

pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    rows.extend(seeing());
    rows.extend(reaching());
    rows.extend(init());
    rows.extend(inherited());
    rows.extend(outliving());
    rows.extend(leftovers());
    rows
}

fn seeing() -> Vec<Row> {
    vec![
        row("S43", "see another run in /proc", OTHERS, "escaped('sees', victim())")
            .second_behind(PidNamespace)
            .victim()
            .nothing(),
        row(
            "S43",
            "read another run's environment",
            OTHERS,
            "escaped(open(f'/proc/{victim()}/environ').read())",
        )
        .second_behind(PidNamespace)
        .victim()
        .says_secret()
        .nothing(),
        row(
            "S43",
            "secrets in any environment, argument or map",
            OTHERS,
            r#"
for name in os.listdir("/proc"):
    if name.isdigit() and int(name) != os.getpid():
        for kind in ("environ", "cmdline"):
            try:
                with open(f"/proc/{name}/{kind}") as file:
                    text = file.read()
            except (OSError, UnicodeDecodeError):
                continue
            if "SECRET=" in text:
                escaped(text)
nothing("no secret in sight")
"#,
        )
        .second_behind(PidNamespace)
        .victim()
        .says_secret()
        .nothing(),
        row(
            "S43",
            "read another run's memory",
            OTHERS,
            r#"
pid = victim()
stack = [line for line in open(f"/proc/{pid}/maps") if "[stack]" in line][0]
first, last = (int(x, 16) for x in stack.split()[0].split("-"))
with open(f"/proc/{pid}/mem", "rb", 0) as memory:
    memory.seek(first)
    text = memory.read(last - first)
place = text.index(b"SECRET=")
escaped(text[place:place + 80].split(b"\0")[0].decode())
"#,
        )
        .second_behind(PidNamespace)
        .victim()
        .says_secret()
        .nothing(),
        row(
            "S43",
            "count processes besides its own",
            &[PidNamespace],
            r#"
pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
if len(pids) > 2 or os.getpid() > 9:
    escaped("sees", pids, "is", os.getpid())
nothing("sees", pids)
"#,
        )
        .victim()
        .nothing(),
    ]
}

fn reaching() -> Vec<Row> {
    let reach = |id, name: &str, code: String| {
        row(id, name, OTHERS, code).victim().second_behind(PidNamespace).nothing()
    };
    vec![
        reach(
            "S44",
            "ptrace another run",
            format!("call({}, 16, victim(), 0, 0)\nescaped('attached')", libc::SYS_ptrace),
        ),
        reach(
            "S44",
            "process_vm_readv of another run",
            format!(
                r#"
pid = victim()
stack = [line for line in open(f"/proc/{{pid}}/maps") if "[stack]" in line][0]
first, last = (int(x, 16) for x in stack.split()[0].split("-"))
buffer = ctypes.create_string_buffer(last - first)
class Piece(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
mine, other = Piece(ctypes.addressof(buffer), last - first), Piece(first, last - first)
call({}, pid, ctypes.byref(mine), 1, ctypes.byref(other), 1, 0)
place = buffer.raw.index(b"SECRET=")
escaped(buffer.raw[place:place + 80].split(b"\0")[0].decode())
"#,
                libc::SYS_process_vm_readv
            ),
        )
        .says_secret(),
        reach(
            "S44",
            "take a descriptor of another run",
            format!(
                "call({}, os.pidfd_open(victim()), 1, 0)\nescaped('has its output')",
                libc::SYS_pidfd_getfd
            ),
        ),
        reach(
            "S44",
            "open another run's descriptors by /proc",
            "pid = victim()\nfd = os.open(f'/proc/{pid}/cwd', os.O_PATH)\nescaped('is in', os.readlink(f'/proc/{pid}/cwd'))".to_owned(),
        ),
        reach(
            "S44",
            "kcmp with another run",
            format!("call({}, os.getpid(), victim(), 0, 1, 1)\nescaped('compared')", libc::SYS_kcmp),
        ),
        reach("S45", "kill another run", "pid = victim()\nos.kill(pid, 9)\nescaped('killed', pid)".to_owned()),
        reach(
            "S45",
            "kill another run by pidfd",
            "import signal\nsignal.pidfd_send_signal(os.pidfd_open(victim()), 9)\nescaped('killed')".to_owned(),
        ),
        reach(
            "S45",
            "kill another run by tgkill",
            format!("pid = victim()\ncall({}, pid, pid, 9)\nescaped('killed')", libc::SYS_tgkill),
        ),
        reach(
            "S45",
            "signal another run through a file's owner",
            r#"
import fcntl
pid = victim()
reading, writing = os.pipe()
fcntl.fcntl(reading, 10, 9)
fcntl.fcntl(reading, fcntl.F_SETOWN, pid)
fcntl.fcntl(reading, fcntl.F_SETFL, os.O_ASYNC)
os.write(writing, b"x")
time.sleep(0.2)
if not os.path.exists(f"/proc/{pid}/fd") or "Z" in open(f"/proc/{pid}/stat").read().split()[2]:
    escaped("killed it by SIGIO")
refused(1, "still alive")
"#.to_owned(),
        ),
        reach(
            "S45",
            "limits of another run",
            "import resource\nresource.prlimit(victim(), resource.RLIMIT_NOFILE, (8, 8))\nescaped('changed its limits')".to_owned(),
        ),
        reach(
            "S45",
            "scheduling of another run",
            "os.setpriority(os.PRIO_PROCESS, victim(), 19)\nescaped('changed its nice value')".to_owned(),
        ),
        row(
            "S45",
            "kill(-1)",
            OTHERS,
            // Signal 0 first: where somebody else could be reached, nobody is killed.
            r#"
try:
    os.kill(-1, 0)
    escaped("could signal every process")
except ProcessLookupError:
    pass
os.kill(-1, 9)
nothing("killed nobody")
"#,
        )
        .victim()
        .refused(&["ESRCH", "EPERM"]),
        row(
            "S45",
            "kill(0), its process group",
            &[Setsid],
            r#"
if os.getpgid(0) == 0 or os.getsid(0) == 0:
    escaped("its group and session reach outside")
os.kill(0, 9)
time.sleep(5)
"#,
        )
        .ends(&[Ending::Signaled(9)]),
    ]
}

fn init() -> Vec<Row> {
    let mut rows = vec![
        row(
            "S45",
            "every signal to process 1",
            &[PidNamespace],
            r#"
if os.getpid() > 9:
    escaped("process 1 is not the cell's own, seen from", os.getpid())
for number in range(1, 65):
    try:
        os.kill(1, number)
    except OSError:
        pass
time.sleep(0.2)
nothing("and it lives on")
"#,
        )
        .nothing(),
    ];
    for (name, code) in [
        (
            "limits",
            "import resource\nsame = resource.prlimit(1, resource.RLIMIT_CPU)\nresource.prlimit(1, resource.RLIMIT_CPU, same)",
        ),
        ("nice value", "os.setpriority(os.PRIO_PROCESS, 1, 0)"),
        ("group's nice value", "os.setpriority(os.PRIO_PGRP, 0, 19)"),
        ("processors", "os.sched_setaffinity(1, os.sched_getaffinity(1))"),
        ("scheduling class", "os.sched_setscheduler(1, os.SCHED_OTHER, os.sched_param(0))"),
    ] {
        rows.push(
            row(
                "S45",
                format!("change the {name} of process 1"),
                &[PidNamespace, Seccomp, Capabilities, NoNewPrivs, UserNamespace, Landlock],
                format!("{code}\nescaped('changed it')"),
            )
            .refused(&["EPERM", "EACCES"]),
        );
    }
    for (name, code) in [
        ("environment", "escaped('could read it:', open('/proc/1/environ', 'rb').read())"),
        ("memory", "f = open('/proc/1/mem', 'rb', 0)\nescaped('opened')"),
        ("maps", "escaped(open('/proc/1/maps').read(60) or nothing('empty'))"),
        (
            "program",
            "fd = os.open('/proc/1/exe', 0)\nescaped(os.read(fd, 4), os.readlink('/proc/1/exe'))",
        ),
        ("descriptors", "fds = os.listdir('/proc/1/fd')\nescaped(fds)"),
        ("root", "escaped(os.listdir('/proc/1/root'), os.readlink('/proc/1/root'))"),
        ("working directory", "escaped(os.readlink('/proc/1/cwd'))"),
        ("threads' stacks", "escaped(open('/proc/1/stack').read() or nothing('empty'))"),
    ] {
        rows.push(
            row("S43", format!("the {name} of process 1"), OTHERS, code)
                .who(if name == "threads' stacks" { Who::Root } else { Who::Both })
                .masked(),
        );
    }
    rows
}

fn inherited() -> Vec<Row> {
    vec![
        row(
            "S43",
            "the server's environment",
            &[CleanEnvironment],
            r#"
for name, value in os.environ.items():
    if "ESCAPES" in name:
        escaped(name, value)
nothing(sorted(os.environ))
"#,
        )
        .nothing(),
        row(
            "S43",
            "the name of the host",
            &[UtsNamespace],
            r#"
node = os.uname().nodename
if node == os.environ["HOST_NAME"]:
    escaped("runs on", node)
nothing("is told", node)
"#,
        )
        // An ordinary user's keeper cannot go back to the namespace it was started in.
        .who(Who::Root)
        .nothing(),
        row(
            "S43",
            "its place in the host's cgroup tree",
            &[CgroupNamespace],
            r#"
places = {line.strip().split(":", 2)[2] for line in open("/proc/self/cgroup")}
if places != {"/"}:
    escaped("is in", places)
nothing("only /")
"#,
        )
        .nothing(),
        row(
            "S50",
            "push input into a terminal that was given",
            &[Seccomp],
            r#"
import fcntl
if os.fork() == 0:
    os.setsid()
    fcntl.ioctl(7, 0x540E, 0)
    fcntl.ioctl(7, 0x5412, b"x")
    escaped("typed into the terminal")
os.wait()
"#,
        )
        .shape(|spec, stage| spec.fds.push((7, stage.terminal())))
        .refused(&["EPERM"]),
        row(
            "S50",
            "push input into a terminal, high bits set",
            &[Seccomp],
            format!(
                r#"
if os.fork() == 0:
    os.setsid()
    call({ioctl}, 7, 0x540E, 0)
    call({ioctl}, 7, 1 << 32 | 0x5412, b"x")
    escaped("typed into the terminal")
os.wait()
"#,
                ioctl = libc::SYS_ioctl
            ),
        )
        .shape(|spec, stage| spec.fds.push((7, stage.terminal())))
        .refused(&["EPERM"]),
        row(
            "S26",
            "the end of an orphan is taken for the end of the program",
            &[],
            r#"
for _ in range(5):
    child = os.fork()
    if child == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.waitpid(child, 0)
call(56, 0x8000 | 17, 0, 0, 0, 0) or os._exit(0)
time.sleep(0.2)
os._exit(7)
"#,
        )
        .unproven("what the cell's init reports is not a layer; only looked at")
        .ends(&[Ending::Exited(7)]),
        row(
            "S9",
            "closed output is taken for the end of the program",
            &[],
            "os.closerange(0, 20)\ntime.sleep(0.3)\nos._exit(7)",
        )
        .unproven("what the cell's init reports is not a layer; only looked at")
        .ends(&[Ending::Exited(7)]),
        row(
            "S24",
            "blocked or ignored signals are inherited",
            &[],
            r#"
fields = dict(line.split(":", 1) for line in open("/proc/self/status"))
# Python itself ignores two; glibc lets whatever it spawns ignore its own two.
ignored = int(fields["SigIgn"], 16) & ~(1 << 12 | 1 << 24 | 3 << 31)
if int(fields["SigBlk"], 16) or ignored:
    escaped(fields["SigBlk"], fields["SigIgn"])
nothing("none")
"#,
        )
        .unproven("what the keeper inherits is not a layer; only looked at")
        .nothing(),
    ]
}

/// What would go on after the answer. Two seconds of it are waited for in the left-out run.
fn outliving() -> Vec<Row> {
    let layers = &[PidNamespace, CgroupPids, CgroupMemory, CgroupCpu, Watch];
    let outlive = |id, name: &str, code: &str| {
        row(id, name, layers, code)
            .seen(|_, stage| stage.appears("survived", Duration::from_millis(2500)))
            .never(|stage| stage.appears("survived", Duration::from_millis(1500)))
            .ends(&[Ending::Exited(0)])
            .within(Duration::from_millis(1500))
    };
    let late = "time.sleep(1)\nopen('/workspace/survived', 'w').close()\nos._exit(0)";
    let deeper = late.replace('\n', "\n    ");
    vec![
        outlive(
            "S26",
            "a daemon that holds the output",
            &format!(
                r#"
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    {deeper}
os._exit(0)
"#
            ),
        ),
        outlive(
            "S26",
            "a daemon that closed everything and ignores signals",
            &format!(
                r#"
import signal
if os.fork() == 0:
    os.setsid()
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    os.closerange(0, 100)
    if os.fork():
        os._exit(0)
    {deeper}
os._exit(0)
"#
            ),
        ),
        outlive(
            "S30",
            "a stopped child that an alarm would wake",
            &format!(
                r#"
import signal
if os.fork() == 0:
    if os.fork() == 0:
        time.sleep(0.8)
        os.kill(os.getppid(), signal.SIGCONT)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGSTOP)
    {deeper}
time.sleep(0.1)
os._exit(0)
"#
            ),
        ),
        outlive(
            "S26",
            "a child that is its parent's brother",
            &format!(
                r#"
if call({}, 0x8000 | 17, 0, 0, 0, 0) == 0:
    {deeper}
os._exit(0)
"#,
                libc::SYS_clone
            ),
        ),
        outlive(
            "S30",
            "a child that was told to write when its parent dies",
            &format!(
                r#"
import signal
def late(*_):
    {deeper}
if os.fork() == 0:
    signal.signal(signal.SIGUSR1, late)
    call({}, 1, signal.SIGUSR1, 0, 0, 0)
    while True:
        time.sleep(5)
time.sleep(0.2)
os._exit(0)
"#,
                libc::SYS_prctl
            ),
        ),
    ]
}

/// What one run leaves in the kernel for the next.
fn leftovers() -> Vec<Row> {
    let ipc = &[IpcNamespace, Capabilities, UserNamespace, Seccomp, NoNewPrivs, Landlock];
    vec![
        row(
            "S21",
            "a shared memory segment left behind",
            ipc,
            r#"
key = int(os.environ["STAGE"], 16) & 0x7FFFFFFF
identifier = libc.shmget(key, 0, 0)
if identifier == -1:
    nothing("not there")
libc.shmctl(identifier, 0, None)
escaped("found it, and removed it")
"#,
        )
        .before("libc.shmget(int(os.environ['STAGE'], 16) & 0x7FFFFFFF, 4096, 0o1666)")
        .nothing(),
        row(
            "S21",
            "a semaphore left behind",
            ipc,
            r#"
key = int(os.environ["STAGE"], 16) & 0x7FFFFFFF
identifier = libc.semget(key, 0, 0)
if identifier == -1:
    nothing("not there")
libc.semctl(identifier, 0, 0)
escaped("found it, and removed it")
"#,
        )
        .before("libc.semget(int(os.environ['STAGE'], 16) & 0x7FFFFFFF, 1, 0o1666)")
        .nothing(),
        row(
            "S21",
            "a System V message queue left behind",
            ipc,
            r#"
key = int(os.environ["STAGE"], 16) & 0x7FFFFFFF
identifier = libc.msgget(key, 0)
if identifier == -1:
    nothing("not there")
libc.msgctl(identifier, 0, None)
escaped("found it, and removed it")
"#,
        )
        .before("libc.msgget(int(os.environ['STAGE'], 16) & 0x7FFFFFFF, 0o1666)")
        .nothing(),
        row(
            "S21",
            "a POSIX message queue left behind",
            &[IpcNamespace, Capabilities, UserNamespace, Rlimits, Seccomp, NoNewPrivs, Landlock],
            format!(
                r#"
name = ("escape-" + os.environ["STAGE"]).encode()
fd = call({}, name, os.O_RDONLY | os.O_NONBLOCK, 0, 0)
call({}, name)
escaped("found it, and removed it")
"#,
                libc::SYS_mq_open,
                libc::SYS_mq_unlink
            ),
        )
        .before(format!(
            r#"
class Attributes(ctypes.Structure):
    _fields_ = [("values", ctypes.c_long * 8)]
attributes = Attributes((ctypes.c_long * 8)(0, 2, 64, 0))
os.umask(0)
try:
    call({}, ("escape-" + os.environ["STAGE"]).encode(), os.O_CREAT | os.O_RDWR, 0o666, ctypes.byref(attributes))
except OSError as error:
    print(error)
"#,
            libc::SYS_mq_open
        ))
        .refused(&["ENOENT"]),
        row(
            "S47",
            "a key left behind",
            &[Seccomp, Capabilities, UserNamespace],
            format!(
                r#"
for keyring in (-3, -4, -5):
    try:
        found = call({keyctl}, 10, keyring, b"user", ("escape-" + os.environ["STAGE"]).encode(), 0)
    except OSError as error:
        last = error
        continue
    call({keyctl}, 9, found, keyring)
    escaped("found key", found)
refused(last)
"#,
                keyctl = libc::SYS_keyctl
            ),
        )
        .before(format!(
            r#"
for keyring in (-3, -4, -5):
    try:
        call({}, b"user", ("escape-" + os.environ["STAGE"]).encode(), b"left", 4, keyring)
    except OSError as error:
        print(error)
"#,
            libc::SYS_add_key
        ))
        .refused(&["EPERM"]),
    ]
}

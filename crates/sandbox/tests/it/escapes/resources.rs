//! Rows about resources: processes, memory, disk, descriptors, time and output.
//!
//! They run alone, while another run has to be answered. Each attack is bounded by itself a little
//! above its limit, so that the run with the layer left out does the machine no harm.

use std::time::Duration;

use sandbox::Ending::{Exited, ProcessLimit, TimedOut};
use sandbox::LeftOut::{
    self, CgroupMemory, CgroupPids, IpcNamespace, OutputCap, Rlimits, Seccomp, TmpLimits, Wall,
    Watch,
};
use sandbox::Output;

use super::row::{Row, Weaker, Who, row};

const PROCESSES: &[LeftOut] = &[CgroupPids, Rlimits, Watch];
const MEMORY: &[LeftOut] = &[CgroupMemory, Rlimits, Watch, TmpLimits];

/// Processes that a bomb may make, and what it goes on to when nothing stops it.
const PROCESS_LIMIT: u32 = 24;
const MEMORY_LIMIT: u64 = 64 << 20;

pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    rows.extend(processes());
    rows.extend(memory());
    rows.extend(output());
    rows.extend(time());
    rows.extend(disk());
    rows.extend(descriptors());
    rows
}

fn processes() -> Vec<Row> {
    let bomb = |id, name: &str, code: &str| {
        row(id, name, PROCESSES, format!("LIMIT = {PROCESS_LIMIT}\nENOUGH = LIMIT + 24\n{code}"))
            .shape(|spec, _| {
                spec.limits.processes = PROCESS_LIMIT;
                spec.limits.wall = Duration::from_secs(3);
            })
            .alone()
    };
    vec![
        bomb(
            "S1",
            "fork bomb that gives up",
            r#"
for made in range(ENOUGH):
    if os.fork() == 0:
        time.sleep(20)
        os._exit(0)
escaped("made", ENOUGH)
"#,
        )
        .limit_seen(&["EAGAIN"]),
        bomb(
            "S1",
            "fork bomb of every process, which never gives up",
            r#"
import mmap, struct
shared = mmap.mmap(-1, 4096)
def count():
    value = struct.unpack_from("I", shared)[0] + 1
    struct.pack_into("I", shared, 0, value)
    return value
while True:
    try:
        if os.fork() == 0 and count() > ENOUGH:
            os.write(1, b"ESCAPED made enough\n")
            time.sleep(20)
        if struct.unpack_from("I", shared)[0] > ENOUGH:
            time.sleep(1)
            escaped("made enough")
    except OSError:
        time.sleep(0.02)
"#,
        )
        .ends(&[TimedOut, ProcessLimit]),
        bomb(
            "S2",
            "thread bomb",
            r#"
import threading
threading.stack_size(65536)
try:
    for made in range(ENOUGH):
        threading.Thread(target=time.sleep, args=(20,), daemon=True).start()
except RuntimeError:
    refused(11, "after", made)
escaped("made", ENOUGH)
"#,
        )
        .limit_seen(&["EAGAIN"]),
        bomb(
            "S29",
            "zombie farm",
            r#"
for made in range(ENOUGH):
    if os.fork() == 0:
        os._exit(0)
escaped("keeps", ENOUGH, "zombies")
"#,
        )
        .limit_seen(&["EAGAIN"]),
        bomb(
            "S1",
            "a failing run over its process limit says so",
            r#"
for made in range(ENOUGH):
    try:
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
    except OSError:
        os._exit(3)
escaped("made", ENOUGH)
"#,
        )
        .ends(&[ProcessLimit]),
        row(
            "S29",
            "orphans are reaped, so that a long run does not end in its own dead",
            &[],
            r#"
for made in range(80):
    child = os.fork()
    if child == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.waitpid(child, 0)
    if made % 10 == 9:
        time.sleep(0.02)
nothing("80 orphans are gone")
"#,
        )
        .shape(|spec, _| spec.limits.processes = PROCESS_LIMIT)
        .unproven("a service of the cell's init, not a layer")
        .nothing(),
    ]
}

fn memory() -> Vec<Row> {
    let hog = |id, name: &str, code: &str| {
        row(
            id,
            name,
            MEMORY,
            format!(
                "MEGABYTE = 1 << 20\nENOUGH = {} + 96\n{code}\nescaped('has', ENOUGH)",
                MEMORY_LIMIT >> 20
            ),
        )
        .shape(|spec, _| {
            spec.limits.memory = MEMORY_LIMIT;
            spec.limits.tmp_size = 1 << 30;
            spec.limits.file_size = 1 << 30;
            spec.limits.wall = Duration::from_secs(6);
        })
        .bounded()
        .growth(16 << 20)
    };
    vec![
        hog("S3", "list of byte strings", "kept = [b'x' * MEGABYTE for _ in range(ENOUGH)]"),
        hog(
            "S3",
            "one byte string",
            "kept = bytearray(ENOUGH * MEGABYTE)\nkept[::4096] = b'x' * (len(kept[::4096]))",
        ),
        hog("S18", "a string repeated", "kept = 'a' * (ENOUGH * MEGABYTE)"),
        hog("S18", "a giant integer", "kept = 1 << (ENOUGH * MEGABYTE * 8)"),
        hog(
            "S16",
            "decompression bomb",
            r#"
import zlib
packer = zlib.compressobj(1)
bomb = b"".join(packer.compress(bytes(MEGABYTE)) for _ in range(ENOUGH)) + packer.flush()
kept = zlib.decompress(bomb)
"#,
        ),
        hog(
            "S4",
            "anonymous shared mapping",
            r#"
import mmap
kept = mmap.mmap(-1, ENOUGH * MEGABYTE)
for place in range(0, len(kept), 4096):
    kept[place] = 1
"#,
        ),
        hog(
            "S4",
            "memory file, written and not mapped",
            r#"
fd = os.memfd_create("hog")
for _ in range(ENOUGH):
    os.write(fd, b"x" * MEGABYTE)
"#,
        )
        .also(&[Seccomp]),
        hog(
            "S4",
            "many memory files",
            r#"
kept = [os.memfd_create("hog") for _ in range(32)]
for number in range(ENOUGH):
    os.write(kept[number % 32], b"x" * MEGABYTE)
time.sleep(1)
"#,
        )
        .also(&[Seccomp]),
        hog(
            "S4",
            "secret memory file",
            &format!(
                r#"
import mmap
fd = call({}, 0)
os.ftruncate(fd, ENOUGH * MEGABYTE)
kept = mmap.mmap(fd, ENOUGH * MEGABYTE)
for place in range(0, len(kept), 4096):
    kept[place] = 1
"#,
                libc::SYS_memfd_secret
            ),
        )
        .also(&[Seccomp, LeftOut::Capabilities, LeftOut::UserNamespace, LeftOut::NoNewPrivs])
        .who(Who::Root)
        .refused(&["ENOSYS"]),
        hog(
            "S4",
            "file in /tmp",
            r#"
with open("/tmp/hog", "wb", 0) as file:
    for _ in range(ENOUGH):
        file.write(b"x" * MEGABYTE)
time.sleep(0.5)
"#,
        ),
        hog(
            "S4",
            "file in /dev/shm",
            r#"
with open("/dev/shm/hog", "wb", 0) as file:
    for _ in range(ENOUGH):
        file.write(b"x" * MEGABYTE)
time.sleep(0.5)
"#,
        )
        .also(&[LeftOut::ReadOnly, LeftOut::Landlock]),
        hog(
            "S4",
            "System V shared memory, detached again",
            r#"
libc.shmat.restype = ctypes.c_void_p
for _ in range(ENOUGH // 16):
    identifier = libc.shmget(0, 16 * MEGABYTE, 0o600)
    if identifier == -1:
        refused(ctypes.get_errno() or 1)
    address = libc.shmat(identifier, None, 0)
    if address in (None, 2**64 - 1):
        os._exit(77)
    ctypes.memset(address, 1, 16 * MEGABYTE)
    libc.shmdt(ctypes.c_void_p(address))
time.sleep(0.5)
"#,
        )
        .also(&[Seccomp]),
        hog(
            "S20",
            "socket buffers",
            r#"
import socket
kept = []
for _ in range(ENOUGH * 6):
    try:
        pair = socket.socketpair()
    except OSError as error:
        refused(error)
    pair[0].setblocking(False)
    try:
        while True:
            pair[0].send(b"x" * 65536)
    except BlockingIOError:
        pass
    kept.append(pair)
"#,
        )
        .shape(|spec, _| spec.limits.open_files = 4096),
        hog(
            "S20",
            "pipe buffers",
            r#"
import fcntl, resource
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
kept = []
total = 0
while total < 60 * MEGABYTE:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        fcntl.fcntl(writing, 1031, 1 << 20)
    except OSError:
        pass
    try:
        while True:
            total += os.write(writing, b"x" * 4096)
    except BlockingIOError:
        pass
    kept.append((reading, writing))
time.sleep(0.5)
"#,
        )
        .shape(|spec, _| {
            spec.limits.open_files = 4096;
            spec.limits.memory = 32 << 20;
        })
        .weaker(
            Weaker::WithoutControlGroups,
            "only the kernel's own bound of 64 MB for each user holds",
        )
        .who(Who::Root),
        hog(
            "S4",
            "private copies of one small file in /tmp",
            r#"
import mmap
with open("/tmp/small", "wb") as file:
    file.write(b"x" * MEGABYTE)
fd = os.open("/tmp/small", os.O_RDONLY)
def copies(count):
    kept = []
    for _ in range(count):
        area = mmap.mmap(fd, MEGABYTE, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
        for place in range(0, MEGABYTE, 4096):
            area[place] = 1
        kept.append(area)
    return kept
spread(copies, ENOUGH // 4)
"#,
        ),
        hog(
            "S4",
            "private copies of one small file of the workspace",
            r#"
import mmap
with open("/workspace/small", "wb") as file:
    file.write(b"x" * MEGABYTE)
fd = os.open("/workspace/small", os.O_RDONLY)
def copies(count):
    kept = []
    for _ in range(count):
        area = mmap.mmap(fd, MEGABYTE, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
        for place in range(0, MEGABYTE, 4096):
            area[place] = 1
        kept.append(area)
    return kept
spread(copies, ENOUGH // 4)
"#,
        ),
        hog(
            "S3",
            "a process whose first thread has ended",
            r#"
import threading
def hog(share):
    def work():
        try:
            kept = [b"x" * MEGABYTE for _ in range(share)]
        except MemoryError:
            os._exit(77)
        done.write(b"x")
        time.sleep(20)
    threading.Thread(target=work).start()
    libc.syscall(60, 0)
import signal
reading, writing = os.pipe()
done = open(writing, "wb", 0)
signal.signal(signal.SIGCHLD, lambda *_: os._exit(77))
for _ in range(4):
    if os.fork() == 0:
        hog(ENOUGH // 4)
for _ in range(4):
    os.read(reading, 1)
time.sleep(0.3)
"#,
        ),
        hog(
            "S3",
            "a process that may not be looked at",
            &format!(
                r#"
call({}, 4, 0, 0, 0, 0)
spread(lambda share: [b"x" * MEGABYTE for _ in range(share)], ENOUGH // 4)
"#,
                libc::SYS_prctl
            ),
        ),
        hog(
            "S5",
            "a hog while others make the looking slow",
            r#"
import mmap
shared = mmap.mmap(-1, 20 * MEGABYTE)
for place in range(0, len(shared), 4096):
    shared[place] = 1
libc.mmap.restype = ctypes.c_void_p
ready, tell = os.pipe()
for _ in range(16):
    if os.fork() == 0:
        for place in range(0, len(shared), 4096):
            shared[place]
        area = libc.mmap(None, ctypes.c_size_t(100 * MEGABYTE), 1, 0x22, -1, 0)
        for place in range(area, area + 100 * MEGABYTE, 8192):
            libc.mprotect(ctypes.c_void_p(place), ctypes.c_size_t(4096), 3)
        os.write(tell, b"x")
        time.sleep(20)
        os._exit(0)
for _ in range(16):
    os.read(ready, 1)
spread(lambda share: [b"x" * MEGABYTE for _ in range(share)], ENOUGH // 4)
"#,
        ),
        hog(
            "S21",
            "System V messages",
            r#"
body = ctypes.create_string_buffer((1).to_bytes(8, "little") + b"x" * 8000)
for _ in range(ENOUGH * 64):
    queue = libc.msgget(0, 0o600)
    if queue == -1:
        refused(ctypes.get_errno())
    for _ in range(2):
        libc.msgsnd(queue, body, 8000, 0o4000)
time.sleep(0.3)
"#,
        )
        .also(&[Seccomp]),
        hog(
            "S21",
            "System V semaphores",
            r#"
for _ in range(ENOUGH // 2):
    if libc.semget(0, 32000, 0o600) == -1:
        refused(ctypes.get_errno())
time.sleep(0.3)
"#,
        )
        .also(&[Seccomp]),
        hog(
            "S5",
            "many processes, each below the limit",
            r#"
children = []
for _ in range(8):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        kept = bytearray(ENOUGH * MEGABYTE // 8)
        kept[::4096] = b"x" * len(kept[::4096])
        os.write(writing, b"x")
        time.sleep(10)
        os._exit(0)
    os.close(writing)
    children.append(reading)
if b"".join(os.read(reading, 1) for reading in children) != b"x" * 8:
    os._exit(77)
time.sleep(0.5)
"#,
        ),
    ]
}

fn output() -> Vec<Row> {
    let flood = |id, name: &str, code: &str| {
        row(id, name, &[OutputCap], code)
            .shape(|spec, _| spec.limits.wall = Duration::from_secs(6))
            .loosen(|spec, _| {
                spec.stdout = Output::Capture { head: 1 << 30, tail: 0 };
                spec.stderr = Output::Capture { head: 1 << 30, tail: 0 };
            })
            .seen(|ended, _| ended.stdout.head.len() + ended.stderr.head.len() >= 64 << 20)
            .never_ended(|ended| {
                let kept = [
                    &ended.stdout.head,
                    &ended.stdout.tail,
                    &ended.stderr.head,
                    &ended.stderr.tail,
                ];
                kept.iter().any(|piece| piece.len() > 128 << 10)
                    || ended.stdout.total + ended.stderr.total < 64 << 20
            })
            .ends(&[Exited(0)])
            .growth(16 << 20)
    };
    vec![
        flood(
            "S6",
            "flood of standard output",
            "line = b'x' * 1023 + b'\\n'\nfor _ in range(1024 * 64 // 64):\n    os.write(1, line * 64)\n",
        ),
        flood(
            "S7",
            "flood of standard error",
            "line = b'x' * 1023 + b'\\n'\nfor _ in range(1024 * 64 // 64):\n    os.write(2, line * 64)\n",
        ),
        flood(
            "S8",
            "flood without an end of line",
            "for _ in range(64 * 16):\n    os.write(1, b'x' * 65536)\n",
        ),
        flood(
            "S9",
            "flood of a child while the program sleeps",
            r#"
child = os.fork()
if child == 0:
    for _ in range(64 * 16):
        os.write(1, b"x" * 65536)
    os._exit(0)
time.sleep(0.3)
os.waitpid(child, 0)
"#,
        ),
    ]
}

fn time() -> Vec<Row> {
    let endless = |id, name: &str, code: &str| {
        row(id, name, &[Wall], code)
            .shape(|spec, _| spec.limits.wall = Duration::from_millis(600))
            .loosen(|spec, _| spec.limits.wall = Duration::from_secs(5))
            .ends(&[TimedOut])
            .within(Duration::from_millis(1100))
    };
    let later = "signal.alarm(0)\nescaped('was still there after the limit')";
    vec![
        endless("S10", "spin", "end = time.time() + 1.2\nwhile time.time() < end: pass\nescaped('spun on')").alone(),
        endless(
            "S10",
            "spin in C that holds the interpreter",
            "import re\nend = time.time() + 1.2\nwhile time.time() < end:\n    re.match(r'(a+)+$', 'a' * 22 + 'b')\nescaped('spun on')",
        ).alone(),
        endless("S22", "sleep", "time.sleep(1.2)\nescaped('slept on')"),
        endless(
            "S24",
            "ignore every signal",
            r#"
import signal
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
time.sleep(1.2)
escaped("ignored the end")
"#,
        ),
        endless(
            "S25",
            "a parent in vfork",
            &format!(
                r#"
code = bytes.fromhex("b83a0000000f0585c07401c3") + bytes.fromhex("b82300000048bf") + b"TIMESPEC" + bytes.fromhex("31f60f05b83c00000031ff0f05")
timespec = (ctypes.c_long * 2)(1, 200000000)
machine_code(code.replace(b"TIMESPEC", ctypes.addressof(timespec).to_bytes(8, "little")))
{later}
"#
            ),
        )
        .prologue("import signal"),
        endless(
            "S22",
            "stop itself",
            r#"
import signal
if os.fork() == 0:
    time.sleep(1.2)
    os.kill(os.getppid(), signal.SIGCONT)
    os._exit(0)
os.kill(os.getpid(), signal.SIGSTOP)
escaped("went on after the limit")
"#,
        ),
        endless(
            "S28",
            "a thread that outlives the main function",
            "import threading\nthreading.Thread(target=lambda: (time.sleep(1.2), escaped('went on'))).start()",
        ),
        endless(
            "S28",
            "an exit handler that does not end",
            "import atexit\n@atexit.register\ndef late():\n    time.sleep(1.2)\n    escaped('went on')",
        ),
        endless(
            "S30",
            "a destructor that does not end",
            "class Late:\n    def __del__(self, sleep=time.sleep, write=os.write):\n        sleep(1.2)\n        write(1, b'ESCAPED went on\\n')\nkept = Late()",
        ),
        row(
            "S10",
            "more processor than its share",
            &[],
            r#"
import resource
def used():
    both = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(sum(resource.getrusage(who)[:2]) for who in both)
before, started = used(), time.time()
if os.fork() == 0:
    while time.time() < started + 1.5: pass
    os._exit(0)
while time.time() < started + 1.5: pass
os.wait()
share = (used() - before) / (time.time() - started)
if share > 0.15:
    escaped("used", share)
nothing("used", share)
"#,
        )
        // So small that it shows on a machine with much else to do.
        .shape(|spec, _| spec.limits.cpu_percent = Some(5))
        .loosen(|spec, _| spec.limits.cpu_percent = None)
        .who(Who::Root)
        .weaker(Weaker::WithoutControlGroups, "only a control group bounds processor time")
        .nothing()
        .alone(),
    ]
}

fn disk() -> Vec<Row> {
    vec![
        row(
            "S11",
            "a file in /tmp above its size",
            &[TmpLimits, CgroupMemory],
            "with open('/tmp/huge', 'wb', 0) as file:\n    for _ in range(24):\n        file.write(b'x' * (1 << 20))\nescaped('wrote 24 MB')",
        )
        .shape(|spec, _| spec.limits.tmp_size = 8 << 20)
        .refused(&["ENOSPC"])
        .alone(),
        row(
            "S11",
            "a file above the largest size",
            &[Rlimits],
            "file = open('/workspace/huge', 'wb', 0)\nfor _ in range(12):\n    os.pwrite(file.fileno(), b'x' * 4096, _ << 20)\nescaped('reached 12 MB')",
        )
        .shape(|spec, _| spec.limits.file_size = 8 << 20)
        .refused(&["EFBIG"]),
        row(
            "S11",
            "raise the largest size again",
            &[Rlimits],
            r#"
import resource
try:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
except ValueError:
    pass
os.ftruncate(os.open('/workspace/huge', os.O_CREAT | os.O_RDWR), 12 << 20)
escaped('reached 12 MB')
"#,
        )
        .shape(|spec, _| spec.limits.file_size = 8 << 20)
        .refused(&["EFBIG"]),
        row(
            "S12",
            "a sparse file of a terabyte",
            &[Rlimits],
            "os.ftruncate(os.open('/workspace/sparse', os.O_CREAT | os.O_RDWR), 1 << 40)\nescaped('made it')",
        )
        .refused(&["EFBIG"]),
        row(
            "S12",
            "fallocate",
            &[Rlimits],
            "os.posix_fallocate(os.open('/workspace/reserved', os.O_CREAT | os.O_RDWR), 0, 12 << 20)\nescaped('reserved it')",
        )
        .shape(|spec, _| spec.limits.file_size = 8 << 20)
        .refused(&["EFBIG"]),
        row(
            "S13",
            "a storm of files in /tmp",
            &[TmpLimits],
            "for number in range(800):\n    open(f'/tmp/{number}', 'w').close()\nescaped('made 800')",
        )
        .shape(|spec, _| spec.limits.tmp_inodes = 500)
        .weaker(Weaker::ThroughBubblewrap, "bubblewrap has no option for the number of files")
        .refused(&["ENOSPC"]),
        row(
            "S13",
            "a storm of directories, links and fifos in /tmp",
            &[TmpLimits],
            "for number in range(300):\n    os.mkdir(f'/tmp/d{number}')\n    os.symlink('x', f'/tmp/l{number}')\n    os.mkfifo(f'/tmp/f{number}')\nescaped('made 900')",
        )
        .shape(|spec, _| spec.limits.tmp_inodes = 500)
        .weaker(Weaker::ThroughBubblewrap, "bubblewrap has no option for the number of files")
        .refused(&["ENOSPC"]),
        row(
            "S13",
            "every other place that takes files",
            &[TmpLimits, LeftOut::ReadOnly, LeftOut::Landlock],
            r#"
made = 0
for place in ("/dev/shm", "/dev/mqueue", "/run", "/var/tmp", "/dev", "/"):
    try:
        for number in range(800):
            os.close(os.open(f"{place}/e-{place.count('/')}-{len(place)}-{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            made += 1
    except OSError:
        pass
if made > 520:
    escaped("made", made)
nothing("made", made)
"#,
        )
        .shape(|spec, _| spec.limits.tmp_inodes = 500)
        .weaker(Weaker::ThroughBubblewrap, "bubblewrap has no option for the number of files")
        .nothing(),
    ]
}

fn descriptors() -> Vec<Row> {
    vec![
        row(
            "S19",
            "descriptors above the limit",
            &[Rlimits],
            "kept = [os.open('/dev/null', 0) for _ in range(200)]\nescaped('has', len(kept))",
        )
        .shape(|spec, _| spec.limits.open_files = 64)
        .refused(&["EMFILE"]),
        row(
            "S19",
            "descriptors parked in sockets",
            &[Rlimits],
            r#"
import socket
left, right = socket.socketpair()
left.setblocking(False)
parked = 0
for _ in range(100):
    fds = [os.open("/dev/null", 0) for _ in range(8)]
    socket.send_fds(left, [b"x"], fds)
    parked += 8
    for fd in fds:
        os.close(fd)
escaped("parked", parked)
"#,
        )
        .shape(|spec, _| spec.limits.open_files = 64)
        .refused(&["ETOOMANYREFS", "EAGAIN"]),
        row(
            "S19",
            "so many descriptors parked that nobody of this user can pass one",
            &[Rlimits],
            r#"
import socket, resource
try:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
except ValueError:
    pass
pairs = []
parked = 0
try:
    while parked < 6000:
        left, right = socket.socketpair()
        left.setblocking(False)
        pairs.append((left, right))
        fds = [os.open("/dev/null", 0)] * 250
        for _ in range(4):
            socket.send_fds(left, [b"x"], fds)
            parked += 250
        os.close(fds[0])
except OSError as error:
    time.sleep(1)
    refused(error, "parked", parked)
time.sleep(1)
escaped("parked", parked)
"#,
        )
        .shape(|spec, _| spec.limits.open_files = 1024)
        .refused(&["ETOOMANYREFS", "EAGAIN"])
        .alone(),
        row(
            "S19",
            "locked memory",
            &[Rlimits, CgroupMemory, Watch, LeftOut::Capabilities, LeftOut::UserNamespace],
            "import mmap\narea = mmap.mmap(-1, 1 << 20)\nif libc.mlock(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(area))), ctypes.c_size_t(1 << 20)):\n    refused(ctypes.get_errno())\nescaped('locked 1 MB')",
        )
        .refused(&["ENOMEM", "EPERM"]),
        row(
            "S21",
            "bytes in POSIX message queues",
            &[Rlimits, IpcNamespace, LeftOut::Capabilities, LeftOut::UserNamespace, LeftOut::Landlock],
            format!(
                r#"
class Attributes(ctypes.Structure):
    _fields_ = [("values", ctypes.c_long * 8)]
for number in range(4):
    attributes = Attributes((ctypes.c_long * 8)(0, 10, 1024, 0))
    name = f"escape-{{os.environ['STAGE']}}-{{number}}".encode()
    call({}, name, os.O_CREAT | os.O_RDWR, 0o600, ctypes.byref(attributes))
    call({}, name)
escaped("reserved 40 KB")
"#,
                libc::SYS_mq_open,
                libc::SYS_mq_unlink
            ),
        )
        .refused(&["EMFILE", "ENOSPC", "EPERM", "ENOSYS"]),
    ]
}

//! Rows about files: what can be read, written, reached by another name, left behind.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;

use sandbox::LeftOut::{
    self, Capabilities, CloseFds, Landlock, MinimalDev, MountView, NoNewPrivs, Nosuid, ProcMasks,
    ReadOnly, Seccomp, UserNamespace,
};
use sandbox::{Access, Mount, Source};

use super::row::{Row, Who, row};
use super::stage::Stage;

/// The host's files are not in view, Landlock knows only what is mounted, ids are not the host's.
const VIEW: &[LeftOut] = &[MountView, Landlock, Capabilities, UserNamespace];
const READ_ONLY: &[LeftOut] = &[ReadOnly, Landlock, Capabilities, UserNamespace];
const PROC: &[LeftOut] = &[ProcMasks, ReadOnly, Landlock, Capabilities, UserNamespace];
const DEVICES: &[LeftOut] = &[MinimalDev, Landlock, Capabilities, UserNamespace];

pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    rows.extend(reading());
    rows.extend(writing());
    rows.extend(read_only_mount());
    rows.extend(descriptors());
    rows.extend(set_user_id());
    rows.extend(privileged_bits());
    rows.extend(holding_others_up());
    rows.extend(mounts());
    rows.extend(proc_and_devices());
    rows.extend(left_behind());
    rows
}

fn reading() -> Vec<Row> {
    let read = |name: &str, path: &str| {
        row(
            "S32",
            name,
            VIEW,
            format!("path = {path}\nwith open(path) as file:\n    escaped(file.read(4096))"),
        )
        .says_secret()
        .second_behind(MountView)
        .refused(&["ENOENT"])
    };
    let mut rows = vec![
        read("a secret file of the host", "os.environ['SECRET_FILE']"),
        read("another run's workspace", "os.environ['NEIGHBOUR']"),
        read("beside /tmp by ..", "'/tmp/../' + os.environ['SECRET_FILE']"),
        read("by /proc/self/root", "'/proc/self/root/../..' + os.environ['SECRET_FILE']"),
        read("by /proc/self/cwd", "'/proc/self/cwd/../../../../../..' + os.environ['SECRET_FILE']"),
        row(
            "S32",
            "by a symbolic link",
            VIEW,
            r#"
os.symlink(os.environ["SECRET_FILE"], "/tmp/link")
with open("/tmp/link") as file:
    escaped(file.read())
"#,
        )
        .second_behind(MountView)
        .says_secret()
        .refused(&["ENOENT"]),
        row(
            "S32",
            "by the parent of a descriptor of the workspace",
            VIEW,
            r#"
fd = os.open(".", os.O_PATH)
for _ in range(8):
    fd = os.open("..", os.O_PATH, dir_fd=fd)
with open(os.open(os.environ["SECRET_FILE"].lstrip("/"), os.O_RDONLY, dir_fd=fd)) as file:
    escaped(file.read())
"#,
        )
        .second_behind(MountView)
        .says_secret()
        .refused(&["ENOENT"]),
    ];
    for path in
        ["/etc/shadow", "/root", "/home", "/sys/kernel", "/var/log", "/boot", "/work", "/mnt"]
    {
        // Directories by listing; the file by opening. Only those that this host has can be shown.
        if !std::path::Path::new(path).exists() {
            continue;
        }
        let who = if ["/etc/shadow", "/root"].contains(&path) { Who::Root } else { Who::Both };
        rows.push(
            row(
                "S32",
                format!("look at {path}"),
                VIEW,
                format!(
                    r#"
path = "{path}"
found = os.listdir(path) if os.path.isdir(path) else open(path).read(20)
escaped(path, "can be read:", len(found))
"#
                ),
            )
            .who(who)
            .refused(&["ENOENT"]),
        );
    }
    rows.push(
        row(
            "S42",
            "open_by_handle_at with a handle of a host file",
            &[Seccomp, Capabilities, UserNamespace, NoNewPrivs, Landlock],
            format!(
                r#"
handle = bytes.fromhex(os.environ["SECRET_HANDLE"])
where = os.open("/workspace", os.O_RDONLY)
fd = call({}, where, handle, os.O_RDONLY)
escaped(os.read(fd, 4096).decode())
"#,
                libc::SYS_open_by_handle_at
            ),
        )
        .who(Who::Root)
        .says_secret()
        .refused(&["EPERM"]),
    );
    rows.push(
        row(
            "S42",
            "the old root among the mounts",
            &[MountView],
            r#"
points = [line.split()[4] for line in open("/proc/self/mountinfo")]
for point in points:
    for name in (os.environ["SECRET_FILE"], os.environ["NEIGHBOUR"]):
        if os.path.exists(point + name):
            escaped("the host is at", point)
nothing("only", points)
"#,
        )
        .nothing(),
    );
    rows
}

fn writing() -> Vec<Row> {
    let mut rows = vec![
        row(
            "S31",
            "make a file in the root",
            READ_ONLY,
            "open('/planted', 'w').close()\nescaped('made a file in the root')",
        )
        .second_behind(ReadOnly)
        .refused(&["EROFS"]),
        row(
            "S31",
            "change the mode of the root",
            READ_ONLY,
            "os.chmod('/', 0o777)\nescaped('changed the mode of the root')",
        )
        .refused(&["EROFS"]),
        row(
            "S31",
            "open a system file for writing",
            READ_ONLY,
            "os.close(os.open('/usr/bin/id', os.O_WRONLY | os.O_APPEND))\nescaped('could write /usr')",
        )
        .who(Who::Root)
        .refused(&["EROFS", "EACCES"]),
        row(
            "S31",
            "every place outside /tmp and the workspace",
            READ_ONLY,
            r#"
found = []
for root, directories, files in os.walk("/"):
    if root in ("/tmp", "/workspace", "/proc"):
        directories[:] = []
        continue
    if os.access(root, os.W_OK, effective_ids=True):
        found.append(root)
    if root == "/usr":
        directories[:] = ["bin", "lib", "local", "share"]
    elif root.count("/") > 2:
        directories[:] = []
found = [place for place in found if place != "/dev/shm"]
if found:
    escaped("can write", found)
nothing("no other place can be written")
"#,
        )
        .nothing(),
    ];
    for (id, path) in [
        ("S31", "/proc/sys/kernel/core_pattern"),
        ("S31", "/proc/sys/kernel/modprobe"),
        ("S31", "/proc/sys/vm/overcommit_memory"),
        ("S31", "/proc/sysrq-trigger"),
        ("S31", "/proc/irq/default_smp_affinity"),
    ] {
        if !std::path::Path::new(path).exists() {
            continue;
        }
        rows.push(
            row(
                id,
                format!("write {path}"),
                PROC,
                // Only opened: nothing of the host is changed even where it works.
                format!("os.close(os.open('{path}', os.O_WRONLY))\nescaped('could write {path}')"),
            )
            .who(Who::Root)
            .refused(&["EROFS", "EACCES", "ENOENT"]),
        );
    }
    rows.push(
        row(
            "S31",
            "be the last to go when memory is short",
            &[ProcMasks, ReadOnly, Landlock],
            r#"
with open("/proc/self/oom_score_adj", "w") as file:
    file.write("0")
escaped("the server goes first:", open("/proc/self/oom_score_adj").read())
"#,
        )
        .refused(&["EROFS", "EACCES"]),
    );
    rows.push(
        row(
            "S31",
            "release_agent and the cgroup tree",
            &[MountView, Landlock, Capabilities, UserNamespace, ReadOnly],
            r#"
for root, directories, files in os.walk("/sys/fs/cgroup"):
    for name in files:
        if name in ("release_agent", "cgroup.procs", "tasks", "notify_on_release"):
            try:
                os.close(os.open(root + "/" + name, os.O_WRONLY))
                escaped("could write", root + "/" + name)
            except OSError:
                pass
nothing("no cgroup file can be written")
"#,
        )
        .who(Who::Root)
        .nothing(),
    );
    rows.push(
        row(
            "S31",
            "a mount point's parent renamed away",
            READ_ONLY,
            "os.rename('/deep/er', '/deep/away')\nescaped('moved what the mount point stands on')",
        )
        .shape(|spec, stage| {
            spec.mounts.push(Mount {
                source: Source::Path(stage.dir().join("readonly")),
                target: "/deep/er/still".into(),
                access: Access::ReadOnly,
            });
        })
        .refused(&["EROFS", "EBUSY"]),
    );
    rows
}

/// What can be done to a directory that is mounted read-only. The host's side is looked at too.
fn read_only_mount() -> Vec<Row> {
    let mut rows = Vec::new();
    let kept = |attack: &str, name: &str| {
        row("S31", format!("read-only mount: {name}"), READ_ONLY, attack)
            .refused(&["EROFS"])
            .never(|stage| !stage.read_only_is_untouched())
    };
    for (name, action) in [
        ("open for writing", "os.close(os.open('/readonly/kept', os.O_WRONLY))"),
        ("truncate", "os.truncate('/readonly/kept', 1)"),
        ("make a file", "open('/readonly/planted', 'w').close()"),
        ("unlink", "os.unlink('/readonly/kept')"),
        ("rename within", "os.rename('/readonly/kept', '/readonly/moved')"),
        ("mkdir", "os.mkdir('/readonly/planted')"),
        ("symlink", "os.symlink('/', '/readonly/planted')"),
        ("fifo", "os.mkfifo('/readonly/planted')"),
        ("chmod", "os.chmod('/readonly/kept', 0o777)"),
        ("chmod of the mount point", "os.chmod('/readonly', 0o777)"),
        ("fchmod of a read-only descriptor", "os.fchmod(os.open('/readonly/kept', 0), 0o777)"),
        ("times", "os.utime('/readonly/kept', (1, 1))"),
        ("attribute", "os.setxattr('/readonly/kept', 'user.planted', b'x')"),
        (
            "reopen a read-only descriptor by /proc/self/fd",
            "fd = os.open('/readonly/kept', 0)\nos.open(f'/proc/self/fd/{fd}', os.O_RDWR)",
        ),
        (
            "reopen an O_PATH descriptor",
            "fd = os.open('/readonly/kept', os.O_PATH)\nos.open(f'/proc/self/fd/{fd}', os.O_RDWR)",
        ),
        ("file without a name", "os.open('/readonly', os.O_TMPFILE | os.O_RDWR)"),
        ("below a directory in it", "open('/readonly/sub/planted', 'w').close()"),
        (
            "shared mapping of a reopened file",
            "import mmap\nfd = os.open('/proc/self/root/readonly/kept', os.O_RDWR)\nmmap.mmap(fd, 4)[0] = 65",
        ),
    ] {
        let row = kept(&format!("{action}\nescaped('changed it')"), name);
        // Landlock has no right for modes, times and attributes.
        let about = ["chmod", "times", "attribute"].iter().any(|word| name.contains(word));
        rows.push(if about { row } else { row.second_behind(ReadOnly) });
    }
    rows.push(
        kept(
            r#"
fd = os.open("/tmp", os.O_TMPFILE | os.O_RDWR)
os.link(f"/proc/self/fd/{fd}", "/tmp/named", src_dir_fd=fd)
os.rename("/tmp/named", "/readonly/planted")
escaped("moved it across")
"#,
            "rename from another mount",
        )
        .loosen(|spec, stage| {
            // Within one mount the same steps work; what holds here is that there are two.
            spec.mounts.clear();
            spec.mounts.push(Mount {
                source: Source::Path(stage.dir().to_owned()),
                target: "/mounted".into(),
                access: Access::ReadWrite,
            });
            replace_in_attack(
                spec,
                &[("\"/tmp", "\"/mounted/workspace"), ("\"/readonly", "\"/mounted/readonly")],
            );
            spec.cwd = "/tmp".into();
        })
        .refused(&["EXDEV", "EROFS"]),
    );
    rows.push(
        kept(
            r#"
os.link("/readonly/kept", "/workspace/second-name")
with open("/workspace/second-name", "w") as file:
    file.write("changed")
escaped("wrote through a hard link")
"#,
            "hard link into the workspace",
        )
        .loosen(|spec, stage| {
            spec.mounts.clear();
            spec.mounts.push(Mount {
                source: Source::Path(stage.dir().to_owned()),
                target: "/mounted".into(),
                access: Access::ReadWrite,
            });
            spec.cwd = "/tmp".into();
            replace_in_attack(
                spec,
                &[("/readonly/", "/mounted/readonly/"), ("/workspace/", "/mounted/workspace/")],
            );
        })
        .refused(&["EXDEV"]),
    );
    rows.push(
        kept(
            r#"
import mmap
area = mmap.mmap(os.open("/readonly/kept", os.O_RDONLY), 4, mmap.MAP_SHARED, mmap.PROT_READ)
address = [line for line in open("/proc/self/maps") if "/readonly/kept" in line][0].split("-")[0]
with open("/proc/self/mem", "r+b", 0) as memory:
    memory.seek(int(address, 16))
    memory.write(b"evil")
escaped("changed it")
"#,
            "a shared mapping written through /proc/self/mem",
        )
        .unproven("the kernel itself holds it; only looked at")
        .refused(&["EIO", "EROFS", "EACCES"]),
    );
    rows.push(
        row(
            "S31",
            "a read-only directory inside the workspace is moved away",
            &[],
            r#"
os.rename("/workspace/records", "/workspace/away")
os.mkdir("/workspace/records")
escaped("put its own in the place")
"#,
        )
        .shape(|spec, stage| {
            spec.mounts.push(Mount {
                source: Source::Path(stage.dir().join("workspace/records")),
                target: "/workspace/records".into(),
                access: Access::ReadOnly,
            });
        })
        .loosen(|spec, _| {
            spec.mounts.pop();
        })
        .refused(&["EBUSY"]),
    );
    rows.push(
        row(
            "S31",
            "a read-only directory inside the workspace is written",
            &[],
            "open('/workspace/records/planted', 'w').close()\nescaped('wrote into the records')",
        )
        .shape(|spec, stage| {
            spec.mounts.push(Mount {
                source: Source::Path(stage.dir().join("workspace/records")),
                target: "/workspace/records".into(),
                access: Access::ReadOnly,
            });
        })
        .loosen(|spec, _| {
            spec.mounts.pop();
        })
        .never(|stage| stage.dir().join("workspace/records/planted").exists())
        .refused(&["EROFS"]),
    );
    rows.push(
        kept(
            "open('/readonly/submount/planted', 'w').close()\nescaped('the mount below is writable')",
            "a mount of the host below it",
        )
        .who(Who::Root)
        .shape(|_, stage| stage.mount_below_read_only())
        .never(|stage| stage.dir().join("readonly/submount/planted").exists()),
    );
    rows
}

/// Points an attack at other places.
fn replace_in_attack(spec: &mut sandbox::Spec, pairs: &[(&str, &str)]) {
    for argument in &mut spec.args {
        for (from, to) in pairs {
            *argument = argument.to_str().unwrap().replace(from, to).into();
        }
    }
}

fn descriptors() -> Vec<Row> {
    vec![
        row(
            "S44",
            "a descriptor that nobody named",
            &[CloseFds],
            r#"
for name in sorted(os.listdir("/proc/self/fd"), key=int):
    if int(name) > 2:
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if target != "/proc/self/fd" and not target.startswith(f"/proc/{os.getpid()}"):
            escaped("has", name, target)
nothing("only 0, 1, 2")
"#,
        )
        .nothing(),
        row(
            "S44",
            "a read-only descriptor made writable by /proc/self/fd",
            &[Landlock, Capabilities, UserNamespace],
            r#"
fd = os.open("/proc/self/fd/7", os.O_RDWR)
os.pwrite(fd, b"changed", 0)
escaped("wrote to a file that was given for reading")
"#,
        )
        .shape(|spec, stage| {
            let file = File::open(stage.dir().join("given")).unwrap();
            spec.fds.push((7, file.into()));
        })
        .never(|stage| !stage.given_is_untouched())
        .refused(&["EACCES"]),
        row(
            "S32",
            "out of a directory descriptor that was given, by ..",
            &[Landlock, Capabilities, UserNamespace],
            r#"
fd = os.open("../secret", os.O_RDONLY, dir_fd=7)
escaped(os.read(fd, 4096).decode())
"#,
        )
        .shape(|spec, stage| {
            let directory = File::options()
                .read(true)
                .custom_flags(libc::O_DIRECTORY)
                .open(stage.dir().join("readonly"))
                .unwrap();
            spec.fds.push((7, directory.into()));
        })
        .says_secret()
        .refused(&["EACCES"]),
    ]
}

fn set_user_id() -> Vec<Row> {
    let gains = |name: &str, program: &str, layers: &[LeftOut]| {
        row(
            "S40",
            name,
            layers,
            format!(
                r#"
import subprocess
try:
    os.setgroups([])
    os.setresgid(1, 1, 1)
    os.setresuid(1, 1, 1)
except OSError:
    pass
before = os.geteuid(), os.getegid()
answer = subprocess.run(["{program}", "-E", "-I", "-S", "-c", '''
import os
print(os.geteuid(), os.getegid(), [l.split()[1] for l in open("/proc/self/status") if l.startswith("CapEff")][0])
'''], capture_output=True, text=True)
uid, gid, capabilities = answer.stdout.split()
if (int(uid), int(gid)) != before or int(capabilities, 16):
    escaped("became", answer.stdout)
nothing("stayed", answer.stdout)
"#
            ),
        )
        .who(Who::Root)
        .nothing()
    };
    let layers = &[Nosuid, NoNewPrivs, Seccomp, Landlock, UserNamespace, Capabilities];
    vec![
        gains("a set-user-id program of root in the workspace", "/workspace/tools/setuid", layers)
            .shape(|_, stage| stage.plant_set_user_id()),
        gains("a set-group-id program of root in the workspace", "/workspace/tools/setgid", layers)
            .shape(|_, stage| stage.plant_set_user_id()),
        gains("a program with file capabilities", "/workspace/tools/capable", layers)
            .shape(|_, stage| stage.plant_set_user_id()),
        row(
            "S40",
            "give a program file capabilities",
            &[Capabilities, UserNamespace, Landlock],
            r#"
open("/workspace/program", "w").close()
os.setxattr("/workspace/program", "security.capability", bytes.fromhex("0100000202000000000000000000000000000000"))
escaped("the file has capabilities")
"#,
        )
        .who(Who::Root)
        .refused(&["EPERM"]),
        row(
            "S40",
            "give a file to root",
            &[Capabilities, UserNamespace, Landlock, Seccomp],
            r#"
open("/workspace/mine", "w").close()
os.chown("/workspace/mine", 1, 1)
escaped("it is another user's now")
"#,
        )
        .who(Who::Root)
        .refused(&["EPERM", "EINVAL"]),
        row(
            "S31",
            "make a file of the workspace unchangeable",
            &[Capabilities, UserNamespace, Landlock, Seccomp],
            r#"
import fcntl
fd = os.open("/workspace/mine", os.O_CREAT | os.O_RDWR)
flags = bytearray(fcntl.ioctl(fd, 0x80086601, bytes(8)))
fcntl.ioctl(fd, 0x40086602, bytes([flags[0] | 0x10]) + bytes(flags[1:]))
fcntl.ioctl(fd, 0x40086602, bytes(flags))
escaped("nobody could have removed it")
"#,
        )
        .who(Who::Root)
        .refused(&["EPERM", "EACCES"]),
        row(
            "S50",
            "make a device",
            &[Capabilities, UserNamespace, Nosuid, Landlock, Seccomp, NoNewPrivs],
            r#"
os.mknod("/workspace/zero", 0o20666, os.makedev(1, 5))
escaped("read a device of its own:", os.read(os.open("/workspace/zero", 0), 4))
"#,
        )
        .who(Who::Root)
        .refused(&["EPERM", "EACCES"]),
        row(
            "S50",
            "open a device that lies in the workspace",
            &[Nosuid, Landlock],
            "escaped('read it:', os.read(os.open('/workspace/zero', 0), 4))",
        )
        .who(Who::Root)
        .shape(|_, stage| stage.plant_device())
        .refused(&["EACCES"]),
    ]
}

/// How everything in view is mounted, and what a link planted by an earlier run does to a mount.
fn mounts() -> Vec<Row> {
    let flags = |name: &str, layers: &[LeftOut], check: &str| {
        row(
            "S42",
            name,
            layers,
            format!(
                r#"
wrong = []
for line in open("/proc/self/mountinfo"):
    point, options = line.split()[4:6]
    options = options.split(",")
    {check}
if wrong:
    escaped(wrong)
nothing("none")
"#
            ),
        )
        .nothing()
    };
    let link = |name: &str, to: &'static str, shape: fn(&mut sandbox::Spec, &Stage)| {
        row("S31", name, &[], format!("nothing('saw', '{to}')"))
            .unproven("how a mount's target is looked up is not a layer; only looked at")
            .shape(shape)
            .never(|stage| stage.neighbour_was_changed())
            .may_be_refused_at_start()
            .nothing()
    };
    vec![
        flags(
            "a mount that honours set-user-id",
            &[Nosuid],
            "if 'nosuid' not in options: wrong.append(point)",
        ),
        flags(
            "a mount outside /dev that honours devices",
            &[Nosuid],
            "if 'nodev' not in options and not point.startswith('/dev'): wrong.append(point)",
        ),
        flags(
            "a writable mount besides /tmp and the workspace",
            &[ReadOnly],
            "if 'ro' not in options and point not in ('/tmp', '/workspace', '/dev/shm', '/var/tmp') and not point.startswith('/dev/'): wrong.append(point)",
        ),
        link("a mount's target is a planted link out of the workspace", "a link", |spec, stage| {
            stage.plant_link("workspace/planted", &stage.dir().join("neighbour"));
            push_target(spec, stage, "/workspace/planted");
        }),
        link("a mount's target lies behind a planted link", "a link", |spec, stage| {
            stage.plant_link("workspace/planted", &stage.dir().join("neighbour"));
            push_target(spec, stage, "/workspace/planted/made");
        }),
        link("a mount's target climbs by a planted link", "a link", |spec, stage| {
            stage.plant_link("workspace/planted", "../neighbour".as_ref());
            push_target(spec, stage, "/workspace/planted/made/deeper");
        }),
        link("a mount's target climbs by itself", "..", |spec, stage| {
            push_target(spec, stage, "/workspace/../../neighbour/made");
        }),
    ]
}

fn push_target(spec: &mut sandbox::Spec, stage: &Stage, target: &str) {
    spec.mounts.push(Mount {
        source: Source::Path(stage.dir().join("readonly")),
        target: target.into(),
        access: Access::ReadOnly,
    });
}

/// Bits that give a program of the workspace to whoever runs it on the host: there the file belongs
/// to the owner of the workspace, and no `nosuid` stands before it.
fn privileged_bits() -> Vec<Row> {
    let set = |name: &str, code: String| {
        row(
            "S40",
            name,
            &[Seccomp],
            format!("path = b'/workspace/program'\n{code}\nescaped('has the bit')"),
        )
        .seen(|ended, stage| {
            super::row::said(ended).starts_with("ESCAPED") && stage.has_privileged_file()
        })
        .never(Stage::has_privileged_file)
        .refused(&["EPERM"])
    };
    let make = "os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o755))";
    let mut rows = vec![
        set(
            "chmod with the set-user-id bit",
            format!("{make}\ncall({}, path, 0o4755)", libc::SYS_chmod),
        ),
        set(
            "chmod with the set-group-id bit",
            format!("{make}\ncall({}, path, 0o2755)", libc::SYS_chmod),
        ),
        set(
            "chmod with the bit, high bits set",
            format!("{make}\ncall({}, path, 1 << 32 | 0o4755)", libc::SYS_chmod),
        ),
        set(
            "fchmod with the bit",
            format!("{make}\ncall({}, os.open(path, 0), 0o4755)", libc::SYS_fchmod),
        ),
        set(
            "fchmodat with the bit",
            format!("{make}\ncall({}, AT_FDCWD, path, 0o4755)", libc::SYS_fchmodat),
        ),
        set(
            "fchmodat2 with the bit",
            format!("{make}\ncall({}, AT_FDCWD, path, 0o4755, 0)", libc::SYS_fchmodat2),
        ),
        set(
            "open makes a file with the bit",
            format!("call({}, path, os.O_CREAT | os.O_RDWR, 0o4755)", libc::SYS_open),
        ),
        set(
            "openat makes a file with the bit",
            format!("call({}, AT_FDCWD, path, os.O_CREAT | os.O_RDWR, 0o4755)", libc::SYS_openat),
        ),
        set("creat makes a file with the bit", format!("call({}, path, 0o4755)", libc::SYS_creat)),
        set(
            "mknod makes a file with the bit",
            format!("call({}, path, 0o104755, 0)", libc::SYS_mknod),
        ),
        set(
            "mknodat makes a file with the bit",
            format!("call({}, AT_FDCWD, path, 0o104755, 0)", libc::SYS_mknodat),
        ),
        set(
            "a nameless file with the bit gets a name",
            format!(
                "fd = call({}, AT_FDCWD, b'/workspace', os.O_TMPFILE | os.O_RDWR, 0o4755)\n\
                 os.link(f'/proc/self/fd/{{fd}}', path, src_dir_fd=fd)",
                libc::SYS_openat
            ),
        ),
    ];
    rows.push(
        set(
            "openat2 makes a file with the bit",
            format!(
                "how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_RDWR, 0o4755, 0)\n\
                 call({}, AT_FDCWD, path, ctypes.byref(how), 24)",
                libc::SYS_openat2
            ),
        )
        .refused(&["ENOSYS"]),
    );
    rows
}

/// What an open file lets one do to the others that use it.
fn holding_others_up() -> Vec<Row> {
    let lease = |name: &str, command: &str, layers: &[LeftOut]| {
        row(
            "S32",
            name,
            layers,
            format!(
                r#"
import fcntl
fd = os.open("/readonly/kept", os.O_RDONLY)
call({}, fd, {command})
escaped("whoever opens it on the host waits")
"#,
                libc::SYS_fcntl
            ),
        )
        .refused(&["EPERM"])
    };
    vec![
        lease("a write lease on a file of the host", "1024, fcntl.F_WRLCK", &[Seccomp]),
        lease("a write lease, high bits set", "1 << 32 | 1024, fcntl.F_WRLCK", &[Seccomp]),
        row(
            "S32",
            "told when others use a directory of the host",
            &[Seccomp],
            format!(
                "fd = os.open('/readonly', os.O_RDONLY)\ncall({}, fd, 1026, 1)\nescaped('is told')",
                libc::SYS_fcntl
            ),
        )
        .refused(&["EPERM"]),
    ]
}

fn proc_and_devices() -> Vec<Row> {
    let mut rows = Vec::new();
    for path in [
        "/proc/keys",
        "/proc/kallsyms",
        "/proc/config.gz",
        "/proc/cmdline",
        "/proc/key-users",
        "/proc/timer_list",
        "/proc/sched_debug",
        "/proc/kcore",
        "/proc/kmsg",
        "/proc/modules",
        "/proc/interrupts",
        "/proc/slabinfo",
    ] {
        // Only where this very user would read something, were there no sandbox, is there a row.
        let shows_something =
            path == "/proc/kmsg" || std::fs::read(path).is_ok_and(|text| !text.is_empty());
        if !can_be_opened(path) || !shows_something {
            continue;
        }
        rows.push(
            row(
                "S43",
                format!("read {path}"),
                PROC,
                format!(
                    r#"
fd = os.open("{path}", os.O_RDONLY | os.O_NONBLOCK)
# What is read of the kernel's log is taken out of it: there it is enough that it is the log.
if "{path}" == "/proc/kmsg":
    text = b"x" if os.fstat(fd).st_dev == os.stat("/proc").st_dev else b""
else:
    text = os.read(fd, 100)
if text:
    escaped("read", len(text))
nothing("it is empty")
"#
                ),
            )
            .masked(),
        );
    }
    let mut nodes = vec![
        "/dev/kmsg",
        "/dev/fuse",
        "/dev/kvm",
        "/dev/vsock",
        "/dev/userfaultfd",
        "/dev/loop-control",
        "/dev/mem",
        "/dev/port",
        "/dev/vda",
        "/dev/sda",
        "/dev/net/tun",
        "/dev/hwrng",
        "/dev/ptmx",
        "/dev/tty0",
        "/dev/console",
    ];
    nodes.retain(|path| can_be_opened(path));
    for path in nodes {
        rows.push(
            row(
                "S50",
                format!("open {path}"),
                DEVICES,
                format!("os.close(os.open('{path}', os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY))\nescaped('opened {path}')"),
            )
            .refused(&["ENOENT"]),
        );
    }
    rows.push(
        row(
            "S50",
            "anything in /dev besides the usual",
            &[MinimalDev],
            r#"
usual = {"null", "zero", "full", "random", "urandom", "fd", "stdin", "stdout", "stderr", "shm"}
more = sorted(set(os.listdir("/dev")) - usual)
if more:
    escaped("there is", more)
nothing("only the usual")
"#,
        )
        .nothing(),
    );
    rows.push(
        row(
            "S50",
            "the controlling terminal",
            &[MinimalDev, Landlock],
            "os.close(os.open('/dev/tty', os.O_RDWR | os.O_NOCTTY))\nescaped('has the terminal')",
        )
        // Without a terminal of the test itself the kernel's own answer is another one.
        .seen(|ended, _| {
            let said = super::row::said(ended);
            said.starts_with("ESCAPED") || said.starts_with("REFUSED ENXIO")
        })
        .refused(&["ENOENT"]),
    );
    rows.push(
        row(
            "S50",
            "a core dump in the workspace",
            &[LeftOut::Rlimits],
            "import resource\nhard = resource.getrlimit(resource.RLIMIT_CORE)[1]\nresource.setrlimit(resource.RLIMIT_CORE, (hard, hard))\nos.chdir('/workspace')\nos.kill(os.getpid(), 11)\ntime.sleep(5)",
        )
        .seen(|_, stage| stage.has_core())
        .never(|stage| stage.has_core())
        .ends(&[sandbox::Ending::Signaled(11)]),
    );
    rows
}

/// Whether this very user could open it, were there no sandbox. Only then is there a row.
fn can_be_opened(path: &str) -> bool {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    File::options().read(true).custom_flags(flags).open(path).is_ok()
}

/// What one run leaves for the next.
fn left_behind() -> Vec<Row> {
    let mut rows = Vec::new();
    for directory in ["/tmp", "/var/tmp", "/dev/shm", "/run/lock"] {
        rows.push(
            row(
                "S30",
                format!("a file left in {directory}"),
                &[],
                format!(
                    r#"
path = "{directory}/left-" + os.environ["STAGE"]
if os.path.exists(path):
    os.unlink(path)
    escaped("found what another run left")
nothing("nothing is there")
"#
                ),
            )
            .before(format!(
                r#"
try:
    open("{directory}/left-" + os.environ["STAGE"], "w").close()
except OSError:
    pass
"#
            ))
            // That each run has its own is no layer that could be left out; instead both runs are
            // pointed at a place that they share.
            .loosen(|spec, _| {
                let shared = "\"/workspace/left-";
                replace_in_attack(
                    spec,
                    &[
                        ("\"/tmp/left-", shared),
                        ("\"/var/tmp/left-", shared),
                        ("\"/dev/shm/left-", shared),
                        ("\"/run/lock/left-", shared),
                    ],
                );
            })
            .nothing(),
        );
    }
    rows
}

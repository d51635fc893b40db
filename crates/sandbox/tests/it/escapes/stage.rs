//! What an attack is aimed at: made for one run, by this test, in a directory of its own.
//!
//! Nothing here is the machine's real state, and all of it goes with the stage.

use std::fs::{self, File, Permissions};
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use sandbox::{Access, Mount, Output, Source, Spec};
use tempfile::TempDir;

const PRELUDE: &str = include_str!("prelude.py");
pub(super) const PYTHON: &str = "/usr/bin/python3";

/// `/tmp` is the cell's own even when the view of the host is not held back.
const PLACE: &str = "/var/tmp";

/// What every secret of a stage starts with.
pub(super) const SECRET: &str = "secret-of-";

/// Gives this user a key for as long as the thread lives: whether the kernel's lists of keys show
/// anything must not hang on what else runs on the machine.
pub(super) fn own_a_key() {
    const PROCESS_KEYRING: libc::c_int = -2;
    let (kind, name) = (c"user", c"pinfold-escapes");
    #[expect(unsafe_code, reason = "no crate that is here has add_key")]
    // SAFETY: two strings that end in NUL, and a payload of the length that is given.
    let key = unsafe {
        libc::syscall(
            libc::SYS_add_key,
            kind.as_ptr(),
            name.as_ptr(),
            c"x".as_ptr(),
            1_usize,
            PROCESS_KEYRING,
        )
    };
    assert!(key >= 0, "no key: {}", std::io::Error::last_os_error());
}

pub(super) struct Stage {
    directory: TempDir,
    /// Names this stage in environments, file names and keys: eight hexadecimal digits.
    mark: String,
    secret: String,
    tcp: TcpListener,
    udp: UdpSocket,
    mounted: AtomicBool,
    /// The other ends of terminals: a terminal hangs up when they are closed.
    kept: Mutex<Vec<OwnedFd>>,
    _sockets: (UnixListener, UnixListener, UnixDatagram),
}

impl Stage {
    pub(super) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let directory = TempDir::with_prefix_in("escapes-", PLACE).unwrap();
        let mark = format!(
            "{:04x}{:04x}",
            std::process::id() & 0xFFFF,
            NUMBER.fetch_add(1, Ordering::Relaxed)
        );
        let secret = format!("{SECRET}{mark}");
        let path = directory.path();
        open_to_all(path);
        for name in [
            "workspace",
            "workspace/records",
            "readonly",
            "readonly/sub",
            "readonly/submount",
            "neighbour",
        ] {
            fs::create_dir(path.join(name)).unwrap();
            open_to_all(&path.join(name));
        }
        for name in ["secret", "neighbour/data"] {
            fs::write(path.join(name), &secret).unwrap();
        }
        fs::write(path.join("readonly/kept"), "kept").unwrap();
        fs::write(path.join("given"), "given").unwrap();
        let abstract_name = |suffix: &str| {
            SocketAddr::from_abstract_name(format!("escapes-{mark}{suffix}")).unwrap()
        };
        let sockets = (
            UnixListener::bind(path.join("socket")).unwrap(),
            UnixListener::bind_addr(&abstract_name("")).unwrap(),
            UnixDatagram::bind_addr(&abstract_name("-datagram")).unwrap(),
        );
        fs::set_permissions(path.join("socket"), Permissions::from_mode(0o777)).unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.set_nonblocking(true).unwrap();
        Self {
            directory,
            secret,
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            udp,
            mounted: AtomicBool::new(false),
            kept: Mutex::default(),
            _sockets: sockets,
            mark,
        }
    }

    pub(super) fn dir(&self) -> &Path {
        self.directory.path()
    }

    /// A spec that runs `attack` in the workspace of this stage.
    pub(super) fn spec(&self, attack: &str) -> Spec {
        let mut spec = self.program(&format!("{PRELUDE}\n{attack}\n"));
        let path = |name: &str| self.dir().join(name).into_os_string();
        let port = |address: std::net::SocketAddr| address.port().to_string().into();
        spec.env = vec![
            ("STAGE".into(), self.mark.clone().into()),
            ("SECRET_FILE".into(), path("secret")),
            ("NEIGHBOUR".into(), path("neighbour/data")),
            ("SOCKET".into(), path("socket")),
            ("ABSTRACT".into(), format!("escapes-{}", self.mark).into()),
            ("TCP_PORT".into(), port(self.tcp.local_addr().unwrap())),
            ("UDP_PORT".into(), port(self.udp.local_addr().unwrap())),
            ("VICTIM_MARK".into(), self.victim_mark().into()),
            ("HOST_NAME".into(), rustix::system::uname().nodename().to_str().unwrap().into()),
        ];
        if attack.contains("SECRET_HANDLE") {
            spec.env.push(("SECRET_HANDLE".into(), self.handle().into()));
        }
        for (name, target, access) in [
            ("workspace", "/workspace", Access::ReadWrite),
            ("readonly", "/readonly", Access::ReadOnly),
        ] {
            spec.mounts.push(Mount {
                source: Source::Path(self.dir().join(name)),
                target: target.into(),
                access,
            });
        }
        spec.cwd = "/workspace".into();
        spec.limits.wall = Duration::from_secs(6);
        spec.limits.memory = 256 << 20;
        spec.limits.processes = 32;
        spec.limits.tmp_size = 16 << 20;
        spec.limits.tmp_inodes = 2000;
        spec.limits.file_size = 64 << 20;
        spec.limits.open_files = 128;
        spec
    }

    /// Another run, which keeps a secret in its environment and gives it away at its socket.
    pub(super) fn victim(&self) -> Spec {
        let mut spec = self.program(
            r#"
import os, socket, sys, time
listener = socket.socket(socket.AF_UNIX)
listener.bind("\0" + sys.argv[2])
listener.listen()
listener.settimeout(20)
os.write(1, b"ready\n")
connection, _ = listener.accept()
connection.send(os.environ["SECRET"].encode())
time.sleep(20)
"#,
        );
        spec.args.push(self.victim_mark().into());
        spec.env = vec![("SECRET".into(), self.secret.clone().into())];
        spec.limits.wall = Duration::from_secs(30);
        spec
    }

    fn victim_mark(&self) -> String {
        format!("victim-{}", self.mark)
    }

    fn program(&self, code: &str) -> Spec {
        let mut spec = Spec::new(PYTHON);
        spec.args = ["-I", "-S", "-c", code].map(Into::into).to_vec();
        // Seen in the command line, so that what is left of a run can be found from outside.
        spec.args.push(format!("run-of-{}", self.mark).into());
        spec.stdout = Output::Capture { head: 64 << 10, tail: 4 << 10 };
        spec.stderr = Output::Capture { head: 64 << 10, tail: 4 << 10 };
        spec
    }

    /// The kernel's handle of the secret file, in hexadecimal; taken by a program outside.
    fn handle(&self) -> String {
        Self::outside(&format!(
            "handle = bytearray(136)\nhandle[0] = 128\n\
             buffer = (ctypes.c_char * 136).from_buffer(handle)\n\
             call({}, AT_FDCWD, b'{}', buffer, ctypes.byref(ctypes.c_int()), 0)\n\
             print(bytes(handle[:8 + handle[0]]).hex())",
            libc::SYS_name_to_handle_at,
            self.dir().join("secret").display()
        ))
    }

    pub(super) fn read_only_is_untouched(&self) -> bool {
        let directory = self.dir().join("readonly");
        let mode = |path: &Path| fs::metadata(path).map(|about| about.permissions().mode() & 0o777);
        let kept = directory.join("kept");
        fs::read(&kept).is_ok_and(|text| text == b"kept")
            && mode(&kept).is_ok_and(|mode| mode == 0o644)
            && mode(&directory).is_ok_and(|mode| mode == 0o755)
            && fs::read_dir(directory.join("sub")).is_ok_and(|mut names| names.next().is_none())
            && fs::read_dir(&directory).is_ok_and(|names| names.count() == 3)
    }

    /// What a run that ended earlier may have left in its workspace.
    pub(super) fn plant_link(&self, name: &str, target: &Path) {
        std::os::unix::fs::symlink(target, self.dir().join(name)).unwrap();
    }

    pub(super) fn neighbour_was_changed(&self) -> bool {
        fs::read_dir(self.dir().join("neighbour")).unwrap().count() != 1
    }

    pub(super) fn given_is_untouched(&self) -> bool {
        fs::read(self.dir().join("given")).is_ok_and(|text| text == b"given")
    }

    pub(super) fn got_a_datagram(&self) -> bool {
        match self.udp.recv(&mut [0; 8]) {
            Ok(_) => true,
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(error) => panic!("the datagram socket of the stage: {error}"),
        }
    }

    /// Whether a file appears in the workspace within `time`.
    pub(super) fn appears(&self, name: &str, time: Duration) -> bool {
        let path = self.dir().join("workspace").join(name);
        let start = Instant::now();
        while start.elapsed() < time {
            if path.exists() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        path.exists()
    }

    /// Whether a file in the workspace gives its owner's rights to whoever runs it.
    pub(super) fn has_privileged_file(&self) -> bool {
        fs::read_dir(self.dir().join("workspace"))
            .unwrap()
            .any(|entry| entry.unwrap().metadata().unwrap().permissions().mode() & 0o6000 != 0)
    }

    pub(super) fn has_core(&self) -> bool {
        fs::read_dir(self.dir().join("workspace"))
            .unwrap()
            .any(|entry| entry.unwrap().file_name().to_string_lossy().starts_with("core"))
    }

    /// A file system of the host mounted below what the run sees read-only.
    pub(super) fn mount_below_read_only(&self) {
        let flags = rustix::mount::MountFlags::NOSUID;
        let target = self.dir().join("readonly/submount");
        rustix::mount::mount("escapes", &target, "tmpfs", flags, Some(c"mode=777")).unwrap();
        self.mounted.store(true, Ordering::Relaxed);
    }

    /// Copies of the interpreter with every kind of privilege that a file can carry.
    pub(super) fn plant_set_user_id(&self) {
        let tools = self.dir().join("workspace/tools");
        fs::create_dir(&tools).unwrap();
        for (name, mode) in [("setuid", 0o4755), ("setgid", 0o2755), ("capable", 0o755)] {
            fs::copy(PYTHON, tools.join(name)).unwrap();
            fs::set_permissions(tools.join(name), Permissions::from_mode(mode)).unwrap();
        }
        // Version 2, effective, CAP_SYS_ADMIN permitted.
        let capability = [1, 0, 0, 2, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(tools.join("capable"), "security.capability", &capability, flags)
            .unwrap();
    }

    /// A fresh terminal that is nobody's controlling terminal.
    pub(super) fn terminal(&self) -> OwnedFd {
        use rustix::pty;
        let main = pty::openpt(pty::OpenptFlags::RDWR | pty::OpenptFlags::NOCTTY).unwrap();
        pty::grantpt(&main).unwrap();
        pty::unlockpt(&main).unwrap();
        let name = pty::ptsname(&main, Vec::new()).unwrap();
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
        let side = rustix::fs::open(name, flags, rustix::fs::Mode::empty()).unwrap();
        self.kept.lock().unwrap().push(main);
        side
    }

    pub(super) fn plant_device(&self) {
        let path = self.dir().join("workspace/zero");
        let mode = rustix::fs::Mode::from(0o666);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::CharacterDevice,
            mode,
            rustix::fs::makedev(1, 5),
        )
        .unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    }

    /// What a piece of Python says outside any sandbox, as this user.
    pub(super) fn outside(code: &str) -> String {
        let code = format!("{PRELUDE}\n{code}");
        let output = Command::new(PYTHON).args(["-I", "-S", "-c", &code]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Processes of runs of this stage that still live, victims not counted.
    pub(super) fn left_processes(&self) -> Vec<i32> {
        let mark = format!("run-of-{}", self.mark);
        let victim = self.victim_mark();
        let names = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
        names
            .filter(|pid| {
                let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let line = String::from_utf8_lossy(&line);
                line.contains(&mark) && !line.contains(&victim)
            })
            .collect()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if self.mounted.load(Ordering::Relaxed) {
            let flags = rustix::mount::UnmountFlags::DETACH;
            rustix::mount::unmount(self.dir().join("readonly/submount"), flags).unwrap();
        }
    }
}

fn open_to_all(path: &Path) {
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

/// A descriptor that stays open in whatever this process starts, as a careless server has one.
pub(super) fn careless_descriptor() {
    let file = File::open(std::env::current_exe().unwrap()).unwrap();
    let high = rustix::io::fcntl_dupfd_cloexec(&file, 20).unwrap();
    rustix::io::fcntl_setfd(&high, rustix::io::FdFlags::empty()).unwrap();
    std::mem::forget(high);
}

//! The way through `/usr/bin/bwrap`, for hosts where an ordinary user may make namespaces only
//! with it.
//!
//! The same plan: what the keeper would mount becomes arguments, and the seal is our own, since the
//! first process inside is this executable (`keeper::shim`).

use std::ffi::{OsStr, OsString};
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::Error;
use crate::keeper::entry::SEAL_NAME;
use crate::keeper::wire::{self, Report};
use crate::keeper::{self};
use crate::plan::Plan;
use crate::plan::compile::Compiled;
use crate::{sys, view};

/// Where distributions put it. Never searched for: what is executed here must be root's.
pub(crate) const PATH: &str = "/usr/bin/bwrap";

/// Its version line, if it is installed.
pub(crate) fn version() -> Option<String> {
    let output = std::process::Command::new(PATH).arg("--version").env_clear().output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Starts a run; answers the socket on which its news come.
pub(crate) async fn send(compiled: &mut Compiled) -> Result<OwnedFd, Error> {
    let lost = |error: std::io::Error| Error::Unavailable {
        what: format!("{PATH} cannot be started: {error}"),
        hint: "install the package bubblewrap".to_owned(),
    };
    let (ours, theirs) = keeper::pair().map_err(lost)?;
    let mut arguments = Arguments::default();
    arguments.fill(&compiled.plan).map_err(lost)?;
    let passed = theirs.try_clone().map_err(lost)?;
    let number = passed.as_raw_fd().to_string();
    arguments.add(["--", &format!("/{SEAL_NAME}"), &number]);
    let fds = std::mem::take(&mut compiled.fds);
    let sent: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    wire::send(ours.as_fd(), &compiled.plan, &sent)
        .map_err(|errno| lost(std::io::Error::from_raw_os_error(errno.0)))?;
    let said = memory_file("said", b"").map_err(lost)?;
    let errors = said.try_clone().map_err(lost)?;
    let mut kept = arguments.files;
    kept.push(passed);
    let child =
        keeper::start_bubblewrap(arguments.list, kept, errors.into()).await.map_err(lost)?;
    let pid = child.id() as i32;
    let process = sys::open_process(pid)
        .and_then(|process| sys::watch(process).map_err(|_| sys::Errno(libc::EIO)))
        .map_err(|errno| lost(std::io::Error::from_raw_os_error(errno.0)))?;
    tokio::spawn(async move {
        let _ = process.readable().await;
        // It has ended, so this does not wait; `child` reaps nothing itself.
        let reaped = sys::reap(pid, 0);
        drop(child);
        let mut said = std::fs::File::from(said);
        let mut text = String::new();
        if said.rewind().and_then(|()| said.read_to_string(&mut text)).is_ok() && !text.is_empty() {
            let report = Report::Refused(text.trim().to_owned());
            let _ = wire::send(theirs.as_fd(), &report, &[]);
        }
        if let Ok(Some(reaped)) = reaped {
            let _ = wire::send(theirs.as_fd(), &Report::over(&reaped), &[]);
        }
    });
    Ok(ours)
}

fn memory_file(name: &str, content: &[u8]) -> std::io::Result<OwnedFd> {
    let fd = rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = std::fs::File::from(fd);
    file.write_all(content)?;
    file.rewind()?;
    Ok(file.into())
}

/// Arguments and the files they name by number.
#[derive(Default)]
struct Arguments {
    list: Vec<OsString>,
    files: Vec<OwnedFd>,
}

impl Arguments {
    fn add<const N: usize>(&mut self, arguments: [&str; N]) {
        self.list.extend(arguments.map(OsString::from));
    }

    fn data(&mut self, place: &str, content: &[u8]) -> std::io::Result<()> {
        let file = memory_file("data", content)?;
        self.add(["--perms", "0444", "--ro-bind-data", &file.as_raw_fd().to_string(), place]);
        self.files.push(file);
        Ok(())
    }

    fn fill(&mut self, plan: &Plan) -> std::io::Result<()> {
        self.add(["--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc"]);
        self.add(["--unshare-uts", "--unshare-cgroup-try", "--hostname", view::HOST_NAME]);
        let id = view::INSIDE_ID.to_string();
        self.add(["--uid", &id, "--gid", &id, "--die-with-parent", "--new-session"]);
        self.add(["--as-pid-1", "--cap-drop", "ALL", "--clearenv"]);
        self.system()?;
        self.temporary(plan);
        self.devices();
        self.proc();
        for bind in &plan.binds {
            let option = if bind.read_only { "--ro-bind" } else { "--bind" };
            self.add([option]);
            self.list.push(OsStr::from_bytes(&bind.source).to_owned());
            self.list.push(OsStr::from_bytes(&bind.target).to_owned());
        }
        let own = std::env::current_exe()?;
        self.add(["--ro-bind"]);
        self.list.push(own.into());
        self.add([&format!("/{SEAL_NAME}"), "--remount-ro", "/", "--chdir", "/"]);
        Ok(())
    }

    fn system(&mut self) -> std::io::Result<()> {
        for name in view::SYSTEM {
            let host = format!("/{name}");
            let Ok(found) = std::fs::symlink_metadata(&host) else { continue };
            if found.is_symlink() {
                let target = std::fs::read_link(&host)?;
                self.add(["--symlink"]);
                self.list.push(target.into());
                self.add([&host]);
            } else {
                self.add(["--ro-bind", &host, &host]);
            }
        }
        for name in view::ETC_DIRECTORIES.iter().chain(view::ETC_FILES) {
            let path = format!("/{name}");
            self.add(["--ro-bind-try", &path, &path]);
        }
        for (name, content) in view::ETC_SYNTHETIC {
            self.data(&format!("/{name}"), content.as_bytes())?;
        }
        self.data(&view::EMPTY_FILE.to_string_lossy(), b"")?;
        self.add(["--dir", "/run", "--dir", "/var"]);
        Ok(())
    }

    fn temporary(&mut self, plan: &Plan) {
        self.add(["--perms", "1777", "--size", &plan.tmp_size.to_string(), "--tmpfs", "/tmp"]);
        self.add(["--symlink", "/tmp", "/var/tmp"]);
    }

    fn devices(&mut self) {
        for name in view::DEVICES {
            let path = format!("/dev/{name}");
            self.add(["--dev-bind", &path, &path]);
        }
        for (name, target) in view::DEVICE_LINKS {
            self.add(["--symlink", target, &format!("/dev/{name}")]);
        }
    }

    fn proc(&mut self) {
        self.add(["--proc", "/proc"]);
        for name in view::PROC_MASKED {
            let path = format!("/proc/{name}");
            if Path::new(&path).is_dir() {
                self.add(["--tmpfs", &path, "--remount-ro", &path]);
            } else if Path::new(&path).exists() {
                self.add(["--ro-bind", "/dev/null", &path]);
            }
        }
        self.add(["--remount-ro", "/proc"]);
    }
}

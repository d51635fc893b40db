//! A server's process and everything it started.
//!
//! The server leads its own process group, and the group is ended with it, so nothing it started
//! stays behind, save a process that left the group on purpose. If pinfold itself is killed (-9),
//! nothing here runs any more: the servers then see their standard input end, and a well-behaved
//! one exits. (A parent-death signal would need code between fork and exec, which is unsafe.)

use std::io;
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio as Pipe};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use tokio::io::unix::AsyncFd;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use crate::error::Error;

/// Variables that a server inherits.
const INHERITED: [&str; 12] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
];

/// Between the end of its input and SIGTERM, and between that and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// A running server.
pub(crate) struct Process {
    child: Child,
    /// Readable when the process has ended, without reaping it. `None` on kernels without pidfds.
    exited: Option<AsyncFd<OwnedFd>>,
    /// Its process group, until it was reaped.
    group: Option<Pid>,
}

/// The three ends of its pipes.
pub(crate) struct Pipes {
    pub(crate) input: ChildStdin,
    pub(crate) output: ChildStdout,
    pub(crate) errors: ChildStderr,
}

/// Starts the program of a stdio endpoint.
pub(crate) fn start(
    command: &str,
    args: &[String],
    env: &std::collections::BTreeMap<String, String>,
    cwd: Option<&std::path::Path>,
) -> Result<(Process, Pipes), Error> {
    if let Some(cwd) = cwd.filter(|cwd| !cwd.is_dir()) {
        return Err(Error::Connect(format!(
            "the working directory `{}` of this server is not a directory: create it or correct `cwd`",
            cwd.display()
        )));
    }
    let inherited = INHERITED
        .iter()
        .filter_map(|name| Some((*name, std::env::var_os(name)?)))
        // A shell function in a variable is code, not data.
        .filter(|(_, value)| !value.as_encoded_bytes().starts_with(b"()"));
    let mut child = Command::new(command)
        .args(args)
        .env_clear()
        .envs(inherited)
        .envs(env)
        .current_dir(cwd.unwrap_or_else(|| std::path::Path::new(".")))
        .stdin(Pipe::piped())
        .stdout(Pipe::piped())
        .stderr(Pipe::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| cannot_start(command, &error))?;
    let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let exited = group.and_then(watch);
    let (Some(input), Some(output), Some(errors)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(Error::Connect(format!("`{command}` was started without its pipes")));
    };
    Ok((Process { child, exited, group }, Pipes { input, output, errors }))
}

/// A descriptor that becomes readable when the process has ended.
#[expect(
    deprecated,
    reason = "its successor is unsafe, for types that may close the descriptor early; an OwnedFd \
              does not, and unsafe code is forbidden here"
)]
fn watch(pid: Pid) -> Option<AsyncFd<OwnedFd>> {
    AsyncFd::new(pidfd_open(pid, PidfdFlags::NONBLOCK).ok()?).ok()
}

fn cannot_start(command: &str, error: &io::Error) -> Error {
    let advice = match error.kind() {
        io::ErrorKind::NotFound
            if command.contains('/') && std::path::Path::new(command).exists() =>
        {
            "its interpreter (the `#!` line) was not found: install it".to_owned()
        }
        io::ErrorKind::NotFound if command.contains(char::is_whitespace) => {
            "there is no such program: put its arguments in `args`, one string each".to_owned()
        }
        io::ErrorKind::NotFound if command.contains('/') => {
            "there is no such file: correct `command` of this server".to_owned()
        }
        io::ErrorKind::NotFound => {
            "it was not found in PATH: install it, or give its full path as `command`".to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "it may not be executed: check the file's permissions (chmod +x)".to_owned()
        }
        _ => error.to_string(),
    };
    Error::Connect(format!("cannot start `{command}`: {advice}"))
}

impl Process {
    /// Resolves when the process has ended. It is not reaped yet, so its group's number cannot
    /// have been given to anyone else.
    pub(crate) async fn exited(&mut self) {
        match &self.exited {
            Some(fd) => {
                let _ = fd.readable().await;
            }
            None => {
                // Reaps as well; the group is then signalled at once in `end`.
                let _ = self.child.wait().await;
            }
        }
    }

    /// Lets the process end by itself (its input is closed by now), then insists.
    pub(crate) async fn ask_to_end(&mut self) {
        for signal in [Signal::TERM, Signal::KILL] {
            if tokio::time::timeout(GRACE, self.exited()).await.is_ok() {
                return;
            }
            self.signal(signal);
        }
    }

    /// Ends whatever is left of the group and reaps.
    pub(crate) async fn end(&mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        let status = self.child.wait().await;
        self.group = None;
        status
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // Fails only when nobody is left in the group.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// An ended process, in words.
pub(crate) fn describe(status: io::Result<ExitStatus>) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("the server exited with status {code}"),
            (None, Some(signal)) => format!("the server was ended by signal {signal}"),
            (None, None) => "the server ended".to_owned(),
        },
        Err(error) => format!("the server ended ({error})"),
    }
}

//! The keeper: the one process that makes cells, and how the server talks to it.
//!
//! In the server: this file. In the keeper process: `entry` (how it comes to be), `serve` (its
//! loop), `identity` and `template` (what is made ahead), `cell` (one cell), `init` (its first
//! process), `seal` (the last steps before a program). It is single-threaded, holds no secret and
//! no descriptor of the server's but one socket, and decides nothing.

pub(crate) mod cell;
pub(crate) mod entry;
pub(crate) mod identity;
pub(crate) mod init;
pub(crate) mod probe;
pub(crate) mod seal;
pub(crate) mod serve;
pub(crate) mod shim;
pub(crate) mod template;
pub(crate) mod watch;
pub(crate) mod wire;

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::io::unix::AsyncFd;

use crate::plan::Plan;
use crate::sys::{self, Errno};
use crate::{Error, Way};
use wire::Hello;

const ANSWER_TIME: Duration = Duration::from_secs(15);

/// A keeper process, from the server's side. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Keeper {
    socket: AsyncFd<OwnedFd>,
    child: Option<Child>,
    /// As root: whether owners can be mapped on the root file system.
    pub(crate) maps_owners: bool,
}

/// Why a keeper could not be started.
#[derive(Debug)]
pub(crate) enum StartError {
    /// This host does not let it: the step and the reason.
    Refused { step: String, errno: Errno },
    /// It did not come up.
    Lost(String),
}

impl Keeper {
    pub(crate) async fn start(way: Way) -> Result<Self, StartError> {
        let lost = |what: &'static str| move |error| StartError::Lost(format!("{what}: {error}"));
        let (ours, theirs) = pair().map_err(lost("no socket pair"))?;
        let child = ask_starter(way, theirs).await.map_err(lost("cannot be started"))?;
        let socket = sys::watch(ours).map_err(lost("its socket cannot be polled"))?;
        let mut keeper = Self { socket, child: Some(child), maps_owners: false };
        match tokio::time::timeout(ANSWER_TIME, receive::<Hello>(&keeper.socket)).await {
            Ok(Ok(Some((Hello::Ready { maps_owners }, _)))) => {
                keeper.maps_owners = maps_owners;
                Ok(keeper)
            }
            Ok(Ok(Some((Hello::Failed { step, errno }, _)))) => {
                Err(StartError::Refused { step, errno })
            }
            Ok(Ok(None)) => Err(StartError::Lost("it ended at once".to_owned())),
            Ok(Err(errno)) => Err(StartError::Lost(errno.to_string())),
            Err(_) => Err(StartError::Lost("it does not answer".to_owned())),
        }
    }

    /// Sends a plan; the first descriptor is the run's report socket.
    pub(crate) async fn send(&self, plan: &Plan, fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        loop {
            let mut guard = self.socket.writable().await.map_err(|_| Errno(libc::EPIPE))?;
            match wire::send(self.socket.get_ref().as_fd(), plan, fds) {
                Err(Errno(libc::EAGAIN)) => guard.clear_ready(),
                other => return other,
            }
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            let _ = starter().send(Errand::End(child));
        }
    }
}

/// Receives on a socket that does not block.
pub(crate) async fn receive<T: serde::de::DeserializeOwned>(
    socket: &AsyncFd<OwnedFd>,
) -> Result<Option<(T, Vec<OwnedFd>)>, Errno> {
    loop {
        let mut guard = socket.readable().await.map_err(|_| Errno(libc::EIO))?;
        match wire::receive(socket.get_ref().as_fd()) {
            Err(Errno(libc::EAGAIN)) => guard.clear_ready(),
            // Said once, when the other side left something unread; its last words come after.
            Err(Errno(libc::ECONNRESET)) => {}
            other => return other,
        }
    }
}

/// A pair of packet sockets; the first does not block.
pub(crate) fn pair() -> std::io::Result<(OwnedFd, OwnedFd)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let flags = rustix::fs::fcntl_getfl(&ours)?;
    rustix::fs::fcntl_setfl(&ours, flags | rustix::fs::OFlags::NONBLOCK)?;
    Ok((ours, theirs))
}

type Answer = tokio::sync::oneshot::Sender<std::io::Result<Child>>;

enum Errand {
    Start(Way, OwnedFd, Answer),
    Bubblewrap(Vec<OsString>, Vec<OwnedFd>, Stdio, Answer),
    End(Child),
}

/// The thread that starts keepers and never ends: a keeper dies with the thread that started it,
/// not with the process.
fn starter() -> mpsc::Sender<Errand> {
    static STARTER: OnceLock<Mutex<mpsc::Sender<Errand>>> = OnceLock::new();
    let made = STARTER.get_or_init(|| {
        let (sender, errands) = mpsc::channel();
        std::thread::spawn(move || {
            for errand in errands {
                match errand {
                    Errand::Start(way, socket, answer) => {
                        let _ = answer.send(execute(way, socket));
                    }
                    Errand::Bubblewrap(arguments, kept, errors, answer) => {
                        let _ = answer.send(execute_bubblewrap(arguments, &kept, errors));
                    }
                    Errand::End(mut child) => {
                        let _ = child.kill();
                        let _ = child.wait();
                    }
                }
            }
        });
        Mutex::new(sender)
    });
    made.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

async fn ask_starter(way: Way, socket: OwnedFd) -> std::io::Result<Child> {
    let (answer, answered) = tokio::sync::oneshot::channel();
    let gone = || std::io::Error::other("the starting thread is gone");
    starter().send(Errand::Start(way, socket, answer)).map_err(|_| gone())?;
    answered.await.map_err(|_| gone())?
}

fn execute(way: Way, socket: OwnedFd) -> std::io::Result<Child> {
    Command::new("/proc/self/exe")
        .arg0(entry::NAME)
        .arg(if way == Way::Root { "root" } else { "ordinary" })
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(socket))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// Starts bubblewrap with these descriptors open, at their own numbers.
pub(crate) async fn start_bubblewrap(
    arguments: Vec<OsString>,
    kept: Vec<OwnedFd>,
    errors: Stdio,
) -> std::io::Result<Child> {
    let (answer, answered) = tokio::sync::oneshot::channel();
    let gone = || std::io::Error::other("the starting thread is gone");
    starter().send(Errand::Bubblewrap(arguments, kept, errors, answer)).map_err(|_| gone())?;
    answered.await.map_err(|_| gone())?
}

fn execute_bubblewrap(
    arguments: Vec<OsString>,
    kept: &[OwnedFd],
    errors: Stdio,
) -> std::io::Result<Child> {
    let mut command = Command::new(crate::bwrap::PATH);
    command.args(arguments).env_clear().current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
    sys::pass_on(&mut command, kept);
    command.spawn()
}

impl From<StartError> for Error {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Lost(what) => Self::KeeperLost(what),
            StartError::Refused { step, errno } => Self::Unavailable {
                what: format!("the keeper cannot {step}: {errno}"),
                hint: "run `pinfold doctor` to see which namespaces this host allows".to_owned(),
            },
        }
    }
}

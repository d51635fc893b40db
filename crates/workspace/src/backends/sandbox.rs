//! In our sandbox: every request, about files too, is carried out in a cell that sees nothing of
//! the host but the folder, at `/workspace`.
//!
//! Each has a cell of its own, so what a command leaves running ends with it, and what it leaves
//! outside of the folder is gone.

use std::ffi::OsStr;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use inside::{Disk, Folder, Reply, Request};
use sandbox::{Access, Ending, Limits, Mount, Source, Spec};

use super::local::{fetched, open_folder, store, stored};
use crate::backend::{Asked, Backend, Fault, Outcome, Program, outcome, own_limit};
use crate::embedded;

/// Where the workspace is seen.
pub(super) const ROOT: &str = "/workspace";
/// What an agent should know about it.
pub(super) const ABOUT: &str = "Commands run in a sandbox without network. Only files below \
/workspace last; /tmp is private to each command.";
/// Where the program that acts is seen.
const PROGRAM: &str = "/run/pinfold-inside";
/// The number of the descriptor with the request.
const REQUEST: i32 = 3;
/// Beyond a request's own limit.
const PATIENCE: Duration = Duration::from_secs(30);
/// Memory for a request about files: the largest file that is edited, several times.
const MEMORY: u64 = 1 << 30;
/// What nobody waits for is ended some day.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// A folder seen from inside cells.
#[derive(Debug)]
pub struct Sandbox {
    sandbox: sandbox::Sandbox,
    folder: PathBuf,
    disk: Disk,
    program: PathBuf,
    limits: Limits,
}

impl Sandbox {
    /// Opens the folder, which must be there.
    pub fn open(
        sandbox: sandbox::Sandbox,
        folder: &Path,
        programs: &Path,
        limits: Limits,
    ) -> Result<Self, Fault> {
        let (folder, disk) = open_folder(folder)?;
        let program = embedded::on_disk(programs)?;
        if program.starts_with(&folder) {
            return Err(Fault::Unavailable(format!(
                "the workspace {} holds what runs in it; keep data_dir somewhere else",
                folder.display()
            )));
        }
        Ok(Self { sandbox, folder, disk, program, limits })
    }

    /// The folder, with our records in it for reading only, and a place for long output.
    fn mounts(&self) -> Result<Vec<Mount>, Fault> {
        let failed = |what: &str, error: std::io::Error| {
            Fault::Unavailable(format!(
                "{what} of the workspace cannot be used: {error}; remove it"
            ))
        };
        let copy = |disk: &Disk| disk.fd().try_clone_to_owned();
        let directory = |name: &str, within: &Disk| -> std::io::Result<Disk> {
            within.make(OsStr::new(name))?;
            within.below(OsStr::new(name))
        };
        let agent = directory(".agent", &self.disk).map_err(|error| failed(".agent", error))?;
        let output = directory("output", &agent).map_err(|error| failed(".agent/output", error))?;
        let mount = |disk: &Disk, target: &str, access| -> Result<Mount, Fault> {
            let source = Source::Fd(copy(disk).map_err(|error| failed(target, error))?);
            Ok(Mount { source, target: PathBuf::from(target), access })
        };
        Ok(vec![
            Mount {
                source: Source::Path(self.program.clone()),
                target: PathBuf::from(PROGRAM),
                access: Access::ReadOnly,
            },
            mount(&self.disk, ROOT, Access::ReadWrite)?,
            mount(&agent, "/workspace/.agent", Access::ReadOnly)?,
            mount(&output, "/workspace/.agent/output", Access::ReadWrite)?,
        ])
    }

    async fn run(&self, request: &Request) -> Result<Reply, Fault> {
        let mut spec = Spec::new(PROGRAM);
        spec.args = [ROOT.to_owned(), format!("/proc/self/fd/{REQUEST}")].map(Into::into).to_vec();
        spec.env = vec![("TMPDIR".into(), "/tmp".into())];
        spec.cwd = PathBuf::from("/");
        spec.mounts = self.mounts()?;
        spec.limits = self.limits.clone();
        let unlimited = matches!(request, Request::Run(run) if run.limit_ms.is_none());
        spec.limits.wall = if unlimited { LONGEST } else { own_limit(request) + PATIENCE };
        if !matches!(request, Request::Run(_)) {
            spec.limits.memory = MEMORY;
        }
        spec.fds = vec![(REQUEST, written(request)?)];
        let (head, _) = embedded::LONGEST_ANSWER;
        spec.stdout = sandbox::Output::Capture { head: head as usize, tail: 0 };
        spec.stderr = sandbox::Output::Capture { head: 4 << 10, tail: 0 };
        let mut running = self.sandbox.spawn(spec).await.map_err(|error| match error {
            sandbox::Error::KeeperLost(what) => Fault::Lost(what),
            other => Fault::Unavailable(other.to_string()),
        })?;
        let ended = running.wait().await;
        match ended.ending {
            Ending::Exited(0) => inside::decode_reply(&ended.stdout.head).map_err(Fault::Lost),
            Ending::MemoryLimit => Err(Fault::Lost(format!(
                "it took more than {} MB of memory and was ended",
                self.limits.memory >> 20
            ))),
            other => {
                let words = String::from_utf8_lossy(&ended.stderr.head);
                Err(Fault::Lost(format!("{other:?} {}", words.trim())))
            }
        }
    }
}

/// The request as a file without a name.
fn written(request: &Request) -> Result<OwnedFd, Fault> {
    let bytes = inside::encode_request(request).map_err(Fault::Unavailable)?;
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let made = rustix::fs::memfd_create("pinfold-request", flags).map_err(std::io::Error::from);
    let filled = made.and_then(|fd| {
        let mut file = std::fs::File::from(fd);
        file.write_all(&bytes)?;
        Ok(OwnedFd::from(file))
    });
    filled.map_err(|error| Fault::Unavailable(format!("a request cannot be kept: {error}")))
}

#[async_trait::async_trait]
impl Backend for Sandbox {
    fn root(&self) -> &str {
        ROOT
    }

    async fn exec(&self, program: Program) -> Result<Outcome, Fault> {
        outcome(self.run(&program.request()).await?)
    }

    async fn read(&self, path: &str, from: u64, length: u64) -> Result<Asked<Vec<u8>>, Fault> {
        fetched(self.run(&Request::Fetch { path: path.to_owned(), from, length }).await?)
    }

    async fn write(&self, path: &str, content: Vec<u8>) -> Result<Asked<()>, Fault> {
        stored(self.run(&store(path, content)).await?)
    }

    async fn act(&self, request: Request) -> Result<Reply, Fault> {
        self.run(&request).await
    }

    async fn check(&self) -> Result<(), Fault> {
        match tokio::fs::symlink_metadata(&self.folder).await {
            Ok(found) if found.is_dir() => Ok(()),
            _ => Err(Fault::Gone(format!("the folder {} was removed", self.folder.display()))),
        }
    }
}

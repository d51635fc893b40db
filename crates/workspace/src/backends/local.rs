//! On this host. Files are reached through the open folder and never outside of it; commands run
//! as the user who runs the server, and can do all that this user can.
//!
//! Files are acted on in this process, by the same code that acts elsewhere; a command has a
//! process of its own beside it, which ends everything when nobody waits any more.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use inside::{Disk, Reply, Request, Root};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::backend::{Asked, Backend, Fault, Outcome, Program, outcome};
use crate::embedded;

/// Variables of the server's own that commands get; no others, since secrets come that way.
const PASSED_ON: [&str; 8] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR"];

/// What an agent should know about it.
pub(super) const ABOUT: &str = "Commands run on the user's own machine, with the user's rights.";

/// A folder of this host.
#[derive(Debug)]
pub struct Local {
    root: Root,
    shown: String,
    folder: PathBuf,
    program: OwnedFd,
}

impl Local {
    /// Opens the folder, which must be there.
    pub fn open(folder: &Path) -> Result<Self, Fault> {
        let (folder, disk) = open_folder(folder)?;
        let shown = shown(&folder)?;
        let root = Root::new(Arc::new(disk), &folder);
        Ok(Self { root, shown, folder, program: embedded::in_memory()? })
    }

    async fn run(&self, request: &Request) -> Result<Reply, Fault> {
        let input = inside::encode_request(request).map_err(Fault::Unavailable)?;
        let mut child = tokio::process::Command::new(embedded::path_of(&self.program))
            .args([inside::UNTIL_CLOSED, &self.shown])
            .env_clear()
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| Fault::Unavailable(format!("no process can be started: {error}")))?;
        let lost = |error: std::io::Error| Fault::Lost(error.to_string());
        let missing = || Fault::Lost("its pipes are missing".to_owned());
        // Open until the answer is there: when it is closed, everything is ended.
        let mut lifeline = child.stdin.take().ok_or_else(missing)?;
        let mut answer = child.stdout.take().ok_or_else(missing)?;
        lifeline.write_all(&input).await.map_err(lost)?;
        let mut bytes = Vec::new();
        answer.read_to_end(&mut bytes).await.map_err(lost)?;
        let status = child.wait().await.map_err(lost)?;
        drop(lifeline);
        inside::decode_reply(&bytes).map_err(|reason| Fault::Lost(format!("{reason} ({status})")))
    }
}

#[async_trait::async_trait]
impl Backend for Local {
    fn root(&self) -> &str {
        &self.shown
    }

    async fn exec(&self, program: Program) -> Result<Outcome, Fault> {
        outcome(self.run(&program.request()).await?)
    }

    async fn read(&self, path: &str, from: u64, length: u64) -> Result<Asked<Vec<u8>>, Fault> {
        fetched(self.act(Request::Fetch { path: path.to_owned(), from, length }).await?)
    }

    async fn write(&self, path: &str, content: Vec<u8>) -> Result<Asked<()>, Fault> {
        stored(self.act(store(path, content)).await?)
    }

    async fn act(&self, request: Request) -> Result<Reply, Fault> {
        if matches!(request, Request::Run(_)) {
            return self.run(&request).await;
        }
        let root = self.root.clone();
        let served = tokio::task::spawn_blocking(move || inside::serve(&root, &request));
        served.await.map_err(|error| Fault::Lost(error.to_string()))
    }

    async fn check(&self) -> Result<(), Fault> {
        match tokio::fs::symlink_metadata(&self.folder).await {
            Ok(found) if found.is_dir() => Ok(()),
            _ => Err(Fault::Gone(format!("the folder {} was removed", self.folder.display()))),
        }
    }

    fn environment(&self) -> Vec<(String, String)> {
        let own = PASSED_ON
            .iter()
            .filter_map(|name| std::env::var(name).ok().map(|value| ((*name).to_owned(), value)));
        own.chain([("TERM".to_owned(), "dumb".to_owned())]).collect()
    }
}

/// Resolves the way to a folder once, and opens what it leads to.
pub(super) fn open_folder(folder: &Path) -> Result<(PathBuf, Disk), Fault> {
    let failed = |error: std::io::Error| {
        Fault::Unavailable(format!("the folder {} cannot be opened: {error}", folder.display()))
    };
    let folder = folder.canonicalize().map_err(failed)?;
    let disk = Disk::open(&folder).map_err(failed)?;
    Ok((folder, disk))
}

/// The path as text: an agent has to write it.
fn shown(folder: &Path) -> Result<String, Fault> {
    folder.to_str().map(str::to_owned).ok_or_else(|| {
        let shown = folder.display();
        Fault::Unavailable(format!("the name of the folder {shown} is not UTF-8; rename it"))
    })
}

pub(super) fn store(path: &str, content: Vec<u8>) -> Request {
    Request::Write { path: path.to_owned(), content, known: None, compare: false }
}

pub(super) fn fetched(reply: Reply) -> Result<Asked<Vec<u8>>, Fault> {
    match reply {
        Reply::Bytes { bytes, .. } => Ok(Ok(bytes)),
        Reply::Refused(refusal) => Ok(Err(refusal)),
        other => Err(Fault::Lost(format!("an answer to something else came: {other:?}"))),
    }
}

pub(super) fn stored(reply: Reply) -> Result<Asked<()>, Fault> {
    match reply {
        Reply::Written(_) => Ok(Ok(())),
        Reply::Refused(refusal) => Ok(Err(refusal)),
        other => Err(Fault::Lost(format!("an answer to something else came: {other:?}"))),
    }
}

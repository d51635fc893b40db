//! The folder of a script's records, made so that no link is ever followed.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Where records are, below a workspace.
const AGENT: &str = ".agent";
const SCRIPTS: &str = "scripts";

/// Nothing outside, no links of any kind.
const INSIDE: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// The records of one script.
#[derive(Debug)]
pub(crate) struct Folder {
    agent: OwnedFd,
    directory: OwnedFd,
    path: String,
}

impl Folder {
    /// Makes the folder for a new script.
    pub(crate) fn create(workspace: BorrowedFd<'_>, id: &str) -> Result<Self, String> {
        let (agent, scripts) = ground(workspace)?;
        let path = path(id)?;
        let directory = enter(scripts.as_fd(), id, &path, true)?;
        Ok(Self { agent, directory, path })
    }

    /// The path of the folder below the workspace.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// `.agent` itself, to be laid over the script's view read-only.
    pub(crate) fn agent(&self) -> Result<OwnedFd, String> {
        self.agent.try_clone().map_err(|error| format!("{AGENT}: {error}"))
    }

    /// Makes one of the files; it must not be there yet.
    pub(crate) fn file(&self, name: &str) -> Result<File, String> {
        let failed = |reason: &str| format!("{}/{name} cannot be made: {reason}", self.path);
        let flags = OFlags::WRONLY
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::APPEND
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o644);
        let file = rustix::fs::openat2(&self.directory, name, flags, mode, INSIDE)
            .map_err(|error| failed(&reason(error)))?;
        plain_file(file, &failed)
    }
}

/// Makes and opens `.agent` and `.agent/scripts`; fails where something else stands in their place.
pub(crate) fn ground(workspace: BorrowedFd<'_>) -> Result<(OwnedFd, OwnedFd), String> {
    let agent = enter(workspace, AGENT, AGENT, false)?;
    let scripts = enter(agent.as_fd(), SCRIPTS, ".agent/scripts", false)?;
    Ok((agent, scripts))
}

/// Opens the records of calls of a script that a crash interrupted, for reading and appending.
pub(crate) fn reopen_calls(workspace: &Path, id: &str) -> Result<File, String> {
    let path = format!("{}/calls.jsonl", path(id)?);
    let failed = |reason: &str| format!("{path} cannot be opened: {reason}");
    let workspace = open_directory(workspace)?;
    let flags =
        OFlags::RDWR | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat2(&workspace, path.as_str(), flags, Mode::empty(), INSIDE)
        .map_err(|error| failed(&reason(error)))?;
    plain_file(file, &failed)
}

/// Opens one of the files of a script's records for reading.
pub(crate) fn read(workspace: &Path, id: &str, name: &str) -> Result<File, String> {
    let path = format!("{}/{name}", path(id)?);
    let failed = |reason: &str| format!("{path} cannot be read: {reason}");
    let workspace = open_directory(workspace)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat2(&workspace, path.as_str(), flags, Mode::empty(), INSIDE)
        .map_err(|error| failed(&reason(error)))?;
    plain_file(file, &failed)
}

/// Opens a directory by a path that was resolved before; fails if it leads through a link now.
pub(crate) fn open_directory(path: &Path) -> Result<OwnedFd, String> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let links = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), links)
        .map_err(|error| format!("{}: {}", path.display(), reason(error)))
}

/// Makes a directory below `parent` if it is not there, and opens it. `fresh`: it must not be there.
pub(crate) fn enter(
    parent: BorrowedFd<'_>,
    name: &str,
    shown: &str,
    fresh: bool,
) -> Result<OwnedFd, String> {
    let failed = |error: Errno| format!("{shown} cannot be used: {}", reason(error));
    match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755)) {
        Ok(()) => {}
        Err(Errno::EXIST) if !fresh => {}
        Err(error) => return Err(failed(error)),
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat2(parent, name, flags, Mode::empty(), INSIDE).map_err(failed)
}

fn path(id: &str) -> Result<String, String> {
    // Ids are made here, but one may come back from a database.
    if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Err("a script's id holds only letters, digits and -".to_owned());
    }
    Ok(format!("{AGENT}/{SCRIPTS}/{id}"))
}

fn plain_file(file: OwnedFd, failed: &dyn Fn(&str) -> String) -> Result<File, String> {
    let status = rustix::fs::fstat(&file).map_err(|error| failed(&reason(error)))?;
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
        return Err(failed("it is not a regular file; remove it"));
    }
    if status.st_nlink != 1 {
        return Err(failed("it is linked to from elsewhere; remove it"));
    }
    Ok(File::from(file))
}

fn reason(error: Errno) -> String {
    match error {
        Errno::LOOP | Errno::XDEV => {
            "a link stands there, and links are not followed; remove it".to_owned()
        }
        Errno::NOTDIR => "it is not a folder; remove it".to_owned(),
        Errno::EXIST => "it is there already; remove it".to_owned(),
        Errno::NOSPC | Errno::DQUOT => "no space is left on the disk".to_owned(),
        Errno::NOSYS => "this kernel has no openat2; Linux 5.6 or newer is needed".to_owned(),
        other => io::Error::from(other).to_string(),
    }
}

//! The program `inside`, which acts where the files are, and how it gets there.

use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use sha2::{Digest, Sha256};

use crate::backend::{Backend, Fault, Outcome, Program};

/// Built by `build.rs`: static, so it runs wherever the processor is the same.
const PROGRAM: &[u8] = include_bytes!(env!("INSIDE_PROGRAM"));

/// Bytes kept of the answer to a request.
pub(crate) const LONGEST_ANSWER: (u64, u64) = (64 << 20, 0);

/// Checks the program that lies there and runs it; asks for it where it does not.
const CHECKED: &str =
    r#"test "$(sha256sum < "$1" 2>/dev/null)" = "$2  -" || exit 96; exec "$1" "$3""#;

/// In hexadecimal.
fn hash() -> &'static str {
    static HASH: OnceLock<String> = OnceLock::new();
    HASH.get_or_init(|| Sha256::digest(PROGRAM).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Makes sure that the program is in a place which can only run, read and write; answers the
/// command that checks it and runs it. It may lie where the agent can replace it, hence the check
/// at each use.
pub(crate) async fn put<B: Backend + ?Sized>(backend: &B) -> Result<Vec<String>, Fault> {
    let path = format!("/tmp/.pinfold-inside-{}", &hash()[..16]);
    let shell = |script: &str, arguments: &[&str]| {
        let words = ["/bin/sh", "-c", script, "sh"].into_iter().chain(arguments.iter().copied());
        words.map(str::to_owned).collect::<Vec<String>>()
    };
    let command = shell(CHECKED, &[&path, hash(), backend.root()]);
    let present = shell(r#"test "$(sha256sum < "$1" 2>/dev/null)" = "$2  -""#, &[&path, hash()]);
    let run =
        |command| Program { command, environment: backend.environment(), ..Program::new("/") };
    if matches!(backend.exec(run(present)).await?, Outcome::Exited { code: 0, .. }) {
        return Ok(command);
    }
    backend.write(&path, PROGRAM.to_vec()).await?.map_err(|refusal| {
        Fault::Unavailable(format!(
            "the program that acts there cannot be put: {}",
            refusal.message
        ))
    })?;
    match backend.exec(run(shell(r#"chmod 0755 "$1""#, &[&path]))).await? {
        Outcome::Exited { code: 0, .. } => Ok(command),
        other => {
            Err(Fault::Unavailable(format!("the program that acts there cannot run: {other}")))
        }
    }
}

/// The program in memory, which nobody can change.
pub(crate) fn in_memory() -> Result<OwnedFd, Fault> {
    use rustix::fs::{MemfdFlags, SealFlags};
    let made = || -> std::io::Result<OwnedFd> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create("pinfold-inside", flags)?;
        let mut file = std::fs::File::from(fd);
        file.write_all(PROGRAM)?;
        let fd = OwnedFd::from(file);
        let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
        rustix::fs::fcntl_add_seals(&fd, seals)?;
        Ok(fd)
    };
    made().map_err(|error| {
        Fault::Unavailable(format!("the program that acts on files cannot be kept: {error}"))
    })
}

/// The path by which a child of this process can execute it.
pub(crate) fn path_of(program: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", program.as_raw_fd()))
}

/// The program as a file below `directory`, which no agent sees; checked by its hash.
pub(crate) fn on_disk(directory: &Path) -> Result<PathBuf, Fault> {
    let made = || -> std::io::Result<PathBuf> {
        std::fs::DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
        let directory = directory.canonicalize()?;
        let path = directory.join(format!("inside-{}", &hash()[..16]));
        let regular = std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
        if regular && std::fs::read(&path).is_ok_and(|present| present == PROGRAM) {
            return Ok(path);
        }
        let temporary = directory.join(format!(".inside-{}.new", std::process::id()));
        let _ = std::fs::remove_file(&temporary);
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o755).open(&temporary)?;
        let done = file.write_all(PROGRAM).and_then(|()| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            file.set_permissions(mode)?;
            std::fs::rename(&temporary, &path)
        });
        if done.is_err() {
            let _ = std::fs::remove_file(&temporary);
        }
        done.map(|()| path)
    };
    made().map_err(|error| {
        let directory = directory.display();
        Fault::Unavailable(format!(
            "the program that acts on files cannot be put into {directory}: {error}"
        ))
    })
}

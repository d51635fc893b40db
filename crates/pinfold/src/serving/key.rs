//! The key that questions' states are sealed with, kept in `data_dir`: a client may come back with
//! its answer after a restart, or to another process.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context, bail};
use mcp::server::Seal;

const NAME: &str = "state.key";

/// The seal of this `data_dir`, which exists.
pub(crate) fn seal(data_dir: &Path) -> anyhow::Result<Seal> {
    let path = data_dir.join(NAME);
    if let Some(key) = read(&path)? {
        return Ok(Seal::with_key(key));
    }
    // Written aside and given its name at once, so that nobody reads half of it; of several
    // processes the first counts for all.
    let aside = data_dir.join(format!("{NAME}.{}", std::process::id()));
    let made = make(&aside, &path);
    let _ = std::fs::remove_file(&aside);
    made.with_context(|| format!("cannot write {}", path.display()))?;
    match read(&path)? {
        Some(key) => Ok(Seal::with_key(key)),
        None => bail!("{} was removed while it was made; start again", path.display()),
    }
}

fn make(aside: &Path, path: &Path) -> std::io::Result<()> {
    // A leftover of a process of the same number that was killed.
    let _ = std::fs::remove_file(aside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(aside)?;
    file.write_all(&Seal::new_key()?)?;
    file.sync_all()?;
    match std::fs::hard_link(aside, path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn read(path: &Path) -> anyhow::Result<Option<[u8; 32]>> {
    let mut bytes = Vec::new();
    match std::fs::File::open(path) {
        Ok(file) => file.take(33).read_to_end(&mut bytes),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => Err(error),
    }
    .with_context(|| format!("cannot read {}", path.display()))?;
    match bytes.try_into() {
        Ok(key) => Ok(Some(key)),
        Err(_) => bail!("{} is not a key of 32 bytes; remove it", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn all_processes_have_the_same_key_and_nobody_else_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        seal(folder.path()).unwrap();
        let first = read(&folder.path().join(NAME)).unwrap().unwrap();
        seal(folder.path()).unwrap();
        assert_eq!(read(&folder.path().join(NAME)).unwrap().unwrap(), first);
        let mode = folder.path().join(NAME).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_key_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        for wrong in [0, 31, 33, 5_000] {
            std::fs::write(folder.path().join(NAME), vec![1; wrong]).unwrap();
            assert!(seal(folder.path()).unwrap_err().to_string().contains("remove it"));
        }
    }
}

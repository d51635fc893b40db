//! Secrets of this `data_dir`, kept in it for its owner alone: the key that questions' states are
//! sealed with (a client may come back with its answer after a restart, or to another process), and
//! the key by which a person is known where there are no tokens.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context, bail};
use mcp::server::Seal;

const SEAL: &str = "state.key";

/// The file that holds the person's key.
pub(crate) const PERSON: &str = "person.key";

/// The seal of this `data_dir`, which exists.
pub(crate) fn seal(data_dir: &Path) -> anyhow::Result<Seal> {
    let bytes = kept(data_dir, SEAL, 32, || Ok(Seal::new_key()?.to_vec()))?;
    match bytes.try_into() {
        Ok(key) => Ok(Seal::with_key(key)),
        Err(_) => bail!("{} is not a key of 32 bytes; remove it", data_dir.join(SEAL).display()),
    }
}

/// The key of the person whose `data_dir`, which exists, this is: 64 hexadecimal digits.
pub(crate) fn person(data_dir: &Path) -> anyhow::Result<String> {
    let make = || {
        let key = Seal::new_key()?;
        Ok(key.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into_bytes())
    };
    let bytes = kept(data_dir, PERSON, 64, make)?;
    let text = String::from_utf8(bytes).unwrap_or_default();
    if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) || text.len() != 64 {
        bail!("{} does not hold 64 hexadecimal digits; remove it", data_dir.join(PERSON).display());
    }
    Ok(text)
}

/// What stands in the file, which is made if it is not there.
fn kept(
    data_dir: &Path,
    name: &str,
    size: usize,
    make: impl Fn() -> std::io::Result<Vec<u8>>,
) -> anyhow::Result<Vec<u8>> {
    let path = data_dir.join(name);
    if let Some(key) = read(&path, size)? {
        return Ok(key);
    }
    // Written aside and given its name at once, so that nobody reads half of it; of several
    // processes the first counts for all.
    let aside = data_dir.join(format!("{name}.{}", std::process::id()));
    let made = make().and_then(|key| give(&aside, &path, &key));
    let _ = std::fs::remove_file(&aside);
    made.with_context(|| format!("cannot write {}", path.display()))?;
    match read(&path, size)? {
        Some(key) => Ok(key),
        None => bail!("{} was removed while it was made; start again", path.display()),
    }
}

fn give(aside: &Path, path: &Path, key: &[u8]) -> std::io::Result<()> {
    // A leftover of a process of the same number that was killed.
    let _ = std::fs::remove_file(aside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(aside)?;
    file.write_all(key)?;
    file.sync_all()?;
    match std::fs::hard_link(aside, path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn read(path: &Path, size: usize) -> anyhow::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    match std::fs::File::open(path) {
        Ok(file) => file.take(size as u64 + 1).read_to_end(&mut bytes),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => Err(error),
    }
    .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn all_processes_have_the_same_key_and_nobody_else_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let kept = |name| std::fs::read(folder.path().join(name)).unwrap();
        seal(folder.path()).unwrap();
        let person_first = person(folder.path()).unwrap();
        let first = kept(SEAL);
        seal(folder.path()).unwrap();
        assert_eq!(kept(SEAL), first);
        assert_eq!(person(folder.path()).unwrap(), person_first);
        for name in [SEAL, PERSON] {
            let mode = folder.path().join(name).metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_is_no_key_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        for wrong in [0, 31, 33, 63, 65, 5_000] {
            std::fs::write(folder.path().join(SEAL), vec![1; wrong]).unwrap();
            assert!(seal(folder.path()).unwrap_err().to_string().contains("remove it"));
            std::fs::write(folder.path().join(PERSON), vec![b'a'; wrong]).unwrap();
            assert!(person(folder.path()).unwrap_err().to_string().contains("remove it"));
        }
        std::fs::write(folder.path().join(PERSON), vec![b'g'; 64]).unwrap();
        assert!(person(folder.path()).is_err());
    }
}

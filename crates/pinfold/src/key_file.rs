//! Keys that are made when they are first needed and kept in `data_dir`, for its owner alone.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt};
use std::path::Path;

use anyhow::{Context, bail};

/// The key called `name` in `data_dir`, which exists.
pub(crate) fn key(data_dir: &Path, name: &str) -> anyhow::Result<[u8; 32]> {
    let bytes = kept(data_dir, name, 32, |key| key.to_vec())?;
    bytes.try_into().map_err(|_| anyhow::anyhow!("{name} is not a key of 32 bytes; remove it"))
}

/// The same for a key that a person reads: 64 hexadecimal digits.
pub(crate) fn text(data_dir: &Path, name: &str) -> anyhow::Result<String> {
    let digits = |key: &[u8; 32]| {
        key.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into_bytes()
    };
    let bytes = kept(data_dir, name, 64, digits)?;
    match String::from_utf8(bytes) {
        Ok(text) if text.bytes().all(|byte| byte.is_ascii_hexdigit()) => Ok(text),
        _ => {
            let path = data_dir.join(name);
            bail!("{} does not hold 64 hexadecimal digits; remove it", path.display());
        }
    }
}

/// What stands in the file, which is made if it is not there.
fn kept(
    data_dir: &Path,
    name: &str,
    size: usize,
    form: impl Fn(&[u8; 32]) -> Vec<u8>,
) -> anyhow::Result<Vec<u8>> {
    let path = data_dir.join(name);
    if let Some(key) = read(&path, size)? {
        return Ok(key);
    }
    // Written aside and given its name at once, so that nobody reads half of it; of several
    // processes the first counts for all.
    let aside = data_dir.join(format!("{name}.{}", std::process::id()));
    let made = make(&aside, &path, form);
    let _ = std::fs::remove_file(&aside);
    made.with_context(|| format!("cannot write {}", path.display()))?;
    match read(&path, size)? {
        Some(key) => Ok(key),
        None => bail!("{} was removed while it was made; start again", path.display()),
    }
}

fn make(aside: &Path, path: &Path, form: impl Fn(&[u8; 32]) -> Vec<u8>) -> std::io::Result<()> {
    // A leftover of a process of the same number that was killed.
    let _ = std::fs::remove_file(aside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(aside)?;
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(std::io::Error::other)?;
    file.write_all(&form(&key))?;
    file.sync_all()?;
    match std::fs::hard_link(aside, path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn read(path: &Path, size: usize) -> anyhow::Result<Option<Vec<u8>>> {
    let failed = || format!("cannot read {}", path.display());
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(failed),
    };
    let mode = file.metadata().with_context(failed)?.permissions().mode();
    let mut bytes = Vec::new();
    file.take(size as u64 + 1).read_to_end(&mut bytes).with_context(failed)?;
    if bytes.len() != size {
        bail!("{} is not a key of {size} bytes; remove it", path.display());
    }
    if mode & 0o077 != 0 {
        bail!("{} can be read by others; remove it, or chmod 600 it", path.display());
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_processes_have_the_same_key_and_nobody_else_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let first = key(folder.path(), "a.key").unwrap();
        assert_eq!(key(folder.path(), "a.key").unwrap(), first);
        assert_ne!(key(folder.path(), "b.key").unwrap(), first);
        let person = text(folder.path(), "c.key").unwrap();
        assert_eq!(text(folder.path(), "c.key").unwrap(), person);
        for name in ["a.key", "c.key"] {
            let mode = folder.path().join(name).metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
        let path = folder.path().join("a.key");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        assert!(key(folder.path(), "a.key").unwrap_err().to_string().contains("chmod 600"));
    }

    #[test]
    fn what_is_no_key_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        for wrong in [0, 31, 33, 63, 65, 5_000] {
            std::fs::write(folder.path().join("a.key"), vec![b'a'; wrong]).unwrap();
            assert!(key(folder.path(), "a.key").unwrap_err().to_string().contains("remove it"));
            assert!(text(folder.path(), "a.key").unwrap_err().to_string().contains("remove it"));
        }
        let path = folder.path().join("a.key");
        std::fs::write(&path, vec![b'g'; 64]).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        assert!(text(folder.path(), "a.key").unwrap_err().to_string().contains("hexadecimal"));
    }
}

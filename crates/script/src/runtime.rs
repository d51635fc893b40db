//! Keeps `<data_dir>/script-runtime/`, which every script sees read-only.
//!
//! The files belong to this build of the program: what differs is replaced, by rename, so that a
//! script which starts meanwhile, or a second server on the same directory, sees whole files only.
//! Files of other names are left alone.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Error;
use crate::language::Language;

/// Where scripts see the directory: a path that says nothing about the host.
pub(crate) const INSIDE: &str = "/run/script-runtime";

static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Writes what is missing or differs, and returns the directory as an absolute path.
pub(crate) fn write(data_dir: &Path, language: &Language) -> Result<PathBuf, Error> {
    let directory = data_dir.join("script-runtime");
    let failed = |error| Error::io(format_args!("write {}", directory.display()), error);
    fs::DirBuilder::new().recursive(true).mode(0o755).create(&directory).map_err(failed)?;
    let directory = directory.canonicalize().map_err(failed)?;
    allow(&directory, 0o755).map_err(failed)?;
    for (name, content) in language.files {
        write_file(&directory.join(name), content).map_err(failed)?;
    }
    Ok(directory)
}

fn write_file(path: &Path, content: &str) -> std::io::Result<()> {
    // Only a regular file counts: a link here would be followed by every script.
    let regular = fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    if regular && fs::read(path).is_ok_and(|present| present == content.as_bytes()) {
        return allow(path, 0o644);
    }
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_extension(format!("{}-{number}.new", std::process::id()));
    let written = (|| {
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(&temporary)?;
        file.write_all(content.as_bytes())?;
        allow(&temporary, 0o644)?;
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Sets the mode whatever the umask was: scripts may run under another user.
fn allow(path: &Path, mode: u32) -> std::io::Result<()> {
    if fs::metadata(path)?.permissions().mode() & 0o777 == mode {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::language::PYTHON;

    #[test]
    fn what_is_right_is_left_alone_and_what_differs_is_replaced() {
        let data = tempfile::tempdir().unwrap();
        let directory = write(data.path(), &PYTHON).unwrap();
        let (right, wrong) = (directory.join("runner.py"), directory.join("agent_tools.py"));
        let before = fs::metadata(&right).unwrap().ino();
        fs::write(&wrong, "import os").unwrap();
        fs::set_permissions(&right, fs::Permissions::from_mode(0o600)).unwrap();

        write(data.path(), &PYTHON).unwrap();

        assert_eq!(fs::read_to_string(&wrong).unwrap(), PYTHON.files[0].1);
        assert_eq!(fs::metadata(&right).unwrap().ino(), before);
        assert_eq!(fs::metadata(&right).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o755);
    }

    #[test]
    fn a_planted_link_is_replaced_and_its_target_is_kept() {
        let data = tempfile::tempdir().unwrap();
        let target = data.path().join("precious");
        fs::write(&target, PYTHON.files[0].1).unwrap();
        fs::create_dir(data.path().join("script-runtime")).unwrap();
        let planted = data.path().join("script-runtime/agent_tools.py");
        std::os::unix::fs::symlink(&target, &planted).unwrap();

        write(data.path(), &PYTHON).unwrap();

        assert!(fs::symlink_metadata(&planted).unwrap().is_file());
        assert!(target.exists());
    }

    #[test]
    fn many_at_once_leave_whole_files_and_nothing_else() {
        let data = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| write(data.path(), &PYTHON).unwrap());
            }
        });
        let directory = data.path().join("script-runtime");
        for (name, content) in PYTHON.files {
            assert_eq!(fs::read_to_string(directory.join(name)).unwrap(), *content);
        }
        assert_eq!(fs::read_dir(&directory).unwrap().count(), PYTHON.files.len());
    }
}

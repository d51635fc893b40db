//! Where interpreters are looked for.

use std::collections::HashSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// More are not asked: each costs the start of an interpreter.
const MOST: usize = 24;

/// An interpreter that was seen and not yet asked.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) path: PathBuf,
    /// (major, minor) according to its name, if that says so.
    pub(super) version: Option<(u32, u32)>,
}

/// Everything that may be a CPython, the newest according to its name first, each file once.
pub(super) fn all() -> Vec<Candidate> {
    let directories: Vec<PathBuf> = path_entries()
        .chain(["/usr/bin", "/usr/local/bin"].map(PathBuf::from))
        .chain(installed_versions())
        .collect();
    in_directories(&directories)
}

fn in_directories(directories: &[PathBuf]) -> Vec<Candidate> {
    let mut seen = HashSet::new();
    let mut candidates = Vec::new();
    for directory in directories {
        let Ok(entries) = fs::read_dir(directory) else { continue };
        let mut names: Vec<_> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| is_interpreters_name(name))
            .collect();
        names.sort();
        for name in names {
            if let Some(path) = real_interpreter(&directory.join(name))
                && seen.insert(path.clone())
            {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                candidates.push(Candidate { version: version_in_name(&name), path });
            }
        }
    }
    candidates.retain(|candidate| candidate.version.is_none_or(|found| found >= super::OLDEST));
    // Stable: where versions are equal, the order of the directories decides. Those that do not
    // say their version are asked first, since they could be anything.
    candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.version.unwrap_or((99, 0))));
    candidates.truncate(MOST);
    candidates
}

/// What a setting other than "auto" names.
pub(super) fn named(setting: &str) -> Option<PathBuf> {
    let path = Path::new(setting);
    let found = if setting.contains('/') {
        std::path::absolute(path).ok()?
    } else {
        path_entries().map(|entry| entry.join(path)).find(|path| is_executable_file(path))?
    };
    is_executable_file(&found).then_some(found)
}

/// Absolute entries only: what a relative one names depends on the current directory, and that
/// may be a workspace.
fn path_entries() -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let entries: Vec<PathBuf> = std::env::split_paths(&path).collect();
    entries.into_iter().filter(|entry| entry.is_absolute())
}

/// The `bin` folders of version managers that keep several interpreters.
fn installed_versions() -> Vec<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let home = variable("HOME");
    let below_home = |path: &str| home.as_ref().map(|home| home.join(path));
    let pyenv = variable("PYENV_ROOT").or_else(|| below_home(".pyenv")).map(|p| p.join("versions"));
    let uv = variable("UV_PYTHON_INSTALL_DIR")
        .or_else(|| variable("XDG_DATA_HOME").map(|data| data.join("uv/python")))
        .or_else(|| below_home(".local/share/uv/python"));
    let mut found: Vec<PathBuf> = [pyenv, uv]
        .into_iter()
        .flatten()
        .filter(|directory| directory.is_absolute())
        .filter_map(|directory| fs::read_dir(directory).ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .collect();
    found.sort();
    found
}

/// `python`, `python3`, `python3.12`; not `python3-config`, `python3.13t`, `pythonw`.
fn is_interpreters_name(name: &str) -> bool {
    name.strip_prefix("python").is_some_and(|rest| {
        rest.split('.').all(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
            && !rest.starts_with('2')
    })
}

fn version_in_name(name: &str) -> Option<(u32, u32)> {
    let (major, minor) = name.strip_prefix("python")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}

/// The file that a name leads to, if it is a program. A version manager's shims are not: they are
/// shell scripts, or links to a program of another name.
fn real_interpreter(path: &Path) -> Option<PathBuf> {
    let real = path.canonicalize().ok()?;
    let name = real.file_name()?.to_str()?;
    if !is_interpreters_name(name) || !is_executable_file(&real) {
        return None;
    }
    if fs::metadata(&real).ok()?.mode() & 0o002 != 0 {
        return None; // Anyone could have put something else there.
    }
    let mut magic = [0; 4];
    fs::File::open(&real).ok()?.read_exact(&mut magic).ok()?;
    (magic == *b"\x7fELF").then_some(real)
}

fn is_executable_file(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn names_of_interpreters_and_their_versions() {
        for name in ["python", "python3", "python3.12", "python3.12.1"] {
            assert!(is_interpreters_name(name), "{name}");
        }
        for name in ["python3-config", "python3.13t", "pythonw", "pypy3", "python2.7", "mise"] {
            assert!(!is_interpreters_name(name), "{name}");
        }
        assert_eq!(version_in_name("python3.13"), Some((3, 13)));
        assert_eq!(version_in_name("python3"), None);
    }

    #[test]
    fn shims_and_writable_files_are_passed_over() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let program = |name: &str, content: &[u8], mode| {
            fs::write(at(name), content).unwrap();
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        program("python3.12", b"#!/bin/sh\nexec pyenv", 0o755);
        program("python3.11", b"\x7fELF....", 0o755);
        program("python3.14", b"\x7fELF....", 0o777);
        program("python3.9", b"\x7fELF....", 0o755);
        program("python3.15", b"\x7fELF....", 0o644);
        program("mise", b"\x7fELF....", 0o755);
        symlink("mise", at("python3.13")).unwrap();
        symlink("python3.11", at("python3")).unwrap();

        let found = in_directories(&[directory.path().to_owned()]);

        let real = at("python3.11").canonicalize().unwrap();
        assert_eq!(found.iter().map(|c| &c.path).collect::<Vec<_>>(), [&real]);
    }
}

//! Which host paths an interpreter needs, and no more of a home directory than these.

use std::io::Read;
use std::path::{Component, Path, PathBuf};

use crate::error::Error;
use crate::view;

/// Links followed before a chain counts as endless.
const MOST_LINKS: usize = 32;

/// Absolute host paths that a run needs to see, each mounted at its own place, so that the
/// interpreter at `program` works: its prefix, for a virtual environment also that of its base, and
/// each under every name by which a link on the way calls it. Empty for one in the system
/// directories, which every run sees.
///
/// Kept here because what may be shown of a home directory is a matter of confinement: a whole
/// home or `~/.local` is never named, only the parts that belong to the interpreter.
pub fn program_prefixes(program: &Path) -> Result<Vec<PathBuf>, Error> {
    if !program.is_absolute() {
        return Err(bad(program, "is not an absolute path; give one"));
    }
    let mut found = Vec::new();
    collect(&plain(program), &mut found, 0)?;
    let mut kept: Vec<PathBuf> = Vec::new();
    found.sort();
    for path in found {
        if !is_system(&path) && !kept.iter().any(|kept| path.starts_with(kept)) {
            kept.push(path);
        }
    }
    Ok(kept)
}

fn bad(program: &Path, what: &str) -> Error {
    Error::BadSpec(format!("the interpreter {} {what}", program.display()))
}

/// Follows the chain of links from `program`, noting what each name on the way needs.
fn collect(program: &Path, found: &mut Vec<PathBuf>, depth: usize) -> Result<(), Error> {
    let mut here = program.to_owned();
    for _ in 0..MOST_LINKS {
        let metadata = std::fs::symlink_metadata(&here)
            .map_err(|error| bad(&here, &format!("cannot be found: {error}")))?;
        note(&here, found, depth)?;
        if !metadata.is_symlink() {
            let real = std::fs::canonicalize(&here)
                .map_err(|error| bad(&here, &format!("cannot be resolved: {error}")))?;
            refuse_script(&real)?;
            return note(&real, found, depth);
        }
        let target = std::fs::read_link(&here)
            .map_err(|error| bad(&here, &format!("cannot be read: {error}")))?;
        here = plain(&here.parent().unwrap_or(Path::new("/")).join(target));
    }
    Err(bad(program, "is behind too many links; name the real file"))
}

/// What the interpreter needs under this name of it.
fn note(program: &Path, found: &mut Vec<PathBuf>, depth: usize) -> Result<(), Error> {
    let prefix = match program.parent() {
        Some(directory) if directory.ends_with("bin") => directory.parent(),
        _ => None,
    };
    let Some(prefix) = prefix.filter(|prefix| !is_system(prefix)) else {
        note_file(program, found);
        return Ok(());
    };
    if let Ok(configuration) = std::fs::read_to_string(prefix.join("pyvenv.cfg")) {
        found.push(prefix.to_owned());
        return note_base(program, &configuration, found, depth);
    }
    let libraries = python_libraries(prefix);
    let is_prefix = !libraries.is_empty()
        || prefix.join("lib/node_modules").is_dir()
        || prefix.join("include/node").is_dir();
    if is_prefix && !is_shared_place(prefix) {
        found.push(prefix.to_owned());
    } else {
        note_file(program, found);
        found.extend(libraries);
    }
    Ok(())
}

fn note_file(program: &Path, found: &mut Vec<PathBuf>) {
    // A link cannot be mounted; what it leads to is noted under its own name.
    if std::fs::symlink_metadata(program).is_ok_and(|metadata| metadata.is_file()) {
        found.push(program.to_owned());
    }
}

/// The interpreter a virtual environment was made from.
fn note_base(
    program: &Path,
    configuration: &str,
    found: &mut Vec<PathBuf>,
    depth: usize,
) -> Result<(), Error> {
    let value = |key: &str| {
        configuration.lines().find_map(|line| {
            let (name, value) = line.split_once('=')?;
            (name.trim() == key).then(|| PathBuf::from(value.trim()))
        })
    };
    let Some(home) = value("home").filter(|home| home.is_absolute()) else { return Ok(()) };
    if depth >= 4 {
        return Err(bad(program, "is in a virtual environment of too many others; use its base"));
    }
    let Some(name) = program.file_name() else { return Ok(()) };
    for name in [name, "python3".as_ref()] {
        let base = plain(&home.join(name));
        if base != program && base.exists() {
            return collect(&base, found, depth + 1);
        }
    }
    Ok(())
}

/// Standard libraries of CPython below a prefix, known by a file that only they have.
fn python_libraries(prefix: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for library in ["lib", "lib64"] {
        let Ok(entries) = std::fs::read_dir(prefix.join(library)) else { continue };
        for entry in entries.flatten() {
            let named = entry.file_name().to_string_lossy().starts_with("python3");
            if named && entry.path().join("os.py").is_file() {
                found.push(entry.path());
            }
        }
    }
    found
}

/// Whether a directory holds more than an interpreter: a home, or where a home keeps everything.
fn is_shared_place(prefix: &Path) -> bool {
    let is_home = std::env::var_os("HOME").is_some_and(|home| prefix == Path::new(&home));
    let parent = prefix.parent();
    is_home
        || prefix.ends_with(".local")
        || prefix == Path::new("/root")
        || parent.is_none()
        || parent == Some(Path::new("/"))
        || parent == Some(Path::new("/home"))
}

fn refuse_script(program: &Path) -> Result<(), Error> {
    let mut start = [0; 2];
    let read = std::fs::File::open(program).and_then(|mut file| file.read_exact(&mut start));
    match read {
        Ok(()) if &start == b"#!" => Err(bad(
            program,
            "is a script (a version manager's shim?); name the interpreter itself",
        )),
        Ok(()) => Ok(()),
        Err(error) => Err(bad(program, &format!("cannot be read: {error}"))),
    }
}

fn is_system(path: &Path) -> bool {
    view::SYSTEM.iter().any(|name| path.starts_with(Path::new("/").join(name)))
        || path == Path::new("/")
}

/// Without `.` and `..`, by the names alone.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "\x7fELF").unwrap();
    }

    #[test]
    fn a_system_interpreter_needs_nothing() {
        assert_eq!(program_prefixes(Path::new("/bin/sh")).unwrap(), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_virtual_environment_names_itself_and_its_base_and_no_home() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let base = home.join(".pyenv/versions/3.12.1");
        touch(&base.join("bin/python3.12"));
        touch(&base.join("lib/python3.12/os.py"));
        std::os::unix::fs::symlink("3.12.1", home.join(".pyenv/versions/3.12")).unwrap();
        let venv = home.join("work/venv");
        std::fs::create_dir_all(venv.join("bin")).unwrap();
        let named = home.join(".pyenv/versions/3.12/bin");
        std::fs::write(venv.join("pyvenv.cfg"), format!("home = {}\n", named.display())).unwrap();
        std::os::unix::fs::symlink(named.join("python3.12"), venv.join("bin/python")).unwrap();
        let found = program_prefixes(&venv.join("bin/python")).unwrap();
        assert_eq!(found, [home.join(".pyenv/versions/3.12"), base, venv]);
    }

    #[test]
    fn an_interpreter_in_dot_local_shows_only_its_own_parts() {
        let home = tempfile::tempdir().unwrap();
        let local = home.path().canonicalize().unwrap().join(".local");
        touch(&local.join("bin/python3.12"));
        touch(&local.join("lib/python3.12/os.py"));
        touch(&local.join("share/keyrings/secret"));
        let found = program_prefixes(&local.join("bin/python3.12")).unwrap();
        assert_eq!(found, [local.join("bin/python3.12"), local.join("lib/python3.12")]);
    }

    #[test]
    fn a_shim_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let shim = place.path().join("python3");
        std::fs::write(&shim, "#!/bin/sh\n").unwrap();
        let error = program_prefixes(&shim).unwrap_err().to_string();
        assert!(error.contains("name the interpreter itself"), "{error}");
    }
}

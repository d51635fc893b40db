//! What of the host an interpreter needs to see: its own folders, and never the rest of a home.

use std::fs;
use std::path::{Path, PathBuf};

use super::probe::Answer;

/// Seen by every program anyway.
const SYSTEM: [&str; 6] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"];

/// Paths to be seen read-only, parents before children, none below another.
pub(super) fn prefixes(answer: &Answer, executable: &Path) -> Vec<PathBuf> {
    let homes = homes();
    let mut paths: Vec<PathBuf> = Vec::new();
    for prefix in
        [&answer.base_prefix, &answer.base_exec_prefix, &answer.prefix, &answer.exec_prefix]
    {
        paths.extend(parts(prefix, answer.version, &homes));
    }
    if !is_below(executable, &paths) {
        paths.push(executable.to_owned());
    }
    paths.retain(|path| !is_system(path));
    paths.sort();
    paths.dedup();
    let all = paths.clone();
    paths.retain(|path| !all.iter().any(|other| other != path && path.starts_with(other)));
    paths
}

/// A link on the way from `executable` to the real file that is not seen inside.
pub(super) fn hidden_link(executable: &Path, prefixes: &[PathBuf]) -> Option<PathBuf> {
    let mut path = executable.to_owned();
    for _ in 0..40 {
        if !is_system(&path) && !is_below(&path, prefixes) {
            return Some(path);
        }
        let Ok(target) = fs::read_link(&path) else { return None };
        path = path.parent().unwrap_or(Path::new("/")).join(target);
        // `..` of a link's target is meant from where the folder really is.
        if path.components().any(|part| part.as_os_str() == "..")
            && let (Some(folder), Some(name)) = (path.parent(), path.file_name())
        {
            path = folder.canonicalize().ok()?.join(name);
        }
    }
    Some(path)
}

fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

fn is_below(path: &Path, prefixes: &[PathBuf]) -> bool {
    prefixes.iter().any(|prefix| path.starts_with(prefix))
}

/// What of one prefix is needed.
fn parts(prefix: &Path, (major, minor, _): (u32, u32, u32), homes: &[PathBuf]) -> Vec<PathBuf> {
    let named = format!("{major}.{minor}");
    let holds_a_home = homes.iter().any(|home| home.starts_with(prefix));
    let in_a_home = homes.iter().any(|home| prefix.starts_with(home));
    let depth = prefix.components().count() - 1;
    if !holds_a_home && prefix.join("pyvenv.cfg").exists() {
        // Made in a project's own folder it stands beside the project's files.
        let shown = ["pyvenv.cfg", "bin", "lib", "lib64", "include", "share"];
        return existing(shown.iter().map(|part| prefix.join(part)));
    }
    let name = prefix.file_name().unwrap_or_default().to_string_lossy();
    let is_its_own = prefix.join("conda-meta").exists()
        || name.contains(&named)
        || name.to_lowercase().contains("python")
        || (!in_a_home && depth >= 2);
    if !holds_a_home && is_its_own {
        return existing([prefix.to_owned()].into_iter());
    }
    // Python was installed into a folder that holds much else, such as `~/.local`.
    let python = format!("python{named}");
    let mut shown: Vec<PathBuf> = ["lib", "lib64", "include"]
        .iter()
        .map(|part| prefix.join(part).join(&python))
        .chain(["python", "python3", &python].iter().map(|name| prefix.join("bin").join(name)))
        .chain([prefix.join("pyvenv.cfg")])
        .collect();
    for folder in ["lib", "lib64"] {
        let entries = fs::read_dir(prefix.join(folder)).into_iter().flatten().flatten();
        shown.extend(
            entries
                .filter(|entry| entry.file_name().to_string_lossy().starts_with("libpython"))
                .map(|entry| entry.path())
                .filter(|path| path.is_file()),
        );
    }
    existing(shown.into_iter())
}

fn existing(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    paths.filter(|path| path.exists()).collect()
}

/// Folders of people, and what holds them.
fn homes() -> Vec<PathBuf> {
    let mut homes: Vec<PathBuf> = vec![PathBuf::from("/root")];
    homes.extend(std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute()));
    homes.extend(fs::read_dir("/home").into_iter().flatten().flatten().map(|entry| entry.path()));
    let real: Vec<PathBuf> = homes.iter().filter_map(|home| home.canonicalize().ok()).collect();
    homes.extend(real);
    homes.retain(|home| home != Path::new("/"));
    homes
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: (u32, u32, u32) = (3, 12, 1);

    fn folder(root: &Path, paths: &[&str]) {
        for path in paths {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
    }

    fn shown(prefix: &Path, homes: &[PathBuf]) -> Vec<String> {
        parts(prefix, VERSION, homes)
            .iter()
            .map(|path| path.strip_prefix(prefix).unwrap().display().to_string())
            .collect()
    }

    #[test]
    fn a_version_managers_folder_is_seen_whole_and_no_other_part_of_the_home() {
        let home = tempfile::tempdir().unwrap();
        let homes = [home.path().to_owned()];
        folder(home.path(), &[".pyenv/versions/3.12.1/lib/python3.12/os.py", ".ssh/id"]);
        assert_eq!(shown(&home.path().join(".pyenv/versions/3.12.1"), &homes), [""]);
    }

    #[test]
    fn an_installation_among_other_things_shows_python_only() {
        let home = tempfile::tempdir().unwrap();
        let homes = [home.path().to_owned()];
        let local = home.path().join(".local");
        let files =
            ["lib/python3.12/os.py", "lib/libpython3.12.so", "bin/python3.12", "share/keyrings/k"];
        folder(&local, &files);
        let expected = ["lib/python3.12", "bin/python3.12", "lib/libpython3.12.so"];
        assert_eq!(shown(&local, &homes), expected);

        folder(home.path(), &files);
        folder(home.path(), &["pyvenv.cfg", "bin/secret-tool"]);
        let expected = ["lib/python3.12", "bin/python3.12", "pyvenv.cfg", "lib/libpython3.12.so"];
        assert_eq!(
            shown(home.path(), &homes),
            expected,
            "a virtual environment in the home itself"
        );
    }

    #[test]
    fn a_virtual_environment_in_a_projects_folder_does_not_show_the_project() {
        let project = tempfile::tempdir().unwrap();
        folder(project.path(), &["pyvenv.cfg", "bin/python", "lib/x", ".env", "secrets.txt"]);
        assert_eq!(shown(project.path(), &[]), ["pyvenv.cfg", "bin", "lib"]);
    }

    #[test]
    fn a_link_outside_what_is_seen_is_found() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        folder(&root, &["real/bin/python3"]);
        fs::create_dir_all(root.join("venv/bin")).unwrap();
        fs::create_dir_all(root.join("links")).unwrap();
        std::os::unix::fs::symlink("../real/bin/python3", root.join("links/python3")).unwrap();
        std::os::unix::fs::symlink(root.join("links/python3"), root.join("venv/bin/python"))
            .unwrap();
        let executable = root.join("venv/bin/python");
        let prefixes = [root.join("venv"), root.join("real")];
        assert_eq!(hidden_link(&executable, &prefixes), Some(root.join("links/python3")));
        let prefixes = [root.join("venv"), root.join("real"), root.join("links")];
        assert_eq!(hidden_link(&executable, &prefixes), None);
    }
}

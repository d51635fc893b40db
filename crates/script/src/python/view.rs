//! What of the host an interpreter needs to see, made narrower where that would be too much.

use std::path::{Path, PathBuf};

/// What a virtual environment consists of. It is often made in a project's own folder, and the
/// project's other files are not the interpreter's.
const ENVIRONMENT: [&str; 6] = ["pyvenv.cfg", "bin", "lib", "lib64", "include", "share"];

/// The paths for `executable`. The error is a fragment.
pub(super) fn prefixes(executable: &Path) -> Result<Vec<PathBuf>, String> {
    let found = sandbox::program_prefixes(executable).map_err(|error| error.to_string())?;
    narrowed(found, &homes())
}

fn narrowed(found: Vec<PathBuf>, homes: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let mut narrow = Vec::new();
    for prefix in found {
        if homes.iter().any(|home| home.starts_with(&prefix)) {
            return Err(format!(
                "its files lie straight in the home directory {}; make an environment in a folder \
                 of its own",
                prefix.display()
            ));
        }
        if prefix.join("pyvenv.cfg").exists() {
            narrow.extend(
                ENVIRONMENT.iter().map(|part| prefix.join(part)).filter(|part| part.exists()),
            );
        } else {
            narrow.push(prefix);
        }
    }
    Ok(narrow)
}

/// Folders of people.
fn homes() -> Vec<PathBuf> {
    let mut homes = vec![PathBuf::from("/root")];
    homes.extend(std::env::var_os("HOME").map(PathBuf::from));
    let entries = std::fs::read_dir("/home").into_iter().flatten().flatten();
    homes.extend(entries.map(|entry| entry.path()));
    let real: Vec<PathBuf> = homes.iter().filter_map(|home| home.canonicalize().ok()).collect();
    homes.extend(real);
    homes.retain(|home| home.is_absolute() && home != Path::new("/"));
    homes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(root: &Path, paths: &[&str]) {
        for path in paths {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
    }

    #[test]
    fn a_virtual_environment_in_a_projects_folder_does_not_show_the_project() {
        let project = tempfile::tempdir().unwrap();
        folder(project.path(), &["pyvenv.cfg", "bin/python", "lib/x", ".env", "secrets.txt"]);
        let base = PathBuf::from("/opt/python3.12");
        let found = narrowed(vec![base.clone(), project.path().to_owned()], &[]).unwrap();
        let parts = ["pyvenv.cfg", "bin", "lib"].map(|part| project.path().join(part));
        assert_eq!(found, [vec![base], parts.to_vec()].concat());
    }

    #[test]
    fn a_home_is_never_shown() {
        let home = tempfile::tempdir().unwrap();
        folder(home.path(), &["pyvenv.cfg", "bin/python", ".ssh/id"]);
        let homes = [home.path().join("ann")];
        for prefix in [home.path().to_owned(), home.path().join("ann")] {
            let error = narrowed(vec![prefix], &homes).unwrap_err();
            assert!(error.contains("home directory"), "{error}");
        }
    }
}

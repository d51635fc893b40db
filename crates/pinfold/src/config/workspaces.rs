//! Keeps the folders that scripts work in apart from what decides about scripts.
//!
//! A script that could write the database would answer its own approvals; one that could write the
//! configuration would name the programs of the next start.

use std::path::{Path, PathBuf};

use gateway::policy::PermissionMode;

use super::diagnose::Document;
use super::file::File;

/// Refuses a workspace that holds, or lies in, what pinfold writes.
pub(super) fn check(file: &File, database: &str, own: &Document) -> anyhow::Result<()> {
    let database = database.strip_prefix("sqlite://").map(|path| path.split('?').next());
    let kept = [
        ("data_dir", Some(file.data_dir.clone())),
        ("database", database.flatten().map(PathBuf::from)),
    ];
    for (name, profile) in &file.profiles {
        let Some(workspace) = &profile.workspace.path else { continue };
        let real = real(workspace);
        for (key, path) in &kept {
            let Some(path) = path.as_deref().map(self::real) else { continue };
            if path.starts_with(&real) || real.starts_with(&path) {
                return Err(own.error(
                    &["profiles", name, "workspace"],
                    format!(
                        "has scripts work in {}, where they could change {key} ({}); put {key} \
                         somewhere else",
                        real.display(),
                        path.display()
                    ),
                ));
            }
        }
    }
    Ok(())
}

/// Whether scripts of some profile could write one of `paths`.
pub(super) fn can_write<'a>(file: &File, mut paths: impl Iterator<Item = &'a Path>) -> bool {
    let writable: Vec<PathBuf> = file
        .profiles
        .values()
        .filter(|profile| profile.permission_mode != PermissionMode::ReadOnly)
        .filter_map(|profile| profile.workspace.path.as_deref().map(real))
        .collect();
    paths.any(|path| writable.iter().any(|workspace| real(path).starts_with(workspace)))
}

/// The path without links, also where its last parts do not exist yet.
fn real(path: &Path) -> PathBuf {
    let mut missing = Vec::new();
    let mut existing = path;
    loop {
        if let Ok(found) = existing.canonicalize() {
            return missing.iter().rev().fold(found, |path, part| path.join(part));
        }
        match (existing.parent(), existing.file_name()) {
            (Some(parent), Some(name)) => {
                missing.push(name);
                existing = parent;
            }
            _ => return path.to_owned(),
        }
    }
}

//! Keeps the folders that scripts work in apart from what pinfold or the host runs or trusts.
//!
//! One rule: nothing that a script can write decides about scripts or runs outside the sandbox. A
//! script that could write the database would answer its own approvals; one that could write the
//! configuration, a server's program or the interpreter would run on the host at the next start.
//! What others do with the files of a workspace is not known here.

mod host;

mod paths;

mod places;

mod programs;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use gateway::policy::PermissionMode;

use super::Documents;
use super::diagnose::Document;
use super::file::File;

pub(super) use host::Host;
use paths::{below, end, way};

/// A folder that scripts can write.
struct Root {
    /// Without links.
    folder: PathBuf,
    /// Whose scripts.
    profile: String,
}

/// Refuses a configuration in which a script could write what pinfold or the host trusts.
pub(super) fn check(
    file: &File,
    database: &str,
    documents: &Documents,
    host: &Host,
) -> anyhow::Result<()> {
    let database = database.strip_prefix("sqlite://").map(|path| path.split('?').next());
    let kept = [
        ("data_dir", Some(file.data_dir.clone())),
        ("database", database.flatten().map(PathBuf::from)),
    ];
    let roots = writable(file);
    for (name, profile) in &file.profiles {
        let Some(path) = &profile.workspace.path else { continue };
        let refuse =
            |fault: String| Err(documents.own.error(&["profiles", name, "workspace"], fault));
        let workspace = end(path);
        for (key, kept) in &kept {
            let Some(kept) = kept.as_deref() else { continue };
            let holds = way(kept).iter().any(|place| below(place, &workspace));
            if holds || below(&workspace, &end(kept)) {
                return refuse(format!(
                    "has scripts work in {}, where they could change {key} ({}); put {key} \
                     somewhere else",
                    workspace.display(),
                    end(kept).display()
                ));
            }
        }
        let writes = profile.permission_mode != PermissionMode::ReadOnly;
        if let Some(objection) = places::objection(&workspace, writes, host) {
            return refuse(objection);
        }
        // Whoever can put a link in its place chooses the folder.
        let other = roots.iter().find(|root| {
            way(path).iter().any(|place| *place != root.folder && below(place, &root.folder))
        });
        if let Some(root) = other {
            return refuse(format!(
                "leads through {}, where scripts of the profile \"{}\" could put a link in its \
                 place; choose a folder outside",
                root.folder.display(),
                root.profile
            ));
        }
    }
    programs::check(file, documents, host)
}

/// The first of the documents that scripts of some profile could change.
pub(super) fn first_writable<'a>(
    file: &File,
    mut documents: impl Iterator<Item = &'a Document>,
) -> Option<&'a Document> {
    let roots = writable(file);
    let inside = |path: &Path| {
        way(path).iter().any(|place| roots.iter().any(|root| below(place, &root.folder)))
    };
    documents.find(|document| inside(&document.path))
}

/// Every folder that scripts can write.
fn writable(file: &File) -> Vec<Root> {
    let writing = file
        .profiles
        .iter()
        .filter(|(_, profile)| profile.permission_mode != PermissionMode::ReadOnly);
    let roots = writing.map(|(name, profile)| {
        let sessions = file.data_dir.join("workspaces");
        let folder = end(profile.workspace.path.as_deref().unwrap_or(&sessions));
        Root { folder, profile: name.clone() }
    });
    roots.collect()
}

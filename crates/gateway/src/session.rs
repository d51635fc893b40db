//! Who calls, under which rules, in which workspace.
//!
//! A client names its session with a key of its own. The session's id, and the name of its folder
//! below `workspaces/`, come from a hash over principal, profile and key, so no key leads out of it
//! or into the session of somebody else.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::{Backend, Profile};
use crate::gateway::Error;
use crate::json;
use crate::records::folder;

/// Longest key that a client may give.
const LONGEST_KEY: usize = 512;

/// One session of one principal under one profile.
#[derive(Debug)]
pub struct Session {
    pub(crate) id: String,
    pub(crate) principal: String,
    pub(crate) profile_name: String,
    pub(crate) profile: Arc<Profile>,
    pub(crate) key: String,
    workspace: PathBuf,
    /// The workspace is below this directory, and made anew if somebody removed it.
    own: Option<PathBuf>,
}

impl Session {
    /// The workspace on this host.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// The profile's name.
    pub fn profile(&self) -> &str {
        &self.profile_name
    }

    /// Who calls.
    pub fn principal(&self) -> &str {
        &self.principal
    }

    /// Names the session in the store, in approvals and in the audit.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// `data_dir` must be resolved already.
    pub(crate) fn open(
        principal: &str,
        profile_name: &str,
        profile: Arc<Profile>,
        key: &str,
        data_dir: &Path,
    ) -> Result<Self, Error> {
        if key.is_empty() || key.len() > LONGEST_KEY {
            return Err(Error::Setting(format!(
                "a session's key has 1 to {LONGEST_KEY} bytes, this one has {}",
                key.len()
            )));
        }
        if principal.contains('\0') || key.contains('\0') {
            return Err(Error::Setting("a session's key must not hold a NUL byte".to_owned()));
        }
        if !matches!(profile.workspace.backend, Backend::Sandbox | Backend::Local) {
            return Err(Error::Workspace(format!(
                "profile {profile_name:?}: a workspace with backend {:?} cannot be used by this \
                 version; use \"sandbox\" or \"local\"",
                profile.workspace.backend
            )));
        }
        let id = json::hash([principal, profile_name, key])[..32].to_owned();
        let (workspace, own) = match &profile.workspace.path {
            Some(path) => (configured(path, data_dir)?, None),
            None => {
                let parent = data_dir.join("workspaces");
                (parent.join(&id), Some(data_dir.to_owned()))
            }
        };
        let session = Self {
            id,
            principal: principal.to_owned(),
            profile_name: profile_name.to_owned(),
            profile,
            key: key.to_owned(),
            workspace,
            own,
        };
        session.directory()?;
        Ok(session)
    }

    /// Opens the workspace; refuses one that has become a link.
    pub(crate) fn directory(&self) -> Result<OwnedFd, Error> {
        let failed = |reason: String| Error::Workspace(format!("the workspace {reason}"));
        let Some(data_dir) = &self.own else {
            return folder::open_directory(&self.workspace).map_err(failed);
        };
        let data = folder::open_directory(data_dir).map_err(failed)?;
        let shown = data_dir.join("workspaces").display().to_string();
        let all = folder::enter(data.as_fd(), "workspaces", &shown, false).map_err(failed)?;
        let shown = self.workspace.display().to_string();
        folder::enter(all.as_fd(), &self.id, &shown, false).map_err(failed)
    }
}

/// An existing folder that the profile names. A link is resolved once, and that is said.
fn configured(path: &Path, data_dir: &Path) -> Result<PathBuf, Error> {
    let resolved = std::fs::canonicalize(path).map_err(|error| {
        Error::Workspace(format!(
            "the workspace {} cannot be used: {error}; make the folder or change `workspace.path`",
            path.display()
        ))
    })?;
    if !resolved.is_dir() {
        return Err(Error::Workspace(format!(
            "the workspace {} is not a folder; change `workspace.path`",
            path.display()
        )));
    }
    // A script that could write the database would answer its own approvals.
    if resolved.starts_with(data_dir) || data_dir.starts_with(&resolved) {
        return Err(Error::Workspace(format!(
            "scripts that work in {} could change what pinfold keeps in {}; put `data_dir` \
             somewhere else",
            resolved.display(),
            data_dir.display()
        )));
    }
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if absolute != resolved {
        tracing::info!(
            path = %path.display(),
            resolved = %resolved.display(),
            "the workspace's path leads through a link; the folder it leads to now is used"
        );
    }
    Ok(resolved)
}

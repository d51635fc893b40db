//! Ignore rules (`.gitignore`, `.ignore`, `.rgignore`), folder by folder.
//!
//! They hold whether or not there is a repository; rules outside of the workspace and a user's own
//! are not looked at, so the same files are found wherever the workspace is.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::folder::{Folder, Kind};

/// The later ones win.
const FILES: [&str; 3] = [".gitignore", ".ignore", ".rgignore"];
/// Longest file of rules that is read.
const LONGEST: u64 = 1 << 20;

/// What version control and we ourselves keep; never searched unless it is named.
pub(crate) const KEPT_ASIDE: [&str; 7] = [".git", ".svn", ".hg", ".bzr", ".jj", ".sl", ".agent"];

/// The rules that hold in a folder.
#[derive(Debug)]
pub(crate) struct Rules {
    above: Option<Arc<Self>>,
    own: Vec<Gitignore>,
}

impl Rules {
    /// No rules yet.
    pub(crate) fn none() -> Arc<Self> {
        Arc::new(Self { above: None, own: Vec::new() })
    }

    /// With the rules of one more folder.
    pub(crate) fn with(
        self: &Arc<Self>,
        folder: &dyn Folder,
        path: &Path,
        listed: &[(std::ffi::OsString, Kind)],
    ) -> Arc<Self> {
        let mut own = Vec::new();
        for name in FILES {
            if listed.iter().any(|(found, kind)| found == name && *kind == Kind::File)
                && let Some(rules) = read(folder, path, name)
            {
                own.push(rules);
            }
        }
        if own.is_empty() {
            return Arc::clone(self);
        }
        Arc::new(Self { above: Some(Arc::clone(self)), own })
    }

    /// Whether something is hidden.
    pub(crate) fn hides(&self, path: &Path, is_folder: bool) -> bool {
        let mut rules = Some(self);
        while let Some(here) = rules {
            for own in here.own.iter().rev() {
                match own.matched(path, is_folder) {
                    Match::None => {}
                    Match::Ignore(_) => return true,
                    Match::Whitelist(_) => return false,
                }
            }
            rules = here.above.as_deref();
        }
        false
    }
}

fn read(folder: &dyn Folder, path: &Path, name: &str) -> Option<Gitignore> {
    let (_, content) = folder.open(OsStr::new(name)).ok()?;
    let mut bytes = Vec::new();
    content.take(LONGEST).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut builder = GitignoreBuilder::new(path);
    for line in text.lines() {
        // A line that is no glob hides nothing, as with git.
        let _ = builder.add_line(Some(PathBuf::from(name)), line);
    }
    builder.build().ok()
}

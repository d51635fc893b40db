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
use crate::request::{Fault, Refusal};

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

/// What is never looked at, whoever asks.
pub(crate) struct Barred {
    rules: Gitignore,
}

impl Barred {
    /// Of lines of an ignore file at `root`; a line that is none is refused.
    pub(crate) fn new(root: &Path, lines: &[String]) -> Result<Self, Refusal> {
        let mut builder = GitignoreBuilder::new(root);
        for line in lines {
            builder.add_line(None, line).map_err(|error| bad(line, &error))?;
        }
        let rules = builder.build().map_err(|error| bad("", &error))?;
        Ok(Self { rules })
    }

    pub(crate) fn holds(&self, path: &Path, is_folder: bool) -> bool {
        !self.rules.is_empty() && self.rules.matched(path, is_folder).is_ignore()
    }

    /// Whether a path or a folder that it is in is barred.
    pub(crate) fn refuse(&self, root: &Path, path: &str) -> Result<(), Refusal> {
        let path = Path::new(path);
        let within = path.ancestors().take_while(|above| *above != root);
        let held = within.enumerate().any(|(height, above)| {
            // What is named may be a folder of which everything is barred.
            self.holds(above, height > 0) || self.holds(above, true)
        }) || self.holds(&path.join("\u{1}"), false);
        if !held {
            return Ok(());
        }
        let message = format!("{} may not be read: a rule denies it", path.display());
        Err(Refusal::new(Fault::Denied, message))
    }
}

fn bad(line: &str, error: &ignore::Error) -> Refusal {
    Refusal::new(Fault::Request, format!("the rule {line:?} cannot be followed: {error}"))
}

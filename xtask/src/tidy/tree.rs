//! The files that git knows or would know, with their text.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

/// Paths relative to the top, with `/`, and what stands in them. Files that are not UTF-8 are
/// left out: no rule is about them.
#[derive(Default)]
pub(crate) struct Tree {
    pub(crate) files: BTreeMap<String, String>,
}

impl Tree {
    pub(crate) fn of_repository(root: &Path) -> anyhow::Result<Self> {
        let output = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .context("git is needed to list the files; install git")?;
        ensure!(output.status.success(), "git ls-files failed: not a git repository?");
        let mut files = BTreeMap::new();
        for path in output.stdout.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
            let path = String::from_utf8_lossy(path).into_owned();
            // A file that is listed but deleted in the working tree is not there.
            if let Ok(text) = std::fs::read_to_string(root.join(&path)) {
                files.insert(path, text);
            }
        }
        Ok(Self { files })
    }

    /// Every file whose path ends in `.extension`.
    pub(crate) fn with_extension<'a>(
        &'a self,
        extension: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files
            .iter()
            .filter(move |(path, _)| path.rsplit_once('.').is_some_and(|(_, end)| end == extension))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Names of the direct subdirectories of `directory`.
    pub(crate) fn directories<'a>(&'a self, directory: &'a str) -> Vec<&'a str> {
        let mut found: Vec<&str> = self
            .files
            .keys()
            .filter_map(|path| path.strip_prefix(directory)?.strip_prefix('/')?.split_once('/'))
            .map(|(name, _)| name)
            .collect();
        found.dedup();
        found
    }
}

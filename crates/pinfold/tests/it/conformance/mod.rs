//! The official conformance suites against `pinfold serve` and `pinfold mcp`.
//!
//! What may fail stands in one file per suite, with the reason. The suites themselves fail where
//! something else does, and where something that is listed passes: the lists only shrink.

mod client;

mod server;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::foreign::installed;
use crate::world::{Ended, ended_within, fixtures};

/// Longest run of one suite.
const BOUND: Duration = Duration::from_secs(300);

/// One of the two, and the revision it asks for.
#[derive(Clone, Copy)]
struct Suite {
    package: &'static str,
    revision: &'static str,
}

/// For 2025-06-18 and 2025-11-25.
const OF_2025: Suite = Suite { package: "conformance-2025", revision: "2025-11-25" };

/// The newer suite with the older revision.
const NEWER_OF_2025: Suite = Suite { package: "conformance-2026", revision: "2025-11-25" };

/// For 2026-07-28.
const OF_2026: Suite = Suite { package: "conformance-2026", revision: "2026-07-28" };

impl Suite {
    /// Runs it for this revision.
    fn run(self, arguments: &[&str]) -> Option<Ended> {
        let node = installed("node_modules/node/bin/node")?;
        let suite = installed(&format!("node_modules/{}/dist/index.js", self.package))?;
        let mut command = Command::new(node);
        command.arg(suite).args(arguments).args(["--spec-version", self.revision]);
        Some(ended_within(command, BOUND))
    }
}

fn folder() -> PathBuf {
    fixtures().join("conformance")
}

fn may_fail(list: &str) -> PathBuf {
    folder().join(format!("{list}.yml"))
}

/// The entries of a list.
fn entries(list: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(may_fail(list)).unwrap();
    text.lines().filter_map(|line| line.trim().strip_prefix("- ")).map(str::to_owned).collect()
}

#[test]
fn whatever_may_fail_has_its_reason() {
    let lists = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let lists: Vec<PathBuf> =
        lists.filter(|path| path.extension() == Some("yml".as_ref())).collect();
    assert!(!lists.is_empty());
    for list in lists {
        let lacks = without_reason(&std::fs::read_to_string(&list).unwrap());
        assert_eq!(lacks, Vec::<String>::new(), "{}", name(&list));
    }
    let lacks = "server:\n  - a\n  # Because.\n  - b\n  - c\n\n  - d\n";
    assert_eq!(without_reason(lacks), ["a", "d"]);
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// Entries with no comment above them or above the entries that they follow.
fn without_reason(list: &str) -> Vec<String> {
    let mut has_reason = false;
    let mut lacks = Vec::new();
    for line in list.lines().map(str::trim) {
        match line.strip_prefix("- ") {
            Some(entry) if !has_reason => lacks.push(entry.to_owned()),
            Some(_) => {}
            None => has_reason = line.starts_with('#'),
        }
    }
    lacks
}

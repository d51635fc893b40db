//! Where a path leads, and who could make it lead elsewhere.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Links that are followed in one path, as the kernel counts them.
const MOST_LINKS: usize = 40;

/// The links on the way of a path, each where it really lies, and its end, which need not exist.
/// Whoever can write at one of these places decides what the path leads to.
pub(super) fn way(path: &Path) -> Vec<PathBuf> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut way = Vec::new();
    let mut here = PathBuf::from("/");
    let mut ahead = parts(&path);
    while let Some(part) = ahead.pop() {
        if part == ".." {
            here.pop();
            continue;
        }
        here.push(&part);
        if way.len() < MOST_LINKS
            && let Ok(target) = std::fs::read_link(&here)
        {
            way.push(here.clone());
            if target.is_absolute() {
                here = PathBuf::from("/");
            } else {
                here.pop();
            }
            ahead.extend(parts(&target));
        }
    }
    way.push(here);
    way
}

/// The end of the way.
pub(super) fn end(path: &Path) -> PathBuf {
    way(path).pop().unwrap_or_default()
}

/// The last part first.
fn parts(path: &Path) -> Vec<OsString> {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    let mut parts: Vec<OsString> = parts.collect();
    parts.reverse();
    parts
}

/// Whether `path` is `folder` or lies in it, by name or because the folder is mounted there, too.
/// Both have no links in them.
pub(super) fn below(path: &Path, folder: &Path) -> bool {
    let identity = |path: &Path| {
        let found = std::fs::symlink_metadata(path).ok()?;
        Some((found.dev(), found.ino()))
    };
    if path.starts_with(folder) {
        return true;
    }
    let folder = identity(folder);
    folder.is_some() && path.ancestors().any(|ancestor| identity(ancestor) == folder)
}

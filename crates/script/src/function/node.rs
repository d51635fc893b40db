//! Finds Node, and what of the host it needs to see.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::Error;

/// The oldest that has everything the runner uses.
const OLDEST: u32 = 18;

/// A Node that was found and asked for its version.
#[derive(Clone, Debug)]
pub struct Node {
    /// The real path of the executable.
    pub executable: PathBuf,
    /// (major, minor, patch)
    pub version: (u32, u32, u32),
    /// What of the host must be seen inside, read-only, besides the system directories.
    pub prefixes: Vec<PathBuf>,
    /// Memory in bytes that it has taken before it runs anything.
    pub own_memory: u64,
}

/// What Node takes for itself, measured with Node 18 to 22: 40 to 55 MB.
const OWN_MEMORY: u64 = 64 << 20;

impl Node {
    /// Finds it: `"auto"` takes the first `node` on `PATH`, anything else is a path.
    pub async fn find(setting: &str) -> Result<Self, Error> {
        let found = match setting {
            "auto" => on_path(),
            path => Some(PathBuf::from(path)),
        };
        let wrong = |reason: String| {
            Error::NoNode(format!("{reason}; JavaScript needs Node {OLDEST} or newer"))
        };
        let found = found.ok_or_else(|| wrong("there is no node on PATH".to_owned()))?;
        let executable = found
            .canonicalize()
            .map_err(|error| wrong(format!("{} cannot be used: {error}", found.display())))?;
        let version = ask(&executable)
            .await
            .map_err(|reason| wrong(format!("{} cannot be used: {reason}", found.display())))?;
        if version.0 < OLDEST {
            return Err(wrong(format!("{} is Node {}", found.display(), version.0)));
        }
        let prefixes = sandbox::program_prefixes(&executable)?;
        Ok(Self { executable, version, prefixes, own_memory: OWN_MEMORY })
    }
}

fn on_path() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join("node"))
        .find(|candidate| candidate.is_file())
}

async fn ask(executable: &Path) -> Result<(u32, u32, u32), String> {
    let mut command = Command::new(executable);
    command.arg("--version").current_dir("/").kill_on_drop(true);
    command.env_remove("NODE_OPTIONS").stdin(Stdio::null()).stderr(Stdio::null());
    let output = tokio::time::timeout(Duration::from_secs(10), command.output())
        .await
        .map_err(|_| "it did not answer within 10 seconds".to_owned())?
        .map_err(|error| format!("it cannot be started: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    parse(said.trim()).ok_or_else(|| "it does not say which version it is".to_owned())
}

fn parse(said: &str) -> Option<(u32, u32, u32)> {
    let mut parts = said.strip_prefix('v')?.splitn(3, '.');
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next()?.parse().ok()?;
    let patch = parts.next()?;
    let end = patch.find(|c: char| !c.is_ascii_digit()).unwrap_or(patch.len());
    Some((major, minor, patch[..end].parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(parse("v20.20.2"), Some((20, 20, 2)));
        assert_eq!(parse("v23.0.0-nightly2024"), Some((23, 0, 0)));
        for wrong in ["", "20.1.1", "v20", "v20.1", "vx.1.2", "v20.1.x"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}

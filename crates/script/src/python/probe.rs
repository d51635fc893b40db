//! Asks an interpreter who it is.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

const PATIENCE: Duration = Duration::from_secs(10);
const LONGEST: u64 = 64 << 10;

/// In words that Python 2 understands too, so that it can be told that it is too old.
const QUESTION: &str = r#"
import json, resource, sys
print(json.dumps({
    "implementation": getattr(getattr(sys, "implementation", None), "name", "an old Python"),
    "version": list(sys.version_info[:3]),
    "is_final": sys.version_info[3] == "final",
    "executable": sys.executable,
    "prefix": sys.prefix,
    "base_prefix": getattr(sys, "base_prefix", sys.prefix),
    "memory_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
}))
"#;

/// What it said.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Answer {
    pub(super) implementation: String,
    pub(super) version: (u32, u32, u32),
    pub(super) is_final: bool,
    pub(super) executable: PathBuf,
    pub(super) prefix: PathBuf,
    pub(super) base_prefix: PathBuf,
    pub(super) memory_kb: u64,
}

/// Runs the interpreter at `path` for a moment. The error is a fragment that says why not.
pub(super) async fn ask(path: &Path) -> Result<Answer, String> {
    tokio::time::timeout(PATIENCE, run(path))
        .await
        .map_err(|_| format!("it did not answer within {} seconds", PATIENCE.as_secs()))?
}

async fn run(path: &Path) -> Result<Answer, String> {
    let mut command = Command::new(path);
    command.args(["-E", "-s", "-B", "-c", QUESTION]).current_dir("/").kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("it cannot be started: {error}"))?;
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err("it cannot be asked".to_owned());
    };
    let (mut said, mut complained) = (String::new(), String::new());
    let (mut stdout, mut stderr) = (stdout.take(LONGEST), stderr.take(LONGEST));
    let (read, _) =
        tokio::join!(stdout.read_to_string(&mut said), stderr.read_to_string(&mut complained));
    let status = child.wait().await.map_err(|error| error.to_string())?;
    if !status.success() || read.is_err() {
        let last = complained.lines().last().unwrap_or_default();
        return Err(format!("asked for its version it failed with {status}: {last}"));
    }
    serde_json::from_str(said.trim()).map_err(|_| "it does not answer as Python does".to_owned())
}

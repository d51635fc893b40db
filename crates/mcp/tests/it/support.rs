//! Where the foreign servers are, and short ways to connect and call.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mcp::{CallResult, Client, Endpoint, Error, Event, Progress, ToolCall};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// For everything that should take a moment.
pub(crate) const SOON: Duration = Duration::from_secs(40);

/// A connection and what its server says on its own.
pub(crate) struct Connected {
    pub(crate) client: Client,
    pub(crate) events: mpsc::UnboundedReceiver<Event>,
}

/// An installed program or script, or a skip that is said aloud.
pub(crate) fn installed(path: &str) -> Option<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tools = std::env::var_os("PINFOLD_TEST_TOOLS")
        .map_or_else(|| workspace.join("target/test-tools"), PathBuf::from);
    let path = tools.join(path);
    if path.exists() {
        return Some(path);
    }
    skip(&format!("{} is not there (install with .ci/test-tools)", path.display()));
    None
}

/// Says that a test did not run; fails where everything must run.
pub(crate) fn skip(why: &str) {
    assert!(std::env::var("PINFOLD_TEST_REQUIRE").as_deref() != Ok("all"), "{why}");
    let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("SKIPPED: {why}\n"));
}

pub(crate) fn stdio(command: impl AsRef<Path>, args: &[&str]) -> Endpoint {
    Endpoint::Stdio {
        command: command.as_ref().to_str().unwrap().to_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: BTreeMap::new(),
        cwd: None,
        secrets: mcp::Secrets::default(),
    }
}

pub(crate) fn http(url: &str) -> Endpoint {
    Endpoint::Http {
        url: url.to_owned(),
        headers: BTreeMap::new(),
        login: None,
        secrets: mcp::Secrets::default(),
    }
}

/// One of the hostile servers in `fixtures/`.
pub(crate) fn fixture(name: &str, args: &[&str]) -> Endpoint {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let args = [&["-u", path.to_str().unwrap()], args].concat();
    stdio(python(), &args)
}

/// A version manager's shim, which `PATH` may hold, is slow and starts children of its own.
fn python() -> &'static str {
    let system = "/usr/bin/python3";
    if Path::new(system).exists() { system } else { "python3" }
}

pub(crate) async fn connect(endpoint: &Endpoint) -> Result<Connected, Error> {
    connect_within(endpoint, SOON).await
}

pub(crate) async fn connect_within(
    endpoint: &Endpoint,
    timeout: Duration,
) -> Result<Connected, Error> {
    let (sender, events) = mpsc::unbounded_channel();
    let client = Client::connect(endpoint, timeout, sender).await?;
    Ok(Connected { client, events })
}

pub(crate) fn call(name: &str, arguments: Value) -> ToolCall {
    ToolCall {
        name: name.to_owned(),
        arguments: RawValue::from_string(arguments.to_string()).unwrap(),
        cancel: CancellationToken::new(),
        timeout: SOON,
        progress: None,
        passed: mcp::Passed::default(),
    }
}

impl Connected {
    pub(crate) async fn call(&self, name: &str, arguments: Value) -> Result<CallResult, Error> {
        self.client.call_tool(call(name, arguments)).await
    }

    pub(crate) async fn names(&self) -> Vec<String> {
        self.client.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect()
    }

    /// Waits until the server says that its tools changed.
    pub(crate) async fn tools_changed(&mut self) {
        let wait = async {
            while let Some(event) = self.events.recv().await {
                if event == Event::ToolsChanged {
                    return;
                }
            }
            panic!("the connection ended");
        };
        tokio::time::timeout(SOON, wait).await.unwrap();
    }

    /// All log lines so far.
    pub(crate) fn log(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Ok(event) = self.events.try_recv() {
            if let Event::Log(line) = event {
                lines.push(line);
            }
        }
        lines
    }
}

pub(crate) fn drain(mut progress: mpsc::UnboundedReceiver<Progress>) -> Vec<Progress> {
    let mut seen = Vec::new();
    while let Ok(one) = progress.try_recv() {
        seen.push(one);
    }
    seen
}

/// Whether a process lives (a zombie does not).
pub(crate) fn is_alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim().starts_with('Z'))
}

/// Waits until a condition holds.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + SOON;
    while !condition() {
        assert!(tokio::time::Instant::now() < deadline, "it never came to pass that {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

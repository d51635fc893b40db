//! What the tests share: an engine, a workspace, a host, and the way to run a script.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sandbox::{Access, Options, Sandbox};
use script::{
    Call, Engine, Finished, Host, Job, Kind, Limits, Progress, Python, Reply, Sink, ToolError,
};
use serde_json::value::RawValue;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// An engine and where it lives.
pub(crate) struct Ground {
    pub(crate) engine: Engine,
    pub(crate) workspace: TempDir,
    _data: TempDir,
}

impl Ground {
    /// With the newest interpreter.
    pub(crate) async fn new() -> Self {
        Self::with(Python::find("auto").await.unwrap()).await
    }

    pub(crate) async fn with(python: Python) -> Self {
        let sandbox = Sandbox::start(Options::default()).await.unwrap();
        let data = tempfile::tempdir().unwrap();
        let engine = Engine::new(sandbox, python, data.path()).unwrap();
        Self { engine, workspace: tempfile::tempdir().unwrap(), _data: data }
    }

    /// With interpreters that are started ahead.
    pub(crate) async fn ahead(python: Python, most: usize) -> Self {
        let sandbox = Sandbox::start(Options::default()).await.unwrap();
        let data = tempfile::tempdir().unwrap();
        let engine = Engine::starting_ahead(sandbox, python, data.path(), most).unwrap();
        Self { engine, workspace: tempfile::tempdir().unwrap(), _data: data }
    }

    /// Waits until so many interpreters wait, for scripts and for checks.
    pub(crate) async fn waiting(&self, (scripts, checks): (usize, usize)) {
        let there = async {
            while self.engine.waiting() != (scripts, checks) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let there = tokio::time::timeout(Duration::from_secs(60), there).await;
        let found = self.engine.waiting();
        assert!(there.is_ok(), "{found:?} wait instead of {:?}", (scripts, checks));
    }

    /// Runs `code` with bounds that fit a test.
    pub(crate) async fn run(&self, code: &str) -> Ran {
        self.run_with(code, |_| {}).await
    }

    pub(crate) async fn run_with(&self, code: &str, change: impl FnOnce(&mut Job)) -> Ran {
        self.run_until(code, change, CancellationToken::new()).await
    }

    pub(crate) async fn run_until(
        &self,
        code: &str,
        change: impl FnOnce(&mut Job),
        cancel: CancellationToken,
    ) -> Ran {
        let (stdout, stderr) = (Text::default(), Text::default());
        let mut job = Job {
            code: code.to_owned(),
            workspace: open(self.workspace.path()),
            access: Access::ReadWrite,
            records: None,
            limits: Limits {
                max_calls: 2000,
                concurrency: 4,
                timeout: Duration::from_secs(20),
                memory_mb: 512,
            },
            stdout: stdout.sink(),
            stderr: stderr.sink(),
        };
        change(&mut job);
        let host = Arc::new(Scripted::default());
        let run = self.engine.run(job, host.clone(), cancel);
        let finished = tokio::time::timeout(Duration::from_secs(40), run)
            .await
            .expect("ends in time")
            .unwrap();
        Ran { finished, stdout: stdout.taken(), stderr: stderr.taken(), host }
    }
}

/// A script that ran.
pub(crate) struct Ran {
    pub(crate) finished: Finished,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) host: Arc<Scripted>,
}

impl Ran {
    /// Everything about it, for the message of an assertion.
    pub(crate) fn shown(&self) -> String {
        let cut = |text: &str| text.chars().take(3000).collect::<String>();
        format!(
            "{:?}\n--- stdout\n{}\n--- stderr\n{}",
            self.finished,
            cut(&self.stdout),
            cut(&self.stderr)
        )
    }
}

#[derive(Clone, Default)]
struct Text(Arc<Mutex<Vec<u8>>>);

impl Text {
    fn sink(&self) -> Sink {
        let bytes = self.0.clone();
        Box::new(move |piece| bytes.lock().unwrap().extend_from_slice(piece))
    }

    fn taken(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).expect("output is UTF-8")
    }
}

pub(crate) fn open(path: &Path) -> OwnedFd {
    std::fs::File::open(path).unwrap().into()
}

/// Answers by the tool's name, and remembers what it saw.
#[derive(Default)]
pub(crate) struct Scripted {
    pub(crate) calls: Mutex<Vec<(u64, String, String)>>,
    pub(crate) progress: Mutex<Vec<Progress>>,
    now: AtomicUsize,
    pub(crate) most_at_once: AtomicUsize,
    pub(crate) cancelled: AtomicUsize,
}

#[async_trait::async_trait]
impl Host for Scripted {
    async fn call(&self, call: Call) -> Result<Reply, ToolError> {
        let args = call.args.get();
        self.calls.lock().unwrap().push((call.number, call.tool.clone(), args.to_owned()));
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(now, Ordering::SeqCst);
        let reply = answer(&call.tool, args);
        match call.tool.as_str() {
            "slow" => tokio::time::sleep(Duration::from_millis(20)).await,
            "never" => {
                call.cancel.cancelled().await;
                self.cancelled.fetch_add(1, Ordering::SeqCst);
            }
            _ => {}
        }
        self.now.fetch_sub(1, Ordering::SeqCst);
        reply
    }

    fn progress(&self, progress: Progress) {
        self.progress.lock().unwrap().push(progress);
    }
}

fn answer(tool: &str, args: &str) -> Result<Reply, ToolError> {
    let raw = |json: &str| Some(Arc::from(RawValue::from_string(json.to_owned()).unwrap()));
    let image =
        r#"[{"type":"text","text":"seen"},{"type":"image","data":"aGk=","mimeType":"image/png"}]"#;
    let nothing = Reply { text: String::new(), structured: None, content: None, is_error: false };
    let structured = |json: &str| Reply { structured: raw(json), ..nothing.clone() };
    let text = |text: &str| Reply { text: text.to_owned(), ..nothing.clone() };
    Ok(match tool {
        "echo" | "slow" => Reply { text: args.to_owned(), ..structured(args) },
        "text" => text("hello"),
        "empty" => nothing,
        "null" => structured("null"),
        "number" => structured("7"),
        "true" => structured("true"),
        "list" => structured("[1,\n2]"),
        "fails" => Reply { is_error: true, ..text("it broke") },
        "fails_silently" => Reply { is_error: true, ..structured(r#"{"code":5}"#) },
        "image" => Reply { content: raw(image), ..text("seen") },
        "both" => Reply { content: raw(image), ..structured(r#"{"a":1}"#) },
        "big" => text(&"x".repeat(5 << 20)),
        "deep" => structured(&format!("{}{}", "[".repeat(200_000), "]".repeat(200_000))),
        "digits" => structured(&"9".repeat(5000)),
        "never" => return error(Kind::Cancelled, "the script is over", false),
        "close" => return error(Kind::NotListed, "list it in `tools`", false),
        "busy" => return error(Kind::Upstream, "come back later", true),
        _ => return error(Kind::UnknownTool, "there is no such tool; did you mean echo?", false),
    })
}

fn error(kind: Kind, message: &str, retryable: bool) -> Result<Reply, ToolError> {
    let refused = kind.is_refusal();
    Err(ToolError { kind, message: message.to_owned(), retryable, refused })
}

/// Says aloud that a test cannot run here; fails where everything is required to.
pub(crate) fn skip(why: &str) {
    assert!(
        std::env::var_os("PINFOLD_TEST_REQUIRE").is_none_or(|value| value != "all"),
        "a test that is required cannot run: {why}"
    );
    let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("SKIPPED: {why}\n"));
}

/// The interpreters the tests run with: the newest and, if there is one, a 3.10.
pub(crate) async fn interpreters() -> Vec<Python> {
    let newest = Python::find("auto").await.unwrap();
    let mut found = vec![newest];
    if let Some(old) = version("3.10").await {
        found.push(old);
    }
    found
}

/// The interpreter of one version, where it can be found.
pub(crate) async fn version(wanted: &str) -> Option<Python> {
    let name = format!("python{wanted}");
    let mut places = vec![PathBuf::from("/usr/bin"), PathBuf::from("/usr/local/bin")];
    let pyenv = std::env::var_os("PYENV_ROOT")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".pyenv")))?;
    if let Ok(versions) = std::fs::read_dir(pyenv.join("versions")) {
        places.extend(versions.map(|entry| entry.unwrap().path().join("bin")));
    }
    let path = places.iter().map(|place| place.join(&name)).find(|path| path.exists())?;
    Python::find(path.to_str()?).await.ok()
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

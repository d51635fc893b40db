//! What the tests share: a source that counts, a gateway around it, and the way to call.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gateway::config::{Approvals, BackgroundCalls, Profile, Scripts, ToolRule, Workspace};
use gateway::policy::{ApprovalRule, Effect, PermissionMode};
use gateway::sources::{Snapshot, Source, SourceCall, SourceError, State};
use gateway::{Approval, Failure, Gateway, Origin, Outcome, Parts, Progress, Request, Session};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{OnceCell, Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

/// Longest time that anything here may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A source in this process. What a tool does follows from its name.
#[derive(Debug)]
pub(crate) struct Fake {
    name: String,
    snapshot: Mutex<Arc<Snapshot>>,
    changes: watch::Sender<u64>,
    pub(crate) calls: Mutex<Vec<(String, Value)>>,
    pub(crate) cancelled: AtomicU64,
    unsettled: AtomicBool,
    /// Each permit lets one call of `later` or `job` end.
    pub(crate) gate: Semaphore,
}

pub(crate) fn tool(name: &str, more: Value) -> Arc<mcp::Tool> {
    let mut definition = json!({
        "name": name,
        "description": format!("does {name}"),
        "inputSchema": {
            "type": "object",
            "properties": {"sn": {"type": "string"}, "n": {"type": "integer"}},
            "additionalProperties": false,
        },
    });
    for (key, value) in more.as_object().unwrap() {
        definition[key] = value.clone();
    }
    let hint = |name: &str| definition["annotations"][name].as_bool();
    Arc::new(mcp::Tool {
        name: name.to_owned(),
        description: None,
        input_schema: to_raw_value(&definition["inputSchema"]).unwrap(),
        annotations: mcp::Annotations {
            read_only: hint("readOnlyHint"),
            destructive: hint("destructiveHint"),
            idempotent: hint("idempotentHint"),
            open_world: hint("openWorldHint"),
        },
        task_support: match definition["execution"]["taskSupport"].as_str() {
            Some("required") => mcp::TaskSupport::Required,
            _ => mcp::TaskSupport::Forbidden,
        },
        raw: to_raw_value(&definition).unwrap(),
    })
}

/// Every kind of tool that the table knows, and some that misbehave.
pub(crate) fn tools() -> Vec<Arc<mcp::Tool>> {
    let reads = || json!({"annotations": {"readOnlyHint": true}});
    let mut tools: Vec<_> =
        ["get", "fail", "big", "slow", "later", "lost", "down", "dead", "media", "text"]
            .iter()
            .map(|name| tool(name, reads()))
            .collect();
    tools.extend([
        tool("set", json!({})),
        tool("tag", json!({})),
        tool("ask", json!({})),
        tool("off", json!({})),
        tool("stuck", json!({})),
        tool("vanish", json!({})),
        tool("garble", json!({})),
        tool("unplugged", json!({})),
        tool("wipe", json!({"annotations": {"destructiveHint": true}})),
        tool("job", json!({"execution": {"taskSupport": "required"}})),
    ]);
    tools
}

impl Fake {
    pub(crate) fn new(name: &str) -> Arc<Self> {
        Self::with(name, tools())
    }

    pub(crate) fn with(name: &str, tools: Vec<Arc<mcp::Tool>>) -> Arc<Self> {
        let snapshot = Snapshot { tools, state: State::Ready };
        Arc::new(Self {
            name: name.to_owned(),
            snapshot: Mutex::new(Arc::new(snapshot)),
            changes: watch::channel(0).0,
            calls: Mutex::default(),
            cancelled: AtomicU64::new(0),
            unsettled: AtomicBool::new(false),
            gate: Semaphore::new(0),
        })
    }

    /// From now on it has announced a change that it does not list.
    pub(crate) fn announce(&self) {
        self.unsettled.store(true, Ordering::SeqCst);
    }

    pub(crate) fn now(&self, tools: Vec<Arc<mcp::Tool>>, state: State) {
        *self.snapshot.lock().unwrap() = Arc::new(Snapshot { tools, state });
        self.changes.send_modify(|version| *version += 1);
    }

    /// Puts another definition in the place of one.
    pub(crate) fn redefine(&self, name: &str, more: Value) {
        let mut tools = self.snapshot().tools.clone();
        *tools.iter_mut().find(|tool| tool.name == name).unwrap() = tool(name, more);
        self.now(tools, State::Ready);
    }

    pub(crate) fn count(&self, name: &str) -> usize {
        self.calls.lock().unwrap().iter().filter(|(tool, _)| tool == name).count()
    }
}

pub(crate) fn result(text: &str, structured: Option<Value>, is_error: bool) -> mcp::CallResult {
    let content = json!([{"type": "text", "text": text}]);
    let raw = json!({"content": content, "structuredContent": structured, "isError": is_error});
    mcp::CallResult {
        text: text.to_owned(),
        structured: structured.map(|value| Arc::from(to_raw_value(&value).unwrap())),
        content: Arc::from(to_raw_value(&content).unwrap()),
        has_media: false,
        is_error,
        raw: Arc::from(to_raw_value(&raw).unwrap()),
    }
}

#[async_trait::async_trait]
impl Source for Fake {
    fn name(&self) -> &str {
        &self.name
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.lock().unwrap().clone()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    async fn settled(&self) -> bool {
        !self.unsettled.load(Ordering::SeqCst)
    }

    async fn call(&self, call: SourceCall) -> Result<mcp::CallResult, SourceError> {
        let arguments: Value = serde_json::from_str(call.arguments.get()).unwrap();
        self.calls.lock().unwrap().push((call.tool.clone(), arguments.clone()));
        match call.tool.as_str() {
            "fail" => Ok(result("no such device", None, true)),
            "big" => Ok(result(&"x".repeat(5_000_000), None, false)),
            "text" => Ok(result("line one\nline two", None, false)),
            "slow" | "stuck" => {
                call.cancel.cancelled().await;
                self.cancelled.fetch_add(1, Ordering::SeqCst);
                Err(SourceError::Cancelled)
            }
            "later" | "job" => {
                if let Some(progress) = &call.progress {
                    let message = Some("halfway".to_owned());
                    let _ =
                        progress.send(mcp::Progress { progress: 1.0, total: Some(2.0), message });
                }
                tokio::select! {
                    permit = self.gate.acquire() => permit.unwrap().forget(),
                    () = call.cancel.cancelled() => {
                        self.cancelled.fetch_add(1, Ordering::SeqCst);
                        return Err(SourceError::Cancelled);
                    }
                }
                Ok(result("at last", Some(json!({"was": arguments})), false))
            }
            "dead" => std::future::pending().await,
            "lost" | "vanish" => Err(SourceError::Lost("connection reset".into())),
            "garble" => Err(SourceError::Unusable("the result is no object".into())),
            "down" | "unplugged" => Err(SourceError::Unavailable("connection refused".into())),
            "media" => Ok(mcp::CallResult {
                content: Arc::from(
                    to_raw_value(
                        &json!([{"type": "image", "data": "AA==", "mimeType": "image/png"}]),
                    )
                    .unwrap(),
                ),
                has_media: true,
                ..result("", None, false)
            }),
            name => Ok(result(
                &format!("{name} done"),
                Some(json!({"ok": true, "was": arguments})),
                false,
            )),
        }
    }
}

/// One engine for all tests: it needs no more than one keeper.
async fn engine() -> script::Engine {
    static ENGINE: OnceCell<script::Engine> = OnceCell::const_new();
    ENGINE.get_or_init(new_engine).await.clone()
}

async fn new_engine() -> script::Engine {
    // The keeper belongs to the runtime that starts it, and each test has its own.
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let data = tempfile::tempdir().unwrap().keep();
            let sandbox = sandbox::Sandbox::start(sandbox::Options::default()).await.unwrap();
            let python = script::Python::find("auto").await.unwrap();
            let engine = script::Engine::new(sandbox, python, &data).unwrap();
            sender.send(engine).ok().unwrap();
            std::future::pending::<()>().await;
        });
    });
    receiver.await.unwrap()
}

/// What runs scripts.
pub(crate) enum Engine {
    /// The one that most tests use.
    Shared,
    /// One that is started now.
    Own,
    /// None.
    None,
}

/// How a gateway of a test is set up.
pub(crate) struct Setup {
    pub(crate) mode: PermissionMode,
    pub(crate) scripts: Scripts,
    pub(crate) workspace: Workspace,
    pub(crate) tools: BTreeMap<String, ToolRule>,
    pub(crate) sources: Vec<Arc<Fake>>,
    /// The source without prefix.
    pub(crate) bare: Option<String>,
    pub(crate) engine: Engine,
    pub(crate) expire_sec: u64,
    pub(crate) auto_after_sec: u64,
    /// Another database than a file in the data directory.
    pub(crate) store: Option<String>,
}

impl Default for Setup {
    fn default() -> Self {
        let rule = |approval| ToolRule { effect: None, approval: Some(approval) };
        Self {
            mode: PermissionMode::Ask,
            scripts: Scripts { timeout_sec: 30, ..Scripts::default() },
            workspace: Workspace::default(),
            tools: [
                ("fleet__tag".to_owned(), rule(ApprovalRule::Direct)),
                ("fleet__ask".to_owned(), rule(ApprovalRule::Always)),
                ("fleet__off".to_owned(), rule(ApprovalRule::Off)),
            ]
            .into(),
            sources: vec![Fake::new("fleet")],
            bare: None,
            engine: Engine::Shared,
            expire_sec: 600,
            auto_after_sec: 45,
            store: None,
        }
    }
}

impl Setup {
    pub(crate) async fn open(self) -> Ground {
        let data = tempfile::tempdir().unwrap();
        let fleet = self.sources[0].clone();
        let gateway = self.open_at(data.path()).await.unwrap();
        let session = gateway.session("ann", "default", "s1").await.unwrap();
        Ground { gateway, session, fleet, data }
    }

    pub(crate) async fn open_at(self, data: &Path) -> Result<Arc<Gateway>, gateway::Error> {
        let own = || format!("sqlite://{}/pinfold.db", data.display());
        let url = self.store.unwrap_or_else(own);
        let engine = match self.engine {
            Engine::Shared => Ok(engine().await),
            Engine::Own => Ok(new_engine().await),
            Engine::None => Err("no sandbox here".to_owned()),
        };
        let profile = Profile {
            servers: self.sources.iter().map(|source| source.name.clone()).collect(),
            permission_mode: self.mode,
            workspace: self.workspace,
            tools: self.tools,
            ..Profile::default()
        };
        Gateway::open(Parts {
            store: store::Store::open(&url).await.unwrap(),
            engine,
            sources: self.sources.into_iter().map(|source| source as Arc<dyn Source>).collect(),
            bare: self.bare,
            profiles: [("default".to_owned(), profile)].into(),
            scripts: self.scripts,
            approvals: Approvals { expire_sec: self.expire_sec },
            background: BackgroundCalls { auto_after_sec: self.auto_after_sec },
            data_dir: data.to_owned(),
            isolation: "full".to_owned(),
        })
        .await
    }
}

/// A gateway, its counting source, and a session.
pub(crate) struct Ground {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) session: Arc<Session>,
    pub(crate) fleet: Arc<Fake>,
    pub(crate) data: TempDir,
}

impl Ground {
    pub(crate) async fn new() -> Self {
        Setup::default().open().await
    }

    pub(crate) async fn mode(mode: PermissionMode) -> Self {
        Setup { mode, ..Setup::default() }.open().await
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        self.call_with(tool, arguments, None, CancellationToken::new()).await
    }

    pub(crate) async fn call_with(
        &self,
        tool: &str,
        arguments: Value,
        progress: Option<mpsc::UnboundedSender<Progress>>,
        cancel: CancellationToken,
    ) -> Outcome {
        self.raw(tool, to_raw_value(&arguments).unwrap(), progress, cancel).await
    }

    pub(crate) async fn raw(
        &self,
        tool: &str,
        arguments: Box<RawValue>,
        progress: Option<mpsc::UnboundedSender<Progress>>,
        cancel: CancellationToken,
    ) -> Outcome {
        let request = Request {
            session: self.session.clone(),
            tool: tool.to_owned(),
            arguments,
            origin: Origin::Cli,
            progress,
            passed: mcp::Passed::default(),
            cancel,
        };
        tokio::time::timeout(LIMIT, self.gateway.call(request)).await.expect("ends in time")
    }

    pub(crate) fn script(code: &str, tools: &[&str]) -> Value {
        let code = format!("from agent_tools import *\n{code}");
        json!({"code": code, "tools": tools, "description": "tries things"})
    }

    /// Runs a script that nobody has to be asked about.
    pub(crate) async fn run(&self, code: &str, tools: &[&str]) -> mcp::CallResult {
        done(self.call("run_script", Self::script(code, tools)).await)
    }

    pub(crate) async fn audit(&self) -> Vec<store::AuditRow> {
        let url = format!("sqlite://{}/pinfold.db", self.data.path().display());
        let store = store::Store::open(&url).await.unwrap();
        store.audit_rows(&store::AuditFilter { limit: 100, ..Default::default() }).await.unwrap()
    }

    /// The folders of scripts, oldest first.
    pub(crate) fn records(&self) -> Vec<std::path::PathBuf> {
        let Ok(folders) = std::fs::read_dir(self.session.workspace().join(".agent/scripts")) else {
            return Vec::new();
        };
        let mut folders: Vec<_> = folders.map(|entry| entry.unwrap().path()).collect();
        folders.sort();
        folders
    }

    pub(crate) fn lines(&self) -> Vec<Value> {
        lines(self.records().last().unwrap())
    }
}

pub(crate) fn lines(folder: &Path) -> Vec<Value> {
    std::fs::read_to_string(folder.join("calls.jsonl"))
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[track_caller]
pub(crate) fn done(outcome: Outcome) -> mcp::CallResult {
    match outcome {
        Outcome::Done(result) => result,
        other => panic!("not done: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn refused(outcome: Outcome) -> Failure {
    match outcome {
        Outcome::Refused(failure) => failure,
        other => panic!("not refused: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn asked(outcome: Outcome) -> Approval {
    match outcome {
        Outcome::NeedsApproval(approval) => *approval,
        other => panic!("nobody was asked: {other:?}"),
    }
}

pub(crate) fn rule(effect: Option<Effect>, approval: Option<ApprovalRule>) -> ToolRule {
    ToolRule { effect, approval }
}

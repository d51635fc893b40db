//! What the road of a call costs: calls of a real script through schema, policy and record to a
//! source in this process, against a bare pipe between two processes of the same kind, and a direct
//! call. Prints figures and ratios; asserts nothing.

#![expect(clippy::print_stdout, reason = "it prints what it measured")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a bench may break off")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gateway::config::{Approvals, BackgroundCalls, Profile, Scripts};
use gateway::sources::{Snapshot, Source, SourceCall, SourceError, State};
use gateway::{Gateway, Origin, Outcome, Parts, Request, Session};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

#[derive(Debug)]
struct Answers {
    snapshot: Arc<Snapshot>,
    changes: watch::Sender<u64>,
    result: mcp::CallResult,
}

fn answers() -> Answers {
    let definition = |name: &str, reads: bool| {
        json!({
            "name": name,
            "inputSchema": {
                "type": "object",
                "properties": {"sn": {"type": "string"}, "n": {"type": "integer"}},
                "required": ["sn"],
                "additionalProperties": false,
            },
            "annotations": {"readOnlyHint": reads},
        })
    };
    let tool = |name: &str, reads: bool| {
        let raw = definition(name, reads);
        Arc::new(mcp::Tool {
            name: name.to_owned(),
            description: None,
            input_schema: to_raw_value(&raw["inputSchema"]).unwrap(),
            annotations: mcp::Annotations { read_only: Some(reads), ..Default::default() },
            task_support: mcp::TaskSupport::Forbidden,
            raw: to_raw_value(&raw).unwrap(),
        })
    };
    let structured = json!({"sn": "a", "online": true, "battery": 71, "firmware": "2.4.1"});
    let content = json!([{"type": "text", "text": structured.to_string()}]);
    let shared = |value: &Value| -> Arc<RawValue> { Arc::from(to_raw_value(value).unwrap()) };
    Answers {
        snapshot: Arc::new(Snapshot {
            tools: vec![tool("get", true), tool("set", false)],
            state: State::Ready,
        }),
        changes: watch::channel(0).0,
        result: mcp::CallResult {
            text: structured.to_string(),
            structured: Some(shared(&structured)),
            content: shared(&content),
            has_media: false,
            is_error: false,
            raw: shared(&json!({"content": content, "structuredContent": structured})),
        },
    }
}

#[async_trait::async_trait]
impl Source for Answers {
    fn name(&self) -> &str {
        "fleet"
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.clone()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    async fn call(&self, _call: SourceCall) -> Result<mcp::CallResult, SourceError> {
        Ok(self.result.clone())
    }
}

const TIMES: &str = "
import json, statistics, sys, time
def measure(name, one, count):
    for _ in range(count // 10):
        one()
    times = []
    for _ in range(count):
        began = time.perf_counter_ns()
        one()
        times.append(time.perf_counter_ns() - began)
    print(name, statistics.median(times) / 1000, flush=True)
";

/// One request line and one reply line of the usual size, with nothing behind them.
const BARE: &str = r#"
request = b'{"id":1,"tool":"fleet__get","args":{"sn":"a"}}\n'
def one():
    out.write(request); out.flush(); into.readline()
out, into = open(1, 'wb', closefd=False), open(0, 'rb', closefd=False)
import io
log = sys.stderr
def print(*what, flush=True):
    log.write(' '.join(map(str, what)) + '\n'); log.flush()
measure('bare', one, 20000)
"#;

const SCRIPT: &str = "
from agent_tools import call, call_many
measure('call', lambda: call('fleet__get', {'sn': 'a'}), 20000)
args = [{'sn': 'a'}] * 50000
for _ in range(3):
    began = time.perf_counter()
    call_many('fleet__get', args)
    print('many', len(args) / (time.perf_counter() - began), flush=True)
measure('write', lambda: call('fleet__set', {'sn': 'a'}), 500)
";

fn bare() -> f64 {
    let mut child = Command::new("python3")
        .args(["-c", &format!("{TIMES}{BARE}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let reply = b"{\"id\":1,\"structured\":{\"sn\":\"a\",\"online\":true,\"battery\":71,\"firmware\":\"2.4.1\"},\"is_error\":false}\n";
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line).unwrap() > 0 {
        to.write_all(reply).unwrap();
        line.clear();
    }
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
    child.wait().unwrap();
    let last = said.lines().find_map(|line| line.strip_prefix("bare ")).expect(&said);
    last.parse().unwrap()
}

async fn call(
    gateway: &Arc<Gateway>,
    session: &Arc<Session>,
    tool: &str,
    arguments: Value,
) -> mcp::CallResult {
    let request = Request {
        session: session.clone(),
        tool: tool.to_owned(),
        arguments: to_raw_value(&arguments).unwrap(),
        origin: Origin::Cli,
        progress: None,
        passed: mcp::Passed::default(),
        cancel: CancellationToken::new(),
    };
    match gateway.call(request).await {
        Outcome::Done(result) => result,
        other => panic!("{other:?}"),
    }
}

async fn direct(
    gateway: &Arc<Gateway>,
    session: &Arc<Session>,
    tool: &str,
    count: usize,
) -> Duration {
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let began = Instant::now();
        call(gateway, session, tool, json!({"sn": "a"})).await;
        times.push(began.elapsed());
    }
    times.sort();
    times[count / 2]
}

/// Where the scheduler likes, then one processor for both sides. On several, what a round trip
/// costs depends on where it puts them (a bare pipe here between 4 and 57 µs), and the ratio is
/// large where it puts only the bare ones together.
fn main() {
    measure("wherever the scheduler puts the two sides");
    let mut one = rustix::thread::CpuSet::new();
    one.set(rustix::thread::sched_getcpu());
    rustix::thread::sched_setaffinity(None, &one).unwrap();
    measure("both sides on one processor");
}

#[tokio::main]
async fn measure(place: &str) {
    let data = tempfile::tempdir().unwrap();
    let sandbox = sandbox::Sandbox::start(sandbox::Options::default()).await.unwrap();
    let python = script::Python::find("auto").await.unwrap();
    let engine = script::Engine::new(sandbox, python, data.path()).unwrap();
    let profile = Profile {
        servers: vec!["fleet".to_owned()],
        permission_mode: gateway::policy::PermissionMode::Auto,
        ..Profile::default()
    };
    let gateway = Gateway::open(Parts {
        store: store::Store::open(&format!("sqlite://{}/p.db", data.path().display()))
            .await
            .unwrap(),
        engine: Ok(engine),
        sources: vec![Arc::new(answers())],
        bare: None,
        profiles: [("default".to_owned(), profile)].into(),
        scripts: Scripts { max_calls: 1_000_000, ..Scripts::default() },
        approvals: Approvals::default(),
        background: BackgroundCalls::default(),
        data_dir: data.path().to_owned(),
        isolation: "full".to_owned(),
    })
    .await
    .unwrap();
    let session = gateway.session("bench", "default", "bench").await.unwrap();

    let bare = tokio::task::spawn_blocking(bare).await.unwrap();
    let script = json!({"code": format!("{TIMES}{SCRIPT}"), "tools": ["fleet__set"], "description": "measures"});
    let said = call(&gateway, &session, "run_script", script).await;
    assert!(!said.is_error, "{}", said.text);
    let figures = |name: &str| -> Vec<f64> {
        let lines = said.text.lines().filter_map(|line| line.strip_prefix(name));
        lines.map(|rest| rest.trim().parse().unwrap()).collect()
    };
    let one = figures("call ")[0];
    let many = figures("many ").into_iter().fold(0.0, f64::max);
    println!("{place}");
    println!("bare pipe round trip           {bare:8.1} µs median");
    println!("call of a script               {one:8.1} µs median, {:.2} × bare", one / bare);
    println!("call_many of a script          {many:8.0} calls/s");
    // For `xtask bench`, which gathers these lines.
    let figure = json!({
        "what": format!("one `call` from a script through schema, policy and record to an in-process tool and back: median, against a bare pipe round trip between the same two processes, {place}"),
        "value": one / bare, "unit": "×", "bound": 4.0, "aim": 2.0, "better": "lower",
        "detail": format!("{one:.1} µs against {bare:.1} µs"),
    });
    println!("figure: {figure}");
    let figure = json!({
        "what": format!("`call_many` to the same tool, {place}"),
        "value": many, "unit": "calls/s", "bound": 10_000.0, "aim": 20_000.0, "better": "higher",
    });
    println!("figure: {figure}");
    println!("call of a script that writes   {:8.1} µs median", figures("write ")[0]);
    let read = direct(&gateway, &session, "fleet__get", 2000).await;
    println!("direct call                    {:8.1} µs median", read.as_secs_f64() * 1e6);
    let write = direct(&gateway, &session, "fleet__set", 500).await;
    println!("direct call that writes        {:8.1} µs median", write.as_secs_f64() * 1e6);
    gateway.close().await;
}

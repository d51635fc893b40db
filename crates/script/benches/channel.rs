//! What a call costs: a round trip of `call` to a tool in this process and the rate of
//! `call_many`, against a bare pipe between the same two processes, all in one run of one script.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sandbox::{Access, Options, Sandbox};
use script::{Call, Ending, Engine, Host, Job, Limits, Progress, Python, Reply, ToolError};
use tokio_util::sync::CancellationToken;

/// The bare pipes are named ones in the workspace; the turns alternate, so that whatever else the
/// machine does falls on both.
const SCRIPT: &str = r#"
import json, os, statistics, time
from agent_tools import call, call_many

ping, pong = os.open("ping", os.O_WRONLY), os.open("pong", os.O_RDONLY)
line = b'{"id":1,"tool":"echo","args":{"sn":"device-0001"}}\n'

def bare():
    os.write(ping, line)
    os.read(pong, 65536)

def one():
    call("echo", {"sn": "device-0001"})

def took(function, turns):
    times = []
    for _ in range(turns):
        start = time.perf_counter_ns()
        function()
        times.append(time.perf_counter_ns() - start)
    return times

took(bare, 500), took(one, 500)
bares, ones, rates = [], [], []
for _ in range(10):
    bares += took(bare, 500)
    ones += took(one, 500)
for _ in range(5):
    arguments = [{"sn": f"device-{n:04}"} for n in range(5000)]
    start = time.perf_counter()
    call_many("echo", arguments)
    rates.append(len(arguments) / (time.perf_counter() - start))
print(json.dumps([statistics.median(bares) / 1000, statistics.median(ones) / 1000, statistics.median(rates)]))
"#;

struct Echo;

#[async_trait::async_trait]
impl Host for Echo {
    async fn call(&self, call: Call) -> Result<Reply, ToolError> {
        let structured = Some(Arc::from(call.args));
        Ok(Reply { text: String::new(), structured, content: None, is_error: false })
    }

    fn progress(&self, _: Progress) {}
}

fn echo(workspace: &Path) -> std::io::Result<()> {
    let mut ping = File::open(workspace.join("ping"))?;
    let mut pong = File::options().write(true).open(workspace.join("pong"))?;
    let mut line = [0; 4096];
    loop {
        match ping.read(&mut line)? {
            0 => return Ok(()),
            length => pong.write_all(&line[..length])?,
        }
    }
}

/// Where the scheduler likes, then one processor for both sides. On several, what a round trip
/// costs depends on where it puts them (a bare pipe here between 4 and 57 µs), and the ratio is
/// large where it puts only the bare ones together.
fn main() -> Result<(), Box<dyn std::error::Error>> {
    measure("wherever the scheduler puts the two sides")?;
    let mut one = rustix::thread::CpuSet::new();
    one.set(rustix::thread::sched_getcpu());
    rustix::thread::sched_setaffinity(None, &one)?;
    measure("both sides on one processor")
}

#[tokio::main]
async fn measure(place: &str) -> Result<(), Box<dyn std::error::Error>> {
    let (workspace, data) = (tempfile::tempdir()?, tempfile::tempdir()?);
    for name in ["ping", "pong"] {
        let mode = rustix::fs::Mode::from_raw_mode(0o666);
        let path = workspace.path().join(name);
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0)?;
    }
    let python = Python::find("auto").await?;
    let (major, minor, micro) = python.version;
    let engine = Engine::new(Sandbox::start(Options::default()).await?, python, data.path())?;
    let printed = Arc::new(Mutex::new(Vec::new()));
    let kept = printed.clone();
    let job = Job {
        code: SCRIPT.to_owned(),
        workspace: File::open(workspace.path())?.into(),
        access: Access::ReadWrite,
        records: None,
        limits: Limits {
            max_calls: 1_000_000,
            concurrency: 4,
            timeout: Duration::from_secs(60),
            memory_mb: 512,
        },
        stdout: Box::new(move |piece| {
            if let Ok(mut kept) = kept.lock() {
                kept.extend_from_slice(piece);
            }
        }),
        stderr: Box::new(|piece| drop(std::io::stderr().write_all(piece))),
    };
    let pipes = workspace.path().to_owned();
    std::thread::spawn(move || echo(&pipes));
    let finished = engine.run(job, Arc::new(Echo), CancellationToken::new()).await?;
    if finished.ending != Ending::Completed {
        return Err(format!("the script did not complete: {finished:?}").into());
    }
    let printed = printed.lock().map_err(|error| error.to_string())?;
    let [bare, one, rate]: [f64; 3] = serde_json::from_slice(&printed)?;
    let mut out = std::io::stdout();
    writeln!(out, "Python {major}.{minor}.{micro}, medians, {place}")?;
    writeln!(out, "bare pipe round trip    {bare:8.1} µs")?;
    writeln!(out, "call round trip         {one:8.1} µs   {:.2} × bare", one / bare)?;
    writeln!(out, "call_many               {rate:8.0} calls/s")?;
    // For `xtask bench`, which gathers these lines.
    let call = serde_json::json!({
        "what": format!("one `call` over the channel alone, against a bare pipe round trip, {place}"),
        "value": one / bare, "unit": "×", "better": "lower",
        "detail": format!("{one:.1} µs against {bare:.1} µs"),
    });
    let many = serde_json::json!({
        "what": format!("`call_many` over the channel alone, {place}"),
        "value": rate, "unit": "calls/s", "better": "higher",
    });
    writeln!(out, "figure: {call}\nfigure: {many}")?;
    Ok(())
}

//! 500 `call_many` calls to a stdio server through the whole of pinfold, against a bare client that
//! does nothing but keep as many requests in flight.
//!
//! The two take turns in one run, so that what the machine does besides hits both. Only the calls
//! are timed, on either side: no start, no handshake.

#![expect(clippy::expect_used, reason = "a bench that cannot measure has to stop")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

const CALLS: usize = 500;
const CONCURRENCY: usize = 4;
const ROUNDS: usize = 15;

const SCRIPT: &str = r#"
import time
from agent_tools import call_many

sns = [{"sn": f"SN{n:04}"} for n in range(1, 501)]
call_many("fleet__get_device_status", sns[:50])
for _ in range(ROUNDS):
    start = time.perf_counter()
    rows = call_many("fleet__get_device_status", sns)
    print((time.perf_counter() - start) * 1000)
    assert len(rows) == 500 and rows[499]["sn"] == "SN0500"
"#;

fn main() {
    // `cargo test --benches` only asks whether it starts.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    for (latency, what, bound, aim) in [
        (
            "0",
            "500 `call_many` calls to a stdio server that answers at once, against a bare client",
            1.25,
            1.15,
        ),
        ("2", "the same, where each answer takes the server 2 ms", 1.25, 1.15),
    ] {
        let bare_before = bare(latency, ROUNDS / 2 + 1);
        let through = through_pinfold(latency);
        let bare_after = bare(latency, ROUNDS / 2 + 1);
        let mut bare: Vec<f64> = bare_before.into_iter().chain(bare_after).collect();
        let mut through = through;
        let (through, bare) = (median(&mut through), median(&mut bare));
        let figure = serde_json::json!({
            "what": what,
            "unit": "×",
            "value": through / bare,
            "bound": bound,
            "aim": aim,
            "better": "lower",
            "detail": format!("{through:.1} ms against {bare:.1} ms, concurrency {CONCURRENCY}"),
        });
        println_figure(&figure);
    }
}

fn println_figure(figure: &serde_json::Value) {
    let _ = writeln!(std::io::stdout().lock(), "figure: {figure}");
}

/// Milliseconds of each round through the binary, timed inside the script.
fn through_pinfold(latency: &str) -> Vec<f64> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = server();
    let configuration = format!(
        "[servers.fleet]\ncommand = 'python3'\nargs = ['{}', '--latency-ms', '{latency}']\n\
         [scripts]\nmax_calls = 100000\nconcurrency = {CONCURRENCY}\n",
        server.display()
    );
    std::fs::write(folder.path().join("pinfold.toml"), configuration).expect("written");
    let script = SCRIPT.replace("ROUNDS", &ROUNDS.to_string());
    std::fs::write(folder.path().join("s.py"), script).expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_pinfold"))
        .args(["run", "--config", "pinfold.toml", "s.py"])
        .current_dir(folder.path())
        .output()
        .expect("pinfold starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Milliseconds of each round with a client of a dozen lines.
fn bare(latency: &str, rounds: usize) -> Vec<f64> {
    let mut client = Bare::start(latency);
    client.round(50);
    let times = (0..rounds).map(|_| client.round(CALLS)).collect();
    let _ = client.child.kill();
    let _ = client.child.wait();
    times
}

struct Bare {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Bare {
    fn start(latency: &str) -> Self {
        let mut child = Command::new("python3")
            .arg(server())
            .args(["--latency-ms", latency])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut client = Self { child, input, output };
        let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
        writeln!(client.input, "{hello}").expect("sent");
        client.receive();
        client
    }

    fn round(&mut self, calls: usize) -> f64 {
        let start = Instant::now();
        let (mut sent, mut received) = (0, 0);
        while received < calls {
            while sent < calls && sent - received < CONCURRENCY {
                sent += 1;
                let line = format!(
                    "{{\"jsonrpc\":\"2.0\",\"id\":{sent},\"method\":\"tools/call\",\"params\":\
                     {{\"name\":\"get_device_status\",\"arguments\":{{\"sn\":\"SN{sent:04}\"}}}}}}\n"
                );
                self.input.write_all(line.as_bytes()).expect("sent");
            }
            let answer = self.receive();
            assert!(answer["result"]["structuredContent"]["sn"].is_string(), "{answer}");
            received += 1;
        }
        start.elapsed().as_secs_f64() * 1000.0
    }

    fn receive(&mut self) -> serde_json::Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("an answer");
        serde_json::from_str(&line).expect("JSON")
    }
}

fn server() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fleet/server.py")
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

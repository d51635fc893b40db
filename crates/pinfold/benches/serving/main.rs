//! What the gateway adds to a call, and what many servers, tools and sessions cost.
//!
//! This program is all sides of it: the client, the upstream servers (over HTTP in this process,
//! over stdio as this program started again), and the judge. The bare client calls the very
//! servers that pinfold calls, and the two take turns.

#![expect(clippy::expect_used, reason = "a bench that cannot measure has to stop")]

use std::io::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

mod clients;
mod upstream;

use clients::{Http, Pipes, Serve, World};
use upstream::{answer_stdio, program, serve_http, server};

const SERVERS: usize = 200;
const TOOLS: usize = 25;
const SESSIONS: usize = 1_000;
const CALLS: usize = 400;
const SLOW: usize = 20;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("--server") => return answer_stdio(arguments.get(2).map(String::as_str)),
        // `cargo test --benches` only asks whether it starts.
        _ if !arguments.iter().any(|argument| argument == "--bench") => return,
        _ => {}
    }
    over_stdio();
    slow_servers();
    over_http();
}

/// A call through `pinfold mcp` against one of the same server.
fn over_stdio() {
    let world = World::new(&format!("[servers.s]\n{}", program()));
    let mut through = Pipes::start(world.pinfold("mcp"));
    let mut bare = Pipes::start(server(""));
    for client in [&mut through, &mut bare] {
        client.hello();
    }
    through.until_listed("s__tool_0");
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for round in 0..CALLS * 2 {
        let (slow, fast) = (through.call("s__tool_0"), bare.call("tool_0"));
        if round >= CALLS {
            with.push(slow);
            without.push(fast);
        }
    }
    let (with, without) = (median(&mut with), median(&mut without));
    figure(&json!({
        "what": "a direct call over stdio: what the gateway adds to a bare call of the same server, median",
        "unit": "ms", "value": with - without, "bound": 0.3, "better": "lower",
        "detail": format!("{with:.3} ms against {without:.3} ms"),
    }));
}

/// Twenty servers that take their time: what answers at once all the same.
fn slow_servers() {
    let servers: String = (0..SLOW).map(|n| format!("[servers.s{n}]\n{}", program())).collect();
    let world = World::new(&servers);
    let mut warm = Pipes::start(world.pinfold("mcp"));
    warm.hello();
    warm.until_listed(&format!("s{}__tool_0", SLOW - 1));
    warm.until("its tools to be kept", |_| world.kept() == SLOW);
    drop(warm);
    // The same servers, but for how long they take: that is not in their configuration.
    world.slow_down();
    let (mut answered, mut listed) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let begun = Instant::now();
        let mut client = Pipes::start(world.pinfold("mcp"));
        client.hello();
        answered.push(millis(begun));
        let tools = client.list();
        listed.push(millis(begun));
        assert!(tools >= SLOW * TOOLS, "only {tools} tools were listed");
    }
    figure(&json!({
        "what": format!("`initialize` with {SLOW} servers that take half a minute to start, from the start of `pinfold mcp` on, median"),
        "unit": "ms", "value": median(&mut answered), "bound": 50.0, "better": "lower",
        "detail": "the start of the process is in it",
    }));
    figure(&json!({
        "what": "`tools/list` in the same place, with what the servers had last: from the start of `pinfold mcp` on, median",
        "unit": "ms", "value": median(&mut listed), "better": "lower",
        "detail": "the start of the sandbox is in it",
    }));
}

/// Two hundred servers, five thousand tools, a thousand sessions.
fn over_http() {
    let upstream = serve_http();
    let servers: String = (0..SERVERS)
        .map(|n| format!("[servers.s{n:03}]\nurl = 'http://{upstream}/mcp'\n"))
        .collect();
    let world = World::new(&servers);
    let server = Serve::start(&world);
    let mut client = server.client();
    let last = format!("s{:03}__tool_{}", SERVERS - 1, TOOLS - 1);
    let begun = Instant::now();
    while !client.list_text().contains(&last) {
        assert!(begun.elapsed() < Duration::from_secs(300), "the servers do not come");
        std::thread::sleep(Duration::from_millis(200));
    }
    // What came up last is still being worked in.
    std::thread::sleep(Duration::from_secs(2));
    let mut lists: Vec<f64> = (0..60)
        .map(|_| {
            let begun = Instant::now();
            let length = client.list_text().len();
            assert!(length > SERVERS * TOOLS * 100, "{length} bytes are not the whole list");
            millis(begun)
        })
        .collect();
    figure(&json!({
        "what": format!("`tools/list` of {} tools of {SERVERS} servers over HTTP, median", SERVERS * TOOLS),
        "unit": "ms", "value": median(&mut lists), "bound": 20.0, "better": "lower",
        "detail": format!("{:.1} MB", client.list_text().len() as f64 / 1e6),
    }));

    let mut bare = Http::connect(upstream);
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for round in 0..CALLS * 2 {
        let (slow, fast) = (client.call("s100__tool_0"), bare.call("tool_0"));
        if round >= CALLS {
            with.push(slow);
            without.push(fast);
        }
    }
    let (alone, without) = (median(&mut with), median(&mut without));
    figure(&json!({
        "what": "a direct call over HTTP: what the gateway adds to a bare call of the same server, median",
        "unit": "ms", "value": alone - without, "bound": 0.5, "better": "lower",
        "detail": format!("{alone:.3} ms against {without:.3} ms"),
    }));

    let before = server.memory();
    let sessions: Vec<Http> = (0..SESSIONS).map(|_| server.session()).collect();
    std::thread::sleep(Duration::from_secs(1));
    let after = server.memory();
    figure(&json!({
        "what": format!("memory of `pinfold serve` with {SESSIONS} idle sessions, each with its stream open, besides {} tools of {SERVERS} servers", SERVERS * TOOLS),
        "unit": "MB", "value": after, "bound": 150.0, "better": "lower",
        "detail": format!("{before:.0} MB without the sessions"),
    }));

    // In turns with the sessions there and gone would take a start for each turn, so: alone,
    // among them, alone again.
    let among = median(&mut (0..CALLS).map(|_| client.call("s100__tool_0")).collect::<Vec<_>>());
    drop(sessions);
    std::thread::sleep(Duration::from_secs(1));
    let again = median(&mut (0..CALLS).map(|_| client.call("s100__tool_0")).collect::<Vec<_>>());
    let alone = f64::midpoint(alone, again);
    figure(&json!({
        "what": format!("a call among {SESSIONS} idle sessions, against one alone, median"),
        "unit": "×", "value": among / alone, "bound": 1.2, "better": "lower",
        "detail": format!("{among:.3} ms against {alone:.3} ms"),
    }));
}

fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn figure(figure: &Value) {
    let _ = writeln!(std::io::stdout().lock(), "figure: {figure}");
}

//! Events of a session over HTTP: resumed without loss or doubles, and cheap for many listeners.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::{approval, get, key, post, started};
use crate::client::{Client, text};
use crate::http::call;
use crate::server::Server;
use crate::world::{World, ended, finish, fixtures, start, until};

/// Somebody who listens.
struct Listener {
    lines: std::io::Lines<BufReader<TcpStream>>,
    head: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
struct Event {
    id: Option<i64>,
    kind: String,
    data: Value,
}

impl Listener {
    fn open(server: &Server, path: &str, headers: &[&str]) -> Self {
        let address = server.url("");
        let address = address.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let head = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n{headers}\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut lines = BufReader::new(stream).lines();
        let head = lines.by_ref().map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
        Self { lines, head }
    }

    fn next(&mut self) -> Event {
        let (mut id, mut kind) = (None, String::new());
        let begun = std::time::Instant::now();
        loop {
            // Signs of life come for ever.
            assert!(begun.elapsed() < Duration::from_secs(60), "no event came");
            let line = self.lines.next().expect("the stream ended").unwrap();
            if let Some(given) = line.strip_prefix("id: ") {
                id = Some(given.parse().unwrap());
            } else if let Some(given) = line.strip_prefix("event: ") {
                kind = given.to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Event { id, kind, data: serde_json::from_str(data).unwrap() };
            }
        }
    }
}

fn session(server: &Server, key: &str) -> String {
    let sessions = get(server, key, "/api/sessions").json();
    sessions["sessions"][0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_listener_goes_on_where_it_was_also_after_a_restart() {
    let world = World::new("");
    let server = started(&world, &[]);
    let echo = |server: &Server| call(server, &[], "t__echo", json!({"text": "x"}));
    echo(&server);
    let key = key(&world);
    let path = format!("/api/sessions/{}/events", session(&server, &key));
    let mut all = Listener::open(&server, &format!("{path}?after=0"), &[&key]);
    let head = all.head.join("\n").to_lowercase();
    for part in ["200 ok", "content-type: text/event-stream", "x-accel-buffering: no", "no-store"] {
        assert!(head.contains(part), "{head}");
    }
    let first = all.next();
    assert_eq!(first.kind, "tool.started");
    assert_eq!((&first.data["tool"], first.data["at_ms"].is_i64()), (&json!("t__echo"), true));
    let second = all.next();
    assert_eq!((second.kind.as_str(), &second.data["outcome"]), ("tool.finished", &json!("ok")));
    echo(&server);
    let third = all.next();
    drop(all);
    echo(&server);
    // Killed at once it would lose the last moment.
    let mut server = server;
    let killed = std::process::Command::new("kill").arg(server.child.id().to_string()).status();
    assert!(killed.unwrap().success());
    until("the server ended", || server.child.try_wait().unwrap());
    drop(server);

    let server = started(&world, &[]);
    echo(&server);
    let last = format!("Last-Event-ID: {}", third.id.unwrap());
    // What the browser says counts more than the address it began with.
    let mut again = Listener::open(&server, &format!("{path}?after=0"), &[&key, &last]);
    let mut ids = vec![third.id.unwrap()];
    for kind in ["finished", "started", "finished", "started", "finished"] {
        let event = again.next();
        assert_eq!(event.kind, format!("tool.{kind}"));
        ids.push(event.id.unwrap());
    }
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
    // Without a place only what happens from now on.
    let mut live = Listener::open(&server, &path, &[&key]);
    let id = approval(&call(&server, &[], "t__note", json!({"text": "x"})));
    let event = live.next();
    assert_eq!((event.kind.as_str(), &event.data["approval"]), ("approval.requested", &json!(id)));
    ended(world.pinfold(&["approvals", "deny", &id, "--reason", "no"])).code(0);
    let event = live.next();
    assert_eq!(event.kind, "approval.resolved", "answered by another process");
    assert_eq!(
        (&event.data["resolution"], &event.data["by"]),
        (&json!("deny"), &json!("pinfold approvals"))
    );
    let wrong = server.send("GET", &path, &[&key, "Last-Event-ID: x"], "");
    assert_eq!(wrong.status, 400);
}

#[test]
fn a_thousand_listeners_are_told_by_one_server() {
    let world = World::new("");
    let server = started(&world, &[]);
    call(&server, &[], "t__echo", json!({"text": "x"}));
    let key = key(&world);
    let path = format!("/api/sessions/{}/events", session(&server, &key));
    let resident = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id()));
        let line =
            status.unwrap().lines().find(|line| line.starts_with("VmRSS:")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let before = resident();
    let mut command = std::process::Command::new("python3");
    command.arg(fixtures().join("listeners.py")).args(["1000", &server.url(&path), &key]);
    command.arg(world.path("listening"));
    let listeners = start(command);
    until("all listen", || world.path("listening").exists().then_some(()));
    let grown = resident().saturating_sub(before);
    call(&server, &[], "t__echo", json!({"text": "x"}));
    let told = finish(listeners).code(0);
    assert_eq!(told.stdout.trim(), "1000 heard 2 events each");
    assert!(grown < 60 * 1024, "{grown} KiB for a thousand listeners");
}

#[test]
fn no_more_listen_than_are_let() {
    let world = World::new("[limits]\nlisteners = 2\n");
    let server = started(&world, &[]);
    call(&server, &[], "t__echo", json!({"text": "x"}));
    let key = key(&world);
    let path = format!("/api/sessions/{}/events", session(&server, &key));
    let first = Listener::open(&server, &path, &[&key]);
    let second = Listener::open(&server, &path, &[&key]);
    let third = get(&server, &key, &path);
    assert_eq!(third.status, 503);
    assert!(third.body.contains("limits.listeners"), "{third:#?}");
    drop((first, second));
    until("a place is free", || {
        Listener::open(&server, &path, &[&key]).head[0].contains("200").then_some(())
    });
}

#[test]
fn a_client_that_waits_is_told_of_an_answer_over_the_api() {
    let world = World::new("");
    let server = started(&world, &[]);
    let mut client = Client::start(&world, &[]);
    client.send(&json!({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "patient", "version": "1"}}}));
    client.wait("initialize", |message| message["id"] == "i");
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    client.send(&json!({"jsonrpc": "2.0", "id": "c", "method": "tools/call",
        "params": {"name": "t__note", "arguments": {"text": "x"}}}));
    client.wait("the question", |message| message["method"] == "elicitation/create");
    // Nobody fills the form in; a person answers through the other process.
    let key = key(&world);
    let open = get(&server, &key, "/api/approvals").json();
    let id = open["approvals"][0]["id"].as_str().unwrap();
    let answered =
        post(&server, &key, &format!("/api/approvals/{id}"), &json!({"decision": "once"}));
    assert_eq!(answered.status, 200, "{answered:#?}");
    let result = client.wait("the result", |message| message["id"] == "c");
    assert_eq!(text(&result["result"]), "noted");
    client.wait("the form is taken back", |message| message["method"] == "notifications/cancelled");
}

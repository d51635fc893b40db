//! The official TypeScript SDK's clients, of both generations; and clients whose line breaks.

use std::process::Command;

use serde_json::{Value, json};

use crate::cutting;
use crate::foreign::installed;
use crate::server::Server;
use crate::world::{World, ended, fixtures, scripts_run, test_tools};

/// What a client saw that did everything; it and the server are started in `world`.
fn seen_by(world: &World, sdk: &str, mode: &str, target: &[&str]) -> Option<Value> {
    let node = installed("node_modules/node/bin/node")?;
    installed("node_modules/@modelcontextprotocol/client")?;
    let mut command = Command::new(node);
    command.arg(fixtures().join("typescript_client.mjs")).args([sdk, mode]).args(target);
    world.surround(&mut command);
    command.env("TEST_TOOLS", test_tools().canonicalize().unwrap());
    let seen = ended(command).code(0);
    Some(serde_json::from_str(seen.stdout.lines().last().unwrap()).unwrap())
}

fn is_all_there(world: &World, seen: &Value, what: &str) {
    let text = |name: &str| seen[name]["text"].as_str().unwrap_or_else(|| panic!("{seen:#}"));
    assert!(seen["tools"].as_array().unwrap().contains(&json!("t__note")), "{what}: {seen:#}");
    assert!(text("script").starts_with("ok · 500 calls, 0 failed"), "{what}: {seen:#}");
    assert!(text("script").ends_with("\n125250"), "{what}: {seen:#}");
    let whole = seen["progress"].as_array().unwrap().iter().any(|told| told[0] == 500.0);
    assert!(whole, "{what}: {seen:#}");
    for (call, start) in [
        ("once", "noted"),
        ("decline", "denied: "),
        ("cancel", "approval needed: "),
        ("session", "noted"),
        ("again", "noted"),
    ] {
        assert!(text(call).starts_with(start), "{what}, {call}: {seen:#}");
    }
    assert_eq!(seen["asked"].as_array().unwrap().len(), 4, "{what}: {seen:#}");
    assert_eq!(seen["structured"]["structured"], json!({"sum": 5}), "{what}: {seen:#}");
    let refused = seen["unknown"]["raised"].as_str().unwrap_or_else(|| panic!("{seen:#}"));
    assert!(refused.contains("t__echo"), "{what}: {refused}");
    assert_eq!(seen["cancelled"], "cancelled", "{what}: {seen:#}");
    assert_eq!(text("afterwards"), "still here", "{what}");
    assert_eq!(world.calls().iter().filter(|call| call.starts_with("note")).count(), 3, "{what}");
}

#[test]
fn the_typescript_sdk_of_both_generations_in_both_eras_and_ways() {
    if !scripts_run() {
        return;
    }
    for (sdk, mode) in [("v1", "legacy"), ("v2", "legacy"), ("v2", "auto")] {
        for http in [false, true] {
            let world = World::new("");
            let server = http.then(|| Server::start(&world, &[]));
            let url = server.as_ref().map(|server| server.url("/mcp"));
            let seen = match &url {
                Some(url) => seen_by(&world, sdk, mode, &[url]),
                None => seen_by(&world, sdk, mode, &[env!("CARGO_BIN_EXE_pinfold"), "mcp"]),
            };
            let Some(seen) = seen else { return };
            let what = format!("{sdk}, {mode}, http: {http}");
            is_all_there(&world, &seen, &what);
            if sdk == "v2" {
                let spoken = if mode == "legacy" { "2025-11-25" } else { "2026-07-28" };
                assert_eq!(seen["version"], spoken, "{what}: {seen:#}");
            }
        }
    }
}

#[test]
fn a_typescript_client_whose_line_breaks_in_every_answer_gets_them_all() {
    if !scripts_run() {
        return;
    }
    for sdk in ["v1", "v2"] {
        let world = World::new("");
        let server = Server::start(&world, &[]);
        let (address, cut) = cutting::open(server.address);
        let url = format!("http://{address}/mcp");
        let Some(seen) = seen_by(&world, sdk, "legacy", &[&url]) else { return };
        is_all_there(&world, &seen, sdk);
        // At least the four that a person was asked about.
        assert!(cut.lock().unwrap().len() >= 4, "{cut:?}");
    }
}

#[test]
fn a_python_client_whose_line_breaks_in_every_answer_gets_them_all() {
    if !scripts_run() {
        return;
    }
    let Some(python) = installed("venv/bin/python") else { return };
    let world = World::new("");
    let server = Server::start(&world, &[]);
    let (address, cut) = cutting::open(server.address);
    let mut command = Command::new(&python);
    command.arg(fixtures().join("fastmcp_client.py")).arg("legacy");
    command.arg(format!("http://{address}/mcp"));
    world.surround(&mut command);
    let seen = ended(command).code(0);
    let seen: Value = serde_json::from_str(seen.stdout.lines().last().unwrap()).unwrap();
    for (call, start) in
        [("script", "ok · 500 calls, 0 failed"), ("once", "noted"), ("again", "noted")]
    {
        assert!(seen[call]["text"].as_str().unwrap().starts_with(start), "{call}: {seen:#}");
    }
    assert!(cut.lock().unwrap().len() >= 4, "{cut:?}");
}

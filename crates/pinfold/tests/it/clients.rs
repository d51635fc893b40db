//! `pinfold mcp` and clients that nobody here wrote.

use std::process::Command;

use serde_json::{Value, json};

use crate::foreign::installed;
use crate::server::Server;
use crate::world::{World, ended, fixtures, scripts_run};

#[test]
fn fastmcp_in_both_eras_and_ways() {
    if !scripts_run() {
        return;
    }
    let Some(python) = installed("venv/bin/python") else { return };
    for (mode, http) in
        [("legacy", false), ("2026-07-28", false), ("legacy", true), ("2026-07-28", true)]
    {
        let world = World::new("");
        let mut command = Command::new(&python);
        command.arg(fixtures().join("fastmcp_client.py")).arg(mode);
        let server = http.then(|| Server::start(&world, &[]));
        match &server {
            Some(server) => command.arg(server.url("/mcp")),
            None => command.arg(env!("CARGO_BIN_EXE_pinfold")).arg("mcp"),
        };
        world.surround(&mut command);
        let seen = ended(command).code(0);
        let seen: Value = serde_json::from_str(seen.stdout.lines().last().unwrap()).unwrap();
        let text = |name: &str| seen[name]["text"].as_str().unwrap().to_owned();
        assert!(seen["tools"].as_array().unwrap().contains(&json!("t__note")), "{mode}: {seen:#}");
        assert_eq!(seen["meta"]["anthropic/alwaysLoad"], true, "{mode}: {seen:#}");
        assert!(text("script").starts_with("ok · 500 calls, 0 failed"), "{mode}: {seen:#}");
        assert!(text("script").ends_with("\n125250"), "{mode}: {seen:#}");
        let whole = seen["progress"].as_array().unwrap().iter().any(|told| told[0] == 500.0);
        assert!(whole, "{mode}: {seen:#}");
        for (call, start) in [
            ("once", "noted"),
            ("decline", "denied: "),
            ("cancel", "approval needed: "),
            ("session", "noted"),
            ("again", "noted"),
        ] {
            assert!(text(call).starts_with(start), "{mode}, {call}: {seen:#}");
        }
        assert_eq!(seen["asked"].as_array().unwrap().len(), 4, "{mode}: {seen:#}");
        assert_eq!(seen["structured"]["structured"], json!({"sum": 5}), "{mode}: {seen:#}");
        let refused = seen["unknown"]["raised"].as_str().unwrap();
        assert!(refused.contains("t__echo"), "{mode}: {refused}");
        assert_eq!(world.calls().iter().filter(|call| call.starts_with("note")).count(), 3);
    }
}

#[test]
fn the_python_sdk_in_both_eras() {
    if !scripts_run() {
        return;
    }
    let Some(python) = installed("venv/bin/python") else { return };
    for mode in ["legacy", "auto"] {
        let world = World::new("");
        let mut command = Command::new(&python);
        command.arg(fixtures().join("sdk_client.py")).arg(mode);
        command.arg(env!("CARGO_BIN_EXE_pinfold")).arg("mcp");
        world.surround(&mut command);
        let seen = ended(command).code(0);
        let seen: Value = serde_json::from_str(seen.stdout.lines().last().unwrap()).unwrap();
        let spoken = if mode == "legacy" { "2025-11-25" } else { "2026-07-28" };
        assert_eq!(seen["version"], spoken, "{seen:#}");
        assert_eq!(seen["instructions"], true, "{seen:#}");
        assert!(seen["script"].as_str().unwrap().starts_with("ok · 3 calls, 0 failed"), "{seen:#}");
        assert_eq!(seen["note"], "noted", "{seen:#}");
        assert_eq!(world.calls().last().unwrap(), r#"note {"text":"x"}"#);
    }
}

#[test]
fn the_inspector_lists_and_calls() {
    let Some(node) = installed("node_modules/.bin/node") else { return };
    let Some(inspector) = installed("node_modules/.bin/mcp-inspector") else { return };
    let world = World::new("");
    let servers = json!({"mcpServers": {"pinfold": {"type": "stdio",
        "command": env!("CARGO_BIN_EXE_pinfold"),
        "args": ["mcp", "--config", world.path("pinfold.toml")]}}});
    world.write("servers.json", &servers.to_string());
    let run = |from: &[&str], more: &[&str]| {
        let mut command = Command::new(&node);
        command.arg(&inspector).arg("--cli").args(from).args(more);
        world.surround(&mut command);
        command.env("MCP_INSPECTOR_SECRET_STORE", "memory");
        let ended = ended(command);
        let result: Option<Value> = serde_json::from_str(&ended.stdout).ok();
        result.unwrap_or_else(|| panic!("{ended:#?}"))
    };
    let server = Server::start(&world, &[]);
    let url = server.url("/mcp");
    for from in
        [&["--config", "servers.json", "--server", "pinfold"][..], &[&url, "--transport", "http"]]
    {
        let listed = run(from, &["--method", "tools/list"]);
        let tools = listed["tools"].as_array().unwrap().iter();
        let names: Vec<&str> = tools.filter_map(|tool| tool["name"].as_str()).collect();
        assert!(names.contains(&"t__add") && names.is_sorted(), "{from:?}: {names:?}");
        let call = ["--method", "tools/call", "--tool-name", "t__add", "--tool-arg", "a=2", "b=3"];
        assert_eq!(run(from, &call)["structuredContent"], json!({"sum": 5}), "{from:?}");
    }
}

//! Every example of `docs/api.md`, run as it stands there.

use std::path::Path;

use serde_json::json;

use crate::api::{approval, get, key, started};
use crate::http::call;
use crate::world::{World, ended, scripts_run, skipped};

/// The commands of the fenced blocks, with continued lines joined.
fn examples() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let lines = blocks.map(|block| block.replace("\\\n", " "));
    lines.flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn every_example_of_the_documentation_works() {
    if !scripts_run() {
        return;
    }
    if std::process::Command::new("curl").arg("--version").output().is_err() {
        skipped("curl is not installed");
        return;
    }
    let world = World::new("");
    let server = started(&world, &[]);
    call(&server, &[], "run_script", json!({"code": "print(1)", "description": "prints"}));
    let asked = approval(&call(&server, &[], "t__note", json!({"text": "x"})));
    let key = key(&world);
    let session = get(&server, &key, "/api/sessions").json()["sessions"][0]["id"].clone();
    let script = world.records().pop().unwrap();
    let examples = examples();
    for route in [
        "/api/approvals\"",
        "/api/approvals/$",
        "-d '{\"decision\"",
        "/api/sessions\"",
        "/events?",
        "/api/scripts/$",
        "/api/audit?",
        "format=jsonl",
        "/api/tools",
        "/healthz",
    ] {
        assert!(examples.iter().any(|example| example.contains(route)), "no example of {route}");
    }
    for example in examples {
        // A stream has no end of its own.
        let streams = example.contains("/events");
        let line = if streams { example.replace("curl ", "curl --max-time 3 ") } else { example };
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &line]);
        world.surround(&mut command);
        command
            .env("URL", server.url(""))
            .env("KEY", key.rsplit(' ').next().unwrap())
            .env("APPROVAL", &asked)
            .env("SESSION", session.as_str().unwrap())
            .env("SCRIPT", script.file_name().unwrap())
            .env("NO_PROXY", "127.0.0.1");
        let ended = ended(command);
        if streams {
            assert!(ended.stdout.contains("event: tool.finished"), "{line}: {ended:#?}");
        } else {
            let ended = ended.code(0);
            assert!(!ended.stdout.is_empty(), "{line}: {ended:#?}");
        }
    }
}

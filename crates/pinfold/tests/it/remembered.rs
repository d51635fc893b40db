//! The tools that a server had last are listed before it is there; nothing is called by them.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::client::{Client, text};
use crate::world::{World, ended, until};

/// Says nothing until the file `go` is there; dies at once where `die` is.
const LATE: &str = "[servers.late]\ncommand = 'python3'\n\
    args = ['FIXTURES/server.py', '--calls', 'HERE/calls', '--define', 'HERE/tools.json', \
    '--until', 'HERE/go', '--die-if', 'HERE/die']\n";

fn tools(reads: bool, names: &[&str]) -> String {
    let tools: Vec<Value> = names
        .iter()
        .map(|name| {
            json!({
                "name": name,
                "inputSchema": {"type": "object", "properties": {"id": {"type": "integer"}}},
                "annotations": {"readOnlyHint": reads, "destructiveHint": false},
            })
        })
        .collect();
    json!(tools).to_string()
}

/// A world in which the server's tools are kept, and which holds it up from now on.
fn kept(names: &[&str]) -> World {
    let world = World::with(LATE);
    world.write("tools.json", &tools(true, names));
    world.write("go", "");
    ended(world.pinfold(&["tools"])).code(0).prints("late__one");
    until("the tools to be kept", || files(&world).pop());
    std::fs::remove_file(world.path("go")).unwrap();
    world
}

fn files(world: &World) -> Vec<PathBuf> {
    let folder = std::fs::read_dir(world.path("data/tools"));
    let paths = folder.into_iter().flatten().flatten().map(|entry| entry.path());
    paths.filter(|path| path.extension().is_some_and(|end| end == "json")).collect()
}

#[test]
fn what_a_server_had_last_is_listed_at_once_and_called_when_it_is_there() {
    let world = kept(&["one", "two"]);
    let mut client = Client::start(&world, &[]);
    let listed = client.ask("tools/list", json!({}));
    assert!(listed["tools"].to_string().contains("late__two"), "{listed:#}");
    assert_eq!(listed["ttlMs"], 0, "what is only remembered must not be kept");
    let call = client.begin("tools/call", json!({"name": "late__one", "arguments": {"id": 7}}));
    world.write("go", "");
    let result = client.result(call);
    assert_eq!(result["structuredContent"]["was"]["id"], 7, "{result:#}");
    assert_eq!(world.calls(), [r#"one {"id":7}"#]);
    until("the list to be confirmed", || {
        (client.ask("tools/list", json!({}))["ttlMs"] != 0).then_some(())
    });
}

#[test]
fn a_call_of_a_remembered_tool_is_decided_on_what_the_tool_is_now() {
    let world = kept(&["one", "two"]);
    // It was one that reads and became one that writes; and another is gone.
    world.write("tools.json", &tools(false, &["one", "three"]));
    let mut client = Client::start(&world, &[]);
    assert!(client.tools().contains(&"late__two".to_owned()));
    let params = |name: &str| json!({"name": name, "arguments": {"id": 1}});
    let write = client.begin_as("tools/call", params("late__one"), &json!({}));
    let gone = client.begin_as("tools/call", params("late__two"), &json!({}));
    world.write("go", "");
    let write = client.result(write);
    assert!(text(&write).starts_with("approval needed: late__one"), "{write:#}");
    let gone = client.wait("an answer", |message| message["id"] == gone);
    assert_eq!(gone["error"]["code"], -32602, "{gone:#}");
    assert!(world.calls().is_empty());
    // The new list is announced and kept.
    until("the new list", || client.tools().contains(&"late__three".to_owned()).then_some(()));
}

#[test]
fn neither_an_empty_list_nor_a_failed_start_forgets_what_was_kept() {
    let world = kept(&["one"]);
    world.write("tools.json", "[]");
    world.write("go", "");
    let none = ended(world.pinfold(&["tools"])).code(0);
    assert!(!none.stdout.contains("late__one"), "the server has none now: {none:#?}");
    world.write("die", "");
    ended(world.pinfold(&["tools"]))
        .code(0)
        .prints("late__one")
        .says("; its tools are those of the last time");
    let json = ended(world.pinfold(&["tools", "--json"])).code(0);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    let one = json["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "late__one");
    assert_eq!(one.unwrap()["is_remembered"], true, "{json:#}");
    let mut client = Client::start(&world, &[]);
    let failed = client.call("late__one", &json!({"id": 1}));
    assert_eq!(failed["isError"], true);
    assert!(text(&failed).contains("its server \"late\" is down"), "{failed:#}");
}

#[test]
fn what_was_kept_is_not_used_for_another_configuration_or_if_it_was_tampered_with() {
    let world = kept(&["one"]);
    world.write("die", "");
    let path = files(&world).pop().unwrap();
    let good = std::fs::read(&path).unwrap();
    std::fs::write(&path, &good[..good.len() / 2]).unwrap();
    let broken = ended(world.pinfold(&["tools"])).code(0);
    assert!(!broken.stdout.contains("late__one"), "{broken:#?}");
    std::fs::write(&path, &good).unwrap();
    ended(world.pinfold(&["tools"])).code(0).prints("late__one");
    world.write("pinfold.toml", &LATE.replace("'--until'", "'--late', '0', '--until'"));
    let other = ended(world.pinfold(&["tools"])).code(0);
    assert!(!other.stdout.contains("late__one"), "{other:#?}");
}

#[test]
fn what_of_a_servers_list_cannot_be_used_is_told() {
    let world = World::with(LATE);
    let one: Vec<Value> = serde_json::from_str(&tools(true, &["one"])).unwrap();
    let broken = json!({"name": "bro\u{1b}[2Jken", "inputSchema": {"type": "object"}});
    let bare = json!({"name": "bare"});
    world.write("tools.json", &json!([one[0], one[0], broken, bare]).to_string());
    world.write("go", "");
    let told = ended(world.pinfold(&["tools"]))
        .code(0)
        .prints("late__one")
        .says("left out: server late: tool `one`: it stands there twice")
        .says("left out: server late: tool `bare`: it has no inputSchema")
        .says("left out: server late: a tool whose name is not");
    assert!(!told.stderr.contains('\u{1b}'), "{told:#?}");
    let json = ended(world.pinfold(&["tools", "--json"])).code(0);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["left_out"].as_array().unwrap().len(), 3, "{json:#}");
    assert_eq!(json["left_out"][0]["server"], "late");
    until("the tools to be kept", || files(&world).pop());
    // What the doctor says of the host is none of this test's business.
    let doctor = ended(world.pinfold(&["doctor"]));
    assert!(
        doctor.stdout.contains("left out, when late was last asked: tool `bare`"),
        "{doctor:#?}"
    );
}

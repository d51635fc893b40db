//! The client side: the suites' servers, behind `pinfold mcp`, and a client that does what each
//! scenario wants of it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Map, Value, json};

use super::{NEWER_OF_2025, OF_2025, OF_2026, Suite, entries};
use crate::client::Client;
use crate::world::{World, until};

/// So many scenarios at once: some of them measure time.
const AT_ONCE: usize = 2;

/// Runs a suite with this very program as its client; exactly what is listed has to fail.
fn uses(suite: Suite, list: &str) {
    let program = std::env::current_exe().unwrap();
    let command = format!(
        "{} conformance::client::as_the_client_of_a_suite --exact --ignored --nocapture",
        program.display()
    );
    let Some(all) = suite.run(&["list", "--client"]) else { return };
    let scenario = |line: &str| Some(line.trim().strip_prefix("- ")?.split(' ').next()?.to_owned());
    let scenarios: Vec<String> = all.code(0).stdout.lines().filter_map(scenario).collect();
    assert!(scenarios.len() > 10, "{scenarios:?}");
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|threads| {
        for _ in 0..AT_ONCE {
            threads.spawn(|| {
                while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let options = ["--scenario", scenario, "--command", &command];
                    let timeout = ["--timeout", "60000"];
                    let ended = suite.run(&[&["client"], &options[..], &timeout].concat()).unwrap();
                    if ended.code != Some(0) {
                        failed.lock().unwrap().insert(scenario.clone(), ended.stdout);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    let listed = entries(list);
    let unexpected = failed.iter().filter(|(name, _)| !listed.contains(*name));
    let unexpected: Vec<String> =
        unexpected.map(|(name, said)| format!("{name}: {said}")).collect();
    assert!(unexpected.is_empty(), "{}", unexpected.join("\n"));
    let passed: Vec<&String> = listed.iter().filter(|name| !failed.contains_key(*name)).collect();
    assert!(passed.is_empty(), "take what passes out of {list}.yml: {passed:?}");
}

#[test]
fn servers_of_2025() {
    uses(OF_2025, "client-2025");
}

#[test]
fn servers_of_2025_in_the_newer_suite() {
    uses(NEWER_OF_2025, "client-2025");
}

#[test]
fn servers_of_2026() {
    uses(OF_2026, "client-2026");
}

/// Connects to the server at the last argument, and calls every tool that comes of it.
#[test]
#[ignore = "is started by the suites, with the address of a server"]
fn as_the_client_of_a_suite() {
    let url = std::env::args().next_back().filter(|last| last.starts_with("http://")).unwrap();
    let world = World::with(&format!(
        "[servers.suite]\nurl = {url:?}\n\
         [profiles.default]\nservers = ['suite']\npermission_mode = 'auto'\n"
    ));
    let mut client = Client::start(&world, &[]);
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    // Some offer nothing, so only this shows when the server is there: the call waits for it.
    let id = client.begin("tools/call", json!({"name": "suite__none", "arguments": {}}));
    client.wait("a refusal", |message| message["id"] == id);
    let offers_nothing = scenario.starts_with("auth/")
        || ["initialize", "request-metadata"].contains(&scenario.as_str());
    let tools = until("the tools of the suite's server", || {
        let tools = client.ask("tools/list", json!({}))["tools"].take();
        let tools: Vec<Value> = tools.as_array()?.iter().filter_map(theirs).collect();
        (offers_nothing || !tools.is_empty()).then_some(tools)
    });
    if scenario.starts_with("auth/") {
        assert!(!tools.is_empty(), "it did not come in");
    }
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    let context: Value = serde_json::from_str(&context).unwrap_or_default();
    let wanted = context["toolCalls"].as_array().cloned().unwrap_or_default();
    for tool in &tools {
        let given = wanted.iter().find(|call| call["name"] == tool["name"]);
        let arguments = match given {
            Some(call) => call["arguments"].clone(),
            None if tool["name"] == "json_schema_echo" => {
                let focal = tools.iter().find(|one| one["name"] == "json_schema_2020_12_tool");
                json!({"schema": focal.unwrap()["inputSchema"]})
            }
            None => arguments(&tool["inputSchema"]),
        };
        call(&mut client, &format!("suite__{}", tool["name"].as_str().unwrap()), &arguments);
    }
    client.close();
}

/// A tool of the suite's, under its own name.
fn theirs(tool: &Value) -> Option<Value> {
    let mut tool = tool.clone();
    tool["name"] = tool["name"].as_str()?.strip_prefix("suite__")?.into();
    Some(tool)
}

/// Calls a tool and says yes to whatever it asks.
fn call(client: &mut Client, name: &str, arguments: &Value) {
    let mut params = json!({"name": name, "arguments": arguments});
    for _ in 0..4 {
        let id = client.begin("tools/call", params.clone());
        let answer = client.wait("an answer", |message| message["id"] == id);
        eprintln!("{name}: {answer}");
        let result = &answer["result"];
        if result["resultType"] != "input_required" {
            return;
        }
        let requests = result["inputRequests"].as_object().unwrap();
        let responses: Map<String, Value> =
            requests.iter().map(|(key, request)| (key.clone(), accepted(request))).collect();
        params["inputResponses"] = Value::Object(responses);
        params["requestState"] = result["requestState"].clone();
    }
    panic!("{name} asks again and again");
}

/// What a person gives who changes nothing of what a form suggests.
fn accepted(request: &Value) -> Value {
    let properties = request["params"]["requestedSchema"]["properties"].as_object();
    let content: Map<String, Value> = properties
        .into_iter()
        .flatten()
        .map(|(name, schema)| {
            let default = schema.get("default").cloned();
            (name.clone(), default.unwrap_or_else(|| value(schema)))
        })
        .collect();
    json!({"action": "accept", "content": content})
}

/// Arguments that fit a plain schema.
fn arguments(schema: &Value) -> Value {
    let properties = schema["properties"].as_object();
    let values: Map<String, Value> = properties
        .into_iter()
        .flatten()
        .map(|(name, schema)| (name.clone(), value(schema)))
        .collect();
    Value::Object(values)
}

fn value(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("number" | "integer") => json!(5),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("phone"),
    }
}

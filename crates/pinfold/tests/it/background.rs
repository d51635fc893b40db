//! Long calls through the built binary: that they go on in the background, and what clients of
//! either era get of them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::client::{Client, text};
use crate::foreign::installed;
use crate::server::Server;
use crate::world::{World, ended, finish, fixtures, scripts_run, skipped, start, until};

/// A long call goes on after a second.
const SOON: &str = "[background_calls]\nauto_after_sec = 1\n";

/// The id in "still running".
fn id_of(still_running: &str) -> String {
    assert!(still_running.starts_with("still running: "), "{still_running}");
    let id = still_running.split("with the id ").nth(1).and_then(|rest| rest.split('.').next());
    id.unwrap_or_else(|| panic!("no id: {still_running}")).to_owned()
}

fn script(code: &str) -> Value {
    let code = format!("from agent_tools import call, progress\nimport time\n{code}\n");
    json!({"code": code, "description": "takes long"})
}

/// The result, however often it has to be asked for.
fn fetch(client: &mut Client, id: &str) -> Value {
    until("the result is there", || {
        let result = client.call_mutely("background_result", &json!({"id": id}));
        (!text(&result).starts_with("still running: ")).then_some(result)
    })
}

#[test]
fn the_result_of_a_long_script_is_fetched_from_the_background() {
    if !scripts_run() {
        return;
    }
    let world = World::new(SOON);
    let mut client = Client::start(&world, &[]);
    let tools = client.tools();
    for name in ["background_cancel", "background_list", "background_result"] {
        assert!(tools.contains(&name.to_owned()), "{tools:?}");
    }
    let code =
        "for n in range(4):\n    progress(n, 4, 'step')\n    time.sleep(1)\nprint('all done')";
    let answer = client.call_mutely("run_script", &script(code));
    assert_eq!(answer["isError"], false, "{answer:#}");
    let said = text(&answer);
    assert!(said.contains("run_script \"takes long\" has taken"), "{said}");
    assert!(said.contains("background_result {\"id\":"), "{said}");
    let id = id_of(said);
    let list = client.call_mutely("background_list", &json!({}));
    assert!(
        text(&list).contains(&format!("{id} · run_script \"takes long\" · running")),
        "{list:#}"
    );
    let result = fetch(&mut client, &id);
    assert!(text(&result).starts_with("ok · 0 calls"), "{result:#}");
    assert!(text(&result).ends_with("\nall done"), "{result:#}");
    // The command line is not meant.
    let ran = world.run("import time\ntime.sleep(2)\nprint('here')\n", &[]);
    ran.code(0).prints("here");
}

#[test]
fn hanging_up_ends_a_call_before_and_only_detaches_after_it_was_said() {
    let world = World::new("[background_calls]\nauto_after_sec = 3\n");
    let server = Server::start(&world, &[]);
    let post = |seconds: f64| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "t__sleep", "arguments": {"seconds": seconds}, "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {}}}});
        let body = body.to_string();
        let address = server.url("").trim_start_matches("http://").to_owned();
        let mut stream = TcpStream::connect(&address).unwrap();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
             Mcp-Method: tools/call\r\nMcp-Name: t__sleep\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    let stream = post(50.0);
    until("it was called", || (world.calls().len() == 1).then_some(()));
    drop(stream);
    until("the server was told", || {
        let told = std::fs::read_to_string(world.path("cancelled")).unwrap_or_default();
        (told.lines().count() == 1).then_some(())
    });

    let mut stream = post(6.0);
    let mut seen = String::new();
    let mut piece = [0; 4096];
    while !seen.contains("still running: ") {
        let read = stream.read(&mut piece).unwrap();
        assert!(read > 0, "{seen}");
        seen.push_str(&String::from_utf8_lossy(&piece[..read]));
    }
    drop(stream);
    let id = seen.split("with the id ").nth(1).unwrap().split('.').next().unwrap().to_owned();
    let result = until("the result is there", || {
        let result = ask(&server, "background_result", &json!({"id": id}));
        (!text(&result).starts_with("still running: ")).then_some(result)
    });
    assert_eq!(text(&result), "slept");
    let told = std::fs::read_to_string(world.path("cancelled")).unwrap_or_default();
    assert_eq!(told.lines().count(), 1);
}

/// A call over HTTP in 2026-07-28, from a client that can do nothing more.
fn ask(server: &Server, tool: &str, arguments: &Value) -> Value {
    modern(server, "tools/call", tool, json!({"name": tool, "arguments": arguments}), json!({}))
        ["result"]
        .clone()
}

fn modern(server: &Server, method: &str, name: &str, params: Value, capabilities: Value) -> Value {
    let mut params = params;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    let (shown, name) = (format!("Mcp-Method: {method}"), format!("Mcp-Name: {name}"));
    let headers = [
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        "MCP-Protocol-Version: 2026-07-28",
        &shown,
        &name,
    ];
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    server.send("POST", "/mcp", &headers, &body.to_string()).json()
}

#[test]
fn cancelling_kills_the_script_and_reaches_the_server_behind() {
    if !scripts_run() {
        return;
    }
    let world = World::new(SOON);
    let mut client = Client::start(&world, &[]);
    client.tools();
    let answer = client.call_mutely("run_script", &script("call('t__sleep', {'seconds': 50})"));
    let id = id_of(text(&answer));
    until("the script called", || (world.calls().len() == 1).then_some(()));
    let said = client.call_mutely("background_cancel", &json!({"id": id}));
    assert!(text(&said).contains("· cancelled after"), "{said:#}");
    let result = fetch(&mut client, &id);
    assert_eq!(result["isError"], true, "{result:#}");
    assert!(text(&result).starts_with("cancelled"), "{result:#}");
    until("the server was told", || {
        let told = std::fs::read_to_string(world.path("cancelled")).unwrap_or_default();
        (told.lines().count() == 1).then_some(())
    });
    assert_eq!(world.call_lines().pop().unwrap()["ok"], false);
}

#[test]
fn two_sessions_do_not_see_each_others_calls() {
    let world = World::new(SOON);
    let mut mine = Client::start(&world, &["--session", "mine"]);
    let mut yours = Client::start(&world, &["--session", "yours"]);
    mine.tools();
    yours.tools();
    let id = id_of(text(&mine.call_mutely("t__sleep", &json!({"seconds": 8}))));
    for tool in ["background_result", "background_cancel"] {
        let answer = yours.call_mutely(tool, &json!({"id": id}));
        assert!(text(&answer).starts_with("there is no call"), "{answer:#}");
    }
    let list = yours.call_mutely("background_list", &json!({}));
    assert_eq!(text(&list), "no call of this session went on in the background");
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
        let number = yours.begin_as(method, json!({"taskId": id, "inputResponses": {}}), &tasks);
        let answer = yours.wait("an answer", |message| message["id"] == number);
        assert_eq!(answer["error"]["code"], -32602, "{method}: {answer:#}");
    }
    assert_eq!(text(&fetch(&mut mine, &id)), "slept");
}

#[test]
fn a_call_whose_process_was_killed_is_interrupted() {
    let world = World::new(SOON);
    let mut server = Server::start(&world, &[]);
    let answer = ask(&server, "t__sleep", &json!({"seconds": 50}));
    let id = id_of(text(&answer));
    // As kill -9 does it.
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    drop(server);
    let server = Server::start(&world, &[]);
    let result = ask(&server, "background_result", &json!({"id": id}));
    assert_eq!(result["isError"], true, "{result:#}");
    assert!(text(&result).starts_with("interrupted: pinfold ended while t__sleep"), "{result:#}");
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let task = modern(&server, "tasks/get", &id, json!({"taskId": id}), tasks)["result"].clone();
    assert_eq!(task["status"], "failed", "{task:#}");
    assert_eq!(task["error"]["code"], -32603, "{task:#}");
}

#[test]
fn a_client_that_knows_tasks_gets_one_and_another_one_does_not() {
    let world = World::new(SOON);
    let server = Server::start(&world, &[]);
    let tasks = || json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let discovered = modern(&server, "server/discover", "", json!({}), json!({}));
    let capabilities = &discovered["result"]["capabilities"];
    assert_eq!(capabilities["extensions"]["io.modelcontextprotocol/tasks"], json!({}));
    let params = json!({"name": "t__sleep", "arguments": {"seconds": 3}});
    let created = modern(&server, "tools/call", "t__sleep", params, tasks())["result"].clone();
    assert_eq!(created["resultType"], "task", "{created:#}");
    assert_eq!(created["status"], "working", "{created:#}");
    let id = created["taskId"].as_str().unwrap();
    let get = |capabilities: Value, name: &str| {
        modern(&server, "tasks/get", name, json!({"taskId": id}), capabilities)
    };
    assert_eq!(get(json!({}), id)["error"]["code"], -32021);
    assert_eq!(get(tasks(), "another")["error"]["code"], -32020);
    let required = &get(json!({}), id)["error"]["data"]["requiredCapabilities"]["extensions"];
    assert_eq!(required["io.modelcontextprotocol/tasks"], json!({}));
    let done = until("it is over", || {
        let task = get(tasks(), id)["result"].clone();
        assert_eq!(task["resultType"], "complete", "{task:#}");
        (task["status"] != "working").then_some(task)
    });
    assert_eq!(done["status"], "completed", "{done:#}");
    assert_eq!(done["result"]["content"][0]["text"], "slept");
    let unknown = modern(&server, "tasks/get", "x", json!({"taskId": "x"}), tasks());
    assert_eq!(unknown["error"]["code"], -32602, "{unknown:#}");
    let legacy = modern(&server, "tasks/list", "", json!({}), tasks());
    assert_eq!(legacy["error"]["code"], -32601, "{legacy:#}");
}

#[test]
fn a_listening_client_is_told_of_the_end_of_a_task() {
    let world = World::new(SOON);
    let mut client = Client::start(&world, &[]);
    client.tools();
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let params = json!({"name": "t__sleep", "arguments": {"seconds": 4}});
    let call = client.begin_as("tools/call", params, &tasks);
    let id = client.result(call)["taskId"].as_str().unwrap().to_owned();
    let listen = json!({"notifications": {"taskIds": [id, "another"]}});
    let refused = client.begin_as("subscriptions/listen", listen.clone(), &json!({}));
    let refused = client.wait("a refusal", |message| message["id"] == refused);
    assert_eq!(refused["error"]["code"], -32021, "{refused:#}");
    let listening = client.begin_as("subscriptions/listen", listen, &tasks);
    let agreed = client.wait("an agreement", |message| {
        message["method"] == "notifications/subscriptions/acknowledged"
    });
    assert_eq!(agreed["params"]["notifications"], json!({"taskIds": [id]}));
    let told = client.wait("its end", |message| message["method"] == "notifications/tasks");
    assert_eq!(told["params"]["taskId"], json!(id), "{told:#}");
    assert_eq!(told["params"]["status"], "completed", "{told:#}");
    assert_eq!(told["params"]["result"]["content"][0]["text"], "slept", "{told:#}");
    let meta = &told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    assert_eq!(*meta, json!(listening), "{told:#}");
}

#[test]
fn an_older_client_makes_tasks_of_its_own() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    let mut client = Client::start(&world, &[]);
    client.send(&json!({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "old", "version": "1"}}}));
    let agreed = client.wait("initialize", |message| message["id"] == "i");
    let offered = &agreed["result"]["capabilities"]["tasks"];
    assert_eq!(*offered, json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}));
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let mut next = 0;
    let mut ask = |client: &mut Client, method: &str, params: Value| {
        next += 1;
        client.send(&json!({"jsonrpc": "2.0", "id": next, "method": method, "params": params}));
        next
    };
    let answer = |client: &mut Client, id: u64| client.wait("an answer", |one| one["id"] == id);

    let number = ask(&mut client, "tools/list", json!({}));
    let listed = answer(&mut client, number);
    let tools = listed["result"]["tools"].as_array().unwrap();
    let run_script = tools.iter().find(|tool| tool["name"] == "run_script").unwrap();
    assert_eq!(run_script["execution"]["taskSupport"], "optional");

    let call = |code: &str| json!({"name": "run_script", "task": {"ttl": 60_000}, "arguments": script(code)});
    let number = ask(&mut client, "tools/call", call("time.sleep(2)\nprint('later')"));
    let task = answer(&mut client, number)["result"]["task"].clone();
    assert_eq!(task["status"], "working", "{task:#}");
    assert!(task["ttl"].as_u64().is_some() && task["createdAt"].is_string(), "{task:#}");
    let id = task["taskId"].clone();
    let number = ask(&mut client, "tasks/result", json!({"taskId": id}));
    let result = answer(&mut client, number)["result"].clone();
    assert!(text(&result).ends_with("\nlater"), "{result:#}");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/related-task"], json!({"taskId": id}));
    let told = client.wait("its end", |one| one["method"] == "notifications/tasks/status");
    assert_eq!((&told["params"]["taskId"], &told["params"]["status"]), (&id, &json!("completed")));

    // An error of the tool's is a failed task in this era; a call that needs no time is one, too.
    let number = ask(&mut client, "tools/call", call("raise SystemExit(3)"));
    let id = answer(&mut client, number)["result"]["task"]["taskId"].clone();
    let number = ask(&mut client, "tasks/result", json!({"taskId": id}));
    assert_eq!(answer(&mut client, number)["result"]["isError"], true);
    let number = ask(&mut client, "tasks/get", json!({"taskId": id}));
    assert_eq!(answer(&mut client, number)["result"]["status"], "failed");
    let number = ask(&mut client, "tools/call", call("not Python"));
    let kept = answer(&mut client, number)["result"]["task"]["taskId"].clone();
    let number = ask(&mut client, "tasks/result", json!({"taskId": kept}));
    assert_eq!(answer(&mut client, number)["result"]["isError"], true);

    let number = ask(&mut client, "tools/call", call("time.sleep(50)"));
    let id = answer(&mut client, number)["result"]["task"]["taskId"].clone();
    let number = ask(&mut client, "tasks/cancel", json!({"taskId": id}));
    assert_eq!(answer(&mut client, number)["result"]["status"], "cancelled");
    let number = ask(&mut client, "tasks/cancel", json!({"taskId": id}));
    assert_eq!(answer(&mut client, number)["error"]["code"], -32602);
    let number = ask(&mut client, "tasks/list", json!({}));
    let listed = answer(&mut client, number)["result"]["tasks"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 4, "{listed:#}");
    for (method, params) in [
        ("tasks/get", json!({"taskId": "00000000-0000-7000-8000-000000000000"})),
        ("tasks/get", json!({})),
        ("tasks/list", json!({"cursor": "x"})),
    ] {
        let number = ask(&mut client, method, params);
        assert_eq!(answer(&mut client, number)["error"]["code"], -32602);
    }
    // Not every tool can be one, and what is asked about is asked about first.
    let params = json!({"name": "t__echo", "task": {}, "arguments": {"text": "x"}});
    let number = ask(&mut client, "tools/call", params);
    assert_eq!(answer(&mut client, number)["error"]["code"], -32601);
    let code = "print(call('t__note', {'text': 'x'}))";
    let mut arguments = script(code);
    arguments["tools"] = json!(["t__note"]);
    let params = json!({"name": "run_script", "task": {}, "arguments": arguments});
    let number = ask(&mut client, "tools/call", params);
    let asked = client.wait("a question", |one| one["method"] == "elicitation/create");
    let yes = json!({"action": "accept", "content": {"decision": "allow once"}});
    client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": yes}));
    let id = answer(&mut client, number)["result"]["task"]["taskId"].clone();
    let number = ask(&mut client, "tasks/result", json!({"taskId": id}));
    assert!(text(&answer(&mut client, number)["result"]).ends_with("noted"));
}

#[test]
fn signs_of_life_come_to_those_who_asked_for_them_and_to_nobody_else() {
    let world = World::new("[background_calls]\nauto_after_sec = 10\n");
    let mut client = Client::start(&world, &[]);
    client.tools();
    let params =
        json!({"name": "t__sleep", "arguments": {"seconds": 9}, "_meta": {"progressToken": "p"}});
    let with = client.begin("tools/call", params);
    let without =
        client.begin("tools/call", json!({"name": "t__sleep", "arguments": {"seconds": 9}}));
    let mut last = 0.0;
    for _ in 0..2 {
        let told = client.wait("progress", |one| one["method"] == "notifications/progress");
        assert_eq!(told["params"]["progressToken"], "p");
        let progress = told["params"]["progress"].as_f64().unwrap();
        assert!(progress > last, "{told}");
        last = progress;
        assert!(told["params"]["message"].as_str().unwrap().contains("running"), "{told}");
    }
    for id in [with, without] {
        assert_eq!(text(&client.result(id)), "slept");
    }

    // An older client, over HTTP.
    let server = Server::start(&world, &[]);
    let headers = ["Content-Type: application/json", "Accept: application/json, text/event-stream"];
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "o", "version": "1"}}});
    let begun = server.send("POST", "/mcp", &headers, &initialize.to_string());
    let session = begun.headers.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("mcp-session-id").then(|| value.trim().to_owned())
    });
    let session = format!("Mcp-Session-Id: {}", session.unwrap());
    for (meta, comes) in [(json!({"progressToken": 7}), true), (json!({}), false)] {
        let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
            "name": "t__sleep", "arguments": {"seconds": 6}, "_meta": meta}});
        let answer =
            server.send("POST", "/mcp", &[headers[0], headers[1], &session], &call.to_string());
        assert_eq!(answer.body.contains("notifications/progress"), comes, "{answer:#?}");
        assert_eq!(text(&answer.json()["result"]), "slept");
    }
}

#[test]
fn a_zero_switches_it_off() {
    let world = World::new("[background_calls]\nauto_after_sec = 0\n");
    let mut client = Client::start(&world, &[]);
    assert!(!client.tools().iter().any(|tool| tool.starts_with("background_")));
    let discovered = client.ask("server/discover", json!({}));
    assert!(discovered["capabilities"].get("extensions").is_none(), "{discovered:#}");
    let wrong = World::new("[background_calls]\nauto_after_sec = 100000\n");
    ended(wrong.pinfold(&["mcp"])).code(2).says("give 1 to 86400");
}

#[test]
fn the_typescript_sdk_runs_a_script_as_a_task() {
    if !scripts_run() {
        return;
    }
    let Some(_) = installed("node_modules/@modelcontextprotocol/sdk/package.json") else { return };
    if Command::new("node").arg("--version").stdout(Stdio::null()).status().is_err() {
        skipped("node is not installed");
        return;
    }
    let world = World::new("");
    let mut command = Command::new("node");
    command.arg(fixtures().join("task_client.mjs")).arg(crate::world::test_tools());
    command.arg(env!("CARGO_BIN_EXE_pinfold")).arg("mcp");
    world.surround(&mut command);
    let ended = finish(start(command)).code(0);
    let seen: Value = serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(seen["kinds"][0], "taskCreated", "{seen:#}");
    assert_eq!(seen["kinds"].as_array().unwrap().last().unwrap(), "result", "{seen:#}");
    assert!(seen["text"].as_str().unwrap().ends_with("\nlater"), "{seen:#}");
    assert_eq!(seen["listed"], json!(["completed"]), "{seen:#}");
    assert_eq!(seen["cancelled"], "cancelled", "{seen:#}");
}

//! A server that asks a person something during a call, in both eras on both sides.

use serde_json::{Value, json};

use crate::client::{Client, text};
use crate::world::{World, scripts_run};

fn world(era: &str) -> World {
    World::with(&format!(
        "[servers.s]\ncommand = 'python3'\nargs = ['FIXTURES/both.py', '--era', '{era}', '--log', \
         'HERE/log']\n"
    ))
}

const ERAS: [&str; 2] = ["legacy", "modern"];

/// The messages that reached the server.
fn log(world: &World) -> Vec<Value> {
    let text = std::fs::read_to_string(world.path("log")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn initialize(client: &mut Client, capabilities: &Value) {
    client.send(&json!({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": capabilities,
        "clientInfo": {"name": "old", "version": "1"}}}));
    client.wait("initialize", |message| message["id"] == "i");
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
}

fn retry(arguments: &Value, asked: &Value, reply: &Value) -> Value {
    json!({"name": "s__ask", "arguments": arguments, "requestState": asked["requestState"],
        "inputResponses": {"question": reply}})
}

/// What the server was answered: an older one has it from a message, a newer one by name.
fn told(era: &str, said: &str) -> Value {
    let said: Value = serde_json::from_str(said).unwrap_or_else(|error| panic!("{error}: {said}"));
    if era == "legacy" { said } else { said["q"].clone() }
}

fn is_the_servers(form: &Value) {
    let message = form["message"].as_str().unwrap();
    assert!(message.starts_with("The server \"s\" asks you this itself."), "{message}");
    assert!(message.contains("It is not a question of pinfold's"), "{message}");
    assert!(message.ends_with(r"│ Which\u{1b}?"), "{message}");
    assert_eq!(form["requestedSchema"]["properties"], json!({"region": {"type": "string"}}));
}

#[test]
fn a_newer_client_is_asked_and_comes_back() {
    for era in ERAS {
        let world = world(era);
        let mut client = Client::start(&world, &[]);
        client.tools();
        let arguments = json!({"message": "Which\u{1b}?"});
        for (reply, expected) in [
            (
                json!({"action": "accept", "content": {"region": "eu"}}),
                json!({"action": "accept", "content": {"region": "eu"}}),
            ),
            (json!({"action": "decline"}), json!({"action": "decline"})),
            (json!({"action": "cancel"}), json!({"action": "cancel"})),
        ] {
            let asked = client.call("s__ask", &arguments);
            assert_eq!(asked["resultType"], "input_required", "{era}: {asked:#}");
            is_the_servers(&asked["inputRequests"]["question"]["params"]);
            let answer = client.ask("tools/call", retry(&arguments, &asked, &reply));
            assert_eq!(told(era, text(&answer)), expected, "{era}");
            // It was asked once and is answered once.
            let params = retry(&arguments, &asked, &reply);
            let id = client.begin("tools/call", params);
            let again = client.wait("an answer", |message| message["id"] == id);
            assert_eq!(again["error"]["code"], -32602, "{era}: {again:#}");
        }
        // Another call, or another session, is not what was asked about.
        let asked = client.call("s__ask", &arguments);
        let accept = json!({"action": "accept", "content": {}});
        let other = retry(&json!({"message": "Other?"}), &asked, &accept);
        let mut elsewhere = retry(&arguments, &asked, &accept);
        elsewhere["_meta"] = json!({"pinfold/session": "elsewhere"});
        for params in [other, elsewhere] {
            let id = client.begin("tools/call", params);
            let refused = client.wait("an answer", |message| message["id"] == id);
            assert_eq!(refused["error"]["code"], -32602, "{era}: {refused:#}");
        }
        let answer = client.ask("tools/call", retry(&arguments, &asked, &accept));
        assert_eq!(told(era, text(&answer))["action"], "accept", "{era}");
    }
}

#[test]
fn an_older_client_is_asked_by_a_request() {
    for era in ERAS {
        let world = world(era);
        let mut client = Client::start(&world, &[]);
        initialize(&mut client, &json!({"elicitation": {}}));
        client.send(&json!({"jsonrpc": "2.0", "id": "c", "method": "tools/call",
            "params": {"name": "s__ask", "arguments": {"message": "Which\u{1b}?"}}}));
        let asked = client.wait("a question", |message| message["method"] == "elicitation/create");
        is_the_servers(&asked["params"]);
        let reply = json!({"action": "accept", "content": {"region": "eu"}});
        client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": reply}));
        let answer = client.wait("an answer", |message| message["id"] == "c");
        assert!(answer["result"].get("resultType").is_none(), "{answer:#}");
        assert_eq!(told(era, text(&answer["result"])), reply, "{era}");
    }
}

#[test]
fn a_newer_server_asks_round_after_round_with_its_own_state() {
    let world = world("modern");
    let mut client = Client::start(&world, &[]);
    client.tools();
    let arguments = json!({"rounds": 3, "message": "Which\u{1b}?"});
    let mut result = client.call("s__ask", &arguments);
    for round in 1..=3 {
        assert_eq!(result["resultType"], "input_required", "{round}: {result:#}");
        assert!(!result.to_string().contains("state 1"), "the server's state is not the client's");
        let reply = json!({"action": "accept", "content": {"region": round.to_string()}});
        result = client.ask("tools/call", retry(&arguments, &result, &reply));
    }
    assert_eq!(told("modern", text(&result))["content"]["region"], "3");
    let calls = log(&world);
    let calls: Vec<&Value> = calls.iter().filter(|m| m["method"] == "tools/call").collect();
    assert_eq!(calls.len(), 4);
    assert_eq!(calls[3]["params"]["requestState"], "state 3");
    assert_eq!(calls[3]["params"]["arguments"], arguments);
    let declared = "io.modelcontextprotocol/clientCapabilities";
    assert_eq!(calls[0]["params"]["_meta"][declared]["elicitation"], json!({"form": {}}));
}

#[test]
fn addresses_are_opened_where_the_client_can() {
    for era in ERAS {
        let world = world(era);
        let mut client = Client::start(&world, &[]);
        client.tools();
        let arguments = json!({"url": "https://example.com/x"});
        let params = json!({"name": "s__ask", "arguments": arguments});
        let can = json!({"elicitation": {"url": {}}});
        let id = client.begin_as("tools/call", params.clone(), &can);
        let asked = client.result(id);
        let link = &asked["inputRequests"]["question"]["params"];
        assert_eq!(link["mode"], "url", "{asked:#}");
        assert_eq!(link["url"], "https://example.com/x");
        assert_eq!(link["elicitationId"], "e-1");
        let reply = json!({"action": "accept"});
        let id = client.begin_as("tools/call", retry(&arguments, &asked, &reply), &can);
        assert_eq!(told(era, text(&client.result(id))), reply);
        // One that shows forms only is not sent an address.
        let refused = client.ask("tools/call", params);
        assert_eq!(refused["isError"], true, "{era}: {refused:#}");
        assert!(text(&refused).contains("Go there"), "{era}: {refused:#}");
    }
}

#[test]
fn where_nobody_can_be_asked_the_error_says_so() {
    for era in ERAS {
        let world = world(era);
        let mut client = Client::start(&world, &[]);
        client.tools();
        let refused = client.call_mutely("s__ask", &json!({"message": "Which?"}));
        assert_eq!(refused["isError"], true, "{era}: {refused:#}");
        assert!(refused.to_string().contains("input"), "{era}: {refused:#}");
        assert!(refused.to_string().contains("Which?"), "{era}: {refused:#}");
        // It was not offered, so it must not be asked for.
        let sampled = client.call("s__sample", &json!({}));
        assert!(
            sampled.to_string().contains("sampling") || sampled.to_string().contains("declare"),
            "{era}: {sampled:#}"
        );
        if era == "modern" {
            assert_eq!(sampled["isError"], true);
        }
        if !scripts_run() {
            continue;
        }
        let script = "from agent_tools import call, ToolError\ntry:\n    call('s__ask', {'message': 'Which?'})\n\
             except ToolError as error:\n    print(error.kind, error.message)\n";
        let arguments = json!({"code": script, "description": "asks"});
        let ran = client.call("run_script", &arguments);
        assert!(text(&ran).contains("input"), "{era}: {ran:#}");
        assert!(text(&ran).contains("Which?"), "{era}: {ran:#}");
    }
}

#[test]
fn a_call_that_was_approved_is_sent_once_however_often_its_server_asks() {
    for era in ERAS {
        let world = world(era);
        let mut client = Client::start(&world, &[]);
        client.tools();
        let arguments = json!({"message": "Which?"});
        let params = |asked: &Value, reply: Value| {
            json!({"name": "s__write", "arguments": arguments,
                "requestState": asked["requestState"], "inputResponses": {"question": reply}})
        };
        let asked = client.call("s__write", &arguments);
        let form = &asked["inputRequests"]["question"]["params"];
        assert!(form["requestedSchema"]["properties"]["decision"].is_object(), "{asked:#}");
        let allow = json!({"action": "accept", "content": {"decision": "allow once"}});
        let asked = client.ask("tools/call", params(&asked, allow.clone()));
        let form = &asked["inputRequests"]["question"]["params"];
        assert!(form["message"].as_str().unwrap().starts_with("The server \"s\""), "{asked:#}");
        // What is answered to the server allows nothing.
        let answer = client.ask("tools/call", params(&asked, allow.clone()));
        assert_eq!(told(era, text(&answer)), allow, "{era}");
        let sent = log(&world).iter().filter(|m| m["method"] == "tools/call").count();
        assert_eq!(sent, if era == "modern" { 2 } else { 1 }, "{era}");
        let again = client.call("s__write", &arguments);
        assert_eq!(again["resultType"], "input_required", "the approval was for one use");
    }
}

//! `pinfold mcp` as a client sees it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Client, text};
use crate::world::{World, ended, scripts_run, until};

const NOTE: &str = "from agent_tools import call\nprint(call('t__note', {'text': 'x'}))\n";

/// A retry of a call with the answer to its question.
fn retry(name: &str, arguments: &Value, asked: &Value, reply: &Value) -> Value {
    json!({"name": name, "arguments": arguments, "requestState": asked["requestState"],
        "inputResponses": {"question": reply}})
}

fn accept(decision: &str) -> Value {
    json!({"action": "accept", "content": {"decision": decision}})
}

/// The id of the approval that a text tells of.
fn approval(text: &str) -> &str {
    let rest = text.split("pinfold approvals approve ").nth(1);
    rest.and_then(|rest| rest.split_whitespace().next()).unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn clients_connect_at_once_whatever_the_servers_do() {
    let mute = "[servers.mute]\ncommand = 'python3'\nargs = ['FIXTURES/server.py', '--mute']\n";
    let world = World::new(mute);
    let mut client = Client::start(&world, &[]);
    let begun = Instant::now();
    let found = client.ask("server/discover", json!({}));
    // Starting a process on a busy machine is most of it; the servers would take a minute.
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    let instructions = found["instructions"].as_str().unwrap();
    assert!(instructions.contains("mute, t") && instructions.contains("run_script"));
    client.send(&json!({"jsonrpc": "2.0", "id": "i", "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}}}));
    let agreed = client.wait("initialize", |message| message["id"] == "i");
    assert_eq!(agreed["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(agreed["result"]["instructions"], instructions);

    // The list does not wait for the mute one longer than a client would.
    let listed = client.ask("tools/list", json!({}));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert!(listed["tools"].to_string().contains("t__echo"));
    assert_eq!(listed["ttlMs"], 0, "what is not whole must not be kept");
    assert_eq!(text(&client.call("t__echo", &json!({"text": "hi"}))), "hi");
}

#[test]
fn tools_of_a_server_that_comes_late_are_announced() {
    let late =
        "[servers.late]\ncommand = 'python3'\nargs = ['FIXTURES/server.py', '--late', '7']\n";
    let world = World::new(late);
    let mut client = Client::start(&world, &[]);
    let id =
        client.begin("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    assert!(!client.tools().contains(&"late__echo".to_owned()));
    // Called by name before it is there, it is waited for.
    assert_eq!(text(&client.call("late__echo", &json!({"text": "hi"}))), "hi");
    let is_change = |message: &Value| {
        message["method"] == "notifications/tools/list_changed"
            && message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == id
    };
    loop {
        client.wait("a change", is_change);
        if client.tools().contains(&"late__echo".to_owned()) {
            break;
        }
    }
    assert_ne!(client.ask("tools/list", json!({}))["ttlMs"], 0);
}

#[test]
fn a_script_runs_and_its_account_comes_first() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    let mut client = Client::start(&world, &[]);
    let listed = client.ask("tools/list", json!({}));
    let tools = listed["tools"].as_array().unwrap();
    let run_script = tools.iter().find(|tool| tool["name"] == "run_script").unwrap();
    assert_eq!(run_script["_meta"]["anthropic/alwaysLoad"], true);
    for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
        assert!(run_script["annotations"][hint].is_boolean(), "{hint}");
    }
    let script = "from agent_tools import call_many, progress\n\
         rows = call_many('t__add', [{'a': n, 'b': 1} for n in range(500)])\n\
         progress(len(rows), 500, 'added')\nprint(sum(row['sum'] for row in rows))\n";
    let params = json!({"name": "run_script", "arguments": {"code": script, "description": "adds"},
        "_meta": {"progressToken": 7}});
    let id = client.begin("tools/call", params);
    let told =
        client.wait("progress", |message| message["params"]["progress"].as_f64() == Some(500.0));
    assert_eq!(told["params"]["progressToken"], 7);
    assert_eq!(told["params"]["total"].as_f64(), Some(500.0));
    let result = client.result(id);
    assert!(text(&result).starts_with("ok · 500 calls, 0 failed"), "{result:#}");
    assert!(text(&result).ends_with("\n125250"), "{result:#}");
    assert!(result.get("structuredContent").is_none(), "clients would show the model only that");
    let failed = client.call("run_script", &json!({"code": "1 / 0", "description": "fails"}));
    assert_eq!(failed["isError"], true);
    assert!(text(&failed).contains("ZeroDivisionError"), "{failed:#}");
}

/// Says how many seconds its interpreter is old, and leaves something that no other may find.
const AGE: &str = "import builtins, os
ticks = int(open('/proc/self/stat').read().rsplit(') ', 1)[1].split()[19])
age = float(open('/proc/uptime').read().split()[0]) - ticks / os.sysconf('SC_CLK_TCK')
print(hasattr(builtins, 'left') or os.listdir('/tmp'), age)
builtins.left = True
open('/tmp/left', 'w')
";

/// A client that can run scripts.
fn with_scripts(world: &World) -> Client {
    let mut client = Client::start(world, &[]);
    until("run_script", || client.tools().contains(&"run_script".to_owned()).then_some(()));
    client
}

/// Whether the interpreter of a script was there before the script was sent.
fn was_ready(client: &mut Client) -> bool {
    let begun = Instant::now();
    let result = client.call("run_script", &json!({"code": AGE, "description": "its age"}));
    let took = begun.elapsed();
    let said = text(&result).lines().last().unwrap_or_default().to_owned();
    let age = said.strip_prefix("[] ").unwrap_or_else(|| panic!("{result:#}"));
    age.parse::<f64>().unwrap() > took.as_secs_f64() + 0.02
}

#[test]
fn an_interpreter_waits_for_the_next_script_and_serves_no_other() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    let mut client = with_scripts(&world);
    assert!(!was_ready(&mut client), "none is started before there is a need");
    for _ in 0..2 {
        until("an interpreter that waited", || {
            std::thread::sleep(Duration::from_millis(300));
            was_ready(&mut client).then_some(())
        });
    }
}

#[test]
fn no_interpreter_waits_where_none_may() {
    if !scripts_run() {
        return;
    }
    let world = World::new("[execute]\nwarm_python = 0\n");
    let mut client = with_scripts(&world);
    for _ in 0..4 {
        assert!(!was_ready(&mut client));
        std::thread::sleep(Duration::from_millis(300));
    }
}

#[test]
fn a_write_is_asked_about_and_the_answer_counts() {
    let world = World::new("");
    let mut client = Client::start(&world, &[]);
    let arguments = json!({"text": "one"});
    let asked = client.call("t__note", &arguments);
    assert_eq!(asked["resultType"], "input_required");
    let form = &asked["inputRequests"]["question"]["params"];
    assert!(
        form["message"].as_str().unwrap().contains(r#"t__note (write) asks to run."#),
        "{form:#}"
    );
    assert!(form["message"].as_str().unwrap().contains(r#"with {"text":"one"}"#), "{form:#}");
    let choices = json!(["allow once", "allow for this session", "deny"]);
    assert_eq!(form["requestedSchema"]["properties"]["decision"]["enum"], choices);
    assert!(world.calls().is_empty());

    let once =
        client.ask("tools/call", retry("t__note", &arguments, &asked, &accept("allow once")));
    assert_eq!(text(&once), "noted");
    // The same state again finds no second answer.
    let again =
        client.ask("tools/call", retry("t__note", &arguments, &asked, &accept("allow once")));
    assert_eq!(again["resultType"], "input_required");
    assert_eq!(world.calls().len(), 1);

    let reason =
        json!({"action": "accept", "content": {"decision": "deny", "reason": "not on a Friday"}});
    let denied = client.ask("tools/call", retry("t__note", &arguments, &again, &reason));
    assert_eq!(denied["isError"], true);
    assert!(text(&denied).contains("not on a Friday"), "{denied:#}");
    assert_eq!(denied["_meta"]["pinfold/error"]["kind"], "denied");

    let other = json!({"text": "two"});
    let asked = client.call("t__note", &other);
    let unclear = client.ask("tools/call", retry("t__note", &other, &asked, &accept("yes")));
    assert!(text(&unclear).starts_with("approval needed"), "{unclear:#}");
    let declined =
        client.ask("tools/call", retry("t__note", &other, &asked, &json!({"action": "decline"})));
    assert!(text(&declined).starts_with("denied: the user of tester"), "{declined:#}");
    assert_eq!(world.calls().len(), 1);

    let asked = client.call("t__note", &other);
    let session = accept("allow for this session");
    assert_eq!(
        text(&client.ask("tools/call", retry("t__note", &other, &asked, &session))),
        "noted"
    );
    assert_eq!(text(&client.call("t__note", &json!({"text": "three"}))), "noted");
    // Another session knows nothing of it.
    let elsewhere = json!({"name": "t__note", "arguments": {"text": "four"}, "_meta": {"pinfold/session": "x"}});
    assert_eq!(client.ask("tools/call", elsewhere)["resultType"], "input_required");
    assert_eq!(world.calls().len(), 3);
}

#[test]
fn a_destructive_tool_is_asked_about_each_time() {
    let world = World::new("[profiles.default]\nservers = ['t']\npermission_mode = 'auto'\n");
    let mut client = Client::start(&world, &[]);
    for n in 1..=2 {
        let asked = client.call("t__wipe", &json!({}));
        let form = &asked["inputRequests"]["question"]["params"]["requestedSchema"];
        assert_eq!(
            form["properties"]["decision"]["enum"],
            json!(["allow once", "deny"]),
            "{asked:#}"
        );
        let session = accept("allow for this session");
        let refused = client.ask("tools/call", retry("t__wipe", &json!({}), &asked, &session));
        assert_eq!(refused["resultType"], "input_required");
        assert_eq!(world.calls().len(), n - 1);
        let once =
            client.ask("tools/call", retry("t__wipe", &json!({}), &asked, &accept("allow once")));
        assert_eq!(text(&once), "wiped");
    }
}

#[test]
fn a_script_is_shown_before_it_is_allowed_and_cannot_hide() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    let mut client = Client::start(&world, &[]);
    client.tools();
    let code = format!("{NOTE}# \u{1b}[2K\u{202e}\n");
    let arguments = json!({"code": code, "tools": ["t__note"], "description": "notes"});
    let asked = client.call("run_script", &arguments);
    let form = &asked["inputRequests"]["question"]["params"];
    let message = form["message"].as_str().unwrap();
    for part in ["may call t__note (write)", "    2 │ print(call('t__note'", r"\u{1b}[2K\u{202e}"]
    {
        assert!(message.contains(part), "{part} is not in {message}");
    }
    assert!(!message.contains(['\u{1b}', '\u{202e}']));
    assert_eq!(
        form["requestedSchema"]["properties"]["decision"]["enum"],
        json!(["allow once", "deny"])
    );
    let ran =
        client.ask("tools/call", retry("run_script", &arguments, &asked, &accept("allow once")));
    assert!(text(&ran).starts_with("ok · 1 call, 0 failed"), "{ran:#}");
    assert_eq!(world.calls(), [r#"note {"text":"x"}"#]);
}

#[test]
fn an_approval_given_in_a_terminal_is_found_by_the_same_call() {
    let world = World::new("");
    let mut client = Client::start(&world, &[]);
    client.tools();
    let arguments = json!({"text": "one"});
    let refused = client.call_mutely("t__note", &arguments);
    assert_eq!(refused["isError"], true);
    let id = approval(text(&refused)).to_owned();
    let config = world.path("pinfold.toml");
    assert!(text(&refused).contains(&format!("--config {}", config.display())), "{refused:#}");
    // The same question stays open, also for a client that shows a form and cancels it.
    let asked = client.call("t__note", &arguments);
    let cancel = json!({"action": "cancel"});
    let cancelled = client.ask("tools/call", retry("t__note", &arguments, &asked, &cancel));
    assert_eq!(approval(text(&cancelled)), id);

    ended(world.pinfold(&["approvals", "approve", &id])).code(0);
    assert_eq!(
        text(&client.call_mutely("t__note", &json!({"text": "other"}))).split(':').next(),
        Some("approval needed")
    );
    assert_eq!(text(&client.call_mutely("t__note", &arguments)), "noted");
    assert_eq!(
        text(&client.call_mutely("t__note", &arguments)).split(':').next(),
        Some("approval needed")
    );
    assert_eq!(world.calls().len(), 1);
}

#[test]
fn an_approval_waits_for_a_session_that_is_continued() {
    let world = World::new("");
    let arguments = json!({"text": "one"});
    let mut client = Client::start(&world, &["--session", "nightly"]);
    client.tools();
    let id = approval(text(&client.call_mutely("t__note", &arguments))).to_owned();
    client.close();
    ended(world.pinfold(&["approvals", "approve", &id])).code(0);
    // Another process is another session, unless it says which it continues.
    let mut client = Client::start(&world, &[]);
    assert_eq!(client.call_mutely("t__note", &arguments)["isError"], true);
    let mut client = Client::start(&world, &["--session", "nightly"]);
    assert_eq!(text(&client.call_mutely("t__note", &arguments)), "noted");

    // A form that was shown before a restart can be answered after it.
    let asked = client.call("t__note", &arguments);
    client.close();
    let mut client = Client::start(&world, &["--session", "nightly"]);
    let once = retry("t__note", &arguments, &asked, &accept("allow once"));
    assert_eq!(text(&client.ask("tools/call", once)), "noted");
}

#[test]
fn an_older_client_is_asked_by_a_request() {
    let world = World::new("");
    let mut client = Client::start(&world, &[]);
    client.send(&json!({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "old", "version": "1"}}}));
    client.wait("initialize", |message| message["id"] == "i");
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    for (reply, said) in [
        (json!({"action": "accept", "content": {"decision": "allow once"}}), "noted"),
        (json!({"action": "decline"}), "denied: the user of old"),
        (json!({"action": "cancel"}), "approval needed"),
    ] {
        client.send(&json!({"jsonrpc": "2.0", "id": "c", "method": "tools/call",
            "params": {"name": "t__note", "arguments": {"text": "x"}}}));
        let asked = client.wait("a question", |message| message["method"] == "elicitation/create");
        client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": reply}));
        let answer = client.wait("an answer", |message| message["id"] == "c");
        assert!(text(&answer["result"]).starts_with(said), "{answer:#}");
    }
    assert_eq!(world.calls().len(), 1);

    // Answered in a terminal while the form is shown: the form is taken back.
    client.send(&json!({"jsonrpc": "2.0", "id": "d", "method": "tools/call",
        "params": {"name": "t__note", "arguments": {"text": "y"}}}));
    let asked = client.wait("a question", |message| message["method"] == "elicitation/create");
    let list = ended(world.pinfold(&["approvals", "list", "--json"]));
    let open: Value = serde_json::from_str(&list.stdout).unwrap();
    let open = open.as_array().unwrap().iter();
    let mine = open.filter(|approval| approval["arguments"]["text"] == "y");
    let ids: Vec<&str> = mine.filter_map(|approval| approval["id"].as_str()).collect();
    ended(world.pinfold(&["approvals", "approve", ids[0]])).code(0);
    let back = client.wait("a farewell", |message| message["method"] == "notifications/cancelled");
    assert_eq!(back["params"]["requestId"], asked["id"]);
    let answer = client.wait("an answer", |message| message["id"] == "d");
    assert_eq!(text(&answer["result"]), "noted");
}

#[test]
fn cancelling_a_script_and_leaving_end_what_runs() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    let mut client = Client::start(&world, &[]);
    client.tools();
    let script = "from agent_tools import call\ncall('t__sleep', {'seconds': 50})\n";
    let arguments = json!({"code": script, "description": "sleeps"});
    let first = client.begin("tools/call", json!({"name": "run_script", "arguments": arguments}));
    until("the script called", || (world.calls().len() == 1).then_some(()));
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": first}}));
    until("the script ended", || {
        let line = world.call_lines().pop()?;
        (line["ok"] == false).then_some(())
    });
    client.begin("tools/call", json!({"name": "run_script", "arguments": arguments}));
    until("the second script called", || (world.calls().len() == 2).then_some(()));
    assert!(client.close() < Duration::from_secs(20));
    assert_eq!(world.call_lines().pop().unwrap()["ok"], false);
}

#[test]
fn wrong_names_and_arguments_say_what_would_be_right() {
    let world = World::new("");
    let mut client = Client::start(&world, &[]);
    client.tools();
    let id = client.begin("tools/call", json!({"name": "t__eko", "arguments": {}}));
    let answer = client.wait("an answer", |message| message["id"] == id);
    assert_eq!(answer["error"]["code"], -32602);
    assert!(answer["error"]["message"].as_str().unwrap().contains("t__echo"), "{answer}");
    let wrong = client.call("t__echo", &json!({"txt": "x"}));
    assert_eq!(wrong["_meta"]["pinfold/error"]["kind"], "invalid_arguments");
    assert!(wrong["isError"] == true && text(&wrong).contains("text"), "{wrong:#}");
}

#[test]
fn wrong_settings_are_told_before_anything_is_served() {
    let world = World::new("");
    let mut command = world.pinfold(&["mcp", "--profile", "nobody"]);
    command.stdin(std::process::Stdio::null());
    let ended = ended(command).code(2).says("nobody");
    assert_eq!(ended.stdout, "");
}

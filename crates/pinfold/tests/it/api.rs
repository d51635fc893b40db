//! The HTTP API of `pinfold serve`: who may see and answer what, and what it says when not.

use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;

use crate::client::text;
use crate::http::call;
use crate::server::{Answer, Server};
use crate::world::{SERVER, World, ended, scripts_run, until};

/// SHA-256 of `agentkey`, `approverkey`, `adminkey`.
const TOKENS: &str = "auth = { tokens = [\
    { name = 'bot', sha256 = 'AGENT', roles = ['agent'] }, \
    { name = 'other', sha256 = 'OTHER', roles = ['agent'] }, \
    { name = 'ann', sha256 = 'APPROVER', roles = ['approver'] }, \
    { name = 'boss', sha256 = 'ADMIN', roles = ['admin'] }] }\n";

fn digest(secret: &str) -> String {
    let summed = std::process::Command::new("sh")
        .args(["-c", "printf %s \"$1\" | sha256sum", "sh", secret])
        .output()
        .unwrap();
    String::from_utf8(summed.stdout).unwrap()[..64].to_owned()
}

/// A world with tokens for every role.
pub(crate) fn with_tokens(more: &str) -> World {
    let tokens = TOKENS
        .replace("AGENT", &digest("agentkey"))
        .replace("OTHER", &digest("otherkey"))
        .replace("APPROVER", &digest("approverkey"))
        .replace("ADMIN", &digest("adminkey"));
    World::with(&format!("{tokens}{more}{SERVER}"))
}

/// The header with the key of the person whose world this is.
pub(crate) fn key(world: &World) -> String {
    let key = until("the key", || std::fs::read_to_string(world.path("data/person.key")).ok());
    format!("Authorization: Bearer {key}")
}

/// Started, without tokens, and with the server `t` up.
pub(crate) fn started(world: &World, options: &[&str]) -> Server {
    let server = Server::start(world, options);
    ready(&server, &key(world));
    server
}

/// Waits until the server `t` is up.
pub(crate) fn ready(server: &Server, key: &str) {
    until("t is up", || {
        let answer = get(server, key, "/api/tools");
        (answer.status == 200 && answer.body.contains("\"t__echo\"")).then_some(())
    });
}

pub(crate) fn get(server: &Server, key: &str, path: &str) -> Answer {
    server.send("GET", path, &[key], "")
}

pub(crate) fn post(server: &Server, key: &str, path: &str, body: &Value) -> Answer {
    server.send("POST", path, &[key, "Content-Type: application/json"], &body.to_string())
}

fn refusal(answer: &Answer) -> (u16, String) {
    let body = answer.json();
    assert!(body["error"]["kind"].is_string(), "{answer:#?}");
    (answer.status, body["error"]["message"].as_str().unwrap().to_owned())
}

/// The id of the approval that a result tells of.
pub(crate) fn approval(result: &Value) -> String {
    let rest = text(result).split("pinfold approvals approve ").nth(1);
    let id = rest.and_then(|rest| rest.split_whitespace().next());
    id.unwrap_or_else(|| panic!("{result:#}")).to_owned()
}

#[test]
fn without_tokens_tools_are_open_and_approvals_take_the_key() {
    let world = World::new("");
    let server = started(&world, &[]);
    let asked = call(&server, &[], "t__note", json!({"text": "x"}));
    let id = approval(&asked);
    assert!(text(&asked).contains(&server.url(&format!("/approvals/{id}"))), "{asked:#}");
    for path in ["/api/approvals", "/api/sessions", "/api/audit", "/api/tools"] {
        for wrong in ["X: y", "Authorization: Bearer ", "Authorization: Bearer 00"] {
            let (status, message) = refusal(&server.send("GET", path, &[wrong], ""));
            assert_eq!(status, 401);
            assert!(message.contains("person.key"), "{message}");
        }
    }
    let path = format!("/api/approvals/{id}");
    assert_eq!(post(&server, "X: y", &path, &json!({"decision": "once"})).status, 401);
    let mode = std::fs::metadata(world.path("data/person.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let key = key(&world);
    let open = get(&server, &key, "/api/approvals").json();
    assert_eq!(open["approvals"][0]["id"], json!(id));
    assert_eq!(open["approvals"][0]["effects"], json!({"t__note": "write"}));
    assert_eq!(open["next"], Value::Null);
    let answered = post(&server, &key, &path, &json!({"decision": "once"}));
    assert_eq!(answered.status, 200, "{answered:#?}");
    assert_eq!(answered.json()["state"], "answered");
    assert_eq!(answered.json()["answer"]["by"], "the person with the key (API)");
    let (status, message) = refusal(&post(&server, &key, &path, &json!({"decision": "deny"})));
    assert_eq!(status, 409);
    assert!(message.contains("answered already: the person with the key (API) allowed it"));
    assert_eq!(text(&call(&server, &[], "t__note", json!({"text": "x"}))), "noted");
    assert_eq!(get(&server, &key, &path).json()["state"], "used");
    assert_eq!(get(&server, &key, "/api/approvals").json()["approvals"], json!([]));
    let used = get(&server, &key, "/api/approvals?state=used").json();
    assert_eq!(used["approvals"].as_array().unwrap().len(), 1);
}

#[test]
fn a_denial_over_the_api_reaches_the_model_with_its_reason() {
    let world = World::new("");
    let server = started(&world, &[]);
    let id = approval(&call(&server, &[], "t__note", json!({"text": "x"})));
    let deny = json!({"decision": "deny", "reason": "not on a <Friday>"});
    let path = format!("/api/approvals/{id}");
    assert_eq!(post(&server, &key(&world), &path, &deny).status, 200);
    let told = call(&server, &[], "t__note", json!({"text": "x"}));
    assert!(text(&told).contains("did not allow it: not on a <Friday>"), "{told:#}");
    assert!(world.calls().is_empty());
}

#[test]
fn what_is_wrong_is_refused_and_says_what_would_do() {
    let world = World::new("");
    let server = started(&world, &[]);
    let key = key(&world);
    let id = approval(&call(&server, &[], "t__note", json!({"text": "x"})));
    let path = format!("/api/approvals/{id}");
    for (body, part) in [
        (json!({"decision": "yes"}), "once"),
        (json!({"decision": "once", "force": true}), "unknown field `force`"),
        (json!({"decision": "once", "reason": "why not"}), "reason goes with deny"),
        (json!({}), "missing field `decision`"),
        (json!([]), "the body"),
        (json!({"decision": "deny", "reason": "x".repeat(70_000)}), "at most 65536 bytes"),
    ] {
        let (status, message) = refusal(&post(&server, &key, &path, &body));
        assert_eq!(status, 400, "{message}");
        assert!(message.contains(part), "{message}");
    }
    let form = server.send("POST", &path, &[&key], "decision=once");
    assert_eq!(refusal(&form), (400, "send JSON, with content-type: application/json".into()));
    for (wrong, part) in [
        ("/api/approvals?limit=0", "give 1 to 1000"),
        ("/api/approvals?limit=x", "parameters"),
        ("/api/approvals?state=closed", "unknown variant"),
        ("/api/approvals?all=1", "unknown field"),
        ("/api/audit?format=csv", "unknown variant"),
        ("/api/sessions?before=x", "give what stood in `next`"),
    ] {
        let (status, message) = refusal(&get(&server, &key, wrong));
        assert_eq!(status, 400, "{wrong}");
        assert!(message.contains(part), "{message}");
    }
    for missing in
        ["/api/approvals/none", "/api/sessions/none/events", "/api/scripts/none", "/api/nothing"]
    {
        assert_eq!(refusal(&get(&server, &key, missing)).0, 404, "{missing}");
    }
    assert_eq!(refusal(&server.send("DELETE", "/api/audit", &[&key], "")).0, 400);
    // Sent by a page of somebody else, or by a name that leads astray.
    for wrong in [
        "Host: evil.example",
        "Origin: https://evil.example",
        "Origin: null",
        "Origin: http://127.0.0.1:1",
    ] {
        let once = json!({"decision": "once"}).to_string();
        let headers = [key.as_str(), "Content-Type: application/json", wrong];
        assert_eq!(server.send("POST", &path, &headers, &once).status, 403, "{wrong}");
    }
    assert_eq!(get(&server, &key, &path).json()["state"], "open");
    // What is asked each time cannot be allowed for longer.
    let wipe = approval(&call(&server, &[], "t__wipe", json!({})));
    let path = format!("/api/approvals/{wipe}");
    let (status, message) = refusal(&post(&server, &key, &path, &json!({"decision": "session"})));
    assert_eq!(status, 409);
    assert!(message.contains("allow it once or deny it"), "{message}");
}

#[test]
fn each_role_sees_and_does_what_it_is_for() {
    let world = with_tokens("");
    let server = Server::start(&world, &[]);
    let [agent, other, approver, admin] = ["agentkey", "otherkey", "approverkey", "adminkey"]
        .map(|secret| format!("Authorization: Bearer {secret}"));
    ready(&server, &agent);
    let asked = call(&server, &[&agent], "t__note", json!({"text": "x"}));
    let id = approval(&asked);
    let path = format!("/api/approvals/{id}");
    let once = json!({"decision": "once"});

    // The one who asked sees its question and cannot answer it; another agent sees nothing.
    assert_eq!(get(&server, &agent, &path).status, 200);
    let (status, message) = refusal(&post(&server, &agent, &path, &once));
    assert_eq!(status, 403);
    assert!(message.contains("takes a token with the role approver or admin"), "{message}");
    assert_eq!(get(&server, &other, &path).status, 404);
    assert_eq!(post(&server, &other, &path, &once).status, 404);
    assert_eq!(get(&server, &other, "/api/approvals").json()["approvals"], json!([]));

    let sessions = |key: &str| {
        let answer = get(&server, key, "/api/sessions");
        let sessions = answer.json()["sessions"].as_array().cloned();
        sessions.unwrap_or_default().len()
    };
    assert_eq!((sessions(&agent), sessions(&other), sessions(&admin)), (1, 0, 1));
    let session = get(&server, &admin, "/api/sessions").json()["sessions"][0].clone();
    assert_eq!(
        (&session["principal"], &session["profile"]),
        (&json!("token bot"), &json!("default"))
    );
    let events = format!("/api/sessions/{}/events", session["id"].as_str().unwrap());
    assert_eq!(get(&server, &other, &events).status, 404);
    for path in ["/api/sessions", "/api/audit", "/api/tools", &events] {
        assert_eq!(refusal(&get(&server, &approver, path)).0, 403, "{path}");
    }
    assert_eq!(refusal(&get(&server, &agent, "/api/audit?principal=token%20other")).0, 403);
    assert_eq!(refusal(&get(&server, &agent, "/api/tools?profile=none")).0, 403);
    let tools = get(&server, &agent, "/api/tools").json();
    assert_eq!(tools["servers"][0], json!({"name": "t", "state": "ready"}));

    assert_eq!(post(&server, &approver, &path, &once).status, 200);
    assert_eq!(text(&call(&server, &[&agent], "t__note", json!({"text": "x"}))), "noted");
    let rows = |key: &str| get(&server, key, "/api/audit").json()["rows"].as_array().unwrap().len();
    assert_eq!((rows(&agent), rows(&other), rows(&admin)), (1, 0, 1));
    // Not even who may do everything answers for itself.
    let own = approval(&call(&server, &[&admin], "t__note", json!({"text": "y"})));
    let own = format!("/api/approvals/{own}");
    let (status, message) = refusal(&post(&server, &admin, &own, &once));
    assert_eq!(status, 403);
    assert!(message.contains("has made this call itself"), "{message}");
    assert_eq!(post(&server, &approver, &own, &once).status, 200);
}

#[test]
fn a_token_that_would_answer_for_itself_is_refused() {
    let world = World::with(&format!(
        "auth = {{ tokens = [{{ name = 'x', sha256 = '{}', roles = ['agent', 'approver'] }}] }}\n{SERVER}",
        digest("x")
    ));
    ended(world.pinfold(&["serve", "--listen", "127.0.0.1:0"])).code(2).says("make two tokens");
}

#[test]
fn a_token_that_asks_too_often_has_to_wait() {
    let world = with_tokens("limits = { requests_per_sec = 1, burst = 3 }\n");
    let server = Server::start(&world, &[]);
    ready(&server, "Authorization: Bearer adminkey");
    let key = "Authorization: Bearer agentkey";
    let answers: Vec<_> = (0..20).map(|_| get(&server, key, "/api/approvals")).collect();
    let late = answers.iter().find(|answer| answer.status == 429).expect("nobody had to wait");
    assert!(late.headers.to_lowercase().contains("retry-after: 1"), "{late:#?}");
    assert!(refusal(late).1.contains("token bot makes too many requests"));
    assert_eq!(answers[0].status, 200);
    // Another one is not held up by it.
    assert_eq!(get(&server, "Authorization: Bearer otherkey", "/api/approvals").status, 200);
    // Nor does it get more by the other door.
    let refused = server.send("POST", "/mcp", &[key], "{}");
    assert!([429, 415].contains(&refused.status), "{refused:#?}");
}

#[test]
fn the_audit_is_filtered_paged_and_exported() {
    let world = World::new("");
    let server = started(&world, &[]);
    let key = key(&world);
    for number in 0..5 {
        call(&server, &[], "t__echo", json!({"text": format!("{number} \"ü\"")}));
    }
    call(&server, &[], "t__fail", json!({"message": "no"}));
    let rows = |query: &str| {
        let answer = get(&server, &key, &format!("/api/audit{query}"));
        assert_eq!(answer.status, 200, "{answer:#?}");
        answer.json()
    };
    let all = rows("");
    assert_eq!(all["rows"].as_array().unwrap().len(), 6);
    assert_eq!(all["rows"][1]["detail"]["arguments"]["text"], "4 \"ü\"");
    assert_eq!(rows("?tool=t__echo")["rows"].as_array().unwrap().len(), 5);
    assert_eq!(rows("?outcome=failed")["rows"].as_array().unwrap().len(), 1);
    let at = all["rows"][2]["at_ms"].as_i64().unwrap();
    let later = rows(&format!("?from_ms={}", at + 1))["rows"].as_array().unwrap().len();
    let before = rows(&format!("?to_ms={}", at + 1))["rows"].as_array().unwrap().len();
    assert_eq!(later + before, 6);
    let (mut pages, mut query) = (Vec::new(), "?limit=4".to_owned());
    loop {
        let page = rows(&query);
        pages.extend(page["rows"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else { break };
        query = format!("?limit=4&before={next}");
    }
    assert_eq!(&json!(pages), &all["rows"]);
    let export = get(&server, &key, "/api/audit?format=jsonl");
    assert!(export.headers.contains("application/x-ndjson"), "{export:#?}");
    let lines: Vec<Value> =
        export.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(&json!(lines), &all["rows"]);
}

#[test]
fn a_script_is_shown_with_its_calls_and_output() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    let server = started(&world, &[]);
    let key = key(&world);
    let code = "from agent_tools import call\nfor n in range(5):\n    \
                call('t__echo', {'text': str(n)})\nprint('<b>done</b>')\n";
    call(&server, &[], "run_script", json!({"code": code, "description": "counts"}));
    let folder = world.records().pop().unwrap();
    let id = folder.file_name().unwrap().to_str().unwrap().to_owned();
    let path = format!("/api/scripts/{id}");
    let script = get(&server, &key, &format!("{path}?limit=3")).json();
    assert_eq!(script["code"].as_str().unwrap(), code);
    assert_eq!(
        (&script["state"], &script["output"]),
        (&json!("finished"), &json!("<b>done</b>\n"))
    );
    assert_eq!(script["calls"].as_array().unwrap().len(), 3);
    assert_eq!(script["calls"][0]["tool"], "t__echo");
    assert_eq!(script["next_calls"], 3);
    let rest = get(&server, &key, &format!("{path}?after=3")).json();
    assert_eq!(rest["calls"].as_array().unwrap().len(), 2);
    assert_eq!(rest["next_calls"], Value::Null);
    // What lies in a workspace may be a trap.
    std::fs::remove_file(folder.join("output.txt")).unwrap();
    std::os::unix::fs::symlink(world.path("pinfold.toml"), folder.join("output.txt")).unwrap();
    let trapped = get(&server, &key, &path).json();
    assert_eq!(trapped["output"], "");
    assert!(trapped["missing"][0].as_str().unwrap().contains("links are not followed"));
}

#[test]
fn options_may_stand_before_or_behind_the_verb() {
    let world = World::new("");
    let file = world.path("pinfold.toml").display().to_string();
    for arguments in [
        ["approvals", "--config", &file, "list"],
        ["approvals", "list", "--config", &file],
        ["--config", &file, "approvals", "list"],
    ] {
        ended(world.pinfold(&arguments)).code(0).says("no question is open");
    }
    ended(world.pinfold(&["approvals", "--config", &file])).code(0).says("no question is open");
}

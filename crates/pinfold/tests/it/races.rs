//! Whichever answer comes first wins, a restart loses none, and slow clients hold nobody up.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::{approval, get, key, post, started};
use crate::client::{Client, text};
use crate::http::call;
use crate::world::{World, ended, scripts_run, until};

#[test]
fn of_three_who_answer_at_once_one_wins() {
    let world = World::new("");
    let server = started(&world, &[]);
    let key = key(&world);
    let mut client = Client::start(&world, &[]);
    let arguments = json!({"text": "x"});
    for _ in 0..3 {
        let asked = client.call("t__note", &arguments);
        assert_eq!(asked["resultType"], "input_required", "{asked:#}");
        let open = get(&server, &key, "/api/approvals").json();
        let id = open["approvals"][0]["id"].as_str().unwrap().to_owned();
        let path = format!("/api/approvals/{id}");
        let before = world.calls().len();
        let (api, cli, result) = std::thread::scope(|scope| {
            let api = scope.spawn(|| {
                post(&server, &key, &path, &json!({"decision": "deny", "reason": "api"}))
            });
            let cli = scope
                .spawn(|| ended(world.pinfold(&["approvals", "deny", &id, "--reason", "cli"])));
            let result = client.ask(
                "tools/call",
                json!({"name": "t__note",
                "arguments": arguments, "requestState": asked["requestState"],
                "inputResponses": {"question": {"action": "accept",
                    "content": {"decision": "allow once"}}}}),
            );
            (api.join().unwrap(), cli.join().unwrap(), result)
        });
        let said = text(&result);
        let by_client = said == "noted";
        let won = [api.status == 200, cli.code == Some(0), by_client];
        assert_eq!(won.iter().filter(|won| **won).count(), 1, "{api:#?} {cli:#?} {said}");
        assert_eq!(world.calls().len() - before, usize::from(by_client));
        if !won[0] {
            assert_eq!(api.status, 409);
            assert!(api.body.contains("answered already: "), "{api:#?}");
        }
        if !won[1] {
            assert!(cli.stderr.contains("answered already: "), "{cli:#?}");
        }
        if !by_client {
            assert!(
                said.contains(if won[0] { "did not allow it: api" } else { "it: cli" }),
                "{said}"
            );
        }
    }
}

#[test]
fn a_restart_keeps_the_question_and_the_answer() {
    let late =
        "[servers.late]\ncommand = 'python3'\nargs = ['FIXTURES/server.py', '--late', '4']\n";
    let world = World::new(late);
    let server = started(&world, &[]);
    let note = || json!({"text": "x"});
    until("the late server is up", || {
        let tools = get(&server, &key(&world), "/api/tools").json();
        tools["tools"].to_string().contains("late__note").then_some(())
    });
    let id = approval(&call(&server, &[], "late__note", note()));
    drop(server);
    // Answered while the server of the tool has not listed it yet: that does not void it.
    let server = started(&world, &[]);
    let path = format!("/api/approvals/{id}");
    let answered = post(&server, &key(&world), &path, &json!({"decision": "once"}));
    assert_eq!(answered.status, 200, "{answered:#?}");
    drop(server);
    let server = started(&world, &[]);
    assert_eq!(text(&call(&server, &[], "late__note", note())), "noted");
    let asked = call(&server, &[], "late__note", note());
    assert_ne!(approval(&asked), id, "it counted once");
}

#[test]
fn a_question_that_is_asked_again_lasts_longer_and_one_that_is_not_expires() {
    let world = World::new("[approvals]\nexpire_sec = 4\n");
    let server = started(&world, &[]);
    let key = key(&world);
    let ask = || approval(&call(&server, &[], "t__note", json!({"text": "x"})));
    let expires = |id: &str| {
        let found = get(&server, &key, &format!("/api/approvals/{id}")).json();
        (found["expires_ms"].as_i64().unwrap(), found["state"].clone())
    };
    let id = ask();
    let first = expires(&id).0;
    until("it lasts longer", || {
        let again = ask();
        (again == id && expires(&id).0 > first).then_some(())
    });
    until("it expires", || (expires(&id).1 == "expired").then_some(()));
    let late = post(&server, &key, &format!("/api/approvals/{id}"), &json!({"decision": "once"}));
    assert_eq!(late.status, 409);
    assert!(late.body.contains("has expired; make the call again"), "{late:#?}");
    ended(world.pinfold(&["approvals", "deny", &id])).code(1).says("has expired");
    assert_ne!(ask(), id);
}

const NOTE: &str = "from agent_tools import call\nprint(call('t__note', {'text': 'x'}))\n";

#[test]
fn a_question_on_a_terminal_that_expires_says_so() {
    if !scripts_run() {
        return;
    }
    let world = World::new("[approvals]\nexpire_sec = 2\n");
    world.write("s.py", NOTE);
    let ended = ended(world.at_terminal(&["never=o"], &["run", "s.py", "--tools", "t__note"]));
    ended.code(3).prints("the question has expired before it was answered");
    assert!(world.calls().is_empty());
}

#[test]
fn a_question_on_a_terminal_that_is_answered_elsewhere_goes_on() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    let server = started(&world, &[]);
    world.write("s.py", NOTE);
    let running = crate::world::start(
        world.at_terminal(&["never=o"], &["run", "s.py", "--tools", "t__note"]),
    );
    let key = key(&world);
    let id = until("a question", || {
        let open = get(&server, &key, "/api/approvals").json();
        open["approvals"][0]["id"].as_str().map(str::to_owned)
    });
    let path = format!("/api/approvals/{id}");
    assert_eq!(post(&server, &key, &path, &json!({"decision": "once"})).status, 200);
    crate::world::finish(running).code(0).prints("answered elsewhere");
    assert_eq!(world.calls().len(), 1);
}

#[test]
fn who_is_slow_with_its_headers_is_cut_off_and_makes_room() {
    let world = World::new("[limits]\nheader_sec = 1\nconnections = 2\n");
    let server = started(&world, &[]);
    let address = server.url("");
    let slow = || {
        let mut stream = TcpStream::connect(address.trim_start_matches("http://")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: 127").unwrap();
        stream
    };
    let streams = [slow(), slow(), slow(), slow()];
    assert_eq!(server.send("GET", "/healthz", &[], "").status, 200);
    for mut stream in streams {
        let mut rest = Vec::new();
        // Closed, in whatever way.
        let _ = stream.read_to_end(&mut rest);
        assert!(!String::from_utf8_lossy(&rest).contains(" 200 "));
    }
    let answer: Value = server.send("GET", "/healthz", &[], "").json();
    assert_eq!(answer["ok"], true);
}

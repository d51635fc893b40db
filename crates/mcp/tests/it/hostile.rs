//! Servers that misbehave harm themselves, and the errors say what they did.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use mcp::{Endpoint, Error};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::support::{
    Connected, call, connect, connect_within, drain, eventually, fixture, http, is_alive, stdio,
};

const FIXTURE: &str = "hostile.py";

/// A directory and the path of a file in it that the fixture writes to.
fn notes() -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes").to_str().unwrap().to_owned();
    (directory, path)
}

fn lines(path: &str) -> Vec<String> {
    std::fs::read_to_string(path).unwrap_or_default().lines().map(ToOwned::to_owned).collect()
}

async fn refused(endpoint: &Endpoint) -> String {
    connect(endpoint).await.err().unwrap().to_string()
}

#[tokio::test]
async fn noise_on_stdout_is_logged_and_ignored() {
    let mut server = connect(&fixture(FIXTURE, &["noise"])).await.unwrap();
    assert_eq!(server.call("echo", json!({})).await.unwrap().text, "fine");
    let log = server.log();
    assert!(log.iter().any(|line| line == "noise: a friendly banner"), "{log:?}");
    server.client.close().await;
}

#[tokio::test]
async fn a_server_that_dies_in_the_call_says_its_last_words_but_no_secret() {
    let Endpoint::Stdio { command, args, cwd, .. } = fixture(FIXTURE, &["dies"]) else { panic!() };
    let env = BTreeMap::from([("TOKEN".to_owned(), "very-secret-value".to_owned())]);
    let endpoint = Endpoint::Stdio { command, args, env, cwd, secrets: mcp::Secrets::default() };
    let mut server = connect(&endpoint).await.unwrap();
    let Err(Error::Lost(reason)) = server.call("echo", json!({})).await else { panic!("not lost") };
    assert!(reason.contains("exited with status 7"), "{reason}");
    assert!(reason.contains("out of luck, token=***"), "{reason}");
    assert_eq!(server.client.closed().await, reason);
    assert!(server.log().iter().all(|line| !line.contains("very-secret")));
    assert!(!format!("{endpoint:?} {:?}", server.client).contains("very-secret"));
    let later = server.call("echo", json!({})).await;
    assert!(matches!(later, Err(Error::Connect(_))), "{later:?}");
}

#[tokio::test]
async fn a_server_that_never_answers_is_told_to_stop() {
    let (_directory, path) = notes();
    let server = connect(&fixture(FIXTURE, &["silent", &path])).await.unwrap();
    let mut silent = call("echo", json!({}));
    silent.timeout = Duration::from_millis(300);
    let outcome = server.client.call_tool(silent).await;
    assert!(matches!(outcome, Err(Error::Timeout { .. })), "{outcome:?}");
    eventually("it was told", || lines(&path).len() == 2).await;

    let cancelled = call("echo", json!({}));
    let cancel = cancelled.cancel.clone();
    let (outcome, ()) = tokio::join!(server.client.call_tool(cancelled), async {
        eventually("it was asked", || lines(&path).len() == 3).await;
        cancel.cancel();
    });
    assert!(matches!(outcome, Err(Error::Cancelled)), "{outcome:?}");
    eventually("it was told", || lines(&path).len() == 4).await;

    // A call whose future is dropped is cancelled as well.
    let dropped = tokio::time::timeout(Duration::from_millis(300), server.call("echo", json!({})));
    assert!(dropped.await.is_err());
    eventually("it was told", || lines(&path).len() == 6).await;
    assert!(lines(&path)[5].starts_with("cancelled "));
    server.client.close().await;
}

#[tokio::test]
async fn five_megabytes_arrive_whole() {
    let server = connect(&fixture(FIXTURE, &["large"])).await.unwrap();
    let result = server.call("echo", json!({})).await.unwrap();
    assert_eq!(result.text.len(), 5 * 1024 * 1024);
    server.client.close().await;
}

#[tokio::test]
async fn a_line_of_200_mb_fails_its_call_and_nothing_else() {
    let server = connect(&fixture(FIXTURE, &["huge"])).await.unwrap();
    let error = server.call("echo", json!({})).await.unwrap_err();
    assert!(error.to_string().contains("longer than 64 MB"), "{error}");
    assert_eq!(server.names().await, ["echo"]);
    server.client.close().await;
}

#[tokio::test]
async fn wrong_ids_and_second_answers_are_dropped() {
    let server = connect(&fixture(FIXTURE, &["ids"])).await.unwrap();
    for _ in 0..3 {
        assert_eq!(server.call("echo", json!({})).await.unwrap().text, "first");
    }
    server.client.close().await;
}

#[tokio::test]
async fn another_encoding_still_gets_through() {
    let server = connect(&fixture(FIXTURE, &["latin1"])).await.unwrap();
    assert_eq!(server.call("echo", json!({})).await.unwrap().text, "caf\u{fffd}");
    server.client.close().await;
}

#[tokio::test]
async fn an_error_object_is_kept() {
    let server = connect(&fixture(FIXTURE, &["error"])).await.unwrap();
    let Err(Error::Rpc { code, message, data }) = server.call("echo", json!({})).await else {
        panic!("no error")
    };
    assert_eq!((code, message.as_str()), (-32000, "no such device"));
    assert_eq!(data.unwrap().get(), r#"{"sn": 7}"#);
    server.client.close().await;
}

#[tokio::test]
async fn strange_results_break_the_protocol_not_the_client() {
    let server = connect(&fixture(FIXTURE, &["strange"])).await.unwrap();
    for result in [json!(null), json!([]), json!(5), json!({"content": {"type": "text"}})] {
        let outcome = server.call("echo", json!({"result": result})).await;
        assert!(matches!(outcome, Err(Error::Protocol(_))), "{outcome:?}");
    }
    let odd = json!({"content": [null, 5, {"type": "text"}, {"type": "text", "text": 5}, {"type": "new", "x": 1}]});
    let result = server.call("echo", json!({"result": odd})).await.unwrap();
    assert!(result.has_media && result.text.is_empty());
    server.client.close().await;
}

#[tokio::test]
async fn requests_of_the_server_are_answered_or_refused() {
    let server = connect(&fixture(FIXTURE, &["asks"])).await.unwrap();
    let result = server.call("echo", json!({})).await.unwrap();
    // What it asked nobody could answer, so what it made of that is no result.
    assert!(result.is_error && result.text.contains("wants input"), "{}", result.text);
    let answers = result.text.lines().last().unwrap();
    let answers: Vec<Value> = serde_json::from_str(answers).unwrap();
    assert_eq!(answers[0], json!({"jsonrpc": "2.0", "id": "s0", "result": {}}));
    assert_eq!(answers[3]["result"], json!({"action": "cancel"}));
    for refused in &answers[1..3] {
        assert_eq!(refused["error"]["code"], -32601, "{refused}");
    }
    server.client.close().await;
}

#[tokio::test]
async fn a_flood_of_progress_is_thinned_out() {
    let server = connect(&fixture(FIXTURE, &["floods"])).await.unwrap();
    let (sender, progress) = mpsc::unbounded_channel();
    let mut flooding = call("echo", json!({}));
    flooding.progress = Some(sender);
    assert_eq!(server.client.call_tool(flooding).await.unwrap().text, "done");
    let count = drain(progress).len();
    assert!((200..5_000).contains(&count), "{count}");
    server.client.close().await;
}

#[tokio::test]
async fn progress_does_not_extend_a_call_for_ever() {
    let server = connect(&fixture(FIXTURE, &["endless-progress"])).await.unwrap();
    let (sender, _progress) = mpsc::unbounded_channel();
    let mut endless = call("echo", json!({}));
    endless.progress = Some(sender);
    endless.timeout = Duration::from_millis(200);
    let started = Instant::now();
    let outcome = server.client.call_tool(endless).await;
    assert!(matches!(outcome, Err(Error::Timeout { .. })), "{outcome:?}");
    let took = started.elapsed();
    assert!(took > Duration::from_millis(1_900) && took < Duration::from_secs(20), "{took:?}");
    server.client.close().await;
}

#[tokio::test]
async fn endless_and_looping_lists_end() {
    let mut server = connect(&fixture(FIXTURE, &["loops"])).await.unwrap();
    assert_eq!(server.names().await, ["tNone", "ta", "tb"]);
    assert!(server.log().iter().any(|line| line.contains("repeats a cursor")));
    server.client.close().await;

    let mut server = connect(&fixture(FIXTURE, &["endless"])).await.unwrap();
    assert_eq!(server.names().await.len(), 500);
    assert!(server.log().iter().any(|line| line.contains("too many pages")));
    server.client.close().await;
}

#[tokio::test]
async fn a_broken_definition_does_not_hide_the_others() {
    let mut server = connect(&fixture(FIXTURE, &["broken"])).await.unwrap();
    let tools = server.client.list_tools().await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["echo", "last"]);
    assert!(tools[1].raw.get().contains(r#""x-unknown": {"b": 1, "a": 2}"#));
    let left_out = server.log().iter().filter(|line| line.contains("left out")).count();
    assert_eq!(left_out, 5);
    server.client.close().await;
}

#[tokio::test]
async fn changes_of_the_list_are_told_in_both_eras() {
    for mode in ["changes", "modern-changes"] {
        let (_directory, path) = notes();
        let mut server = connect(&fixture(FIXTURE, &[mode, &path])).await.unwrap();
        assert_eq!(server.names().await, ["echo"], "{mode}");
        server.tools_changed().await;
        assert_eq!(server.names().await, ["echo", "new"], "{mode}");
        server.client.close().await;
        let mut more = 0;
        while let Ok(event) = server.events.try_recv() {
            more += usize::from(event == mcp::Event::ToolsChanged);
        }
        assert!(more < 50, "a thousand changes came as {more}");
    }
}

#[tokio::test]
async fn what_a_request_needs_in_each_era_is_there() {
    let arguments = json!({"b": 1, "a": "x\ny"});
    let server = connect(&fixture(FIXTURE, &["plain"])).await.unwrap();
    let text = server.call("echo", arguments.clone()).await.unwrap().text;
    let seen: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(seen, json!({"arguments": arguments, "_meta": null}));
    server.client.close().await;

    let server = connect(&fixture(FIXTURE, &["modern-plain"])).await.unwrap();
    let text = server.call("echo", arguments.clone()).await.unwrap().text;
    let seen: Value = serde_json::from_str(&text).unwrap();
    let meta = &seen["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({}));
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "pinfold");
    assert!(meta.get("progressToken").is_none());
    server.client.close().await;
}

#[tokio::test]
async fn wanted_input_is_an_error_in_the_servers_words() {
    let server = connect(&fixture(FIXTURE, &["modern-wants"])).await.unwrap();
    let error = server.call("echo", json!({})).await.unwrap_err();
    assert!(matches!(&error, Error::InputRequired(words) if words.contains("Which region?")));
    server.client.close().await;
}

#[tokio::test]
async fn a_server_that_exits_on_discover_is_started_again_and_only_the_first_time() {
    let (_directory, path) = notes();
    let server = connect(&fixture(FIXTURE, &["dies-of-discover", &path])).await.unwrap();
    assert_eq!(server.client.info().revision.0, "2025-11-25");
    assert!(server.call("echo", json!({})).await.is_ok());
    server.client.close().await;
    let (events, _received) = mpsc::unbounded_channel();
    let again = server.client.reconnect(crate::support::SOON, events).await.unwrap();
    assert_eq!(again.list_tools().await.unwrap().len(), 1);
    again.close().await;
    assert_eq!(lines(&path), ["died"]);
}

#[tokio::test]
async fn a_server_that_hangs_on_discover_gets_initialize() {
    let (_directory, path) = notes();
    let endpoint = fixture(FIXTURE, &["hangs-on-discover", &path]);
    let server = connect_within(&endpoint, Duration::from_secs(12)).await.unwrap();
    assert_eq!(server.names().await, ["echo"]);
    server.client.close().await;

    // This one only does not answer, so it is not started again.
    let endpoint = fixture(FIXTURE, &["silent-on-discover"]);
    let server = connect_within(&endpoint, Duration::from_secs(12)).await.unwrap();
    assert_eq!(server.names().await, ["echo"]);
    server.client.close().await;
}

#[tokio::test]
async fn a_revision_is_chosen_from_those_that_the_server_names() {
    let server = connect(&fixture(FIXTURE, &["says-supported"])).await.unwrap();
    assert_eq!(server.client.info().revision.0, "2025-06-18");
    server.client.close().await;
    let server = connect(&fixture(FIXTURE, &["old"])).await.unwrap();
    assert_eq!(server.client.info().revision.0, "2024-11-05");
    server.client.close().await;
    for mode in ["speaks-nothing", "unheard-of"] {
        let error = refused(&fixture(FIXTURE, &[mode])).await;
        assert!(error.contains("2026-07-28, 2025-11-25"), "{error}");
    }
}

#[tokio::test]
async fn what_cannot_be_started_says_what_to_do() {
    let error = refused(&stdio("no-such-mcp-server", &[])).await;
    assert!(error.contains("`no-such-mcp-server`") && error.contains("install it"), "{error}");
    let error = refused(&stdio("npx -y some-server", &[])).await;
    assert!(error.contains("`args`"), "{error}");
    let error = refused(&stdio("/no/such/server", &[])).await;
    assert!(error.contains("there is no such file"), "{error}");
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = refused(&stdio(file.path(), &[])).await;
    assert!(error.contains("chmod +x"), "{error}");
    let error = refused(&stdio("/bin/sh", &["-c", "echo missing library >&2; exit 4"])).await;
    assert!(error.contains("status 4") && error.contains("missing library"), "{error}");
    let error = refused(&http("ftp://example.org/x")).await;
    assert!(error.contains("http://"), "{error}");
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = refused(&http(&format!("http://{nobody}/mcp?key=very-secret"))).await;
    assert!(error.contains("cannot reach") && !error.contains("very-secret"), "{error}");
}

/// The process ids that the fixture left: its own, a child's, a child's and its child's.
fn family(path: &str) -> Vec<u32> {
    let notes = lines(path);
    notes
        .first()
        .map_or_else(Vec::new, |line| line.split(' ').map(|pid| pid.parse().unwrap()).collect())
}

#[tokio::test]
async fn closing_ends_everything_that_the_server_started() {
    for mode in ["children", "stubborn"] {
        let (_directory, path) = notes();
        let server = connect(&fixture(FIXTURE, &[mode, &path])).await.unwrap();
        let family = family(&path);
        assert_eq!(family.len(), 4);
        assert!(family.iter().all(|pid| is_alive(*pid)));
        server.client.close().await;
        eventually("nobody lives", || !family.iter().any(|pid| is_alive(*pid))).await;
        assert!(!Path::new(&format!("/proc/{}", family[0])).exists(), "a zombie is left");
    }
}

#[tokio::test]
async fn dropping_the_client_and_the_servers_own_end_leave_nobody_either() {
    let (_directory, path) = notes();
    let server = connect(&fixture(FIXTURE, &["children", &path])).await.unwrap();
    let dropped = family(&path);
    drop(server);
    eventually("nobody lives", || !dropped.iter().any(|pid| is_alive(*pid))).await;

    let (_directory, path) = notes();
    let server = connect(&fixture(FIXTURE, &["orphans", &path])).await.unwrap();
    let orphans = family(&path);
    assert!(matches!(server.call("echo", json!({})).await, Err(Error::Lost(_))));
    eventually("nobody lives", || !orphans.iter().any(|pid| is_alive(*pid))).await;
}

#[test]
fn the_end_of_the_runtime_leaves_nobody() {
    let (_directory, path) = notes();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(connect(&fixture(FIXTURE, &["stubborn", &path]))).unwrap();
    let family = family(&path);
    drop(runtime);
    drop(server);
    let deadline = Instant::now() + Duration::from_secs(10);
    while family.iter().any(|pid| is_alive(*pid)) {
        assert!(Instant::now() < deadline, "{family:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[tokio::test]
async fn a_server_that_does_not_read_holds_nobody_up() {
    let server = connect(&fixture(FIXTURE, &["deaf"])).await.unwrap();
    assert_eq!(server.names().await, ["echo"]);
    let large = "x".repeat(100_000);
    let calls = (0..200).map(|_| {
        let mut call = call("echo", json!({"text": large}));
        call.timeout = Duration::from_millis(500);
        server.client.call_tool(call)
    });
    let started = Instant::now();
    let outcomes = futures_util::future::join_all(calls).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Err(Error::Timeout { .. }))));
    server.client.close().await;
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

/// Runs as a child of the test below: a client that is killed.
#[test]
#[ignore = "a client, started by another test"]
fn hold_a_server() {
    let Ok(path) = std::env::var("PINFOLD_TEST_HOLD") else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _server = runtime.block_on(connect(&fixture(FIXTURE, &["lonely", &path]))).unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

#[tokio::test]
async fn a_server_goes_when_the_client_is_killed() {
    let (_directory, path) = notes();
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["hostile::hold_a_server", "--exact", "--ignored"])
        .env("PINFOLD_TEST_HOLD", &path)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    eventually("the server runs", || lines(&path).len() == 1).await;
    let server: u32 = lines(&path)[0].parse().unwrap();
    assert!(is_alive(server));
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the server is gone", || !is_alive(server)).await;
}

/// Calls a tool whose server writes this line as its answer, and gives the error and how long it
/// took.
async fn answered_with(server: &Connected, arguments: Value) -> Error {
    let started = Instant::now();
    let error = server.call("echo", arguments).await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(10), "it hung: {error}");
    error
}

#[tokio::test]
async fn an_answer_with_nan_as_python_writes_it_ends_its_call_at_once() {
    let server = connect(&fixture(FIXTURE, &["default-json"])).await.unwrap();
    let error = answered_with(&server, json!({})).await;
    assert!(matches!(error, Error::Protocol(_)), "{error:?}");
    let words = error.to_string();
    assert!(words.contains("its answer is not valid JSON: NaN at byte "), "{words}");
    assert!(words.contains(r#""structuredContent": {"x": NaN}}}"#), "{words}");
    server.client.close().await;
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_ends_its_call_at_once_and_says_why() {
    let server = connect(&fixture(FIXTURE, &["writes"])).await.unwrap();
    let deep =
        format!(r#"{{"id":ID,"result":{{"a":{}1{}}}}}"#, "[".repeat(5_000), "]".repeat(5_000));
    for (line, words) in [
        (r#"{"jsonrpc":"2.0","id":ID,"result":{"x":-Infinity}}"#, "-Infinity at byte"),
        (r#"{"result":{"x":nan},"id":ID,"jsonrpc":"2.0"}"#, "nan at byte"),
        (r#"{"id":ID,"result":{"a":1},"result":{"a":2}}"#, "duplicate field `result`"),
        (r#"{"id":ID,"result":{"content":[],"content":[]}}"#, "duplicate field `content`"),
        (r#"{"id":ID,"result":{"a":1,}}"#, "not valid JSON"),
        (r#"{"id":ID,"result":{"content":[{"type":"te"#, "not valid JSON"),
        ("{\"id\":ID,\"result\":\"a\tb\"}", "control character"),
        (r#"{"jsonrpc":"2.0","id":ID}"#, "neither `result` nor `error`"),
        (deep.as_str(), "nested more than 256 levels deep"),
    ] {
        let error = answered_with(&server, json!({"line": line})).await.to_string();
        assert!(error.contains(words), "{line:.80}: {error}");
        assert!(error.len() < 400, "{error}");
    }
    // The connection is as good as before.
    let line = r#"{"id":ID,"result":{"content":[{"type":"text","text":"fine"}]}}"#;
    assert_eq!(server.call("echo", json!({"line": line})).await.unwrap().text, "fine");
    server.client.close().await;
}

#[tokio::test]
async fn a_line_that_is_too_long_is_matched_whatever_the_order_of_its_fields() {
    let server = connect(&fixture(FIXTURE, &["writes"])).await.unwrap();
    for line in [r#"{"id": ID, "jsonrpc": "2.0", "result": "PAD"}"#, r#"{"result":"PAD","id":ID}"#]
    {
        let arguments = json!({"line": line, "padding": 65 * 1024 * 1024});
        let error = answered_with(&server, arguments).await.to_string();
        assert!(error.contains("longer than 64 MB"), "{error}");
    }
    server.client.close().await;
}

#[tokio::test]
async fn a_text_cut_inside_a_character_gets_through() {
    let server = connect(&fixture(FIXTURE, &["writes"])).await.unwrap();
    let line = r#"{"id":ID,"result":{"content":[{"type":"text","text":"half \\ud83d"}],"structuredContent":{"a":"\\udE00"}}}"#
        .replace("\\\\", "\\");
    let result = server.call("echo", json!({"line": line})).await.unwrap();
    assert_eq!(result.text, "half \u{fffd}");
    assert_eq!(result.structured.unwrap().get(), r#"{"a":"\ufffd"}"#);
    server.client.close().await;
}

#[tokio::test]
async fn a_timeout_says_what_arrived_meanwhile_and_could_not_be_read() {
    let server = connect(&fixture(FIXTURE, &["writes"])).await.unwrap();
    let long = "y".repeat(5_000);
    let lines = format!("{{\n  \"id\": ID,\n  \"result\": \"{long}\"\n}}");
    let mut unreadable = call("echo", json!({"line": lines}));
    unreadable.timeout = Duration::from_millis(700);
    let error = server.client.call_tool(unreadable).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
    let words = error.to_string();
    assert!(
        words.contains("; meanwhile 4 lines arrived that could not be read, the first: {"),
        "{words}"
    );
    // It does not stick to later calls.
    let mut silent = call("echo", json!({"line": ""}));
    silent.timeout = Duration::from_millis(300);
    let words = server.client.call_tool(silent).await.unwrap_err().to_string();
    assert!(!words.contains("meanwhile"), "{words}");
    let mut long = call("echo", json!({"line": long}));
    long.timeout = Duration::from_millis(300);
    let words = server.client.call_tool(long).await.unwrap_err().to_string();
    assert!(words.contains("meanwhile 1 line arrived") && words.len() < 400, "{words}");
    server.client.close().await;
}

/// A server that repeats `secret` wherever it can, and an environment value that is none.
fn repeating(secret: &str, secrets: &[&str]) -> Endpoint {
    let Endpoint::Stdio { command, args, cwd, .. } = fixture(FIXTURE, &["repeats"]) else {
        panic!()
    };
    let env = BTreeMap::from([
        ("TOKEN".to_owned(), secret.to_owned()),
        ("REGION".to_owned(), "eu-central-1".to_owned()),
    ]);
    let secrets = mcp::Secrets::new(secrets.iter().copied());
    Endpoint::Stdio { command, args, env, cwd, secrets }
}

#[tokio::test]
async fn a_secret_that_a_server_repeats_is_hidden_in_all_it_sends() {
    let secret = "s3cr3t/\"XYZZY\"-\u{e9}42";
    // The secret of another server counts, too.
    for secrets in [vec![secret], vec!["another-server's", secret]] {
        let endpoint = repeating(secret, &secrets);
        let mut server = connect(&endpoint).await.unwrap();
        let tools = server.client.list_tools().await.unwrap();
        assert_eq!(tools[0].description.as_deref(), Some("uses *** of eu-central-1"));
        let (sender, progress) = mpsc::unbounded_channel();
        let mut repeated = call("echo", json!({}));
        repeated.progress = Some(sender.clone());
        let result = server.client.call_tool(repeated).await.unwrap();
        assert!(result.is_error);
        assert_eq!(result.text, r#"{"token": "***", "region": "eu-central-1"}"#);
        assert_eq!(result.structured.as_ref().unwrap().get(), r#"{"***": [1.5, "***"]}"#);
        assert_eq!(drain(progress)[0].message.as_deref(), Some("***"));

        let mut fails = call("echo", json!({"fails": true}));
        fails.progress = Some(sender);
        let Err(Error::Rpc { message, data, .. }) = server.client.call_tool(fails).await else {
            panic!("no error")
        };
        assert_eq!(message, "refused ***");
        assert_eq!(data.unwrap().get(), r#"{"with": "***"}"#);
        server.client.close().await;
        let log = server.log();
        assert!(log.iter().any(|line| line == r#"log: {"with": "***"}"#), "{log:?}");
        assert!(log.iter().any(|line| line == "noise: noise ***"), "{log:?}");
        assert!(log.iter().any(|line| line == "stderr: ***"), "{log:?}");
        let everything = format!("{result:?} {tools:?} {log:?} {endpoint:?} {:?}", server.client);
        assert!(!everything.contains("XYZZY"), "{everything}");
    }
}

#[tokio::test]
async fn a_value_that_stands_in_the_configuration_is_left_in_results() {
    let server = connect(&repeating("a-plain-directory", &[])).await.unwrap();
    let (sender, _progress) = mpsc::unbounded_channel();
    let mut repeated = call("echo", json!({}));
    repeated.progress = Some(sender);
    let result = server.client.call_tool(repeated).await.unwrap();
    assert_eq!(result.text, r#"{"token": "a-plain-directory", "region": "eu-central-1"}"#);
    server.client.close().await;
}

#[tokio::test]
async fn secrets_in_command_arguments_and_address_are_in_no_error() {
    let secret = "s3cr3t-XYZZY-42";
    let secrets = mcp::Secrets::new([secret]);
    let program = |command: &str, args: &[&str]| Endpoint::Stdio {
        command: command.to_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: BTreeMap::new(),
        cwd: None,
        secrets: secrets.clone(),
    };
    let address = Endpoint::Http {
        url: format!("http://{secret}.invalid:1/x"),
        headers: BTreeMap::new(),
        login: None,
        secrets: secrets.clone(),
    };
    let words = ["-c", "echo bad token $0 >&2; exit 1", secret];
    for endpoint in [program(secret, &[]), program("/bin/sh", &words), address] {
        let shown = format!("{} {endpoint:?}", refused(&endpoint).await);
        assert!(shown.contains("***"), "{shown}");
        assert!(!shown.to_ascii_lowercase().contains("xyzzy"), "{shown}");
    }
}

#[tokio::test]
async fn a_server_that_dies_at_start_says_why_also_where_the_write_fails_first() {
    for _ in 0..20 {
        let script = "exec <&-; echo no licence >&2; sleep 0.05; exit 4";
        let why = refused(&stdio("/bin/sh", &["-c", script])).await;
        assert!(why.contains("exited with status 4") && why.contains("no licence"), "{why}");
    }
}

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use mcp::Endpoint;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::*;

/// For everything that should take a moment.
const SOON: Duration = Duration::from_secs(20);

const BRIEF: Patience =
    Patience { connect: Duration::from_secs(20), call: Duration::from_secs(10) };

fn program(command: &str, args: &[&str]) -> Endpoint {
    Endpoint::Stdio {
        command: command.to_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: BTreeMap::new(),
        cwd: None,
        secrets: mcp::Secrets::default(),
    }
}

/// One of the misbehaving servers of the crate `mcp`.
fn hostile(args: &[&str]) -> Endpoint {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mcp/tests/fixtures/hostile.py");
    let system = "/usr/bin/python3";
    let python = if Path::new(system).exists() { system } else { "python3" };
    program(python, &[&["-u", path.to_str().unwrap()], args].concat())
}

fn call(arguments: Value) -> SourceCall {
    SourceCall {
        tool: "echo".to_owned(),
        arguments: RawValue::from_string(arguments.to_string()).unwrap(),
        cancel: CancellationToken::new(),
        timeout: SOON,
        passed: mcp::Passed::default(),
        progress: None,
    }
}

async fn until(upstream: &Upstream, what: &str, mut holds: impl FnMut(&Snapshot) -> bool) {
    let mut changes = upstream.changes();
    let wait = async {
        while !holds(&upstream.snapshot()) {
            changes.changed().await.unwrap();
        }
    };
    let waited = tokio::time::timeout(SOON, wait).await;
    assert!(waited.is_ok(), "never {what}: {:?}", upstream.snapshot());
}

fn is_ready(snapshot: &Snapshot) -> bool {
    snapshot.state == State::Ready
}

fn is_down(snapshot: &Snapshot) -> bool {
    matches!(snapshot.state, State::Down { .. })
}

fn names(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.tools.iter().map(|tool| tool.name.as_str()).collect()
}

fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).unwrap_or_default().lines().count()
}

#[tokio::test]
async fn nobody_waits_at_start_but_a_call_does() {
    let started = Instant::now();
    let upstream = Upstream::start("slow", hostile(&["slow", "1"]), BRIEF);
    assert_eq!(upstream.snapshot().state, State::Starting);
    assert!(started.elapsed() < Duration::from_millis(200));
    let result = upstream.call(call(json!({"a": 1}))).await.unwrap();
    assert!(result.text.contains(r#""a": 1"#), "{}", result.text);
    assert_eq!(names(&upstream.snapshot()), ["echo"]);
    upstream.close().await;
    assert!(is_down(&upstream.snapshot()));
    let closed = upstream.call(call(json!({}))).await;
    assert!(matches!(closed, Err(SourceError::Unavailable(_))), "{closed:?}");
}

#[tokio::test]
async fn a_call_does_not_wait_for_a_server_that_starts_for_ever() {
    let patience = Patience { call: Duration::from_millis(300), ..BRIEF };
    let upstream = Upstream::start("slow", hostile(&["slow", "60"]), patience);
    let started = Instant::now();
    let outcome = upstream.call(call(json!({}))).await;
    assert!(matches!(&outcome, Err(SourceError::Unavailable(why)) if why.contains("starting")));
    assert!(started.elapsed() < Duration::from_secs(3));

    let cancelled = call(json!({}));
    cancelled.cancel.cancel();
    assert!(matches!(upstream.call(cancelled).await, Err(SourceError::Cancelled)));
}

#[tokio::test]
async fn a_missing_command_is_named_and_hides_nobody() {
    let missing = Upstream::start("missing", program("no-such-mcp-server", &[]), BRIEF);
    let fine = Upstream::start("fine", hostile(&["plain"]), BRIEF);
    until(&missing, "down", is_down).await;
    until(&fine, "ready", is_ready).await;
    assert!(fine.call(call(json!({}))).await.is_ok());
    let started = Instant::now();
    let Err(SourceError::Unavailable(why)) = missing.call(call(json!({}))).await else {
        panic!("available")
    };
    assert!(why.contains("no-such-mcp-server"), "{why}");
    assert!(started.elapsed() < Duration::from_secs(3));
    fine.close().await;
}

#[tokio::test]
async fn a_death_in_the_call_is_a_loss_and_the_server_comes_back() {
    let upstream = Upstream::start("dies", hostile(&["dies"]), BRIEF);
    for _ in 0..2 {
        until(&upstream, "ready", is_ready).await;
        let Err(SourceError::Lost(why)) = upstream.call(call(json!({}))).await else {
            panic!("not lost")
        };
        assert!(why.contains("status 7"), "{why}");
        until(&upstream, "down", is_down).await;
        // What it offered stays listed.
        assert_eq!(names(&upstream.snapshot()), ["echo"]);
    }
    upstream.close().await;
}

#[tokio::test]
async fn changes_are_fetched_and_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes");
    for mode in ["changes", "modern-changes"] {
        let _ = std::fs::remove_file(&path);
        let endpoint = hostile(&[mode, path.to_str().unwrap()]);
        let upstream = Upstream::start("changes", endpoint, BRIEF);
        until(&upstream, "grown", |snapshot| names(snapshot) == ["echo", "new"]).await;
        assert_eq!(upstream.snapshot().state, State::Ready);
        upstream.close().await;
    }
}

#[tokio::test]
async fn a_change_announced_before_an_answer_is_there_for_the_next_decision() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes");
    let upstream = Upstream::start("turns", hostile(&["turns", path.to_str().unwrap()]), BRIEF);
    until(&upstream, "ready", is_ready).await;
    let destructive = |snapshot: &Snapshot| snapshot.tools[0].annotations.destructive;
    assert_eq!(destructive(&upstream.snapshot()), None);
    assert!(upstream.settled().await);
    upstream.call(call(json!({}))).await.unwrap();
    assert!(upstream.settled().await);
    assert_eq!(destructive(&upstream.snapshot()), Some(true));
    upstream.close().await;
}

#[tokio::test]
async fn a_failed_list_does_not_replace_a_good_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes");
    let upstream =
        Upstream::start("fails", hostile(&["fails-later", path.to_str().unwrap()]), BRIEF);
    until(&upstream, "ready", is_ready).await;
    let deadline = Instant::now() + SOON;
    while lines(&path) < 2 {
        assert!(Instant::now() < deadline, "it was not listed again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(names(&upstream.snapshot()), ["echo"]);
    assert_eq!(upstream.snapshot().state, State::Ready);
    assert!(!upstream.settled().await, "what was announced was never listed");
    upstream.close().await;
}

#[tokio::test]
async fn silence_and_cancels_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes");
    let upstream = Upstream::start("silent", hostile(&["silent", path.to_str().unwrap()]), BRIEF);
    let mut silent = call(json!({}));
    silent.timeout = Duration::from_secs(2);
    let Err(SourceError::Timeout(why)) = upstream.call(silent).await else { panic!("no timeout") };
    assert!(why.contains("no answer within 2."), "{why}");
    let cancelled = call(json!({}));
    let cancel = cancelled.cancel.clone();
    let (outcome, ()) = tokio::join!(upstream.call(cancelled), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        cancel.cancel();
    });
    assert!(matches!(outcome, Err(SourceError::Cancelled)), "{outcome:?}");
    upstream.close().await;
    // Asked twice, told twice.
    assert_eq!(lines(&path), 4);
}

#[tokio::test]
async fn errors_and_broken_results_are_told_in_the_servers_words() {
    for (mode, arguments, words) in [
        ("error", json!({}), "no such device (-32000)"),
        ("strange", json!({"result": 5}), "a tool's result is not an object"),
        ("modern-wants", json!({}), "Which region?"),
    ] {
        let upstream = Upstream::start("fleet", hostile(&[mode]), BRIEF);
        let outcome = upstream.call(call(arguments)).await;
        let Err(SourceError::Failed(why) | SourceError::Unusable(why)) = outcome else {
            panic!("{mode}: {outcome:?}")
        };
        assert!(why.contains(words), "{why}");
        upstream.close().await;
    }
}

#[tokio::test]
async fn twenty_servers_start_side_by_side() {
    let started = Instant::now();
    let all: Vec<_> = (0..20)
        .map(|n| Upstream::start(&format!("s{n}"), hostile(&["slow", "1"]), BRIEF))
        .collect();
    for upstream in &all {
        until(upstream, "ready", is_ready).await;
    }
    // One after the other they would take more than 20 seconds.
    assert!(started.elapsed() < Duration::from_secs(12), "{:?}", started.elapsed());
    for upstream in &all {
        upstream.close().await;
    }
}

#[tokio::test]
async fn a_call_has_a_server_tried_again_at_once_and_only_once() {
    let directory = tempfile::tempdir().unwrap();
    let (attempts, file) = (directory.path().join("attempts"), directory.path().join("file"));
    let arguments = ["needs-file", attempts.to_str().unwrap(), file.to_str().unwrap()];
    let upstream = Upstream::start("late", hostile(&arguments), BRIEF);
    // Each attempt starts it twice, since it might have died of the probe. After the third the
    // next is seconds away.
    let deadline = Instant::now() + SOON;
    while lines(&attempts) < 6 {
        assert!(Instant::now() < deadline, "it was not tried again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    until(&upstream, "down", is_down).await;
    let snapshot = upstream.snapshot();
    let State::Down { reason } = &snapshot.state else { panic!("not down") };
    assert!(reason.contains("the file is not there"), "{reason}");
    tokio::time::sleep(Duration::from_millis(200)).await;
    // Right after an attempt there is no other.
    let soon = upstream.call(call(json!({}))).await;
    assert!(matches!(soon, Err(SourceError::Unavailable(_))), "{soon:?}");

    // On a slow machine the next attempt may be due before the calls: it is the one, then.
    let before = lines(&attempts);
    std::fs::write(&file, "").unwrap();
    tokio::time::sleep(ATTEMPTS_APART).await;
    let calls = (0..20).map(|_| upstream.call(call(json!({}))));
    let outcomes = futures_util::future::join_all(calls).await;
    assert!(outcomes.iter().all(Result::is_ok), "{:?}", outcomes[0]);
    assert_eq!(lines(&attempts), before + 1);
    upstream.close().await;
}

#[tokio::test]
async fn a_restarted_http_server_is_found_again() {
    use tokio::io::{AsyncBufReadExt, BufReader};
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tools = std::env::var_os("PINFOLD_TEST_TOOLS")
        .map_or_else(|| root.join("target/test-tools"), std::path::PathBuf::from);
    let python = tools.join("venv/bin/python");
    if !python.exists() {
        let why = format!("{} is not there (install with .ci/test-tools)", python.display());
        assert!(std::env::var("PINFOLD_TEST_REQUIRE").as_deref() != Ok("all"), "{why}");
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("SKIPPED: {why}\n"));
        return;
    }
    let serve = |port: u16| {
        let script = root.join("crates/mcp/tests/fixtures/fastmcp_server.py");
        let mut child = tokio::process::Command::new(&python)
            .arg(script)
            .arg(port.to_string())
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        async move { (lines.next_line().await.unwrap().unwrap().parse::<u16>().unwrap(), child) }
    };
    let (port, mut child) = serve(0).await;
    let url = format!("http://127.0.0.1:{port}/mcp");
    let endpoint = Endpoint::Http {
        url,
        headers: BTreeMap::new(),
        login: None,
        secrets: mcp::Secrets::default(),
    };
    let upstream = Upstream::start("web", endpoint, BRIEF);
    until(&upstream, "ready", is_ready).await;
    let count = upstream.snapshot().tools.len();
    let add = || SourceCall { tool: "add".to_owned(), ..call(json!({"a": 1, "b": 2})) };
    assert_eq!(upstream.call(add()).await.unwrap().text, "3");

    child.kill().await.unwrap();
    let down = upstream.call(add()).await;
    assert!(matches!(down, Err(SourceError::Unavailable(_))), "{down:?}");
    until(&upstream, "down", is_down).await;
    assert_eq!(upstream.snapshot().tools.len(), count);

    let (_, _child) = serve(port).await;
    tokio::time::sleep(ATTEMPTS_APART).await;
    assert_eq!(upstream.call(add()).await.unwrap().text, "3");
    upstream.close().await;
}

#[tokio::test]
async fn a_call_of_a_tool_that_is_gone_has_the_tools_listed_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes");
    let upstream = Upstream::start("quiet", hostile(&["quiet", path.to_str().unwrap()]), BRIEF);
    until(&upstream, "ready", is_ready).await;
    assert_eq!(names(&upstream.snapshot()), ["echo"]);
    let outcome = upstream.call(call(json!({}))).await;
    assert!(matches!(&outcome, Err(SourceError::Failed(why)) if why.contains("unknown tool")));
    until(&upstream, "listed again", |snapshot| names(snapshot) == ["other"]).await;
    upstream.close().await;
}

#[tokio::test]
async fn an_unreadable_answer_is_told_at_once_and_its_outcome_is_unknown() {
    let upstream = Upstream::start("fleet", hostile(&["default-json"]), BRIEF);
    until(&upstream, "ready", is_ready).await;
    let started = Instant::now();
    let outcome = upstream.call(call(json!({}))).await;
    assert!(started.elapsed() < Duration::from_secs(5), "it hung: {outcome:?}");
    let Err(SourceError::Unusable(why)) = outcome else { panic!("{outcome:?}") };
    assert!(why.contains("not valid JSON: NaN"), "{why}");
    upstream.close().await;
}

#[tokio::test]
async fn a_timeout_tells_of_unreadable_lines() {
    let upstream = Upstream::start("fleet", hostile(&["writes"]), BRIEF);
    until(&upstream, "ready", is_ready).await;
    let mut unreadable = call(json!({"line": "print debugging"}));
    unreadable.timeout = Duration::from_millis(500);
    let Err(SourceError::Timeout(why)) = upstream.call(unreadable).await else { panic!() };
    assert!(
        why.ends_with(
            "meanwhile 1 line arrived that could not be read, the first: print debugging"
        ),
        "{why}"
    );
    upstream.close().await;
}

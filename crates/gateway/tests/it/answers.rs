//! What comes back: results, errors, limits, and what the model is told of a script.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use gateway::config::Scripts;
use gateway::policy::PermissionMode;
use gateway::{Kind, Outcome, Progress, ScriptState};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::ground::{Ground, Setup, done, refused};

#[tokio::test]
async fn five_hundred_calls_and_one_answer() {
    let ground = Ground::new().await;
    let code = "rows = call_many('fleet__get', [{'sn': str(n)} for n in range(500)])\n\
                print(len(rows), [row['was']['sn'] for row in rows] == [str(n) for n in range(500)])\n";
    let said = ground.run(code, &[]).await;
    assert!(!said.is_error && said.structured.is_none());
    let (account, printed) = said.text.split_once('\n').unwrap();
    assert!(account.starts_with("ok · 500 calls, 0 failed · "), "{account}");
    assert!(account.ends_with("/calls.jsonl"), "{account}");
    assert_eq!(printed, "500 True");
    assert_eq!(ground.fleet.count("get"), 500);
    let lines = ground.lines();
    assert_eq!(lines.len(), 500);
    let mut numbers: Vec<u64> = lines.iter().map(|line| line["n"].as_u64().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=500).collect::<Vec<_>>());
    let first = &lines[0];
    assert_eq!((&first["tool"], &first["ok"]), (&json!("fleet__get"), &json!(true)));
    assert_eq!(first["summary"], "get done");
    assert!(first["at"].as_str().unwrap().ends_with('Z') && first["ms"].is_u64(), "{first}");
    let rows = ground.audit().await;
    assert_eq!(rows.len(), 1);
    let row = &rows[0];
    assert_eq!((row.kind.as_str(), row.outcome.as_str()), ("script", "ok"));
    assert_eq!((row.principal.as_str(), row.isolation.as_str()), ("ann", "full"));
    let detail: serde_json::Value = serde_json::from_str(&row.detail).unwrap();
    assert_eq!(detail["tools"], json!({"fleet__get": {"calls": 500, "failed": 0}}));
    assert_eq!(
        (&detail["calls"], &detail["failed"], &detail["exit_code"]),
        (&json!(500), &json!(0), &json!(0))
    );
    assert_eq!(detail["description"], "tries things");
    assert!(detail["code"].as_str().unwrap().contains("call_many"));
    assert!(account.contains(detail["directory"].as_str().unwrap()));
}

#[tokio::test]
async fn an_error_of_a_tool_that_nobody_catches_fails_the_script_and_says_what_was_done() {
    let ground = Ground::mode(PermissionMode::Auto).await;
    let code = "call('fleet__set', {'sn': 'a'})\nprint('before')\ncall('fleet__fail', {'sn': 'b'})\nprint('after')\n";
    let said = ground.run(code, &["fleet__set"]).await;
    assert!(said.is_error);
    let text = &said.text;
    assert!(text.starts_with("failed · 2 calls, 1 failed · "), "{text}");
    assert!(text.contains("called until then: fleet__fail 1 (1 failed), fleet__set 1"), "{text}");
    assert!(text.contains("\nbefore\n") && !text.contains("after\n"), "{text}");
    assert!(text.contains("line 4") && text.contains("no such device"), "{text}");
    let lines = ground.lines();
    assert_eq!(lines[1]["ok"], false);
    assert_eq!(lines[1]["summary"], "no such device");
}

#[tokio::test]
async fn kinds_of_errors_reach_the_script() {
    let ground = Ground::new().await;
    let code = "for name, args in [('fail', {}), ('lost', {}), ('down', {}), ('get', {'sn': 5}), ('get', {'nope': 1})]:\n\
                \x20   try:\n        call('fleet__' + name, args)\n\
                \x20   except ToolError as error:\n        print(error.kind, error.retryable, error.tool, error.message)\n\
                r = call_raw('fleet__fail', {})\nprint(r['is_error'], r['text'])\n\
                m = call_raw('fleet__media', {})\nprint(m['content'][0]['mimeType'])\n\
                print(call('fleet__text', {}))\n";
    let said = ground.run(code, &[]).await;
    let lines: Vec<&str> = said.text.lines().skip(1).collect();
    assert_eq!(lines[0], "tool False fleet__fail no such device");
    assert!(
        lines[1].starts_with("upstream True fleet__lost the server \"fleet\" was lost"),
        "{lines:?}"
    );
    assert!(
        lines[2].starts_with(
            "upstream True fleet__down the server \"fleet\" cannot be reached and nothing was sent"
        ),
        "{lines:?}"
    );
    assert!(lines[3].starts_with("invalid_arguments False fleet__get the arguments do not fit fleet__get: /sn: 5 is not of type \"string\""), "{lines:?}");
    assert!(lines[4].contains("\"nope\" is not known"), "{lines:?}");
    assert_eq!(&lines[5..], ["True no such device", "image/png", "line one", "line two"]);
    assert_eq!(ground.fleet.count("get"), 0);
}

#[tokio::test]
async fn direct_calls_that_go_wrong() {
    let ground = Ground::mode(PermissionMode::Auto).await;
    assert!(done(ground.call("fleet__fail", json!({})).await).is_error);
    let Outcome::Failed(failure) = ground.call("fleet__lost", json!({})).await else { panic!() };
    assert_eq!((failure.kind, failure.retryable), (Kind::Upstream, true));
    let Outcome::Failed(failure) = ground.call("fleet__vanish", json!({})).await else { panic!() };
    assert_eq!((failure.kind, failure.retryable), (Kind::Upstream, false));
    assert!(failure.message.contains("whether it took effect is unknown"), "{failure:?}");
    for (arguments, expected) in [
        (r#"[1]"#, "must be a JSON object"),
        (r#"{"sn":"a","sn":"b"}"#, "stands twice"),
        (r#"{"sn":7}"#, "/sn: 7 is not of type \"string\""),
    ] {
        let arguments = serde_json::from_str(arguments).unwrap();
        let outcome = ground.raw("fleet__get", arguments, None, Default::default()).await;
        let failure = refused(outcome);
        assert_eq!(failure.kind, Kind::InvalidArguments);
        assert!(failure.message.contains(expected), "{}", failure.message);
    }
    let words: Vec<String> = ground.audit().await.into_iter().map(|row| row.outcome).collect();
    assert_eq!(words, ["refused", "refused", "refused", "unknown", "failed", "failed"]);
}

#[tokio::test]
async fn scripts_that_are_wrong_are_refused_with_the_line() {
    let ground = Ground::new().await;
    let failure = refused(ground.call("run_script", Ground::script("x = (1,\ny = 2", &[])).await);
    assert_eq!(failure.kind, Kind::InvalidArguments);
    assert!(failure.message.contains("does not parse, line 2"), "{}", failure.message);
    for (arguments, expected) in [
        (json!({"code": "", "description": "x"}), "`code` is empty"),
        (json!({"code": "1"}), "\"description\" is missing"),
        (json!({"code": "1", "description": "x", "tool": ["a"]}), "did you mean \"tools\""),
        (json!({"code": "a\u{0}b", "description": "x"}), "NUL"),
        (json!({"code": "#".repeat(1 << 20) + "#", "description": "x"}), "at most 1048576"),
    ] {
        let failure = refused(ground.call("run_script", arguments).await);
        assert!(failure.message.contains(expected), "{}", failure.message);
    }
    assert!(ground.records().is_empty());
}

#[tokio::test]
async fn a_script_without_output_says_so() {
    let ground = Ground::new().await;
    let said = ground.run("rows = [call('fleet__get', {}) for _ in range(3)]", &[]).await;
    assert!(said.text.starts_with("ok · 3 calls, 0 failed · "), "{}", said.text);
    assert!(said.text.ends_with("\n(the script printed nothing)"), "{}", said.text);
}

#[tokio::test]
async fn a_flood_of_output_is_cut_for_the_model_and_kept_in_the_file() {
    let scripts = Scripts { output_chars: 1000, ..Scripts::default() };
    let ground = Setup { scripts, ..Setup::default() }.open().await;
    let code = "print('start')\nfor _ in range(100):\n    print('x' * 1_000_000)\nprint('end')\n";
    let said = ground.run(code, &[]).await;
    assert!(!said.is_error);
    assert!(said.text.chars().count() < 1300, "{}", said.text.len());
    let (account, printed) = said.text.split_once('\n').unwrap();
    assert!(account.starts_with("ok · 0 calls"), "{account}");
    assert!(printed.starts_with("start\nxxx") && printed.ends_with("xxx\nend"), "{printed}");
    assert!(
        printed.contains("[… cut here: 100000110 bytes in all, see .agent/scripts/"),
        "{printed}"
    );
    let kept = ground.records()[0].join("output.txt");
    assert_eq!(std::fs::metadata(kept).unwrap().len(), 100_000_110);
}

#[tokio::test]
async fn a_big_result_reaches_the_script_whole() {
    let ground = Ground::new().await;
    let said = ground.run("print(len(call('fleet__big', {})))", &[]).await;
    assert!(said.text.ends_with("\n5000000"), "{}", said.text);
    let summary = ground.lines()[0]["summary"].as_str().unwrap().to_owned();
    assert!(summary.ends_with('…') && summary.chars().count() <= 201, "{}", summary.len());
    let code = "print(call('fleet__get', {'sn': 's' * 3_000_000})['was']['sn'] == 's' * 3_000_000)";
    let said = ground.run(code, &[]).await;
    assert!(said.text.ends_with("\nTrue"), "{}", said.text);
    let line = ground.lines()[0].to_string();
    assert!(line.len() < 6000 && line.contains("3000009 bytes in all"), "{}", line.len());
}

#[tokio::test]
async fn limits_stop_a_script_and_are_named() {
    let scripts = Scripts { timeout_sec: 1, memory_mb: 64, ..Scripts::default() };
    let ground = Setup { scripts, ..Setup::default() }.open().await;
    let said = ground.run("print('on', flush=True)\nwhile True: pass", &[]).await;
    assert!(
        said.is_error && said.text.starts_with("stopped: it ran longer than 1 s · "),
        "{}",
        said.text
    );
    assert!(said.text.ends_with("\non"), "{}", said.text);
    let said = ground.run("x = bytearray(10**10)", &[]).await;
    assert!(
        said.text.starts_with("stopped: it needed more than 64 MB of memory · "),
        "{}",
        said.text
    );
    let words: Vec<String> = ground.audit().await.into_iter().map(|row| row.outcome).collect();
    assert_eq!(words, ["memory_limit", "timeout"]);
}

#[tokio::test]
async fn the_budget_is_for_calls_that_reach_a_tool() {
    let scripts = Scripts { max_calls: 3, ..Scripts::default() };
    let ground = Setup { scripts, ..Setup::default() }.open().await;
    let code = "for name in ['fleet__nope'] * 5 + ['fleet__get'] * 3:\n\
                \x20   try:\n        call(name, {})\n    except ToolError:\n        pass\n\
                try:\n    call('fleet__get', {})\nexcept ToolError as error:\n    print(error.kind)\n";
    let said = ground.run(code, &[]).await;
    assert!(said.text.ends_with("\nlimit"), "{}", said.text);
    assert_eq!(ground.fleet.count("get"), 3);
}

#[tokio::test]
async fn refusals_without_end_do_not_fill_the_disk() {
    let ground = Ground::new().await;
    let code =
        "rows = call_many('fleet__nope', [{}] * 6000, return_errors=True)\nprint(len(rows))\n";
    let said = ground.run(code, &[]).await;
    assert!(said.text.starts_with("ok · 0 calls, 6000 failed · "), "{}", said.text);
    assert!(
        said.text.contains("note: 1000 more refused calls are not in calls.jsonl"),
        "{}",
        said.text
    );
    assert_eq!(ground.lines().len(), 5000);
}

#[tokio::test]
async fn a_tool_that_never_answers_is_given_up() {
    let scripts = Scripts { call_timeout_sec: 1, ..Scripts::default() };
    let ground = Setup { scripts, ..Setup::default() }.open().await;
    let began = Instant::now();
    let Outcome::Failed(failure) = ground.call("fleet__dead", json!({})).await else { panic!() };
    assert_eq!((failure.kind, failure.retryable), (Kind::Timeout, true));
    let code =
        "try:\n    call('fleet__dead', {})\nexcept ToolError as error:\n    print(error.kind)\n";
    assert!(ground.run(code, &[]).await.text.ends_with("\ntimeout"));
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn cancelling_reaches_the_script_and_the_source() {
    let ground = Ground::mode(PermissionMode::Auto).await;
    let cancel = CancellationToken::new();
    let (sender, mut progress) = tokio::sync::mpsc::unbounded_channel();
    let stop = cancel.clone();
    let fleet = ground.fleet.clone();
    let canceller = tokio::spawn(async move {
        while fleet.count("slow") + fleet.count("stuck") < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        stop.cancel();
    });
    let code = "import threading\nprint('on', flush=True)\n\
                threading.Thread(target=call, args=('fleet__slow', {})).start()\n\
                call('fleet__stuck', {})\n";
    let request = Ground::script(code, &["fleet__stuck"]);
    let said = done(ground.call_with("run_script", request, Some(sender), cancel).await);
    canceller.await.unwrap();
    assert!(said.is_error && said.text.starts_with("cancelled · "), "{}", said.text);
    assert_eq!(ground.fleet.cancelled.load(Ordering::SeqCst), 2);
    let lines = ground.lines();
    let line = |tool: &str| lines.iter().find(|line| line["tool"] == tool).unwrap().clone();
    assert_eq!(line("fleet__slow")["ok"], false);
    let stuck = line("fleet__stuck");
    assert!(
        stuck["ok"].is_null() && stuck["summary"].as_str().unwrap().starts_with("outcome unknown"),
        "{stuck}"
    );
    let mut last = None;
    while let Ok(Progress::Script(told)) = progress.try_recv() {
        last = Some(told);
    }
    assert_eq!(last.unwrap().state, ScriptState::Cancelled);
    assert_eq!(ground.audit().await[0].outcome, "cancelled");

    let before = ground.fleet.count("slow");
    assert_eq!(refused(dropped_in_the_middle(&ground).await).kind, Kind::Cancelled);
    assert_eq!(ground.fleet.count("slow"), before + 1);
}

/// A caller that goes away: the call is cancelled and recorded all the same.
async fn dropped_in_the_middle(ground: &Ground) -> Outcome {
    let before = ground.fleet.cancelled.load(Ordering::SeqCst);
    let call = ground.call("fleet__slow", json!({}));
    let _ = tokio::time::timeout(Duration::from_millis(100), call).await;
    let began = Instant::now();
    while ground.audit().await[0].tool != "fleet__slow" {
        assert!(began.elapsed() < Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(ground.fleet.cancelled.load(Ordering::SeqCst), before + 1);
    let cancel = CancellationToken::new();
    cancel.cancel();
    ground.call_with("fleet__slow", json!({}), None, cancel).await
}

#[tokio::test]
async fn progress_is_told_once_a_second_and_at_the_end() {
    let ground = Ground::new().await;
    let (sender, mut progress) = tokio::sync::mpsc::unbounded_channel();
    let code = "import time\nfor n in range(25):\n    call('fleet__get', {})\n    progress(n + 1, 25, 'step')\n    time.sleep(0.1)\n";
    let request = Ground::script(code, &[]);
    done(ground.call_with("run_script", request, Some(sender), CancellationToken::new()).await);
    let mut told = Vec::new();
    while let Ok(Progress::Script(one)) = progress.try_recv() {
        told.push(one);
    }
    assert!((3..=5).contains(&told.len()), "{told:?}");
    assert!(told.windows(2).all(|pair| pair[0].calls <= pair[1].calls));
    assert!(told[..told.len() - 1].iter().all(|one| one.state == ScriptState::Running));
    let last = told.last().unwrap();
    assert_eq!(
        (last.state, last.calls, last.done, last.total),
        (ScriptState::Finished, 25, Some(25.0), Some(25.0))
    );
    assert_eq!(
        (last.message.as_deref(), last.description.as_str()),
        (Some("step"), "tries things")
    );
}

#[tokio::test]
async fn two_scripts_at_once_have_nothing_in_common() {
    let ground = Ground::new().await;
    let code = |name: &str| {
        format!(
            "rows = call_many('fleet__get', [{{'sn': '{name}'}}] * 100)\nprint(set(row['was']['sn'] for row in rows))\n"
        )
    };
    let (one, two) = (code("one"), code("two"));
    let (one, two) = tokio::join!(ground.run(&one, &[]), ground.run(&two, &[]));
    assert!(
        one.text.ends_with("{'one'}") && two.text.ends_with("{'two'}"),
        "{} {}",
        one.text,
        two.text
    );
    let records = ground.records();
    assert_eq!(records.len(), 2);
    for folder in records {
        let lines = crate::ground::lines(&folder);
        assert_eq!(lines.len(), 100);
        assert!(lines.iter().all(|line| line["args"] == lines[0]["args"]));
    }
}

#[tokio::test]
async fn awaited_and_failing_helpers_keep_the_account_first() {
    let ground = Ground::new().await;
    let code = "import asyncio\nasync def main():\n    print((await call('fleet__get', {}))['ok'])\nasyncio.run(main())\nimport sys\nsys.exit('gave up')\n";
    let said = ground.run(code, &[]).await;
    assert!(said.is_error);
    let first = said.text.lines().next().unwrap();
    assert!(first.starts_with("failed") && first.contains(" · 1 call, 0 failed · "), "{first}");
    assert!(said.text.contains("gave up"), "{}", said.text);
}

/// The example in the description of `run_script`, with the name of a tool that is there.
#[tokio::test]
async fn the_example_that_models_are_given_works() {
    let ground = Ground::new().await;
    let listed = ground.gateway.tools(&ground.session);
    let run_script = listed.iter().find(|tool| tool.name == "run_script").unwrap();
    let definition: serde_json::Value = serde_json::from_str(run_script.definition.get()).unwrap();
    let description = definition["description"].as_str().unwrap();
    let example: String = description
        .lines()
        .skip_while(|line| !line.starts_with("from agent_tools import"))
        .take_while(|line| !line.is_empty())
        .map(|line| line.replace("server__tool", "fleet__count") + "\n")
        .collect();
    let count = crate::ground::tool(
        "count",
        json!({
            "annotations": {"readOnlyHint": true},
            "inputSchema": {"type": "object", "properties": {"id": {"type": "integer"}}},
        }),
    );
    ground.fleet.now(vec![count], gateway::sources::State::Ready);
    let arguments = json!({"code": example, "description": "the example"});
    let said = done(ground.call("run_script", arguments).await);
    assert!(said.text.starts_with("ok · 500 calls, 0 failed"), "{example}{}", said.text);
    assert!(said.text.ends_with("\n500"), "{}", said.text);
    let names = "call, call_many, call_raw, progress, ToolError";
    assert!(example.contains(names), "{example}");
}

//! Calls that take long: that they go on in the background, whose they are, and how they end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gateway::{
    BackgroundCall, BackgroundState, Gateway, Kind, Origin, Outcome, Request, Session, Whose,
};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::ground::{Ground, LIMIT, Setup, done, refused};

async fn ground() -> Ground {
    Setup { auto_after_sec: 1, ..Setup::default() }.open().await
}

fn request(session: &Arc<Session>, tool: &str, arguments: &Value) -> Request {
    Request {
        session: session.clone(),
        tool: tool.to_owned(),
        arguments: to_raw_value(arguments).unwrap(),
        origin: Origin::Model,
        progress: None,
        passed: mcp::Passed::default(),
        cancel: CancellationToken::new(),
    }
}

/// As a model calls.
async fn model(ground: &Ground, tool: &str, arguments: Value) -> Outcome {
    let request = request(&ground.session, tool, &arguments);
    tokio::time::timeout(LIMIT, ground.gateway.call(request)).await.expect("ends in time")
}

#[track_caller]
fn in_background(outcome: Outcome) -> BackgroundCall {
    match outcome {
        Outcome::Background(call) => *call,
        other => panic!("not in the background: {other:?}"),
    }
}

async fn all(gateway: &Gateway) -> Vec<BackgroundCall> {
    gateway.background_calls(Whose::Everybody, None, 100).await.unwrap()
}

async fn ended(ground: &Ground, id: &str) -> BackgroundCall {
    let whose = Whose::Session(&ground.session);
    let call = ground.gateway.wait_for_background(whose, id, LIMIT).await.unwrap().unwrap();
    assert!(call.is_over(), "{call:?}");
    call
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let waited = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LIMIT, waited).await.unwrap_or_else(|_| panic!("{what}"));
}

#[tokio::test]
async fn a_long_call_goes_on_and_its_result_is_the_tools_own() {
    let ground = ground().await;
    let call = in_background(model(&ground, "fleet__later", json!({"n": 7})).await);
    assert_eq!((call.tool.as_str(), call.state), ("fleet__later", BackgroundState::Running));
    assert_eq!(call.arguments.get(), r#"{"n":7}"#);
    let asked = json!({"id": call.id, "wait_sec": 0});
    let waits = done(model(&ground, "background_result", asked.clone()).await);
    assert!(waits.text.starts_with("still running: ") && !waits.is_error, "{}", waits.text);
    assert!(waits.text.contains("1 of 2 · halfway"), "{}", waits.text);
    let list = done(model(&ground, "background_list", json!({})).await).text;
    assert!(list.contains(&call.id) && list.contains("fleet__later · running for"), "{list}");

    let waiting = model(&ground, "background_result", json!({"id": call.id}));
    let release = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        ground.fleet.gate.add_permits(1);
        ended(&ground, &call.id).await
    };
    let (_, over) = tokio::join!(waiting, release);
    assert_eq!(over.state, BackgroundState::Finished);
    // As often as it is asked for, as the tool gave it.
    for _ in 0..2 {
        let result = done(model(&ground, "background_result", asked.clone()).await);
        assert_eq!((result.text.as_str(), result.is_error), ("at last", false));
        assert_eq!(result.structured.unwrap().get(), r#"{"was":{"n":7}}"#);
    }
    assert_eq!(ground.fleet.count("later"), 1);
    let words: Vec<_> =
        ground.audit().await.into_iter().map(|row| (row.tool, row.outcome)).collect();
    let later = words.iter().filter(|(tool, _)| tool == "fleet__later").count();
    assert_eq!(later, 1, "{words:?}");
}

#[tokio::test]
async fn who_goes_away_before_it_was_said_ends_the_call_and_afterwards_only_leaves_it() {
    let ground = Setup { auto_after_sec: 2, ..Setup::default() }.open().await;
    // Dropped.
    let calling = model(&ground, "fleet__later", json!({}));
    assert!(tokio::time::timeout(Duration::from_millis(200), calling).await.is_err());
    until("the first ended", || ground.fleet.cancelled.load(Ordering::SeqCst) == 1).await;
    // Cancelled.
    let request = request(&ground.session, "fleet__later", &json!({}));
    let cancel = request.cancel.clone();
    let (outcome, ()) = tokio::join!(ground.gateway.call(request), async {
        until("it was called", || ground.fleet.count("later") == 2).await;
        cancel.cancel();
    });
    assert!(matches!(&outcome, Outcome::Failed(failure) if failure.kind == Kind::Cancelled));
    assert_eq!(ground.fleet.cancelled.load(Ordering::SeqCst), 2);
    assert!(all(&ground.gateway).await.is_empty());
    // Too late.
    let request = self::request(&ground.session, "fleet__later", &json!({}));
    let cancel = request.cancel.clone();
    let call = in_background(ground.gateway.call(request).await);
    cancel.cancel();
    tokio::time::sleep(Duration::from_millis(100)).await;
    ground.fleet.gate.add_permits(1);
    assert_eq!(ended(&ground, &call.id).await.state, BackgroundState::Finished);
    assert_eq!(ground.fleet.cancelled.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn cancelling_reaches_the_source_and_only_this_call() {
    let ground = ground().await;
    let (first, second) = tokio::join!(
        model(&ground, "fleet__later", json!({"n": 1})),
        model(&ground, "fleet__later", json!({"n": 2})),
    );
    let (first, second) = (in_background(first), in_background(second));
    let said = done(model(&ground, "background_cancel", json!({"id": first.id})).await);
    assert!(said.text.contains("fleet__later · cancelled"), "{}", said.text);
    assert_eq!(ended(&ground, &first.id).await.state, BackgroundState::Cancelled);
    assert_eq!(ground.fleet.cancelled.load(Ordering::SeqCst), 1);
    let result = done(model(&ground, "background_result", json!({"id": first.id})).await);
    assert!(result.is_error && result.text.starts_with("cancelled"), "{}", result.text);
    let again = done(model(&ground, "background_cancel", json!({"id": first.id})).await);
    assert!(!again.is_error, "{}", again.text);
    ground.fleet.gate.add_permits(1);
    assert_eq!(ended(&ground, &second.id).await.state, BackgroundState::Finished);
    let late = done(model(&ground, "background_cancel", json!({"id": second.id})).await);
    assert!(late.text.starts_with("it had ended already: "), "{}", late.text);
}

#[tokio::test]
async fn a_call_of_another_session_or_principal_does_not_exist() {
    let ground = ground().await;
    let call = in_background(model(&ground, "fleet__later", json!({})).await);
    for (principal, key) in [("ann", "s2"), ("bob", "s1")] {
        let other = ground.gateway.session(principal, "default", key).await.unwrap();
        let ask = |tool: &'static str, arguments: Value| {
            let request = request(&other, tool, &arguments);
            let gateway = ground.gateway.clone();
            async move { done(gateway.call(request).await) }
        };
        for tool in ["background_result", "background_cancel"] {
            let answer = ask(tool, json!({"id": call.id})).await;
            assert!(answer.is_error && answer.text.starts_with("there is no call"), "{answer:?}");
        }
        let list = ask("background_list", json!({})).await;
        assert_eq!(list.text, "no call of this session went on in the background");
        let whose = Whose::Session(&other);
        assert!(ground.gateway.background_call(whose, &call.id).await.unwrap().is_none());
    }
    for id in ["", "x", "\0", "00000000-0000-7000-8000-000000000000"] {
        let answer = done(model(&ground, "background_result", json!({"id": id})).await);
        assert!(answer.is_error && answer.text.starts_with("there is no call"), "{answer:?}");
    }
    let bobs = ground.gateway.background_calls(Whose::Principal("bob"), None, 9).await.unwrap();
    assert!(bobs.is_empty());
    let anns = ground.gateway.background_calls(Whose::Principal("ann"), None, 9).await.unwrap();
    assert_eq!(anns.len(), 1);
    ground.gateway.close().await;
}

#[tokio::test]
async fn what_can_only_be_a_task_is_in_the_background_at_once() {
    let ground = Setup {
        tools: [(
            "fleet__job".to_owned(),
            crate::ground::rule(Some(gateway::policy::Effect::Read), None),
        )]
        .into(),
        ..Setup::default()
    }
    .open()
    .await;
    let call = in_background(model(&ground, "fleet__job", json!({})).await);
    ground.fleet.gate.add_permits(1);
    assert_eq!(ended(&ground, &call.id).await.state, BackgroundState::Finished);
    let result = done(model(&ground, "background_result", json!({"id": call.id})).await);
    assert_eq!(result.text, "at last");
    let tools = ground.gateway.tools(&ground.session);
    let job = tools.iter().find(|tool| tool.name == "fleet__job").unwrap();
    let job: Value = serde_json::from_str(job.definition.get()).unwrap();
    assert_eq!(job["execution"], json!({"taskSupport": "optional"}));
    let script = ground
        .run("for tool in ('fleet__job', 'background_list'):\n    try: call(tool, {})\n    except ToolError as e: print(tool, e.kind)", &[])
        .await;
    assert!(
        script.text.ends_with("fleet__job task_only\nbackground_list unknown_tool"),
        "{}",
        script.text
    );
}

#[tokio::test]
async fn without_a_time_there_is_no_background() {
    let ground = Setup { auto_after_sec: 0, ..Setup::default() }.open().await;
    let tools = ground.gateway.tools(&ground.session);
    assert!(!tools.iter().any(|tool| tool.task_only || tool.name.starts_with("background_")));
    assert_eq!(refused(model(&ground, "fleet__job", json!({})).await).kind, Kind::TaskOnly);
    assert_eq!(refused(model(&ground, "background_list", json!({})).await).kind, Kind::UnknownTool);
    let calling = model(&ground, "fleet__later", json!({}));
    let release = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        ground.fleet.gate.add_permits(1);
    };
    let (outcome, ()) = tokio::join!(calling, release);
    assert_eq!(done(outcome).text, "at last");
}

#[tokio::test]
async fn a_refusal_and_a_short_call_are_never_in_the_background() {
    let ground = ground().await;
    let call = |tool: &'static str, arguments: Value| {
        let request = request(&ground.session, tool, &arguments);
        ground.gateway.call_in_background(request)
    };
    assert_eq!(refused(call("fleet__gett", json!({})).await).kind, Kind::UnknownTool);
    assert_eq!(refused(call("fleet__get", json!({"x": 1})).await).kind, Kind::InvalidArguments);
    assert!(matches!(call("fleet__set", json!({})).await, Outcome::NeedsApproval(_)));
    assert!(all(&ground.gateway).await.is_empty());
    assert_eq!(done(model(&ground, "fleet__get", json!({})).await).text, "get done");
    assert!(all(&ground.gateway).await.is_empty());
}

#[tokio::test]
async fn a_result_that_is_too_large_is_kept_cut_and_says_so() {
    let ground = ground().await;
    let request = request(&ground.session, "fleet__big", &json!({}));
    let outcome = ground.gateway.call_in_background(request).await;
    let text = match outcome {
        // It may be over before it got there.
        Outcome::Done(_) => return,
        outcome => {
            let call = in_background(outcome);
            ended(&ground, &call.id).await;
            done(model(&ground, "background_result", json!({"id": call.id})).await).text
        }
    };
    assert!(
        text.len() < 2_000_000 && text.contains("[… cut here: the result has 50"),
        "{}",
        text.len()
    );
}

#[tokio::test]
async fn a_script_shows_how_far_it_is_and_is_killed() {
    let ground = ground().await;
    let code = "progress(1, 9, 'first of nine')\ncall('fleet__later', {})";
    let call = in_background(model(&ground, "run_script", Ground::script(code, &[])).await);
    assert_eq!(call.description, "tries things");
    let whose = Whose::Session(&ground.session);
    let told = async {
        loop {
            let call = ground.gateway.background_call(whose, &call.id).await.unwrap().unwrap();
            match call.progress {
                Some(progress) if progress.message.is_some() => return progress,
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    let told = tokio::time::timeout(LIMIT, told).await.unwrap();
    assert_eq!(told.line(), "0 calls, 0 failed · 1 of 9 · first of nine");
    let said = done(model(&ground, "background_cancel", json!({"id": call.id})).await);
    assert!(said.text.contains("run_script \"tries things\" · cancelled"), "{}", said.text);
    let over = ended(&ground, &call.id).await;
    assert_eq!(over.state, BackgroundState::Cancelled);
    assert!(over.result.unwrap().get().contains("cancelled · "));
    until("the source heard", || ground.fleet.cancelled.load(Ordering::SeqCst) == 1).await;
}

#[tokio::test]
async fn what_runs_when_pinfold_ends_is_interrupted() {
    let ground = ground().await;
    let call = in_background(model(&ground, "fleet__later", json!({})).await);
    let Ground { gateway, fleet, data, .. } = ground;
    gateway.close().await;
    drop(gateway);
    let setup = Setup { sources: vec![fleet], auto_after_sec: 1, ..Setup::default() };
    let gateway = setup.open_at(data.path()).await.unwrap();
    let session = gateway.session("ann", "default", "s1").await.unwrap();
    let found = gateway.background_call(Whose::Session(&session), &call.id).await.unwrap().unwrap();
    assert_eq!(found.state, BackgroundState::Interrupted);
    let asked = request(&session, "background_result", &json!({"id": call.id}));
    let result = done(gateway.call(asked).await);
    assert!(result.is_error && result.text.starts_with("interrupted: pinfold ended"), "{result:?}");
}

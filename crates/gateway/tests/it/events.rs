//! Events of a session: each once and in order, whoever wrote them and whenever one listens.

use std::sync::Arc;
use std::time::Duration;

use gateway::policy::PermissionMode;
use gateway::{Answer, Event, Gateway, Listener, Told};
use serde_json::{Value, json};

use crate::ground::{Ground, LIMIT, Setup, asked, done};

async fn next(listener: &mut Listener) -> Arc<Told> {
    let next = tokio::time::timeout(LIMIT, listener.next()).await.expect("no event came");
    next.unwrap().expect("the gateway has not closed")
}

async fn nothing_more(listener: &mut Listener) {
    let next = tokio::time::timeout(Duration::from_millis(700), listener.next()).await;
    assert!(next.is_err(), "{next:?}");
}

fn data(told: &Told) -> Value {
    serde_json::from_str(&told.data).unwrap()
}

fn say(gateway: &Gateway, session: &str, number: usize) {
    let event = Event::Message { role: "user".into(), text: number.to_string() };
    gateway.publish(session, event);
}

async fn numbers(listener: &mut Listener, count: usize) -> Vec<usize> {
    let mut numbers = Vec::new();
    while numbers.len() < count {
        let told = next(listener).await;
        numbers.push(data(&told)["text"].as_str().unwrap().parse().unwrap());
    }
    numbers
}

#[tokio::test]
async fn a_session_tells_what_happens_in_it_and_nothing_else() {
    let ground = Ground::new().await;
    let mut listener = ground.gateway.listen(ground.session.id(), None).await.unwrap();
    let other = ground.gateway.session("eve", "default", "s1").await.unwrap();
    say(&ground.gateway, other.id(), 1);
    let question = asked(ground.call("fleet__set", json!({"sn": "a"})).await);
    asked(ground.call("fleet__set", json!({"sn": "a"})).await);
    let deny = Answer::Deny { reason: "not now".into() };
    ground.gateway.answer(&question.id, deny, "bob").await.unwrap();
    ground.call("fleet__set", json!({"sn": "a"})).await;
    done(ground.call("fleet__get", json!({"sn": "a"})).await);

    let told = next(&mut listener).await;
    assert_eq!(told.kind, "approval.requested");
    assert_eq!(data(&told)["approval"], json!(question.id));
    let told = next(&mut listener).await;
    assert_eq!(told.kind, "approval.resolved");
    let mut found = data(&told);
    found["approval"] = json!("");
    let expected = json!({"approval": "", "tool": "fleet__set", "resolution": "deny", "by": "bob",
        "reason": "not now"});
    assert_eq!(found, expected);
    let told = next(&mut listener).await;
    assert_eq!(
        (told.kind.as_str(), data(&told)["outcome"].clone()),
        ("tool.finished", json!("refused"))
    );
    let started = next(&mut listener).await;
    assert_eq!(started.kind, "tool.started");
    let finished = next(&mut listener).await;
    assert_eq!(data(&started)["call"], data(&finished)["call"]);
    assert_eq!(
        (finished.kind.as_str(), data(&finished)["outcome"].clone()),
        ("tool.finished", json!("ok"))
    );
    nothing_more(&mut listener).await;
}

#[tokio::test]
async fn who_comes_back_finds_each_event_once() {
    let ground = Ground::new().await;
    let (gateway, session) = (&ground.gateway, ground.session.id());
    for number in 0..1_500 {
        say(gateway, session, number);
    }
    let mut listener = gateway.listen(session, Some(0)).await.unwrap();
    assert_eq!(numbers(&mut listener, 700).await, (0..700).collect::<Vec<_>>());
    let mut last = next(&mut listener).await;
    assert_eq!(data(&last)["text"], json!("700"));
    drop(listener);
    // While it is away, and while it reads what it has missed.
    for number in 1_500..2_000 {
        say(gateway, session, number);
    }
    let mut listener = gateway.listen(session, last.id).await.unwrap();
    for number in 2_000..2_500 {
        say(gateway, session, number);
    }
    assert_eq!(numbers(&mut listener, 1_799).await, (701..2_500).collect::<Vec<_>>());
    // One that reads slower than events come is not passed over.
    for number in 0..500 {
        say(gateway, session, number);
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    assert_eq!(numbers(&mut listener, 500).await, (0..500).collect::<Vec<_>>());
    nothing_more(&mut listener).await;
    // An id that was never given, and one from before everything.
    last = Arc::new(Told { id: Some(i64::MAX), ..(*last).clone() });
    let mut late = gateway.listen(session, last.id).await.unwrap();
    let mut all = gateway.listen(session, Some(-5)).await.unwrap();
    say(gateway, session, 7);
    assert_eq!(numbers(&mut late, 1).await, [7]);
    assert_eq!(numbers(&mut all, 3_001).await.len(), 3_001);
}

#[tokio::test]
async fn events_of_another_process_on_the_same_store_are_told() {
    let one = Ground::new().await;
    let two = Setup::default().open_at(one.data.path()).await.unwrap();
    let session = one.session.id();
    let mut listener = one.gateway.listen(session, None).await.unwrap();
    for number in 0..20 {
        say(if number % 2 == 0 { &one.gateway } else { &two }, session, number);
    }
    let mut found = numbers(&mut listener, 20).await;
    found.sort_unstable();
    assert_eq!(found, (0..20).collect::<Vec<_>>());
    // Which is written when it closes.
    say(&two, session, 20);
    two.close().await;
    assert_eq!(numbers(&mut listener, 1).await, [20]);
    one.gateway.close().await;
    assert_eq!(listener.next().await.unwrap(), None);
}

#[tokio::test]
async fn progress_of_a_script_is_told_and_not_kept() {
    let ground = Ground::mode(PermissionMode::Auto).await;
    let (gateway, session) = (&ground.gateway, ground.session.id());
    let mut listener = gateway.listen(session, None).await.unwrap();
    let code = "import time\nfor n in range(3):\n    progress(n, 3)\n    time.sleep(1)\n";
    ground.run(code, &[]).await;
    let mut kinds = Vec::new();
    while kinds.last().is_none_or(|kind| kind != "tool.finished") {
        let told = next(&mut listener).await;
        assert_eq!(told.id.is_none(), told.kind == "script.progress");
        kinds.push(told.kind.clone());
    }
    assert_eq!(kinds[0], "tool.started");
    let progress = kinds.iter().filter(|kind| *kind == "script.progress").count();
    assert!((2..=6).contains(&progress), "{kinds:?}");
    let mut again = gateway.listen(session, Some(0)).await.unwrap();
    assert_eq!(next(&mut again).await.kind, "tool.started");
    assert_eq!(next(&mut again).await.kind, "tool.finished");
    nothing_more(&mut again).await;
}

#[tokio::test]
async fn a_question_that_expires_is_told() {
    let ground = Setup { expire_sec: 1, ..Setup::default() }.open().await;
    let mut listener = ground.gateway.listen(ground.session.id(), None).await.unwrap();
    asked(ground.call("fleet__set", json!({"sn": "a"})).await);
    assert_eq!(next(&mut listener).await.kind, "approval.requested");
    let told = next(&mut listener).await;
    assert_eq!(
        (told.kind.as_str(), data(&told)["resolution"].clone()),
        ("approval.resolved", json!("expired"))
    );
}

#[tokio::test]
async fn a_flood_of_events_holds_no_call_up() {
    let ground = Ground::new().await;
    done(ground.call("fleet__get", json!({"sn": "a"})).await);
    let begun = std::time::Instant::now();
    for number in 0..100_000 {
        say(&ground.gateway, "nobody", number);
    }
    // More than the queue holds: nobody waited for the store.
    done(ground.call("fleet__get", json!({"sn": "a"})).await);
    assert!(begun.elapsed() < LIMIT);
}

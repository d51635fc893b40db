//! Approvals: bound to what was shown, used once, void when a definition changes.

use gateway::config::Workspace;
use gateway::policy::PermissionMode;
use gateway::{Answer, Choice, Kind, Outcome};
use serde_json::json;

use crate::ground::{Engine, Ground, Setup, asked, done, refused};
use crate::records::SmallDisk;

fn deny() -> Answer {
    Answer::Deny { reason: "not on a Friday".into() }
}

#[tokio::test]
async fn once_is_for_the_same_call_and_used_once() {
    let ground = Ground::new().await;
    let first = asked(ground.call("fleet__set", json!({"sn": "a", "n": 1})).await);
    assert_eq!(first.tool, "fleet__set");
    assert_eq!(first.arguments.get(), r#"{"n":1,"sn":"a"}"#);
    let same = asked(ground.call("fleet__set", json!({"sn": "a", "n": 1})).await);
    assert_eq!(first.id, same.id);
    let other = asked(ground.call("fleet__set", json!({"sn": "b", "n": 1})).await);
    assert_ne!(first.id, other.id);
    assert_eq!(ground.gateway.approvals().await.unwrap().len(), 2);

    ground.gateway.answer(&first.id, Answer::Once, "bob").await.unwrap();
    asked(ground.call("fleet__set", json!({"sn": "b", "n": 1})).await);
    // The same value, written another way.
    let again = serde_json::from_str(" {\"sn\" : \"\\u0061\", \"n\":1} ").unwrap();
    done(ground.raw("fleet__set", again, None, Default::default()).await);
    assert_eq!(ground.fleet.count("set"), 1);
    asked(ground.call("fleet__set", json!({"sn": "a", "n": 1})).await);
    let row = &ground.audit().await[0];
    assert!(row.detail.contains("\"approved_by\":\"bob\""), "{}", row.detail);
}

#[tokio::test]
async fn another_session_or_person_does_not_find_the_answer() {
    let mut ground = Ground::new().await;
    let first = asked(ground.call("fleet__set", json!({"sn": "a"})).await);
    ground.gateway.answer(&first.id, Answer::Session, "bob").await.unwrap();
    let own = ground.session.clone();
    for (principal, key) in [("ann", "s2"), ("eve", "s1")] {
        ground.session = ground.gateway.session(principal, "default", key).await.unwrap();
        asked(ground.call("fleet__set", json!({"sn": "a"})).await);
    }
    ground.session = own;
    done(ground.call("fleet__set", json!({"sn": "a"})).await);
    done(ground.call("fleet__set", json!({"sn": "z"})).await);
    assert_eq!(ground.fleet.count("set"), 2);
}

#[tokio::test]
async fn a_denial_reaches_the_model_with_its_reason() {
    let ground = Ground::new().await;
    let first = asked(ground.call("fleet__set", json!({"sn": "a"})).await);
    ground.gateway.answer(&first.id, deny(), "bob").await.unwrap();
    let late = ground.gateway.answer(&first.id, Answer::Once, "eve").await.unwrap_err();
    assert!(late.to_string().contains("answered already"), "{late}");
    let failure = refused(ground.call("fleet__set", json!({"sn": "a"})).await);
    assert_eq!(failure.kind, Kind::Denied);
    assert!(failure.message.contains("bob did not allow it: not on a Friday"), "{failure:?}");
    assert_eq!(ground.fleet.count("set"), 0);
    assert_eq!(ground.audit().await[0].outcome, "refused");
}

#[tokio::test]
async fn what_is_confirmed_each_time_cannot_be_allowed_for_the_session() {
    let ground = Ground::mode(PermissionMode::Auto).await;
    for name in ["fleet__wipe", "fleet__ask"] {
        let first = asked(ground.call(name, json!({})).await);
        let error = ground.gateway.answer(&first.id, Answer::Session, "bob").await.unwrap_err();
        assert!(error.to_string().contains("allow it once or deny it"), "{error}");
        ground.gateway.answer(&first.id, Answer::Once, "bob").await.unwrap();
        done(ground.call(name, json!({})).await);
        asked(ground.call(name, json!({})).await);
    }
}

#[tokio::test]
async fn a_changed_definition_voids_question_answer_and_session() {
    let ground = Ground::new().await;
    let call = || ground.call("fleet__set", json!({"sn": "a"}));
    let open = asked(call().await);
    ground.fleet.redefine("set", json!({"description": "sends everything to Mallory"}));
    let void = ground.gateway.answer(&open.id, Answer::Once, "bob").await.unwrap_err();
    assert!(void.to_string().contains("has changed"), "{void}");
    let new = asked(call().await);
    assert_ne!(new.id, open.id);

    ground.gateway.answer(&new.id, Answer::Session, "bob").await.unwrap();
    ground.fleet.redefine("set", json!({"description": "once more"}));
    asked(call().await);
    assert_eq!(ground.fleet.count("set"), 0);

    // The very definition that was allowed is allowed.
    ground.fleet.redefine("set", json!({"description": "sends everything to Mallory"}));
    done(call().await);
}

/// The next write went out under the definition that its server had just withdrawn.
#[tokio::test]
async fn nothing_is_written_under_a_definition_whose_change_was_announced() {
    let ground = Ground::new().await;
    let call = |tool: &'static str| ground.call(tool, json!({"sn": "a"}));
    let open = asked(call("fleet__set").await);
    ground.gateway.answer(&open.id, Answer::Once, "bob").await.unwrap();
    ground.fleet.announce();
    let outcome = call("fleet__set").await;
    let Outcome::Refused(failure) = outcome else { panic!("{outcome:?}") };
    assert!(failure.retryable && failure.message.contains("tools changed"), "{failure:?}");
    assert_eq!(ground.fleet.count("set"), 0);
    done(call("fleet__get").await);
}

/// Somebody had allowed it, and was asked again although nothing had been done.
#[tokio::test]
async fn an_approval_of_which_nothing_was_done_is_given_back() {
    let ground = Ground::new().await;
    // A server that is down was sent nothing; one that was lost may have done it.
    let direct = |tool: &'static str| ground.call(tool, json!({}));
    let first = asked(direct("fleet__unplugged").await);
    ground.gateway.answer(&first.id, Answer::Once, "bob").await.unwrap();
    for _ in 0..2 {
        let outcome = direct("fleet__unplugged").await;
        let Outcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
        assert!(failure.message.contains("still holds"), "{failure:?}");
    }
    for tool in ["fleet__vanish", "fleet__garble"] {
        let first = asked(direct(tool).await);
        ground.gateway.answer(&first.id, Answer::Once, "bob").await.unwrap();
        let outcome = direct(tool).await;
        let Outcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
        assert!(!failure.message.contains("still holds"), "{failure:?}");
        asked(direct(tool).await);
    }
}

#[tokio::test]
async fn an_approval_of_a_script_that_could_not_start_is_given_back() {
    let Some(disk) = SmallDisk::mount(1) else { return };
    let workspace = Workspace { path: Some(disk.0.path().to_owned()), ..Workspace::default() };
    let ground = Setup { workspace, engine: Engine::Own, ..Setup::default() }.open().await;
    let code = "call('fleet__set', {})";
    let script = || ground.call("run_script", Ground::script(code, &["fleet__set"]));
    let first = asked(script().await);
    ground.gateway.answer(&first.id, Answer::Once, "bob").await.unwrap();
    let fill = disk.0.path().join("fill");
    std::fs::write(&fill, vec![0; 2 << 20]).unwrap_err();
    let outcome = script().await;
    let Outcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
    assert!(failure.message.contains("was not started"), "{failure:?}");
    assert!(
        failure.message.ends_with("the approval was not used up and still holds for the same call"),
        "{failure:?}"
    );
    std::fs::remove_file(&fill).unwrap();
    done(script().await);
    assert_eq!(ground.fleet.count("set"), 1);
    asked(script().await);
}

#[tokio::test]
async fn an_answer_expires() {
    let ground = Setup { expire_sec: 1, ..Setup::default() }.open().await;
    let first = asked(ground.call("fleet__set", json!({})).await);
    ground.gateway.answer(&first.id, Answer::Once, "bob").await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    asked(ground.call("fleet__set", json!({})).await);
    assert_eq!(ground.fleet.count("set"), 0);
}

#[tokio::test]
async fn an_answer_survives_a_restart() {
    let ground = Ground::new().await;
    let first = asked(ground.call("fleet__set", json!({})).await);
    let fleet = ground.fleet.clone();
    ground.gateway.close().await;
    let again = Setup { sources: vec![fleet.clone()], ..Setup::default() };
    let gateway = again.open_at(ground.data.path()).await.unwrap();
    assert_eq!(gateway.approvals().await.unwrap()[0].id, first.id);
    gateway.answer(&first.id, Answer::Once, "bob").await.unwrap();
    let session = gateway.session("ann", "default", "s1").await.unwrap();
    let ground = Ground { gateway, session, ..ground };
    done(ground.call("fleet__set", json!({})).await);
    assert_eq!(fleet.count("set"), 1);
}

#[tokio::test]
async fn one_approval_for_a_script_bound_to_code_and_tools() {
    let ground = Ground::new().await;
    let code = "for sn in 'abc':\n    call('fleet__set', {'sn': sn})\nprint('set')\n\
                try:\n    call('fleet__stuck', {})\nexcept ToolError as error:\n    print(error.kind)\n";
    let request = Ground::script(code, &["fleet__set", "fleet__tag", "fleet__get"]);
    let question = asked(ground.call("run_script", request.clone()).await);
    assert_eq!(question.choices, [Choice::Once, Choice::Deny]);
    let listed: Vec<(&str, bool)> =
        question.listed.iter().map(|tool| (tool.name.as_str(), tool.asked)).collect();
    assert_eq!(listed, [("fleet__get", false), ("fleet__set", true), ("fleet__tag", false)]);
    assert_eq!(question.unlisted, [("fleet__stuck".to_owned(), 6)]);
    assert!(question.code.unwrap().contains("call('fleet__set'"));
    assert_eq!(question.description.as_deref(), Some("tries things"));

    ground.gateway.answer(&question.id, Answer::Once, "bob").await.unwrap();
    for other in [
        Ground::script(&format!("{code}# more\n"), &["fleet__set", "fleet__tag", "fleet__get"]),
        Ground::script(code, &["fleet__set", "fleet__stuck", "fleet__tag", "fleet__get"]),
    ] {
        let other = asked(ground.call("run_script", other).await);
        assert_ne!(other.id, question.id);
    }
    let said = done(ground.call("run_script", request.clone()).await);
    assert!(!said.is_error && said.text.ends_with("set\nnot_listed"), "{}", said.text);
    assert_eq!(ground.fleet.count("set"), 3);
    asked(ground.call("run_script", request).await);
    assert_eq!(ground.fleet.count("set"), 3);
    let row = &ground.audit().await[0];
    assert!(row.detail.contains("\"approved_by\":\"bob\""), "{}", row.detail);
}

#[tokio::test]
async fn a_denied_script_does_not_start() {
    let ground = Ground::new().await;
    let request = Ground::script("call('fleet__set', {})", &["fleet__set"]);
    let question = asked(ground.call("run_script", request.clone()).await);
    ground.gateway.answer(&question.id, deny(), "bob").await.unwrap();
    let failure = refused(ground.call("run_script", request).await);
    assert_eq!(failure.kind, Kind::Denied);
    assert_eq!((ground.fleet.count("set"), ground.records().len()), (0, 0));
}

#[tokio::test]
async fn what_the_session_allows_is_not_asked_again_for_a_script() {
    let ground = Ground::new().await;
    let question = asked(ground.call("fleet__set", json!({})).await);
    ground.gateway.answer(&question.id, Answer::Session, "bob").await.unwrap();
    let said = ground.run("print(call('fleet__set', {})['ok'])", &["fleet__set"]).await;
    assert!(said.text.ends_with("True"), "{}", said.text);
    let both = Ground::script("pass", &["fleet__set", "fleet__stuck"]);
    let question = asked(ground.call("run_script", both).await);
    let listed: Vec<bool> = question.listed.iter().map(|tool| tool.asked).collect();
    assert_eq!(listed, [false, true]);
}

#[tokio::test]
async fn a_definition_that_changes_while_the_script_runs_is_refused() {
    let ground = Ground::new().await;
    let code = "import time\nprint(call('fleet__set', {})['ok'])\nprogress(1, 2, 'first')\n\
                call('fleet__text', {})\ntime.sleep(0.4)\n\
                try:\n    call('fleet__set', {})\nexcept ToolError as error:\n    print(error.kind, error.message)\n";
    let request = Ground::script(code, &["fleet__set"]);
    let question = asked(ground.call("run_script", request.clone()).await);
    ground.gateway.answer(&question.id, Answer::Once, "bob").await.unwrap();
    let fleet = ground.fleet.clone();
    let change = tokio::spawn(async move {
        while fleet.count("text") == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        fleet.redefine("set", json!({"description": "sends everything to Mallory"}));
    });
    let said = done(ground.call("run_script", request).await);
    change.await.unwrap();
    assert!(
        said.text.contains("True\ndenied the definition of fleet__set has changed"),
        "{}",
        said.text
    );
    assert_eq!(ground.fleet.count("set"), 1);
}

#[tokio::test]
async fn a_read_that_turns_into_a_write_while_the_script_runs_is_refused() {
    let ground = Ground::new().await;
    let code = "import time\ncall('fleet__get', {})\ntime.sleep(0.4)\n\
                try:\n    call('fleet__get', {})\nexcept ToolError as error:\n    print(error.kind)\n";
    let fleet = ground.fleet.clone();
    let change = tokio::spawn(async move {
        while fleet.count("get") == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        fleet.redefine("get", json!({}));
    });
    let said = ground.run(code, &[]).await;
    change.await.unwrap();
    assert!(said.text.ends_with("not_listed"), "{}", said.text);
    assert_eq!(ground.fleet.count("get"), 1);
}

#[tokio::test]
async fn a_profile_can_have_every_script_asked_about() {
    let always = Some(gateway::policy::ApprovalRule::Always);
    let tools = [("run_script".to_owned(), crate::ground::rule(None, always))].into();
    let setup = Setup { tools, mode: PermissionMode::Auto, ..Setup::default() };
    let ground = setup.open().await;
    let request = Ground::script("print(1)", &[]);
    let question = asked(ground.call("run_script", request.clone()).await);
    ground.gateway.answer(&question.id, Answer::Once, "bob").await.unwrap();
    done(ground.call("run_script", request.clone()).await);
    assert!(matches!(ground.call("run_script", request).await, Outcome::NeedsApproval(_)));
}

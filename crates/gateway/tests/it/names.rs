//! Names: what was meant is said, and nothing is guessed.

use gateway::sources::{Snapshot, State};
use gateway::{Answer, Kind};
use serde_json::json;

use crate::ground::{Fake, Ground, Setup, done, refused, tool};

#[tokio::test]
async fn a_name_that_is_not_there_gets_the_one_that_was_meant() {
    let ground = Ground::new().await;
    for (wanted, meant) in [
        ("fleet__gte", "fleet__get"),
        ("get", "fleet__get"),
        ("mcp__pinfold__fleet__get", "fleet__get"),
        ("mcp__pinfold__run_script", "run_script"),
        ("fleet.get", "fleet__get"),
        ("FLEET__WIPE", "fleet__wipe"),
        ("runscript", "run_script"),
    ] {
        let failure = refused(ground.call(wanted, json!({})).await);
        assert_eq!(failure.kind, Kind::UnknownTool);
        let expected = format!("did you mean {meant:?}");
        assert!(failure.message.contains(&expected), "{wanted}: {}", failure.message);
    }
    assert_eq!(ground.fleet.calls.lock().unwrap().len(), 0);
    let hidden = refused(ground.call("fleet__of", json!({})).await);
    assert!(!hidden.message.contains("fleet__off"), "{}", hidden.message);
}

#[tokio::test]
async fn a_script_is_told_what_it_could_call() {
    let ground = Ground::new().await;
    let code = "for name in ['fleet__gte', 'fleet__wipee', 'run_script', 'nonsense']:\n\
                \x20   try:\n        call(name, {})\n\
                \x20   except ToolError as error:\n        print(error.kind, error.message)\n";
    let said = ground.run(code, &[]).await;
    let lines: Vec<&str> = said.text.lines().skip(1).collect();
    assert_eq!(
        lines[0],
        "unknown_tool there is no tool \"fleet__gte\"; did you mean \"fleet__get\"?"
    );
    assert!(
        lines[1].starts_with("unknown_tool") && !lines[1].contains("\"fleet__wipe\""),
        "{lines:?}"
    );
    assert!(lines[2].contains("cannot start another one"), "{lines:?}");
    assert_eq!(lines[3], "unknown_tool there is no tool \"nonsense\"");
}

#[tokio::test]
async fn names_in_tools_that_cannot_be_used_are_refused_before_anybody_is_asked() {
    let ground = Ground::new().await;
    let listed =
        ["fleet__sett", "fleet__wipe", "fleet__job", "fleet__off", "run_script", "fleet__set"];
    let failure = refused(ground.call("run_script", Ground::script("1", &listed)).await);
    // That of the first fault.
    assert_eq!(failure.kind, Kind::UnknownTool);
    for part in [
        "there is no tool \"fleet__sett\"; did you mean \"fleet__set\"",
        "\"fleet__wipe\" is confirmed each time: call it directly",
        "\"fleet__job\" can only be run as a task: call it directly",
        "there is no tool \"fleet__off\"",
        "\"run_script\" cannot be called from a script",
    ] {
        assert!(failure.message.contains(part), "{part}: {}", failure.message);
    }
    assert!(ground.gateway.approvals().await.unwrap().is_empty());
}

#[tokio::test]
async fn awkward_names_reach_the_right_tool() {
    let odd = tool("设备 状态", json!({"annotations": {"readOnlyHint": true}}));
    let long = tool(&"status_".repeat(15), json!({"annotations": {"readOnlyHint": true}}));
    let first = Fake::with("fleet", vec![odd, long]);
    let second = Fake::with("fleet_", vec![tool("x", json!({}))]);
    let third = Fake::with("fleet__x", vec![tool("y", json!({}))]);
    let sources = vec![first.clone(), second.clone(), third.clone()];
    let setup = Setup { sources, tools: Default::default(), ..Setup::default() };
    let ground = setup.open().await;
    let listed = ground.gateway.tools(&ground.session);
    let names: Vec<&str> = listed
        .iter()
        .filter(|tool| tool.source != "pinfold")
        .map(|tool| tool.name.as_str())
        .collect();
    assert_eq!(names.len(), 4);
    for name in &names {
        assert!(name.len() <= 64, "{name}");
        let outcome = ground.call(name, json!({})).await;
        if let gateway::Outcome::NeedsApproval(approval) = outcome {
            ground.gateway.answer(&approval.id, Answer::Once, "bob").await.unwrap();
            done(ground.call(name, json!({})).await);
        }
    }
    assert_eq!(first.count("设备 状态"), 1);
    assert_eq!(first.count(&"status_".repeat(15)), 1);
    assert_eq!((second.count("x"), third.count("y")), (1, 1));
}

#[tokio::test]
async fn a_server_without_prefix_shadows_nothing() {
    let read = || json!({"annotations": {"readOnlyHint": true}});
    let bare = ["get", "run_script", "tickets__get"].map(|name| tool(name, read()));
    let bare = Fake::with("fleet", bare.into());
    let tickets = Fake::with("tickets", vec![tool("get", read())]);
    let off = crate::ground::rule(None, Some(gateway::policy::ApprovalRule::Off));
    let setup = Setup {
        sources: vec![bare.clone(), tickets.clone()],
        bare: Some("fleet".to_owned()),
        tools: [("gett".to_owned(), off)].into(),
        ..Setup::default()
    };
    let ground = setup.open().await;
    let tools = ground.gateway.tools(&ground.session);
    let named = |tool: &'_ gateway::Listed| (tool.name.clone(), tool.source.clone());
    let listed: Vec<(String, String)> = tools.iter().map(named).collect();
    for (name, source) in [
        ("fleet__run_script", "fleet"),
        ("fleet__tickets__get", "fleet"),
        ("get", "fleet"),
        ("run_script", "pinfold"),
        ("tickets__get", "tickets"),
    ] {
        let with_it: Vec<_> = listed.iter().filter(|one| one.0 == name).collect();
        assert_eq!(with_it, [&(name.to_owned(), source.to_owned())], "{listed:?}");
    }
    for (name, source, calls) in [
        ("get", &bare, "get"),
        ("tickets__get", &tickets, "get"),
        ("fleet__tickets__get", &bare, "tickets__get"),
        ("fleet__run_script", &bare, "run_script"),
    ] {
        let before = source.count(calls);
        done(ground.call(name, json!({})).await);
        assert_eq!(source.count(calls), before + 1, "{name}");
    }
    let said = ground.run("print(call('get', {}) is not None)", &[]).await;
    assert!(said.text.ends_with("True"), "{}", said.text);
    // A rule for a name without prefix can be about this server's tools, and is told if it is not.
    assert_eq!(ground.gateway.unused_rules("default"), ["gett"]);
    bare.now(Vec::new(), State::Starting);
    let failure = refused(ground.call("get", json!({})).await);
    assert!(failure.message.contains("is still starting"), "{}", failure.message);
}

#[tokio::test]
async fn a_server_that_is_not_there_yet_is_not_the_callers_mistake() {
    let ground = Ground::new().await;
    ground.fleet.now(Vec::new(), State::Starting);
    let failure = refused(ground.call("fleet__get", json!({})).await);
    assert_eq!((failure.kind, failure.retryable), (Kind::Upstream, true));
    assert!(failure.message.contains("is still starting"), "{}", failure.message);
    let reason = "the program fleet-server was not found".to_owned();
    ground.fleet.now(Vec::new(), State::Down { reason });
    let failure = refused(ground.call("fleet__get", json!({})).await);
    assert!(failure.message.contains("fleet-server was not found"), "{}", failure.message);
    let waits = ground.gateway.settle("default", std::time::Duration::from_millis(10)).await;
    assert_eq!(waits.len(), 1);
    assert!(ground.gateway.without_scripts(&ground.session).is_some());
    let Snapshot { tools, .. } = Snapshot { tools: crate::ground::tools(), state: State::Ready };
    ground.fleet.now(tools, State::Ready);
    assert!(ground.gateway.settle("default", std::time::Duration::from_secs(5)).await.is_empty());
    done(ground.call("fleet__get", json!({})).await);
}

#[tokio::test]
async fn settings_that_protect_nothing_are_refused() {
    let refuses = |setup: Setup, expected: &'static str| async move {
        let data = tempfile::tempdir().unwrap();
        let error = setup.open_at(data.path()).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let off = || crate::ground::rule(None, Some(gateway::policy::ApprovalRule::Off));
    let tools = [("flet__get".to_owned(), off())].into();
    refuses(Setup { tools, ..Setup::default() }, "is about no server of the profile").await;
    let tools = [("fleet__get".to_owned(), crate::ground::rule(None, None))].into();
    refuses(Setup { tools, ..Setup::default() }, "give `effect` or `approval`").await;
    let sources = vec![Fake::new("fleet"), Fake::new("fleet")];
    refuses(Setup { sources, ..Setup::default() }, "two servers are named").await;
    let scripts = gateway::config::Scripts { concurrency: 65, ..Default::default() };
    refuses(Setup { scripts, ..Setup::default() }, "scripts.concurrency = 65").await;
}

#[tokio::test]
async fn a_rule_for_a_tool_that_is_not_there_is_told() {
    let off = crate::ground::rule(None, Some(gateway::policy::ApprovalRule::Off));
    let tools = [("fleet__wpie".to_owned(), off), ("fleet__set".to_owned(), off)].into();
    let ground = Setup { tools, ..Setup::default() }.open().await;
    assert_eq!(ground.gateway.unused_rules("default"), ["fleet__wpie"]);
    ground.fleet.now(Vec::new(), State::Starting);
    assert!(ground.gateway.unused_rules("default").is_empty());
}

#[tokio::test]
async fn without_an_engine_the_reason_is_said_and_tools_work() {
    let ground = Setup { engine: crate::ground::Engine::None, ..Setup::default() }.open().await;
    assert_eq!(ground.gateway.without_scripts(&ground.session).unwrap(), "no sandbox here");
    let listed = ground.gateway.tools(&ground.session);
    assert!(listed.iter().all(|tool| tool.name != "run_script"));
    let failure = refused(ground.call("run_script", Ground::script("1", &[])).await);
    assert!(failure.message.contains("not offered: no sandbox here"), "{}", failure.message);
    done(ground.call("fleet__get", json!({})).await);
}

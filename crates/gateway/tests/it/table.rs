//! Each row of the permission table, direct and in a script: a refused call never reaches the
//! source.

use gateway::policy::PermissionMode::{Ask, Auto, ReadOnly};
use gateway::{Choice, Kind, Outcome};
use serde_json::json;

use crate::ground::{Ground, asked, done, refused};

/// What a direct call must come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direct {
    Runs,
    AskedOrSession,
    AskedOnce,
    Refused(Kind),
}

#[tokio::test]
async fn direct_calls() {
    use Direct::{AskedOnce, AskedOrSession, Refused, Runs};
    let hidden = Refused(Kind::UnknownTool);
    let table = [
        (Ask, "get", Runs),
        (Auto, "get", Runs),
        (ReadOnly, "get", Runs),
        (Ask, "set", AskedOrSession),
        (Auto, "set", Runs),
        (ReadOnly, "set", hidden),
        (Ask, "tag", Runs),
        (Auto, "tag", Runs),
        (ReadOnly, "tag", hidden),
        (Ask, "ask", AskedOnce),
        (Auto, "ask", AskedOnce),
        (ReadOnly, "ask", hidden),
        (Ask, "wipe", AskedOnce),
        (Auto, "wipe", AskedOnce),
        (ReadOnly, "wipe", hidden),
        (Ask, "off", hidden),
        (Auto, "off", hidden),
        (ReadOnly, "off", hidden),
        (Ask, "job", Refused(Kind::TaskOnly)),
        (ReadOnly, "job", hidden),
    ];
    for (mode, name, expected) in table {
        let ground = Ground::mode(mode).await;
        let outcome = ground.call(&format!("fleet__{name}"), json!({"sn": "a"})).await;
        let found = match outcome {
            Outcome::Done(result) if !result.is_error => Runs,
            Outcome::NeedsApproval(asked) if asked.choices.contains(&Choice::Session) => {
                AskedOrSession
            }
            Outcome::NeedsApproval(_) => AskedOnce,
            Outcome::Refused(failure) => Refused(failure.kind),
            other => panic!("{mode:?} {name}: {other:?}"),
        };
        assert_eq!(found, expected, "{mode:?} {name}");
        let reached = usize::from(expected == Runs);
        assert_eq!(ground.fleet.count(name), reached, "{mode:?} {name}");
        let rows = ground.audit().await;
        let words: Vec<&str> = rows.iter().map(|row| row.outcome.as_str()).collect();
        match expected {
            Runs => assert_eq!(words, ["ok"]),
            AskedOnce | AskedOrSession => assert_eq!(words, [""; 0]),
            Refused(_) => assert_eq!(words, ["refused"]),
        }
    }
}

/// What a script sees that calls a tool without and with listing it.
#[tokio::test]
async fn calls_of_scripts() {
    let table = [
        (Ask, "get", "runs", "runs"),
        (Auto, "get", "runs", "runs"),
        (ReadOnly, "get", "runs", "runs"),
        (Ask, "set", "not_listed", "asked"),
        (Auto, "set", "not_listed", "runs"),
        (ReadOnly, "set", "unknown_tool", "refused"),
        (Ask, "tag", "not_listed", "runs"),
        (Auto, "tag", "not_listed", "runs"),
        (Ask, "ask", "destructive", "refused"),
        (Auto, "ask", "destructive", "refused"),
        (Ask, "wipe", "destructive", "refused"),
        (Auto, "wipe", "destructive", "refused"),
        (ReadOnly, "wipe", "unknown_tool", "refused"),
        (Ask, "off", "unknown_tool", "refused"),
        (Ask, "job", "task_only", "refused"),
        (Auto, "job", "task_only", "refused"),
    ];
    for mode in [Ask, Auto, ReadOnly] {
        let ground = Ground::mode(mode).await;
        for (_, name, unlisted, listed) in table.iter().filter(|row| row.0 == mode) {
            let code = format!(
                "try:\n    print(call('fleet__{name}', {{'sn': 'a'}})['ok'])\n\
                 except ToolError as error:\n    print(error.kind)\n"
            );
            let said = ground.run(&code, &[]).await;
            let expected = if *unlisted == "runs" { "True" } else { unlisted };
            assert!(!said.is_error, "{said:?}");
            assert_eq!(said.text.lines().last(), Some(expected), "{mode:?} {name} {}", said.text);
            let before = usize::from(*unlisted == "runs");
            assert_eq!(ground.fleet.count(name), before, "{mode:?} {name}, not listed");

            let full = format!("fleet__{name}");
            let outcome = ground.call("run_script", Ground::script(&code, &[&full])).await;
            match *listed {
                "runs" => assert_eq!(done(outcome).text.lines().last(), Some("True")),
                "asked" => {
                    let asked = asked(outcome);
                    assert_eq!(asked.choices, [Choice::Once, Choice::Deny]);
                }
                // For the same reason as at the call.
                _ => assert_eq!(json!(refused(outcome).kind), json!(unlisted)),
            }
            let after = before + usize::from(*listed == "runs");
            assert_eq!(ground.fleet.count(name), after, "{mode:?} {name}, listed");
        }
    }
}

#[tokio::test]
async fn what_is_offered() {
    let names = |mode| async move {
        let ground = Ground::mode(mode).await;
        let listed = ground.gateway.tools(&ground.session);
        let names: Vec<String> = listed.iter().map(|tool| tool.name.clone()).collect();
        let mut sorted = names.clone();
        sorted.sort();
        assert_eq!(names, sorted);
        names
    };
    let ask = names(Ask).await;
    for name in ["fleet__get", "fleet__set", "fleet__wipe", "fleet__job", "run_script"] {
        assert!(ask.iter().any(|other| other == name), "{name}");
    }
    assert!(!ask.iter().any(|name| name == "fleet__off"));
    let read_only = names(ReadOnly).await;
    assert!(read_only.iter().any(|name| name == "run_script"));
    for name in ["fleet__set", "fleet__tag", "fleet__wipe", "fleet__job", "fleet__off"] {
        assert!(!read_only.iter().any(|other| other == name), "{name}");
    }
    let ground = Ground::new().await;
    let listed = ground.gateway.tools(&ground.session);
    let set = listed.iter().find(|tool| tool.name == "fleet__set").unwrap();
    assert!(set.definition.get().contains("\"name\":\"fleet__set\""));
    assert!(set.in_scripts && !set.task_only);
    let wipe = listed.iter().find(|tool| tool.name == "fleet__wipe").unwrap();
    assert!(!wipe.in_scripts);
}

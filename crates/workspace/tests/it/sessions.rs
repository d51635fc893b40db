//! Sessions: when a place is opened, how often it is asked, and what happens when it is not there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use workspace::backends::{Memory, Place};
use workspace::tools::{BUILT_IN, Tool};
use workspace::{Fault, Session};

use crate::ground::Ground;

#[tokio::test]
async fn a_place_that_cannot_be_opened_gives_no_tool_and_touches_no_host() {
    let place = Place::Local { folder: "/nonexistent/workspace".into() };
    let session = Session::new(place);
    for (tool, arguments) in [
        ("Bash", json!({"command": "touch /tmp/pinfold-fallback"})),
        ("Read", json!({"file_path": "/etc/hostname"})),
        ("Write", json!({"file_path": "/tmp/pinfold-fallback", "content": ""})),
        ("Edit", json!({"file_path": "/etc/hostname", "old_string": "a", "new_string": "b"})),
        ("Grep", json!({"pattern": "root", "path": "/etc"})),
        ("Glob", json!({"pattern": "*", "path": "/etc"})),
    ] {
        let answer = Tool::named(tool).unwrap().run(&session, arguments).await;
        assert!(answer.is_error, "{tool}");
        let text = answer.all_text();
        assert!(text.contains("the workspace cannot be used"), "{tool}: {text}");
    }
    assert!(!std::path::Path::new("/tmp/pinfold-fallback").exists());
}

#[tokio::test]
async fn a_broken_connection_is_never_an_absent_file() {
    let memory = Memory::with_programs(Arc::new(|_| Err(Fault::Lost("cut".to_owned()))));
    let session = Session::new(Place::Memory(memory));
    let answer = Tool::named("Bash").unwrap().run(&session, json!({"command": "true"})).await;
    assert!(answer.is_error);
    let text = answer.all_text();
    assert!(text.contains("whether anything was done is unknown"), "{text}");
}

#[tokio::test]
async fn every_tool_but_bash_is_one_exchange() {
    let memory = Memory::default();
    memory.file("/workspace/a", "one\n");
    let session = Session::new(Place::Memory(memory.clone()));
    for (tool, arguments) in [
        ("Read", json!({"file_path": "/workspace/a"})),
        ("Edit", json!({"file_path": "/workspace/a", "old_string": "one", "new_string": "two"})),
        ("Write", json!({"file_path": "/workspace/a", "content": "three"})),
        ("Write", json!({"file_path": "/workspace/new/b", "content": "four"})),
        ("Grep", json!({"pattern": "three"})),
        ("Glob", json!({"pattern": "**"})),
    ] {
        let before = memory.exchanges();
        let answer = Tool::named(tool).unwrap().run(&session, arguments).await;
        assert!(!answer.is_error, "{tool}: {}", answer.all_text());
        assert_eq!(memory.exchanges() - before, 1, "{tool}");
    }
}

#[tokio::test]
async fn a_folder_that_was_removed_is_noticed() {
    let ground = Ground::local();
    ground.put("a", "x\n");
    ground.ok("Read", json!({"file_path": "~/a"})).await;
    std::fs::remove_dir_all(ground.host("")).unwrap();
    let text = ground.fails("Read", json!({"file_path": "~/a"})).await;
    assert!(!text.is_empty());
    let text = ground.fails("Bash", json!({"command": "true"})).await;
    assert!(text.contains("is not there") || text.contains("cannot be"), "{text}");
}

#[tokio::test]
async fn secrets_of_the_server_reach_no_command() {
    let ground = Ground::local();
    let text = ground.ok("Bash", json!({"command": "env"})).await;
    let known = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "TERM"];
    let by_bash = ["PWD", "OLDPWD", "SHLVL", "_"];
    let passed_on = |name: &str| known.contains(&name) || by_bash.contains(&name);
    let secret = std::env::vars().find(|(name, _)| !passed_on(name));
    assert!(secret.is_some(), "the test shows nothing");
    for line in text.lines().skip(1) {
        let name = line.split('=').next().unwrap();
        assert!(passed_on(name), "{line}");
    }
}

#[tokio::test]
async fn the_sandbox_shows_nothing_of_the_host() {
    let Some(ground) = Ground::sandbox().await else { return };
    let secret = tempfile::NamedTempFile::new().unwrap();
    let command = format!("cat {}; id -u; ls /root /home 2>&1", secret.path().display());
    let text = ground.ok("Bash", json!({"command": command})).await;
    assert!(text.contains("No such file"), "{text}");
    let forged = "mkdir -p .agent/scripts; echo x > .agent/forged; echo y > .agent/output/mine";
    ground.ok("Bash", json!({"command": forged})).await;
    assert!(!ground.is_there(".agent/forged") && ground.is_there(".agent/output/mine"));
}

#[tokio::test]
async fn in_the_sandbox_a_planted_agent_link_is_refused() {
    let Some(ground) = Ground::sandbox().await else { return };
    let outside = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(ground.host("")).unwrap();
    ground.link(".agent", outside.path().to_str().unwrap());
    let text = ground.fails("Bash", json!({"command": "true"})).await;
    assert!(text.contains(".agent") && text.contains("remove it"), "{text}");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn what_may_not_be_read_is_found_by_no_search() {
    let memory = Memory::default();
    for path in ["secret/k", "src/a.key", "src/a.rs"] {
        memory.file(&format!("/workspace/{path}"), "needle\n");
    }
    let lines = ["/secret/**", "*.key"].map(str::to_owned).to_vec();
    let session = Session::new(Place::Memory(memory)).barring(lines);
    let grep = |path: &str| json!({"pattern": "needle", "path": path, "include_ignored": true});
    for (tool, arguments) in
        [("Grep", grep("/workspace")), ("Glob", json!({"pattern": "**", "include_ignored": true}))]
    {
        let text = Tool::named(tool).unwrap().run(&session, arguments).await.all_text();
        assert!(text.starts_with("/workspace/src/a.rs\n["), "{text}");
        assert!(text.contains("2 folder or files left out, which may not be read"), "{text}");
    }
    for path in ["/workspace/secret", "/workspace/secret/k", "/workspace/src/a.key"] {
        let answer = Tool::named("Grep").unwrap().run(&session, grep(path)).await;
        assert!(answer.is_error && answer.all_text().contains("a rule denies it"), "{answer:?}");
    }
}

#[test]
fn definitions_are_what_strict_clients_ask_for() {
    let place = Place::Memory(Memory::default());
    let names: Vec<&str> = BUILT_IN.iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["Bash", "Read", "Write", "Edit", "Grep", "Glob"]);
    for tool in &BUILT_IN {
        let definition = tool.definition(&place);
        let schema = &definition["inputSchema"];
        assert_eq!(schema["additionalProperties"], false, "{tool:?}");
        assert_eq!(schema["type"], "object");
        for (name, property) in schema["properties"].as_object().unwrap() {
            let bounded = match property["type"].as_str().unwrap() {
                "string" => property.get("maxLength").is_some() || property.get("enum").is_some(),
                "integer" => property.get("minimum").is_some(),
                _ => true,
            };
            assert!(bounded, "{tool:?} {name} has no bounds");
        }
        let description = definition["description"].as_str().unwrap();
        assert!(description.contains("/workspace") && description.len() < 2000, "{description}");
    }
}

#[tokio::test]
async fn of_several_first_calls_one_opens_the_place() {
    static OPENED: AtomicU64 = AtomicU64::new(0);
    let memory = Memory::with_programs(Arc::new(|_| {
        OPENED.fetch_add(1, Ordering::Relaxed);
        Err(Fault::Unavailable("never".to_owned()))
    }));
    let session = Session::new(Place::Memory(memory));
    let backends = futures_util::future::join_all((0..8).map(|_| session.backend())).await;
    let first = backends[0].as_ref().unwrap();
    assert!(backends.iter().all(|one| Arc::ptr_eq(one.as_ref().unwrap(), first)));
    assert_eq!(OPENED.load(Ordering::Relaxed), 0, "nothing was run to open it");
}

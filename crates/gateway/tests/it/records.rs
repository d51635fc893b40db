//! The records: made by the gateway, read-only for scripts, and never through a link.

use std::os::unix::fs::symlink;
use std::path::Path;

use gateway::policy::PermissionMode;
use gateway::{Outcome, config};
use serde_json::json;

use crate::ground::{Ground, Setup, done};

#[tokio::test]
async fn a_script_cannot_touch_its_records() {
    let ground = Ground::new().await;
    let code = "import os, glob\n\
                call('fleet__get', {})\n\
                own = glob.glob('.agent/scripts/*')[0]\n\
                print(sorted(os.listdir(own)), open(own + '/script.py').read()[:9])\n\
                tries = [lambda: open(own + '/calls.jsonl', 'a'), lambda: os.remove(own + '/script.py'),\n\
                \x20        lambda: os.mkdir('.agent/x'), lambda: os.rename('.agent', 'moved'),\n\
                \x20        lambda: os.symlink('/etc', '.agent/scripts/link')]\n\
                for attempt in tries:\n    try:\n        attempt()\n        print('done')\n    except OSError as error:\n        print('refused')\n\
                open('mine.txt', 'w').write('kept')\n";
    let said = ground.run(code, &[]).await;
    let lines: Vec<&str> = said.text.lines().skip(1).collect();
    assert_eq!(lines[0], "['calls.jsonl', 'output.txt', 'script.py'] from agen", "{}", said.text);
    assert_eq!(lines[1..], ["refused"; 5], "{}", said.text);
    let kept = std::fs::read_to_string(ground.session.workspace().join("mine.txt")).unwrap();
    assert_eq!(kept, "kept");
    assert_eq!(ground.lines().len(), 1);
}

#[tokio::test]
async fn in_read_only_mode_the_workspace_is_read_only_and_the_records_are_kept() {
    let ground = Ground::mode(PermissionMode::ReadOnly).await;
    let code = "call('fleet__get', {})\ntry:\n    open('mine.txt', 'w')\nexcept OSError:\n    print('refused')\n";
    let said = ground.run(code, &[]).await;
    assert!(said.text.ends_with("\nrefused"), "{}", said.text);
    assert_eq!(ground.lines().len(), 1);
}

/// Runs a script in a workspace with a trap in it; the script must not start.
async fn trapped(set: impl FnOnce(&Path, &Path), expected: &str) {
    let ground = Ground::new().await;
    let outside = tempfile::tempdir().unwrap();
    set(ground.session.workspace(), outside.path());
    let outcome = ground.call("run_script", Ground::script("call('fleet__get', {})", &[])).await;
    let failure = crate::ground::refused(outcome);
    assert!(failure.message.contains(expected), "{expected}: {}", failure.message);
    assert!(failure.message.contains("remove it"), "{}", failure.message);
    assert_eq!(ground.fleet.count("get"), 0);
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0, "{expected}");
    assert_eq!(ground.audit().await[0].outcome, "refused");
}

#[tokio::test]
async fn planted_links_are_not_followed() {
    trapped(
        |workspace, outside| symlink(outside, workspace.join(".agent")).unwrap(),
        "a link stands there",
    )
    .await;
    trapped(
        |workspace, outside| {
            std::fs::create_dir(workspace.join(".agent")).unwrap();
            symlink(outside, workspace.join(".agent/scripts")).unwrap();
        },
        ".agent/scripts cannot be used: a link stands there",
    )
    .await;
    trapped(
        |workspace, _| symlink("nowhere", workspace.join(".agent")).unwrap(),
        "a link stands there",
    )
    .await;
    trapped(
        |workspace, _| std::fs::write(workspace.join(".agent"), "x").unwrap(),
        "it is not a folder",
    )
    .await;
}

#[tokio::test]
async fn a_link_that_leads_into_the_workspace_is_a_link_too() {
    let ground = Ground::new().await;
    let workspace = ground.session.workspace();
    std::fs::create_dir(workspace.join("elsewhere")).unwrap();
    symlink("elsewhere", workspace.join(".agent")).unwrap();
    crate::ground::refused(ground.call("run_script", Ground::script("1", &[])).await);
    assert_eq!(std::fs::read_dir(workspace.join("elsewhere")).unwrap().count(), 0);
}

#[tokio::test]
async fn control_characters_and_lines_of_a_result_stay_in_one_line() {
    let ground = Ground::new().await;
    ground.run("call('fleet__text', {})", &[]).await;
    assert_eq!(ground.lines()[0]["summary"], "line one line two");
    let code =
        "try:\n    call('x\\n{\"n\":9,\"ok\":true}\\x1b[2J', {})\nexcept ToolError:\n    pass\n";
    ground.run(code, &[]).await;
    let lines = ground.lines();
    assert_eq!(lines.len(), 1);
    assert!(!lines[0]["tool"].as_str().unwrap().contains(['\n', '\u{1b}']), "{lines:?}");
}

/// A small disk, which needs root.
pub(crate) struct SmallDisk(pub(crate) tempfile::TempDir);

impl SmallDisk {
    pub(crate) fn mount(megabytes: u32) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "tmpfs"])
            .arg(folder.path())
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(folder));
        }
        let required = std::env::var("PINFOLD_TEST_REQUIRE").is_ok_and(|value| value == "all");
        assert!(!required, "a small disk cannot be mounted, and every test is required");
        let _ = std::io::Write::write_fmt(
            &mut std::io::stderr(),
            format_args!("SKIPPED: a full disk needs root to be tried\n"),
        );
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[tokio::test]
async fn a_full_disk_is_told_and_no_write_goes_unrecorded() {
    let Some(disk) = SmallDisk::mount(1) else { return };
    let workspace =
        config::Workspace { path: Some(disk.0.path().to_owned()), ..Default::default() };
    // A keeper does not see what is mounted after it was started.
    let engine = crate::ground::Engine::Own;
    let setup = Setup { workspace, engine, mode: PermissionMode::Auto, ..Setup::default() };
    let ground = setup.open().await;
    let code = "try:\n    open('fill', 'wb').write(b'x' * 5_000_000)\nexcept OSError:\n    pass\n\
                for n in range(400):\n    call('fleet__get', {'sn': 's' * 1000})\n\
                print('p' * 100_000)\n\
                try:\n    call('fleet__set', {'sn': 'a'})\nexcept ToolError as error:\n    print(error.kind, error.message)\n";
    let said = ground.run(code, &["fleet__set"]).await;
    assert!(
        said.text.contains("/calls.jsonl (incomplete)\nnote: the records are incomplete: ")
            && said.text.contains("calls.jsonl: No space left on device"),
        "{}",
        said.text
    );
    assert!(said.text.contains("output.txt: No space left on device"), "{}", said.text);
    assert!(
        said.text.contains("upstream nothing was sent: calls.jsonl cannot be written"),
        "{}",
        said.text
    );
    assert_eq!((ground.fleet.count("get"), ground.fleet.count("set")), (400, 0));
    let detail = &ground.audit().await[0].detail;
    assert!(detail.contains("No space left on device"), "{detail}");
    // The next one cannot even write its script down.
    let outcome = ground.call("run_script", Ground::script("1", &[])).await;
    let Outcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
    assert!(
        failure.message.contains("was not started")
            && failure.message.to_lowercase().contains("no space"),
        "{}",
        failure.message
    );
    // With room again, everything works again.
    std::fs::remove_file(disk.0.path().join("fill")).unwrap();
    done(ground.call("run_script", Ground::script("call('fleet__get', {})", &[])).await);
    done(ground.call("fleet__set", json!({})).await);
}

/// A script ended well, its last rows could not be written, and the next start called it
/// interrupted and its write unknown.
#[tokio::test]
async fn a_script_that_ended_well_on_a_full_disk_stays_one_that_ended_well() {
    let Some(disk) = SmallDisk::mount(4) else { return };
    // The disk takes nothing more by the time the write is answered.
    let code = "call('fleet__set', {'sn': 'a'})\n\
                with open('fill', 'wb', 0) as fill:\n    try:\n        while True: fill.write(b'x' * 4096)\n    except OSError:\n        pass\n\
                print('p' * 10_000)\n";
    let setup = || Setup {
        engine: crate::ground::Engine::Own,
        mode: PermissionMode::Auto,
        ..Setup::default()
    };
    let mut scripts = Vec::new();
    for close_on_full in [true, false] {
        let gateway = setup().open_at(disk.0.path()).await.unwrap();
        let session = gateway.session("ann", "default", "s1").await.unwrap();
        let fleet = crate::ground::Fake::new("none");
        let ground = Ground { gateway, session, fleet, data: tempfile::tempdir().unwrap() };
        let said = ground.run(code, &["fleet__set"]).await;
        assert!(said.text.starts_with("ok · 1 call, 0 failed · "), "{}", &said.text[..200]);
        assert!(
            said.text.contains("(incomplete)\nnote: the records are incomplete: ")
                && said.text.contains("the audit row: the disk that holds the database is full"),
            "{}",
            &said.text[..500]
        );
        let fill = ground.session.workspace().join("fill");
        if close_on_full {
            ground.gateway.close().await;
            // The place that closing has freed is taken as well.
            let more = ground.session.workspace().join("more");
            let mut file = std::fs::File::create(&more).unwrap();
            while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
            let url = format!("sqlite://{}/pinfold.db", disk.0.path().display());
            let error = match store::Store::open(&url).await {
                Err(error) => error.to_string(),
                Ok(_) => setup().open_at(disk.0.path()).await.unwrap_err().to_string(),
            };
            let shown = disk.0.path().display().to_string();
            assert!(error.contains(&shown) && error.contains("is full"), "{error}");
            std::fs::remove_file(more).unwrap();
            std::fs::remove_file(fill).unwrap();
        } else {
            std::fs::remove_file(fill).unwrap();
            ground.gateway.close().await;
        }
        scripts.push(ground.records().last().unwrap().file_name().unwrap().to_owned());
    }
    setup().open_at(disk.0.path()).await.unwrap().close().await;
    let url = format!("sqlite://{}/pinfold.db", disk.0.path().display());
    let store = store::Store::open(&url).await.unwrap();
    for id in scripts {
        let id = id.to_str().unwrap();
        let state = store.script_state(id).await.unwrap();
        assert_eq!(state, Some(store::ScriptState::Finished), "{id}");
        assert_eq!(store.intents_of(id).await.unwrap()[0].state, store::IntentState::Done);
    }
    let rows =
        store.audit_rows(&store::AuditFilter { limit: 9, ..Default::default() }).await.unwrap();
    let words: Vec<&str> = rows.iter().map(|row| row.outcome.as_str()).collect();
    assert_eq!(words, ["ok", "ok"], "{rows:?}");
    assert!(store.owners().await.unwrap().is_empty());
}

//! A process that is killed in the middle of a write, and the processes beside it.
//!
//! The process is this test binary run again: `victim` does nothing unless it is asked to.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gateway::policy::PermissionMode;
use serde_json::json;
use store::{IntentState, ScriptState};

use crate::ground::{Fake, Ground, Setup, done, lines};

const DATA: &str = "PINFOLD_TEST_VICTIM_DATA";

fn setup() -> Setup {
    Setup { mode: PermissionMode::Auto, ..Setup::default() }
}

/// Makes one read, one write that is answered and one that never is; then it is killed.
#[tokio::test]
async fn victim() {
    let Some(data) = std::env::var_os(DATA).map(PathBuf::from) else { return };
    let gateway = setup().open_at(&data).await.unwrap();
    let session = gateway.session("ann", "default", "s1").await.unwrap();
    let ground =
        Ground { gateway, session, fleet: Fake::new("none"), data: tempfile::tempdir().unwrap() };
    let code = "call('fleet__get', {})\ncall('fleet__set', {'sn': 'a'})\ncall('fleet__stuck', {'sn': 'b'})\n";
    let script = Ground::script(code, &["fleet__set", "fleet__stuck"]);
    let direct = ground.call("fleet__stuck", json!({"sn": "direct"}));
    tokio::join!(direct, ground.call("run_script", script));
}

async fn store_at(data: &Path) -> store::Store {
    store::Store::open(&format!("sqlite://{}/pinfold.db", data.display())).await.unwrap()
}

struct Victim {
    process: std::process::Child,
    owner: String,
}

impl Victim {
    /// Starts it and waits until both of its writes are under way.
    async fn start(data: &Path) -> Self {
        let process = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::victim", "--nocapture"])
            .env(DATA, data)
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut victim = Self { process, owner: String::new() };
        let store = store_at(data).await;
        let began = Instant::now();
        loop {
            for owner in store.owners().await.unwrap() {
                let pending = store.pending_intents(&owner.id).await.unwrap();
                if pending.iter().filter(|row| row.tool == "fleet__stuck").count() == 2 {
                    victim.owner = owner.id;
                    return victim;
                }
            }
            assert!(began.elapsed() < Duration::from_secs(40), "the victim does not get there");
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
async fn a_kill_in_the_middle_of_a_write_leaves_an_unknown_outcome() {
    let data = tempfile::tempdir().unwrap();
    let mut victim = Victim::start(data.path()).await;
    let store = store_at(data.path()).await;
    let script = store.running_scripts(&victim.owner).await.unwrap().remove(0);
    let folder = Path::new(&script.workspace).join(".agent/scripts").join(&script.id);

    // Beside a process that lives, a second one settles nothing.
    let beside = setup().open_at(data.path()).await.unwrap();
    assert_eq!(store.script_state(&script.id).await.unwrap(), Some(ScriptState::Running));
    beside.close().await;

    victim.kill();
    // The machine stopped in the middle of a line.
    let torn = "{\"n\":7,\"at\":\"2026-";
    let calls = folder.join("calls.jsonl");
    let before = std::fs::read_to_string(&calls).unwrap();
    std::fs::write(&calls, format!("{before}{torn}")).unwrap();

    let fleet = Fake::new("fleet");
    let reopen = |fleet: Arc<Fake>| Setup { sources: vec![fleet], ..setup() };
    let gateway = reopen(fleet.clone()).open_at(data.path()).await.unwrap();
    assert_eq!(store.script_state(&script.id).await.unwrap(), Some(ScriptState::Interrupted));
    let intents = store.intents_of(&script.id).await.unwrap();
    let states: Vec<(&str, IntentState)> =
        intents.iter().map(|row| (row.tool.as_str(), row.state)).collect();
    assert_eq!(states, [("fleet__set", IntentState::Done), ("fleet__stuck", IntentState::Unknown)]);
    assert!(store.pending_intents(&victim.owner).await.unwrap().is_empty());
    assert!(store.owners().await.unwrap().iter().all(|owner| owner.id != victim.owner));

    let recorded = lines(&folder);
    let set = recorded.iter().find(|line| line["tool"] == "fleet__set").unwrap();
    assert_eq!((&set["n"], &set["ok"]), (&json!(2), &json!(true)));
    let stuck = recorded.last().unwrap();
    assert_eq!((&stuck["n"], &stuck["tool"]), (&json!(3), &json!("fleet__stuck")));
    assert_eq!((&stuck["ok"], &stuck["summary"]), (&json!(null), &json!("outcome unknown")));
    assert_eq!(stuck["args"], json!({"sn": "b"}));

    let rows =
        store.audit_rows(&store::AuditFilter { limit: 100, ..Default::default() }).await.unwrap();
    let words: Vec<(&str, &str)> =
        rows.iter().map(|row| (row.kind.as_str(), row.outcome.as_str())).collect();
    assert_eq!(words, [("call", "unknown"), ("script", "interrupted")]);
    assert!(
        rows[1].detail.contains("\"unknown_outcomes\":{\"fleet__stuck\":1}"),
        "{}",
        rows[1].detail
    );
    assert!(rows[0].detail.contains("direct"), "{}", rows[0].detail);

    // Never repeated, and settled once.
    assert_eq!(fleet.calls.lock().unwrap().len(), 0);
    gateway.close().await;
    let after = std::fs::read_to_string(&calls).unwrap();
    reopen(fleet.clone()).open_at(data.path()).await.unwrap().close().await;
    assert_eq!(std::fs::read_to_string(&calls).unwrap(), after);
    assert_eq!(fleet.calls.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn a_link_in_the_place_of_the_records_of_a_crash_is_not_followed() {
    let data = tempfile::tempdir().unwrap();
    let mut victim = Victim::start(data.path()).await;
    let store = store_at(data.path()).await;
    let script = store.running_scripts(&victim.owner).await.unwrap().remove(0);
    let folder = Path::new(&script.workspace).join(".agent/scripts").join(&script.id);
    victim.kill();
    let outside = data.path().join("outside.txt");
    std::fs::write(&outside, "mine").unwrap();
    std::fs::remove_file(folder.join("calls.jsonl")).unwrap();
    std::fs::hard_link(&outside, folder.join("calls.jsonl")).unwrap();
    setup().open_at(data.path()).await.unwrap().close().await;
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "mine");
    assert_eq!(store.script_state(&script.id).await.unwrap(), Some(ScriptState::Interrupted));
}

#[tokio::test]
async fn closing_leaves_no_place_behind() {
    let data = tempfile::tempdir().unwrap();
    let gateway = setup().open_at(data.path()).await.unwrap();
    let session = gateway.session("ann", "default", "s1").await.unwrap();
    let ground = Ground { gateway, session, fleet: Fake::new("none"), data };
    done(ground.call("fleet__get", json!({})).await);
    ground.gateway.close().await;
    assert!(store_at(ground.data.path()).await.owners().await.unwrap().is_empty());
    assert_eq!(std::fs::read_dir(ground.data.path().join("owners")).unwrap().count(), 0);
}

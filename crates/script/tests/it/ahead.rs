//! Interpreters that were started ahead: used for what they fit, by one script each, and not to be
//! told from others.

use std::time::Duration;

use script::{Checked, Ending, Python};
use serde_json::Value;

use crate::ground::Ground;

/// What a script can see of where it runs, as JSON; `chance` must differ from run to run.
const LOOK: &str = r#"
import builtins, json, os, random, resource, signal, sys, threading
import ssl

def files(path):
    return sorted(os.path.join(at, name) for at, _, names in os.walk(path) for name in names)

print(json.dumps({
    "chance": [random.random(), os.urandom(8).hex(), ssl.RAND_bytes(8).hex(), hash("chance"), id(object())],
    "environment": sorted(os.environ.items()),
    "descriptors": sorted(os.listdir("/proc/self/fd"), key=int),
    "temporary": files("/tmp"),
    "here": (os.getcwd(), sorted(os.listdir("."))),
    "identity": (os.getpid(), os.getuid(), os.getgid(), os.getgroups(), os.getsid(0)),
    "limits": [resource.getrlimit(number) for number in range(16)],
    "umask": os.umask(0o22),
    "modules": sorted(sys.modules),
    "path": sys.path,
    "arguments": sys.argv,
    "names": sorted(globals()),
    "left": hasattr(builtins, "left") or hasattr(os, "left") or json.dumps.__module__,
    "handlers": [str(signal.getsignal(number)) for number in (2, 10, 12, 14, 15)],
    "threads": threading.active_count(),
    "processes": [name for name in os.listdir("/proc") if name.isdigit()],
    "status": [line for line in open("/proc/self/status") if line.startswith(("Cap", "Sec", "NoNew", "Groups"))],
}))
"#;

/// Leaves what it can wherever it can.
const LEAVE: &str = r#"
import builtins, json, os, random, signal, subprocess, sys
builtins.left = os.left = True
json.dumps = lambda *a, **k: "poisoned"
random.seed(1)
os.environ["LEFT"] = "1"
os.umask(0)
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
for place in ("/tmp/left", "/dev/shm/left"):
    open(place, "w").write("left")
for place in ("/run/agent/left.py", "/workspace/.agent/left", "/usr/left"):
    try:
        open(place, "w").write("left")
    except OSError:
        pass
subprocess.Popen(["/bin/sleep", "100"], start_new_session=True)
os.dup2(os.open("/tmp/left", os.O_RDONLY), 77)
"#;

async fn ground(most: usize) -> Ground {
    Ground::ahead(Python::find("auto").await.unwrap(), most).await
}

fn seen(printed: &str) -> (Value, Value) {
    let mut all: Value = serde_json::from_str(printed).unwrap();
    let chance = all["chance"].take();
    (chance, all)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_cannot_tell_that_its_interpreter_waited_nor_see_the_script_before() {
    // What an interpreter takes by itself is measured anew each time one is looked for.
    let python = Python::find("auto").await.unwrap();
    let cold = Ground::with(python.clone()).await;
    let (chance, expected) = seen(&cold.run(LOOK).await.stdout);
    let ahead = Ground::ahead(python, 1).await;
    let left = ahead.run(LEAVE).await;
    assert_eq!(left.finished.ending, Ending::Completed, "{}", left.shown());
    let mut chances = vec![chance];
    for _ in 0..2 {
        ahead.waiting((1, 0)).await;
        let (chance, found) = seen(&ahead.run(LOOK).await.stdout);
        assert_eq!(found, expected);
        chances.push(chance);
    }
    for source in 0..4 {
        let mut values: Vec<_> = chances.iter().map(|one| one[source].to_string()).collect();
        values.sort();
        values.dedup();
        assert_eq!(values.len(), 3, "drawn twice: {chances:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_serves_one_script_and_another_takes_its_place() {
    let ground = ground(4).await;
    assert_eq!(ground.engine.waiting(), (0, 0), "nothing is started before there is a need");
    ground.run("").await;
    ground.waiting((1, 0)).await;
    for turn in 0..3 {
        let ran = ground.run(&format!("print({turn})")).await;
        assert_eq!(ran.stdout, format!("{turn}\n"));
        ground.waiting((1, 0)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_asks_for_another_cell_gets_another_cell() {
    let ground = ground(1).await;
    let limit = "import resource\nprint(resource.getrlimit(resource.RLIMIT_CPU)[0])";
    let usual = ground.run(limit).await.stdout;
    ground.waiting((1, 0)).await;
    let longer = |job: &mut script::Job| job.limits.timeout = Duration::from_secs(40);
    let ran = ground.run_with(limit, longer).await;
    assert_ne!(ran.stdout, usual);
    ground.waiting((1, 0)).await;
    assert_eq!(ground.run_with(limit, longer).await.stdout, ran.stdout);
    ground.waiting((1, 0)).await;
    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join("of-the-other"), "").unwrap();
    let moved = |job: &mut script::Job| job.workspace = crate::ground::open(other.path());
    let ran = ground.run_with("import os\nprint(os.listdir())", moved).await;
    assert_eq!(ran.stdout, "['of-the-other']\n");
    let read_only = |job: &mut script::Job| {
        job.workspace = crate::ground::open(other.path());
        job.access = sandbox::Access::ReadOnly;
    };
    ground.waiting((1, 0)).await;
    let ran = ground.run_with("open('new', 'w')", read_only).await;
    assert!(matches!(ran.finished.ending, Ending::Failed { .. }), "{}", ran.shown());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workspace_that_was_made_anew_is_the_new_one() {
    let ground = ground(2).await;
    let place = ground.workspace.path().join("inner");
    let there = |job: &mut script::Job| job.workspace = crate::ground::open(&place);
    std::fs::create_dir(&place).unwrap();
    ground.run_with("open('old', 'w')", there).await;
    ground.waiting((1, 0)).await;
    std::fs::remove_dir_all(&place).unwrap();
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("new"), "").unwrap();
    let ran = ground.run_with("import os\nprint(os.listdir())", there).await;
    assert_eq!(ran.stdout, "['new']\n", "{}", ran.shown());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_changed_in_the_workspace_meanwhile_is_seen() {
    let ground = ground(1).await;
    ground.run("").await;
    ground.waiting((1, 0)).await;
    std::fs::write(ground.workspace.path().join("lately.py"), "value = 7").unwrap();
    let ran = ground.run("import lately\nprint(lately.value)").await;
    assert_eq!(ran.stdout, "7\n", "{}", ran.shown());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_of_a_script_is_its_own() {
    let ground = ground(1).await;
    let short = |job: &mut script::Job| job.limits.timeout = Duration::from_secs(2);
    ground.run_with("", short).await;
    ground.waiting((1, 0)).await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let ran = ground.run_with("print('in time')", short).await;
    assert_eq!(ran.finished.ending, Ending::Completed, "{}", ran.shown());
    assert!(ran.finished.usage.wall < Duration::from_secs(2), "{:?}", ran.finished.usage);
    ground.waiting((1, 0)).await;
    let ran = ground.run_with("while True: pass", short).await;
    assert_eq!(ran.finished.ending, Ending::TimedOut, "{}", ran.shown());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_finds_one_that_waits_too() {
    let ground = ground(1).await;
    for _ in 0..3 {
        let found = ground.engine.check("def").await.unwrap();
        assert!(matches!(found, Checked::SyntaxError { line: 1, .. }), "{found:?}");
        ground.waiting((0, 1)).await;
        let found = ground.engine.check("pass").await.unwrap();
        assert_eq!(found, Checked::Parses { calls: Vec::new() });
        ground.waiting((0, 1)).await;
    }
}

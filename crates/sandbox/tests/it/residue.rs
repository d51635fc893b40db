//! Nothing is left: not after many runs, not at once, not after the owner was killed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sandbox::Ending;

use crate::ground::{run, sandbox, shell, text};

const OWNER: &str = "PINFOLD_TEST_OWNER";

fn processes() -> BTreeMap<i32, String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        Some((pid, text(&line).replace('\0', " ")))
    })
    .collect()
}

/// All processes below this one.
fn descendants() -> Vec<i32> {
    let mut found = vec![std::process::id() as i32];
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let children =
                std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
        }
        next += 1;
    }
    found.split_off(1)
}

fn descriptors(pid: i32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Directories of control groups whose name is one of ours.
fn groups_of(pid: u32) -> Vec<PathBuf> {
    fn collect(directory: &Path, depth: usize, needle: &str, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let is_ours = entry.file_name().to_string_lossy().contains(needle);
            if is_ours {
                found.push(entry.path());
            } else if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                collect(&entry.path(), depth - 1, needle, found);
            }
        }
    }
    let mut found = Vec::new();
    collect(Path::new("/sys/fs/cgroup"), 6, &format!(".{pid}."), &mut found);
    found.retain(|path| path.file_name().unwrap().to_string_lossy().starts_with("pinfold."));
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_at_once_all_answer() {
    let sandbox = sandbox().await;
    let runs: Vec<_> = (0..50)
        .map(|number| {
            let sandbox = sandbox.clone();
            tokio::spawn(
                async move { run(&sandbox, shell(&format!("echo {number}; exit 3"))).await },
            )
        })
        .collect();
    for (number, run) in runs.into_iter().enumerate() {
        let ended = run.await.unwrap();
        assert_eq!(
            (ended.ending, text(&ended.stdout.head)),
            (Ending::Exited(3), format!("{number}\n"))
        );
    }
}

/// In a process of its own, so that other tests' cells are not counted.
#[test]
fn two_hundred_runs_leave_nothing() {
    let output = Command::new("/proc/self/exe")
        .args(["residue::many_runs_in_their_own_process", "--exact", "--nocapture"])
        .env(OWNER, "many")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

#[tokio::test]
async fn many_runs_in_their_own_process() {
    if std::env::var_os(OWNER).is_none_or(|value| value != "many") {
        return;
    }
    let sandbox = sandbox().await;
    let count = || {
        let below = descendants();
        let fds: Vec<_> = below.iter().map(|pid| descriptors(*pid)).collect();
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap().lines().count();
        (
            below.len(),
            fds,
            descriptors(std::process::id() as i32),
            mounts,
            groups_of(std::process::id()).len(),
        )
    };
    for _ in 0..5 {
        run(&sandbox, shell("true")).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let before = count();
    for number in 0..200 {
        let mut spec = shell("echo x; (sleep 50 &) ; exit 0");
        if number % 10 == 0 {
            spec = shell("sleep 50");
            spec.limits.wall = Duration::from_millis(20);
        }
        run(&sandbox, spec).await;
    }
    let deadline = Instant::now() + Duration::from_secs(5);
    while count() != before && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(count(), before);
    let below = descendants();
    drop(sandbox);
    let deadline = Instant::now() + Duration::from_secs(5);
    while !descendants().is_empty() && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(descendants(), Vec::<i32>::new(), "of {below:?}");
    assert_eq!(groups_of(std::process::id()), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_forgotten_run_ends_and_a_dead_keeper_is_replaced() {
    if std::env::var_os(OWNER).is_none_or(|value| value != "keeper") {
        let output = Command::new("/proc/self/exe")
            .args([
                "residue::a_forgotten_run_ends_and_a_dead_keeper_is_replaced",
                "--exact",
                "--nocapture",
            ])
            .env(OWNER, "keeper")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        return;
    }
    let sandbox = sandbox().await;
    let seconds = (6_000_000 + std::process::id()).to_string();
    let needle = format!("sleep {seconds}");
    let left = || processes().values().filter(|line| **line == format!("{needle} ")).count();
    let other = sandbox.clone();
    // A runtime that ends with a program still running: nobody is left to end it in time.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let running = runtime.block_on(async {
            other.spawn(shell(&format!("exec sleep {seconds}"))).await.unwrap()
        });
        std::mem::forget(running);
        runtime.shutdown_background();
    })
    .join()
    .unwrap();
    let deadline = Instant::now() + Duration::from_secs(5);
    while left() > 0 && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(left(), 0);

    let keeper = processes()
        .into_iter()
        .find(|(pid, line)| line.starts_with("pinfold-keeper") && descendants().contains(pid));
    let (pid, _) = keeper.unwrap();
    assert!(Command::new("/bin/kill").args(["-9", &pid.to_string()]).status().unwrap().success());
    tokio::time::sleep(Duration::from_millis(200)).await;
    let error = sandbox.spawn(shell("true")).await.unwrap_err();
    assert!(matches!(error, sandbox::Error::KeeperLost(_)), "{error:?}");
    assert_eq!(run(&sandbox, shell("exit 4")).await.ending, Ending::Exited(4));
}

#[tokio::test]
async fn a_killed_owner_leaves_no_process_and_no_group() {
    if std::env::var_os(OWNER).is_some_and(|value| value == "killed") {
        let sandbox = sandbox().await;
        let seconds = std::env::var("PINFOLD_TEST_SECONDS").unwrap();
        let script = format!("trap '' TERM HUP; (setsid sleep {seconds} &) ; sleep {seconds}");
        let mut running = sandbox.spawn(shell(&script)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        std::io::stdout().write_all(b"ready\n").unwrap();
        running.wait().await;
        return;
    }
    let seconds = (5_000_000 + std::process::id()).to_string();
    let mut owner = Command::new("/proc/self/exe")
        .args(["residue::a_killed_owner_leaves_no_process_and_no_group", "--exact", "--nocapture"])
        .env(OWNER, "killed")
        .env("PINFOLD_TEST_SECONDS", &seconds)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("ready")), "the owner never was ready");
    let needle = format!("sleep {seconds}");
    let left = || processes().values().filter(|line| line.contains(&needle)).count();
    assert!(left() >= 2, "{:?}", processes());
    owner.kill().unwrap();
    owner.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(5);
    while left() > 0 && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(left(), 0, "{:?}", processes());
    let _next = sandbox().await;
    assert_eq!(groups_of(owner.id()), Vec::<PathBuf>::new());
}

/// Ids that the host's kernel knows for processes with this command line.
fn ids_of(line: &str) -> Vec<String> {
    let found = processes().into_iter().filter(|(_, its)| its.trim_end() == line);
    let ids = found.filter_map(|(pid, _)| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        Some(ids.split_whitespace().next()?.to_owned())
    });
    ids.collect()
}

#[tokio::test]
async fn live_cells_are_strangers_to_each_other_on_the_host() {
    if !crate::ground::is_root() {
        return; // An ordinary user has one id to give.
    }
    let (one, other) = (sandbox().await, sandbox().await);
    let seconds = (7_000_000 + std::process::id()).to_string();
    let line = format!("sleep {seconds}");
    let sleep = || shell(&format!("exec {line}"));
    let mut runs = Vec::new();
    for sandbox in [&one, &one, &other] {
        runs.push(sandbox.spawn(sleep()).await.unwrap());
    }
    let deadline = Instant::now() + Duration::from_secs(5);
    while ids_of(&line).len() < 3 && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut ids = ids_of(&line);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3, "{ids:?}");
    assert!(ids.iter().all(|id| id.parse::<u32>().unwrap() >= 0x4000_0000), "{ids:?}");
}

//! Every example is run as its README says, by the built binary.

use std::path::PathBuf;

use crate::world::{Ended, World, ended, repository, scripts_run, skipped, test_tools};

/// Runs an example with its data in a world of its own, so that the tree stays clean.
fn example(world: &World, case: &str, script: &str, path: Option<PathBuf>) -> Ended {
    let folder = repository().join(case);
    let mut command = world.pinfold(&["run", "--config"]);
    command
        .arg(folder.join("pinfold.toml"))
        .arg(folder.join(script))
        .current_dir(repository())
        .env("PINFOLD_DATA_DIR", world.path("data"))
        .env("PINFOLD_DATABASE", format!("sqlite://{}", world.path("pinfold.db").display()));
    if let Some(first) = path {
        let rest = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{rest}", first.display()));
    }
    ended(command)
}

#[test]
fn fleet_asks_five_hundred_devices_and_prints_a_summary() {
    if !scripts_run() {
        return;
    }
    let world = World::with("");
    let ended = example(&world, "examples/fleet", "summary.py", None)
        .code(0)
        .prints("site     devices online mean °C alarms\nAachen       100     97    33.4     27\n")
        .prints("459 of 500 devices are behind firmware 2.3.2.")
        .prints("  SN0057  49.9 °C  Cádiz\n")
        .says("ok · 501 calls");
    assert!(!ended.stdout.contains("ok · 501"), "the account line is not for stdout: {ended:#?}");
    assert!(ended.stderr.contains("calls.jsonl"), "{ended:#?}");
    let lines = world.call_lines();
    assert_eq!(lines.len(), 501);
    assert!(lines.iter().all(|line| line["ok"] == true), "{lines:?}");
}

#[test]
fn git_report_reads_this_repository_over_a_foreign_server() {
    if !scripts_run() {
        return;
    }
    let programs = test_tools().join("venv/bin");
    if !programs.join("mcp-server-git").exists() {
        skipped("mcp-server-git is not installed; .ci/test-tools installs it");
        return;
    }
    if !repository().join(".git").exists() {
        skipped("this is no git repository");
        return;
    }
    let world = World::with("");
    let ended = example(&world, "examples/git-report", "report.py", Some(programs))
        .code(0)
        .prints("crates/mcp")
        .says("ok · ");
    let commits: usize =
        ended.stdout.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap();
    assert!(ended.stdout.contains(&format!("{commits} commits\n")), "{ended:#?}");
    assert_eq!(world.call_lines().len(), commits + 1);
}

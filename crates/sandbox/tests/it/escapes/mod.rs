//! The escape suite: attacks on a cell, each first seen to succeed without the layers that stop it.
//!
//! A row runs twice. In the first run the layers it names are left out, and the attack must
//! succeed, otherwise the row proves nothing and fails. In the second everything is there, and the
//! attack must be held with exactly the answer that the row gives, in time, and with nothing left
//! afterwards. Many rows have a third run: with only the first of their layers left out, a second
//! one must hold. Rows marked as unproven are checks and are not counted as rows.
//!
//! The whole table runs as root and again as an ordinary user, each in a process of its own: a copy
//! of this test binary. In the weaker ways (bubblewrap, no control groups) the same attacks must be
//! held, but for the few rows that say why not. `PINFOLD_ESCAPES_ONLY=text` takes the rows whose
//! title has that text.
//!
//! Every attack is aimed at what its `Stage` made for it and is bounded by itself, so that without
//! its layers it does the machine no harm: what would change the host is only opened, asked for with
//! arguments that the kernel refuses in another way, or given the value it has.
//!
//! The numbers (S1…) are those of the project's list of abuses. Not here: S17 and S33–S38, which are
//! about requests and downloads; what S10 says of JavaScript; S51's proxies and S52, packages. S14,
//! S15, S23, S27, S39, S41 and S49 do not exist.

mod files;
mod kernel;
mod network;
mod processes;
mod resources;
mod row;
mod run;
mod stage;

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use sandbox::{Options, Way};

use row::Weaker;

/// Set in the process that runs the table; the server's environment that no run may see.
const AS: &str = "PINFOLD_ESCAPES_AS";

/// Set to the way that is to be taken instead of the best one. The left-out runs are then skipped:
/// they say nothing about the way, only about the attacks. `ahead` is the best way with programs
/// that are started before their time begins.
const WAY: &str = "PINFOLD_ESCAPES_WAY";

/// An id that no account of any machine needs to have.
const ORDINARY: u32 = 54321;

/// The two halves measure time and memory, so they do not run at the same time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Another test runs this whole binary again as an ordinary user; the table does that by itself.
fn is_a_second_time() -> bool {
    std::env::var_os("PINFOLD_TEST_ORDINARY").is_some()
}

#[test]
fn attacks_are_held_for_root() {
    if is_a_second_time() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        crate::ground::skip("the escape suite's half for root needs root");
        return;
    }
    run_table("root", "");
}

#[test]
fn attacks_are_held_for_root_without_control_groups() {
    if is_a_second_time() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        crate::ground::skip("the escape suite's half for root needs root");
        return;
    }
    run_table("root", "watch");
}

#[test]
fn attacks_are_held_through_bubblewrap() {
    if is_a_second_time() {
        return;
    }
    if !Path::new("/usr/bin/bwrap").exists() {
        crate::ground::skip("bubblewrap is not installed");
        return;
    }
    run_table("ordinary", "bubblewrap");
}

#[test]
fn attacks_are_held_for_an_ordinary_user() {
    if is_a_second_time() {
        return;
    }
    run_table("ordinary", "");
}

#[test]
fn attacks_are_held_when_the_program_was_started_ahead() {
    if is_a_second_time() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        crate::ground::skip("the escape suite's half for root needs root");
        return;
    }
    run_table("root", "ahead");
}

#[test]
fn attacks_are_held_for_an_ordinary_user_when_the_program_was_started_ahead() {
    if is_a_second_time() {
        return;
    }
    run_table("ordinary", "ahead");
}

/// Runs the table in a copy of this binary, as the user that is asked for.
fn run_table(user: &str, way: &str) {
    if !Path::new(stage::PYTHON).exists() {
        crate::ground::skip("the attacks are Python programs, and there is no /usr/bin/python3");
        return;
    }
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let directory = tempfile::TempDir::with_prefix_in("escapes-binary-", "/var/tmp").unwrap();
    let everyone = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(directory.path(), everyone).unwrap();
    let copy = directory.path().join("it");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let mut command = table_command(&copy, user, way);
    if user == "ordinary" && rustix::process::geteuid().is_root() {
        command.uid(ORDINARY).gid(ORDINARY);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        return;
    }
    eprintln!("{text}\n{errors}");
    // Again at the very end: of a long output only the end may be kept.
    let faults: Vec<&str> = errors.lines().filter(|line| line.starts_with("FAULT")).collect();
    panic!("the escape suite failed as {user}; see above\n{}", faults.join("\n"));
}

fn table_command(copy: &Path, user: &str, way: &str) -> Command {
    let mut command = Command::new(copy);
    command
        .args(["--ignored", "--exact", "escapes::table", "--nocapture", "--test-threads=1"])
        .env(AS, user)
        .env(WAY, way)
        .env_remove("TMPDIR")
        .current_dir("/");
    command
}

#[test]
#[ignore = "run by the tests above, in a process of its own"]
fn table() {
    let Ok(user) = std::env::var(AS) else {
        return;
    };
    let root = user == "root";
    assert_eq!(root, rustix::process::geteuid().is_root(), "started as the wrong user");
    let only = std::env::var("PINFOLD_ESCAPES_ONLY").ok();
    stage::own_a_key();
    let mut rows = Vec::new();
    for part in
        [resources::rows(), files::rows(), processes::rows(), kernel::rows(), network::rows()]
    {
        rows.extend(part);
    }
    rows.retain(|row| {
        row.who.includes(root)
            && only.as_ref().is_none_or(|only| format!("{} {}", row.id, row.name).contains(only))
    });
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(8).enable_all().build().unwrap();
    let mut options = Options::default();
    let weaker = match std::env::var(WAY).as_deref() {
        Ok("bubblewrap") => Some(Weaker::ThroughBubblewrap),
        Ok("watch") => Some(Weaker::WithoutControlGroups),
        _ => None,
    };
    options.way = (weaker == Some(Weaker::ThroughBubblewrap)).then_some(Way::Bubblewrap);
    options.without_cgroups = weaker == Some(Weaker::WithoutControlGroups);
    if run::is_ahead() {
        for row in &mut rows {
            row.unproven = Some("seen with programs that do not wait");
        }
    }
    if let Some(weaker) = weaker {
        rows.retain(|row| match row.weaker {
            Some((way, reason)) if way == weaker => {
                eprintln!("weaker  {} {}: {reason}", row.id, row.name);
                false
            }
            _ => true,
        });
        for row in &mut rows {
            row.unproven = Some("seen with the best way");
        }
    }
    runtime.block_on(run::all(rows, options));
}

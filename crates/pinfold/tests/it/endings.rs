//! Ends that nobody planned: Ctrl-C, kill -9.

use std::process::Command;
use std::time::Duration;

use crate::world::{Ended, World, ended, finish, scripts_run, skipped, start, until};

fn signal(child: &std::process::Child, name: &str) {
    let status = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

#[test]
fn ctrl_c_ends_the_script_and_completes_the_records() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    world.write(
        "s.py",
        "from agent_tools import call\nprint(call('t__echo', {'text': 'first'}), flush=True)\n\
         call('t__sleep', {'seconds': 600})\n",
    );
    let child = start(world.pinfold(&["run", "s.py"]));
    until("the second call", || (world.calls().len() == 2).then_some(()));
    signal(&child, "-INT");
    let ended = finish(child).code(1).says("cancel");
    assert!(ended.took < Duration::from_secs(15), "{ended:#?}");
    let lines = world.call_lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0]["ok"], true, "{lines:?}");
    assert_eq!(lines[1]["ok"], false, "a read that was cancelled did not work: {lines:?}");
    let output = world.records().pop().unwrap().join("output.txt");
    assert_eq!(std::fs::read_to_string(output).unwrap(), "first\n");
}

#[test]
fn ctrl_c_at_a_terminal_reaches_the_script_in_good_order() {
    if !scripts_run() {
        return;
    }
    // The terminal sends the signal to every process of the group, not to pinfold alone.
    let world = World::new("");
    world.write(
        "s.py",
        "from agent_tools import call, progress\n\
         call('t__echo', {'text': 'first'})\nprogress(1, 2, 'in the middle')\n\
         call('t__sleep', {'seconds': 600})\n",
    );
    let ended = ended(world.at_terminal(&["in the middle=^C"], &["run", "s.py"]))
        .code(1)
        .prints("cancelling; once more to quit at once");
    assert!(ended.took < Duration::from_secs(15), "{ended:#?}");
    let lines = world.call_lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0]["ok"], true, "{lines:?}");
}

#[test]
fn a_second_ctrl_c_quits_at_once() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    world.write(
        "s.py",
        "from agent_tools import call, progress\nprogress(1, 2, 'in the middle')\n\
         call('t__sleep', {'seconds': 600})\n",
    );
    let typed = ["in the middle=^C", "quit at once=^C"];
    let ended = ended(world.at_terminal(&typed, &["run", "s.py"]));
    assert!(ended.took < Duration::from_secs(15), "{ended:#?}");
    assert!(matches!(ended.code, Some(130 | 1)), "{ended:#?}");
}

/// What `pinfold` does where `data` is a file system of 2 MB on which `first` was done.
fn on_a_small_disk(world: &World, first: &str, arguments: &str) -> Ended {
    std::fs::create_dir_all(world.path("data")).unwrap();
    let inner = world.pinfold::<&str>(&[]);
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c"]).arg(format!(
        "mount -t tmpfs -o size=2m none data && {first} && exec {} {arguments}",
        env!("CARGO_BIN_EXE_pinfold")
    ));
    command.current_dir(inner.get_current_dir().unwrap());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    ended(command)
}

#[test]
fn a_disk_that_is_full_at_the_start_is_no_fault_of_the_configuration() {
    let world = World::new("");
    world.write("s.py", "print(1)\n");
    let full =
        on_a_small_disk(&world, "(dd if=/dev/zero of=data/fill 2>/dev/null; true)", "run s.py");
    if full.stderr.contains("unshare") {
        skipped("mounting a small disk needs root");
        return;
    }
    full.code(1).says("space");
}

#[test]
fn a_full_disk_is_told_and_no_write_is_sent_without_its_record() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    world.write("s.py", "print(1)\n");
    if on_a_small_disk(&world, "true", "run s.py").stderr.contains("unshare") {
        skipped("mounting a small disk needs root");
        return;
    }
    let script = "from agent_tools import call, ToolError\n\
        for n in range(64):\n    print('x' * 65535)\n\
        try:\n    open('fill', 'wb').write(b'x' * (4 << 20))\n\
        except OSError as error:\n    print(error)\n\
        try:\n    print(call('t__note', {'text': 'x'}))\n\
        except ToolError as error:\n    print(error.kind, error.message)\n";
    world.write("s.py", script);
    let ended = on_a_small_disk(&world, "true", "run s.py --tools t__note --yes");
    let all = format!("{}{}", ended.stdout, ended.stderr);
    assert!(all.contains("space") || all.contains("full"), "the full disk is not told: {ended:#?}");
    assert!(
        world.calls().is_empty(),
        "a write was sent whose intent could not be kept: {ended:#?}"
    );
}

#[test]
fn kill_9_in_a_write_leaves_its_outcome_unknown_and_it_is_never_repeated() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    world.write(
        "s.py",
        "from agent_tools import call\nprint('writing', flush=True)\n\
         call('t__slow_note', {'text': 'half', 'seconds': 600})\n",
    );
    let mut child = start(world.pinfold(&["run", "s.py", "--tools", "t__slow_note", "--yes"]));
    until("the write", || (world.calls().len() == 1).then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();

    // The next start settles what was left.
    world.run("print('next')\n", &[]).code(0);
    let folder = world.records().remove(0);
    let text = std::fs::read_to_string(folder.join("calls.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert_eq!(lines[0]["ok"], serde_json::Value::Null, "{text}");
    assert_eq!(lines[0]["summary"], "outcome unknown", "{text}");
    assert_eq!(world.calls().len(), 1, "the write was repeated");
}

#[test]
fn nothing_survives_kill_9() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    let mark = format!("survivor-{}", std::process::id());
    world.write(
        "s.py",
        &format!(
            "import os, subprocess, sys, time\nfrom agent_tools import call\n\
             subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', '{mark}'])\n\
             call('t__echo', {{'text': 'up'}})\ntime.sleep(600)\n"
        ),
    );
    let mut child = start(world.pinfold(&["run", "s.py"]));
    until("the script", || (world.calls().len() == 1).then_some(()));
    assert!(running(&mark), "the child process never ran, so this test would show nothing");
    child.kill().unwrap();
    child.wait().unwrap();
    until("the end of everything inside", || (!running(&mark)).then_some(()));
}

/// Whether a process of this host has `mark` among its arguments.
fn running(mark: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|argument| argument == mark.as_bytes())
    })
}

//! The permission table of run_script, with a server that records what reaches it.

use crate::world::{World, ended, scripts_run};

const NOTE: &str = "from agent_tools import call, ToolError\n\
    try:\n    print(call('t__note', {'text': 'x'}))\n\
    except ToolError as error:\n    print(error.kind, '|', error.message)\n";

const WIPE: &str = "from agent_tools import call, ToolError\n\
    try:\n    print(call('t__wipe', {}))\n\
    except ToolError as error:\n    print(error.kind, '|', error.message)\n";

#[test]
fn a_write_that_is_not_listed_is_a_tool_error() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    world.run(NOTE, &[]).code(0).prints("not_listed | ").prints("t__note");
    world.run(NOTE, &["--yes"]).code(0).prints("not_listed | ");
    assert!(world.calls().is_empty(), "{:?}", world.calls());
}

#[test]
fn a_listed_write_without_a_terminal_is_refused_before_it_runs() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    let ended = world.run(NOTE, &["--tools", "t__note"]).code(3).says("--yes").says("t__note");
    assert_eq!(ended.stdout, "", "{ended:#?}");
    assert!(world.calls().is_empty() && world.records().is_empty());
}

#[test]
fn yes_allows_what_a_person_could() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    world.run(NOTE, &["--tools", "t__note", "--yes"]).code(0).prints("noted\n");
    assert_eq!(world.calls(), [r#"note {"text":"x"}"#]);
    // Once is once: the same script is asked about again.
    world.run(NOTE, &["--tools", "t__note"]).code(3);
    assert_eq!(world.calls().len(), 1);
}

#[test]
fn an_answer_from_another_terminal_is_found_by_the_same_call() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    world.run(NOTE, &["--tools", "t__note"]).code(3).says("pinfold approvals approve ");
    let list = ended(world.pinfold(&["approvals", "list", "--json"])).code(0);
    let open: serde_json::Value = serde_json::from_str(&list.stdout).unwrap();
    let id = open[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(open.as_array().unwrap().len(), 1, "{open:#}");
    ended(world.pinfold(&["approvals"])).code(0).prints(&id).prints("may call t__note");
    ended(world.pinfold(&["approvals", "approve", &id])).code(0);
    world.run(NOTE, &["--tools", "t__note"]).code(0).prints("noted\n");
    assert_eq!(world.calls().len(), 1);
    // It was for one use.
    world.run(NOTE, &["--tools", "t__note"]).code(3);
    let list = ended(world.pinfold(&["approvals", "list", "--json"])).code(0);
    let open: serde_json::Value = serde_json::from_str(&list.stdout).unwrap();
    let id = open[0]["id"].as_str().unwrap();
    ended(world.pinfold(&["approvals", "deny", id, "--reason", "enough"])).code(0);
    world.run(NOTE, &["--tools", "t__note"]).code(3).says("enough");
    assert_eq!(world.calls().len(), 1);
    ended(world.pinfold(&["approvals", "approve", "no-such"])).code(1).says("no-such");
}

#[test]
fn auto_does_not_ask() {
    if !scripts_run() {
        return;
    }
    let world = World::new("[profiles.default]\nservers = ['t']\npermission_mode = 'auto'\n");
    world.run(NOTE, &["--tools", "t__note"]).code(0).prints("noted\n");
    world.run(WIPE, &[]).code(0).prints("destructive | ");
    assert_eq!(world.calls().len(), 1);
}

#[test]
fn a_destructive_tool_is_never_reached_by_a_script() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    world.run(WIPE, &["--yes"]).code(0).prints("destructive | ");
    let listed = world.run(WIPE, &["--tools", "t__wipe", "--yes"]);
    assert_eq!(listed.code, Some(3), "{listed:#?}");
    assert!(listed.stderr.contains("t__wipe"), "{listed:#?}");
    assert!(world.calls().is_empty());
}

#[test]
fn read_only_hides_writes() {
    if !scripts_run() {
        return;
    }
    let world = World::new("[profiles.default]\nservers = ['t']\npermission_mode = 'read_only'\n");
    world.run(NOTE, &["--yes"]).code(0).prints("unknown_tool | ");
    let listed = ended(world.pinfold(&["tools"])).code(0);
    assert!(!listed.stdout.contains("t__note"), "{listed:#?}");
    assert!(world.calls().is_empty());
}

#[test]
fn a_tool_that_the_profile_withholds_is_refused_by_policy_and_a_mistyped_one_is_not() {
    if !scripts_run() {
        return;
    }
    let world = World::new("[profiles.default]\nservers = ['t']\npermission_mode = 'read_only'\n");
    world.run(NOTE, &["--tools", "t__note"]).code(3).says("the profile is read-only");
    world.run(NOTE, &["--tools", "t__nott"]).code(1).says("there is no tool");
    let off = "[profiles.default]\nservers = ['t']\ntools.'t__note' = { approval = 'off' }\n";
    World::new(off).run(NOTE, &["--tools", "t__note"]).code(3);
}

#[test]
fn a_script_that_is_always_asked_about_says_so_where_nobody_is() {
    if !scripts_run() {
        return;
    }
    let rule = "[profiles.default]\nservers = ['t']\ntools.run_script = { approval = 'always' }\n";
    World::new(rule).run("x = 1\n", &[]).code(3).says("needs an approval to run and there is no");
}

#[test]
fn a_rule_for_a_tool_that_is_not_there_is_told() {
    if !scripts_run() {
        return;
    }
    let world = World::new(
        "[profiles.default]\nservers = ['t']\n\
         tools.'t__note' = { approval = 'always' }\ntools.'t__wipee' = { approval = 'off' }\n",
    );
    let warning = "warning: profiles.default.tools.\"t__wipee\" has no effect: its server has no \
                   such tool; did you mean `t__wipe`?";
    let listed = ended(world.pinfold(&["tools"])).code(0).says(warning);
    assert!(!listed.stderr.contains("t__note"), "{listed:#?}");
    world.run("from agent_tools import call\ncall('t__echo', {'text': 'x'})\n", &[]).says(warning);
}

#[test]
fn what_was_typed_before_the_question_is_no_answer() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    world.write("s.py", NOTE);
    // Typed as soon as the terminal is there, which is before anything is shown.
    let typed = ["=o", "deny >=d seen"];
    ended(world.at_terminal(&typed, &["run", "s.py", "--tools", "t__note"])).code(3).prints("seen");
    assert!(world.calls().is_empty(), "a write was approved unseen");
}

#[test]
fn ctrl_c_at_the_question_ends_it_at_once() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    world.write("s.py", NOTE);
    let typed = ["deny >=^C"];
    let ended = ended(world.at_terminal(&typed, &["run", "s.py", "--tools", "t__note"]))
        .code(1)
        .prints("error: cancelled");
    assert!(ended.took < std::time::Duration::from_secs(15), "{ended:#?}");
    assert!(world.calls().is_empty() && world.records().is_empty());
}

#[test]
fn sigterm_at_the_question_ends_it_at_once() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    world.write("s.py", NOTE);
    let typed = ["deny >=^TERM"];
    let ended = ended(world.at_terminal(&typed, &["run", "s.py", "--tools", "t__note"]))
        .code(1)
        .prints("error: cancelled");
    assert!(ended.took < std::time::Duration::from_secs(15), "{ended:#?}");
    assert!(world.calls().is_empty());
}

#[test]
fn the_command_that_approves_names_the_configuration_that_was_given() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    std::fs::create_dir(world.path("odd place")).unwrap();
    std::fs::rename(world.path("pinfold.toml"), world.path("odd place/own.toml")).unwrap();
    world.write("s.py", NOTE);
    let run = |arguments: &[&str]| {
        let mut command = world.pinfold(arguments);
        command.env_remove("PINFOLD_CONFIG");
        ended(command)
    };
    let script = ["run", "s.py", "--tools", "t__note", "--config", "odd place/own.toml"];
    let asked = run(&script).code(3);
    let said = asked.stderr.split("`pinfold ").nth(1).and_then(|rest| rest.split('`').next());
    let line = format!("{} {}", env!("CARGO_BIN_EXE_pinfold"), said.unwrap());
    // As a person would paste it, elsewhere.
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &line]).current_dir("/").env("HOME", world.path("home"));
    ended(shell).code(0).says("allowed once");
    run(&script).code(0).prints("noted\n");
}

#[test]
fn a_person_at_a_terminal_allows_once() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    world.write("s.py", NOTE);
    ended(world.at_terminal(&["deny >=o"], &["run", "s.py", "--tools", "t__note"]))
        .code(0)
        .prints("may call t__note (write)")
        .prints("    3 │     print(call('t__note', {'text': 'x'}))")
        .prints("noted");
    assert_eq!(world.calls().len(), 1);
}

#[test]
fn a_person_at_a_terminal_denies_with_a_reason() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    world.write("s.py", NOTE);
    ended(world.at_terminal(
        &["deny >=d", "reason=not on a Friday"],
        &["run", "s.py", "--tools", "t__note"],
    ))
    .code(3)
    .prints("not on a Friday");
    assert!(world.calls().is_empty());
}

#[test]
fn what_is_shown_cannot_lie() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    world.write(
        "s.py",
        "from agent_tools import call\n\
         x = 1  # \u{1b}[2K\u{1b}[1A harmless\n\
         y = 2  # \u{202e}emih\n\
         z = 3;                                                                                                                                                                                call('t__note', {'text': 'far out'})\n",
    );
    let shown =
        ended(world.at_terminal(&["deny >=d no"], &["run", "s.py", "--tools", "t__note"])).code(3);
    for part in [r"\u{1b}[2K\u{1b}[1A harmless", r"\u{202e}emih", "call('t__note'"] {
        assert!(shown.stdout.contains(part), "no {part} in {shown:#?}");
    }
    let code = shown.stdout.split("    1 │").nth(1).and_then(|rest| rest.split("[o]").next());
    assert!(!code.unwrap_or("\u{1b}").contains('\u{1b}'), "{shown:#?}");
}

//! Where a configuration comes from, whom it may surprise, and how its faults are told.

use std::process::Command;

use crate::world::{SERVER, World, ended, scripts_run};

/// Without `PINFOLD_CONFIG`, which every world sets.
fn unguided(mut command: Command) -> Command {
    command.env_remove("PINFOLD_CONFIG");
    command
}

#[test]
fn an_unknown_key_names_file_line_and_key() {
    let world = World::new("\n[scripts]\nmax_cals = 3\n");
    ended(world.pinfold(&["tools"]))
        .code(2)
        .says("pinfold.toml:6: unknown key `max_cals`; did you mean `max_calls`? in [scripts]");
}

#[test]
fn wrong_usage_is_two() {
    let world = World::new("");
    ended(world.pinfold(&["run"])).code(2).says("SCRIPT.py");
    ended(world.pinfold(&["run", "absent.py"])).code(2).says("cannot read absent.py");
    ended(world.pinfold(&["tools", "--profile", "defualt"]))
        .code(2)
        .says("did you mean `default`?");
    ended(world.pinfold(&["tools", "--config", "absent.toml"])).code(2).says("absent.toml");
    let mut command = world.pinfold(&["tools"]);
    command.env("PINFOLD_LISTN", "x");
    ended(command).code(2).says("PINFOLD_LISTN").says("did you mean `listen`?");
}

#[test]
fn a_configuration_that_merely_lies_there_is_not_used() {
    let world = World::new("");
    let mark = world.path("started");
    world.write("pinfold.toml", "[servers.evil]\ncommand = 'touch'\nargs = ['HERE/started']\n");
    ended(unguided(world.pinfold(&["tools"]))).code(2).says("is not trusted").says("--config");
    assert!(!mark.exists(), "a program of an untrusted configuration was started");
}

#[test]
fn trust_is_asked_once_and_is_about_the_content() {
    let world = World::new("");
    let no = unguided(world.at_terminal(&["[y/N]=n"], &["tools"]));
    ended(no).code(2).prints("t: python3").prints("is not trusted");
    let yes = unguided(world.at_terminal(&["[y/N]=y"], &["tools"]));
    ended(yes).code(0).prints("t__echo");
    // Now it is remembered, also without a terminal.
    ended(unguided(world.pinfold(&["tools"]))).code(0).prints("t__echo");
    world.write("pinfold.toml", &format!("{SERVER}# changed\n"));
    ended(unguided(world.pinfold(&["tools"]))).code(2).says("is not trusted");
}

#[test]
fn what_is_to_be_trusted_is_shown_whole_and_as_it_is() {
    let world = World::with("");
    let padding = " ".repeat(600);
    world.write(
        "pinfold.toml",
        &format!(
            "[servers.t]\ncommand = 'sh'\nargs = ['-c', 'true{padding}; touch HERE/started']\n\
             env = {{ LD_PRELOAD = 's3cret' }}\ncwd = 'sub'\n\
             [servers.u]\nurl = \"https://u.example/\\u001b[2K\"\n"
        ),
    );
    let no = ended(unguided(world.at_terminal(&["[y/N]=n"], &["tools"]))).code(2);
    for part in ["; touch ", "(in sub)", "(sets LD_PRELOAD)", r"\u{1b}[2K"] {
        assert!(no.stdout.contains(part), "no {part} in {no:#?}");
    }
    assert!(!no.stdout.contains("s3cret"), "{no:#?}");
}

#[test]
fn trust_covers_what_is_imported() {
    let world = World::with("mcp_config = 'servers.json'\n");
    let import = r#"{"mcpServers": {"t": {"command": "python3", "args": ["FIXTURES/server.py"]}}}"#;
    world.write("servers.json", import);
    let yes = unguided(world.at_terminal(&["[y/N]=y"], &["tools"]));
    ended(yes).code(0).prints("t: python3").prints("t__echo");
    world.write("servers.json", &import.replace("python3", "touch"));
    ended(unguided(world.pinfold(&["tools"]))).code(2).says("is not trusted");
}

/// A project that scripts may write, with what `entry` says of its server; the configuration lies
/// at `at`.
fn project(at: &str, entry: &str) -> World {
    let world = World::with("");
    std::fs::create_dir(world.path("project")).unwrap();
    world.write(at, &configuration(entry));
    world
}

fn configuration(entry: &str) -> String {
    format!(
        "data_dir = 'HERE/data'\n[servers.t]\ncommand = 'python3'\n{entry}\n\
         [profiles.default]\nservers = ['t']\nworkspace = {{ path = 'HERE/project' }}\n"
    )
}

const OUTSIDE: &str = "args = ['FIXTURES/server.py', '--calls', 'HERE/calls']\ncwd = '/'";

#[test]
fn a_configuration_that_scripts_could_rewrite_is_trusted_by_content_only() {
    let world = project("project/pinfold.toml", OUTSIDE);
    let given = ["tools", "--config", "project/pinfold.toml"];
    ended(world.pinfold(&given))
        .code(2)
        .says("is not trusted")
        .says("move it out of the workspace");
    ended(world.at_terminal(&["[y/N]=y"], &given)).code(0).prints("t__echo");
    ended(world.pinfold(&given)).code(0).prints("t__echo");
}

#[test]
fn an_imported_file_that_scripts_could_rewrite_is_named_itself() {
    let world = project("pinfold.toml", OUTSIDE);
    world.write("project/.mcp.json", r#"{"mcpServers": {}}"#);
    let mut command = world.pinfold(&["tools"]);
    command.env("PINFOLD_MCP_CONFIG", "project/.mcp.json");
    let ended = ended(command).code(2).says("move it out of the workspace");
    assert!(ended.stderr.contains("project/.mcp.json names programs"), "{ended:#?}");
}

#[test]
fn the_natural_set_up_says_which_line_to_add() {
    let world = project("pinfold.toml", "args = ['FIXTURES/server.py']");
    let mut inside = world.pinfold(&["tools"]);
    inside.current_dir(world.path("project"));
    ended(inside)
        .code(2)
        .says("`servers.t` starts (pinfold's own, without `cwd`) in ")
        .says("`cwd = \"/\"`")
        .says("add `runs_from_workspace = true` to [servers.t]");
    for line in ["cwd = '/'", "runs_from_workspace = true"] {
        let world = project("pinfold.toml", &format!("args = ['FIXTURES/server.py']\n{line}"));
        let mut inside = world.pinfold(&["tools"]);
        inside.current_dir(world.path("project"));
        ended(inside).code(0).prints("t__echo");
    }
}

/// Runs a script that writes what it is given as `name` into its workspace.
fn plant(world: &World, name: &str, content: &str) {
    world
        .run(
            &format!(
                "import os\nname = {name:?}\nos.makedirs(os.path.dirname(name) or '.', exist_ok=True)\n\
                 open(name, 'w').write({content:?})\nos.chmod(name, 0o755)\n"
            ),
            &[],
        )
        .code(0);
    assert!(world.path("project").join(name).is_file(), "the script planted nothing");
}

#[test]
fn an_interpreter_planted_by_a_script_is_not_run_on_the_host() {
    if !scripts_run() {
        return;
    }
    let world = project("pinfold.toml", OUTSIDE);
    let mark = world.path("escaped");
    let planted = format!("#!/bin/sh\ntouch {}\n", mark.display());
    plant(&world, ".venv/bin/python", &planted);
    for command in [&["run", "s.py"][..], &["doctor"], &["tools"]] {
        let mut command = world.pinfold(command);
        command.env("PINFOLD_EXECUTE__PYTHON", "project/.venv/bin/python");
        ended(command).code(2).says("make the environment outside the workspace");
    }
    assert!(!mark.exists(), "what a script wrote was run on the host");
}

#[test]
fn a_server_that_a_script_rewrote_is_not_run_on_the_host() {
    if !scripts_run() {
        return;
    }
    let world = project("pinfold.toml", OUTSIDE);
    let mark = world.path("escaped");
    plant(&world, "server.py", &format!("open({:?}, 'w')\n", mark.display().to_string()));
    for entry in [
        "args = ['server.py']\ncwd = 'project'",
        "args = ['project/server.py']",
        "args = ['-m', 'server']\ncwd = 'project'",
    ] {
        world.write("pinfold.toml", &configuration(entry));
        for command in [&["run", "s.py"][..], &["tools"]] {
            ended(world.pinfold(command)).code(2).says("where scripts of the profile");
        }
    }
    assert!(!mark.exists(), "what a script wrote was run on the host");
    // Only who says so gets it.
    world.write(
        "pinfold.toml",
        &configuration("args = ['project/server.py']\nruns_from_workspace = true"),
    );
    ended(world.pinfold(&["tools"])).code(0);
    assert!(mark.exists(), "what was planted does nothing, so this test would show nothing");
}

#[test]
fn the_home_directory_is_no_workspace() {
    let world = World::new("[profiles.default]\nservers = ['t']\nworkspace = { path = 'home' }\n");
    ended(world.pinfold(&["tools"])).code(2).says("your own configuration is kept in");
}

#[test]
fn without_any_configuration_it_says_what_to_do() {
    let world = World::new("");
    std::fs::remove_file(world.path("pinfold.toml")).unwrap();
    ended(unguided(world.pinfold(&["tools"]))).code(2).says("--config FILE");
}

#[test]
fn the_persons_own_configuration_is_used() {
    let world = World::new("");
    std::fs::create_dir_all(world.path("home/.config/pinfold")).unwrap();
    std::fs::rename(world.path("pinfold.toml"), world.path("home/.config/pinfold/pinfold.toml"))
        .unwrap();
    ended(unguided(world.pinfold(&["tools"]))).code(0).prints("t__echo");
    // Also from its own folder, where it lies in the working directory.
    let mut inside = unguided(world.pinfold(&["tools"]));
    inside.current_dir(world.path("home/.config/pinfold"));
    ended(inside).code(0).prints("t__echo");
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    std::fs::set_permissions(world.path("home/.config/pinfold/pinfold.toml"), everybody).unwrap();
    ended(unguided(world.pinfold(&["tools"]))).code(2).says("written by somebody else");
}

#[test]
fn a_server_that_is_disabled_in_the_imported_file_is_called_so() {
    let world = World::with("mcp_config = 'm.json'\n[profiles.default]\nservers = ['off']\n");
    world.write("m.json", r#"{"mcpServers": {"off": {"command": "x", "disabled": true}}}"#);
    ended(world.pinfold(&["tools"])).code(2).says("in the imported file it is disabled there");
}

#[test]
fn secrets_reach_the_server_and_no_message() {
    let world = World::with(
        "[servers.t]\ncommand = 'python3'\nargs = ['FIXTURES/server.py']\nenv = { TOKEN = '${FIXTURE_TOKEN}' }\n\
         [servers.u]\nurl = 'http://127.0.0.1:1/${FIXTURE_TOKEN}'\nheaders = { Authorization = 'Bearer ${FIXTURE_TOKEN}' }\n",
    );
    ended(world.pinfold(&["tools"]))
        .code(2)
        .says("pinfold.toml:1: `servers.t` needs the environment variable FIXTURE_TOKEN");
    let mut command = world.pinfold(&["tools"]);
    command.env("FIXTURE_TOKEN", "s3cret-value").env("PINFOLD_LOG", "trace");
    let ended = ended(command).code(0).prints("t__echo").says("u");
    assert!(!ended.stderr.contains("s3cret-value"), "{ended:#?}");
}

#[test]
fn the_default_configuration_can_be_printed_and_used() {
    let world = World::new("");
    let printed = ended(world.pinfold(&["--print-default-config"])).code(0);
    world.write("printed.toml", &printed.stdout);
    ended(world.pinfold(&["tools", "--config", "printed.toml"])).code(0);
}

#[test]
fn one_server_can_be_without_prefix() {
    let second = "[servers.u]\ncommand = 'python3'\nargs = ['FIXTURES/server.py']\nprefix = ''\n";
    let world = World::with(&format!("{SERVER}prefix = ''\n"));
    let listed = ended(world.pinfold(&["tools"])).code(0);
    assert!(listed.stdout.lines().any(|line| line.starts_with("echo ")), "{listed:#?}");
    assert!(!listed.stdout.contains("t__"), "{listed:#?}");
    world.run("from agent_tools import call\nprint(call('echo', {'text': 'hi'}))\n", &[]).code(0);
    assert_eq!(world.calls(), [r#"echo {"text":"hi"}"#]);
    world.write("pinfold.toml", &format!("{SERVER}prefix = ''\n{second}"));
    ended(world.pinfold(&["tools"]))
        .code(2)
        .says("pinfold.toml:8: `servers.u.prefix` is \"\" as for the server \"t\"");
    world.write("pinfold.toml", &format!("{SERVER}prefix = 'x'\n"));
    ended(world.pinfold(&["tools"])).code(2).says("`prefix` can only be \"\"");
}

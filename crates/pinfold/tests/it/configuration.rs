//! Where a configuration comes from, whom it may surprise, and how its faults are told.

use std::process::Command;

use crate::world::{SERVER, World, ended};

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

#[test]
fn a_configuration_that_scripts_could_rewrite_is_trusted_by_content_only() {
    let world = World::new("[profiles.default]\nservers = ['t']\nworkspace = { path = '.' }\n");
    let elsewhere = tempfile::tempdir().unwrap();
    let outside = |mut command: Command| {
        command.env("PINFOLD_DATA_DIR", elsewhere.path());
        command
    };
    let given = ["tools", "--config", "pinfold.toml"];
    ended(world.pinfold(&given)).code(2).says("could change data_dir");
    ended(outside(world.pinfold(&given)))
        .code(2)
        .says("is not trusted")
        .says("move it out of the workspace");
    ended(outside(world.at_terminal(&["[y/N]=y"], &given))).code(0).prints("t__echo");
    ended(outside(world.pinfold(&given))).code(0).prints("t__echo");
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

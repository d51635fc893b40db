//! What a script can do and what comes back.

use crate::world::{World, ended, finish, scripts_run, start};

#[test]
fn prints_go_to_stdout_and_the_account_to_stderr() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    let ended = world
        .run(
            "from agent_tools import call, call_many\n\
             print(call('t__add', {'a': 2, 'b': 3})['sum'])\n\
             print(call('t__echo', {'text': 'grüß 你好'}))\n\
             print(sum(r['sum'] for r in call_many('t__add', [{'a': n, 'b': 0} for n in range(120)])))\n",
            &[],
        )
        .code(0);
    assert_eq!(ended.stdout, "5\ngrüß 你好\n7140\n", "{ended:#?}");
    assert!(ended.stderr.contains("ok · 122 calls"), "{ended:#?}");
    let place = ended.stderr.split(" · ").last().unwrap().trim();
    assert!(world.path(place).is_file(), "the account names no file that is there: {place}");
    assert_eq!(world.calls().len(), 122);
    let folder = world.records().pop().unwrap();
    assert_eq!(std::fs::read_to_string(folder.join("output.txt")).unwrap(), ended.stdout);
    assert!(std::fs::read_to_string(folder.join("script.py")).unwrap().starts_with("from agent"));
}

#[test]
fn awaiting_a_call_works_too() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    world
        .run(
            "import asyncio\nfrom agent_tools import call\n\
             async def main():\n    print(await call('t__echo', {'text': 'awaited'}))\n\
             asyncio.run(main())\n",
            &[],
        )
        .code(0)
        .prints("awaited");
}

#[test]
fn two_scripts_at_once_do_not_disturb_each_other() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    let code = |word: &str| {
        format!(
            "from agent_tools import call_many\n\
             print(set(call_many('t__echo', [{{'text': '{word}'}}] * 200)))\n"
        )
    };
    world.write("a.py", &code("left"));
    world.write("b.py", &code("right"));
    let left = start(world.pinfold(&["run", "a.py"]));
    let right = start(world.pinfold(&["run", "b.py"]));
    finish(left).code(0).prints("{'left'}");
    finish(right).code(0).prints("{'right'}");
    assert_eq!(world.records().len(), 2);
    assert_eq!(world.calls().len(), 400);
}

#[test]
fn a_terminal_shows_a_bar_and_a_pipe_does_not() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    let script = "from agent_tools import call, progress\n\
         for n in range(4):\n\
         \x20   progress(n + 1, 4, 'half \\x1b[31mway')\n    call('t__sleep', {'seconds': 0.4})\n\
         print('done')\n";
    world.write("s.py", script);
    let shown = ended(world.at_terminal(&[], &["run", "s.py"])).code(0).prints("/4 · ");
    assert!(shown.stdout.contains("half") && !shown.stdout.contains("\u{1b}[31m"), "{shown:#?}");
    let piped = world.run(script, &[]).code(0);
    assert_eq!(piped.stdout, "done\n", "{piped:#?}");
    assert_eq!(piped.stderr.lines().count(), 1, "{piped:#?}");
}

#[test]
fn nothing_of_the_host_is_inside() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    world.write("secret", "do not show");
    let ended = world.run(
        "import os, socket\n\
         print(os.getcwd(), sorted(os.environ))\n\
         for path in ['HERE/secret', 'HERE/pinfold.toml', 'HERE/data/pinfold.db']:\n\
        \x20   print(os.path.exists(path))\n\
         try:\n    socket.create_connection(('127.0.0.1', 1), 1)\n\
         except OSError as error:\n    print('no network:', error)\n\
         open('kept.txt', 'w').write('by the script')\n",
        &[],
    );
    let ended = ended.code(0).prints("no network").prints("False\nFalse\nFalse\n");
    assert!(ended.stdout.starts_with("/workspace "), "{ended:#?}");
    assert!(!ended.stdout.contains("PINFOLD") && !ended.stdout.contains("do not show"));
    let workspace = world.records().pop().unwrap().join("../../..");
    assert_eq!(std::fs::read_to_string(workspace.join("kept.txt")).unwrap(), "by the script");
}

#[test]
fn tools_lists_what_there_is_and_under_which_rules() {
    let world = World::new("");
    let listed = ended(world.pinfold(&["tools"])).code(0);
    let row = |name: &str| {
        let line = listed.stdout.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("t__echo "), "t read direct yes", "{listed:#?}");
    assert_eq!(row("t__note "), "t write mode if listed", "{listed:#?}");
    assert_eq!(row("t__wipe "), "t destructive always no", "{listed:#?}");

    let json = ended(world.pinfold(&["tools", "--json"])).code(0);
    let all: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    let echo = all["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "t__echo");
    assert_eq!(echo.unwrap()["definition"]["inputSchema"]["required"][0], "text", "{all:#}");
}

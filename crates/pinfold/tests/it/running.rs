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
fn stdout_gets_the_bytes_that_were_printed_and_nothing_else() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    for (script, printed, code) in [
        ("print('a', end='')\n", "a", 0),
        ("print('a\\n\\n\\n')\n", "a\n\n\n\n", 0),
        ("import sys\nsys.stdout.buffer.write(b'\\x80\\r\\x1b[31m')\n", "\u{fffd}\r\u{1b}[31m", 0),
        ("x = 1\n", "", 0),
        ("import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(3)\n", "out\n", 1),
        (
            "from agent_tools import call\nprint('first', end='')\n\
             try:\n    call('t__fail', {'message': 'm'})\nexcept Exception:\n    pass\n1 / 0\n",
            "first",
            1,
        ),
        (
            "print('[… cut here …]' + 'x' * 50000)\n",
            &format!("[… cut here …]{}\n", "x".repeat(50_000)),
            0,
        ),
    ] {
        let ended = world.run(script, &[]).code(code);
        assert_eq!(ended.stdout, printed, "{script}: {}", ended.stderr);
    }
    let ended = world.run("from agent_tools import call\ncall('t__fail', {'message': 'm'})\n", &[]);
    let ended = ended.code(1).says("called until then: t__fail 1").says("ToolError");
    assert_eq!(ended.stdout, "");
}

#[test]
fn prints_reach_a_pipe_while_the_script_still_runs() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    world.write(
        "s.py",
        "from agent_tools import call\nprint('early', flush=True)\ncall('t__sleep', {'seconds': 600})\n",
    );
    let mut child = start(world.pinfold(&["run", "s.py"]));
    let mut first = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
    assert_eq!(&first, b"early\n");
    assert!(child.try_wait().unwrap().is_none());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_result_that_cannot_be_written_is_a_failure_and_a_closed_pipe_is_none() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    world.write("s.py", "print('the result')\n");
    let into = |arguments: &[&str], to: std::process::Stdio| {
        let mut child = world
            .pinfold(arguments)
            .stdin(std::process::Stdio::null())
            .stdout(to)
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        std::io::Read::read_to_string(child.stderr.as_mut().unwrap(), &mut said).unwrap();
        (child.wait().unwrap().code(), said)
    };
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap().into();
    let (code, said) = into(&["run", "s.py"], full());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("No space left") && said.contains("output.txt"), "{said}");
    for arguments in
        [&["tools"][..], &["tools", "--json"], &["doctor"], &["--print-default-config"]]
    {
        let (code, said) = into(arguments, full());
        assert_eq!(code, Some(1), "{arguments:?}: {said}");
        assert!(said.contains("standard output cannot be written"), "{arguments:?}: {said}");
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let (code, said) = into(&["run", "s.py"], writer.into());
    assert_eq!(code, Some(0), "{said}");
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

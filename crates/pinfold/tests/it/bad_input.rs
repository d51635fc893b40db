//! What goes wrong in scripts and servers, and that it is answered well.

use std::time::Duration;

use crate::world::{World, scripts_run};

const CAUGHT: &str = "from agent_tools import call, call_many, call_raw, ToolError\n\
    def attempt(tool, args):\n\
    \x20   try:\n        print('got', repr(call(tool, args))[:80])\n\
    \x20   except ToolError as error:\n        print(error.kind, '|', error.message)\n";

/// A script whose calls print what they raise.
fn caught(calls: &str) -> String {
    format!("{CAUGHT}{calls}\n")
}

#[test]
fn a_syntax_error_is_told_with_its_line_and_nothing_runs() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    let ended = world.run("print('first')\ndef broken(:\n    pass\n", &[]).code(1).says("line 2");
    assert_eq!(ended.stdout, "", "{ended:#?}");
}

#[test]
fn an_error_that_quotes_a_script_cannot_act_on_the_terminal() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    let ended = world.run("def broken(: # \u{1b}[2J\u{1b}]0;title\u{7}\n", &[]).code(1);
    assert!(ended.stderr.contains("line 1"), "{ended:#?}");
    assert!(!ended.stderr.contains(['\u{1b}', '\u{7}']), "{ended:#?}");
    let ended = world.run("x = 1\n", &["--tools", "t__\u{1b}[2Jecho"]).code(1);
    assert!(!ended.stderr.contains('\u{1b}'), "{ended:#?}");
}

#[test]
fn an_exception_shows_the_scripts_own_line() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    let ended = world.run("print('before')\n\n1 / 0\n", &[]).code(1).prints("before");
    let all = format!("{}{}", ended.stdout, ended.stderr);
    assert!(all.contains("ZeroDivisionError") && all.contains("line 3"), "{ended:#?}");
    assert!(!all.contains("runner"), "frames of our own runtime are no help: {ended:#?}");
}

#[test]
fn an_endless_loop_ends_at_the_time_limit() {
    if !scripts_run() {
        return;
    }
    let world = World::new("[scripts]\ntimeout_sec = 2\n");
    let ended = world.run("print('begun', flush=True)\nwhile True:\n    pass\n", &[]).code(1);
    assert!(ended.took < Duration::from_secs(20), "{ended:#?}");
    let ended = ended.prints("begun");
    assert!(ended.stderr.contains("2 s") || ended.stderr.contains("time"), "{ended:#?}");
}

#[test]
fn a_hundred_megabytes_of_output_are_cut_and_kept_in_the_file() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    let ended = world
        .run(
            "for n in range(100):\n    print(str(n % 10) * (1024 * 1024 - 1))\nprint('the end')\n",
            &[],
        )
        .code(0)
        .prints("the end");
    assert!(ended.stdout.len() < 100_000, "{} bytes", ended.stdout.len());
    assert!(ended.stdout.contains("output.txt"), "the cut does not name the file");
}

#[test]
fn a_script_that_prints_nothing_says_so() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    let ended = world.run("x = 1\n", &[]).code(0).says("ok · 0 calls");
    assert!(ended.stdout.contains("print"), "silence is not explained: {ended:#?}");
}

#[test]
fn a_tool_that_does_not_exist_gets_a_suggestion() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    world
        .run(&caught("attempt('t__ecko', {'text': 'x'})"), &[])
        .code(0)
        .prints("unknown_tool | ")
        .prints("t__echo");
    world.run("print(1)\n", &["--tools", "t__nott"]).code(1).says("t__note");
    assert!(world.calls().is_empty());
}

#[test]
fn arguments_that_do_not_fit_say_what_would() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    let ended = world
        .run(
            &caught(
                "attempt('t__add', {'a': 'two', 'b': 3})\n\
                 attempt('t__add', {'a': 2})\n\
                 attempt('t__add', {'a': 2, 'b': 3, 'c': 4})",
            ),
            &[],
        )
        .code(0);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{ended:#?}");
    assert!(lines.iter().all(|line| line.starts_with("invalid_arguments | ")), "{ended:#?}");
    assert!(lines[1].contains('b') && lines[2].contains('c'), "{ended:#?}");
    assert!(world.calls().is_empty());
}

#[test]
fn a_tool_that_reports_an_error_raises_and_the_script_goes_on() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    let ended = world
        .run(
            &caught(
                "attempt('t__fail', {'message': 'the valve is stuck'})\n\
                 print(call_raw('t__fail', {'message': 'raw'})['is_error'])\n\
                 print([type(r).__name__ for r in call_many('t__fail', [{'message': 'm'}] * 2, return_errors=True)])",
            ),
            &[],
        )
        .code(0)
        .prints("tool | the valve is stuck\nTrue\n['ToolError', 'ToolError']\n");
    assert!(ended.stderr.contains("4 calls, 4 failed"), "{ended:#?}");
}

#[test]
fn the_script_sees_all_of_a_large_result() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    world
        .run(&caught("print(len(call('t__big', {'bytes': 5 * 1024 * 1024})))"), &[])
        .code(0)
        .prints("5242880\n");
}

#[test]
fn a_server_that_dies_in_a_call_is_an_upstream_error_and_comes_back() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    world
        .run(
            &caught(
                "import time\nattempt('t__die', {})\n\
                 for _ in range(100):\n\
                 \x20   try:\n        print(call('t__echo', {'text': 'back again'}))\n        break\n\
                 \x20   except ToolError as error:\n        assert error.kind == 'upstream', error.kind\n        time.sleep(0.2)\n",
            ),
            &[],
        )
        .code(0)
        .prints("upstream | ")
        .prints("back again");
}

#[test]
fn a_tool_that_never_answers_times_out() {
    if !scripts_run() {
        return;
    }
    let world = World::new("[scripts]\ncall_timeout_sec = 1\n");
    let ended = world
        .run(
            &caught("attempt('t__sleep', {'seconds': 600})\nattempt('t__echo', {'text': 'on'})"),
            &[],
        )
        .code(0)
        .prints("timeout | ")
        .prints("got 'on'");
    assert!(ended.took < Duration::from_secs(20), "{ended:#?}");
}

#[test]
fn noise_on_a_servers_stdout_is_passed_over() {
    if !scripts_run() {
        return;
    }
    let world = World::with(
        "[servers.t]\ncommand = 'python3'\nargs = ['FIXTURES/server.py', '--banner']\n",
    );
    world
        .run(&caught("attempt('t__noise', {})\nattempt('t__echo', {'text': 'on'})"), &[])
        .code(0)
        .prints("got 'after the noise'\ngot 'on'\n");
}

#[test]
fn servers_that_do_not_start_or_answer_do_not_hide_the_others() {
    if !scripts_run() {
        return;
    }
    let world = World::new(
        "[servers.absent]\ncommand = 'no-such-program-anywhere'\n\
         [servers.broken]\ncommand = 'false'\n",
    );
    let ended = world
        .run(&caught("attempt('t__echo', {'text': 'here'})"), &[])
        .code(0)
        .prints("got 'here'")
        .says("absent")
        .says("no-such-program-anywhere")
        .says("broken");
    assert!(ended.took < Duration::from_secs(30), "{ended:#?}");
}

#[test]
fn a_server_that_never_answers_holds_up_only_those_who_need_it() {
    if !scripts_run() {
        return;
    }
    let world = World::new(
        "[servers.mute]\ncommand = 'python3'\nargs = ['FIXTURES/server.py', '--mute']\n",
    );
    let ended = world
        .run(&caught("attempt('t__echo', {'text': 'here'})"), &[])
        .code(0)
        .prints("got 'here'")
        .says("server mute is still starting");
    assert!(ended.took < Duration::from_secs(15), "{ended:#?}");
}

#[test]
fn a_symlinked_workspace_is_not_followed_out() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    world.run("print('once')\n", &[]).code(0);
    let workspace = world.records()[0].join("../../..").canonicalize().unwrap();
    std::fs::remove_dir_all(&workspace).unwrap();
    std::fs::create_dir(world.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink(world.path("elsewhere"), &workspace).unwrap();
    let ended = world.run("open('planted', 'w').write('x')\n", &[]);
    assert_ne!(ended.code, Some(0), "{ended:#?}");
    assert!(ended.stderr.contains("link"), "{ended:#?}");
    assert_eq!(std::fs::read_dir(world.path("elsewhere")).unwrap().count(), 0);
}

#[test]
fn links_planted_for_the_records_are_not_followed() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    world.run("print('once')\n", &[]).code(0);
    let agent = world.records()[0].join("../..").canonicalize().unwrap();
    let kept = world.path("victim");
    std::fs::create_dir(&kept).unwrap();
    std::fs::remove_dir_all(&agent).unwrap();
    std::os::unix::fs::symlink(&kept, &agent).unwrap();
    world.run("print('twice')\n", &[]);
    assert_eq!(std::fs::read_dir(&kept).unwrap().count(), 0, "records went through a link");
}

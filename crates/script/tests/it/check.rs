//! What is found in a script before it runs.

use std::time::{Duration, Instant};

use script::Checked;

use crate::ground::{Ground, interpreters};

fn calls(found: &[(&str, u32)]) -> Checked {
    Checked::Parses {
        calls: found.iter().map(|(name, line)| ((*name).to_owned(), *line)).collect(),
    }
}

#[tokio::test]
async fn calls_with_a_literal_name_are_found_in_every_spelling() {
    let table: [(&str, &[(&str, u32)]); 14] = [
        ("from agent_tools import call\ncall('a', {})", &[("a", 2)]),
        ("from agent_tools import call as c\nc('a', {})", &[("a", 2)]),
        ("import agent_tools\nagent_tools.call_many('a', [])", &[("a", 2)]),
        ("import agent_tools as t\nt.call_raw('a')\nt.call('b')", &[("a", 2), ("b", 3)]),
        ("from agent_tools import *\ncall(tool='a', args={})", &[("a", 2)]),
        ("from agent_tools import (\n call,\n)\nawait call(\n 'a'\n)", &[("a", 5)]),
        ("def f():\n from agent_tools import call\n return call('a')\nf()", &[("a", 3)]),
        (
            "from agent_tools import call\nfrom functools import partial\npartial(call, 'a')\npool.submit(call, 'b', {})",
            &[("a", 3), ("b", 4)],
        ),
        ("from agent_tools import call\n[call('b') for _ in call('a')]", &[("b", 2), ("a", 2)]),
        ("from agent_tools import call\nname = 'a'\ncall(name)\ncall(f'a{name}')", &[]),
        ("from agent_tools import progress\nprogress('a')", &[]),
        ("from other import call\ncall('a')", &[]),
        ("call('a')", &[]),
        ("\u{feff}from agent_tools import call\r\n\r\ncall('a')\r\n", &[("a", 3)]),
    ];
    let ground = Ground::new().await;
    for (code, expected) in table {
        assert_eq!(ground.engine.check(code).await.unwrap(), calls(expected), "{code}");
    }
}

#[tokio::test]
async fn what_does_not_parse_is_told_with_its_line() {
    let table = [
        ("x = 1\ny = (\n", 2, "was never closed"),
        ("\n\nprint 'x'", 3, "Missing parentheses"),
        ("x = 1\nreturn x", 2, "'return' outside function"),
        ("def f():\n    await g()", 2, "'await' outside async function"),
        ("x = 'a\n", 1, "unterminated string"),
        ("if True:\nx", 2, "expected an indented block"),
        ("x = 1\n\0", 2, "null bytes"),
        ("x = '\u{2028}' +\n", 1, "invalid syntax"),
    ];
    for python in interpreters().await {
        let version = python.version;
        let ground = Ground::with(python).await;
        for (code, expected_line, expected) in table {
            let checked = ground.engine.check(code).await.unwrap();
            let Checked::SyntaxError { line, message } = checked else {
                panic!("{code:?} parses in {version:?}")
            };
            assert_eq!(line, expected_line, "{code:?}, {version:?}: {message}");
            assert!(message.contains(expected), "{code:?}, {version:?}: {message}");
        }
        let checked = ground.engine.check("a = 1\nb = = 2\n").await.unwrap();
        let Checked::SyntaxError { message, .. } = checked else { panic!("parses") };
        let lines: Vec<&str> = message.lines().collect();
        assert_eq!(lines[0], "  File \"script.py\", line 2");
        assert_eq!(lines[1], "    b = = 2");
        assert_eq!(lines.last(), Some(&"SyntaxError: invalid syntax"));
    }
}

#[tokio::test]
async fn what_is_made_to_break_a_parser_is_refused_in_time() {
    let bombs = [
        ("(".repeat(100_000), "parentheses"),
        (format!("{}1{}", "(".repeat(150), ")".repeat(150)), ""),
        ("-".repeat(300_000) + "1", ""),
        (format!("x = {}", "a.".repeat(100_000) + "b"), ""),
        (format!("x = {}1", "1+".repeat(200_000)), ""),
        (format!("x = {}", "[".repeat(90) + &"]".repeat(90)), ""),
        ("if x:\n".to_owned() + &" ".repeat(500_000) + "y", ""),
        (format!("x = {}", "9".repeat(100_000)), ""),
        ("x = 'a' * 10**9 * 10**9\n".repeat(10), ""),
        (format!("f'{}'", "{f".repeat(200)), ""),
        ("x=1\n".repeat(1 << 18), ""),
        ("#".repeat(2 << 20), "longer than 1 MB"),
    ];
    for python in interpreters().await {
        let version = python.version;
        let ground = Ground::with(python).await;
        for (code, expected) in &bombs {
            let start = Instant::now();
            let shown =
                format!("{} bytes of {:?}, {version:?}", code.len(), &code[..code.len().min(20)]);
            let checked =
                ground.engine.check(code).await.unwrap_or_else(|e| panic!("{shown}: {e}"));
            if let Checked::SyntaxError { message, .. } = &checked {
                assert!(message.contains(expected), "{shown}: {message}");
                assert!(message.chars().count() <= 2000, "{shown}");
            } else {
                assert!(expected.is_empty(), "{shown} parses");
            }
            assert!(start.elapsed() < Duration::from_secs(10), "{shown}: {:?}", start.elapsed());
        }
    }
}

#[tokio::test]
async fn nothing_of_a_script_runs_when_it_is_checked() {
    let ground = Ground::new().await;
    let code = "import sys\nprint('ran')\nsys.exit(5)\n1/0";
    assert_eq!(ground.engine.check(code).await.unwrap(), calls(&[]));
    let many: String = std::iter::once("from agent_tools import call\n".to_owned())
        .chain((0..5000).map(|n| format!("call('t{n}')\n")))
        .collect();
    let Checked::Parses { calls } = ground.engine.check(&many).await.unwrap() else {
        panic!("does not parse")
    };
    assert_eq!(calls.len(), 2000);
    let odd = "from agent_tools import call\ncall('\\ud800')";
    assert!(matches!(ground.engine.check(odd).await.unwrap(), Checked::Parses { .. }));
}

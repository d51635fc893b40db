//! Functions in Python and JavaScript: one table of cases drives both.

use std::time::Duration;

use sandbox::{Options, Sandbox};
use script::{ErrorKind, Evaluated, Executor, FunctionJob, FunctionLanguage, Node, Python};
use serde_json::value::RawValue;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use FunctionLanguage::{JavaScript, Python as Py};

struct Ground {
    executor: Executor,
    _data: TempDir,
}

impl Ground {
    async fn new() -> Self {
        let sandbox = Sandbox::start(Options::default()).await.unwrap();
        let data = tempfile::tempdir().unwrap();
        let python = Python::find("auto").await.map_err(|error| error.to_string());
        let node = Node::find("auto").await.map_err(|error| error.to_string());
        let executor = Executor::new(sandbox, python, node, data.path()).unwrap();
        Self { executor, _data: data }
    }

    async fn run(&self, job: FunctionJob) -> Evaluated {
        let run = self.executor.evaluate(job, CancellationToken::new());
        tokio::time::timeout(Duration::from_secs(90), run).await.expect("ends in time").unwrap()
    }

    async fn value(&self, language: FunctionLanguage, code: &str) -> Evaluated {
        self.run(job(language, code, "[]")).await
    }
}

fn job(language: FunctionLanguage, code: &str, args: &str) -> FunctionJob {
    FunctionJob {
        language,
        code: code.to_owned(),
        args: RawValue::from_string(args.to_owned()).unwrap(),
        entry: None,
        timeout: Duration::from_secs(80),
        memory_mb: 256,
        output_bytes: 1 << 16,
    }
}

fn shown(found: &Evaluated) -> String {
    match (&found.data, &found.fault) {
        (Some(data), None) => data.get().to_owned(),
        (None, Some(fault)) => format!("{:?}: {}", fault.kind, fault.message),
        both => format!("{both:?}"),
    }
}

/// What is expected: a value, or a kind of fault with words that its message has.
enum Expected {
    Value(&'static str),
    Fault(ErrorKind, &'static str),
}

use Expected::{Fault, Value};

/// One meaning in both languages.
struct Case {
    about: &'static str,
    python: &'static str,
    javascript: &'static str,
    args: &'static str,
    entry: Option<&'static str>,
    expected: Expected,
}

const fn case(
    about: &'static str,
    python: &'static str,
    javascript: &'static str,
    args: &'static str,
    expected: Expected,
) -> Case {
    Case { about, python, javascript, args, entry: None, expected }
}

const fn entry(case: Case, entry: &'static str) -> Case {
    Case { entry: Some(entry), ..case }
}

const CASES: &[Case] = &[
    case("the variable result", "result = 1 + 2", "result = [1, 2, 3].length;", "[]", Value("3")),
    case(
        "main",
        "def main(args):\n    return args[0] * args[1]",
        "function main(args) { return args[0] * args[1] }",
        "[6, 7]",
        Value("42"),
    ),
    case(
        "run",
        "def run(args):\n    return sum(args)",
        "const run = (args) => args.reduce((a, b) => a + b, 0)",
        "[1, 2, 3, 4]",
        Value("10"),
    ),
    entry(
        case(
            "handler, named",
            "def handler(a):\n    return a[0] + a[1]",
            "function handler(a) {\n  return a[0] + a[1];\n}",
            "[1, 2]",
            Value("3"),
        ),
        "handler",
    ),
    case(
        "main before run before result",
        "result = 1\ndef run(args): return 2\ndef main(args): return 3",
        "result = 1\nfunction run() { return 2 }\nfunction main() { return 3 }",
        "[]",
        Value("3"),
    ),
    case(
        "the only function",
        "def f(args): return 7",
        "function f() { return 7 }",
        "[]",
        Value("7"),
    ),
    case(
        "result before the only function",
        "def f(args): return 7\nresult = f([])+1",
        "function f() { return 7 }\nresult = f() + 1",
        "[]",
        Value("8"),
    ),
    case(
        "several functions",
        "def f(): pass\ndef g(): pass",
        "function f() {}\nfunction g() {}",
        "[]",
        Fault(ErrorKind::EntryNotFound, "f, g"),
    ),
    entry(
        case(
            "an entry that is not there",
            "def f(): pass",
            "function f() {}",
            "[]",
            Fault(ErrorKind::EntryNotFound, "the code defines f"),
        ),
        "h",
    ),
    entry(
        case(
            "an entry that is no function",
            "h = 3",
            "const h = 3",
            "[]",
            Fault(ErrorKind::EntryNotFound, "not a function"),
        ),
        "h",
    ),
    entry(
        case(
            "the default entry with nothing called main",
            "def run(args): return 5",
            "function run() { return 5 }",
            "[]",
            Value("5"),
        ),
        "main",
    ),
    case("nothing", "x = 1", "const x = 1", "[]", Value("null")),
    case("empty code", "", "", "[]", Value("null")),
    case(
        "args is a variable",
        "result = args",
        "result = args",
        r#"[1, {"a": [null]}]"#,
        Value(r#"[1,{"a":[null]}]"#),
    ),
    case(
        "no parameters",
        "def main(): return 1",
        "function main() { return 1 }",
        "[5]",
        Value("1"),
    ),
    case(
        "two parameters",
        "def main(a, b): return a - b",
        "function main(a, b) { return a - b }",
        "[5, 3]",
        Value("2"),
    ),
    case(
        "two parameters and one value",
        "def main(a, b): return a - b",
        "function main(a, b) { return a - b }",
        "[5]",
        Fault(ErrorKind::Exception, "main takes 2 arguments"),
    ),
    case(
        "an async function",
        "import asyncio\nasync def main(args):\n    await asyncio.sleep(0)\n    return len(args)",
        "async function main(args) { await null; return args.length }",
        "[1, 2]",
        Value("2"),
    ),
    case(
        "await at the top level",
        "import asyncio\nresult = await asyncio.sleep(0, 4)",
        "const x = await Promise.resolve(4);\nresult = x;",
        "[]",
        Value("4"),
    ),
    case(
        "numbers that are none",
        "result = [float('nan'), float('inf'), -float('inf')]",
        "result = [NaN, Infinity, -Infinity]",
        "[]",
        Value("[null,null,null]"),
    ),
    case(
        "big integers",
        "result = 10**30",
        "result = 10n ** 30n",
        "[]",
        Value("1000000000000000000000000000000"),
    ),
    case(
        "sets and bytes",
        "result = [{1}, b'hi']",
        "result = [new Set([1]), Buffer.from('hi')]",
        "[]",
        Value(r#"[[1],"aGk="]"#),
    ),
    case(
        "a date",
        "import datetime\nresult = datetime.datetime(2024, 1, 2, tzinfo=datetime.timezone.utc)",
        "result = new Date(Date.UTC(2024, 0, 2)).toISOString().replace('.000Z', '+00:00')",
        "[]",
        Value(r#""2024-01-02T00:00:00+00:00""#),
    ),
    case(
        "half a surrogate pair",
        "result = chr(0xd800) + 'x'",
        "result = '\\ud800x'",
        "[]",
        Value("\"\u{fffd}x\""),
    ),
    case(
        "a value that contains itself",
        "a = []\na.append(a)\nresult = a",
        "const a = []\na.push(a)\nresult = a",
        "[]",
        Fault(ErrorKind::NotSerializable, "data[0] contains itself"),
    ),
    case(
        "a function inside a value",
        "result = {'x': [1, print]}",
        "result = {x: [1, () => 1]}",
        "[]",
        Fault(ErrorKind::NotSerializable, "[1]"),
    ),
    case(
        "an exception and its line",
        "def main(args):\n    raise ValueError('boom')",
        "function main() {\n    throw new Error('boom')\n}",
        "[]",
        Fault(ErrorKind::Exception, "boom"),
    ),
    case(
        "code that does not parse",
        "def main(:\n",
        "function main( {",
        "[]",
        Fault(ErrorKind::Syntax, "SyntaxError"),
    ),
    case(
        "escapes that were doubled",
        "def main(args):\\n    return \\\"a\\\"",
        "function main() {\\n  return \\\"a\\\"\\n}",
        "[]",
        Value("\"a\""),
    ),
    case(
        "escapes of code that parses",
        "result = 'a\\nb\\\\n'",
        "result = 'a\\nb\\\\n'",
        "[]",
        Value(r#""a\nb\\n""#),
    ),
    case(
        "an end with a code",
        "import sys\nsys.exit(3)",
        "process.exit(3)",
        "[]",
        Fault(ErrorKind::Exception, "exit(3)"),
    ),
    case(
        "an end without",
        "import sys\nresult = 4\nsys.exit()",
        "result = 4\nprocess.exit()",
        "[]",
        Value("4"),
    ),
    case(
        "a process that goes",
        "import os\nos._exit(0)",
        "process.reallyExit(0)",
        "[]",
        Fault(ErrorKind::Exception, "before its function returned"),
    ),
    case(
        "no network",
        "import socket\ndef main(args):\n    socket.create_connection(('192.0.2.1', 80), 5)",
        "const net = require('net')\nfunction main() { return new Promise((ok, no) => net.connect(80, '192.0.2.1').on('error', no)) }",
        "[]",
        Fault(ErrorKind::NetworkDenied, ""),
    ),
    case(
        "a forged answer that is no JSON",
        "import os\nos.write(4, b'{\"data\": nonsense}')\nos._exit(0)",
        "require('fs').writeSync(4, '{\"data\": nonsense}')\nprocess.reallyExit(0)",
        "[]",
        Fault(ErrorKind::Protocol, "cannot be read"),
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn the_table_holds_in_both_languages() {
    let ground = Ground::new().await;
    let mut faults = Vec::new();
    for case in CASES {
        for (language, code) in [(Py, case.python), (JavaScript, case.javascript)] {
            let mut job = job(language, code, case.args);
            job.entry = case.entry.map(str::to_owned);
            let found = ground.run(job).await;
            let holds = match (&case.expected, &found.data, &found.fault) {
                (Value(value), Some(data), None) => data.get() == *value,
                (Fault(kind, words), None, Some(fault)) => {
                    let message = fault.message.to_lowercase();
                    fault.kind == *kind && message.contains(&words.to_lowercase())
                }
                _ => false,
            };
            if !holds {
                faults.push(format!("{}, {language:?}: {}", case.about, shown(&found)));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn prints_are_apart_from_the_value() {
    let ground = Ground::new().await;
    let python = "import sys\nprint('out')\nprint('err', file=sys.stderr)\nresult = 'value'";
    let javascript = "console.log('out')\nconsole.error('err')\nresult = 'value'";
    for (language, code) in [(Py, python), (JavaScript, javascript)] {
        let found = ground.value(language, code).await;
        assert_eq!(shown(&found), "\"value\"");
        assert_eq!((found.stdout.trim(), found.stderr.trim()), ("out", "err"), "{language:?}");
        assert!(!found.truncated);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_output_is_cut_and_said() {
    let ground = Ground::new().await;
    let python = "for n in range(200000): print('line', n)\nresult = 1";
    let javascript = "for (let n = 0; n < 200000; n++) console.log('line', n)\nresult = 1";
    for (language, code) in [(Py, python), (JavaScript, javascript)] {
        let found = ground.value(language, code).await;
        assert_eq!(shown(&found), "1", "{language:?}");
        assert!(found.truncated && found.stdout.len() < 70_000, "{}", found.stdout.len());
        assert!(found.stdout.starts_with("line 0\n"), "{language:?}");
        assert!(found.stdout.ends_with("line 199999\n"), "{language:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_says_so_and_keeps_what_was_printed() {
    let ground = Ground::new().await;
    let python = "print('before', flush=True)\nwhile True: pass";
    let javascript = "console.log('before')\nwhile (true) {}";
    for (language, code) in [(Py, python), (JavaScript, javascript)] {
        let mut job = job(language, code, "[]");
        job.timeout = Duration::from_secs(3);
        let found = ground.run(job).await;
        let fault = found.fault.clone().unwrap();
        assert_eq!(fault.kind, ErrorKind::Timeout, "{}", shown(&found));
        assert!(fault.message.contains("执行超时"), "{}", fault.message);
        assert_eq!(found.stdout, "before\n", "{language:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_bounded_and_the_verdict_says_so() {
    let ground = Ground::new().await;
    let python = "result = len(bytearray(1 << 30))";
    let heap = "const kept = []\nwhile (true) kept.push({n: kept.length, s: 'x'.repeat(10) + kept.length})";
    let buffers = "const kept = []\nwhile (true) kept.push(Buffer.alloc(1 << 24, 1))";
    for (language, code) in [(Py, python), (JavaScript, heap), (JavaScript, buffers)] {
        let found = ground.value(language, code).await;
        let kind = found.fault.as_ref().map(|fault| fault.kind);
        assert_eq!(
            kind,
            Some(ErrorKind::MemoryLimit),
            "{code}: {} {}",
            shown(&found),
            found.stderr
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_kinds_of_module_and_of_import_work() {
    let ground = Ground::new().await;
    let table = [
        ("const path = require('path')\nfunction main() { return path.join('a', 'b') }", "\"a/b\""),
        ("import path from 'node:path'\nfunction main() { return path.join('a', 'b') }", "\"a/b\""),
        (
            "import { join } from 'path'\nexport function main() { return join('a', 'b') }",
            "\"a/b\"",
        ),
        ("import { join } from 'path'\nexport default () => join('a', 'b')", "\"a/b\""),
        ("module.exports = () => 5", "5"),
        ("exports.handler = async () => 6", "6"),
        ("'use strict'\nresult = 7", "7"),
        ("import 'path'\nresult = require('path').sep", "\"/\""),
        ("const { sep } = await import('path')\nresult = sep", "\"/\""),
    ];
    for (code, expected) in table {
        let found = ground.value(JavaScript, code).await;
        assert_eq!(shown(&found), expected, "{code}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn positions_are_those_of_the_code_itself() {
    let ground = Ground::new().await;
    let table = [
        (Py, "\n\ndef main(args):\n    return 1 / 0", "line 4"),
        (Py, "x = 1\ny = (", "line 2"),
        (JavaScript, "\n\nfunction main() {\n    return nothing.at\n}", "script.js:4"),
        (
            JavaScript,
            "import 'path'\nfunction main() {\n    throw new Error('x')\n}",
            "script.mjs:3",
        ),
        (JavaScript, "const x = 1\nconst y = (", "script.js:2"),
        (JavaScript, "import 'path'\nconst y = (", "script.mjs:2"),
    ];
    for (language, code, place) in table {
        let found = ground.value(language, code).await;
        let message = found.fault.as_ref().map_or("", |fault| fault.message.as_str());
        assert!(message.contains(place), "{code}\n→ {}", shown(&found));
        assert!(!message.contains("function_runner"), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_one_run_is_seen_by_the_next() {
    let ground = Ground::new().await;
    let python = "import os, builtins\nseen = hasattr(builtins, 'left') or os.path.exists('/tmp/left')\n\
        builtins.left = 1\nopen('/tmp/left', 'w').close()\nresult = seen";
    let javascript = "const fs = require('fs')\nconst seen = 'left' in globalThis || fs.existsSync('/tmp/left')\n\
        globalThis.left = 1\nfs.writeFileSync('/tmp/left', '')\nresult = seen";
    for (language, code) in [(Py, python), (JavaScript, javascript)] {
        for _ in 0..2 {
            assert_eq!(shown(&ground.value(language, code).await), "false", "{language:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_is_too_large_is_refused_and_nothing_waits_for_it() {
    let ground = Ground::new().await;
    let mut job = job(Py, "result = 'x' * (40 << 20)", "[]");
    job.memory_mb = 512;
    let found = ground.run(job).await;
    let kind = found.fault.as_ref().map(|fault| fault.kind);
    assert_eq!(kind, Some(ErrorKind::OutputLimit), "{:?}", found.fault);
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_nested_100000_deep_are_refused_before_anything_runs() {
    let ground = Ground::new().await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let refused = ground.executor.evaluate(job(Py, "result = 1", &deep), CancellationToken::new());
    let error = refused.await.unwrap_err();
    assert!(matches!(error, script::Error::BadJob(_)), "{error:?}");
    assert!(error.to_string().contains("nested"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_ends() {
    let ground = Ground::new().await;
    let cancel = CancellationToken::new();
    let run = ground.executor.evaluate(job(Py, "while True: pass", "[]"), cancel.clone());
    let later = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        cancel.cancel();
    };
    let (found, ()) = tokio::join!(run, later);
    let fault = found.unwrap().fault.unwrap();
    assert!(fault.message.contains("cancelled"), "{}", fault.message);
}

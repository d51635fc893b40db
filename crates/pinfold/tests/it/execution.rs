//! One function at a time: the examples of the specification, and what is wrong told well.

use serde_json::{Value, json};

use crate::server::{Answer, Server};
use crate::world::{Ended, World, ended, scripts_run};

/// What `pinfold exec` answers about `code` in a file of this name.
fn exec(world: &World, file: &str, code: &str, options: &[&str]) -> Ended {
    world.write(file, code);
    let arguments: Vec<&str> = ["exec", file].iter().chain(options).copied().collect();
    ended(world.pinfold(&arguments))
}

fn answer(found: &Ended) -> Value {
    serde_json::from_str(&found.stdout).unwrap_or_else(|_| panic!("no answer: {found:#?}"))
}

#[test]
fn the_examples_of_the_specification_give_what_it_says() {
    if !scripts_run() {
        return;
    }
    let world = World::with("");
    let table: &[(&str, &str, &[&str], Value)] = &[
        ("a.py", "result = 1 + 2", &[], json!(3)),
        ("a.py", "def main(args):\n    return args[0] * args[1]", &["--args", "[6, 7]"], json!(42)),
        ("a.py", "def run(args):\n    return sum(args)", &["--args", "[1,2,3,4]"], json!(10)),
        (
            "a.py",
            "def add(a, b):\n    return a + b\n\ndef main(args):\n    return add(args[0], args[1])",
            &["--args", "[1, 2]"],
            json!(3),
        ),
        (
            "a.py",
            "import json\n\ndef main(args):\n    return json.dumps(args)",
            &["--args", "[1]"],
            json!("[1]"),
        ),
        (
            "a.py",
            "import math\n\ndef main(args):\n    return round(math.sqrt(args[0]), 2)",
            &["--args", "[2]"],
            json!(1.41),
        ),
        ("a.js", "result = [1, 2, 3].length;", &[], json!(3)),
        (
            "a.js",
            "function main(arr) {\n  return arr.reduce((a, b) => a + b, 0);\n}",
            &["--args", "[1, 2, 3, 4]"],
            json!(10),
        ),
        (
            "a.js",
            "function handler(a) {\n  return a[0] + a[1];\n}",
            &["--args", "[1, 2]", "--entry", "handler"],
            json!(3),
        ),
    ];
    for (file, code, options, expected) in table {
        let found = exec(&world, file, code, options).code(0);
        let answer = answer(&found);
        assert_eq!(answer["data"], *expected, "{code}\n{answer:#}");
        assert_eq!(
            (&answer["ok"], &answer["stdout"], &answer["stderr"], &answer["message"]),
            (&json!(true), &json!(""), &json!(""), &json!(""))
        );
    }
}

#[test]
fn a_function_that_fails_ends_with_1_and_says_why() {
    if !scripts_run() {
        return;
    }
    let world = World::with("");
    let found = exec(&world, "a.py", "print('so far')\nraise ValueError('no')", &[]).code(1);
    let said = answer(&found);
    assert_eq!((&said["ok"], &said["data"]), (&json!(false), &Value::Null));
    assert_eq!(said["error"]["kind"], "exception");
    assert!(said["message"].as_str().unwrap().contains("line 2"), "{said:#}");
    assert_eq!(said["stdout"], "so far\n");
    let found = exec(&world, "b.js", "while (true) {}", &["--timeout", "900"]).code(1);
    let said = answer(&found);
    assert_eq!(said["error"]["kind"], "timeout");
    assert!(said["message"].as_str().unwrap().contains("执行超时"), "{said:#}");
    assert!(said["usage"]["wall_ms"].as_f64().unwrap() >= 900.0, "{said:#}");
}

#[test]
fn wrong_usage_of_exec_is_two() {
    let world = World::with("");
    world.write("a.py", "result = 1");
    world.write("a", "result = 1");
    for (arguments, words) in [
        (&["exec", "a"][..], "--language"),
        (&["exec", "a", "--language", "ruby"], "is not known"),
        (&["exec", "a.py", "--args", "{}"], "array"),
        (&["exec", "a.py", "--args", "[1,"], "not JSON"),
        (&["exec", "a.py", "--timeout", "99"], "between 100 and 60000"),
        (&["exec", "none.py"], "cannot read"),
    ] {
        ended(world.pinfold(arguments)).code(2).says(words);
    }
}

fn execute(server: &Server, body: &str) -> Answer {
    server.send("POST", "/execute", &["Content-Type: application/json"], body)
}

#[test]
fn a_function_is_run_over_http() {
    if !scripts_run() {
        return;
    }
    let world = World::with("");
    let server = Server::start(&world, &[]);
    let request = json!({
        "language": "python",
        "code": "def main(args):\n    return sum(args)",
        "timeout": 60000,
        "memory": 256,
        "args": [1, 2, 3, 4],
        "entry": "main",
    });
    let answer = execute(&server, &request.to_string());
    assert_eq!(answer.status, 200, "{answer:#?}");
    let said = answer.json();
    assert_eq!(
        (&said["ok"], &said["stdout"], &said["stderr"], &said["data"], &said["message"]),
        (&json!(true), &json!(""), &json!(""), &json!(10), &json!(""))
    );
    // A run that fails is answered, not refused.
    let answer =
        execute(&server, r#"{"language":"js","code":"throw new Error('no')","timeout":60000}"#);
    assert_eq!((answer.status, &answer.json()["ok"]), (200, &json!(false)), "{answer:#?}");
    // Neither can it reach a tool or the network of this machine.
    let port = server.url("").rsplit(':').next().unwrap().trim_end_matches('/').to_owned();
    let code = format!("import socket\nsocket.create_connection(('127.0.0.1', {port}), 5)");
    let answer = execute(
        &server,
        &json!({"language": "python", "code": code, "timeout": 60000}).to_string(),
    );
    assert_eq!(answer.json()["error"]["kind"], "network_denied", "{answer:#?}");
}

#[test]
fn a_request_that_is_wrong_is_answered_in_the_same_shape() {
    let world = World::with("");
    let server = Server::start(&world, &[]);
    for (body, words) in [
        ("", "JSON object"),
        ("{", "JSON object"),
        (r#"{"language":"python"}"#, "code"),
        (r#"{"language":"ruby","code":""}"#, "not known"),
        (r#"{"language":"python","code":"","tiemout":1}"#, "tiemout"),
        (r#"{"language":"python","code":"","timeout":60001}"#, "60000"),
    ] {
        let answer = execute(&server, body);
        let said = answer.json();
        assert_eq!((answer.status, &said["ok"], &said["data"]), (400, &json!(false), &Value::Null));
        assert!(said["message"].as_str().unwrap().contains(words), "{body}: {said:#}");
    }
    let answer = server.send("POST", "/execute", &["Content-Type: text/plain"], "{}");
    assert_eq!(answer.status, 415, "{answer:#?}");
    let large = format!(r#"{{"language":"python","code":"{}"}}"#, "x".repeat(17 << 20));
    let answer = execute(&server, &large);
    assert_eq!((answer.status, &answer.json()["ok"]), (413, &json!(false)));
    let foreign = ["Content-Type: application/json", "Origin: https://evil.example"];
    let answer = server.send("POST", "/execute", &foreign, r#"{"language":"python","code":""}"#);
    assert_eq!(answer.status, 403, "{answer:#?}");
}

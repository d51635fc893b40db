//! Resources, prompts and completion of servers, in both eras on both sides.

use serde_json::{Value, json};

use crate::client::Client;
use crate::world::{World, ended, until};

/// Two servers that claim some of the same.
fn two(first: &str, second: &str) -> World {
    let server = |name: &str, era: &str, more: &str| {
        format!(
            "[servers.{name}]\ncommand = 'python3'\nargs = ['FIXTURES/both.py', '--era', '{era}', \
             '--name', '{name}', '--log', 'HERE/{name}.log', '--resource', 'ui://widget/main', \
             '--resource', 'file:///same', {more}]\n"
        )
    };
    let alone = "'--resource', 'file:///alone', '--template', 'one://{id}'";
    World::with(&format!("{}{}", server("a", first, alone), server("b", second, "")))
}

/// The eras of the client and of both servers.
const ERAS: [(&str, &str); 2] = [("legacy", "modern"), ("modern", "legacy")];

/// A client of either era that asks alike.
struct Asker {
    client: Client,
    is_modern: bool,
    next: u64,
}

impl Asker {
    fn start(world: &World, era: &str) -> Self {
        let mut client = Client::start(world, &[]);
        if era == "legacy" {
            client.send(&json!({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
                "clientInfo": {"name": "old", "version": "1"}}}));
            let agreed = client.wait("initialize", |message| message["id"] == "i");
            let can = &agreed["result"]["capabilities"];
            assert_eq!(can["resources"], json!({"subscribe": true, "listChanged": true}));
            client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        }
        Self { client, is_modern: era == "modern", next: 0 }
    }

    /// The whole answer.
    fn answer(&mut self, method: &str, params: Value) -> Value {
        let id = if self.is_modern {
            json!(self.client.begin(method, params))
        } else {
            self.next += 1;
            let id = json!(format!("r{}", self.next));
            self.client
                .send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
            id
        };
        self.client.wait("an answer", |message| message["id"] == id)
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let answer = self.answer(method, params);
        assert!(answer.get("result").is_some(), "{method}: {answer:#}");
        let result = &answer["result"];
        assert_eq!(result.get("resultType").is_some(), self.is_modern, "{answer:#}");
        result.clone()
    }

    /// Parameters of the next notification of this kind, which is this subscription's.
    fn told(&mut self, what: &str, listening: &Value) -> Value {
        let method = format!("notifications/{what}");
        let told = self.client.wait(what, |message| message["method"] == method.as_str());
        let of = &told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
        assert_eq!(of, listening, "{told:#}");
        told["params"].clone()
    }

    fn names(&mut self, method: &str, field: &str, key: &str) -> Vec<String> {
        let listed = self.ask(method, json!({}));
        let all = listed[field].as_array().unwrap().iter();
        all.map(|one| one[key].as_str().unwrap().to_owned()).collect()
    }
}

fn read(uri: &str) -> Value {
    json!({"uri": uri})
}

#[test]
fn resources_and_prompts_pass_through_between_the_eras() {
    for (client, servers) in
        [("legacy", "legacy"), ("legacy", "modern"), ("modern", "legacy"), ("modern", "modern")]
    {
        let world = two(servers, servers);
        let mut asker = Asker::start(&world, client);
        let label = format!("{client} client, {servers} servers");
        assert_eq!(
            asker.names("resources/list", "resources", "uri"),
            [
                "file:///alone",
                "pinfold://a/file:///same",
                "pinfold://b/file:///same",
                "ui://a.pinfold/widget/main",
                "ui://b.pinfold/widget/main",
            ],
            "{label}"
        );
        let templates = asker.names("resources/templates/list", "resourceTemplates", "uriTemplate");
        assert_eq!(templates, ["one://{id}"], "{label}");
        assert_eq!(
            asker.names("prompts/list", "prompts", "name"),
            ["a__greet", "a__link", "b__greet", "b__link"],
            "{label}"
        );
        let listed = asker.ask("resources/list", json!({}));
        assert_eq!(listed["resources"][0]["odd"].to_string(), r#"{"a":2.5,"z":1}"#);
        assert_eq!(listed.get("cacheScope").is_some(), client == "modern");

        for (uri, said) in [
            ("file:///alone", "a file:///alone"),
            ("pinfold://b/file:///same", "b file:///same"),
            ("ui://a.pinfold/widget/main", "a ui://widget/main"),
            ("one://7", "a one://7"),
            // That no server has listed: the first that answers.
            ("other://x", "a other://x"),
        ] {
            let contents = asker.ask("resources/read", read(uri));
            assert_eq!(contents["contents"][0]["text"], said, "{label}");
            assert_eq!(contents["contents"][0]["uri"], uri, "{label}");
            assert_eq!(contents["contents"][1]["blob"], "AA==", "{label}");
            assert_eq!(contents["more"], json!({"b": 1}), "{label}");
            if client == "modern" {
                assert_eq!(contents["cacheScope"], "private", "{label}");
            }
        }
        let refused = asker.answer("resources/read", read("file:///same"));
        let why = refused["error"]["message"].as_str().unwrap();
        assert!(why.contains("pinfold://a/file:///same"), "{label}: {why}");
        let missing = asker.answer("resources/read", read("pinfold://a/file:///missing"));
        let code = if client == "modern" { -32602 } else { -32002 };
        assert_eq!(missing["error"]["code"], code, "{label}: {missing:#}");
        assert_eq!(missing["error"]["data"]["uri"], "file:///missing", "{label}");
        let unknown = asker.answer("resources/read", read("pinfold://c/file:///same"));
        assert_eq!(unknown["error"]["code"], code, "{label}: {unknown:#}");

        let params = json!({"name": "b__greet", "arguments": {"who": "me"}});
        let prompt = asker.ask("prompts/get", params);
        assert_eq!(prompt["messages"][0]["content"]["text"], r#"{"who": "me"}"#, "{label}");
        let prompt = asker.ask("prompts/get", json!({"name": "b__link"}));
        let link = &prompt["messages"][0]["content"]["uri"];
        assert_eq!(link, "ui://b.pinfold/widget/main", "{label}");
        let wrong = asker.answer("prompts/get", json!({"name": "b__gret"}));
        assert_eq!(wrong["error"]["code"], -32602, "{label}");
        assert!(wrong["error"]["message"].as_str().unwrap().contains("b__greet"), "{label}");

        for (reference, sent) in [
            (
                json!({"type": "ref/prompt", "name": "b__greet"}),
                json!({"type": "ref/prompt", "name": "greet"}),
            ),
            (
                json!({"type": "ref/resource", "uri": "one://{id}"}),
                json!({"type": "ref/resource", "uri": "one://{id}"}),
            ),
        ] {
            let params = json!({"ref": reference, "argument": {"name": "who", "value": "m"}});
            let completed = asker.ask("completion/complete", params);
            let seen: Value =
                serde_json::from_str(completed["completion"]["values"][0].as_str().unwrap())
                    .unwrap();
            assert_eq!(seen, sent, "{label}");
        }
    }
}

#[test]
fn links_in_results_and_definitions_still_lead_to_their_server() {
    for (client, servers) in ERAS {
        let world = two(servers, servers);
        let mut asker = Asker::start(&world, client);
        let tools = asker.ask("tools/list", json!({}));
        let tools = tools["tools"].as_array().unwrap();
        let show = tools.iter().find(|tool| tool["name"] == "b__show").unwrap();
        assert_eq!(
            show["_meta"],
            json!({"ui": {"resourceUri": "ui://b.pinfold/widget/main"}, "x/y": 1})
        );
        let result = json!({"content": [
            {"type": "resource_link", "uri": "file:///same", "name": "n", "odd": 1},
            {"type": "resource", "resource": {"uri": "ui://widget/main", "text": "t"}},
            {"type": "resource_link", "uri": "https://example.com/", "name": "w"},
            {"type": "text", "text": "file:///same"},
        ]});
        let params = json!({"name": "b__raw", "arguments": {"result": result}});
        let seen = asker.ask("tools/call", params);
        assert_eq!(
            seen["content"],
            json!([
                {"type": "resource_link", "uri": "pinfold://b/file:///same", "name": "n", "odd": 1},
                {"type": "resource", "resource": {"uri": "ui://b.pinfold/widget/main", "text": "t"}},
                {"type": "resource_link", "uri": "https://example.com/", "name": "w"},
                {"type": "text", "text": "file:///same"},
            ]),
            "{client}"
        );
    }
}

#[test]
fn one_server_alone_keeps_its_uris() {
    let world = World::with(
        "[servers.a]\ncommand = 'python3'\nargs = ['FIXTURES/both.py', '--resource', 'ui://w', \
         '--resource', 'file:///x']\n",
    );
    let mut asker = Asker::start(&world, "modern");
    assert_eq!(asker.names("resources/list", "resources", "uri"), ["file:///x", "ui://w"]);
    let result = json!({"content": [{"type": "resource_link", "uri": "new://x", "name": "n"}]});
    let params = json!({"name": "a__raw", "arguments": {"result": result}});
    assert_eq!(asker.ask("tools/call", params)["content"], result["content"]);
}

#[test]
fn a_profile_does_not_reach_another_ones_servers() {
    let world = two("legacy", "modern");
    let config = std::fs::read_to_string(world.path("pinfold.toml")).unwrap();
    world.write("pinfold.toml", &format!("{config}[profiles.default]\nservers = ['b']\n"));
    let mut asker = Asker::start(&world, "modern");
    assert_eq!(
        asker.names("resources/list", "resources", "uri"),
        ["file:///same", "ui://widget/main"]
    );
    assert_eq!(asker.names("prompts/list", "prompts", "name"), ["b__greet", "b__link"]);
    for uri in ["pinfold://a/file:///alone", "ui://a.pinfold/widget/main"] {
        assert_eq!(asker.answer("resources/read", read(uri))["error"]["code"], -32602);
    }
    assert_eq!(asker.answer("prompts/get", json!({"name": "a__greet"}))["error"]["code"], -32602);
    assert!(!world.path("a.log").exists(), "the other profile's server was not even started");
}

#[test]
fn changes_are_told_between_the_eras() {
    for (client, servers) in ERAS {
        let world = two(servers, servers);
        let mut asker = Asker::start(&world, client);
        asker.names("prompts/list", "prompts", "name");
        let uri = "pinfold://b/file:///same";
        let mut listening = Value::Null;
        if client == "modern" {
            let filter = json!({"promptsListChanged": true, "resourcesListChanged": true,
                "resourceSubscriptions": [uri, "none://x"]});
            listening =
                json!(asker.client.begin("subscriptions/listen", json!({"notifications": filter})));
            let accepted = asker.client.wait("accepted", |message| {
                message["method"] == "notifications/subscriptions/acknowledged"
            });
            assert_eq!(
                accepted["params"]["notifications"],
                json!({"promptsListChanged": true,
                "resourcesListChanged": true, "resourceSubscriptions": [uri]})
            );
        } else {
            asker.ask("resources/subscribe", read(uri));
            let refused = asker.answer("resources/subscribe", read("none://x"));
            assert_eq!(refused["error"]["code"], -32002);
        }
        // Of both servers' resources of that name only one is watched.
        for server in ["a", "b"] {
            let params =
                json!({"name": format!("{server}__touch"), "arguments": {"uri": "file:///same"}});
            asker.ask("tools/call", params);
        }
        asker.ask("tools/call", json!({"name": "a__grow", "arguments": {}}));
        let updated = asker.told("resources/updated", &listening);
        assert_eq!(updated["uri"], uri, "{client}");
        // That the servers came up may be told first.
        for (what, field, key, name) in [
            ("prompts", "prompts", "name", "a__late"),
            ("resources", "resources", "uri", "late://x"),
        ] {
            loop {
                asker.told(&format!("{what}/list_changed"), &listening);
                if asker.names(&format!("{what}/list"), field, key).iter().any(|one| one == name) {
                    break;
                }
            }
        }
        if client == "legacy" {
            asker.ask("resources/unsubscribe", read(uri));
        } else {
            asker.client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                "params": {"requestId": listening}}));
        }
        // The server is told that nobody wants it any more.
        until("it was unsubscribed", || {
            let log = std::fs::read_to_string(world.path("b.log")).unwrap();
            let told = if client == "legacy" {
                "notifications/cancelled"
            } else {
                "resources/unsubscribe"
            };
            log.contains(told).then_some(())
        });
    }
}

#[test]
fn what_was_read_is_written_down() {
    let world = two("legacy", "modern");
    let mut asker = Asker::start(&world, "modern");
    asker.ask("resources/read", read("file:///alone"));
    asker.ask("prompts/get", json!({"name": "b__greet"}));
    asker.answer("resources/read", read("pinfold://a/x:missing"));
    drop(asker);
    let rows = ended(sqlite(&world)).code(0).stdout;
    for row in [
        "resource|file:///alone|ok|a",
        "prompt|b__greet|ok|b",
        "resource|pinfold://a/x:missing|failed|a",
    ] {
        assert!(rows.contains(row), "{row} is not in {rows}");
    }
}

/// Python has SQLite; a program for it may not be there.
fn sqlite(world: &World) -> std::process::Command {
    let mut command = std::process::Command::new("python3");
    command.arg("-c").arg(
        "import json, sqlite3\n\
         for kind, tool, outcome, detail in sqlite3.connect('data/pinfold.db').execute(\n\
         \x20   'SELECT kind, tool, outcome, detail FROM audit ORDER BY id'):\n\
         \x20   print(kind, tool, outcome, json.loads(detail).get('server'), sep='|')\n",
    );
    world.surround(&mut command);
    command
}

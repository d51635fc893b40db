//! What models are told of our own tools, and that it is true.

use serde_json::{Value, json};

use crate::client::{Client, text};
use crate::world::{World, ended, scripts_run};

/// A server by the name that the examples use, with tools from a file.
pub(crate) const NAMED: &str = "[servers.server]\ncommand = 'python3'\n\
    args = ['FIXTURES/server.py', '--calls', 'HERE/calls', '--define', 'HERE/tools.json']\n";

fn tool(name: &str, description: &str, reads: bool, properties: Value) -> Value {
    json!({
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", "properties": properties, "additionalProperties": false},
        "annotations": {"readOnlyHint": reads, "destructiveHint": false},
    })
}

/// The tools that the examples speak of.
fn few() -> Vec<Value> {
    vec![
        tool("tool", "For examples", true, json!({"id": {"type": "integer"}})),
        tool("change", "Changes something", false, json!({"id": {"type": "integer"}})),
    ]
}

/// So many that not even their names have room anywhere.
pub(crate) fn many() -> Vec<Value> {
    let mut tools = few();
    for (place, what) in ["invoice", "customer", "device", "parcel", "meeting"].iter().enumerate() {
        for number in 0..60 {
            let name = format!("get_{what}_{number}");
            let description = format!("Part {number} of what is known of a {what}. More.");
            tools.push(tool(
                &name,
                &description,
                place % 2 == 0,
                json!({"sn": {"type": "string"}}),
            ));
        }
    }
    tools.push(tool("cancel_meeting", "Calls a meeting off", false, json!({"id": {}})));
    tools
}

fn world(tools: &[Value], more: &str) -> World {
    let world = World::with(&format!("{NAMED}{more}"));
    world.write("tools.json", &json!(tools).to_string());
    world
}

/// Our own tools, as a profile offers them.
fn own(world: &World, profile: &str) -> Vec<Value> {
    let listed = ended(world.pinfold(&["tools", "--json", "--profile", profile])).code(0);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let tools = listed["tools"].as_array().unwrap().iter();
    tools
        .filter(|tool| tool["source"] == "pinfold")
        .filter(|tool| !tool["name"].as_str().unwrap().starts_with("background_"))
        .map(|tool| tool["definition"].clone())
        .collect()
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

fn description<'a>(tools: &'a [Value], name: &str) -> &'a str {
    let tool = tools.iter().find(|tool| tool["name"] == name);
    tool.and_then(|tool| tool["description"].as_str()).unwrap_or_else(|| panic!("no {name}"))
}

/// The pieces of code in a text: from an import to the next empty line.
fn examples(text: &str) -> Vec<String> {
    let mut examples = Vec::new();
    let mut lines = text.lines().peekable();
    while lines.peek().is_some() {
        let code: Vec<&str> = lines
            .by_ref()
            .skip_while(|line| !line.starts_with("from agent_tools import"))
            .take_while(|line| !line.is_empty())
            .collect();
        if !code.is_empty() {
            examples.push(code.join("\n"));
        }
    }
    examples
}

#[test]
fn descriptions_are_short_whole_and_the_same_each_time() {
    if !scripts_run() {
        return;
    }
    let profiles = "[scripts]\nmax_calls = 1000000\nconcurrency = 64\ntimeout_sec = 604800\n\
        output_chars = 2000000\n\
        [profiles.default]\nservers = ['server']\n\
        [profiles.auto]\nservers = ['server']\npermission_mode = 'auto'\n\
        [profiles.reading]\nservers = ['server']\npermission_mode = 'read_only'\n";
    for tools in [few(), many()] {
        let world = world(&tools, profiles);
        for profile in ["default", "auto", "reading"] {
            let own = own(&world, profile);
            for tool in &own {
                let (name, text) = (&tool["name"], tool["description"].as_str().unwrap());
                assert!(text.len() < 2048, "{name} in {profile}: {} bytes", text.len());
                for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
                    assert!(tool["annotations"][hint].is_boolean(), "{name}: {hint}");
                }
            }
            let reads = |name: &str| {
                let tool = own.iter().find(|tool| tool["name"] == name);
                tool.map(|tool| tool["annotations"]["readOnlyHint"].as_bool().unwrap())
            };
            let reading = profile == "reading";
            assert_eq!(reads("run_script"), Some(reading), "{profile}");
            assert_eq!(reads("run_script_readonly"), (!reading).then_some(true), "{profile}");
            let text = description(&own, "run_script");
            let start = &text[..900];
            for essential in ["Use it for many calls", "no network", "List in `tools`", "print"] {
                assert!(start.contains(essential), "{essential}: {text}");
            }
            assert_eq!(own, self::own(&world, profile), "not the same from run to run");
        }
    }
}

#[test]
fn the_tools_stand_in_the_description_or_can_be_looked_up() {
    if !scripts_run() {
        return;
    }
    let all = own(&world(&few(), ""), "default");
    assert_eq!(names(&all), ["run_script", "run_script_readonly"]);
    let text = description(&all, "run_script");
    assert!(
        text.contains("\nserver__change(id: int = ...)  # write\nserver__tool(id: int = ...)"),
        "{text}"
    );
    let text = description(&all, "run_script_readonly");
    assert!(text.contains("\nserver__tool(") && !text.contains("server__change"), "{text}");

    let world = world(&many(), "");
    let all = own(&world, "default");
    let expected = ["describe_tools", "list_tools", "run_script", "run_script_readonly"];
    assert_eq!(names(&all), expected);
    let text = description(&all, "run_script");
    assert!(text.contains("303 tools: find them with list_tools(query)"), "{text}");
    assert!(text.ends_with("Servers: server (303)"), "{text}");

    let mut client = Client::start(&world, &[]);
    let found = client.call("list_tools", &json!({"query": "cancelling a meeting", "limit": 3}));
    assert!(found.get("structuredContent").is_none(), "clients would show the model only that");
    let lines: Vec<&str> = text_of(&found).lines().collect();
    assert_eq!(lines[1], "server__cancel_meeting(id: any = ...)  # write: Calls a meeting off");
    assert_eq!(lines.len(), 5, "{lines:#?}");
    // The next page has others, to the end, and all of them once.
    let mut seen: Vec<String> = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut wanted = json!({"server": "server", "limit": 100});
        if let Some(cursor) = &cursor {
            wanted["cursor"] = json!(cursor);
        }
        let page = client.call("list_tools", &wanted);
        let text = text_of(&page);
        seen.extend(text.lines().filter(|line| line.starts_with("server__")).map(str::to_owned));
        cursor =
            text.split("with cursor \"").nth(1).map(|rest| rest.trim_end_matches('"').to_owned());
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), 303);
    assert!(seen.is_sorted(), "{seen:#?}");
    let told =
        client.call("describe_tools", &json!({"names": ["server__get_devise_7", "server__tool"]}));
    let told = text_of(&told);
    assert!(
        told.starts_with(
            "there is no tool \"server__get_devise_7\"; did you mean \"server__get_device_7\""
        ),
        "{told}"
    );
    assert!(
        told.contains("server__tool(id: int = ...)  # read, of the server server\nFor examples\n"),
        "{told}"
    );
    assert!(told.contains(r#"arguments: {"additionalProperties""#), "{told}");
    for (arguments, part) in [
        (json!({"query": "xyzzy"}), "no tool fits \"xyzzy\""),
        (json!({"query": "server__get_devise_7"}), "best first\nserver__get_device_7("),
        (json!({"server": "sever"}), "did you mean \"server\"?"),
        (json!({"cursor": "20.deadbeef"}), "this cursor is of another list"),
        (json!({"query": 7}), "is not of type \"string\""),
        (json!({"limit": 0}), "less than the minimum"),
    ] {
        let said = client.call("list_tools", &arguments);
        assert!(text_of(&said).contains(part), "{arguments}: {said:#}");
    }
    let unknown = client.call("describe_tools", &json!({"names": ["nothing"]}));
    assert_eq!(unknown["isError"], true);
}

fn text_of(result: &Value) -> &str {
    text(result)
}

/// In the real sandbox, with what is served and nothing else.
#[test]
fn every_example_that_models_are_given_works() {
    if !scripts_run() {
        return;
    }
    for tools in [few(), many()] {
        let world = world(&tools, "");
        let mut client = Client::start(&world, &[]);
        let found = client.ask("server/discover", json!({}));
        let listed = client.ask("tools/list", json!({}));
        let listed = listed["tools"].as_array().unwrap();
        let mut ran = 0;
        let texts = listed
            .iter()
            .filter(|tool| !tool["name"].as_str().unwrap().starts_with("server__"))
            .map(|tool| (tool["name"].as_str().unwrap(), tool["description"].as_str().unwrap()));
        let instructions = found["instructions"].as_str().unwrap();
        for (name, text) in texts.chain([("run_script", instructions)]) {
            for code in examples(text) {
                let said = client.call(name, &json!({"code": code, "description": "an example"}));
                let said = text_of(&said);
                assert!(said.starts_with("ok · 500 calls, 0 failed"), "{name}:\n{code}\n{said}");
                assert!(said.ends_with("\n500"), "{name}:\n{code}\n{said}");
                ran += 1;
            }
        }
        assert_eq!(ran, 2, "one in run_script and one in its twin");

        // And the functions are as they are told.
        let text = description(listed, "run_script");
        let told: Vec<&str> = text
            .lines()
            .filter_map(|line| Some(&line[..=line.find(')')?]))
            .filter(|line| {
                ["call(", "call_many(", "call_raw(", "progress("]
                    .iter()
                    .any(|name| line.starts_with(name))
            })
            .collect();
        assert_eq!(told.len(), 4, "{text}");
        let code = format!(
            "import agent_tools, inspect\n\
             for told in {told:?}:\n\
             \x20   name, _, rest = told.partition('(')\n\
             \x20   has = inspect.signature(getattr(agent_tools, name)).parameters\n\
             \x20   names = [part.split('=')[0].strip() for part in rest.rstrip(')').split(',')]\n\
             \x20   assert names == list(has), (told, list(has))\n\
             print('as told')\n"
        );
        let said = client.call("run_script", &json!({"code": code, "description": "looks"}));
        assert!(text_of(&said).ends_with("as told"), "{said:#}");
    }
}

#[test]
fn a_reading_script_reads_and_nothing_else() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    let mut client = Client::start(&world, &[]);
    let code = "from agent_tools import call, ToolError\n\
        print(call('t__add', {'a': 1, 'b': 2})['sum'])\n\
        for tool, args in [('t__note', {'text': 'x'}), ('t__wipe', {})]:\n\
        \x20   try:\n        call(tool, args)\n\
        \x20   except ToolError as error:\n        print(error.kind, error.message)\n\
        try:\n    open('kept', 'w')\n\
        except OSError as error:\n    print('no file:', error.errno)\n";
    let arguments = json!({"code": code, "description": "tries"});
    // A client that can ask nobody.
    let said = client.call_mutely("run_script_readonly", &arguments);
    let said = text(&said);
    assert!(said.starts_with("ok · 1 call, 0 failed, 2 refused"), "{said}");
    assert!(said.contains("\n3\n"), "{said}");
    assert!(said.contains("not_listed t__note changes something, which run_script_readonly cannot: give the script to run_script"), "{said}");
    assert!(said.contains("destructive t__wipe"), "{said}");
    assert!(said.contains("no file: 30"), "{said}");
    assert_eq!(world.calls(), [r#"add {"a":1,"b":2}"#]);
    // The same records as any script has.
    assert_eq!(world.call_lines().len(), 3);
    let refused = client.call_mutely(
        "run_script_readonly",
        &json!({"code": "1", "description": "x", "tools": ["t__note"]}),
    );
    assert!(text(&refused).contains("\"tools\" is not known"), "{refused:#}");

    let off = World::new(
        "[profiles.default]\nservers = ['t']\n\
        tools.run_script_readonly = { approval = 'off' }\n",
    );
    assert_eq!(names(&own(&off, "default")), ["run_script"]);
    let wrong = World::new(
        "[profiles.default]\nservers = ['t']\n\
        tools.list_tools = { effect = 'write' }\n",
    );
    ended(wrong.pinfold(&["tools"])).code(2).says("it can only have approval = \"off\"");
}

#[test]
fn a_script_that_wants_a_network_is_told_that_there_is_none() {
    if !scripts_run() {
        return;
    }
    let world = World::new("");
    let hint = "hint: there is no network in the sandbox";
    for code in [
        "import urllib.request\nurllib.request.urlopen('http://example.com/')",
        "import socket\nsocket.create_connection(('127.0.0.1', 80))",
        "import socket\nsocket.create_connection(('192.0.2.1', 80), timeout=5)",
        "import socket\nsocket.getaddrinfo('example.com', 80)",
        "import sys, urllib.request\ntry:\n    urllib.request.urlopen('http://example.com/')\n\
         except OSError as error:\n    sys.exit(f'gave up: {error}')",
    ] {
        world.run(code, &[]).code(1).says(hint);
    }
    let other = world.run("raise KeyError('network')", &[]).code(1);
    assert!(!other.stderr.contains(hint), "{other:#?}");
    let by_tool =
        "from agent_tools import call\ncall('t__fail', {'message': 'Connection refused'})";
    let other = world.run(by_tool, &[]).code(1);
    assert!(!other.stderr.contains(hint), "{other:#?}");
}

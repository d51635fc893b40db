//! Real agents, driven by a model that follows a plan (`tests/support/model.py`).
//!
//! What counts is what the agent shows its model: that stands in the model's log.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::api::{key, post};
use crate::foreign::installed;
use crate::server::Server;
use crate::world::{World, ended, finish, scripts_run, start, until};

const SCRIPT: &str = "from agent_tools import call_many\n\
    rows = call_many('t__add', [{'a': n, 'b': 1} for n in range(500)])\n\
    print(sum(row['sum'] for row in rows))\n";

const NOTE: &str =
    "from agent_tools import call\nprint(call('t__note', {'text': 'from a script'}))\n";

/// A model with a plan. It is killed when this is dropped.
struct Model {
    child: Child,
    port: u16,
    log: PathBuf,
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Model {
    fn start(world: &World, plan: &Value) -> Self {
        let log = world.path("log");
        let mut child = Command::new("python3")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/model.py"))
            .arg(world.write("plan.json", &plan.to_string()))
            .arg(&log)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { child, port: port.trim().parse().unwrap(), log }
    }

    /// The requests that came.
    fn requests(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.log).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What the last request shows of tools' results, as text.
    fn results(&self) -> Vec<String> {
        let last = self.requests().pop().expect("the agent never asked its model");
        let messages = last["messages"].as_array().cloned().unwrap_or_default();
        let parts = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
        let anthropic = parts.filter(|part| part["type"] == "tool_result");
        let items = last["input"].as_array().cloned().unwrap_or_default();
        let openai = items.iter().filter(|item| item["type"] == "function_call_output");
        anthropic
            .map(|part| &part["content"])
            .chain(openai.map(|item| &item["output"]))
            .map(|content| match content.as_array() {
                Some(parts) => {
                    let texts = parts.iter().filter_map(|part| part["text"].as_str());
                    texts.collect::<Vec<_>>().join("\n")
                }
                None => content.as_str().unwrap_or_default().to_owned(),
            })
            .collect()
    }
}

/// An agent in this world: with a new home, without anybody's account, and no way out.
fn agent(program: &Path, world: &World) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy().to_uppercase();
        let prefixes = ["ANTHROPIC", "CLAUDE", "OPENAI", "CODEX", "MCP_"];
        if prefixes.iter().any(|prefix| text.starts_with(prefix)) || text.ends_with("_PROXY") {
            command.env_remove(name);
        }
    }
    world.surround(&mut command);
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        command.env(name, "http://127.0.0.1:9");
    }
    command.env("NO_PROXY", "127.0.0.1,localhost");
    command
}

#[test]
fn claude_code_runs_a_script_and_finds_an_approval_given_in_between() {
    claude_code(false);
}

#[test]
fn claude_code_over_http() {
    claude_code(true);
}

fn claude_code(http: bool) {
    if !scripts_run() {
        return;
    }
    let Some(claude) = installed("node_modules/.bin/claude") else { return };
    let world = World::new("");
    let note = json!({"tool": "mcp__pinfold__t__note", "arguments": {"text": "x"}});
    let mut again = note.clone();
    again["after"] = json!("HERE/approved");
    let script = json!({"code": SCRIPT, "description": "adds"});
    let plan = json!([{"tool": "mcp__pinfold__run_script", "arguments": script}, note, again]);
    let model = Model::start(&world, &plan);
    let server = http.then(|| Server::start(&world, &[]));
    let entry = match &server {
        Some(server) => json!({"type": "http", "url": server.url("/mcp")}),
        None => json!({"type": "stdio", "command": env!("CARGO_BIN_EXE_pinfold"),
            "args": ["mcp", "--config", world.path("pinfold.toml")]}),
    };
    let running = start(claude_command(&claude, &world, &model, entry, "mcp__pinfold__*"));

    // Nobody is there, so it cancels the question, which stays open and is answered here.
    let id = until("a question", || {
        let list = ended(world.pinfold(&["approvals", "list", "--json"]));
        let open: Value = serde_json::from_str(&list.stdout).ok()?;
        open[0]["id"].as_str().map(str::to_owned)
    });
    match &server {
        Some(server) => {
            // Answered at once, the call that waits would go on; here it is to be made again.
            until("the model is told", || {
                std::fs::read_to_string(&model.log)
                    .ok()?
                    .contains("approval needed: ")
                    .then_some(())
            });
            let path = format!("/api/approvals/{id}");
            let answered = post(server, &key(&world), &path, &json!({"decision": "once"}));
            assert_eq!(answered.status, 200, "{answered:#?}");
        }
        None => {
            ended(world.pinfold(&["approvals", "approve", &id])).code(0);
        }
    }
    world.write("approved", "");

    finish(running).code(0).prints("finished");
    let results = model.results();
    assert_eq!(results.len(), 3, "{results:#?}");
    assert!(results[0].starts_with("ok · 500 calls, 0 failed"), "{results:#?}");
    assert!(results[0].ends_with("\n125250"), "{results:#?}");
    assert!(results[1].contains(&format!("pinfold approvals approve {id}")), "{results:#?}");
    if let Some(server) = &server {
        let page = server.url(&format!("/approvals/{id}"));
        assert!(results[1].contains(&page), "{results:#?}");
    }
    assert_eq!(results[2], "noted");
    assert_eq!(world.calls().iter().filter(|call| call.starts_with("note")).count(), 1);
    // It stands in the prompt itself, not behind a search for tools.
    let first = model.requests().remove(0);
    let shown = first["tools"].as_array().unwrap().iter();
    let shown = shown.filter(|tool| tool["name"] == "mcp__pinfold__run_script").count();
    assert_eq!(shown, 1);
    assert!(first.to_string().contains("exactly the same call again"), "no instructions");
}

#[test]
fn codex_runs_a_script_and_declines_for_want_of_a_person() {
    codex(false);
}

#[test]
fn codex_over_http() {
    codex(true);
}

fn codex(http: bool) {
    if !scripts_run() {
        return;
    }
    let Some(codex) = installed("node_modules/.bin/codex") else { return };
    let world = World::new("");
    let step = |arguments: Value| json!({"tool": "run_script", "namespace": "mcp__pinfold", "arguments": arguments});
    let plan = json!([
        step(json!({"code": SCRIPT, "description": "adds"})),
        step(json!({"code": NOTE, "tools": ["t__note"], "description": "notes"})),
    ]);
    let model = Model::start(&world, &plan);
    let server = http.then(|| Server::start(&world, &[]));
    let entry = match &server {
        Some(server) => format!("url = '{}'", server.url("/mcp")),
        None => format!(
            "command = '{}'\nargs = ['mcp', '--config', 'HERE/pinfold.toml']",
            env!("CARGO_BIN_EXE_pinfold")
        ),
    };
    ended(codex_command(&codex, &world, &model, &entry)).code(0).prints("finished");

    let results = model.results();
    assert_eq!(results.len(), 2, "{results:#?}");
    assert!(results[0].contains("ok · 500 calls, 0 failed"), "{results:#?}");
    assert!(results[0].ends_with("\n125250"), "{results:#?}");
    assert!(results[1].contains("denied: the user of codex"), "{results:#?}");
    assert!(!world.calls().iter().any(|call| call.starts_with("note")));
    assert!(model.requests()[0].to_string().contains("exactly the same call again"));
}

/// Claude Code with this entry for `pinfold`; nobody is there, so only `allowed` tools are called.
fn claude_command(
    claude: &Path,
    world: &World,
    model: &Model,
    entry: Value,
    allowed: &str,
) -> Command {
    world.write("servers.json", &json!({"mcpServers": {"pinfold": entry}}).to_string());
    let mut command = agent(claude, world);
    command
        .args(["-p", "go", "--mcp-config", "servers.json", "--strict-mcp-config"])
        .args(["--allowedTools", allowed, "--output-format", "json"])
        .env("ANTHROPIC_BASE_URL", format!("http://127.0.0.1:{}", model.port))
        .env("ANTHROPIC_API_KEY", "dummy")
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .env("DISABLE_AUTOUPDATER", "1");
    command
}

/// Codex with this entry for `pinfold`, and nobody to ask.
fn codex_command(codex: &Path, world: &World, model: &Model, entry: &str) -> Command {
    std::fs::create_dir(world.path("home/.codex")).unwrap();
    let settings = format!(
        "model = 'plan'\nmodel_provider = 'plan'\napproval_policy = 'never'\n\
         sandbox_mode = 'workspace-write'\n\
         [model_providers.plan]\nname = 'plan'\nbase_url = 'http://127.0.0.1:{}/v1'\n\
         wire_api = 'responses'\nenv_key = 'PLAN_KEY'\n\
         [mcp_servers.pinfold]\n{entry}\n\
         [projects.'HERE']\ntrust_level = 'trusted'\n",
        model.port,
    );
    world.write("home/.codex/config.toml", &settings);
    let mut command = agent(codex, world);
    command.args(["exec", "--skip-git-repo-check", "go"]).env("PLAN_KEY", "dummy");
    command
}

/// A world with more tools than a description has room for, a plan for the tools that help there,
/// and what the model has to see of them.
fn looking_up(world: &World, step: impl Fn(&str, Value) -> Value) -> Model {
    world.write("tools.json", &json!(crate::models::many()).to_string());
    let code = SCRIPT.replace("t__add", "server__tool").replace("'a': n, 'b': 1", "'id': n");
    let code = code.replace("row['sum']", "row['was']['id']");
    let plan = [
        // Codex may ask its model before the servers have listed their tools, and then knows none.
        step("list_tools", json!({"query": "too early"})),
        step("list_tools", json!({"query": "call off a meeting", "limit": 2})),
        step("describe_tools", json!({"names": ["server__tool"]})),
        step("run_script_readonly", json!({"code": code, "description": "adds"})),
    ];
    Model::start(world, &json!(plan))
}

fn looked_up(model: &Model) {
    let results = model.results();
    assert_eq!(results.len(), 4, "{results:#?}");
    assert!(
        results[1].contains("\nserver__cancel_meeting(id: any = ...)  # write"),
        "{results:#?}"
    );
    assert!(results[2].contains("server__tool(id: int = ...)  # read"), "{results:#?}");
    assert!(results[3].contains("ok · 500 calls, 0 failed"), "{results:#?}");
    assert!(results[3].ends_with("\n124750"), "{results:#?}");
}

#[test]
fn claude_code_looks_tools_up_and_lets_a_reading_script_pass() {
    if !scripts_run() {
        return;
    }
    let Some(claude) = installed("node_modules/.bin/claude") else { return };
    let world = World::with(crate::models::NAMED);
    let step = |tool: &str, arguments: Value| json!({"tool": format!("mcp__pinfold__{tool}"), "arguments": arguments});
    let model = looking_up(&world, step);
    let entry = json!({"type": "stdio", "command": env!("CARGO_BIN_EXE_pinfold"),
        "args": ["mcp", "--config", world.path("pinfold.toml")]});
    let allowed = "mcp__pinfold__list_tools,mcp__pinfold__describe_tools,\
        mcp__pinfold__run_script_readonly";
    ended(claude_command(&claude, &world, &model, entry, allowed)).code(0).prints("finished");
    looked_up(&model);
    // They stand in the prompt itself.
    let first = model.requests().remove(0);
    for name in ["run_script", "run_script_readonly", "list_tools", "describe_tools"] {
        let full = format!("mcp__pinfold__{name}");
        assert!(
            first["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == full),
            "{name}"
        );
    }
}

#[test]
fn codex_looks_tools_up_and_lets_a_reading_script_pass() {
    if !scripts_run() {
        return;
    }
    let Some(codex) = installed("node_modules/.bin/codex") else { return };
    let world = World::with(crate::models::NAMED);
    let step = |tool: &str, arguments: Value| json!({"tool": tool, "namespace": "mcp__pinfold", "arguments": arguments});
    let model = looking_up(&world, step);
    let entry = format!(
        "command = '{}'\nargs = ['mcp', '--config', 'HERE/pinfold.toml']",
        env!("CARGO_BIN_EXE_pinfold")
    );
    ended(codex_command(&codex, &world, &model, &entry)).code(0).prints("finished");
    looked_up(&model);
}

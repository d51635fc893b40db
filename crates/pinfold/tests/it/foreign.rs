//! Servers that nobody here wrote, through the whole of the binary, imported from the file that
//! other clients use.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::world::{World, ended, scripts_run, skipped, test_tools, until};

/// Where a server from `.ci/test-tools` is, or nothing after saying so.
pub(crate) fn installed(program: &str) -> Option<PathBuf> {
    let path = test_tools().join(program);
    if path.exists() {
        return Some(path);
    }
    skipped(&format!("{program} is not installed; .ci/test-tools installs it"));
    None
}

#[test]
fn servers_from_npm_imported_from_another_clients_file() {
    if !scripts_run() {
        return;
    }
    let Some(everything) = installed("node_modules/.bin/mcp-server-everything") else { return };
    let Some(files) = installed("node_modules/.bin/mcp-server-filesystem") else { return };
    let world = World::with("mcp_config = '.mcp.json'\n");
    let servers = serde_json::json!({"mcpServers": {
        "everything": {"command": everything, "args": ["stdio"], "autoApprove": ["echo"]},
        "files": {"type": "stdio", "command": files, "args": ["${FOLDER:-HERE}"]},
    }});
    world.write(".mcp.json", &servers.to_string());
    world.write("hello.txt", "from the file system\n");
    world
        .run(
            "from agent_tools import call, call_raw, ToolError\n\
             print(call('everything__echo', {'message': 'hi'}))\n\
             image = call_raw('everything__get-tiny-image', {})\n\
             print([part['type'] for part in image['content']])\n\
             print(call('everything__get-structured-content', {'location': 'New York'}).keys())\n\
             print(call_raw('files__read_text_file', {'path': 'HERE/hello.txt'})['text'])\n\
             def refused(tool, args):\n\
             \x20   try:\n        call(tool, args)\n    except ToolError as error:\n        print(tool, error.kind)\n\
             refused('everything__simulate-research-query', {'topic': 'x'})\n\
             refused('files__write_file', {'path': 'HERE/hello.txt', 'content': 'x'})\n",
            &[],
        )
        .code(0)
        .prints("Echo: hi")
        .prints("'image'")
        .prints("'temperature'")
        .prints("from the file system")
        .prints("everything__simulate-research-query task_only")
        .prints("files__write_file destructive");
}

/// Killed when the test is over, however it ends.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_fastmcp_server_over_http() {
    if !scripts_run() {
        return;
    }
    let Some(python) = installed("venv/bin/python") else { return };
    let world = World::with("");
    let server = world.write(
        "web.py",
        "import socket, sys\nfrom fastmcp import FastMCP\n\
         server = FastMCP('web')\n\
         @server.tool(annotations={'readOnlyHint': True})\n\
         def square(n: int) -> int:\n    return n * n\n\
         free = socket.socket()\nfree.bind(('127.0.0.1', 0))\nport = free.getsockname()[1]\nfree.close()\n\
         print(port, flush=True)\n\
         server.run(transport='http', host='127.0.0.1', port=port, path='/mcp')\n",
    );
    let mut child = Command::new(python)
        .arg(server)
        .env("FASTMCP_SHOW_SERVER_BANNER", "false")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let server = Killed(child);
    let port: u16 = lines.next().unwrap().unwrap().parse().unwrap();
    until("the server listens", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());

    world.write("pinfold.toml", &format!("[servers.web]\nurl = 'http://127.0.0.1:{port}/mcp'\n"));
    world
        .run(
            "from agent_tools import call_many\n\
             print(sum(r['result'] for r in call_many('web__square', [{'n': n} for n in range(100)])))\n",
            &[],
        )
        .code(0)
        .prints("328350\n");

    // Gone, it is named, and the command ends all the same.
    drop(server);
    ended(world.pinfold(&["tools"])).code(0).says("server web cannot be used");
}

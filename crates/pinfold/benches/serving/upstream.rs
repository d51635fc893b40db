//! The servers that are called, by pinfold and without it.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::TOOLS;

/// What a server answers to a message; nothing to a notification.
fn reply(message: &Value) -> Option<String> {
    let id = message.get("id")?;
    let result = match message["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "bench", "version": "1"},
        }),
        "tools/list" => json!({"tools": (0..TOOLS).map(|n| json!({
            "name": format!("tool_{n}"),
            "description": format!("Tool number {n} of this server, with a description of a usual length: it looks up what is known of a thing and gives it."),
            "inputSchema": {"type": "object", "properties": {
                "sn": {"type": "string", "description": "Serial number"},
                "from": {"type": "string", "format": "date-time"},
                "limit": {"type": "integer", "default": 20},
            }, "required": ["sn"]},
            "annotations": {"readOnlyHint": true},
        })).collect::<Vec<_>>()}),
        "tools/call" => json!({"content": [{"type": "text", "text": "{\"ok\":true}"}],
            "structuredContent": {"ok": true}}),
        _ => {
            let error = json!({"code": -32601, "message": "no such method"});
            return Some(json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string());
        }
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
}

/// Over standard input and output; `folder` may hold a file that says to be slow.
pub(crate) fn answer_stdio(folder: Option<&str>) {
    if folder.is_some_and(|folder| std::path::Path::new(folder).join("slow").exists()) {
        std::thread::sleep(Duration::from_secs(30));
    }
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let message: Value = serde_json::from_str(&line).expect("JSON");
        if let Some(reply) = reply(&message) {
            let _ = writeln!(output, "{reply}").and_then(|()| output.flush());
        }
    }
}

/// Over HTTP, a thread for each connection.
pub(crate) fn serve_http() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its number");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer_http(stream));
        }
    });
    address
}

fn answer_http(stream: TcpStream) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut output = stream.try_clone().ok()?;
    let mut input = BufReader::new(stream);
    loop {
        let (start, length) = head(&mut input)?;
        let mut body = vec![0; length];
        input.read_exact(&mut body).ok()?;
        let message: Value = serde_json::from_slice(&body).unwrap_or_default();
        let answer = match reply(&message) {
            _ if !start.starts_with("POST") => {
                "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n".to_owned()
            }
            None => "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".to_owned(),
            Some(text) => format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{text}",
                text.len()
            ),
        };
        output.write_all(answer.as_bytes()).ok()?;
    }
}

/// The first line of a message and how long its body is.
fn head(input: &mut impl BufRead) -> Option<(String, usize)> {
    let (mut start, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if line.is_empty() {
            return Some((start, length));
        }
        if start.is_empty() {
            start = line.to_owned();
        } else if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok()?;
        }
    }
}

pub(crate) fn server(folder: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--server", folder]);
    command
}

/// This program as a server in a configuration; `HERE` becomes its folder.
pub(crate) fn program() -> String {
    let program = std::env::current_exe().expect("this program");
    format!("command = '{}'\nargs = ['--server', 'HERE']\n", program.display())
}

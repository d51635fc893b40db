//! The clients, and where pinfold runs for them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::millis;

/// A folder with a configuration.
pub(crate) struct World(tempfile::TempDir);

impl World {
    pub(crate) fn new(configuration: &str) -> Self {
        let world = Self(tempfile::tempdir().expect("a temporary folder"));
        let here = world.0.path().display().to_string();
        let text = configuration.replace("HERE", &here);
        std::fs::write(world.0.path().join("pinfold.toml"), text).expect("written");
        world
    }

    pub(crate) fn pinfold(&self, command: &str) -> Command {
        let mut pinfold = Command::new(env!("CARGO_BIN_EXE_pinfold"));
        pinfold.args([command, "--config", "pinfold.toml"]).current_dir(self.0.path());
        pinfold.env("HOME", self.0.path()).stderr(Stdio::null());
        pinfold
    }

    pub(crate) fn slow_down(&self) {
        std::fs::write(self.0.path().join("slow"), "").expect("written");
    }

    /// Of how many servers the tools are kept.
    pub(crate) fn kept(&self) -> usize {
        let folder = std::fs::read_dir(self.0.path().join("data/tools"));
        let names = folder.into_iter().flatten().flatten().map(|entry| entry.file_name());
        names.filter(|name| name.to_string_lossy().ends_with(".json")).count()
    }
}

/// A client of a server on standard input and output. It is killed when this is dropped.
pub(crate) struct Pipes {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl Drop for Pipes {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Pipes {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, input, output, next: 0 }
    }

    pub(crate) fn hello(&mut self) {
        self.ask("initialize", hello());
        let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        writeln!(self.input, "{ready}").expect("sent");
    }

    pub(crate) fn ask(&mut self, method: &str, params: Value) -> String {
        self.next += 1;
        let message =
            json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        writeln!(self.input, "{message}").expect("sent");
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).expect("an answer"), 0, "it ended");
            // What it says on its own is of no interest here.
            if !line.contains("\"method\":\"notifications/") {
                return line;
            }
        }
    }

    pub(crate) fn list(&mut self) -> usize {
        self.ask("tools/list", json!({})).matches("\"inputSchema\"").count()
    }

    pub(crate) fn until(&mut self, what: &str, condition: impl Fn(&mut Self) -> bool) {
        let begun = Instant::now();
        while !condition(self) {
            assert!(begun.elapsed() < Duration::from_secs(120), "waited in vain for {what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn until_listed(&mut self, name: &str) {
        let name = format!("\"{name}\"");
        self.until(&name, |client| client.ask("tools/list", json!({})).contains(&name));
    }

    /// Milliseconds of a call.
    pub(crate) fn call(&mut self, name: &str) -> f64 {
        let begun = Instant::now();
        let answer = self.ask("tools/call", called(name));
        let took = millis(begun);
        assert!(answer.contains("\"ok\":true"), "{answer}");
        took
    }
}

/// A running `pinfold serve`. It is killed when this is dropped.
pub(crate) struct Serve {
    child: Child,
    address: SocketAddr,
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Serve {
    pub(crate) fn start(world: &World) -> Self {
        let mut command = world.pinfold("serve");
        command.args(["--listen", "127.0.0.1:0"]).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let address = loop {
            let line = lines.next().expect("it ended").expect("text");
            if let Some(rest) = line.strip_prefix("listening on http://") {
                break rest.trim_end_matches("/mcp").parse().expect("an address");
            }
        };
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Self { child, address }
    }

    /// With a session of an older client.
    pub(crate) fn client(&self) -> Http {
        let mut client = Http::connect(self.address);
        client.begin();
        client
    }

    /// The same, and its stream open; from then on it is idle.
    pub(crate) fn session(&self) -> Http {
        let mut client = self.client();
        let session = client.session.clone().unwrap_or_default();
        let request = format!(
            "GET /mcp HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\nMcp-Session-Id: {session}\r\n\r\n",
            self.address
        );
        client.stream.get_mut().write_all(request.as_bytes()).expect("sent");
        let mut line = String::new();
        client.stream.read_line(&mut line).expect("an answer");
        assert!(line.contains("200"), "{line}");
        client
    }

    /// Resident, in MB.
    pub(crate) fn memory(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
        line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number") / 1024.0
    }
}

/// A client over HTTP, on one connection.
pub(crate) struct Http {
    stream: BufReader<TcpStream>,
    host: SocketAddr,
    session: Option<String>,
}

impl Http {
    pub(crate) fn connect(host: SocketAddr) -> Self {
        let stream = TcpStream::connect(host).expect("it listens");
        stream.set_nodelay(true).expect("set");
        Self { stream: BufReader::with_capacity(1 << 16, stream), host, session: None }
    }

    fn begin(&mut self) {
        self.ask("initialize", hello());
        let session = self.session.clone().expect("a session");
        assert!(!session.is_empty());
    }

    pub(crate) fn ask(&mut self, method: &str, params: Value) -> String {
        let body =
            json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let session = match &self.session {
            Some(session) => format!("Mcp-Session-Id: {session}\r\n"),
            None => String::new(),
        };
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{session}Content-Length: {}\r\n\r\n{body}",
            self.host,
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes()).expect("sent");
        let (mut length, mut line) = (None, String::new());
        loop {
            line.clear();
            assert_ne!(self.stream.read_line(&mut line).expect("an answer"), 0, "it ended");
            let Some((name, value)) = line.trim_end().split_once(':') else {
                if line.trim_end().is_empty() {
                    break;
                }
                continue;
            };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().ok(),
                "mcp-session-id" => self.session = Some(value.trim().to_owned()),
                _ => {}
            }
        }
        if let Some(length) = length {
            let mut body = vec![0; length];
            self.stream.read_exact(&mut body).expect("a body");
            return String::from_utf8(body).expect("text");
        }
        // A stream, in chunks, to its end.
        let mut whole = String::new();
        loop {
            line.clear();
            self.stream.read_line(&mut line).expect("a chunk");
            let length = usize::from_str_radix(line.trim(), 16).expect("its length");
            let mut chunk = vec![0; length + 2];
            self.stream.read_exact(&mut chunk).expect("a chunk");
            if length == 0 {
                return whole;
            }
            whole.push_str(&String::from_utf8_lossy(&chunk[..length]));
        }
    }

    pub(crate) fn list_text(&mut self) -> String {
        self.ask("tools/list", json!({}))
    }

    /// Milliseconds of a call.
    pub(crate) fn call(&mut self, name: &str) -> f64 {
        let begun = Instant::now();
        let answer = self.ask("tools/call", called(name));
        let took = millis(begun);
        assert!(answer.contains("\"ok\":true"), "{answer}");
        took
    }
}

fn hello() -> Value {
    json!({"protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"}})
}

fn called(name: &str) -> Value {
    json!({"name": name, "arguments": {"sn": "SN0001"}})
}

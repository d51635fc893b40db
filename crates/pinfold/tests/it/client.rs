//! A client of `pinfold mcp` that sends what it is told to, and checks that nothing but the
//! protocol comes back.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::world::World;

/// Longest wait for a message.
const BOUND: Duration = Duration::from_secs(60);

/// A running `pinfold mcp`. It is killed when this is dropped.
pub(crate) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Value>,
    /// What came while something else was waited for.
    aside: Vec<Value>,
    next: u64,
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Client {
    pub(crate) fn start(world: &World, options: &[&str]) -> Self {
        let arguments = [&["mcp"], options].concat();
        let mut command = world.pinfold(&arguments);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for line in output.lines() {
                let line = line.unwrap();
                let message: Value = serde_json::from_str(&line)
                    .unwrap_or_else(|error| panic!("{error}: not the protocol: {line}"));
                assert_eq!(message["jsonrpc"], "2.0", "{line}");
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Self { child, input, messages, aside: Vec::new(), next: 0 }
    }

    pub(crate) fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{message}\n").as_bytes()).unwrap();
        input.flush().unwrap();
    }

    /// The first message that fits, in the order in which they came.
    pub(crate) fn wait(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(place) = self.aside.iter().position(&fits) {
            return self.aside.remove(place);
        }
        let end = Instant::now() + BOUND;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let message = self.messages.recv_timeout(left);
            let message = message.unwrap_or_else(|error| {
                panic!("{what}: {error}; what came: {:#?}", self.aside);
            });
            if fits(&message) {
                return message;
            }
            self.aside.push(message);
        }
    }

    /// Sends a request of 2026-07-28 from a client that shows forms; its number.
    pub(crate) fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.begin_as(method, params, &json!({"elicitation": {"form": {}}}))
    }

    pub(crate) fn begin_as(
        &mut self,
        method: &str,
        mut params: Value,
        capabilities: &Value,
    ) -> u64 {
        self.next += 1;
        let id = self.next;
        let mut meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": capabilities,
            "io.modelcontextprotocol/clientInfo": {"name": "tester", "version": "1"},
        });
        if let Value::Object(more) = params["_meta"].take() {
            meta.as_object_mut().unwrap().extend(more);
        }
        params["_meta"] = meta;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// The result of a request.
    pub(crate) fn result(&mut self, id: u64) -> Value {
        let answer = self.wait("an answer", |message| message["id"] == id);
        assert!(answer.get("result").is_some(), "{answer:#}");
        answer["result"].clone()
    }

    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.result(id)
    }

    /// Calls a tool.
    pub(crate) fn call(&mut self, name: &str, arguments: &Value) -> Value {
        self.ask("tools/call", json!({"name": name, "arguments": arguments}))
    }

    /// Calls a tool as a client that cannot ask anybody.
    pub(crate) fn call_mutely(&mut self, name: &str, arguments: &Value) -> Value {
        let params = json!({"name": name, "arguments": arguments});
        let id = self.begin_as("tools/call", params, &json!({}));
        self.result(id)
    }

    /// The names of the tools.
    pub(crate) fn tools(&mut self) -> Vec<String> {
        let listed = self.ask("tools/list", json!({}));
        let tools = listed["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Closes the input; how long the end took. Panics unless the process ended well.
    pub(crate) fn close(mut self) -> Duration {
        let begun = Instant::now();
        self.input.take();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert!(status.success(), "{status}");
                return begun.elapsed();
            }
            assert!(begun.elapsed() < BOUND, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The text of a result.
pub(crate) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {result:#}"))
}

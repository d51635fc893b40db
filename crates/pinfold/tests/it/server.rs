//! A running `pinfold serve`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::world::World;

/// A running `pinfold serve`. It is killed when this is dropped.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What came back: status, headers as they were sent, body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: String,
    pub(crate) body: String,
}

impl Answer {
    /// The one message, which comes in a stream where it took its time.
    pub(crate) fn json(&self) -> Value {
        let streamed = self.body.lines().filter_map(|line| line.strip_prefix("data: ")).next_back();
        let message = streamed.unwrap_or(&self.body);
        serde_json::from_str(message).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

impl Server {
    /// On a free port; returns when it listens.
    pub(crate) fn start(world: &World, options: &[&str]) -> Self {
        let arguments = [&["serve", "--listen", "127.0.0.1:0"], options].concat();
        let mut child =
            world.pinfold(&arguments).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = loop {
            let line = lines.next().expect("it ended").unwrap();
            if let Some(rest) = line.strip_prefix("listening on http://") {
                break rest.trim_end_matches("/mcp").parse().unwrap();
            }
            eprintln!("{line}");
        };
        // What it says from now on must not fill the pipe.
        std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| eprintln!("{line}"))
        });
        Self { child, address }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// One request on a connection of its own.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // In this version a body is not sent in chunks.
        let mut head = format!("{method} {path} HTTP/1.0\r\n");
        if !headers.iter().any(|header| header.starts_with("Host:")) {
            head.push_str(&format!("Host: {}\r\n", self.address));
        }
        for header in headers {
            head.push_str(&format!("{header}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (headers, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = headers.split(' ').nth(1).and_then(|status| status.parse().ok());
        Answer { status: status.unwrap(), headers: headers.to_owned(), body: body.to_owned() }
    }
}

//! Parses a script without running it, with the interpreter that would run it.
//!
//! Parsing is confined like running: a parser that is given hostile input can run out of stack,
//! memory or time. What it cannot parse within its bounds is answered like a syntax error.

use std::time::Duration;

use sandbox::{Ended, Ending, Output, Running, Sandbox, Spec};
use serde::Deserialize;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;

use crate::Error;
use crate::ahead::Waits;
use crate::channel::code_line;

const PATIENCE: Duration = Duration::from_secs(5);
const MEMORY: u64 = 512 << 20;
const LONGEST_ANSWER: usize = 4 << 20;

/// What [`Engine::check`](crate::Engine::check) found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checked {
    /// The code parses; calls of `agent_tools` functions whose tool name is a literal.
    Parses {
        /// (tool name, line), in order.
        calls: Vec<(String, u32)>,
    },
    /// It does not.
    SyntaxError {
        /// Line, from 1.
        line: u32,
        /// The interpreter's own words with the offending line.
        message: String,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Calls(Vec<(String, u32)>),
    SyntaxError { line: u32, message: String },
}

/// An interpreter that waits for code to parse.
#[derive(Debug)]
pub(crate) struct Checker {
    running: Running,
    sender: pipe::Sender,
}

impl Waits for Checker {
    fn is_over(&self) -> bool {
        self.running.is_over()
    }
}

impl Checker {
    /// Starts one in the cell that `spec` describes but for its bounds. If it `waits`, its time
    /// begins when it is given code.
    pub(crate) async fn start(
        sandbox: &Sandbox,
        mut spec: Spec,
        own_memory: u64,
        waits: Option<Duration>,
    ) -> Result<Self, Error> {
        let failed = |error| Error::io("make the pipe of a check", error);
        let (script_end, our_end) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|error| failed(error.into()))?;
        let sender = pipe::Sender::from_owned_fd(our_end).map_err(failed)?;
        spec.limits.wall = PATIENCE;
        spec.limits.memory = MEMORY + own_memory;
        spec.limits.processes = 8;
        spec.limits.file_size = 0;
        spec.fds = vec![(4, script_end)];
        spec.stdout = Output::Capture { head: LONGEST_ANSWER, tail: 0 };
        spec.stderr = Output::Capture { head: 0, tail: 2000 };
        spec.waits = waits;
        Ok(Self { running: sandbox.spawn(spec).await?, sender })
    }

    /// Checks `code`.
    pub(crate) async fn check(self, code: &str) -> Result<Checked, Error> {
        let Self { mut running, mut sender } = self;
        running.begin();
        let send = async move {
            // A checker that ends before it has read everything says why by its ending.
            let _ = sender.write_all(&code_line(code)).await;
        };
        let ((), ended) = tokio::join!(send, running.wait());
        understand(&ended)
    }
}

/// What the checker found, by how it ended and what it said.
fn understand(ended: &Ended) -> Result<Checked, Error> {
    match ended.ending {
        Ending::Exited(0) => {}
        Ending::Exited(_) => {
            let said = String::from_utf8_lossy(&ended.stderr.tail).into_owned();
            return Err(Error::Io(format!("the script could not be checked: {}", said.trim())));
        }
        _ => return Ok(too_much("the script is too large or too deeply nested to be parsed")),
    }
    match serde_json::from_slice(&ended.stdout.head) {
        Ok(Answer::Calls(calls)) => Ok(Checked::Parses { calls }),
        Ok(Answer::SyntaxError { line, message }) => Ok(Checked::SyntaxError { line, message }),
        Err(error) => Err(Error::io("read what the check of a script found", error)),
    }
}

/// The answer for code that is too much to be parsed.
pub(crate) fn too_much(message: &str) -> Checked {
    Checked::SyntaxError { line: 1, message: message.to_owned() }
}

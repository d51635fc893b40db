//! Parses a script without running it, with the interpreter that would run it.
//!
//! Parsing is confined like running: a parser that is given hostile input can run out of stack,
//! memory or time. What it cannot parse within its bounds is answered like a syntax error.

use std::time::Duration;

use sandbox::{Ending, Output, Sandbox, Spec};
use serde::Deserialize;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;

use crate::Error;
use crate::channel::code_line;
use crate::engine::LONGEST_CODE;

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

/// Checks `code` in the cell that `spec` describes but for its bounds.
pub(crate) async fn check(
    sandbox: &Sandbox,
    mut spec: Spec,
    own_memory: u64,
    code: &str,
) -> Result<Checked, Error> {
    if code.len() > LONGEST_CODE {
        let megabytes = LONGEST_CODE >> 20;
        return Ok(too_much(&format!("the script is longer than {megabytes} MB")));
    }
    let failed = |error| Error::io("make the pipe of a check", error);
    let (script_end, our_end) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|error| failed(error.into()))?;
    let mut sender = pipe::Sender::from_owned_fd(our_end).map_err(failed)?;
    spec.limits.wall = PATIENCE;
    spec.limits.memory = MEMORY + own_memory;
    spec.limits.processes = 8;
    spec.limits.file_size = 0;
    spec.fds = vec![(4, script_end)];
    spec.stdout = Output::Capture { head: LONGEST_ANSWER, tail: 0 };
    spec.stderr = Output::Capture { head: 0, tail: 2000 };

    let mut running = sandbox.spawn(spec).await?;
    let send = async move {
        // A checker that ends before it has read everything says why by its ending.
        let _ = sender.write_all(&code_line(code)).await;
    };
    let ((), ended) = tokio::join!(send, running.wait());
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

fn too_much(message: &str) -> Checked {
    Checked::SyntaxError { line: 1, message: message.to_owned() }
}

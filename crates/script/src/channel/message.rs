//! Reads what a script sends, and writes what it is answered.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::host::{Kind, Reply, ToolError};

/// How deep arguments may be nested. JSON readers on the way to a tool stop at 128.
const DEEPEST: usize = 100;
/// Tool names are at most 128 characters, and come with a server's name.
const LONGEST_NAME: usize = 300;

/// What a script says of its end, in bytes; the runner sends 4,000 characters at most.
const LONGEST_TRACEBACK: usize = 20_000;
/// Calls given up at once: more than a batch of `call_many`.
const MOST_GIVEN_UP: usize = 64;

/// A line from a script, understood.
#[derive(Debug)]
pub(super) enum Message {
    /// It calls a tool.
    Call(Request),
    /// It calls a tool in a way that no tool need see.
    Wrong {
        /// The call's id.
        id: u64,
        /// What is wrong.
        error: ToolError,
    },
    /// It no longer waits for the replies to these calls.
    GiveUp(Vec<u64>),
    /// It says how far it is.
    Progress(ProgressReport),
    /// It says how it ends.
    End(EndReport),
    /// Nothing that can be understood.
    Unreadable,
}

/// A call, as the script asked for it.
#[derive(Debug)]
pub(super) struct Request {
    /// Given back with the reply.
    pub(super) id: u64,
    /// Whether text and content are wanted beside a structured result.
    pub(super) raw: bool,
    pub(super) tool: String,
    pub(super) args: Box<RawValue>,
}

/// What `progress(…)` says.
#[derive(Debug, Deserialize)]
pub(super) struct ProgressReport {
    pub(super) done: Option<f64>,
    pub(super) total: Option<f64>,
    pub(super) message: Option<String>,
}

/// What the runner says of a script that failed. The script can forge it, but can only speak ill
/// of itself: it never makes a failure a success.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct EndReport {
    /// The last frames, or the message of `sys.exit("…")`.
    #[serde(default)]
    pub(crate) traceback: String,
    /// Whether it was a `MemoryError`.
    #[serde(default)]
    pub(crate) memory: bool,
}

impl EndReport {
    /// Within what the runner itself keeps to.
    pub(super) fn shortened(mut self) -> Self {
        self.traceback.truncate(self.traceback.floor_char_boundary(LONGEST_TRACEBACK));
        self
    }
}

#[derive(Deserialize)]
struct Line<'a> {
    id: Option<u64>,
    #[serde(default)]
    raw: bool,
    tool: Option<String>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
    give_up: Option<Vec<u64>>,
    progress: Option<ProgressReport>,
    end: Option<EndReport>,
}

/// Reads one line.
pub(super) fn read(line: &[u8]) -> Message {
    let Ok(line) = serde_json::from_slice::<Line<'_>>(line) else {
        return match id_of(line) {
            Some(id) => wrong(id, Kind::InvalidArguments, "the request is not valid JSON"),
            None => Message::Unreadable,
        };
    };
    match line {
        Line { id: Some(id), raw, tool: Some(tool), args: Some(args), .. } => {
            if tool.len() > LONGEST_NAME {
                return wrong(id, Kind::UnknownTool, "no tool has a name as long as that");
            }
            if !args.get().starts_with('{') {
                return wrong(id, Kind::InvalidArguments, "the arguments must be an object");
            }
            if is_deeper_than(DEEPEST, args.get()) {
                let message = format!("the arguments are nested more than {DEEPEST} deep");
                return wrong(id, Kind::InvalidArguments, &message);
            }
            Message::Call(Request { id, raw, tool, args: args.to_owned() })
        }
        Line { id: Some(id), .. } => {
            wrong(id, Kind::InvalidArguments, "a request needs id, tool and args")
        }
        Line { give_up: Some(ids), .. } if ids.len() <= MOST_GIVEN_UP => Message::GiveUp(ids),
        Line { progress: Some(progress), .. } => Message::Progress(progress),
        Line { end: Some(end), .. } => Message::End(end),
        _ => Message::Unreadable,
    }
}

/// Whether a line reports progress, as far as its beginning tells. A script can report by the
/// million, and only the last report is of interest.
pub(super) fn is_report(line: &[u8]) -> bool {
    line.starts_with(b"{\"progress\":")
}

/// What is to be said of a line of which there is only the beginning.
pub(super) fn too_long(beginning: &[u8], longest: usize) -> Message {
    let message = format!("the request is longer than {} MB; send less at once", longest >> 20);
    match id_of(beginning) {
        Some(id) => wrong(id, Kind::InvalidArguments, &message),
        None => Message::Unreadable,
    }
}

fn wrong(id: u64, kind: Kind, message: &str) -> Message {
    Message::Wrong { id, error: ToolError::lasting(kind, message) }
}

/// The id of a request that is broken further on: ours begin with it.
fn id_of(line: &[u8]) -> Option<u64> {
    let digits = line.strip_prefix(b"{\"id\":")?;
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

/// Whether `json`, which is valid, is nested deeper than `bound`. Not recursive, since the script
/// chooses the depth.
pub(crate) fn is_deeper_than(bound: usize, json: &str) -> bool {
    // Quick to see, and true of nearly everything.
    if json.bytes().filter(|byte| matches!(byte, b'{' | b'[')).count() <= bound {
        return false;
    }
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for byte in json.bytes() {
        if in_text {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_text = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_text = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        if depth > bound {
            return true;
        }
    }
    false
}

/// The first line to a script.
pub(crate) fn code_line(code: &str) -> Vec<u8> {
    let mut line = b"{\"code\":".to_vec();
    write_value(code, &mut line);
    line.extend_from_slice(b"}\n");
    line
}

/// The answer to a call. What the script's function would throw away is not sent.
pub(super) fn write_reply(
    id: u64,
    raw: bool,
    outcome: &Result<Reply, ToolError>,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"{\"id\":");
    out.extend_from_slice(id.to_string().as_bytes());
    match outcome {
        Ok(reply) => {
            let all = raw || reply.is_error || reply.structured.is_none();
            if all {
                out.extend_from_slice(b",\"text\":");
                write_value(&reply.text, out);
            }
            if let Some(structured) = &reply.structured {
                out.extend_from_slice(b",\"structured\":");
                write_raw(structured, out);
            }
            if let Some(content) = reply.content.as_ref().filter(|_| all) {
                out.extend_from_slice(b",\"content\":");
                write_raw(content, out);
            }
            if reply.is_error {
                out.extend_from_slice(b",\"is_error\":true");
            }
        }
        Err(error) => {
            out.extend_from_slice(b",\"error\":");
            write_value(error, out);
        }
    }
    out.extend_from_slice(b"}\n");
}

fn write_value<T: serde::Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    let written = serde_json::to_writer(&mut *out, value);
    debug_assert!(written.is_ok(), "text and plain structs always have a JSON form");
}

/// A newline within a value would end the line; in valid JSON it stands between tokens only.
fn write_raw(value: &RawValue, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(value.get().as_bytes());
    for byte in &mut out[start..] {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
}

#[cfg(test)]
mod tests;

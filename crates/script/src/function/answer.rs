//! What the process of a function answered, and how it ended, put together.
//!
//! The answer is the code's own word, so it is believed only about the code itself: it can say
//! what its value is and why it has none, but not that it kept its limits.

use sandbox::Ending;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::job::{ErrorKind, Fault, FunctionJob, Image};

/// Longest answer that is read, in bytes.
pub(super) const LONGEST: usize = 32 << 20;
const LONGEST_TEXT: usize = 16_000;
const MOST_IMAGES: usize = 20;

#[derive(Default, Deserialize)]
struct Answer {
    #[serde(default)]
    data: Option<Box<RawValue>>,
    #[serde(default)]
    error: Option<Said>,
    #[serde(default)]
    restored: bool,
    #[serde(default)]
    images: Vec<String>,
}

#[derive(Deserialize)]
struct Said {
    kind: ErrorKind,
    message: String,
    #[serde(default)]
    hint: Option<String>,
}

/// The verdict about one run.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) result: Result<Box<RawValue>, Fault>,
    pub(super) restored: bool,
    pub(super) images: Vec<Image>,
}

/// What was read of an answer.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) bytes: Vec<u8>,
    /// There was more than can be read.
    pub(super) too_long: bool,
}

pub(super) fn verdict(
    job: &FunctionJob,
    ending: Ending,
    heard: &Heard,
    stderr: &str,
    memory_was_full: bool,
) -> Verdict {
    let answer = serde_json::from_slice::<Answer>(&heard.bytes);
    let (restored, images) = match &answer {
        Ok(answer) => (answer.restored, images(&answer.images)),
        Err(_) => (false, Vec::new()),
    };
    let ending = match ending {
        // V8 gives up by itself, in one of several ways, when it gets no more memory.
        Ending::Signaled(_) | Ending::Exited(133 | 134)
            if memory_was_full || stderr.contains("JavaScript heap out of memory") =>
        {
            Ending::MemoryLimit
        }
        ending => ending,
    };
    Verdict { result: result(job, ending, heard, answer), restored, images }
}

fn result(
    job: &FunctionJob,
    ending: Ending,
    heard: &Heard,
    answer: serde_json::Result<Answer>,
) -> Result<Box<RawValue>, Fault> {
    let memory = job.memory_mb;
    match ending {
        Ending::TimedOut => {
            let limit = job.timeout.as_millis();
            return fault(ErrorKind::Timeout, format!("执行超时: it was ended after {limit} ms"))
                .hint("raise `timeout` (at most 60000), or do less");
        }
        Ending::MemoryLimit => return out_of_memory(memory, ""),
        Ending::ProcessLimit => {
            let message = "it started more processes or threads than it may have";
            return fault(ErrorKind::ProcessLimit, message.to_owned()).bare();
        }
        Ending::Cancelled => {
            return fault(ErrorKind::Exception, "it was cancelled".to_owned()).bare();
        }
        Ending::Signaled(signal) => {
            return fault(
                ErrorKind::Exception,
                format!("its process was ended by signal {signal}"),
            )
            .bare();
        }
        Ending::Exited(code) if heard.bytes.is_empty() && !heard.too_long => {
            let message =
                format!("its process ended with code {code} before its function returned");
            return fault(ErrorKind::Exception, message).bare();
        }
        Ending::Exited(_) => {}
    }
    if heard.too_long {
        let megabytes = LONGEST >> 20;
        return fault(ErrorKind::OutputLimit, format!("its value is larger than {megabytes} MB"))
            .hint("write it to a file in data/output, or return less");
    }
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            let message = format!("what came of the run cannot be read: {error}");
            return fault(ErrorKind::Protocol, message)
                .hint("leave descriptor 4 alone: it belongs to the runtime");
        }
    };
    match (answer.error, answer.data) {
        (Some(said), _) if said.kind == ErrorKind::MemoryLimit => {
            out_of_memory(memory, &cut(&said.message))
        }
        (Some(said), _) => Err(Fault {
            kind: said.kind,
            message: cut(&said.message),
            hint: match said.kind {
                ErrorKind::NetworkDenied => Some("runs have no network".to_owned()),
                _ => said.hint.map(|hint| cut(&hint)),
            },
        }),
        (None, Some(data)) => Ok(data),
        (None, None) => Ok(RawValue::NULL.to_owned()),
    }
}

struct Faulty(ErrorKind, String);

fn fault(kind: ErrorKind, message: String) -> Faulty {
    Faulty(kind, message)
}

impl Faulty {
    fn hint<T>(self, hint: &str) -> Result<T, Fault> {
        Err(Fault { kind: self.0, message: self.1, hint: Some(hint.to_owned()) })
    }

    fn bare<T>(self) -> Result<T, Fault> {
        Err(Fault { kind: self.0, message: self.1, hint: None })
    }
}

fn out_of_memory<T>(limit: u64, said: &str) -> Result<T, Fault> {
    let message = format!("it needed more than its {limit} MB of memory");
    let message = if said.is_empty() { message } else { format!("{message}\n{said}") };
    fault(ErrorKind::MemoryLimit, message).hint("raise `memory`, or hold less at once")
}

/// Only what is base64 is handed on: it ends up in other people's pages.
fn images(found: &[String]) -> Vec<Image> {
    let is_base64 = |text: &String| {
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
    };
    let usable = found.iter().filter(|text| is_base64(text)).take(MOST_IMAGES);
    usable.map(|data| Image { mime: "image/png", data: data.clone() }).collect()
}

fn cut(text: &str) -> String {
    let end = text.floor_char_boundary(LONGEST_TEXT);
    let mut kept = text[..end].to_owned();
    if end < text.len() {
        kept.push('…');
    }
    kept
}

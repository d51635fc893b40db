//! One function to run, and what came of it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Languages of functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FunctionLanguage {
    /// Python.
    Python,
    /// JavaScript, as CommonJS or as an ES module.
    #[serde(alias = "js")]
    JavaScript,
}

/// One function to run.
#[derive(Debug)]
pub struct FunctionJob {
    /// The language of the code.
    pub language: FunctionLanguage,
    /// The code, run byte for byte if it parses.
    pub code: String,
    /// A JSON array.
    pub args: Box<RawValue>,
    /// The function to call; without one it is looked for.
    pub entry: Option<String>,
    /// Wall time.
    pub timeout: Duration,
    /// Memory in MB on top of the interpreter's own.
    pub memory_mb: u64,
    /// Bytes kept of each output stream, half of them from its end.
    pub output_bytes: usize,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Evaluated {
    /// Its value, strict JSON; absent where there is a fault.
    pub data: Option<Box<RawValue>>,
    /// Why there is no value.
    pub fault: Option<Fault>,
    /// What it printed on standard output, as far as kept.
    pub stdout: String,
    /// The same for standard error.
    pub stderr: String,
    /// Whether something of the output was not kept.
    pub truncated: bool,
    /// Whether escape sequences had to be restored before the code parsed.
    pub restored: bool,
    /// Plots that were left open.
    pub images: Vec<Image>,
    /// What it used.
    pub usage: sandbox::Usage,
}

/// A picture.
#[derive(Clone, Debug, Serialize)]
pub struct Image {
    /// Its media type.
    pub mime: &'static str,
    /// Its bytes in base64.
    pub data: String,
}

/// Why there is no value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// Which kind.
    pub kind: ErrorKind,
    /// What is wrong, in the code's own line numbers where it has some.
    pub message: String,
    /// What would do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Kinds of faults (`contract.md`, `POST /execute`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The code does not parse.
    Syntax,
    /// The code raised, or ended its process.
    Exception,
    /// The time limit was reached.
    Timeout,
    /// The memory limit was reached.
    MemoryLimit,
    /// The process limit was reached.
    ProcessLimit,
    /// There was no more room for files.
    DiskLimit,
    /// The value is larger than can be answered.
    OutputLimit,
    /// No function, or not the one that was asked for.
    EntryNotFound,
    /// The value has no counterpart in JSON.
    NotSerializable,
    /// The code wanted the network.
    NetworkDenied,
    /// What the code's process answered is no answer.
    Protocol,
    /// Nothing can run it now.
    Capacity,
}

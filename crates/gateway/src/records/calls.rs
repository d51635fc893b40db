//! `calls.jsonl`: one line for each call, in the order they ended.
//!
//! Lines are gathered and written at least once a second, at the end, and always before a write is
//! sent. What a full disk does not take is kept and tried again, up to a bound.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{ARGUMENT_BYTES, SUMMARY_CHARACTERS};
use crate::json;

/// Longest time that a line waits to be written.
const WAIT: Duration = Duration::from_millis(900);

/// Gathered bytes after which they are written.
const GATHERED: usize = 64 * 1024;

/// Bytes that are kept for a disk that takes none.
const KEPT: usize = 1 << 20;

/// What is written of one call.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    /// Its number in the script.
    pub(crate) number: u64,
    /// When it was made.
    pub(crate) at: jiff::Timestamp,
    /// The tool, as the script wrote it.
    pub(crate) tool: &'a str,
    /// The arguments.
    pub(crate) arguments: &'a RawValue,
    /// How long it took.
    pub(crate) took: Duration,
    /// Whether it went well; `None` if nobody knows.
    pub(crate) ok: Option<bool>,
    /// What came back, or why nothing did.
    pub(crate) summary: &'a str,
}

impl Line<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        let at = format!("{:.3}", self.at);
        let tool = json::quoted(&json::one_line(self.tool, 130));
        let arguments = json::bounded(self.arguments, ARGUMENT_BYTES);
        let ok = self.ok.map_or("null", |ok| if ok { "true" } else { "false" });
        let summary = json::quoted(&json::one_line(self.summary, SUMMARY_CHARACTERS));
        let mut line = String::with_capacity(128 + arguments.len() + summary.len());
        let _ = writeln!(
            line,
            "{{\"n\":{},\"at\":\"{at}\",\"tool\":{tool},\"args\":{arguments},\"ms\":{},\"ok\":{ok},\"summary\":{summary}}}",
            self.number,
            self.took.as_millis(),
        );
        out.extend_from_slice(line.as_bytes());
    }
}

/// The file while its script runs.
#[derive(Debug)]
pub(crate) struct Calls(Mutex<Gathered>);

#[derive(Debug)]
struct Gathered {
    file: File,
    buffer: Vec<u8>,
    written: Instant,
    lost: u64,
}

impl Calls {
    pub(crate) fn new(file: File) -> Self {
        Self(Mutex::new(Gathered { file, buffer: Vec::new(), written: Instant::now(), lost: 0 }))
    }

    /// Adds a line.
    pub(crate) fn append(&self, line: &Line<'_>) {
        let mut gathered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if gathered.buffer.len() >= KEPT {
            gathered.lost += 1;
        } else {
            line.write(&mut gathered.buffer);
        }
        if gathered.buffer.len() >= GATHERED || gathered.written.elapsed() >= WAIT {
            // Told at the end, and to whoever has to know before a write.
            let _ = gathered.flush();
        }
    }

    /// Writes what was gathered, or says why it cannot.
    pub(crate) fn flush(&self) -> Result<(), String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }

    /// Writes the rest; says what could not be kept.
    pub(crate) fn finish(&self) -> Result<(), String> {
        let mut gathered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let flushed = gathered.flush();
        match (flushed, gathered.lost) {
            (Ok(()), 0) => Ok(()),
            (Err(reason), _) => Err(format!("calls.jsonl is not complete: {reason}")),
            (Ok(()), lost) => Err(format!("calls.jsonl lacks {lost} calls: the disk was full")),
        }
    }
}

impl Gathered {
    fn flush(&mut self) -> Result<(), String> {
        self.written = Instant::now();
        let mut done = 0;
        let result = loop {
            match self.buffer.get(done..) {
                None | Some([]) => break Ok(()),
                Some(rest) => match self.file.write(rest) {
                    Ok(0) => break Err("the file takes nothing more".to_owned()),
                    Ok(count) => done += count,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => break Err(error.to_string()),
                },
            }
        };
        self.buffer.drain(..done);
        result
    }
}

/// A call whose line a crash may have lost.
#[derive(Clone, Debug)]
pub(crate) struct Missing {
    /// Its number in the script.
    pub(crate) number: u64,
    /// The tool.
    pub(crate) tool: String,
    /// When, in milliseconds since 1970.
    pub(crate) at_ms: i64,
    /// Its arguments as they were kept.
    pub(crate) arguments: String,
    /// How it ended, if that is known.
    pub(crate) ok: Option<bool>,
}

/// Adds the lines that a crash lost to the file of an interrupted script. A line that was torn in
/// the middle is removed first.
pub(crate) fn complete(file: &mut File, missing: &[Missing]) -> std::io::Result<()> {
    let (numbers, whole) = scan(file)?;
    if file.metadata()?.len() != whole {
        file.set_len(whole)?;
    }
    let mut buffer = Vec::new();
    for call in missing.iter().filter(|call| !numbers.contains(&call.number)) {
        let arguments: Box<RawValue> = serde_json::from_str(&call.arguments).unwrap_or_default();
        Line {
            number: call.number,
            at: jiff::Timestamp::from_millisecond(call.at_ms).unwrap_or_default(),
            tool: &call.tool,
            arguments: &arguments,
            took: Duration::ZERO,
            ok: call.ok,
            summary: match call.ok {
                None => "outcome unknown",
                Some(true) => "the tool answered; the answer was lost in a crash",
                Some(false) => "the call failed; the reason was lost in a crash",
            },
        }
        .write(&mut buffer);
    }
    file.seek(SeekFrom::End(0))?;
    file.write_all(&buffer)?;
    file.sync_data()
}

/// The numbers of the calls that have a line, and the length of the whole lines.
fn scan(file: &mut File) -> std::io::Result<(HashSet<u64>, u64)> {
    #[derive(Deserialize)]
    struct Numbered {
        n: u64,
    }
    /// No line that was written here is longer.
    const LONGEST: usize = 64 * 1024;
    file.seek(SeekFrom::Start(0))?;
    let mut numbers = HashSet::new();
    let (mut position, mut whole) = (0u64, 0u64);
    let mut line = Vec::new();
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let count = file.read(&mut chunk)?;
        if count == 0 {
            return Ok((numbers, whole));
        }
        for &byte in &chunk[..count] {
            position += 1;
            if byte == b'\n' {
                if let Ok(Numbered { n }) = serde_json::from_slice(&line) {
                    numbers.insert(n);
                }
                line.clear();
                whole = position;
            } else if line.len() < LONGEST {
                line.push(byte);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    fn missing(number: u64, ok: Option<bool>) -> Missing {
        let arguments = "{\"sn\":\"b\"}".to_owned();
        Missing { number, tool: "fleet__set".into(), at_ms: 1_000, arguments, ok }
    }

    /// The file after `complete`, which must not change it a second time.
    fn completed(before: &str, missing: &[Missing]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.jsonl");
        std::fs::write(&path, before).unwrap();
        let open = || OpenOptions::new().read(true).append(true).open(&path).unwrap();
        complete(&mut open(), missing).unwrap();
        let after = std::fs::read_to_string(&path).unwrap();
        complete(&mut open(), missing).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), after);
        after
    }

    #[test]
    fn what_a_crash_lost_is_added_once() {
        let unknown = "{\"n\":2,\"at\":\"1970-01-01T00:00:01.000Z\",\"tool\":\"fleet__set\",\
                       \"args\":{\"sn\":\"b\"},\"ms\":0,\"ok\":null,\"summary\":\"outcome unknown\"}\n";
        let first = "{\"n\":1,\"ok\":true}\n";
        let calls = [missing(1, Some(true)), missing(2, None)];
        assert_eq!(completed(first, &calls), format!("{first}{unknown}"));
        let torn = format!("{first}{{\"n\":2,\"at\":\"19");
        assert_eq!(completed(&torn, &calls), format!("{first}{unknown}"));
        let noise = format!("{first}{}\nnot json\n", "x".repeat(200_000));
        assert_eq!(completed(&noise, &calls), format!("{noise}{unknown}"));
        assert_eq!(completed("", &[]), "");
        let known = completed("", &[missing(1, Some(true)), missing(2, Some(false))]);
        assert!(known.contains("\"ok\":true") && known.contains("\"ok\":false"), "{known}");
    }

    #[test]
    fn lines_are_written_when_they_are_many_or_old_or_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.jsonl");
        let calls = Calls::new(File::create(&path).unwrap());
        let arguments: Box<RawValue> = serde_json::from_str("{}").unwrap();
        let append = |number| {
            calls.append(&Line {
                number,
                at: jiff::Timestamp::UNIX_EPOCH,
                tool: "t",
                arguments: &arguments,
                took: Duration::from_millis(3),
                ok: Some(true),
                summary: "s",
            });
        };
        let length = || std::fs::metadata(&path).unwrap().len();
        append(1);
        assert_eq!(length(), 0);
        calls.flush().unwrap();
        let line = length();
        assert!(line > 0);
        append(2);
        std::thread::sleep(WAIT);
        append(3);
        assert_eq!(length(), 3 * line);
        for _ in 0..GATHERED {
            append(4);
        }
        assert!(length() > GATHERED as u64);
        calls.finish().unwrap();
        assert_eq!(length(), (3 + GATHERED as u64) * line);
    }

    #[test]
    fn a_disk_that_takes_nothing_is_told_and_memory_stays_bounded() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let calls = Calls::new(full);
        let arguments: Box<RawValue> = serde_json::from_str("{}").unwrap();
        for number in 0..20_000 {
            calls.append(&Line {
                number,
                at: jiff::Timestamp::UNIX_EPOCH,
                tool: "t",
                arguments: &arguments,
                took: Duration::ZERO,
                ok: Some(true),
                summary: &"s".repeat(100),
            });
        }
        assert!(calls.flush().is_err());
        let told = calls.finish().unwrap_err();
        assert!(told.contains("calls.jsonl is not complete: No space left"), "{told}");
        assert!(calls.0.lock().unwrap().buffer.len() < KEPT + 1024);
    }
}

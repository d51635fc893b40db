//! What is asked: read strictly, so that a misspelt field is no limit that silently does not hold.

use std::time::Duration;

use script::{FunctionJob, FunctionLanguage};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Milliseconds.
const TIMEOUT: std::ops::RangeInclusive<u64> = 100..=60_000;
const DEFAULT_TIMEOUT: u64 = 5_000;

/// Megabytes.
const MEMORY: std::ops::RangeInclusive<u64> = 16..=16_384;
const DEFAULT_MEMORY: u64 = 256;

/// Bytes kept of each output stream.
const OUTPUT: usize = 1 << 20;

const LONGEST_ENTRY: usize = 200;

/// Why a request cannot be carried out; says what would do.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Wrong(pub(crate) String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    language: String,
    code: String,
    #[serde(default)]
    timeout: Option<serde_json::Number>,
    #[serde(default)]
    memory: Option<serde_json::Number>,
    #[serde(default)]
    args: Option<Box<RawValue>>,
    #[serde(default)]
    entry: Option<String>,
}

/// Reads a request body.
pub(crate) fn read(body: &[u8]) -> Result<FunctionJob, Wrong> {
    let text = std::str::from_utf8(body).map_err(|error| {
        Wrong(format!("the body is not UTF-8 after byte {}", error.valid_up_to()))
    })?;
    let body: Body = serde_json::from_str(text).map_err(|error| {
        Wrong(format!(
            "the body is not what /execute takes: {error}; send a JSON object with language, code, \
             and if wanted args, entry, timeout, memory"
        ))
    })?;
    Ok(FunctionJob {
        language: language(&body.language)?,
        code: body.code,
        args: args(body.args)?,
        entry: entry(body.entry)?,
        timeout: Duration::from_millis(number("timeout", body.timeout, TIMEOUT, DEFAULT_TIMEOUT)?),
        memory_mb: number("memory", body.memory, MEMORY, DEFAULT_MEMORY)?,
        output_bytes: OUTPUT,
    })
}

/// The language of a name.
pub(crate) fn language(name: &str) -> Result<FunctionLanguage, Wrong> {
    match name.to_ascii_lowercase().as_str() {
        "python" => Ok(FunctionLanguage::Python),
        "javascript" | "js" => Ok(FunctionLanguage::JavaScript),
        _ => {
            let name: String = name.chars().take(40).collect();
            Err(Wrong(format!("language {name:?} is not known; use python or javascript")))
        }
    }
}

fn args(args: Option<Box<RawValue>>) -> Result<Box<RawValue>, Wrong> {
    match args {
        Some(args) if args.get().starts_with('[') => Ok(args),
        Some(args) if args.get() != "null" => Err(Wrong("args must be an array".to_owned())),
        _ => RawValue::from_string("[]".to_owned()).map_err(|error| Wrong(error.to_string())),
    }
}

fn entry(entry: Option<String>) -> Result<Option<String>, Wrong> {
    let entry = entry.filter(|entry| !entry.is_empty());
    match entry {
        Some(entry) if entry.len() > LONGEST_ENTRY => {
            Err(Wrong(format!("entry is longer than {LONGEST_ENTRY} bytes")))
        }
        entry => Ok(entry),
    }
}

/// A whole number in its range; `5000.0` is one too.
fn number(
    name: &str,
    given: Option<serde_json::Number>,
    range: std::ops::RangeInclusive<u64>,
    default: u64,
) -> Result<u64, Wrong> {
    let Some(given) = given else { return Ok(default) };
    let whole = given.as_u64().or_else(|| {
        let value = given.as_f64()?;
        let fits = value.fract() == 0.0 && (0.0..=1e9).contains(&value);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it fits")]
        fits.then_some(value as u64)
    });
    whole.filter(|whole| range.contains(whole)).ok_or_else(|| {
        let unit = if name == "timeout" { "milliseconds" } else { "MB" };
        Wrong(format!(
            "{name} must be a whole number between {} and {} ({unit}), not {given}",
            range.start(),
            range.end()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_has_its_default() {
        let job = read(br#"{"language":"python","code":"x"}"#).unwrap();
        assert_eq!(job.args.get(), "[]");
        assert_eq!((job.timeout.as_millis(), job.memory_mb, job.entry), (5000, 256, None));
        let job = read(br#"{"language":"JS","code":"","args":null,"entry":"","timeout":100.0}"#);
        let job = job.unwrap();
        assert_eq!((job.language, job.timeout.as_millis()), (FunctionLanguage::JavaScript, 100));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let table: [(&[u8], &str); 14] = [
            (b"", "JSON object"),
            (b"{", "JSON object"),
            (b"[]", "JSON object"),
            (b"\xff\xfe", "UTF-8"),
            (br#"{"code":"x"}"#, "language"),
            (br#"{"language":"python"}"#, "code"),
            (br#"{"language":"ruby","code":""}"#, "\"ruby\" is not known"),
            (br#"{"language":"python","code":"","tiemout":1}"#, "tiemout"),
            (br#"{"language":"python","code":"","timeout":99}"#, "between 100 and 60000"),
            (br#"{"language":"python","code":"","timeout":60001}"#, "not 60001"),
            (br#"{"language":"python","code":"","timeout":-1}"#, "not -1"),
            (br#"{"language":"python","code":"","timeout":1.5e3,"memory":0.5}"#, "memory"),
            (br#"{"language":"python","code":"","args":{}}"#, "array"),
            (br#"{"language":"python","code":7}"#, "JSON object"),
        ];
        for (body, words) in table {
            let error = read(body).unwrap_err().to_string();
            assert!(error.contains(words), "{}: {error}", String::from_utf8_lossy(body));
        }
    }
}

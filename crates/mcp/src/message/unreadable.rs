//! What was meant for a message and is none: which request it seems to answer, and what is wrong
//! with it, in words. Nothing is read out of it beyond that, since it would be a guess.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use super::tokens::{DEEPEST, Token, is_too_deep, tokens};
use super::{Envelope, LONGEST_BATCH};

/// So much of either end is enough to find an id, in bytes.
const END: usize = 4_096;

/// So much is shown before and after a fault, in bytes.
const AROUND: usize = 40;

/// The requests that a text seems to answer, though it cannot be read.
pub(crate) fn answered(text: &str) -> Vec<i64> {
    let found = ids(text);
    if !found.is_empty() {
        return found;
    }
    let start = text.ceil_char_boundary(text.len().saturating_sub(END));
    id_at_end(&text[start..]).into_iter().collect()
}

/// The request that an answer too long to be kept seems to be for, by how it begins and ends.
pub(crate) fn answered_at_ends(head: &[u8], tail: &[u8]) -> Option<i64> {
    let head = String::from_utf8_lossy(head);
    ids(&head).first().copied().or_else(|| id_at_end(&String::from_utf8_lossy(tail)))
}

/// The id of a request too long to be kept, by how it begins and ends.
pub(crate) fn asked_at_ends(head: &[u8], tail: &[u8]) -> Option<i64> {
    let head = String::from_utf8_lossy(head);
    let asked = ids_of(&head, |object| object.id).first().copied();
    asked.or_else(|| id_at_end(&String::from_utf8_lossy(tail)))
}

/// The ids of the objects that look like answers: at the top, or directly in an array there.
fn ids(text: &str) -> Vec<i64> {
    ids_of(text, Object::answers)
}

/// The ids of the objects at the top, or directly in an array there, that `id` takes for what is
/// looked for.
fn ids_of(text: &str, id: fn(Object) -> Option<i64>) -> Vec<i64> {
    let text = text.trim_start_matches('\u{feff}');
    let level = if text.trim_ascii_start().starts_with('[') { 2 } else { 1 };
    let mut found = Vec::new();
    let mut object = Object::default();
    let mut depth = 0_usize;
    let mut key = None;
    let mut last = "";
    for (token, place) in tokens(text) {
        let part = &text[place.clone()];
        match token {
            Token::Open => {
                depth += 1;
                if depth == level {
                    found.extend(id(std::mem::take(&mut object)));
                    key = None;
                }
            }
            Token::Close => depth = depth.saturating_sub(1),
            Token::Colon if depth == level => {
                object.has_method |= last == "method";
                object.is_answer |= matches!(last, "result" | "error" | "jsonrpc");
                key = Some(last);
            }
            Token::Comma if depth == level => key = None,
            // A number at the very end may have been cut off.
            Token::Word if depth == level && key == Some("id") && place.end < text.len() => {
                // Where there are two in one place, neither is known to be it.
                object.id = part.parse().ok().filter(|_| !object.has_id);
                object.has_id = true;
            }
            _ => {}
        }
        last = part;
        if found.len() == LONGEST_BATCH {
            return found;
        }
    }
    found.extend(id(object));
    found
}

/// What was seen of one object.
#[derive(Default)]
struct Object {
    id: Option<i64>,
    has_id: bool,
    has_method: bool,
    is_answer: bool,
}

impl Object {
    /// A log line may have an `id` too, and a request of the server's has one of its own.
    fn answers(self) -> Option<i64> {
        self.id.filter(|_| self.is_answer && !self.has_method)
    }
}

/// The id in one of the two usual ends of an answer.
fn id_at_end(text: &str) -> Option<i64> {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let text = text.strip_suffix('}')?;
    let text = text.strip_suffix(r#","jsonrpc":"2.0""#).unwrap_or(text);
    text.rsplit_once(r#","id":"#).and_then(|(_, id)| id.parse().ok())
}

/// What is wrong with a text that could not be read as a message.
pub(crate) fn fault(text: &str) -> String {
    let text = text.trim_start_matches('\u{feff}');
    if is_too_deep(text) {
        return format!("is nested more than {DEEPEST} levels deep");
    }
    let Err(error) = serde_json::from_str::<IgnoredAny>(text) else {
        return no_message(text);
    };
    let literal = tokens(text).find(|(token, place)| {
        *token == Token::Word
            && matches!(&text[place.clone()], "NaN" | "nan" | "Infinity" | "-Infinity")
    });
    if let Some((_, place)) = literal {
        let word = &text[place.clone()];
        let excerpt = around(text, place.start);
        return format!(
            "is not valid JSON: {word} at byte {}, where JSON knows only null: {excerpt}",
            place.start
        );
    }
    let lines: usize =
        text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    let at = (lines + error.column().saturating_sub(1)).min(text.len());
    let excerpt = around(text, at);
    format!("is not valid JSON: {} at byte {at}: {excerpt}", without_place(&error))
}

/// What is wrong with JSON that is no message.
fn no_message(text: &str) -> String {
    let why = match serde_json::from_str::<Envelope<'_>>(text) {
        Ok(_) => Cow::Borrowed("it has neither `result` nor `error`"),
        Err(error) => Cow::Owned(without_place(&error)),
    };
    format!("is not a JSON-RPC message: {why}")
}

fn without_place(error: &serde_json::Error) -> String {
    let words = error.to_string();
    words.rsplit_once(" at line ").map_or(words.clone(), |(words, _)| words.to_owned())
}

/// What stands around a place.
fn around(text: &str, at: usize) -> String {
    let start = text.floor_char_boundary(at.saturating_sub(AROUND));
    let end = text.ceil_char_boundary((at + AROUND).min(text.len()));
    let shown: String =
        text[start..end].chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let before = if start > 0 { "…" } else { "" };
    let after = if end < text.len() { "…" } else { "" };
    format!("{before}{shown}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_found_by_the_id_of_the_answer_alone() {
        for (text, ids) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"x":NaN}}"#, vec![7]),
            (r#"{"result":{"id":8,"x":-Infinity},"id": 7 ,"jsonrpc":"2.0"}"#, vec![7]),
            (r#"{"id":7,"error":{"#, vec![7]),
            (r#"{"jsonrpc":"2.0","id":7}"#, vec![7]),
            (r#"[{"id":7,"result":NaN},{"id":8,"result":{"id":9}}]"#, vec![7, 8]),
            // An unescaped quote turns the strings inside out, but not the end.
            (r#"{"result":"a "quoted" word"","id":7}"#, vec![7]),
            // A request of the server's, a line of a log, an id that may go on.
            (r#"{"id":7,"method":"ping","params":NaN}"#, vec![]),
            (r#"{"level":"info","id":7,"x":NaN}"#, vec![]),
            (r#"{"jsonrpc":"2.0","id":7"#, vec![]),
            (r#"{"jsonrpc":"2.0","id":"7","result":NaN}"#, vec![]),
            (r#"{"result":{"id":7,"jsonrpc":NaN"#, vec![]),
            (r#"{"id":9 7,"result":{}}"#, vec![]),
            ("noise", vec![]),
        ] {
            assert_eq!(answered(text), ids, "{text}");
        }
    }

    #[test]
    fn the_id_is_found_at_either_end() {
        let answered = answered_at_ends;
        assert_eq!(answered(br#"{"jsonrpc":"2.0","id":12,"result":{"#, b"}}"), Some(12));
        assert_eq!(answered(br#"{ "id": 12, "jsonrpc": "2.0", "result": {"#, b"}}"), Some(12));
        assert_eq!(answered(br#"{"result":{"#, br#"}]},"jsonrpc":"2.0","id":7}"#), Some(7));
        assert_eq!(answered(br#"{"result":{"#, br#"}]},"id":7,"jsonrpc":"2.0"}"#), Some(7));
        assert_eq!(answered(b"noise", b"noise"), None);
    }

    #[test]
    fn the_fault_is_named_with_its_place() {
        for (text, words) in [
            (
                r#"{"id":1,"result":{"x":NaN}}"#,
                r#"is not valid JSON: NaN at byte 22, where JSON knows only null: {"id":1,"result":{"x":NaN}}"#,
            ),
            (
                r#"{"id":1,"result":"NaN é",}"#,
                r#"is not valid JSON: key must be a string at byte 26"#,
            ),
            ("{\"id\":1,\n\"result\":\"a\tb\"}", "control character"),
            (
                r#"{"id":1,"result":{},"result":{}}"#,
                "is not a JSON-RPC message: duplicate field `result`",
            ),
            (r#"{"id":1}"#, "is not a JSON-RPC message: it has neither `result` nor `error`"),
        ] {
            let fault = fault(text);
            assert!(fault.contains(words), "{text}: {fault}");
        }
        let deep = format!("{}1", "[".repeat(1_000_000));
        assert_eq!(fault(&deep), "is nested more than 256 levels deep");
        assert!(fault(&format!("[\"{}\", x]", "é".repeat(1_000))).len() < 250);
    }
}

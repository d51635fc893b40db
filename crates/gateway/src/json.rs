//! JSON as it is sent by strangers: parsed strictly, compared exactly, bounded before it is kept.
//!
//! A parsed value loses what the text said (repeated names, digits beyond a double). What a person
//! approved is compared by [`canonical`], which keeps both from being lost.

use std::fmt::Write as _;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};
use sha2::{Digest, Sha256};

/// Deepest nesting that is compared.
const DEPTH: usize = 100;

/// Parses, and refuses an object that has a name twice: the check and the tool could each believe
/// another one.
pub(crate) fn strict(raw: &RawValue) -> Result<Value, String> {
    let mut deserializer = serde_json::Deserializer::from_str(raw.get());
    Strict.deserialize(&mut deserializer).map_err(|error| error.to_string())
}

struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(Self)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = map.next_value_seed(Self)?;
            if object.contains_key(&name) {
                return Err(A::Error::custom(format!(
                    "the name {:?} stands twice",
                    cut(&name, 80)
                )));
            }
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

/// An object as a list: order, repeated names and the text of the values are kept.
pub(crate) struct Members(pub(crate) Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Members;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(List)
    }
}

/// One text for all ways to write the same value: no spaces, names sorted, strings written one
/// way, numbers as they are.
pub(crate) fn canonical(raw: &RawValue) -> Result<String, String> {
    let mut out = String::with_capacity(raw.get().len());
    write_canonical(raw.get(), &mut out, DEPTH)?;
    Ok(out)
}

fn write_canonical(text: &str, out: &mut String, depth: usize) -> Result<(), String> {
    let text = text.trim();
    let Some(below) = depth.checked_sub(1) else {
        return Err(format!("nested deeper than {DEPTH} levels"));
    };
    let failed = |error: serde_json::Error| error.to_string();
    match text.as_bytes().first() {
        Some(b'{') => {
            let Members(mut members) = serde_json::from_str(text).map_err(failed)?;
            members.sort_by(|a, b| a.0.cmp(&b.0));
            if let Some(pair) = members.windows(2).find(|pair| pair[0].0 == pair[1].0) {
                return Err(format!("the name {:?} stands twice", cut(&pair[0].0, 80)));
            }
            out.push('{');
            for (index, (name, value)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&quoted(name));
                out.push(':');
                write_canonical(value.get(), out, below)?;
            }
            out.push('}');
        }
        Some(b'[') => {
            let items: Vec<Box<RawValue>> = serde_json::from_str(text).map_err(failed)?;
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_canonical(item.get(), out, below)?;
            }
            out.push(']');
        }
        Some(b'"') => {
            let string: String = serde_json::from_str(text).map_err(failed)?;
            out.push_str(&quoted(&string));
        }
        _ => out.push_str(text),
    }
    Ok(())
}

/// The value as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_else(|_| "\"\"".to_owned())
}

/// A hash over parts, each with its length, so that no two lists of parts run together.
pub(crate) fn hash<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part.as_bytes());
    }
    let mut out = String::with_capacity(64);
    for byte in digest.finalize() {
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// The start of a text, at most so many characters; says where it was cut.
pub(crate) fn cut(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}

/// One line for a log or a list: no line breaks, no control characters, at most so many characters.
pub(crate) fn one_line(text: &str, characters: usize) -> String {
    let start = text.char_indices().nth(characters * 2).map_or(text, |(at, _)| &text[..at]);
    let mut line = String::with_capacity(start.len());
    for character in start.chars() {
        if character.is_control() || character.is_whitespace() {
            if !line.ends_with(' ') {
                line.push(' ');
            }
        } else {
            line.push(character);
        }
    }
    let line = line.trim();
    if start.len() < text.len() && line.chars().count() <= characters {
        return format!("{line}…");
    }
    cut(line, characters)
}

/// A value as one JSON text without line breaks, cut to a JSON string if it is longer than so many
/// bytes.
pub(crate) fn bounded(raw: &RawValue, bytes: usize) -> String {
    let text = raw.get().trim();
    if text.len() <= bytes {
        // Between JSON tokens only; inside a string they would have to be escaped.
        return text.replace(['\n', '\r'], " ");
    }
    let mut end = bytes;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    quoted(&format!("{}… ({} bytes in all)", &text[..end], text.len()))
}

/// A raw value from a text that this crate wrote itself.
pub(crate) fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_default()
}

/// An object with the value of one name replaced (or added), all else as it was.
pub(crate) fn with_member(
    object: &RawValue,
    name: &str,
    value: &str,
) -> Result<Box<RawValue>, String> {
    with_value(object, name, &quoted(value))
}

/// The same with a value that is JSON already.
pub(crate) fn with_value(
    object: &RawValue,
    name: &str,
    value: &str,
) -> Result<Box<RawValue>, String> {
    let Members(members) = serde_json::from_str(object.get()).map_err(|error| error.to_string())?;
    let mut out = String::with_capacity(object.get().len() + value.len());
    out.push('{');
    let _ = write!(out, "{}:{value}", quoted(name));
    for (key, value) in members.iter().filter(|(key, _)| key != name) {
        let _ = write!(out, ",{}:{}", quoted(key), value.get());
    }
    out.push('}');
    RawValue::from_string(out).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw_of(text: &str) -> Box<RawValue> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_same_value_has_one_text() {
        for (text, expected) in [
            (r#" { "b" : [1, 2.50] , "a" : "\u0061\/" } "#, r#"{"a":"a/","b":[1,2.50]}"#),
            ("{}", "{}"),
            (r#"{"n":12345678901234567890123}"#, r#"{"n":12345678901234567890123}"#),
            (r#"[null, true,"é"]"#, r#"[null,true,"é"]"#),
        ] {
            assert_eq!(canonical(&raw_of(text)).unwrap(), expected);
        }
        let near = |n: &str| canonical(&raw_of(&format!("{{\"n\":{n}}}"))).unwrap();
        assert_ne!(near("12345678901234567890123"), near("12345678901234567890124"));
    }

    #[test]
    fn a_name_that_stands_twice_is_refused() {
        for text in [r#"{"a":1,"a":2}"#, r#"{"x":[{"a":1,"\u0061":2}]}"#] {
            assert!(canonical(&raw_of(text)).unwrap_err().contains("\"a\" stands twice"));
            assert!(strict(&raw_of(text)).unwrap_err().contains("\"a\" stands twice"));
        }
        assert_eq!(strict(&raw_of(r#"{"a":[1,-2,0.5,"x",null]}"#)).unwrap()["a"][1], -2);
    }

    #[test]
    fn deep_nesting_is_an_error_and_no_crash() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let deep = RawValue::from_string(deep);
        if let Ok(deep) = deep {
            assert!(canonical(&deep).unwrap_err().contains("nested deeper"));
            assert!(strict(&deep).is_err());
        }
        let deep = format!("{}{}", "[".repeat(120), "]".repeat(120));
        assert!(canonical(&raw_of(&deep)).unwrap_err().contains("nested deeper"));
    }

    #[test]
    fn what_is_kept_is_bounded_and_one_line() {
        assert_eq!(bounded(&raw_of("{\"a\":\n1}"), 100), "{\"a\": 1}");
        let long = raw_of(&format!("{{\"a\":\"{}\"}}", "é".repeat(100)));
        let kept: String = serde_json::from_str(&bounded(&long, 50)).unwrap();
        assert!(kept.contains("bytes in all)") && kept.starts_with("{\"a\":\"é"), "{kept}");
        assert_eq!(one_line("a\n\n b\u{1b}[2Jc", 20), "a b [2Jc");
        assert_eq!(one_line("abcdef", 3), "abc…");
        assert_eq!(one_line(&format!("{}x", " ".repeat(50)), 3), "…");
    }

    #[test]
    fn one_member_is_replaced_and_the_rest_untouched() {
        let object = raw_of(r#"{"z":1.50,"name":"x","_meta":{"b":1,"a":2}}"#);
        let changed = with_member(&object, "name", "s__x").unwrap();
        assert_eq!(changed.get(), r#"{"name":"s__x","z":1.50,"_meta":{"b":1,"a":2}}"#);
    }

    #[test]
    fn parts_do_not_run_together() {
        assert_ne!(hash(["ab", "c"]), hash(["a", "bc"]));
        assert_eq!(hash(["a"]).len(), 64);
    }
}

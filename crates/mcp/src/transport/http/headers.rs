//! Values of the body that are repeated in headers (2026-07-28): `Mcp-Name` and `Mcp-Param-*`.

use std::collections::{BTreeMap, HashSet};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use serde_json::value::RawValue;

const PREFIX: &str = "=?base64?";
const SUFFIX: &str = "?=";

/// Integers beyond this are not exact in every language, and so not allowed in a header.
const LARGEST_INTEGER: u64 = (1 << 53) - 1;

/// A value as a header may hold it.
pub(crate) fn encode(value: &str) -> String {
    let is_plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && value.trim_matches(' ') == value
        && !(value.starts_with(PREFIX) && value.ends_with(SUFFIX));
    if is_plain {
        return value.to_owned();
    }
    format!("{PREFIX}{}{SUFFIX}", BASE64_STANDARD.encode(value))
}

/// The value that a header holds, however it was written.
pub(crate) fn decode(value: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(value).ok()?;
    let Some(inner) = text.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX)) else {
        return Some(text.to_owned());
    };
    String::from_utf8(BASE64_STANDARD.decode(inner).ok()?).ok()
}

/// The arguments of a tool that are repeated in headers: the header's name after `Mcp-Param-`, and
/// the path of the property.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mirrored(Vec<(String, Vec<String>)>);

/// Finds the annotations in an input schema. The error says which rule one of them breaks; such a
/// tool must not be offered.
pub(crate) fn check(schema: &RawValue) -> Result<Mirrored, String> {
    // Nearly no schema has one, and reading them all would be slow.
    if !schema.get().contains("x-mcp-header") {
        return Ok(Mirrored::default());
    }
    let schema: Value =
        serde_json::from_str(schema.get()).map_err(|error| format!("its schema: {error}"))?;
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    walk(&schema, &mut Vec::new(), true, &mut |path, header, schema| {
        if path.is_empty() {
            return Err("x-mcp-header stands at the root of the schema".to_owned());
        }
        let name = header.as_str().ok_or("an x-mcp-header is not a string")?;
        let is_token = !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte));
        if !is_token {
            return Err("an x-mcp-header is not a valid header name".to_owned());
        }
        if !seen.insert(name.to_ascii_lowercase()) {
            return Err(format!("the x-mcp-header `{name}` stands there twice"));
        }
        let kind = schema.get("type").and_then(Value::as_str);
        if !matches!(kind, Some("string" | "integer" | "boolean")) {
            return Err(format!(
                "the x-mcp-header `{name}` is not on a string, integer or boolean"
            ));
        }
        found.push((name.to_owned(), path.to_vec()));
        Ok(())
    })?;
    Ok(Mirrored(found))
}

type Visit<'a> = dyn FnMut(&[String], &Value, &Value) -> Result<(), String> + 'a;

/// Visits every annotation; one that is not reached through `properties` alone is an error.
fn walk(
    schema: &Value,
    path: &mut Vec<String>,
    reachable: bool,
    visit: &mut Visit<'_>,
) -> Result<(), String> {
    let Value::Object(fields) = schema else {
        if let Value::Array(items) = schema {
            for item in items {
                walk(item, path, false, visit)?;
            }
        }
        return Ok(());
    };
    for (key, value) in fields {
        match key.as_str() {
            "x-mcp-header" if reachable => visit(path, value, schema)?,
            "x-mcp-header" => {
                return Err("an x-mcp-header is not on a plain property".to_owned());
            }
            "properties" => {
                let Value::Object(properties) = value else { continue };
                for (name, property) in properties {
                    path.push(name.clone());
                    walk(property, path, reachable, visit)?;
                    path.pop();
                }
            }
            // These map names, which are no keywords, to schemas.
            "$defs" | "definitions" | "dependentSchemas" | "patternProperties" => {
                let Value::Object(schemas) = value else { continue };
                for schema in schemas.values() {
                    walk(schema, path, false, visit)?;
                }
            }
            // These hold data, not schemas.
            "default" | "const" | "enum" | "examples" | "required" | "dependentRequired" => {}
            _ => walk(value, path, false, visit)?,
        }
    }
    Ok(())
}

impl Mirrored {
    /// Whether there is nothing to repeat.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names of all the headers, after `Mcp-Param-`.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// The headers for these arguments. Absent and null values have none.
    pub(crate) fn of(&self, arguments: &RawValue) -> BTreeMap<String, String> {
        if self.is_empty() {
            return BTreeMap::new();
        }
        let arguments: Value = serde_json::from_str(arguments.get()).unwrap_or_default();
        self.0
            .iter()
            .filter_map(|(name, path)| {
                let value = path.iter().try_fold(&arguments, |value, key| value.get(key))?;
                let value = match value {
                    Value::String(text) => text.clone(),
                    Value::Bool(flag) => flag.to_string(),
                    Value::Number(number) => integer(number)?,
                    _ => return None,
                };
                Some((name.clone(), value))
            })
            .collect()
    }
}

fn integer(number: &serde_json::Number) -> Option<String> {
    let within = number.as_i64().is_some_and(|number| number.unsigned_abs() <= LARGEST_INTEGER);
    within.then(|| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn awkward_values_are_wrapped() {
        assert_eq!(encode("us-west1"), "us-west1");
        assert_eq!(encode("Hello, 世界"), "=?base64?SGVsbG8sIOS4lueVjA==?=");
        assert_eq!(encode(" padded "), "=?base64?IHBhZGRlZCA=?=");
        assert_eq!(encode("line1\nline2"), "=?base64?bGluZTEKbGluZTI=?=");
        assert_eq!(encode("=?base64?literal?="), "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=");
    }

    #[test]
    fn annotated_arguments_are_found_at_any_depth() {
        let mirrored = check(&raw(r#"{"type":"object","properties":{
                "region":{"type":"string","x-mcp-header":"Region"},
                "x-mcp-header":{"type":"string"},
                "where":{"properties":{"zone":{"type":"integer","x-mcp-header":"Zone"}}}}}"#))
        .unwrap();
        let headers = mirrored.of(&raw(r#"{"region":"eu","where":{"zone":3}}"#));
        assert_eq!(
            headers,
            BTreeMap::from([("Region".into(), "eu".into()), ("Zone".into(), "3".into())])
        );
        assert!(mirrored.of(&raw(r#"{"region":null,"where":{"zone":1.5}}"#)).is_empty());
    }

    #[test]
    fn wrong_annotations_are_found() {
        for schema in [
            r#"{"x-mcp-header":"A"}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":""}}}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"a b"}}}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"A\r\nX: 1"}}}"#,
            r#"{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":7}}}"#,
            r#"{"properties":{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}}"#,
            r#"{"oneOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}"#,
            r#"{"$defs":{"d":{"type":"string","x-mcp-header":"A"}}}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}"#,
        ] {
            assert!(check(&raw(schema)).is_err(), "{schema}");
        }
    }
}

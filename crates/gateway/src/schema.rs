//! Whether arguments fit a tool's schema, and if not, where and what would.
//!
//! A schema is a server's text: nothing is fetched for it, and one that is broken, huge or made to
//! be slow is not used. The arguments then pass unchecked, which is logged; the server has its own
//! check.

use std::collections::HashMap;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::{json, names};

/// Largest schema that is used, in bytes.
const LARGEST: usize = 512 * 1024;

/// Most places of a schema, with its references followed, that are looked at for one value.
const MOST_PLACES: u64 = 200_000;

/// Faults that are told at once.
const FAULTS: usize = 3;

/// A compiled schema.
#[derive(Debug)]
pub(crate) struct Schema {
    validator: Option<Validator>,
    source: Value,
}

impl Schema {
    /// Compiles; what cannot be used checks nothing.
    pub(crate) fn compile(tool: &str, raw: &RawValue) -> Self {
        match try_compile(raw) {
            Ok((validator, source)) => Self { validator: Some(validator), source },
            Err(reason) => {
                tracing::warn!(
                    tool,
                    reason = json::one_line(&reason, 300),
                    "the tool's schema cannot be used: its arguments are not checked here"
                );
                Self { validator: None, source: Value::Null }
            }
        }
    }

    /// Says what does not fit and what would.
    pub(crate) fn check(&self, arguments: &Value) -> Result<(), String> {
        let Some(validator) = &self.validator else { return Ok(()) };
        if validator.is_valid(arguments) {
            return Ok(());
        }
        let mut errors = validator.iter_errors(arguments);
        let mut faults: Vec<String> =
            errors.by_ref().take(FAULTS).map(|error| self.describe(&error)).collect();
        let more = errors.take(100).count();
        if more > 0 {
            faults.push(format!("and {more} more"));
        }
        let expected = self.properties();
        Err(format!("{}{expected}", faults.join("; ")))
    }

    fn describe(&self, error: &ValidationError<'_>) -> String {
        let path = error.instance_path().as_str();
        let place =
            if path.is_empty() { String::new() } else { format!("{}: ", json::cut(path, 200)) };
        let fault = match error.kind() {
            ValidationErrorKind::Required { property } => {
                format!("{} is missing", json::cut(&property.to_string(), 100))
            }
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                let known = self.names();
                let told: Vec<String> = unexpected
                    .iter()
                    .take(FAULTS)
                    .map(|name| {
                        let meant = names::similar(name, known.iter().map(String::as_str));
                        format!(
                            "{:?} is not known{}",
                            json::cut(name, 100),
                            names::did_you_mean(&meant)
                        )
                    })
                    .collect();
                told.join("; ")
            }
            ValidationErrorKind::Enum { options } => format!(
                "{} is none of {}",
                json::cut(&error.instance().to_string(), 100),
                json::cut(&options.to_string(), 400)
            ),
            _ => json::one_line(
                &format!("{}", error.masked_with(json::cut(&error.instance().to_string(), 100))),
                500,
            ),
        };
        format!("{place}{fault}")
    }

    fn names(&self) -> Vec<String> {
        let properties = self.source.get("properties").and_then(Value::as_object);
        properties.map(|object| object.keys().cloned().collect()).unwrap_or_default()
    }

    /// The arguments that the tool takes, for the end of a message.
    fn properties(&self) -> String {
        let Some(properties) = self.source.get("properties").and_then(Value::as_object) else {
            return String::new();
        };
        if properties.is_empty() {
            return " (it takes no arguments)".to_owned();
        }
        let required: Vec<&str> = self
            .source
            .get("required")
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let mut told: Vec<String> = properties
            .iter()
            .take(30)
            .map(|(name, schema)| {
                let kind = match schema.get("type") {
                    Some(Value::String(kind)) => format!(" {kind}"),
                    Some(kinds) => format!(" {kinds}"),
                    None => String::new(),
                };
                let must = if required.contains(&name.as_str()) { ", required" } else { "" };
                format!("{}{}{must}", json::cut(name, 60), json::cut(&kind, 60))
            })
            .collect();
        if properties.len() > told.len() {
            told.push("…".to_owned());
        }
        format!(" (it takes: {})", told.join("; "))
    }
}

fn try_compile(raw: &RawValue) -> Result<(Validator, Value), String> {
    if raw.get().len() > LARGEST {
        return Err(format!("it is larger than {LARGEST} bytes"));
    }
    let source: Value = serde_json::from_str(raw.get()).map_err(|error| error.to_string())?;
    let places = Places { root: &source, known: HashMap::new() }.count(&source, 0);
    if places.is_none_or(|places| places > MOST_PLACES) {
        return Err(format!("with its references followed it has more than {MOST_PLACES} places"));
    }
    // An upper bound for a hostile pattern; the default engine may try a million times.
    let patterns = PatternOptions::fancy_regex().backtrack_limit(100_000).size_limit(1 << 20);
    let validator = jsonschema::options()
        .offline()
        .with_pattern_options(patterns)
        .build(&source)
        .map_err(|error| error.to_string())?;
    Ok((validator, source))
}

/// Counts the places of a schema as a validator would walk them.
struct Places<'a> {
    root: &'a Value,
    known: HashMap<*const Value, u64>,
}

impl<'a> Places<'a> {
    /// `None` if references lead deeper than is reasonable.
    fn count(&mut self, node: &'a Value, depth: usize) -> Option<u64> {
        if depth > 400 {
            return None;
        }
        let key: *const Value = node;
        if let Some(&known) = self.known.get(&key) {
            return Some(known);
        }
        // A reference back to what is being counted descends into the value, which ends.
        self.known.insert(key, 1);
        let mut sum: u64 = 1;
        match node {
            Value::Object(object) => {
                for (name, child) in object {
                    let part = match (name.as_str(), child) {
                        ("$ref" | "$dynamicRef", Value::String(target)) => {
                            match target.strip_prefix('#').and_then(|at| self.root.pointer(at)) {
                                Some(target) => self.count(target, depth + 1)?,
                                None => 1,
                            }
                        }
                        ("$defs" | "definitions", _) => 0,
                        _ => self.count(child, depth + 1)?,
                    };
                    sum = sum.saturating_add(part);
                }
            }
            Value::Array(items) => {
                for item in items {
                    sum = sum.saturating_add(self.count(item, depth + 1)?);
                }
            }
            _ => {}
        }
        self.known.insert(key, sum);
        Some(sum)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(schema: Value, arguments: Value) -> Result<(), String> {
        Schema::compile("t", &json::raw(&schema)).check(&arguments)
    }

    #[test]
    fn faults_name_the_place_and_what_would_fit() {
        let schema = json!({
            "type": "object",
            "properties": {
                "sn": {"type": "string"},
                "level": {"enum": ["low", "high"]},
                "at": {"type": "object", "properties": {"x": {"type": "integer", "maximum": 5}}},
            },
            "required": ["sn"],
            "additionalProperties": false,
        });
        let fault = |arguments| check(schema.clone(), arguments).unwrap_err();
        assert_eq!(check(schema.clone(), json!({"sn": "a", "at": {"x": 5}})), Ok(()));
        insta::assert_snapshot!(fault(json!({})), @r#""sn" is missing (it takes: at object; level; sn string, required)"#);
        insta::assert_snapshot!(fault(json!({"sn": 5})), @r#"/sn: 5 is not of type "string" (it takes: at object; level; sn string, required)"#);
        insta::assert_snapshot!(fault(json!({"sn": "a", "lvl": 1, "Level": 2})), @r#""Level" is not known; did you mean "level"?; "lvl" is not known (it takes: at object; level; sn string, required)"#);
        insta::assert_snapshot!(fault(json!({"sn": "a", "level": "mid", "at": {"x": 9}})), @r#"/at/x: 9 is greater than the maximum of 5; /level: "mid" is none of ["low","high"] (it takes: at object; level; sn string, required)"#);
        let long = fault(json!({"sn": ["x".repeat(100_000)]}));
        assert!(long.len() < 800, "{}", long.len());
    }

    #[test]
    fn a_schema_that_cannot_be_used_checks_nothing() {
        for schema in [
            json!({"type": 7}),
            json!({"$ref": "https://example.com/schema.json"}),
            json!({"$ref": "file:///etc/passwd"}),
            json!({"properties": {"a": {"pattern": "("}}}),
            json!({"description": "x".repeat(LARGEST)}),
        ] {
            let schema = Schema::compile("t", &json::raw(&schema));
            assert!(schema.validator.is_none());
            assert_eq!(schema.check(&json!({"a": 1})), Ok(()));
        }
    }

    #[test]
    fn a_schema_made_to_be_slow_is_not_used() {
        let mut definitions = serde_json::Map::new();
        for level in 0..40 {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            definitions.insert(format!("d{level}"), json!({"allOf": [next, next]}));
        }
        definitions.insert("d40".into(), json!({"type": "object"}));
        let bomb = json!({"$defs": definitions, "$ref": "#/$defs/d0"});
        assert!(Schema::compile("t", &json::raw(&bomb)).validator.is_none());

        let pattern = json!({"properties": {"a": {"pattern": "^(?=a)(a+)+$"}}});
        let began = std::time::Instant::now();
        let _ = check(pattern, json!({"a": format!("{}b", "a".repeat(5000))}));
        assert!(began.elapsed() < std::time::Duration::from_secs(5));
    }

    #[test]
    fn a_schema_that_refers_to_itself_works() {
        let tree = json!({
            "type": "object",
            "properties": {"below": {"type": "array", "items": {"$ref": "#"}}},
            "additionalProperties": false,
        });
        assert_eq!(check(tree.clone(), json!({"below": [{"below": []}]})), Ok(()));
        assert!(check(tree, json!({"below": [{"x": 1}]})).is_err());
        let itself =
            json!({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"});
        let _ = check(itself, json!({}));
    }

    #[test]
    fn the_default_is_2020_12_and_older_schemas_are_read_as_they_say() {
        let tuple = json!({"properties": {"a": {"prefixItems": [{"type": "string"}]}}});
        assert!(check(tuple, json!({"a": [1]})).is_err());
        let old = json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "properties": {"a": {"items": [{"type": "string"}]}},
        });
        assert!(check(old, json!({"a": [1]})).is_err());
    }
}

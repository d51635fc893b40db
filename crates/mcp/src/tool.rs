//! A tool's definition: kept raw, with the facts that policy needs read leniently.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::message::{fields, flag, text};

/// A tool as its server defines it.
#[derive(Clone, Debug)]
pub struct Tool {
    /// The server's own name for it.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// JSON Schema of the arguments.
    pub input_schema: Box<RawValue>,
    /// Hints; `None` where the server says nothing.
    pub annotations: Annotations,
    /// `execution.taskSupport`.
    pub task_support: TaskSupport,
    /// The whole definition as it was sent.
    pub raw: Box<RawValue>,
}

/// Annotations that mean something to policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    /// `readOnlyHint`.
    pub read_only: Option<bool>,
    /// `destructiveHint`.
    pub destructive: Option<bool>,
    /// `idempotentHint`.
    pub idempotent: Option<bool>,
    /// `openWorldHint`.
    pub open_world: Option<bool>,
}

/// Whether a tool may, must or must not be run as a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskSupport {
    /// Only as a plain call.
    #[default]
    Forbidden,
    /// Either way.
    Optional,
    /// Only as a task.
    Required,
}

/// Longest name that is taken, in bytes; the specification allows 128.
const LONGEST_NAME: usize = 256;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Definition<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    description: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input_schema: Option<&'a RawValue>,
    #[serde(borrow, default)]
    annotations: Option<&'a RawValue>,
    #[serde(borrow, default)]
    execution: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Hints<'a> {
    #[serde(borrow, default)]
    read_only_hint: Option<&'a RawValue>,
    #[serde(borrow, default)]
    destructive_hint: Option<&'a RawValue>,
    #[serde(borrow, default)]
    idempotent_hint: Option<&'a RawValue>,
    #[serde(borrow, default)]
    open_world_hint: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Execution<'a> {
    #[serde(borrow, default)]
    task_support: Option<&'a RawValue>,
}

impl Tool {
    /// Reads a definition; the error says what is wrong with it.
    pub fn read(raw: &RawValue) -> Result<Self, String> {
        if !raw.get().starts_with('{') {
            return Err("a tool that is not an object".to_owned());
        }
        let definition: Definition<'_> =
            serde_json::from_str(raw.get()).map_err(|error| format!("a tool: {error}"))?;
        let name = text(definition.name).ok_or("a tool without a name")?;
        if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
            return Err(format!(
                "a tool whose name is not 1 to {LONGEST_NAME} printable characters"
            ));
        }
        let input_schema = match definition.input_schema {
            Some(schema) if schema.get().starts_with('{') => schema.to_owned(),
            Some(_) => return Err(format!("tool `{name}`: its inputSchema is not an object")),
            None => return Err(format!("tool `{name}`: it has no inputSchema")),
        };
        let hints: Hints<'_> = fields(definition.annotations);
        let execution: Execution<'_> = fields(definition.execution);
        Ok(Self {
            name,
            description: text(definition.description),
            input_schema,
            annotations: Annotations {
                read_only: flag(hints.read_only_hint),
                destructive: flag(hints.destructive_hint),
                idempotent: flag(hints.idempotent_hint),
                open_world: flag(hints.open_world_hint),
            },
            task_support: match text(execution.task_support).as_deref() {
                Some("required") => TaskSupport::Required,
                Some("optional") => TaskSupport::Optional,
                _ => TaskSupport::Forbidden,
            },
            raw: raw.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Tool, String> {
        Tool::read(&RawValue::from_string(json.to_owned()).unwrap())
    }

    #[test]
    fn facts_are_read_and_the_rest_is_kept() {
        let json = r#"{"name":"a","inputSchema":{"z":1,"a":2},"x":[1],
            "annotations":{"readOnlyHint":true,"destructiveHint":"no"},
            "execution":{"taskSupport":"required","y":1}}"#;
        let tool = read(json).unwrap();
        assert_eq!(tool.raw.get(), json);
        assert_eq!(tool.input_schema.get(), r#"{"z":1,"a":2}"#);
        assert_eq!(tool.task_support, TaskSupport::Required);
        assert_eq!(
            tool.annotations,
            Annotations { read_only: Some(true), ..Annotations::default() }
        );
    }

    #[test]
    fn odd_facts_count_as_unsaid() {
        let tool = read(r#"{"name":"a","inputSchema":{},"annotations":[true],"execution":7}"#);
        let tool = tool.unwrap();
        assert_eq!(tool.annotations, Annotations::default());
        assert_eq!(tool.task_support, TaskSupport::Forbidden);
    }

    #[test]
    fn broken_definitions_say_what_is_wrong() {
        for (json, word) in [
            ("[]", "not an object"),
            (r#"{"inputSchema":{}}"#, "without a name"),
            (r#"{"name":"a\u0000","inputSchema":{}}"#, "printable"),
            (r#"{"name":"a","inputSchema":"x"}"#, "inputSchema"),
            (r#"{"name":"a"}"#, "inputSchema"),
        ] {
            let error = read(json).unwrap_err();
            assert!(error.contains(word), "{json}: {error}");
        }
    }
}

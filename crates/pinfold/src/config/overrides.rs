//! Lets `PINFOLD_*` environment variables override keys of the file.
//!
//! `PINFOLD_LISTEN` is `listen`; two underscores go one table deeper, so
//! `PINFOLD_SCRIPTS__MAX_CALLS` is `max_calls` in `[scripts]`. The value is read as TOML where it
//! is some and fits, else as a plain string. A variable that names no key is an error like an
//! unknown key in the file, unless the configuration itself uses it as `${PINFOLD_…}`.

use anyhow::{anyhow, bail};
use toml::{Table, Value};

use super::diagnose::{did_you_mean, reword};

/// Variables that mean something else than a key.
const RESERVED: [&str; 2] = ["PINFOLD_CONFIG", "PINFOLD_LOG"];
const TEST_PREFIX: &str = "PINFOLD_TEST_";

/// One variable and what it says.
#[derive(Clone)]
pub(crate) struct Override {
    variable: String,
    path: Vec<String>,
    value: String,
}

/// The overrides among `variables`, sorted by name so that two runs agree. `used` holds the names
/// that the configuration expands itself.
pub(crate) fn collect(
    variables: impl Iterator<Item = (String, String)>,
    used: &[String],
) -> Vec<Override> {
    let mut found: Vec<Override> = variables
        .filter(|(name, _)| {
            name.starts_with("PINFOLD_")
                && !name.starts_with(TEST_PREFIX)
                && !RESERVED.contains(&name.as_str())
                && !used.contains(name)
        })
        .map(|(variable, value)| {
            let path = variable["PINFOLD_".len()..].to_lowercase();
            Override { path: path.split("__").map(str::to_owned).collect(), variable, value }
        })
        .collect();
    found.sort_by(|a, b| a.variable.cmp(&b.variable));
    found
}

/// The values that go to where a secret may stand, and came from outside as one by `${…}` does.
pub(crate) fn secrets(overrides: &[Override]) -> Vec<String> {
    let mut found = Vec::new();
    for one in overrides {
        let path: Vec<&str> = one.path.iter().map(String::as_str).collect();
        let is_secret = match path[..] {
            ["database" | "credentials_key"] => true,
            ["servers", _, "headers" | "env" | "url", ..] => true,
            ["servers", _, "oauth", ..] => true,
            // The whole table, or all of them.
            ["servers"] | ["servers", _] => true,
            _ => false,
        };
        if is_secret {
            one.readings().iter().for_each(|value| texts(value, &mut found));
        }
    }
    found
}

fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| texts(value, found)),
        Value::Table(table) => table.iter().for_each(|(_, value)| texts(value, found)),
        other => found.push(other.to_string()),
    }
}

/// Lays `overrides` over `table`, each checked by `fits` so that a fault is the variable's, not
/// the file's.
pub(crate) fn apply(
    mut table: Table,
    overrides: &[Override],
    fits: &dyn Fn(&Table) -> Result<(), toml::de::Error>,
) -> anyhow::Result<Table> {
    for one in overrides {
        let mut failure = None;
        let mut accepted = None;
        for value in one.readings() {
            let mut changed = table.clone();
            put(&mut changed, &one.path, value)
                .map_err(|key| anyhow!("{}: `{key}` is not a table", one.variable))?;
            match fits(&changed) {
                Ok(()) => {
                    accepted = Some(changed);
                    break;
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        match (accepted, failure) {
            (Some(changed), _) => table = changed,
            (None, Some(error)) => bail!("{}: {}", one.variable, one.explain(&error)),
            (None, None) => {}
        }
    }
    Ok(table)
}

impl Override {
    /// The value as TOML, then as a plain string.
    fn readings(&self) -> Vec<Value> {
        let parsed = toml::from_str::<Table>(&format!("v = {}", self.value));
        let parsed = parsed.ok().filter(|table| table.len() == 1);
        parsed
            .and_then(|mut table| table.remove("v"))
            .into_iter()
            .chain([Value::String(self.value.clone())])
            .collect()
    }

    fn explain(&self, error: &toml::de::Error) -> String {
        let message = reword(error.message());
        if !message.starts_with("unknown key") {
            return format!("`{}` {message}", self.path.join("."));
        }
        let quoted: Vec<&str> = error.message().split('`').skip(1).step_by(2).collect();
        let (name, known) = quoted.split_first().unwrap_or((&"", &[]));
        format!("names no key: there is no `{}`{}", self.path.join("."), did_you_mean(name, known))
    }
}

fn put(table: &mut Table, path: &[String], value: Value) -> Result<(), String> {
    match path {
        [] => Ok(()),
        [key] => {
            table.insert(key.clone(), value);
            Ok(())
        }
        [key, rest @ ..] => {
            let inner = table.entry(key.clone()).or_insert_with(|| Value::Table(Table::new()));
            put(inner.as_table_mut().ok_or_else(|| key.clone())?, rest, value)
        }
    }
}

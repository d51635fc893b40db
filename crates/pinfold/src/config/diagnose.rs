//! Says where in a configuration file something is wrong, and what would be right.
//!
//! Values never stand in a message, only keys and kinds: a value may be a secret.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use toml::de::{DeTable, DeValue};

/// A configuration file's text, to which a message can point.
#[derive(Clone)]
pub(crate) struct Document {
    /// The file, as messages name it.
    pub(crate) path: PathBuf,
    /// What stands in it.
    pub(crate) text: String,
}

impl Document {
    pub(crate) fn new(path: &Path, text: String) -> Self {
        Self { path: path.to_owned(), text }
    }

    /// An error about the key at `path` (table names, then the key), with its line if the file has it.
    pub(crate) fn error(&self, path: &[&str], message: impl std::fmt::Display) -> anyhow::Error {
        let key = dotted(path);
        match self.offset_of(path) {
            Some(offset) => anyhow!("{}: `{key}` {message}", self.at(offset)),
            None => anyhow!("{}: `{key}` {message}", self.path.display()),
        }
    }

    /// An error whose text begins with the key that is at fault (`scripts.max_calls = 0 is …`), as
    /// the crates that own settings give it; `place` is the table they know nothing of.
    pub(crate) fn fault(&self, place: &[&str], fault: &str) -> anyhow::Error {
        let end = [fault.find(" = "), fault.find(": ")].into_iter().flatten().min().unwrap_or(0);
        let mut path: Vec<String> = place.iter().map(|name| (*name).to_owned()).collect();
        let mut inner = format!("{} = 0", &fault[..end]).parse::<toml::Table>().unwrap_or_default();
        while let Some((name, value)) = inner.into_iter().next() {
            path.push(name);
            inner = value.as_table().cloned().unwrap_or_default();
        }
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let prefix = if place.is_empty() { String::new() } else { format!("{}.", dotted(place)) };
        match self.offset_of(&path) {
            Some(offset) => anyhow!("{}: {prefix}{fault}", self.at(offset)),
            None => anyhow!("{}: {prefix}{fault}", self.path.display()),
        }
    }

    /// What the deserializer said, in the reader's terms.
    pub(crate) fn explain(&self, error: &toml::de::Error) -> anyhow::Error {
        let Some(span) = error.span() else {
            return anyhow!("{}: {}", self.path.display(), reword(error.message()));
        };
        let keys = self.keys_at(span.start);
        let mut message = reword(error.message());
        if message == "duplicate key" {
            // The parser keeps the first one only, so the second is named from the text.
            let key = self.text.get(span.clone()).unwrap_or_default();
            return anyhow!("{}: `{key}` stands here for the second time", self.at(span.start));
        }
        if message.starts_with("invalid socket") {
            message = format!("is not {}", expectation("socket address"));
        }
        if message.starts_with("unknown key") || keys.is_empty() {
            let table = keys.split_last().map(|(_, table)| table).unwrap_or_default();
            let inside =
                if table.is_empty() { String::new() } else { format!(" in [{}]", table.join(".")) };
            return anyhow!("{}: {message}{inside}", self.at(span.start));
        }
        anyhow!("{}: `{}` {message}", self.at(span.start), keys.join("."))
    }

    fn at(&self, offset: usize) -> String {
        let line = self.text[..offset.min(self.text.len())].matches('\n').count() + 1;
        format!("{}:{line}", self.path.display())
    }

    fn offset_of(&self, path: &[&str]) -> Option<usize> {
        let (table, _) = DeTable::parse_recoverable(&self.text);
        let (mut table, mut offset) = (table.into_inner(), None);
        for name in path {
            let found = table.iter().find(|(key, _)| key.get_ref().as_ref() == *name);
            let (key, value) = found?;
            offset = Some(key.span().start);
            match value.get_ref() {
                DeValue::Table(inner) => table = inner.clone(),
                _ => table = toml::map::Map::new(),
            }
        }
        offset
    }

    /// The keys, outermost first, whose name or value covers `offset`.
    fn keys_at(&self, offset: usize) -> Vec<String> {
        let mut keys = Vec::new();
        let (table, _) = DeTable::parse_recoverable(&self.text);
        descend(table.get_ref(), offset, &mut keys);
        keys
    }
}

fn descend(table: &DeTable<'_>, offset: usize, keys: &mut Vec<String>) -> bool {
    for (key, value) in table {
        keys.push(key.get_ref().to_string());
        if key.span().contains(&offset) {
            return true;
        }
        let inside = match value.get_ref() {
            DeValue::Table(inner) => descend(inner, offset, keys),
            _ => false,
        };
        if inside || value.span().contains(&offset) {
            return true;
        }
        keys.pop();
    }
    false
}

/// Serde's sentence as a fragment for the file's author. Unknown sentences pass as they are.
pub(crate) fn reword(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    if message.starts_with("unknown field") {
        return match quoted.split_first() {
            Some((name, known)) => format!("unknown key `{name}`{}", did_you_mean(name, known)),
            None => message.to_owned(),
        };
    }
    if message.starts_with("unknown variant") {
        return match quoted.split_first() {
            Some((name, known)) if !known.is_empty() => format!(
                "cannot be \"{name}\"; it is one of {}{}",
                known.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", "),
                did_you_mean(name, known)
            ),
            _ => message.to_owned(),
        };
    }
    for (start, verb) in [("invalid type: ", "is"), ("invalid value: ", "is")] {
        let Some(rest) = message.strip_prefix(start) else { continue };
        let Some((found, expected)) = rest.rsplit_once(", expected ") else { continue };
        // The kind is told, the value is not.
        let kind = found.split([' ', '`']).next().unwrap_or("value");
        let kind = match kind {
            "map" => "a table",
            "sequence" => "an array",
            "integer" => "an integer",
            "boolean" => "a boolean",
            "floating" => "a float",
            "string" => "a string",
            other => other,
        };
        return format!("{verb} {kind} that does not fit: expected {}", expectation(expected));
    }
    message.replace('\n', " ")
}

fn expectation(expected: &str) -> String {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, not negative".to_owned(),
        "a map" => "a table".to_owned(),
        "a sequence" => "an array".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "socket address" => "an address such as \"127.0.0.1:8000\"".to_owned(),
        other if other.starts_with("struct ") => "a table".to_owned(),
        other => other.to_owned(),
    }
}

/// `; did you mean …` for the closest of `known`, or nothing where none is close.
pub(crate) fn did_you_mean<S: AsRef<str>>(name: &str, known: &[S]) -> String {
    known
        .iter()
        .map(|word| (strsim::damerau_levenshtein(name, word.as_ref()), word.as_ref()))
        .filter(|(distance, word)| *distance <= 1 + word.len() / 4)
        .min()
        .map(|(_, word)| format!("; did you mean `{word}`?"))
        .unwrap_or_default()
}

fn dotted(path: &[&str]) -> String {
    path.join(".")
}

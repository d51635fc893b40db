//! Puts environment variables in the place of `${NAME}`.
//!
//! Only what starts or reaches a server is expanded, and only at the moment of starting it, so the
//! value never stands in a configuration that could be printed. `${NAME:-default}` and
//! `${env:NAME}` are understood too, because the files of other clients use them; `$${` is a
//! plain `${`.

use std::cell::RefCell;
use std::fmt;
use std::path::Path;

/// Why a text could not be expanded. Says names, never values.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// A variable that is not set.
    Missing(String),
    /// `${` without its `}`, or something in between that is no name.
    Malformed(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(name) => {
                write!(f, "needs the environment variable {name}, which is not set")
            }
            Self::Malformed(what) => {
                write!(f, "has {what}; write ${{NAME}}, or $${{ for a plain ${{")
            }
        }
    }
}

/// Expands every `${…}` in `text` by `lookup`.
pub(crate) fn expand(
    text: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<String, Failure> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        if rest[..start].ends_with('$') {
            out.push_str(&rest[..start]);
            out.push('{');
            rest = &rest[start + 2..];
            continue;
        }
        out.push_str(&rest[..start]);
        let inner = &rest[start + 2..];
        let Some(end) = inner.find('}') else {
            return Err(Failure::Malformed("a ${ without its }".to_owned()));
        };
        let (name, default) = match inner[..end].split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (&inner[..end], None),
        };
        let name = name.strip_prefix("env:").unwrap_or(name);
        if !is_name(name) {
            return Err(Failure::Malformed(format!("${{{name}}}, which is no variable's name")));
        }
        match lookup(name).or_else(|| default.map(str::to_owned)) {
            Some(value) => out.push_str(&value),
            None => return Err(Failure::Missing(name.to_owned())),
        }
        rest = &inner[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

/// Variables that every program on this machine has, so that their values are no secrets.
const KNOWN: [&str; 14] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "PWD",
    "HOSTNAME",
    "XDG_RUNTIME_DIR",
];

/// The secrets that [`expand`] would put into `text`: what its variables hold, save what every
/// program knows anyway and the path of something that is there, without which the results of a
/// server of files would be of no use. A default stands in the file and is no secret.
pub(crate) fn values(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let is_path = |value: &str| value.starts_with('/') && Path::new(value).exists();
    let found = RefCell::new(Vec::new());
    // A variable that is missing is for whoever starts that server to complain about.
    let _ = expand(text, &|name| {
        let value = lookup(name).unwrap_or_default();
        if !KNOWN.contains(&name) && !is_path(&value) {
            found.borrow_mut().push(value.clone());
        }
        Some(value)
    });
    found.into_inner()
}

/// The variables that are used anywhere in `text`, which need not be well-formed.
pub(crate) fn names(text: &str) -> Vec<String> {
    text.split("${")
        .skip(1)
        .filter_map(|piece| piece.strip_prefix("env:").unwrap_or(piece).split(['}', ':']).next())
        .filter(|name| is_name(name))
        .map(str::to_owned)
        .collect()
}

/// The process's own environment.
pub(crate) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Result<String, Failure> {
        expand(text, &|name| (name == "TOKEN").then(|| "t0p".to_owned()))
    }

    #[test]
    fn puts_values_in_place_of_names() {
        assert_eq!(expanded("Bearer ${TOKEN}!").unwrap(), "Bearer t0p!");
        assert_eq!(expanded("${env:TOKEN}${TOKEN:-x}${OTHER:-y}").unwrap(), "t0pt0py");
        assert_eq!(expanded("plain $HOME $${TOKEN}").unwrap(), "plain $HOME ${TOKEN}");
    }

    #[test]
    fn a_missing_variable_is_named_and_no_value_is_shown() {
        let failure = expanded("${TOKEN}${NOT_SET}").unwrap_err();
        assert_eq!(failure, Failure::Missing("NOT_SET".to_owned()));
        assert!(!failure.to_string().contains("t0p"));
        assert!(matches!(expanded("${TOKEN"), Err(Failure::Malformed(_))));
        assert!(matches!(expanded("${a b}"), Err(Failure::Malformed(_))));
    }

    #[test]
    fn a_value_is_not_expanded_again() {
        let nested = expand("${A}", &|_| Some("${TOKEN}".to_owned())).unwrap();
        assert_eq!(nested, "${TOKEN}");
    }

    #[test]
    fn only_what_came_from_outside_and_is_known_to_few_is_a_secret() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap().to_owned();
        let lookup = |name: &str| match name {
            "TOKEN" => Some("t0p-secret".to_owned()),
            "HOME" => Some("/home/somebody".to_owned()),
            "DOCUMENTS" => Some(path.clone()),
            "GONE" => Some("/no/such/path".to_owned()),
            _ => None,
        };
        let text = "Bearer ${MISSING}${TOKEN} ${HOME} ${DOCUMENTS} ${GONE} ${REGION:-eu-central-1}";
        assert_eq!(values(text, &lookup), ["", "t0p-secret", "/no/such/path", ""]);
        assert!(values("plain-text-value $${TOKEN}", &lookup).is_empty());
    }

    #[test]
    fn names_lists_what_is_used() {
        assert_eq!(names("${A} ${env:B} ${C:-1} $${D} ${ x"), ["A", "B", "C", "D"]);
    }
}

//! The six tools: their names, schemas and descriptions, and the one table of them.
//!
//! An answer is written for a model: what was found, what was left out, and what to do next. A
//! tool that could not do what was asked gives an answer too, marked as an error.

use futures_util::future::BoxFuture;
use inside::{Refusal, Reply};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::backend::Fault;
use crate::backends::Place;
use crate::session::Session;

mod bash;
mod edit;
mod glob;
mod grep;
mod read;
mod write;

/// The tools, in the order in which they are offered.
pub const BUILT_IN: [Tool; 6] =
    [bash::TOOL, read::TOOL, write::TOOL, edit::TOOL, grep::TOOL, glob::TOOL];

/// One tool.
#[derive(Clone, Copy)]
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// Whether it changes nothing, whatever the arguments.
    pub read_only: bool,
    /// Whether it may undo what cannot be brought back.
    pub destructive: bool,
    description: fn(&About) -> String,
    schema: fn() -> Value,
    run: for<'a> fn(&'a Session, Value) -> BoxFuture<'a, Result<Answer, Answer>>,
}

impl std::fmt::Debug for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// What a description tells of the place.
#[derive(Clone, Debug)]
pub struct About {
    /// The workspace's path, as the agent writes it.
    pub root: String,
    /// In sentences; may be empty.
    pub place: &'static str,
}

impl Tool {
    /// The tool of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        BUILT_IN.iter().find(|tool| tool.name == name)
    }

    /// Its definition, as MCP has it.
    pub fn definition(&self, place: &Place) -> Value {
        json!({
            "name": self.name,
            "title": self.title,
            "description": (self.description)(&place.about()),
            "inputSchema": (self.schema)(),
            "annotations": {
                "readOnlyHint": self.read_only,
                "destructiveHint": self.destructive,
                "idempotentHint": self.read_only,
                "openWorldHint": false,
            },
        })
    }

    /// The schema of its arguments.
    pub fn schema(&self) -> Value {
        (self.schema)()
    }

    /// Carries out a call that was granted. Dropping the future ends what it started.
    pub async fn run(&self, session: &Session, arguments: Value) -> Answer {
        let mut answer = (self.run)(session, arguments).await.unwrap_or_else(|failed| failed);
        if let Some(notice) = session.notice() {
            answer.content.insert(0, Content::Text(notice));
        }
        answer
    }
}

/// What a tool answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What the model is shown.
    pub content: Vec<Content>,
    /// Whether what was asked was not done.
    pub is_error: bool,
}

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Text.
    Text(String),
    /// An image.
    Image {
        /// Its MIME type.
        mime: String,
        /// Its bytes.
        bytes: Vec<u8>,
    },
}

impl Answer {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Content::Text(text.into())], is_error: false }
    }

    /// A text that says why nothing was done.
    pub fn error(text: impl Into<String>) -> Self {
        Self { content: vec![Content::Text(text.into())], is_error: true }
    }

    /// All of its text.
    pub fn all_text(&self) -> String {
        let text = |piece: &Content| match piece {
            Content::Text(text) => Some(text.clone()),
            Content::Image { .. } => None,
        };
        self.content.iter().filter_map(text).collect::<Vec<_>>().join("\n")
    }
}

/// Arguments as they should be, or what is wrong with them.
fn arguments<T: DeserializeOwned>(tool: &str, given: Value) -> Result<T, Answer> {
    serde_json::from_value(given)
        .map_err(|error| Answer::error(format!("{tool}: the arguments are wrong: {error}")))
}

/// A number within its bounds, or what is wrong with it.
fn bounded(
    name: &str,
    given: Option<u64>,
    least: u64,
    most: u64,
    usual: u64,
) -> Result<u64, Answer> {
    match given {
        None => Ok(usual),
        Some(number) if (least..=most).contains(&number) => Ok(number),
        Some(number) => {
            Err(Answer::error(format!("{name} is {number}; it must be between {least} and {most}")))
        }
    }
}

/// The place failed; it is looked at again before it is used again.
async fn fault(session: &Session, fault: Fault) -> Answer {
    session.doubt().await;
    Answer::error(fault.to_string())
}

fn refused(refusal: &Refusal) -> Answer {
    Answer::error(refusal.message.clone())
}

fn unexpected(reply: &Reply) -> Answer {
    match reply {
        Reply::Refused(refusal) => refused(refusal),
        other => Answer::error(format!("the workspace answered something else: {other:?}")),
    }
}

/// `1 file`, `2 files`.
fn plural(count: u64, one: &str) -> String {
    match (count, one) {
        (1, one) => format!("1 {one}"),
        (count, "match") => format!("{count} matches"),
        (count, one) => format!("{count} {one}s"),
    }
}

/// A size for people.
fn size(bytes: u64) -> String {
    let units = [("GB", 1u64 << 30), ("MB", 1 << 20), ("KB", 1 << 10)];
    match units.iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => plural(bytes, "byte"),
    }
}

/// What a walk did not look at, in sentences; empty if nothing.
fn hidden(hidden: &inside::Hidden) -> String {
    let mut said = Vec::new();
    if hidden.out_of_time {
        said.push(
            "the time was up before everything was looked at: this is a part; choose a smaller \
             path"
                .to_owned(),
        );
    }
    let (folders, files) = hidden.ignored;
    if folders + files > 0 {
        said.push(format!(
            "{} and {} hidden by ignore rules ({}{}); set include_ignored to look at them",
            plural(folders, "folder"),
            plural(files, "file"),
            hidden.examples.join(", "),
            if folders + files > hidden.examples.len() as u64 { ", …" } else { "" }
        ));
    }
    if hidden.barred > 0 {
        said.push(format!(
            "{} left out, which may not be read",
            plural(hidden.barred, "folder or file")
        ));
    }
    if hidden.links > 0 {
        said.push(format!("{} not followed", plural(hidden.links, "link")));
    }
    if hidden.binary > 0 {
        said.push(format!("{} not searched", plural(hidden.binary, "binary file")));
    }
    if hidden.unreadable > 0 {
        said.push(format!("{} could not be read", plural(hidden.unreadable, "folder or file")));
    }
    if said.is_empty() { String::new() } else { format!("[{}]", said.join("; ")) }
}

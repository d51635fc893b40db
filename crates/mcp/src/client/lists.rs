//! `tools/list` and the other lists: every page, within bounds that a server cannot stretch.

use std::collections::{HashMap, HashSet};
use std::sync::PoisonError;
use std::time::Duration;

use serde_json::value::RawValue;

use super::Shared;
use super::connection::{Limit, Request};
use crate::error::Error;
use crate::message::{code, quote, shorten, text};
use crate::server::object::Object;
use crate::tool::Tool;
use crate::transport::{LONGEST_MESSAGE, http};

/// Most pages of one list, and most tools and bytes of theirs.
const PAGES: usize = 500;
const TOOLS: usize = 10_000;
const BYTES: usize = LONGEST_MESSAGE;

/// The same for lists of anything else.
const ITEMS: usize = 5_000;
const ITEM_BYTES: usize = 8 * 1024 * 1024;

/// Longest URI or name that is taken, in bytes.
const LONGEST_KEY: usize = 4_096;

/// Most reasons that are kept of what was left out.
const LEFT_OUT: usize = 100;

/// For one page and for all of them.
const PAGE_TIME: Duration = Duration::from_secs(30);
const LIST_TIME: Duration = Duration::from_secs(90);

/// What a server lists besides its tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Resources, named by `uri`.
    Resources,
    /// Templates of resources, named by `uriTemplate`.
    Templates,
    /// Prompts, named by `name`.
    Prompts,
}

impl Kind {
    /// The method that lists them.
    #[must_use]
    pub fn method(self) -> &'static str {
        match self {
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
            Self::Prompts => "prompts/list",
        }
    }

    /// Where they stand in the answer.
    #[must_use]
    pub fn field(self) -> &'static str {
        match self {
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }

    /// What names one of them.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
            Self::Prompts => "name",
        }
    }
}

/// One of what a server lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its URI, template or name.
    pub key: String,
    /// All of it, as it was sent.
    pub raw: Box<str>,
}

pub(super) async fn list_tools(shared: &Shared) -> Result<Vec<Tool>, Error> {
    let mut list = List { tools: Vec::new(), names: HashSet::new(), mirrored: HashMap::new() };
    let bounds = Bounds { most: TOOLS, bytes: BYTES };
    let mut add = |raw: &RawValue| list.add(shared, raw);
    let left_out = every_page(shared, "tools/list", "tools", bounds, &mut add).await?;
    *shared.left_out.lock().unwrap_or_else(PoisonError::into_inner) = left_out;
    *shared.mirrored.lock().unwrap_or_else(PoisonError::into_inner) = list.mirrored;
    Ok(list.tools)
}

pub(super) async fn list(shared: &Shared, kind: Kind) -> Result<Vec<Item>, Error> {
    let abilities = &shared.info.abilities;
    if !(if kind == Kind::Prompts { abilities.prompts } else { abilities.resources }) {
        return Ok(Vec::new());
    }
    let mut items = Vec::new();
    let mut seen = HashSet::new();
    let bounds = Bounds { most: ITEMS, bytes: ITEM_BYTES };
    let mut add = |raw: &RawValue| {
        let key = Object::read(Some(raw)).and_then(|item| text(item.get(kind.key())));
        let key = key.ok_or_else(|| format!("what has no {}", kind.key()))?;
        if key.is_empty() || key.len() > LONGEST_KEY || key.chars().any(char::is_control) {
            return Err(format!(
                "a {} that is not 1 to {LONGEST_KEY} printable characters",
                kind.key()
            ));
        }
        if !seen.insert(key.clone()) {
            return Err(format!("{key}: it stands there twice"));
        }
        items.push(Item { key, raw: raw.get().into() });
        Ok(())
    };
    every_page(shared, kind.method(), kind.field(), bounds, &mut add).await?;
    Ok(items)
}

/// Most items and bytes of one list.
#[derive(Clone, Copy)]
struct Bounds {
    most: usize,
    bytes: usize,
}

/// What could not be used, and why.
struct LeftOut(Vec<String>);

impl LeftOut {
    fn add(&mut self, why: String) {
        if self.0.len() < LEFT_OUT {
            self.0.push(why);
        }
    }
}

type Add<'a> = dyn FnMut(&RawValue) -> Result<(), String> + Send + 'a;

/// Says what was left out.
async fn every_page(
    shared: &Shared,
    method: &str,
    field: &str,
    bounds: Bounds,
    add: &mut Add<'_>,
) -> Result<Vec<String>, Error> {
    tokio::time::timeout(LIST_TIME, page_by_page(shared, method, field, bounds, add))
        .await
        .unwrap_or(Err(Error::Timeout { after: LIST_TIME, unreadable: None }))
}

async fn page_by_page(
    shared: &Shared,
    method: &str,
    field: &str,
    bounds: Bounds,
    add: &mut Add<'_>,
) -> Result<Vec<String>, Error> {
    let mut left_out = LeftOut(Vec::new());
    let journal = shared.connection.inbox.journal();
    let mut cursors = HashSet::new();
    let mut cursor: Option<String> = None;
    let (mut bytes, mut count) = (0, 0);
    for _ in 0..PAGES {
        let result = match one_page(shared, method, cursor.as_deref()).await {
            // A server that has none of these need not know the method.
            Err(Error::Rpc { code: code::METHOD_NOT_FOUND, .. }) if cursor.is_none() => break,
            result => result?,
        };
        bytes += result.get().len();
        let wrong = |why: &str| Error::Protocol(format!("its answer to {method} is wrong: {why}"));
        let page = Object::read(Some(&result)).ok_or_else(|| wrong("it is not an object"))?;
        let listed = page.get(field).ok_or_else(|| wrong(&format!("it has no `{field}`")))?;
        let listed: Vec<&RawValue> = serde_json::from_str(listed.get())
            .map_err(|_| wrong(&format!("`{field}` is not an array")))?;
        for raw in listed {
            let added = if count >= bounds.most {
                Err("what is beyond the bound".to_owned())
            } else {
                add(raw)
            };
            match added {
                Ok(()) => count += 1,
                Err(why) => {
                    let why = journal.hide(&shorten(&why, 500));
                    journal.line(method, &format!("left out {why}"));
                    left_out.add(why);
                }
            }
        }
        cursor = text(page.get("nextCursor"));
        let Some(next) = &cursor else { break };
        let why = if !cursors.insert(next.clone()) {
            "it repeats a cursor"
        } else if count >= bounds.most || bytes >= bounds.bytes {
            "it is too long"
        } else if cursors.len() == PAGES {
            "it has too many pages"
        } else {
            continue;
        };
        let why = format!("{why}: what was listed up to there is used");
        journal.line(method, &why);
        left_out.add(why);
        break;
    }
    Ok(left_out.0)
}

struct List {
    tools: Vec<Tool>,
    names: HashSet<String>,
    mirrored: HashMap<String, http::Mirrored>,
}

impl List {
    fn add(&mut self, shared: &Shared, raw: &RawValue) -> Result<(), String> {
        let tool = Tool::read(raw)?;
        if self.names.contains(&tool.name) {
            return Err(format!("tool `{}`: it stands there twice", tool.name));
        }
        // Only there headers are sent, and wrong annotations forbid a tool.
        if shared.connection.transport.is_streamed() && shared.info.revision.is_modern() {
            let mirrored = http::check_mirrored(&tool.input_schema)
                .map_err(|why| format!("tool `{}`: {why}", tool.name))?;
            if !mirrored.is_empty() {
                self.mirrored.insert(tool.name.clone(), mirrored);
            }
        }
        self.names.insert(tool.name.clone());
        self.tools.push(tool);
        Ok(())
    }
}

async fn one_page(
    shared: &Shared,
    method: &str,
    cursor: Option<&str>,
) -> Result<Box<RawValue>, Error> {
    let cursor = cursor.map(quote);
    let limit = Limit::of(PAGE_TIME);
    let mut request = Request::new(method, Some(&shared.info.revision), limit);
    if let Some(cursor) = &cursor {
        request.params.push(("cursor", cursor));
    }
    shared.connection.request(request).await
}

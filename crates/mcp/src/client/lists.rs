//! `tools/list`: every page, within bounds that a server cannot stretch.

use std::collections::{HashMap, HashSet};
use std::sync::PoisonError;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Shared;
use super::connection::{Limit, Request};
use crate::error::Error;
use crate::message::{code, quote, shorten, text};
use crate::tool::Tool;
use crate::transport::{LONGEST_MESSAGE, http};

/// Most pages, tools and bytes of one list.
const PAGES: usize = 500;
const TOOLS: usize = 10_000;
const BYTES: usize = LONGEST_MESSAGE;

/// Most reasons that are kept of what was left out.
const LEFT_OUT: usize = 100;

/// For one page and for all of them.
const PAGE_TIME: Duration = Duration::from_secs(30);
const LIST_TIME: Duration = Duration::from_secs(90);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    next_cursor: Option<&'a RawValue>,
}

pub(super) async fn list_tools(shared: &Shared) -> Result<Vec<Tool>, Error> {
    tokio::time::timeout(LIST_TIME, all_pages(shared))
        .await
        .unwrap_or(Err(Error::Timeout { after: LIST_TIME, unreadable: None }))
}

async fn all_pages(shared: &Shared) -> Result<Vec<Tool>, Error> {
    let journal = shared.connection.inbox.journal();
    let mut list = List {
        tools: Vec::new(),
        names: HashSet::new(),
        mirrored: HashMap::new(),
        left_out: Vec::new(),
    };
    let mut cursors = HashSet::new();
    let mut cursor: Option<String> = None;
    let mut bytes = 0;
    for _ in 0..PAGES {
        let result = match one_page(shared, cursor.as_deref()).await {
            // A server without tools need not know the method.
            Err(Error::Rpc { code: code::METHOD_NOT_FOUND, .. }) if cursor.is_none() => break,
            result => result?,
        };
        bytes += result.get().len();
        let page: Page<'_> = serde_json::from_str(result.get())
            .map_err(|error| Error::Protocol(format!("its list of tools is wrong: {error}")))?;
        for raw in page.tools {
            if let Err(why) = list.add(shared, raw) {
                let why = journal.hide(&shorten(&why, 500));
                journal.line("tools/list", &format!("left out {why}"));
                list.leave_out(why);
            }
        }
        cursor = text(page.next_cursor);
        let Some(next) = &cursor else { break };
        let why = if !cursors.insert(next.clone()) {
            "it repeats a cursor"
        } else if list.tools.len() >= TOOLS || bytes >= BYTES {
            "it is too long"
        } else if cursors.len() == PAGES {
            "it has too many pages"
        } else {
            continue;
        };
        let why = format!("{why}: the tools up to there are used");
        journal.line("tools/list", &why);
        list.leave_out(why);
        break;
    }
    *shared.mirrored.lock().unwrap_or_else(PoisonError::into_inner) = list.mirrored;
    *shared.left_out.lock().unwrap_or_else(PoisonError::into_inner) = list.left_out;
    Ok(list.tools)
}

struct List {
    tools: Vec<Tool>,
    names: HashSet<String>,
    mirrored: HashMap<String, http::Mirrored>,
    left_out: Vec<String>,
}

impl List {
    fn leave_out(&mut self, why: String) {
        if self.left_out.len() < LEFT_OUT {
            self.left_out.push(why);
        }
    }

    fn add(&mut self, shared: &Shared, raw: &RawValue) -> Result<(), String> {
        if self.tools.len() >= TOOLS {
            return Err("a tool beyond the bound".to_owned());
        }
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

async fn one_page(shared: &Shared, cursor: Option<&str>) -> Result<Box<RawValue>, Error> {
    let cursor = cursor.map(quote);
    let limit = Limit::of(PAGE_TIME);
    let mut request = Request::new("tools/list", Some(&shared.info.revision), limit);
    if let Some(cursor) = &cursor {
        request.params.push(("cursor", cursor));
    }
    shared.connection.request(request).await
}

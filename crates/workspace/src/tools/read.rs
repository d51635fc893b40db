//! `Read`: a page of a file.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use inside::{Page, Reply, Request};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{About, Answer, Content, Tool, arguments, bounded, fault, size, unexpected};
use crate::session::Session;

/// Lines of a page.
const MOST: u64 = 2000;

pub(super) const TOOL: Tool = Tool {
    name: "Read",
    title: "Read a file",
    read_only: true,
    destructive: false,
    description,
    schema,
    run,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    file_path: String,
    offset: Option<u64>,
    limit: Option<u64>,
}

fn description(about: &About) -> String {
    format!(
        "Reads a file of the workspace ({root}) and shows its lines with their numbers, as \
`   12→text`: the text begins right after the arrow. At most {MOST} lines at once; a page that is \
not the end says how to go on. Lines longer than 2000 characters are cut. Images (PNG, JPEG, GIF, \
WebP) are shown as images, notebooks by cells. A file has to be read before Edit or Write may \
change it, and only lines that were read can be changed. Read several files with several calls at \
once.",
        root = about.root
    )
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "file_path": {"type": "string", "minLength": 1, "maxLength": 4096,
                "description": "Absolute path of the file."},
            "offset": {"type": "integer", "minimum": 1,
                "description": "Line to begin with, from 1."},
            "limit": {"type": "integer", "minimum": 1, "maximum": MOST,
                "description": "Number of lines."},
        },
        "required": ["file_path"],
        "additionalProperties": false,
    })
}

fn run(session: &Session, given: Value) -> BoxFuture<'_, Result<Answer, Answer>> {
    async move {
        let Arguments { file_path: path, offset, limit } = arguments("Read", given)?;
        let offset = bounded("offset", offset, 1, u64::MAX, 1)?;
        let limit = bounded("limit", limit, 1, MOST, MOST)?;
        let backend = match session.backend().await {
            Ok(backend) => backend,
            Err(reason) => return Err(fault(session, reason).await),
        };
        let reply = match backend.act(Request::Read { path: path.clone(), offset, limit }).await {
            Ok(reply) => reply,
            Err(reason) => return Err(fault(session, reason).await),
        };
        let Reply::Page(page) = reply else { return Err(unexpected(&reply)) };
        remember(session, &path, &page);
        Ok(shown(page, offset))
    }
    .boxed()
}

fn remember(session: &Session, path: &str, page: &Page) {
    let mut memory = session.memory();
    match page {
        Page::Text { real, token, lines, first, total, more, plain, cut, .. } => {
            let last = first + lines.len() as u64 - u64::from(!lines.is_empty());
            let range = if *plain && !lines.is_empty() { (*first, last) } else { (1, 0) };
            let whole = *first == 1 && !*more && (total.is_some() || cut.1 == 0);
            let range = (!whole).then_some(range);
            memory.seen.read(path, real, token.clone(), range, total.filter(|_| *plain));
        }
        // Of these more cannot be seen.
        Page::Image { real, token, .. } | Page::Binary { real, token, .. } => {
            memory.seen.read(path, real, token.clone(), None, None);
        }
    }
}

fn shown(page: Page, offset: u64) -> Answer {
    match page {
        Page::Text { real, lines, first, total, more, size: bytes, notes, cut, .. } => {
            let mut text = String::new();
            for (number, line) in (first..).zip(&lines) {
                text.push_str(&format!("{number:>6}→{line}\n"));
            }
            let last = first + lines.len() as u64 - u64::from(!lines.is_empty());
            let mut said = Vec::new();
            if bytes == 0 {
                said.push("the file is empty".to_owned());
            } else if lines.is_empty() {
                let total = total.unwrap_or(0);
                said.push(format!("offset {offset} is past the end: {real} has {total} lines"));
            } else if more {
                let of = match total {
                    Some(total) => format!("of {total}"),
                    None => format!("of a file of {} (its lines were not counted)", size(bytes)),
                };
                said.push(format!(
                    "this is a part: lines {first} to {last} {of}; go on with offset {}",
                    last + 1
                ));
            } else if first > 1 {
                said.push(format!("lines {first} to {last}, the end of the file"));
            }
            if cut.1 > 0 {
                said.push(format!(
                    "{} longer than {} characters, cut: use Grep to see a part of one",
                    if cut.1 == 1 {
                        "1 line is".to_owned()
                    } else {
                        format!("{} lines are", cut.1)
                    },
                    cut.0
                ));
            }
            said.extend(notes);
            if !said.is_empty() {
                text.push_str(&format!("[{}]", said.join("; ")));
            }
            Answer::text(text)
        }
        Page::Image { real, mime, bytes, .. } => Answer {
            content: vec![
                Content::Text(format!("[{real}: {mime}, {}]", size(bytes.len() as u64))),
                Content::Image { mime, bytes },
            ],
            is_error: false,
        },
        Page::Binary { real, size: bytes, what, .. } => {
            Answer::text(format!("[{real} is {what}; {}]", size(bytes)))
        }
    }
}

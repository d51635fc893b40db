//! `Grep`: lines by a regular expression.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use inside::{Grepped, Matches, Reply, Request, Search, Shown};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{About, Answer, Tool, arguments, bounded, fault, hidden, plural, unexpected};
use crate::session::Session;

/// Entries shown unless more are asked for.
const USUAL: u64 = 250;
const MOST: u64 = 20_000;
const MOST_CONTEXT: u64 = 100;
/// Time after which what was found is answered.
const LIMIT_MS: u64 = 30_000;

pub(super) const TOOL: Tool = Tool {
    name: "Grep",
    title: "Search in files",
    read_only: true,
    destructive: false,
    description,
    schema,
    run,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    pattern: String,
    path: Option<String>,
    #[serde(default)]
    output_mode: Mode,
    glob: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(rename = "-A")]
    after: Option<u64>,
    #[serde(rename = "-B")]
    before: Option<u64>,
    #[serde(rename = "-C")]
    around: Option<u64>,
    context: Option<u64>,
    #[serde(rename = "-n")]
    numbers: Option<bool>,
    #[serde(rename = "-i", default)]
    any_case: bool,
    #[serde(default)]
    multiline: bool,
    head_limit: Option<u64>,
    #[serde(default)]
    offset: u64,
    #[serde(default)]
    include_ignored: bool,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Content,
    #[default]
    FilesWithMatches,
    Count,
}

fn description(about: &About) -> String {
    format!(
        "Searches the files of the workspace ({root}) with a regular expression (Rust's, as in \
ripgrep; escape literal braces: `interface\\{{\\}}`). output_mode: `files_with_matches` (paths, \
newest first; the default), `content` (lines, with -A, -B, -C, -n), `count`. glob (`*.{{ts,tsx}}`, \
`!dist/**`) and type (`rust`, `py`, `js`) choose files. head_limit and offset page through what was \
found. Hidden files are searched; what .gitignore hides is left out and counted, `.git` and the \
like are never looked into, links are not followed, binary files are left out.",
        root = about.root
    )
}

fn schema() -> Value {
    let lines = |description: &str| json!({"type": "integer", "minimum": 0, "maximum": MOST_CONTEXT, "description": description});
    let flag = |description: &str| json!({"type": "boolean", "description": description});
    json!({
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "minLength": 1, "maxLength": 10_000,
                "description": "The regular expression."},
            "path": {"type": "string", "minLength": 1, "maxLength": 4096,
                "description": "Absolute path of a folder or a file. Default: the workspace."},
            "output_mode": {"type": "string", "enum": ["content", "files_with_matches", "count"]},
            "glob": {"type": "string", "maxLength": 4096,
                "description": "Globs that choose files, separated by blanks or commas; ! excludes."},
            "type": {"type": "string", "maxLength": 64, "description": "Type of files, as rust, py, js."},
            "-A": lines("Lines after each match (content)."),
            "-B": lines("Lines before each match (content)."),
            "-C": lines("Lines around each match (content)."),
            "context": lines("The same as -C."),
            "-n": flag("Line numbers (content). Default true."),
            "-i": flag("Ignore case. Default false."),
            "multiline": flag("Let a match go over lines, and . match a line's end. Default false."),
            "head_limit": {"type": "integer", "minimum": 0, "maximum": MOST,
                "description": "Lines or paths at most; 0: as many as can be shown. Default 250."},
            "offset": {"type": "integer", "minimum": 0,
                "description": "Lines or paths to pass over. Default 0."},
            "include_ignored": flag("Also what ignore rules hide. Default false."),
        },
        "required": ["pattern"],
        "additionalProperties": false,
    })
}

fn run(session: &Session, given: Value) -> BoxFuture<'_, Result<Answer, Answer>> {
    async move {
        let given: Arguments = arguments("Grep", given)?;
        let around = given.around.or(given.context);
        let lines = |name, own: Option<u64>| bounded(name, own.or(around), 0, MOST_CONTEXT, 0);
        let most = bounded("head_limit", given.head_limit, 0, MOST, USUAL)?;
        let backend = match session.backend().await {
            Ok(backend) => backend,
            Err(reason) => return Err(fault(session, reason).await),
        };
        let search = Search {
            pattern: given.pattern,
            path: given.path.unwrap_or_else(|| backend.root().to_owned()),
            shown: match given.output_mode {
                Mode::Content => Shown::Lines,
                Mode::FilesWithMatches => Shown::Paths,
                Mode::Count => Shown::Counts,
            },
            glob: given.glob,
            kind: given.kind,
            before: lines("-B", given.before)?,
            after: lines("-A", given.after)?,
            any_case: given.any_case,
            multiline: given.multiline,
            offset: given.offset,
            most,
            ignored: given.include_ignored,
            barred: session.barred().to_vec(),
            limit_ms: LIMIT_MS,
        };
        let numbers = given.numbers.unwrap_or(true);
        match backend.act(Request::Grep(search.clone())).await {
            Ok(Reply::Grepped(found)) => Ok(Answer::text(shown(&found, &search, numbers))),
            Ok(other) => Err(unexpected(&other)),
            Err(reason) => Err(fault(session, reason).await),
        }
    }
    .boxed()
}

fn shown(found: &Grepped, search: &Search, numbers: bool) -> String {
    let mut text = String::new();
    let mut entries = 0;
    let with_context = search.before + search.after > 0;
    for (index, file) in found.files.iter().enumerate() {
        match search.shown {
            Shown::Paths => text.push_str(&format!("{}\n", file.path)),
            Shown::Counts => text.push_str(&format!("{}:{}\n", file.path, file.count)),
            Shown::Lines => {
                if with_context && index > 0 {
                    text.push_str("--\n");
                }
                push_lines(&mut text, file, numbers, with_context);
            }
        }
        entries += if search.shown == Shown::Lines { file.lines.len() as u64 } else { 1 };
    }
    let what = if search.shown == Shown::Lines { "line" } else { "file" };
    if found.total == 0 {
        text.push_str(&format!("no match in {}\n", plural(found.searched, "file")));
    } else if entries == 0 {
        text.push_str(&format!(
            "offset {} is past the end: there are {}\n",
            search.offset,
            plural(found.total, what)
        ));
    } else {
        let last = search.offset + entries;
        let matches = match search.shown {
            Shown::Paths => plural(found.matching_files, "file"),
            _ => format!(
                "{} in {}",
                plural(found.matching_lines, "matching line"),
                plural(found.matching_files, "file")
            ),
        };
        if last < found.total || search.offset > 0 {
            let next = if last < found.total {
                format!("; go on with offset {last}")
            } else {
                String::new()
            };
            text.push_str(&format!(
                "[{matches}; {what}s {} to {last} of {} shown{next}]\n",
                search.offset + 1,
                found.total
            ));
        } else {
            text.push_str(&format!("[{matches}]\n"));
        }
    }
    text.push_str(&hidden(&found.hidden));
    text
}

/// `path:12:text` for a match, `path-12-text` for a line beside one.
fn push_lines(text: &mut String, file: &Matches, numbers: bool, with_context: bool) {
    let mut before: Option<u64> = None;
    for line in &file.lines {
        if with_context && before.is_some_and(|before| before + 1 < line.number) {
            text.push_str("--\n");
        }
        before = Some(line.number);
        let mark = if line.matches { ':' } else { '-' };
        if numbers {
            text.push_str(&format!("{}{mark}{}{mark}{}\n", file.path, line.number, line.text));
        } else {
            text.push_str(&format!("{}{mark}{}\n", file.path, line.text));
        }
    }
}

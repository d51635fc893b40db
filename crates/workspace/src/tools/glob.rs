//! `Glob`: files by their paths.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use inside::{Globbed, Reply, Request};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{About, Answer, Tool, arguments, bounded, fault, hidden, plural, unexpected};
use crate::session::Session;

/// Paths shown unless more are asked for, and at most.
const USUAL: u64 = 100;
const MOST: u64 = 2000;
/// Time after which what was found is answered.
const LIMIT_MS: u64 = 20_000;

pub(super) const TOOL: Tool = Tool {
    name: "Glob",
    title: "Find files",
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
    limit: Option<u64>,
    #[serde(default)]
    include_ignored: bool,
}

fn description(about: &About) -> String {
    format!(
        "Finds files of the workspace ({root}) whose paths match a glob, newest first. `*` and `?` \
stay within a folder, `**` goes through folders, `{{a,b}}` and `[a-z]` work: `**/*.rs` is every \
Rust file, `*.rs` those in the folder itself. Files whose names begin with a dot are found too; \
what .gitignore hides is left out and counted, `.git` and the like are never looked into, links are \
not followed.",
        root = about.root
    )
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "minLength": 1, "maxLength": 4096,
                "description": "The glob, relative to path."},
            "path": {"type": "string", "minLength": 1, "maxLength": 4096,
                "description": "Absolute path of the folder to look in. Default: the workspace."},
            "limit": {"type": "integer", "minimum": 1, "maximum": MOST,
                "description": "Paths at most. Default 100."},
            "include_ignored": {"type": "boolean",
                "description": "Also what ignore rules hide. Default false."},
        },
        "required": ["pattern"],
        "additionalProperties": false,
    })
}

fn run(session: &Session, given: Value) -> BoxFuture<'_, Result<Answer, Answer>> {
    async move {
        let Arguments { pattern, path, limit, include_ignored } = arguments("Glob", given)?;
        let most = bounded("limit", limit, 1, MOST, USUAL)?;
        let backend = match session.backend().await {
            Ok(backend) => backend,
            Err(reason) => return Err(fault(session, reason).await),
        };
        let path = path.unwrap_or_else(|| backend.root().to_owned());
        let request = Request::Glob {
            pattern: pattern.clone(),
            path,
            most,
            ignored: include_ignored,
            barred: session.barred().to_vec(),
            limit_ms: LIMIT_MS,
        };
        match backend.act(request).await {
            Ok(Reply::Globbed(globbed)) => Ok(Answer::text(shown(&globbed, &pattern))),
            Ok(other) => Err(unexpected(&other)),
            Err(reason) => Err(fault(session, reason).await),
        }
    }
    .boxed()
}

fn shown(globbed: &Globbed, pattern: &str) -> String {
    let mut text = String::new();
    for path in &globbed.paths {
        text.push_str(path);
        text.push('\n');
    }
    if globbed.paths.is_empty() {
        text.push_str(&format!("no file matches {pattern}\n"));
    }
    if globbed.total > globbed.paths.len() as u64 {
        text.push_str(&format!(
            "[the newest {} of {}; give a narrower pattern or a higher limit]\n",
            globbed.paths.len(),
            plural(globbed.total, "file")
        ));
    }
    if globbed.deeper > 0 {
        text.push_str(&format!(
            "[{} in folders below match **/{pattern}]\n",
            plural(globbed.deeper, "file")
        ));
    }
    text.push_str(&hidden(&globbed.hidden));
    text
}

//! `Edit`: text in a file that was read, replaced.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use inside::{Edited, Fault, Reply, Request};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{About, Answer, Tool, arguments, fault, plural, unexpected};
use crate::session::Session;

pub(super) const TOOL: Tool = Tool {
    name: "Edit",
    title: "Edit a file",
    read_only: false,
    destructive: false,
    description,
    schema,
    run,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    file_path: String,
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

fn description(about: &About) -> String {
    format!(
        "Replaces text in a file of the workspace ({root}). The lines must have been read with \
Read in this session. old_string must be the file's text to the letter (without the line numbers \
that Read puts before it) and stand in the file once, unless replace_all is set. Everything else \
stays as it is: line ends, encoding, mode, owner, links.",
        root = about.root
    )
}

fn schema() -> Value {
    let text = |description: &str| json!({"type": "string", "maxLength": 1 << 20, "description": description});
    json!({
        "type": "object",
        "properties": {
            "file_path": {"type": "string", "minLength": 1, "maxLength": 4096,
                "description": "Absolute path of the file."},
            "old_string": text("The text to replace."),
            "new_string": text("The text that takes its place."),
            "replace_all": {"type": "boolean",
                "description": "Replace every occurrence. Default false."},
        },
        "required": ["file_path", "old_string", "new_string"],
        "additionalProperties": false,
    })
}

fn run(session: &Session, given: Value) -> BoxFuture<'_, Result<Answer, Answer>> {
    async move {
        let Arguments { file_path: path, old_string, new_string, replace_all } =
            arguments("Edit", given)?;
        let _turn = session.changing.lock().await;
        let backend = match session.backend().await {
            Ok(backend) => backend,
            Err(reason) => return Err(fault(session, reason).await),
        };
        let mut known = session.memory().seen.get(&path);
        for again in [true, false] {
            let request = Request::Edit {
                path: path.clone(),
                known: known.as_ref().map(|file| file.token.clone()),
                seen: known.as_ref().and_then(|file| file.ranges.clone()),
                old: old_string.clone(),
                new: new_string.clone(),
                all: replace_all,
            };
            let reply = match backend.act(request).await {
                Ok(reply) => reply,
                Err(reason) => return Err(fault(session, reason).await),
            };
            match reply {
                Reply::Edited(edited) => {
                    let Edited { real, token, at, spans, .. } = &edited;
                    session.memory().seen.edited(&path, real, token.clone(), at, spans);
                    return Ok(Answer::text(shown(&edited)));
                }
                // It may have been read under another name.
                Reply::Refused(refusal)
                    if again && known.is_none() && refusal.fault == Fault::Unread =>
                {
                    let real = refusal.real.as_deref();
                    known = real.and_then(|real| session.memory().seen.get(real));
                    if known.is_none() {
                        return Err(super::refused(&refusal));
                    }
                }
                other => return Err(unexpected(&other)),
            }
        }
        Err(Answer::error(format!("{path} was not read; Read it first")))
    }
    .boxed()
}

fn shown(edited: &Edited) -> String {
    let places = plural(edited.at.len() as u64, "place");
    let mut lines: Vec<String> = edited.at.iter().take(8).map(u64::to_string).collect();
    if edited.at.len() > lines.len() {
        lines.push("…".to_owned());
    }
    let mut text = format!(
        "edited {}: {places} (line {}); the file has {} now\n",
        edited.real,
        lines.join(", "),
        plural(edited.lines, "line")
    );
    let (first, around) = &edited.around;
    for (number, line) in (*first..).zip(around) {
        text.push_str(&format!("{number:>6}→{line}\n"));
    }
    text
}

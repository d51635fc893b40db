//! `Write`: a file, new or in the place of one that was read.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use inside::{Fault, Reply, Request};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{About, Answer, Tool, arguments, fault, plural, unexpected};
use crate::session::Session;

/// Longest text of one call.
const LONGEST: u64 = 10 << 20;

pub(super) const TOOL: Tool = Tool {
    name: "Write",
    title: "Write a file",
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
    content: String,
}

fn description(about: &About) -> String {
    format!(
        "Writes a file of the workspace ({root}), with the folders above it. A file that is there \
already must have been read whole with Read, and must not have changed since; its mode, owner and \
links stay. To change a part of a file use Edit.",
        root = about.root
    )
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "file_path": {"type": "string", "minLength": 1, "maxLength": 4096,
                "description": "Absolute path of the file."},
            "content": {"type": "string", "maxLength": LONGEST,
                "description": "The whole content of the file."},
        },
        "required": ["file_path", "content"],
        "additionalProperties": false,
    })
}

fn run(session: &Session, given: Value) -> BoxFuture<'_, Result<Answer, Answer>> {
    async move {
        let Arguments { file_path: path, content } = arguments("Write", given)?;
        if content.len() as u64 > 4 * LONGEST {
            return Err(Answer::error(format!(
                "content is longer than {} MB; make the file with a command",
                LONGEST >> 20
            )));
        }
        let _turn = session.changing.lock().await;
        let backend = match session.backend().await {
            Ok(backend) => backend,
            Err(reason) => return Err(fault(session, reason).await),
        };
        let mut known = known(session, &path)?;
        for again in [true, false] {
            let request = Request::Write {
                path: path.clone(),
                content: content.clone().into_bytes(),
                known: known.clone(),
                compare: true,
            };
            let reply = match backend.act(request).await {
                Ok(reply) => reply,
                Err(reason) => return Err(fault(session, reason).await),
            };
            match reply {
                Reply::Written(written) => {
                    let mut memory = session.memory();
                    memory.seen.wrote(&path, &written.real, written.token);
                    let what = if written.made { "made" } else { "replaced" };
                    let lines = plural(written.lines, "line");
                    return Ok(Answer::text(format!("{what} {} ({lines})", written.real)));
                }
                // It may have been read under another name.
                Reply::Refused(refusal) if again && refusal.fault == Fault::Unread => {
                    let real = refusal.real.as_deref();
                    known = real.map(|real| self::known(session, real)).transpose()?.flatten();
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

/// What the file was when it was read, if all of it was.
fn known(session: &Session, path: &str) -> Result<Option<inside::Token>, Answer> {
    let Some(file) = session.memory().seen.get(path) else { return Ok(None) };
    match file.ranges {
        None => Ok(Some(file.token)),
        Some(ranges) => {
            let shown: Vec<String> =
                ranges.iter().take(5).map(|(from, to)| format!("{from} to {to}")).collect();
            Err(Answer::error(format!(
                "of {path} only lines {} were read, and Write replaces all of it; Read the rest \
                 first, or change a part with Edit",
                shown.join(", ")
            )))
        }
    }
}

//! Changing files: compared with what the caller knows, then replaced, all under one lock.

use crate::edit::{self, Unmatched};
use crate::folder::Meta;
use crate::nearest;
use crate::read;
use crate::request::{Edited, Fault, Refusal, Reply, Written};
use crate::root::{Found, Root, explain};
use crate::token::{self, Token};

/// Longest file that is written or edited.
const LONGEST: usize = 256 << 20;

pub(crate) fn write(
    root: &Root,
    path: &str,
    content: &[u8],
    known: Option<&Token>,
    compare: bool,
) -> Result<Reply, Refusal> {
    let found = root.find(path)?;
    if found.meta.is_none() {
        return make(&found, content);
    }
    let (found, _) = root.file(path)?;
    let failed = |error| explain(&found.real, &error);
    let _lock = found.folder.lock().map_err(failed)?;
    let meta = found.folder.look(&found.name).map_err(failed)?;
    if compare {
        let Some(known) = known else {
            return Err(unread(&found.real, "is there already and was not read"));
        };
        check(root, &found, &meta, known)?;
    }
    let now = found.folder.put(&found.name, Some(&meta), content).map_err(failed)?;
    let (token, lines) = (Token::of_bytes(content, &now), read::count(content));
    Ok(Reply::Written(Written { real: found.real, token, made: false, lines }))
}

fn make(found: &Found, content: &[u8]) -> Result<Reply, Refusal> {
    let failed = |error| explain(&found.real, &error);
    let mut folder = found.folder.clone();
    for name in &found.missing {
        folder = folder.make(name).map_err(failed)?;
    }
    let _lock = folder.lock().map_err(failed)?;
    let now = folder.put(&found.name, None, content).map_err(failed)?;
    let (token, lines) = (Token::of_bytes(content, &now), read::count(content));
    Ok(Reply::Written(Written { real: found.real.clone(), token, made: true, lines }))
}

pub(crate) struct Edit<'a> {
    pub(crate) path: &'a str,
    pub(crate) known: Option<&'a Token>,
    pub(crate) seen: Option<&'a [(u64, u64)]>,
    pub(crate) old: &'a str,
    pub(crate) new: &'a str,
    pub(crate) all: bool,
}

pub(crate) fn edit(root: &Root, edit: &Edit<'_>) -> Result<Reply, Refusal> {
    let Edit { path, known, seen, old, new, all } = *edit;
    let (found, _) = root.file(path)?;
    let real = found.real.clone();
    let failed = |error| explain(&real, &error);
    let unmatched = |message: String| Refusal::new(Fault::Unmatched, message).at(&real);
    let _lock = found.folder.lock().map_err(failed)?;
    let meta = found.folder.look(&found.name).map_err(failed)?;
    let Some(known) = known else { return Err(unread(&real, "was not read")) };
    let bytes = check(root, &found, &meta, known)?;
    let bytes = match bytes {
        Some(bytes) => bytes,
        None => whole(root, &found)?,
    };
    if old.is_empty() && !bytes.is_empty() {
        return Err(unmatched(format!(
            "old_string is empty, but {real} is not; give the text that is to be replaced"
        )));
    }
    if old == new {
        return Err(unmatched("old_string and new_string are the same; nothing to do".to_owned()));
    }
    read::is_text(&bytes, &real)?;
    if !new.is_ascii() && std::str::from_utf8(&bytes).is_err() {
        return Err(Refusal::new(
            Fault::Kind,
            format!(
                "{real} is not UTF-8, and new_string has characters that are not ASCII; convert \
                 the file with Bash (`iconv`) first, or keep to ASCII"
            ),
        )
        .at(&real));
    }
    let changed = if bytes.is_empty() && old.is_empty() {
        edit::Changed { bytes: new.as_bytes().to_vec(), at: vec![1], spans: vec![(0, 0)] }
    } else {
        edit::replace(&bytes, old, new, all, seen).map_err(|reason| match reason {
            Unmatched::Nowhere => {
                unmatched(format!("old_string is not in {real}{}", nearest::explain(&bytes, old)))
            }
            Unmatched::Often(lines) => unmatched(format!(
                "old_string is {} times in {real} (lines {}); give more of the text around it, or \
                 set replace_all",
                lines.len(),
                some(&lines)
            )),
            Unmatched::Unseen(first, last) => Refusal::new(
                Fault::Unread,
                format!(
                    "lines {first} to {last} of {real} were not read; Read them (offset {first}) \
                     before they are changed"
                ),
            )
            .at(&real),
        })?
    };
    let now = found.folder.put(&found.name, Some(&meta), &changed.bytes).map_err(failed)?;
    let height = memchr::memchr_iter(b'\n', new.as_bytes()).count() as u64 + 1;
    let first = changed.at.first().copied().unwrap_or(1);
    Ok(Reply::Edited(Edited {
        token: Token::of_bytes(&changed.bytes, &now),
        lines: read::count(&changed.bytes),
        around: edit::around(&changed.bytes, first, height),
        at: changed.at,
        spans: changed.spans,
        real,
    }))
}

fn some(lines: &[u64]) -> String {
    let mut shown: Vec<String> = lines.iter().take(8).map(u64::to_string).collect();
    if lines.len() > shown.len() {
        shown.push("…".to_owned());
    }
    shown.join(", ")
}

fn unread(real: &str, how: &str) -> Refusal {
    let message = format!(
        "{real} {how} with Read in this session (what Bash showed does not count); Read it first"
    );
    Refusal::new(Fault::Unread, message).at(real)
}

/// Compares a file with what the caller knows of it; answers its bytes, if they had to be read.
fn check(
    root: &Root,
    found: &Found,
    meta: &Meta,
    known: &Token,
) -> Result<Option<Vec<u8>>, Refusal> {
    let changed = || {
        let real = &found.real;
        let message = format!(
            "{real} has changed since it was read or written with these tools; Read it again"
        );
        Refusal::new(Fault::Changed, message).at(real)
    };
    let bytes = match known {
        Token::Content(_) => {
            let (meta, mut content) = root.open(found)?;
            let read = token::small(&meta, content.as_mut());
            let bytes = read.map_err(|error| explain(&found.real, &error))?;
            let Some(bytes) = bytes else { return Err(changed()) };
            Some((Token::of_bytes(&bytes, &meta), bytes))
        }
        Token::Stamp { .. } => None,
    };
    let now = bytes.as_ref().map_or_else(|| Token::of_meta(meta), |(token, _)| token.clone());
    if now == *known { Ok(bytes.map(|(_, bytes)| bytes)) } else { Err(changed()) }
}

fn whole(root: &Root, found: &Found) -> Result<Vec<u8>, Refusal> {
    let (meta, mut content) = root.open(found)?;
    let real = &found.real;
    if meta.size > LONGEST as u64 {
        let message = format!(
            "{real} has more than {} MB; change it with Bash, as with `sed -i`",
            LONGEST >> 20
        );
        return Err(Refusal::new(Fault::Failed, message).at(real));
    }
    let mut bytes = Vec::new();
    content.read_to_end(&mut bytes).map_err(|error| explain(real, &error))?;
    Ok(bytes)
}

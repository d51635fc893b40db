//! Files whose paths match a pattern, newest first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use globset::{GlobBuilder, GlobMatcher};

use crate::folder::Kind;
use crate::ignored::Barred;
use crate::request::{Fault, Globbed, Refusal, Reply};
use crate::root::Root;
use crate::walk::{Met, Visit, Walk, walk};

/// Paths that are answered at most, whatever was asked for.
const MOST: u64 = 10_000;

#[derive(Default)]
struct Found {
    /// The newest, the oldest of them on top.
    newest: BinaryHeap<(Reverse<i128>, String)>,
    total: u64,
    deeper: u64,
}

pub(crate) fn glob(
    root: &Root,
    pattern: &str,
    path: &str,
    most: u64,
    (ignored, barred): (bool, &[String]),
    limit_ms: u64,
) -> Result<Reply, Refusal> {
    let base = root.find(path)?;
    match &base.meta {
        None => return Err(root.absent(path, &base)),
        Some(meta) if meta.kind != Kind::Folder => {
            let real = &base.real;
            let message = format!("{real} is {}, not a folder; give its folder", meta.kind.words());
            return Err(Refusal::new(Fault::Kind, message).at(real));
        }
        Some(_) => {}
    }
    let barred = Barred::new(root.shown(), barred)?;
    barred.refuse(root.shown(), &base.real)?;
    let relative = relative(root, pattern, &base.real)?;
    let matcher = compile(&relative)?;
    let deeper =
        if relative.contains('/') { None } else { Some(compile(&format!("**/{relative}"))?) };
    let most = most.min(MOST) as usize;
    let found = Mutex::new(Found::default());
    let until = Instant::now() + Duration::from_millis(limit_ms);
    let visitor = || -> Visit<'_> {
        Box::new(|met: &Met<'_>| {
            let below = met.path.strip_prefix(&base.real).unwrap_or(met.path);
            if matcher.is_match(below) {
                // It may be gone already.
                let Ok(meta) = met.folder.look(met.name) else { return };
                let path = met.path.to_string_lossy().into_owned();
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                found.total += 1;
                found.newest.push((Reverse(meta.modified), path));
                if found.newest.len() > most {
                    found.newest.pop();
                }
            } else if deeper.as_ref().is_some_and(|deeper| deeper.is_match(below)) {
                found.lock().unwrap_or_else(PoisonError::into_inner).deeper += 1;
            }
        })
    };
    let hidden = walk(root, &base, &Walk { ignored, barred: &barred, until }, &visitor)?;
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let paths = found.newest.into_sorted_vec().into_iter().map(|(_, path)| path).collect();
    Ok(Reply::Globbed(Globbed { paths, total: found.total, deeper: found.deeper, hidden }))
}

/// The pattern as one below the base.
fn relative(root: &Root, pattern: &str, base: &str) -> Result<String, Refusal> {
    let bad = |message: String| Refusal::new(Fault::Request, message);
    if pattern.is_empty() {
        return Err(bad("the pattern is empty; give one, as **/*.rs".to_owned()));
    }
    if pattern.split('/').any(|part| part == "..") {
        return Err(bad(format!(
            "the pattern {pattern:?} has a .. in it; give the folder as path instead"
        )));
    }
    let pattern = if pattern.starts_with('/') {
        let rest = pattern.strip_prefix(base).filter(|rest| base == "/" || rest.starts_with('/'));
        let Some(rest) = rest else {
            let whole = root.shown().display();
            let inside = Path::new(pattern).starts_with(root.shown());
            let fault = if inside { Fault::Request } else { Fault::Outside };
            return Err(Refusal::new(
                fault,
                format!(
                    "the pattern {pattern:?} is not below {base}; leave path out, and begin the \
                     pattern with {whole}/ or with no /"
                ),
            ));
        };
        rest.trim_start_matches('/')
    } else {
        pattern
    };
    let mut pattern = pattern;
    while let Some(rest) = pattern.strip_prefix("./") {
        pattern = rest.trim_start_matches('/');
    }
    if pattern.is_empty() || pattern.ends_with('/') {
        return Ok(format!("{pattern}**"));
    }
    Ok(pattern.to_owned())
}

fn compile(pattern: &str) -> Result<GlobMatcher, Refusal> {
    let built = GlobBuilder::new(pattern)
        .literal_separator(true)
        .backslash_escape(true)
        .empty_alternates(true)
        .build();
    built.map(|glob| glob.compile_matcher()).map_err(|error| {
        let message = format!(
            "the pattern {pattern:?} is no glob: {}; mend it or escape with \\",
            error.kind()
        );
        Refusal::new(Fault::Request, message)
    })
}

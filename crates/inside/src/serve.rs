//! Carries out a request about files.

use crate::folder::Kind;
use crate::request::{Fault, Refusal, Reply, Request};
use crate::root::Root;
use crate::{glob, grep, read, write};

/// Carries out a request about files. Programs are run by the program only
/// ([`main_of_the_program`](crate::main_of_the_program)), which can end all that they start.
pub fn serve(root: &Root, request: &Request) -> Reply {
    answer(root, request).unwrap_or_else(Reply::Refused)
}

fn answer(root: &Root, request: &Request) -> Result<Reply, Refusal> {
    match request {
        Request::Look { path } => {
            let found = root.find(path)?;
            let folder = found.meta.map(|meta| meta.kind == Kind::Folder);
            Ok(Reply::Place { real: found.real, folder })
        }
        Request::Read { path, offset, limit } => read::read(root, path, *offset, *limit),
        Request::Fetch { path, from, length } => read::fetch(root, path, *from, *length),
        Request::Write { path, content, known, compare } => {
            write::write(root, path, content, known.as_ref(), *compare)
        }
        Request::Edit { path, known, seen, old, new, all } => {
            let (known, seen) = (known.as_ref(), seen.as_deref());
            write::edit(root, &write::Edit { path, known, seen, old, new, all: *all })
        }
        Request::Glob { pattern, path, most, ignored, barred, limit_ms } => {
            glob::glob(root, pattern, path, *most, (*ignored, barred), *limit_ms)
        }
        Request::Grep(search) => grep::grep(root, search),
        Request::Run(_) => {
            Err(Refusal::new(Fault::Request, "a program cannot be run in this process"))
        }
    }
}

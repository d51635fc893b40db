//! Lines that match a regular expression, in files in an order that does not change.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use grep_matcher::{LineTerminator, Matcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkFinish,
    SinkMatch,
};
use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::{Types, TypesBuilder};

use crate::folder::Kind;
use crate::ignored::Barred;
use crate::request::{Fault, Grepped, Hidden, Line, Matches, Refusal, Reply, Search, Shown};
use crate::root::{Root, explain};
use crate::walk::{Met, Visit, Walk, walk};

/// Characters of a line that are shown.
const LONGEST_LINE: usize = 500;
/// Entries answered at most, and bytes of them.
const MOST: usize = 20_000;
const MOST_BYTES: usize = 2 << 20;
/// Memory of a compiled expression, and of a match over lines.
const LARGEST: usize = 16 << 20;
const HEAP: usize = 128 << 20;

pub(crate) fn grep(root: &Root, search: &Search) -> Result<Reply, Refusal> {
    let matcher = compile(search)?;
    let base = root.find(&search.path)?;
    let Some(meta) = &base.meta else { return Err(root.absent(&search.path, &base)) };
    let single = meta.kind == Kind::File;
    if !single && meta.kind != Kind::Folder {
        let message = format!("{} is {}, which cannot be searched", base.real, meta.kind.words());
        return Err(Refusal::new(Fault::Kind, message).at(&base.real));
    }
    let barred = Barred::new(root.shown(), &search.barred)?;
    barred.refuse(root.shown(), &base.real)?;
    let chosen = Chosen::new(search, &base.real)?;
    let most = if search.most == 0 { MOST } else { (search.most as usize).min(MOST) };
    let needed = usize::try_from(search.offset).unwrap_or(usize::MAX).saturating_add(most);
    let all = Mutex::new(Sum { needed, ..Sum::default() });
    let (searched, unreadable) = (AtomicU64::new(0), AtomicU64::new(0));
    let fault = Mutex::new(None);
    let binary = AtomicU64::new(0);
    let search_file = |searcher: &mut Searcher, met: &Met<'_>| {
        let (meta, content) = match met.folder.open(met.name) {
            Ok(opened) => opened,
            Err(error) => {
                unreadable.fetch_add(1, Ordering::Relaxed);
                *lock(&fault) = Some(error);
                return;
            }
        };
        searched.fetch_add(1, Ordering::Relaxed);
        let mut hits = Hits::new(&matcher, search.shown, needed);
        if let Err(error) = searcher.search_reader(&matcher, content, &mut hits) {
            unreadable.fetch_add(1, Ordering::Relaxed);
            *lock(&fault) = Some(error);
        }
        if hits.binary && !single {
            binary.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if hits.count > 0 {
            let path = met.path.to_string_lossy().into_owned();
            let order = if search.shown == Shown::Paths { -meta.modified } else { 0 };
            lock(&all).add((order, path), hits);
        }
    };
    let mut hidden = if single {
        let path = Path::new(&base.real);
        let met = Met { folder: &base.folder, name: &base.name, path };
        search_file(&mut searcher(search, true), &met);
        if let Some(error) = lock(&fault).take() {
            return Err(explain(&base.real, &error));
        }
        Hidden::default()
    } else {
        let until = Instant::now() + Duration::from_millis(search.limit_ms);
        let visitor = || -> Visit<'_> {
            let mut searcher = searcher(search, false);
            let (chosen, search_file) = (&chosen, &search_file);
            Box::new(move |met: &Met<'_>| {
                if chosen.takes(met.path) {
                    search_file(&mut searcher, met);
                }
            })
        };
        walk(root, &base, &Walk { ignored: search.ignored, barred: &barred, until }, &visitor)?
    };
    hidden.unreadable += unreadable.into_inner();
    hidden.binary = binary.into_inner();
    let all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Reply::Grepped(all.answer(search, most, single, searched.into_inner(), hidden)))
}

fn compile(search: &Search) -> Result<RegexMatcher, Refusal> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(search.any_case)
        .multi_line(true)
        .dot_matches_new_line(search.multiline)
        .size_limit(LARGEST)
        .dfa_size_limit(LARGEST);
    if !search.multiline {
        builder.line_terminator(Some(b'\n')).crlf(true);
    }
    builder.build(&search.pattern).map_err(|error| {
        let hint = if search.multiline || !search.pattern.contains("\\n") {
            "mend it, or escape what is meant literally with \\"
        } else {
            "set multiline to match over lines"
        };
        let message = format!("the pattern is no regular expression: {error}; {hint}");
        Refusal::new(Fault::Request, message)
    })
}

/// A file that was named is searched even if it is binary; of others the rest is not looked at.
fn searcher(search: &Search, single: bool) -> Searcher {
    let binary = if single { BinaryDetection::convert(0) } else { BinaryDetection::quit(0) };
    let lines = search.shown == Shown::Lines;
    let context = |count: u64| if lines { count.min(1000) as usize } else { 0 };
    // As the expression has it.
    let end = if search.multiline { LineTerminator::byte(b'\n') } else { LineTerminator::crlf() };
    SearcherBuilder::new()
        .line_terminator(end)
        .line_number(lines)
        .multi_line(search.multiline)
        .before_context(context(search.before))
        .after_context(context(search.after))
        .binary_detection(binary)
        .heap_limit(Some(HEAP))
        .build()
}

/// Which files are searched.
struct Chosen {
    globs: Override,
    types: Types,
    base: PathBuf,
}

impl Chosen {
    fn new(search: &Search, base: &str) -> Result<Self, Refusal> {
        let bad = |message: String| Refusal::new(Fault::Request, message);
        let mut globs = OverrideBuilder::new(base);
        for glob in search.glob.as_deref().map(split).unwrap_or_default() {
            globs
                .add(&glob)
                .map_err(|error| bad(format!("glob {glob:?} is no glob: {error}; mend it")))?;
        }
        let globs = globs.build().map_err(|error| bad(format!("glob is no glob: {error}")))?;
        let mut types = TypesBuilder::new();
        types.add_defaults();
        if let Some(kind) = &search.kind {
            let known = types.definitions();
            if !known.iter().any(|known| known.name() == kind) {
                let near = known.iter().map(|known| known.name()).max_by(|a, b| {
                    let likeness = |name| strsim::jaro_winkler(name, kind);
                    likeness(a).total_cmp(&likeness(b))
                });
                let near = near.unwrap_or("rust");
                return Err(bad(format!(
                    "type {kind:?} is not known; did you mean {near:?}? otherwise use glob, as \
                     \"*.{kind}\""
                )));
            }
            types.select(kind);
        }
        let types = types.build().map_err(|error| bad(format!("type cannot be used: {error}")))?;
        Ok(Self { globs, types, base: PathBuf::from(base) })
    }

    fn takes(&self, path: &Path) -> bool {
        if self.types.matched(path, false).is_ignore() {
            return false;
        }
        if self.globs.is_empty() {
            return true;
        }
        // A glob may exclude a folder with everything in it.
        let within = path.ancestors().skip(1).take_while(|folder| *folder != self.base);
        !self.globs.matched(path, false).is_ignore()
            && !within.into_iter().any(|folder| self.globs.matched(folder, true).is_ignore())
    }
}

/// Globs are separated by blanks, and by commas outside of braces.
fn split(globs: &str) -> Vec<String> {
    let (mut found, mut current, mut depth) = (Vec::new(), String::new(), 0usize);
    for character in globs.chars() {
        match character {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if character.is_whitespace() || (character == ',' && depth == 0) {
            found.push(std::mem::take(&mut current));
        } else {
            current.push(character);
        }
    }
    found.push(current);
    found.retain(|glob| !glob.is_empty());
    found
}

/// What one file gives.
struct Hits<'a> {
    matcher: &'a RegexMatcher,
    shown: Shown,
    most: usize,
    count: u64,
    entries: u64,
    lines: Vec<Line>,
    binary: bool,
}

impl<'a> Hits<'a> {
    fn new(matcher: &'a RegexMatcher, shown: Shown, most: usize) -> Self {
        let (count, entries) = (0, 0);
        Self { matcher, shown, most, count, entries, lines: Vec::new(), binary: false }
    }

    fn take(&mut self, first: Option<u64>, bytes: &[u8], matches: bool) {
        for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            self.entries += 1;
            if self.lines.len() < self.most {
                let number = first.unwrap_or(0) + index as u64;
                let at = if matches { self.matcher.find(line).ok().flatten() } else { None };
                let text = shorten(line, at.map_or(0, |at| at.start()));
                self.lines.push(Line { number, matches, text });
            }
        }
    }
}

impl Sink for Hits<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        match self.shown {
            Shown::Paths => {
                self.count = 1;
                return Ok(false);
            }
            Shown::Counts => self.count += found.lines().count() as u64,
            Shown::Lines => {
                self.count += found.lines().count() as u64;
                self.take(found.line_number(), found.bytes(), true);
            }
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, Self::Error> {
        if *context.kind() != SinkContextKind::Other {
            self.take(context.line_number(), context.bytes(), false);
        }
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, Self::Error> {
        self.binary = true;
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> Result<(), Self::Error> {
        self.binary |= finish.binary_byte_offset().is_some();
        Ok(())
    }
}

/// A line as it is shown: of a long one, the part around the match.
fn shorten(line: &[u8], at: usize) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= LONGEST_LINE {
        return String::from_utf8_lossy(line).into_owned();
    }
    let boundary = |mut place: usize| {
        while place < line.len() && (line[place] & 0xc0) == 0x80 {
            place += 1;
        }
        place
    };
    let start = boundary(at.saturating_sub(LONGEST_LINE / 4));
    let end = boundary((start + LONGEST_LINE).min(line.len()));
    let before = if start > 0 { "…" } else { "" };
    let after = if end < line.len() { "…" } else { "" };
    let part = String::from_utf8_lossy(&line[start..end]);
    format!("{before}{part}{after} [part of a line of {} bytes]", line.len())
}

/// What all files give, as far as it is needed.
#[derive(Default)]
struct Sum {
    needed: usize,
    files: BTreeMap<(i128, String), (u64, Vec<Line>)>,
    kept: usize,
    entries: u64,
    matching_files: u64,
    matching_lines: u64,
}

impl Sum {
    fn add(&mut self, key: (i128, String), hits: Hits<'_>) {
        self.matching_files += 1;
        self.matching_lines += hits.count;
        let entries = if hits.shown == Shown::Lines { hits.entries } else { 1 };
        self.entries += entries;
        self.kept += hits.lines.len().max(1);
        self.files.insert(key, (hits.count, hits.lines));
        // What comes after enough is never shown. Not at each file: to drop is to look at all.
        if self.kept / 4 > self.needed.max(256) {
            let mut before = 0usize;
            let needed = self.needed;
            self.files.retain(|_, (_, lines)| {
                let keeps = before <= needed;
                before = before.saturating_add(lines.len().max(1));
                keeps
            });
            self.kept = self.files.values().map(|(_, lines)| lines.len().max(1)).sum();
        }
    }

    fn answer(
        self,
        search: &Search,
        most: usize,
        single: bool,
        searched: u64,
        hidden: Hidden,
    ) -> Grepped {
        let mut skip = search.offset;
        let (mut left, mut room) = (most, MOST_BYTES);
        let mut files = Vec::new();
        let mut full = false;
        for ((_, path), (count, lines)) in self.files {
            if left == 0 || full {
                break;
            }
            let mut taken = Vec::new();
            if search.shown == Shown::Lines {
                for line in lines {
                    if skip > 0 {
                        skip -= 1;
                    } else if left > 0 && !full {
                        room = room.saturating_sub(line.text.len() + path.len() + 16);
                        full = room == 0;
                        left -= 1;
                        taken.push(line);
                    }
                }
                if taken.is_empty() {
                    continue;
                }
            } else if skip > 0 {
                skip -= 1;
                continue;
            } else {
                room = room.saturating_sub(path.len() + 16);
                full = room == 0;
                left -= 1;
            }
            files.push(Matches { path, count, lines: taken });
        }
        let asked = search.most > 0 && search.most as usize <= MOST;
        let shown = most - left;
        let cut = full || (!asked && self.entries > search.offset + shown as u64);
        Grepped {
            single,
            files,
            total: self.entries,
            matching_files: self.matching_files,
            matching_lines: self.matching_lines,
            searched,
            cut,
            hidden,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_are_split_outside_of_braces() {
        assert_eq!(split("*.rs, !a/** *.{ts,tsx}"), ["*.rs", "!a/**", "*.{ts,tsx}"]);
        assert!(split(" ").is_empty());
    }

    #[test]
    fn a_long_line_is_shown_around_the_match() {
        let line = format!("{}näedle{}", "x".repeat(5000), "y".repeat(5000));
        let shown = shorten(line.as_bytes(), 5000);
        assert!(shown.contains("näedle") && shown.starts_with('…'), "{shown}");
        assert!(shown.chars().count() < 600, "{shown}");
        assert!(shown.ends_with("[part of a line of 10007 bytes]"), "{shown}");
    }
}

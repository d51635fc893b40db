//! Replacing text in bytes: everything that is not replaced stays as it is, line ends included.
//!
//! Lines are compared with a line feed at their ends, whatever ends them in the file, and of a
//! replacement only what differs from the old text is written.

use crate::read;

/// Why there is nothing to replace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unmatched {
    /// The text is not there.
    Nowhere,
    /// It is there more than once, beginning at these lines.
    Often(Vec<u64>),
    /// It is there, but in lines that may not be changed: first and last line.
    Unseen(u64, u64),
}

/// A changed file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Changed {
    pub(crate) bytes: Vec<u8>,
    /// Lines, in the new file, at which replacements begin.
    pub(crate) at: Vec<u64>,
    /// For each, lines that were touched before and after.
    pub(crate) spans: Vec<(u64, u64)>,
}

/// Replaces `old`, once or everywhere, in lines that may be changed.
pub(crate) fn replace(
    bytes: &[u8],
    old: &str,
    new: &str,
    all: bool,
    seen: Option<&[(u64, u64)]>,
) -> Result<Changed, Unmatched> {
    let text = Normal::of(bytes);
    let (old, new) = (normal(old), normal_as(new, &text));
    let starts: Vec<usize> = memchr::memmem::find_iter(&text.bytes, old.as_bytes()).collect();
    if starts.is_empty() {
        return Err(Unmatched::Nowhere);
    }
    let mut counter = LineCounter::new(&text.bytes);
    let lines: Vec<u64> = starts.iter().map(|start| counter.line(*start)).collect();
    if starts.len() > 1 && !all {
        return Err(Unmatched::Often(lines));
    }
    let within = |text: &str| memchr::memchr_iter(b'\n', text.as_bytes()).count() as u64;
    let height = |text: &str| within(text.strip_suffix('\n').unwrap_or(text)) + 1;
    if let Some(seen) = seen {
        for line in &lines {
            let last = line + height(&old) - 1;
            let inside = |range: &&(u64, u64)| range.0 <= *line && last <= range.1;
            if !seen.iter().any(|range| inside(&range)) {
                return Err(Unmatched::Unseen(*line, last));
            }
        }
    }
    let (head, tail) = shared(&old, &new);
    let (old_part, new_part) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    let mut changed = Vec::with_capacity(bytes.len());
    let mut from = 0;
    for start in &starts {
        let begin = text.original(start + head);
        let end = text.original(start + head + old_part.len());
        changed.extend_from_slice(&bytes[from..begin]);
        let crlf = text.crlf_near(start + head, start + old.len());
        push(&mut changed, new_part, crlf);
        from = end;
    }
    changed.extend_from_slice(&bytes[from..]);
    let grown = i128::from(within(&new)) - i128::from(within(&old));
    let at = lines
        .iter()
        .enumerate()
        .map(|(index, line)| u64::try_from(i128::from(*line) + grown * index as i128).unwrap_or(1))
        .collect();
    let span = (within(&old), within(&new));
    Ok(Changed { bytes: changed, at, spans: vec![span; lines.len()] })
}

/// The lines from a little before `line` on, for showing.
pub(crate) fn around(bytes: &[u8], line: u64, height: u64) -> (u64, Vec<String>) {
    let first = line.saturating_sub(3).max(1);
    let count = (line - first + height + 3).min(12);
    let shown = read::lines(bytes).skip(first as usize - 1).take(count as usize);
    let text = |line: &[u8]| {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = String::from_utf8_lossy(&line[..line.len().min(800)]);
        text.chars().take(200).collect()
    };
    (first, shown.map(text).collect())
}

/// Bytes with a line feed at the end of each line, and the way back.
struct Normal {
    bytes: Vec<u8>,
    /// Places, in `bytes`, of line feeds before which a carriage return was left out.
    removed: Vec<usize>,
    feeds: usize,
}

impl Normal {
    fn of(original: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(original.len());
        let mut removed = Vec::new();
        let mut from = 0;
        let mut feeds = 0;
        for feed in memchr::memchr_iter(b'\n', original) {
            feeds += 1;
            if feed > from && original[feed - 1] == b'\r' {
                bytes.extend_from_slice(&original[from..feed - 1]);
                removed.push(bytes.len());
                from = feed;
            }
        }
        bytes.extend_from_slice(&original[from..]);
        Self { bytes, removed, feeds }
    }

    /// The place in the file of a place in `bytes`; of a line's end, the place of its first byte.
    fn original(&self, place: usize) -> usize {
        place + self.removed.partition_point(|removed| *removed < place)
    }

    /// Whether a line that is put here should end with CRLF: as the lines do that it replaces, or
    /// as most do.
    fn crlf_near(&self, start: usize, end: usize) -> bool {
        let here = |places: &[usize]| {
            places.partition_point(|place| *place < end)
                - places.partition_point(|place| *place < start)
        };
        let with = here(&self.removed);
        let feeds = memchr::memchr_iter(b'\n', &self.bytes[start.min(end)..end]).count();
        if feeds > 0 { with * 2 > feeds } else { self.removed.len() * 2 > self.feeds }
    }
}

fn normal(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// In a file without CRLF a carriage return in the new text is meant.
fn normal_as(new: &str, file: &Normal) -> String {
    if file.removed.is_empty() { new.to_owned() } else { normal(new) }
}

fn push(to: &mut Vec<u8>, text: &str, crlf: bool) {
    if !crlf {
        to.extend_from_slice(text.as_bytes());
        return;
    }
    for piece in text.split_inclusive('\n') {
        match piece.strip_suffix('\n') {
            Some(line) => {
                to.extend_from_slice(line.as_bytes());
                to.extend_from_slice(b"\r\n");
            }
            None => to.extend_from_slice(piece.as_bytes()),
        }
    }
}

/// Bytes at the beginning and at the end that both have.
fn shared(old: &str, new: &str) -> (usize, usize) {
    let (old, new) = (old.as_bytes(), new.as_bytes());
    let most = old.len().min(new.len());
    let mut head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    // Whole lines only, so that a character and a line's end are never cut in two.
    head = memchr::memrchr(b'\n', &old[..head]).map_or(0, |feed| feed + 1);
    let left = most - head;
    let mut tail =
        old.iter().rev().zip(new.iter().rev()).take(left).take_while(|(a, b)| a == b).count();
    let end = &old[old.len() - tail..];
    tail = memchr::memchr(b'\n', end).map_or(0, |feed| end.len() - feed);
    (head, tail)
}

struct LineCounter<'a> {
    bytes: &'a [u8],
    place: usize,
    line: u64,
}

impl<'a> LineCounter<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, place: 0, line: 1 }
    }

    /// Of places in rising order.
    fn line(&mut self, place: usize) -> u64 {
        self.line += memchr::memchr_iter(b'\n', &self.bytes[self.place..place]).count() as u64;
        self.place = place;
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(bytes: &[u8], old: &str, new: &str) -> Vec<u8> {
        replace(bytes, old, new, true, None).unwrap().bytes
    }

    #[test]
    fn line_ends_that_are_not_replaced_stay() {
        let table: &[(&[u8], &str, &str, &[u8])] = &[
            (b"a\r\nb\r\nc\r\n", "a\nb", "a\nB", b"a\r\nB\r\nc\r\n"),
            (b"a\r\nb\nc\r\n", "a\nb\nc", "a\nb\nd", b"a\r\nb\nd\r\n"),
            (b"a\r\nb\nc\r\n", "a\nb\nc\n", "x\nb\nc\n", b"x\r\nb\nc\r\n"),
            (b"a\r\nb\r\n", "b", "b\nnew", b"a\r\nb\r\nnew\r\n"),
            (b"a\nb\n", "a\n", "", b"b\n"),
            (b"a\r\nb\r\n", "a\n", "", b"b\r\n"),
            (b"a\r\nb", "a\r\nb", "c\r\nb", b"c\r\nb"),
            (b"one\ntwo", "two", "2\r\n", b"one\n2\r\n"),
            (b"\xefx\xff", "x", "y", b"\xefy\xff"),
            (b"aaa", "a", "bb", b"bbbbbb"),
            (b"a\rb\n", "a\rb", "c", b"c\n"),
            ("é\nä".as_bytes(), "é", "è", "è\nä".as_bytes()),
        ];
        for (bytes, old, new, expected) in table {
            let shown = String::from_utf8_lossy(bytes);
            assert_eq!(changed(bytes, old, new), *expected, "{shown:?} {old:?} {new:?}");
        }
    }

    #[test]
    fn what_does_not_match_once_is_told() {
        let once = |old, seen: Option<&[(u64, u64)]>| replace(b"a\nb\na\n", old, "x", false, seen);
        assert_eq!(once("c", None), Err(Unmatched::Nowhere));
        assert_eq!(once("a", None), Err(Unmatched::Often(vec![1, 3])));
        assert_eq!(once("b", Some(&[(1, 1), (3, 3)])), Err(Unmatched::Unseen(2, 2)));
        assert_eq!(once("b\n", Some(&[(2, 2)])).unwrap().at, [2]);
        assert_eq!(once("a\nb", Some(&[(2, 3)])), Err(Unmatched::Unseen(1, 2)));
    }

    #[test]
    fn lines_are_told_as_they_are_afterwards() {
        let changed = replace(b"a\nb\na\n", "a", "1\n2", true, None).unwrap();
        assert_eq!(changed.bytes, b"1\n2\nb\n1\n2\n");
        assert_eq!(changed.at, [1, 4]);
        assert_eq!(
            around(&changed.bytes, 4, 2),
            (1, ["1", "2", "b", "1", "2"].map(String::from).to_vec())
        );
    }
}

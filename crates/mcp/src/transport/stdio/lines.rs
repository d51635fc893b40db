//! Lines of a bounded length out of a stream that may send anything.

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

/// So much of a line that is too long is kept of each end.
const KEPT: usize = 4_096;

/// A line, without its line feed.
pub(crate) enum Line<'a> {
    /// Within the bound.
    Whole(&'a [u8]),
    /// Too long; the rest was read and dropped.
    Cut {
        /// How it begins.
        head: &'a [u8],
        /// How it ends.
        tail: &'a [u8],
    },
}

/// Reads lines.
pub(crate) struct Lines<R> {
    reader: R,
    longest: usize,
    line: Vec<u8>,
    tail: Vec<u8>,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    pub(crate) fn new(reader: R, longest: usize) -> Self {
        Self { reader, longest, line: Vec::new(), tail: Vec::new() }
    }

    /// The next line; `None` at the end. What stands there without a line feed is a line too.
    pub(crate) async fn next(&mut self) -> std::io::Result<Option<Line<'_>>> {
        self.line.clear();
        // One long answer should not keep its memory for as long as the server lives.
        self.line.shrink_to(1024 * 1024);
        let bound = self.longest as u64 + 1;
        if (&mut self.reader).take(bound).read_until(b'\n', &mut self.line).await? == 0 {
            return Ok(None);
        }
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
            return Ok(Some(Line::Whole(&self.line)));
        }
        if self.line.len() <= self.longest {
            return Ok(Some(Line::Whole(&self.line)));
        }
        self.tail.clear();
        self.line.truncate(KEPT);
        let mut part = Vec::new();
        loop {
            part.clear();
            let read = (&mut self.reader).take(65_536).read_until(b'\n', &mut part).await?;
            let ends = read == 0 || part.last() == Some(&b'\n');
            self.tail.extend_from_slice(part.strip_suffix(b"\n").unwrap_or(&part));
            let surplus = self.tail.len().saturating_sub(KEPT);
            self.tail.drain(..surplus);
            if ends {
                return Ok(Some(Line::Cut { head: &self.line, tail: &self.tail }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(text: &[u8], longest: usize) -> Vec<String> {
        let mut lines = Lines::new(text, longest);
        let mut seen = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            seen.push(match line {
                Line::Whole(line) => String::from_utf8_lossy(line).into_owned(),
                Line::Cut { head, tail } => format!("cut {} {}", head.len(), tail.len()),
            });
        }
        seen
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_does_not_hide_the_next() {
        let text = [b"a\n".as_slice(), &[b'x'; 10_000], b"\nb\nc"].concat();
        assert_eq!(read(&text, 100).await, ["a", "cut 101 4096", "b", "c"]);
        assert_eq!(read(b"12345\n123456\n", 5).await, ["12345", "cut 6 0"]);
    }
}

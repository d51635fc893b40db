//! Takes bytes apart into lines, none of which may be longer than a bound.

/// Bytes that were received and not yet taken as lines.
#[derive(Debug)]
pub(super) struct Lines {
    bytes: Vec<u8>,
    /// Where the first line that was not taken begins.
    start: usize,
    /// How far newlines have been looked for.
    looked: usize,
    longest: usize,
    /// The beginning of a line that is too long, while the rest of it is thrown away.
    dropping: Option<Vec<u8>>,
}

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// All of it, without the newline.
    Whole(&'a [u8]),
    /// Longer than the bound; only its beginning is left.
    TooLong(Vec<u8>),
}

impl Lines {
    /// Lines of at most `longest` bytes.
    pub(super) fn new(longest: usize) -> Self {
        Self { bytes: Vec::new(), start: 0, looked: 0, longest, dropping: None }
    }

    /// Where to put what is received next. Lines that were taken are forgotten.
    pub(super) fn space(&mut self) -> &mut Vec<u8> {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.looked -= self.start;
            self.start = 0;
        }
        if self.bytes.is_empty() && self.bytes.capacity() > 1 << 20 {
            self.bytes = Vec::new();
        }
        &mut self.bytes
    }

    /// The next complete line.
    pub(super) fn next(&mut self) -> Option<Line<'_>> {
        let new = &self.bytes[self.looked..];
        // `contains` looks at many bytes at a time; most pieces of a long line have no newline.
        let found = new.contains(&b'\n').then(|| new.iter().position(|&byte| byte == b'\n'));
        let Some(length) = found.flatten() else {
            self.looked = self.bytes.len();
            if self.dropping.is_some() || self.looked - self.start > self.longest {
                let beginning = self.beginning(self.looked);
                self.dropping.get_or_insert(beginning);
                self.bytes.clear();
                (self.start, self.looked) = (0, 0);
            }
            return None;
        };
        let line = self.start..self.looked + length;
        let too_long = match self.dropping.take() {
            None if line.len() > self.longest => Some(self.beginning(line.end)),
            dropped => dropped,
        };
        self.looked += length + 1;
        self.start = self.looked;
        Some(match too_long {
            Some(beginning) => Line::TooLong(beginning),
            None => Line::Whole(&self.bytes[line]),
        })
    }

    fn beginning(&self, end: usize) -> Vec<u8> {
        self.bytes[self.start..end].iter().copied().take(64).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(pieces: &[&[u8]], longest: usize) -> Vec<Vec<u8>> {
        let mut lines = Lines::new(longest);
        let mut taken = Vec::new();
        for piece in pieces {
            lines.space().extend_from_slice(piece);
            while let Some(line) = lines.next() {
                taken.push(match line {
                    Line::Whole(bytes) => bytes.to_vec(),
                    Line::TooLong(beginning) => [b"!", &beginning[..]].concat(),
                });
            }
        }
        taken
    }

    #[test]
    fn lines_come_whole_however_they_are_cut() {
        let text = b"one\n\ntwo\nthree\n";
        for cut in 0..text.len() {
            let (head, tail) = text.split_at(cut);
            let expected: [&[u8]; 4] = [b"one", b"", b"two", b"three"];
            assert_eq!(lines_of(&[head, tail], 10), expected, "cut at {cut}");
        }
        assert_eq!(lines_of(&[b"unfinished"], 10), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn a_line_that_is_too_long_costs_only_itself() {
        let expected: [&[u8]; 3] = [b"a", b"!123456", b"b"];
        assert_eq!(lines_of(&[b"a\n123456\nb\n"], 5), expected);
        assert_eq!(lines_of(&[b"a\n1234", b"56", b"789", b"0\nb\n"], 5), expected);
        let kept = lines_of(&[b"a\n", &[b'x'; 1000], &[b'y'; 1000], b"\nb\n"], 100);
        assert_eq!(kept[1].len(), 65);
    }

    #[test]
    fn a_line_that_never_ends_is_not_kept() {
        let mut lines = Lines::new(1000);
        for _ in 0..1000 {
            lines.space().extend_from_slice(&[b'x'; 500]);
            assert_eq!(lines.next(), None);
        }
        assert!(lines.space().capacity() < 10_000);
    }
}

//! What a script prints: all of it in `output.txt` up to a bound, the start and the end in memory
//! for the answer.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;

/// The output of a script while it runs.
#[derive(Debug)]
pub(crate) struct Output {
    file: File,
    file_limit: u64,
    in_file: u64,
    fault: Option<String>,
    cut: bool,
    characters: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    printed: u64,
    errors: VecDeque<u8>,
    errors_total: u64,
}

/// Bytes of standard error that are kept for the answer.
const ERROR_BYTES: usize = 4096;

/// What is shown of an output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Nothing was printed.
    Nothing,
    /// All of it.
    All(String),
    /// It was given out as it came.
    Elsewhere,
    /// Start and end.
    Cut {
        /// First characters.
        head: String,
        /// Last characters.
        tail: String,
        /// Bytes in all.
        total: u64,
    },
}

impl Output {
    /// `characters`: how many are shown at most. `file_limit`: bytes that go to the file.
    pub(crate) fn new(file: File, characters: usize, file_limit: u64) -> Self {
        Self {
            file,
            file_limit,
            in_file: 0,
            fault: None,
            cut: false,
            characters,
            head: Vec::new(),
            tail: VecDeque::new(),
            printed: 0,
            errors: VecDeque::new(),
            errors_total: 0,
        }
    }

    /// Takes a piece of standard output.
    pub(crate) fn print(&mut self, piece: &[u8]) {
        self.save(piece);
        self.printed += piece.len() as u64;
        // A character has at most four bytes.
        let room = (self.characters * 4).saturating_sub(self.head.len());
        let (first, rest) = piece.split_at(room.min(piece.len()));
        self.head.extend_from_slice(first);
        keep_last(&mut self.tail, rest, self.characters * 4);
    }

    /// Takes a piece of standard error; it stands in the file only, unless the script fails
    /// without a traceback.
    pub(crate) fn complain(&mut self, piece: &[u8]) {
        self.save(piece);
        self.errors_total += piece.len() as u64;
        keep_last(&mut self.errors, piece, ERROR_BYTES);
    }

    fn save(&mut self, piece: &[u8]) {
        if self.fault.is_some() || self.cut {
            return;
        }
        let room = usize::try_from(self.file_limit - self.in_file).unwrap_or(usize::MAX);
        let fits = &piece[..room.min(piece.len())];
        let mut written = self.file.write_all(fits);
        self.in_file += fits.len() as u64;
        if written.is_ok() && fits.len() < piece.len() {
            self.cut = true;
            written = writeln!(
                self.file,
                "\n[cut here: a script's output is kept up to {} bytes]",
                self.file_limit
            );
        }
        if let Err(error) = written {
            self.fault = Some(error.to_string());
        }
    }

    /// What the disk did not take, if it did not take everything.
    pub(crate) fn lost(&self) -> Option<String> {
        self.fault.as_ref().map(|fault| format!("output.txt: {fault}"))
    }

    /// That the file is at its bound, if it is.
    pub(crate) fn bounded(&self) -> Option<String> {
        self.cut.then(|| format!("output.txt holds the first {} bytes only", self.file_limit))
    }

    /// What is shown of standard output; `elsewhere`: it has been shown already.
    pub(crate) fn shown(&self, elsewhere: bool) -> Shown {
        if self.printed == 0 {
            return Shown::Nothing;
        }
        if elsewhere {
            return Shown::Elsewhere;
        }
        let head = String::from_utf8_lossy(&self.head);
        if self.printed == self.head.len() as u64 && head.chars().count() <= self.characters {
            return Shown::All(head.into_owned());
        }
        let half = self.characters / 2;
        let end: Vec<u8> = if self.tail.len() >= half * 4 {
            self.tail.iter().copied().collect()
        } else {
            let from_head = (half * 4 - self.tail.len()).min(self.head.len());
            let start = &self.head[self.head.len() - from_head..];
            start.iter().copied().chain(self.tail.iter().copied()).collect()
        };
        Shown::Cut {
            head: head.chars().take(half).collect(),
            tail: last_characters(&end, half),
            total: self.printed,
        }
    }

    /// The end of standard error, and how much there was in all.
    pub(crate) fn errors(&self) -> (String, u64) {
        let bytes: Vec<u8> = self.errors.iter().copied().collect();
        (last_characters(&bytes, ERROR_BYTES), self.errors_total)
    }
}

fn keep_last(kept: &mut VecDeque<u8>, piece: &[u8], limit: usize) {
    let piece = &piece[piece.len().saturating_sub(limit)..];
    let over = (kept.len() + piece.len()).saturating_sub(limit);
    kept.drain(..over.min(kept.len()));
    kept.extend(piece);
}

/// The last characters of a piece of text that may begin in the middle of one.
fn last_characters(bytes: &[u8], count: usize) -> String {
    let start = bytes.iter().take(3).take_while(|&&byte| byte & 0xC0 == 0x80).count();
    let text = String::from_utf8_lossy(&bytes[start..]);
    let skip = text.chars().count().saturating_sub(count);
    text.chars().skip(skip).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(characters: usize, limit: u64) -> (tempfile::TempDir, Output) {
        let folder = tempfile::tempdir().unwrap();
        let file = File::create(folder.path().join("output.txt")).unwrap();
        (folder, Output::new(file, characters, limit))
    }

    #[test]
    fn a_short_output_is_shown_whole() {
        let (folder, mut output) = output(10, 1000);
        assert_eq!(output.shown(false), Shown::Nothing);
        output.complain(b"warning\n");
        assert_eq!(output.shown(false), Shown::Nothing);
        output.print("é".as_bytes());
        output.print("123456789".as_bytes());
        assert_eq!(output.shown(false), Shown::All("é123456789".into()));
        assert_eq!(output.errors(), ("warning\n".into(), 8));
        let kept = std::fs::read_to_string(folder.path().join("output.txt")).unwrap();
        assert_eq!(kept, "warning\né123456789");
        assert_eq!((output.lost(), output.bounded()), (None, None));
    }

    #[test]
    fn a_long_output_shows_start_and_end() {
        for size in [11, 30, 41, 60, 1000] {
            let (_folder, mut output) = output(10, 1 << 20);
            let text: String = (0..size).map(|n| char::from(b'a' + (n % 26) as u8)).collect();
            for piece in text.as_bytes().chunks(7) {
                output.print(piece);
            }
            let expected = Shown::Cut {
                head: "abcde".into(),
                tail: text[size - 5..].into(),
                total: size as u64,
            };
            assert_eq!(output.shown(false), expected, "{size}");
        }
    }

    #[test]
    fn no_character_is_torn() {
        for prefix in ["", "a", "ab", "abc"] {
            let (_folder, mut output) = output(10, 1 << 20);
            output.print(prefix.as_bytes());
            output.print("日本語".repeat(300).as_bytes());
            let Shown::Cut { head, tail, .. } = output.shown(false) else { panic!() };
            assert_eq!((head.chars().count(), tail.as_str()), (5, "本語日本語"));
            assert!(!head.contains('\u{fffd}'));
        }
    }

    #[test]
    fn the_file_is_bounded_and_says_so() {
        let (folder, mut output) = output(10, 100);
        for _ in 0..1000 {
            output.print(b"0123456789");
        }
        let kept = std::fs::read_to_string(folder.path().join("output.txt")).unwrap();
        assert_eq!(&kept[..100], "0123456789".repeat(10));
        assert_eq!(&kept[100..], "\n[cut here: a script's output is kept up to 100 bytes]\n");
        assert_eq!(output.bounded().unwrap(), "output.txt holds the first 100 bytes only");
        assert!(output.head.len() <= 40 && output.tail.len() <= 40);
    }
}

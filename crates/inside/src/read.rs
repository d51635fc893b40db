//! Pages of files, for a model: text by lines, images by what they are, everything else described.
//!
//! A small file is read whole, so that its lines can be counted and its content told; of a large
//! one no more is read than the page needs.

use std::io::{self, Read, Seek, SeekFrom};

use crate::folder::Content;
use crate::notebook;
use crate::request::{Fault, Page, Refusal, Reply};
use crate::root::{Root, explain};
use crate::token::{self, Token};

/// Characters of a line that are shown.
const LONGEST_LINE: usize = 2000;
/// Bytes of a page.
const LONGEST_PAGE: usize = 100_000;
/// Longest piece of a file that is fetched at once.
const LONGEST_FETCH: u64 = 32 << 20;
/// Largest image that models take.
const LARGEST_IMAGE: u64 = 5 << 20;
/// How far into a file a NUL byte makes it binary.
const LOOKED_AT: usize = 8 << 10;
/// Read at once from a large file.
const PIECE: usize = 256 << 10;

pub(crate) fn read(root: &Root, path: &str, offset: u64, limit: u64) -> Result<Reply, Refusal> {
    let (found, _) = root.file(path)?;
    let (meta, mut content) = root.open(&found)?;
    let real = found.real;
    let failed = |error| explain(&real, &error);
    let first = offset.max(1);
    let Some(bytes) = token::small(&meta, content.as_mut()).map_err(failed)? else {
        let mut head = vec![0; LOOKED_AT];
        content.seek(SeekFrom::Start(0)).map_err(failed)?;
        let length = fill(content.as_mut(), &mut head).map_err(failed)?;
        head.truncate(length);
        let token = Token::of_meta(&meta);
        if let Some(what) = binary(&head) {
            return Ok(Reply::Page(Page::Binary { real, token, size: meta.size, what }));
        }
        content.seek(SeekFrom::Start(0)).map_err(failed)?;
        let mut page = Lines::new(first, limit);
        let more = scan(content.as_mut(), &mut page).map_err(failed)?;
        let total = (!more).then_some(page.number);
        return Ok(Reply::Page(page.finish(real, token, meta.size, total, more)));
    };
    let token = Token::of_bytes(&bytes, &meta);
    let size = bytes.len() as u64;
    if let Some(mime) = image(&bytes) {
        if size > LARGEST_IMAGE {
            let what = format!(
                "an image ({mime}), larger than the {} MB that can be shown; make a smaller one \
                 with Bash and Read that",
                LARGEST_IMAGE >> 20
            );
            return Ok(Reply::Page(Page::Binary { real, token, size, what }));
        }
        return Ok(Reply::Page(Page::Image { real, token, mime: mime.to_owned(), bytes }));
    }
    let mut notes = Vec::new();
    let text;
    let shown: &[u8] = if let Some(decoded) = utf_16(&bytes) {
        notes
            .push("the file is UTF-16; it is shown decoded and cannot be changed with Edit".into());
        text = decoded.into_bytes();
        &text
    } else if let Some(what) = binary(&bytes[..bytes.len().min(LOOKED_AT)]) {
        return Ok(Reply::Page(Page::Binary { real, token, size, what }));
    } else if let Some(cells) = real.ends_with(".ipynb").then(|| notebook::text(&bytes)).flatten() {
        notes.push(
            "a notebook, shown by cells; the line numbers are of what is shown, and Edit works on \
             the JSON of the file"
                .into(),
        );
        text = cells.into_bytes();
        &text
    } else {
        bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes)
    };
    let mut page = Lines::new(first, limit);
    page.plain = notes.is_empty();
    page.notes = notes;
    let mut more = false;
    for line in lines(shown) {
        if !page.take(line) {
            more = true;
            break;
        }
    }
    let total = count(shown);
    Ok(Reply::Page(page.finish(real, token, size, Some(total), more)))
}

pub(crate) fn fetch(root: &Root, path: &str, from: u64, length: u64) -> Result<Reply, Refusal> {
    let (found, _) = root.file(path)?;
    let (meta, mut content) = root.open(&found)?;
    let failed = |error| explain(&found.real, &error);
    content.seek(SeekFrom::Start(from)).map_err(failed)?;
    let mut bytes = Vec::new();
    content.take(length.min(LONGEST_FETCH)).read_to_end(&mut bytes).map_err(failed)?;
    Ok(Reply::Bytes { bytes, size: meta.size })
}

/// The lines of a page, as they come.
struct Lines {
    first: u64,
    limit: u64,
    /// Of the line that came last.
    number: u64,
    lines: Vec<String>,
    bytes: usize,
    cut: u64,
    lossy: bool,
    crlf: u64,
    plain: bool,
    notes: Vec<String>,
}

impl Lines {
    fn new(first: u64, limit: u64) -> Self {
        Self {
            first,
            limit,
            number: 0,
            lines: Vec::new(),
            bytes: 0,
            cut: 0,
            lossy: false,
            crlf: 0,
            plain: true,
            notes: Vec::new(),
        }
    }

    /// Takes the next line, with or without its end; false if the page is full and it was not taken.
    fn take(&mut self, line: &[u8]) -> bool {
        if self.number + 1 < self.first {
            self.number += 1;
            return true;
        }
        let full = self.lines.len() as u64 >= self.limit || self.bytes > LONGEST_PAGE;
        if full {
            return false;
        }
        self.number += 1;
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let plain = line.strip_suffix(b"\r").unwrap_or(line);
        self.crlf += u64::from(plain.len() < line.len());
        // Of the longest possible characters so many bytes are enough.
        let part = &plain[..plain.len().min(LONGEST_LINE * 4 + 4)];
        let text = String::from_utf8_lossy(part);
        self.lossy |= matches!(text, std::borrow::Cow::Owned(_)) && part.len() == plain.len();
        let mut text = match text.char_indices().nth(LONGEST_LINE) {
            Some((at, _)) => text[..at].to_owned(),
            None => text.into_owned(),
        };
        if text.len() < plain.len() && text.chars().count() >= LONGEST_LINE {
            self.cut += 1;
            text.push_str(&format!("… [cut: the line has {} bytes]", plain.len()));
        }
        self.bytes += text.len() + 8;
        self.lines.push(text);
        true
    }

    fn finish(
        mut self,
        real: String,
        token: Token,
        size: u64,
        total: Option<u64>,
        more: bool,
    ) -> Page {
        if self.lossy {
            self.notes.push(
                "some bytes are not UTF-8 and shown as \u{FFFD}; Edit leaves them as they are"
                    .to_owned(),
            );
        }
        if self.crlf > 0 {
            let all = self.crlf == self.lines.len() as u64;
            let which = if all { "lines end" } else { "some lines end" };
            self.notes.push(format!("{which} with CRLF; Edit keeps that"));
        }
        Page::Text {
            real,
            token,
            size,
            lines: self.lines,
            first: self.first,
            total,
            more,
            plain: self.plain,
            cut: (LONGEST_LINE as u64, self.cut),
            notes: self.notes,
        }
    }
}

/// Gives a large file's lines to the page; whether there are more.
fn scan(content: &mut dyn Content, page: &mut Lines) -> io::Result<bool> {
    let mut buffer = vec![0u8; PIECE];
    let mut line: Vec<u8> = Vec::new();
    // Longer than this a line is only counted.
    let most = LONGEST_LINE * 4 + 64;
    let mut skipped = 0usize;
    loop {
        let length = content.read(&mut buffer)?;
        if length == 0 {
            return Ok(!line.is_empty() && !page.take(&line));
        }
        let mut piece = &buffer[..length];
        while let Some(end) = memchr::memchr(b'\n', piece) {
            let (head, rest) = piece.split_at(end + 1);
            piece = rest;
            let taken = if line.is_empty() && skipped == 0 {
                page.take(&head[..head.len().min(most)])
            } else {
                line.extend_from_slice(&head[..head.len().min(most.saturating_sub(line.len()))]);
                page.take(&line)
            };
            line.clear();
            skipped = 0;
            if !taken {
                return Ok(true);
            }
        }
        let room = most.saturating_sub(line.len()).min(piece.len());
        line.extend_from_slice(&piece[..room]);
        skipped += piece.len() - room;
    }
}

fn fill(content: &mut dyn Content, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match content.read(&mut buffer[filled..])? {
            0 => break,
            length => filled += length,
        }
    }
    Ok(filled)
}

/// Lines with their ends. Only a line feed ends one, as in editors and in searches.
pub(crate) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n')
}

pub(crate) fn count(bytes: &[u8]) -> u64 {
    let ends = memchr::memchr_iter(b'\n', bytes).count() as u64;
    ends + u64::from(bytes.last().is_some_and(|last| *last != b'\n'))
}

/// What a file is that is no text.
fn binary(head: &[u8]) -> Option<String> {
    let known: [(&[u8], &str); 9] = [
        (b"\x7fELF", "a program"),
        (
            b"PK\x03\x04",
            "a ZIP archive (or a document packed in one); look into it with `unzip -l`",
        ),
        (b"\x1f\x8b", "gzip data; look into it with `zcat`"),
        (
            b"%PDF-",
            "a PDF document; extract its text with Bash, as with `pdftotext -layout FILE -`",
        ),
        (b"SQLite format 3\0", "an SQLite database; look into it with `sqlite3`"),
        (b"\xfd7zXZ\0", "xz data; look into it with `xzcat`"),
        (b"BM", "an image (BMP); convert it to PNG with Bash and Read that"),
        (b"II*\0", "an image (TIFF); convert it to PNG with Bash and Read that"),
        (b"MM\0*", "an image (TIFF); convert it to PNG with Bash and Read that"),
    ];
    let with_nul = head.contains(&0);
    let named = known.iter().find(|(magic, _)| head.starts_with(magic));
    match named {
        Some((magic, what)) if with_nul || magic[0] == b'%' => Some((*what).to_owned()),
        None if with_nul && utf_16_mark(head).is_none() => {
            Some("binary data; look at it with Bash, as with `file` or `xxd`".to_owned())
        }
        _ => None,
    }
}

/// The kind of an image that models take.
fn image(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// Whether the first byte is the higher one.
pub(crate) fn utf_16_mark(bytes: &[u8]) -> Option<bool> {
    match bytes {
        [0xff, 0xfe, ..] => Some(false),
        [0xfe, 0xff, ..] => Some(true),
        _ => None,
    }
}

fn utf_16(bytes: &[u8]) -> Option<String> {
    let high_first = utf_16_mark(bytes)?;
    let units = bytes[2..].chunks_exact(2).map(|pair| {
        let pair = [pair[0], pair[1]];
        if high_first { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }
    });
    let text: Result<String, _> = char::decode_utf16(units).collect();
    text.ok()
}

/// Where a file is not there or cannot be read as text, for those who change it.
pub(crate) fn is_text(bytes: &[u8], real: &str) -> Result<(), Refusal> {
    let what = if utf_16_mark(bytes).is_some() && utf_16(bytes).is_some() && bytes.contains(&0) {
        "it is UTF-16; convert it with Bash (`iconv`), or Write it anew"
    } else if bytes[..bytes.len().min(LOOKED_AT)].contains(&0) {
        "it is binary; change it with a program that knows its format"
    } else {
        return Ok(());
    };
    Err(Refusal::new(Fault::Kind, format!("{real} cannot be changed with Edit: {what}")).at(real))
}

//! What is kept of an output stream, and the file that takes the whole of it.

use std::collections::VecDeque;
use std::io::Write;

use serde::{Deserialize, Serialize};

use crate::root::Root;

/// Longest file of output; what comes after it is not kept.
const LONGEST: u64 = 256 << 20;

/// The beginning and the end of an output stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    /// First bytes.
    pub head: Vec<u8>,
    /// Last bytes; empty when all of it is in `head`.
    pub tail: Vec<u8>,
    /// Bytes in all.
    pub total: u64,
}

/// Keeps the beginning and the end.
pub(crate) struct Keep {
    most: (usize, usize),
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl Keep {
    pub(crate) fn new(most: (u64, u64)) -> Self {
        let bound = |bytes: u64| bytes.min(8 << 20) as usize;
        let most = (bound(most.0), bound(most.1));
        Self { most, head: Vec::new(), tail: VecDeque::new(), total: 0 }
    }

    pub(crate) fn take(&mut self, piece: &[u8]) {
        self.total += piece.len() as u64;
        let room = self.most.0.saturating_sub(self.head.len()).min(piece.len());
        let (first, rest) = piece.split_at(room);
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.most.1)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(self.most.1);
        self.tail.drain(..over.min(self.tail.len()));
        self.tail.extend(rest);
    }

    pub(crate) fn finish(self) -> Captured {
        Captured { head: self.head, tail: self.tail.into(), total: self.total }
    }
}

/// Takes the whole output of both streams, in the order in which it came.
pub(crate) struct Whole<'a> {
    root: &'a Root,
    path: &'a str,
    /// What came before there was a file.
    before: Vec<u8>,
    /// How much may come before there is one.
    free: usize,
    file: Option<Box<dyn Write + Send>>,
    size: u64,
    fault: Option<String>,
}

impl<'a> Whole<'a> {
    /// The file is made once more than `free` bytes came; at once, if `free` is 0.
    pub(crate) fn new(root: &'a Root, path: &'a str, free: usize) -> Self {
        let fault = None;
        let mut whole = Self { root, path, before: Vec::new(), free, file: None, size: 0, fault };
        if free == 0 {
            whole.begin();
        }
        whole
    }

    pub(crate) fn take(&mut self, piece: &[u8]) {
        if self.fault.is_some() {
            return;
        }
        if self.file.is_none() {
            self.before.extend_from_slice(piece);
            if self.before.len() > self.free {
                self.begin();
            }
            return;
        }
        self.write(piece);
    }

    /// Path and size, if there is a file or there should be one.
    pub(crate) fn finish(self) -> Option<Result<(String, u64), String>> {
        match (self.fault, self.file) {
            (Some(fault), _) => Some(Err(fault)),
            (None, Some(_)) => Some(Ok((self.path.to_owned(), self.size))),
            (None, None) => None,
        }
    }

    fn begin(&mut self) {
        let made = self.root.find(self.path).and_then(|found| {
            let failed = |error| crate::root::explain(&found.real, &error);
            let mut folder = found.folder.clone();
            for name in &found.missing {
                folder = folder.make(name).map_err(failed)?;
            }
            folder.begin(&found.name).map_err(failed)
        });
        match made {
            Ok(file) => {
                self.file = Some(file);
                let before = std::mem::take(&mut self.before);
                self.write(&before);
            }
            Err(refusal) => self.fault = Some(refusal.message),
        }
    }

    fn write(&mut self, piece: &[u8]) {
        let Some(file) = &mut self.file else { return };
        let room = LONGEST.saturating_sub(self.size).min(piece.len() as u64) as usize;
        if room == 0 && !piece.is_empty() {
            self.fault = Some(format!(
                "{} holds the first {} MB only; send less to the output",
                self.path,
                LONGEST >> 20
            ));
            return;
        }
        match file.write_all(&piece[..room]) {
            Ok(()) => self.size += room as u64,
            Err(error) => {
                self.fault = Some(format!("{} ends early: {error}", self.path));
            }
        }
    }
}

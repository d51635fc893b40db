//! What can be asked, and what can be answered. Plain data; paths are as the agent sees them.

use serde::{Deserialize, Serialize};

use crate::capture::Captured;
use crate::token::Token;

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Where a path really leads. Answered by [`Reply::Place`].
    Look {
        /// Absolute path.
        path: String,
    },
    /// A page of a file, prepared for reading. Answered by [`Reply::Page`].
    Read {
        /// Absolute path.
        path: String,
        /// First line, from 1.
        offset: u64,
        /// Lines at most.
        limit: u64,
    },
    /// Bytes of a file. Answered by [`Reply::Bytes`].
    Fetch {
        /// Absolute path.
        path: String,
        /// First byte.
        from: u64,
        /// Bytes at most.
        length: u64,
    },
    /// Replaces a file or makes one. Answered by [`Reply::Written`].
    Write {
        /// Absolute path.
        path: String,
        /// What is to stand in it.
        content: Vec<u8>,
        /// What the file must be now; `None`: it must not be there.
        known: Option<Token>,
        /// Whether `known` is looked at.
        compare: bool,
    },
    /// Replaces text in a file. Answered by [`Reply::Edited`].
    Edit {
        /// Absolute path.
        path: String,
        /// What the file must be now; `None` when it is not known.
        known: Option<Token>,
        /// Lines that may be changed, as inclusive ranges from 1; `None`: all.
        seen: Option<Vec<(u64, u64)>>,
        /// The text to find.
        old: String,
        /// What takes its place.
        new: String,
        /// Every place, not just a single one.
        all: bool,
    },
    /// Files whose paths match. Answered by [`Reply::Globbed`].
    Glob {
        /// The pattern, relative to `path`, or absolute.
        pattern: String,
        /// Absolute path of a folder.
        path: String,
        /// Paths at most.
        most: u64,
        /// Files that ignore rules hide, too.
        ignored: bool,
        /// What is never looked at, as lines of an ignore file at the root.
        barred: Vec<String>,
        /// Time after which what was found is answered.
        limit_ms: u64,
    },
    /// Lines that match. Answered by [`Reply::Grepped`].
    Grep(Search),
    /// Runs a program. Answered by [`Reply::Ran`].
    Run(Run),
}

/// A search through files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Search {
    /// The regular expression.
    pub pattern: String,
    /// Absolute path of a folder or a file.
    pub path: String,
    /// What is wanted of each file.
    pub shown: Shown,
    /// Globs that choose files, `!` in front excludes; separated by blanks or commas.
    pub glob: Option<String>,
    /// A type of files, as `rust`.
    pub kind: Option<String>,
    /// Lines shown before a match.
    pub before: u64,
    /// Lines shown after a match.
    pub after: u64,
    /// Whether case matters not.
    pub any_case: bool,
    /// Whether a match may go over lines.
    pub multiline: bool,
    /// Entries passed over.
    pub offset: u64,
    /// Entries at most; 0: as many as can be sent.
    pub most: u64,
    /// Files that ignore rules hide, too.
    pub ignored: bool,
    /// What is never looked at, as lines of an ignore file at the root.
    pub barred: Vec<String>,
    /// Time after which what was found is answered.
    pub limit_ms: u64,
}

/// What is wanted of each file that matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shown {
    /// The lines.
    Lines,
    /// Its path.
    Paths,
    /// Its path and the number of lines that match.
    Counts,
}

/// A program to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Absolute path of the current directory, anywhere.
    pub cwd: String,
    /// The whole environment.
    pub environment: Vec<(String, String)>,
    /// Its standard input.
    pub input: Vec<u8>,
    /// Time after which the whole tree is ended.
    pub limit_ms: Option<u64>,
    /// Bytes kept of the beginning and of the end of each stream.
    pub keep: (u64, u64),
    /// File below the root that takes the whole output when it is more than is kept, or always.
    pub whole: Option<(String, bool)>,
    /// Whether the standard input is instead the writing end of a pipe, on which the program may
    /// say where it ended up.
    pub reports: bool,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// See [`Request::Look`].
    Place {
        /// The path without links.
        real: String,
        /// Whether something is there, and whether it is a folder.
        folder: Option<bool>,
    },
    /// See [`Request::Read`].
    Page(Page),
    /// See [`Request::Fetch`].
    Bytes {
        /// The bytes.
        bytes: Vec<u8>,
        /// Size of the file.
        size: u64,
    },
    /// See [`Request::Write`].
    Written(Written),
    /// See [`Request::Edit`].
    Edited(Edited),
    /// See [`Request::Glob`].
    Globbed(Globbed),
    /// See [`Request::Grep`].
    Grepped(Grepped),
    /// See [`Request::Run`].
    Ran(Ran),
    /// It could not be done.
    Refused(Refusal),
}

/// Why something could not be done. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// What the caller can act on.
    pub fault: Fault,
    /// A fragment that says what to do.
    pub message: String,
    /// The path without links, where it is known.
    pub real: Option<String>,
}

/// What kind of refusal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// Nothing is there.
    Absent,
    /// The path leads out of the workspace, or is no absolute path.
    Outside,
    /// What is there is of another kind (a folder, a pipe, a device).
    Kind,
    /// The file must be read first.
    Unread,
    /// The file is not what it was.
    Changed,
    /// The text is not there, or more than once.
    Unmatched,
    /// The request cannot be right (a pattern that does not compile).
    Request,
    /// Not permitted by the system.
    Denied,
    /// The program is not there.
    NoProgram,
    /// Anything else.
    Failed,
}

impl Refusal {
    pub(crate) fn new(fault: Fault, message: impl Into<String>) -> Self {
        Self { fault, message: message.into(), real: None }
    }

    pub(crate) fn at(self, real: &str) -> Self {
        Self { real: Some(real.to_owned()), ..self }
    }
}

/// A page of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Page {
    /// Text.
    Text {
        /// The path without links.
        real: String,
        /// What the file is now.
        token: Token,
        /// Its size in bytes.
        size: u64,
        /// The lines, without their ends.
        lines: Vec<String>,
        /// Number of the first of them.
        first: u64,
        /// Lines in all, where they were counted.
        total: Option<u64>,
        /// Whether the file goes on after this page.
        more: bool,
        /// Whether the lines are those of the file, and not of something made from it.
        plain: bool,
        /// Longest part of a line that is shown, and how many lines were longer.
        cut: (u64, u64),
        /// What should be known about the bytes, in words.
        notes: Vec<String>,
    },
    /// An image that a model can look at.
    Image {
        /// The path without links.
        real: String,
        /// What the file is now.
        token: Token,
        /// Its MIME type.
        mime: String,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// Something that is no text.
    Binary {
        /// The path without links.
        real: String,
        /// What the file is now.
        token: Token,
        /// Its size in bytes.
        size: u64,
        /// What it is, in words, and what can be done.
        what: String,
    },
}

/// A file that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// The path without links.
    pub real: String,
    /// What the file is now.
    pub token: Token,
    /// Whether it was made.
    pub made: bool,
    /// Lines in it now.
    pub lines: u64,
}

/// A file that was edited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edited {
    /// The path without links.
    pub real: String,
    /// What the file is now.
    pub token: Token,
    /// Numbers of the lines, as they are now, at which a replacement begins.
    pub at: Vec<u64>,
    /// For each, lines before and after it.
    pub spans: Vec<(u64, u64)>,
    /// Lines in it now.
    pub lines: u64,
    /// The lines around the first replacement, as they are now, from this number on.
    pub around: (u64, Vec<String>),
}

/// What was not looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hidden {
    /// Folders and files that ignore rules hide.
    pub ignored: (u64, u64),
    /// A few of their paths.
    pub examples: Vec<String>,
    /// Links that were not followed.
    pub links: u64,
    /// Folders and files that could not be read.
    pub unreadable: u64,
    /// Folders and files that are barred.
    pub barred: u64,
    /// Binary files (searches only).
    pub binary: u64,
    /// The time was up before everything was looked at.
    pub out_of_time: bool,
}

/// Files that were found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Globbed {
    /// Paths, newest first, then by name.
    pub paths: Vec<String>,
    /// How many match in all.
    pub total: u64,
    /// How many would match in folders below, where the pattern names none.
    pub deeper: u64,
    /// What was not looked at.
    pub hidden: Hidden,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grepped {
    /// Whether a single file was searched.
    pub single: bool,
    /// The files, in order.
    pub files: Vec<Matches>,
    /// Entries in all (lines, paths or counts) that could be shown.
    pub total: u64,
    /// Files that match.
    pub matching_files: u64,
    /// Lines that match.
    pub matching_lines: u64,
    /// Files searched.
    pub searched: u64,
    /// Whether entries after these were left out because the answer would be too long.
    pub cut: bool,
    /// What was not looked at.
    pub hidden: Hidden,
}

/// The matches in one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matches {
    /// Its path.
    pub path: String,
    /// Lines that match.
    pub count: u64,
    /// The lines asked for.
    pub lines: Vec<Line>,
}

/// One line of a search's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Its number, from 1.
    pub number: u64,
    /// Whether it matches, or stands beside one that does.
    pub matches: bool,
    /// Its text, cut around the match where it is long.
    pub text: String,
}

/// A program that is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    /// How it ended.
    pub ending: Ending,
    /// Standard output.
    pub stdout: Captured,
    /// Standard error.
    pub stderr: Captured,
    /// From start to end.
    pub wall_ms: u64,
    /// What the program said about where it ended up.
    pub report: Vec<u8>,
    /// Processes that were left running and have been ended.
    pub left: u32,
    /// Path and size of the file with the whole output, or why there is none.
    pub whole: Option<Result<(String, u64), String>>,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// By itself.
    Exited(i32),
    /// By a signal.
    Signaled(i32),
    /// At its time limit; the whole tree was ended.
    TimedOut,
    /// Because nobody waits for it any more.
    Cancelled,
}

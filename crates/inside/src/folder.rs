//! What a file tree has to do, so that the same requests work on a disk and in memory.

use std::ffi::{OsStr, OsString};
use std::fmt::Debug;
use std::io::{self, Read, Seek, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// An open folder. Names are single components; no call follows a link.
pub trait Folder: Send + Sync + Debug {
    /// Names and kinds of what is in it.
    fn list(&self) -> io::Result<Vec<(OsString, Kind)>>;

    /// What a name is.
    fn look(&self, name: &OsStr) -> io::Result<Meta>;

    /// Where a link points.
    fn link(&self, name: &OsStr) -> io::Result<PathBuf>;

    /// Opens a folder in it.
    fn enter(&self, name: &OsStr) -> io::Result<Arc<dyn Folder>>;

    /// Makes a folder in it unless there is one, and opens it.
    fn make(&self, name: &OsStr) -> io::Result<Arc<dyn Folder>>;

    /// Opens a regular file for reading; never waits for anybody.
    fn open(&self, name: &OsStr) -> io::Result<(Meta, Box<dyn Content>)>;

    /// Puts `bytes` in the place of the regular file `was`, which keeps its identity as far as
    /// others can see it; without one, makes a file that must not be there.
    fn put(&self, name: &OsStr, was: Option<&Meta>, bytes: &[u8]) -> io::Result<Meta>;

    /// Makes a file that must not be there, to be written bit by bit.
    fn begin(&self, name: &OsStr) -> io::Result<Box<dyn Write + Send>>;

    /// Keeps others who use this call out until the answer is dropped.
    fn lock(&self) -> io::Result<Box<dyn Send>>;
}

/// The content of a file.
pub trait Content: Read + Seek + Send {}

impl<T: Read + Seek + Send> Content for T {}

/// What something in a folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A device.
    Device,
}

impl Kind {
    /// In words, with an article.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::File => "a file",
            Self::Folder => "a folder",
            Self::Link => "a link",
            Self::Pipe => "a named pipe",
            Self::Socket => "a socket",
            Self::Device => "a device",
        }
    }
}

/// What is known of something in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// What it is.
    pub kind: Kind,
    /// Its size.
    pub size: u64,
    /// When its content was changed, in nanoseconds since 1970.
    pub modified: i128,
    /// When anything about it was changed.
    pub changed: i128,
    /// Device and number.
    pub identity: (u64, u64),
    /// How many names it has.
    pub names: u64,
    /// Its mode bits.
    pub mode: u32,
    /// Its owner and group.
    pub owner: (u32, u32),
}

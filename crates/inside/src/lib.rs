//! Acts on files and programs where a workspace is, one request at a time.
//!
//! The same code runs in the server, for files on this host, and as a small static program inside a
//! sandbox, a container or a remote machine. It knows no policy and no tool: a [`Request`] says
//! what to do, a [`Reply`] what came of it, and nothing leads out of the [`Root`].

mod capture;
mod disk;
mod edit;
mod folder;
mod glob;
mod grep;
mod ignored;
mod kill;
mod nearest;
mod notebook;
mod read;
mod request;
mod root;
mod run;
mod serve;
mod token;
mod walk;
mod wire;
mod write;

pub use capture::Captured;
pub use disk::Disk;
pub use folder::{Content, Folder, Kind, Meta};
pub use request::{
    Edited, Ending, Fault, Globbed, Grepped, Hidden, Line, Matches, Page, Ran, Refusal, Reply,
    Request, Run, Search, Shown, Written,
};
pub use root::Root;
pub use serve::serve;
pub use token::{HASHED_UP_TO, Token};
pub use wire::{UNTIL_CLOSED, decode_reply, encode_request, main_of_the_program};

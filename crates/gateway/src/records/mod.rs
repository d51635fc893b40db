//! What a script leaves behind: `.agent/scripts/<id>/` in its workspace with `script.py`,
//! `calls.jsonl` and `output.txt`.
//!
//! The gateway writes them while the script runs; inside the sandbox `.agent` is read-only. The
//! workspace itself belongs to scripts, so everything in it may be a trap: nothing is opened by a
//! path that could lead through a link or out of it, every file is made anew, and a full disk is
//! an answer, not a crash.
//!
//! Bounds: arguments in `calls.jsonl` are cut at 4 KiB and summaries at 200 characters (the script
//! and the tool see all of them), `output.txt` at 256 MiB.

pub(crate) mod calls;
pub(crate) mod folder;
pub(crate) mod output;

pub(crate) use calls::{Calls, Line};
pub(crate) use folder::Folder;
pub(crate) use output::Output;

/// Bytes of arguments that are kept of a call.
pub(crate) const ARGUMENT_BYTES: usize = 4096;

/// Characters of a result that are kept of a call.
pub(crate) const SUMMARY_CHARACTERS: usize = 200;

/// Bytes of output that are kept of a script.
pub(crate) const OUTPUT_BYTES: u64 = 256 << 20;

//! What a file was: by its content, and where that would take too long, by what the system says.

use std::io::{self, Read};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::folder::{Content, Meta};

/// Files up to this size are compared by content.
pub const HASHED_UP_TO: u64 = 64 << 20;

/// What a file was when it was read or written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Token {
    /// The SHA-256 of its content.
    Content([u8; 32]),
    /// Size, number, and times of the last changes, for a file that is too large.
    Stamp {
        /// Its size.
        size: u64,
        /// Device and number.
        identity: (u64, u64),
        /// When its content was changed.
        modified: i128,
        /// When anything about it was changed.
        changed: i128,
    },
}

impl Token {
    pub(crate) fn of_bytes(bytes: &[u8], meta: &Meta) -> Self {
        if bytes.len() as u64 > HASHED_UP_TO {
            return Self::of_meta(meta);
        }
        Self::Content(Sha256::digest(bytes).into())
    }

    pub(crate) fn of_meta(meta: &Meta) -> Self {
        let Meta { size, identity, modified, changed, .. } = *meta;
        Self::Stamp { size, identity, modified, changed }
    }
}

/// The whole of a file, if it is not longer than is hashed.
pub(crate) fn small(meta: &Meta, content: &mut dyn Content) -> io::Result<Option<Vec<u8>>> {
    if meta.size > HASHED_UP_TO {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(meta.size as usize + 1);
    // It may grow meanwhile, and files of /proc say 0.
    content.take(HASHED_UP_TO + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= HASHED_UP_TO).then_some(bytes))
}

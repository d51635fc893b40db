//! Secrets of this `data_dir`: the key that questions' states are sealed with (a client may come
//! back with its answer after a restart, or to another process), and the key by which a person is
//! known where there are no tokens.

use std::path::Path;

use mcp::server::Seal;

use crate::key_file;

const SEAL: &str = "state.key";

/// The file that holds the person's key.
pub(crate) const PERSON: &str = "person.key";

/// The seal of this `data_dir`, which exists.
pub(crate) fn seal(data_dir: &Path) -> anyhow::Result<Seal> {
    Ok(Seal::with_key(key_file::key(data_dir, SEAL)?))
}

/// The key of the person whose `data_dir`, which exists, this is: 64 hexadecimal digits.
pub(crate) fn person(data_dir: &Path) -> anyhow::Result<String> {
    key_file::text(data_dir, PERSON)
}

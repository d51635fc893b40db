//! The key that questions' states are sealed with: a client may come back with its answer after a
//! restart, or to another process.

use std::path::Path;

use mcp::server::Seal;

use crate::key_file;

const NAME: &str = "state.key";

/// The seal of this `data_dir`, which exists.
pub(crate) fn seal(data_dir: &Path) -> anyhow::Result<Seal> {
    Ok(Seal::with_key(key_file::key(data_dir, NAME)?))
}

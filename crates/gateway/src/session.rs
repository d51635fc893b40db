//! Who calls, under which rules, in which workspace.

use std::path::Path;

/// One session of one principal under one profile.
#[derive(Debug)]
pub struct Session {}

impl Session {
    /// The workspace on this host.
    pub fn workspace(&self) -> &Path {
        unimplemented!()
    }

    /// The profile's name.
    pub fn profile(&self) -> &str {
        unimplemented!()
    }
}

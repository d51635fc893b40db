//! The arguments that a call over HTTP has to repeat in its headers (`x-mcp-header`).

use serde_json::value::RawValue;

use crate::transport::http::{Mirrored, check_mirrored};

/// Which arguments of a tool stand in headers, too.
#[derive(Clone, Debug, Default)]
pub struct Headers(pub(crate) Mirrored);

impl Headers {
    /// Those that an input schema names. One whose annotations break the rules names none: clients
    /// do not use such a tool.
    #[must_use]
    pub fn of_schema(schema: &RawValue) -> Self {
        Self(check_mirrored(schema).unwrap_or_default())
    }
}

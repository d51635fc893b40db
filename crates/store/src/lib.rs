//! Rows, for SQLite and PostgreSQL.
//!
//! One set of statements serves both; what differs between them stands in `dialect`. This crate
//! knows what a row means to keep it consistent (an approval is used once, an intent is on disk
//! before its call), but decides about no call and reads no clock: every time comes in from
//! outside, in milliseconds since 1970.

mod dialect;
mod migrate;

mod approvals;
mod audit;
mod background;
mod credentials;
mod events;
mod owners;
mod scripts;
mod sessions;

#[cfg(test)]
mod contract;

pub use approvals::{
    Answer, AnswerKind, ApprovalFilter, ApprovalRow, ApprovalState, Asked, NewApproval,
    SessionAllow, Taken,
};
pub use audit::{AuditFilter, AuditRow};
pub use background::{BackgroundFilter, BackgroundRow, BackgroundState};
pub use credentials::{CredentialPlace, CredentialRow};
pub use dialect::Store;
pub use events::{EventHead, EventRow, NewEvent};
pub use owners::Owner;
pub use scripts::{IntentRow, IntentState, ScriptRow, ScriptState};
pub use sessions::{SessionFilter, SessionRow, SessionSeen};

/// Why the store could not do something.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address or the file cannot be used as it is given; says what would do.
    #[error("{0}")]
    Setting(String),
    /// The database was written by a newer version.
    #[error(
        "the database has version {found}, this program knows {known}: use a newer pinfold, or \
         another database"
    )]
    TooNew {
        /// Version of the database.
        found: i64,
        /// Highest version known here.
        known: i64,
    },
    /// The row cannot be changed that way any more; says why.
    #[error("{0}")]
    Conflict(String),
    /// The disk that the database is on takes nothing more; says what to do.
    #[error("{0}")]
    Full(String),
    /// The database failed.
    #[error("the database failed: {0}")]
    Database(String),
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        if dialect::is_full(&error) {
            return Self::Full(
                "the disk that holds the database is full: free some space there".to_owned(),
            );
        }
        Self::Database(error.to_string())
    }
}

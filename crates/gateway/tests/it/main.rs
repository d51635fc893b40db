//! The gateway as its callers use it: real scripts in a real sandbox, and a source that counts what
//! reaches it.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may break off")]

mod ground;

mod answers;

mod approvals;
mod background;
mod crash;
mod events;
mod names;
mod postgres;
mod records;
mod table;
mod workspaces;

//! The gateway as its callers use it: real scripts in a real sandbox, and a source that counts what
//! reaches it.

mod ground;

mod answers;
mod approvals;
mod crash;
mod names;
mod records;
mod table;
mod workspaces;

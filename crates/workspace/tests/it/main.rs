//! What the six tools do, on every backend.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bare;
mod commands;
mod disk;
mod edits;
mod ground;
mod reads;
mod searches;
mod sessions;

//! Decides about, runs and records every tool call.
pub mod sources;

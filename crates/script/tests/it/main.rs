//! Scripts as a model writes them, through the real engine in a real sandbox, with a host that
//! answers by the tool's name.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod ground;

mod ahead;
mod cases;
mod check;
mod endings;
mod functions;
mod hostile;
mod interpreters;
mod ordinary;
mod packages;

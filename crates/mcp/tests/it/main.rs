//! The client against servers that nobody here wrote, and against hostile ones; the server against a
//! client that nobody here wrote, and against wrong messages.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod foreign_http;
mod foreign_stdio;
mod fuzz;
mod hostile;
mod hostile_http;
mod login;
mod parser;
mod peer;
mod serve_any;
mod serve_http;
mod serve_peer;
mod serve_resume;
mod serve_wire;
mod service;
mod support;

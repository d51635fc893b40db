//! The built binary, seen from outside: one file per concern.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod world;

mod client;

mod server;

mod serving;

mod http;

mod extras;

mod api;
mod asking;

mod api_doc;

mod events;

mod page;

mod races;

mod clients;

mod cutting;

mod typescript;

mod agents;

mod background;

mod models;

mod remembered;

mod examples;

mod execution;
mod foreign;

mod running;

mod permissions;

mod bad_input;

mod endings;

mod configuration;

mod conformance;
mod login;

mod secrets;

mod doctor;

mod known_gaps;

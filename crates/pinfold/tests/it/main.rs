//! The built binary, seen from outside: one file per concern.

mod world;

mod examples;

mod running;

mod permissions;

mod bad_input;

mod endings;

mod configuration;

mod doctor;

//! The program that carries out one request where a workspace is.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    inside::main_of_the_program(&arguments)
}

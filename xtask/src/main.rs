//! The project's own checks and benchmarks: `cargo xtask ci | tidy | bench`.
#![expect(clippy::print_stdout, reason = "it is a command line tool for developers")]

mod bench;
mod ci;
mod tidy;

use clap::Parser;

#[derive(Parser)]
#[command(
    name = "xtask",
    bin_name = "cargo xtask",
    about = "The project's own checks and benchmarks."
)]
enum Task {
    /// Format, lints, tests, documentation and tidy: what has to hold before a merge.
    Ci(ci::Options),
    /// The rules about the tree that no compiler checks.
    Tidy,
    /// Measures what `docs/performance.md` promises, and writes that file.
    Bench(bench::Options),
}

fn main() -> std::process::ExitCode {
    let done = match Task::parse() {
        Task::Ci(options) => ci::run(&options),
        Task::Tidy => tidy::run(),
        Task::Bench(options) => bench::run(&options),
    };
    match done {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            // Without the backtrace that `Debug` would print.
            eprintln!("xtask: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

/// The top of the repository.
fn root() -> std::path::PathBuf {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// The cargo that runs us.
fn cargo() -> std::process::Command {
    let mut command =
        std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

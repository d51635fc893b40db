//! The binary: configuration, command line, wiring.
//!
//! It knows every part and decides nothing: what a tool may do is decided in `gateway`, what a
//! program may see in `sandbox`.

mod commands;

mod config;

mod credentials;

mod key_file;

mod wiring;

mod routes;

mod listening;

mod serving;

mod execution;

mod terminal;

mod show;

mod failure;

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use tracing::Level;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use commands::Command;

/// Hands for LLM agents, without the house: tools, scripts and files behind one gate.
#[derive(Parser)]
#[command(name = "pinfold", version, arg_required_else_help = true)]
struct Line {
    /// The configuration to use
    #[arg(long, global = true, value_name = "FILE", env = "PINFOLD_CONFIG")]
    config: Option<PathBuf>,

    /// Print the commented configuration file with every default; runs no command
    #[arg(long)]
    print_default_config: bool,

    #[command(subcommand)]
    command: Option<Command>,
}

fn main() {
    let line = Line::parse();
    if line.print_default_config {
        end(terminal::print(config::DEFAULT).map_err(failure::Failure::unwritten));
    }
    let Some(command) = line.command else {
        terminal::say("error: give a command; `pinfold help` lists them");
        std::process::exit(2);
    };
    start_log();
    end(run(command, line.config.as_deref()));
}

/// Says what is to be said and ends the process with the code for it.
fn end(result: Result<(), failure::Failure>) -> ! {
    let code = match result {
        Ok(()) => 0,
        Err(failure) => {
            let message = failure.to_string();
            if !message.is_empty() {
                terminal::say(&format!("error: {message}"));
            }
            i32::from(failure.code)
        }
    };
    // Not a return: a thread may still wait for a key that nobody will press.
    std::process::exit(code);
}

fn run(command: Command, config: Option<&std::path::Path>) -> Result<(), failure::Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(failure::Failure::failed)?;
    let result = runtime.block_on(command.run(config));
    // What was started ends with the runtime; a thread that waits for a key never does.
    runtime.shutdown_timeout(LAST_WAIT);
    result
}

/// How long the runtime's threads get to end.
const LAST_WAIT: Duration = Duration::from_millis(500);

/// What goes to the log by default. How servers are is told by the commands themselves.
const LOG: &str = "warn,gateway::sources=error";

/// Our own crates, whose notes hold no secret. Of others only warnings are shown.
const OURS: [&str; 6] = ["pinfold", "gateway", "script", "mcp", "store", "sandbox"];

/// Crates that know secrets, and show them in warnings too.
const SILENT: [&str; 2] = ["rmcp", "oauth2"];

fn start_log() {
    let filter = EnvFilter::try_from_env("PINFOLD_LOG").unwrap_or_else(|_| EnvFilter::new(LOG));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .with_target(false)
        .without_time();
    // Whatever the filter asks for: only here it is known what must not be shown.
    let ours = filter_fn(|about| {
        let of = about.target().split("::").next().unwrap_or_default();
        OURS.contains(&of) || (*about.level() <= Level::WARN && !SILENT.contains(&of))
    });
    tracing_subscriber::registry().with(filter).with(lines.with_filter(ours)).init();
}

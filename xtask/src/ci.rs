//! Everything that has to hold before a merge, in the order that fails fastest.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Leave out the tests, where they were run already.
    #[arg(long)]
    no_tests: bool,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    step("format", crate::cargo().args(["fmt", "--all", "--check"]))?;
    println!("xtask: tidy");
    crate::tidy::run()?;
    step(
        "lints",
        crate::cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    )?;
    if !options.no_tests {
        step("tests", crate::cargo().args(["test", "--workspace"]))?;
    }
    step(
        "documentation",
        crate::cargo()
            .args(["doc", "--workspace", "--no-deps", "--document-private-items"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )
}

fn step(name: &str, command: &mut Command) -> anyhow::Result<()> {
    println!("xtask: {name}");
    let start = Instant::now();
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    if !status.success() {
        bail!("{name} failed: {command:?}");
    }
    println!("xtask: {name} took {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

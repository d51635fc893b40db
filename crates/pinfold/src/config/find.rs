//! Finds the configuration, and makes sure that the person chose it.
//!
//! A configuration names programs that run on the host. So a `pinfold.toml` that merely lies in
//! the working directory, in a repository somebody cloned, is not used until the person has
//! trusted that very content on a terminal.

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use sha2::{Digest, Sha256};

use crate::show::Shown;

/// Why a file is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chosen {
    /// By `--config` or `PINFOLD_CONFIG`, or it is the user's own.
    ByPerson,
    /// It lies in the working directory: to be trusted first.
    ByPlace,
}

/// The configuration file to use, or `None` where there is none.
pub(crate) fn find(given: Option<&Path>) -> anyhow::Result<Option<(PathBuf, Chosen)>> {
    if let Some(path) = given {
        return Ok(Some((path.to_owned(), Chosen::ByPerson)));
    }
    // The working directory comes first, as the nearer one; it is used only if trusted.
    let here = Path::new("pinfold.toml");
    if here.is_file() {
        let path = std::env::current_dir().context("the working directory is gone")?.join(here);
        return Ok(Some((path, Chosen::ByPlace)));
    }
    let own = directory("XDG_CONFIG_HOME", ".config").map(|dir| dir.join("pinfold/pinfold.toml"));
    Ok(own.filter(|path| path.is_file()).map(|path| (path, Chosen::ByPerson)))
}

/// A fingerprint of everything that was read: the file's path, the file, and what it imports.
pub(crate) fn fingerprint(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns if the person has trusted `path` with this `fingerprint`, asking where there is a
/// terminal. `programs` is what the content would start or reach, `instead` what else can be done.
pub(crate) fn require_trust(
    path: &Path,
    fingerprint: &str,
    programs: &[String],
    instead: &str,
) -> anyhow::Result<()> {
    let remembered = directory("XDG_STATE_HOME", ".local/state")
        .map(|dir| dir.join("pinfold/trusted"))
        .with_context(|| format!("no HOME, so nothing can be remembered as trusted; {instead}"))?;
    let known = std::fs::read_to_string(&remembered).unwrap_or_default();
    if known.lines().any(|line| line.split_whitespace().next() == Some(fingerprint)) {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        bail!(
            "{} names programs to run and is not trusted; run pinfold here once in a terminal to \
             trust it, or {instead}",
            path.display()
        );
    }
    if !ask(path, programs)? {
        bail!("{} is not trusted; nothing was started", path.display());
    }
    // The path is for people who read the list; the fingerprint covers it already.
    let line = format!("{fingerprint}  {}", Shown::line(&path.display().to_string()));
    remember(&remembered, &line)
        .with_context(|| format!("cannot write {}; {instead}", remembered.display()))
}

fn ask(path: &Path, programs: &[String]) -> anyhow::Result<bool> {
    let mut err = std::io::stderr().lock();
    let shown_path = path.display().to_string();
    writeln!(err, "{} was not used before, or has changed.", Shown::line(&shown_path))?;
    writeln!(err, "With it, these programs run on this machine, as you:")?;
    for program in programs {
        writeln!(err, "  {}", Shown::whole(program))?;
    }
    if programs.is_empty() {
        writeln!(err, "  (none)")?;
    }
    write!(err, "Trust this content? [y/N] ")?;
    err.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn remember(file: &Path, line: &str) -> std::io::Result<()> {
    if let Some(dir) = file.parent() {
        std::fs::create_dir_all(dir)?;
    }
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file)?;
    writeln!(file, "{line}")
}

/// An XDG base directory: the variable if it is absolute, else below the home directory.
fn directory(variable: &str, below_home: &str) -> Option<PathBuf> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(variable).or_else(|| absolute("HOME").map(|home| home.join(below_home)))
}

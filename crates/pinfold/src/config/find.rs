//! Finds the configuration, and makes sure that the person chose it.
//!
//! A configuration names programs that run on the host. So a `pinfold.toml` that merely lies in
//! the working directory, in a repository somebody cloned, is not used until the person has
//! trusted that very content on a terminal.

use std::io::{BufRead, IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use sha2::{Digest, Sha256};

use crate::show::Shown;

/// The person has not trusted the content of a file; says what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Untrusted(String);

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
    let own = configuration_directory().map(|dir| dir.join("pinfold.toml"));
    let own = own.filter(|path| path.is_file());
    let real = |path: &Path| path.canonicalize().ok();
    let is_own = own.as_deref().is_some_and(|own| real(own) == real(here));
    if here.is_file() && !is_own {
        let path = std::env::current_dir().context("the working directory is gone")?.join(here);
        return Ok(Some((path, Chosen::ByPlace)));
    }
    if let Some(path) = &own {
        require_owned(path)?;
    }
    Ok(own.map(|path| (path, Chosen::ByPerson)))
}

/// Whoever can write the user's own configuration says what runs as the user.
fn require_owned(path: &Path) -> anyhow::Result<()> {
    let cannot = || format!("cannot read {}", path.display());
    let found = std::fs::metadata(path).with_context(cannot)?;
    // A process's own folder there belongs to whom it runs as.
    let own = std::fs::metadata("/proc/self").map_or(0, |this| this.uid());
    if found.mode() & 0o002 != 0 || ![0, own].contains(&found.uid()) {
        bail!(
            "{} could have been written by somebody else, and it names programs to run: make it \
             yours (chown) and chmod o-w it, or give --config with one that is",
            path.display()
        );
    }
    Ok(())
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
    let remembered = state_directory()
        .map(|dir| dir.join("trusted"))
        .with_context(|| format!("no HOME, so nothing can be remembered as trusted; {instead}"))?;
    let known = std::fs::read_to_string(&remembered).unwrap_or_default();
    if known.lines().any(|line| line.split_whitespace().next() == Some(fingerprint)) {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        bail!(Untrusted(format!(
            "{} names programs to run and is not trusted; run pinfold here once in a terminal to \
             trust it, or {instead}",
            path.display()
        )));
    }
    if !ask(path, programs)? {
        bail!(Untrusted(format!("{} is not trusted; nothing was started", path.display())));
    }
    // The path is for people who read the list; the fingerprint covers it already.
    let line = format!("{fingerprint}  {}", Shown::line(&path.display().to_string()));
    remember(&remembered, &line)
        .with_context(|| format!("cannot write {}; {instead}", remembered.display()))
}

fn ask(path: &Path, programs: &[String]) -> anyhow::Result<bool> {
    crate::terminal::forget_typed();
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

/// Where the user's own configuration is or would be.
pub(super) fn configuration_directory() -> Option<PathBuf> {
    directory("XDG_CONFIG_HOME", ".config").map(|dir| dir.join("pinfold"))
}

/// Where is remembered what the user trusts.
pub(super) fn state_directory() -> Option<PathBuf> {
    directory("XDG_STATE_HOME", ".local/state").map(|dir| dir.join("pinfold"))
}

/// An XDG base directory: the variable if it is absolute, else below the home directory.
fn directory(variable: &str, below_home: &str) -> Option<PathBuf> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(variable).or_else(|| absolute("HOME").map(|home| home.join(below_home)))
}

//! The way through `/usr/bin/bwrap`, for hosts where an ordinary user may make namespaces only
//! with it.

/// Where distributions put it. Never searched for: what is executed here must be root's.
pub(crate) const PATH: &str = "/usr/bin/bwrap";

/// Its version line, if it is installed.
pub(crate) fn version() -> Option<String> {
    let output = std::process::Command::new(PATH).arg("--version").env_clear().output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

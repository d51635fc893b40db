//! What this host gives, by layer, for `doctor`, `/healthz` and audit rows.

/// What this host gives, by layer. `doctor`, `/healthz` and audit rows show it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Level {
    /// One word for audit rows: `full` or `weaker`.
    pub name: String,
    /// Every layer with its state.
    pub layers: Vec<Layer>,
}

/// One layer of isolation on this host.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Layer {
    /// Its name: `namespaces`, `seccomp`, `landlock`, `cgroup memory`, …
    pub name: String,
    /// Whether it is in force.
    pub works: bool,
    /// What was found.
    pub found: String,
    /// What the operator can do, where something is missing.
    pub hint: Option<String>,
}

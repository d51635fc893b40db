//! What this host gives, by layer, for `doctor`, `/healthz` and audit rows.
//!
//! Facts only, each with what was found and what an operator can do; whether a layer holds is for
//! the self-test to say.

use std::fs;

use crate::sandbox::Way;
use crate::sys;

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

impl Level {
    /// What can be seen of this host without starting anything: for `doctor` where no sandbox
    /// could be started.
    pub fn of_host() -> Self {
        let layers = vec![kernel(), user_namespaces(), proc(), seccomp(), landlock(), bubblewrap()];
        Self { name: "unavailable".to_owned(), layers }
    }

    /// The level in force once the self-test has passed.
    pub(crate) fn in_force(way: Way, maps_owners: bool, tested: usize, cgroups: &[Layer]) -> Self {
        let mut layers = vec![namespaces(way)];
        layers.extend(Self::of_host().layers);
        if way == Way::Root {
            // It works without any of these, so they are no fault of the host.
            let needless = ["user namespaces", "/proc", "bubblewrap"];
            layers.retain(|layer| layer.works || !needless.contains(&layer.name.as_str()));
            layers.push(owners(maps_owners));
        }
        if way == Way::Ordinary {
            layers.retain(|layer| layer.works || layer.name != "bubblewrap");
        }
        layers.extend_from_slice(cgroups);
        layers.push(layer("self-test", true, format!("{tested} attempts refused"), ""));
        let weaker = layers.iter().any(|layer| {
            !layer.works && layer.name != "cgroup cpu" && layer.name != "id-mapped mounts"
        });
        let name = if weaker { "weaker" } else { "full" };
        Self { name: name.to_owned(), layers }
    }
}

fn layer(name: &str, works: bool, found: impl Into<String>, hint: &str) -> Layer {
    let hint = (!works).then(|| hint.to_owned());
    Layer { name: name.to_owned(), works, found: found.into(), hint }
}

fn namespaces(way: Way) -> Layer {
    let found = match way {
        Way::Root => "made by root, outside the user namespace of the cell",
        Way::Ordinary if has_groups() => {
            "made by an ordinary user in a user namespace of its own; the user's supplementary \
             groups stay, as only root may drop them"
        }
        Way::Ordinary => "made by an ordinary user in a user namespace of its own",
        Way::Bubblewrap => "made by /usr/bin/bwrap, anew for each run",
    };
    let hint = "bubblewrap makes one cell per run and keeps none ready; to do without it, let this \
                executable make user namespaces (see `user namespaces`)";
    layer("namespaces", way != Way::Bubblewrap, found, hint)
}

fn has_groups() -> bool {
    read("/proc/self/status").is_some_and(|status| {
        let groups = status.lines().find_map(|line| line.strip_prefix("Groups:"));
        groups.is_some_and(|groups| !groups.trim().is_empty())
    })
}

fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn kernel() -> Layer {
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned());
    let works = version(&release).is_none_or(|version| version >= (5, 14));
    layer("kernel", works, release, "use Linux 5.14 or newer")
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn user_namespaces() -> Layer {
    let name = "user namespaces";
    if !fs::exists("/proc/self/ns/user").unwrap_or(false) {
        return layer(name, false, "not in this kernel", "use a kernel with CONFIG_USER_NS");
    }
    if read("/proc/sys/user/max_user_namespaces").as_deref() == Some("0") {
        let hint = "set a number: sysctl -w user.max_user_namespaces=10000";
        return layer(name, false, "user.max_user_namespaces is 0", hint);
    }
    if read("/proc/sys/kernel/unprivileged_userns_clone").as_deref() == Some("0") {
        let hint = "allow them: sysctl -w kernel.unprivileged_userns_clone=1";
        return layer(name, false, "kernel.unprivileged_userns_clone is 0", hint);
    }
    if read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").as_deref() == Some("1") {
        let executable = std::env::current_exe().unwrap_or_default();
        let hint = format!(
            "allow this executable: write `abi <abi/4.0>, profile pinfold {} flags=(unconfined) {{ \
             userns, }}` to /etc/apparmor.d/pinfold and run apparmor_parser -r on it",
            executable.display()
        );
        let found = "AppArmor restricts them (kernel.apparmor_restrict_unprivileged_userns is 1)";
        let confined =
            read("/proc/self/attr/current").is_some_and(|profile| profile.starts_with("pinfold"));
        return layer(name, confined, found, &hint);
    }
    layer(name, true, "allowed", "")
}

/// A container engine mounts over parts of `/proc`, and then no fresh one may be mounted by an
/// ordinary user.
fn proc() -> Layer {
    let mounts = read("/proc/self/mountinfo").unwrap_or_default();
    let over: Vec<_> = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .filter(|place| place.starts_with("/proc/") && *place != "/proc/sys/fs/binfmt_misc")
        .collect();
    let found = match over.as_slice() {
        [] => "nothing is mounted over it".to_owned(),
        [first, rest @ ..] => format!("{first} and {} more are mounted over", rest.len()),
    };
    let hint = "a container engine masks it: start the container with --security-opt \
                systempaths=unconfined (Docker, Podman) or procMount: Unmasked (Kubernetes)";
    layer("/proc", over.is_empty(), found, hint)
}

fn seccomp() -> Layer {
    let actions = read("/proc/sys/kernel/seccomp/actions_avail");
    let works = actions.as_deref().is_some_and(|actions| actions.contains("errno"));
    let found = if works { "filters work" } else { "not in this kernel" };
    layer("seccomp", works, found, "use a kernel with CONFIG_SECCOMP_FILTER")
}

fn landlock() -> Layer {
    match sys::landlock_version() {
        Ok(version) => {
            let missing = match version {
                1 => "; without rename, truncate, TCP, devices, signals",
                2 => "; without truncate, TCP, devices, signals",
                3 => "; without TCP, devices, signals",
                4 => "; without devices, signals",
                5 => "; without signals",
                _ => "",
            };
            layer("landlock", true, format!("interface version {version}{missing}"), "")
        }
        Err(errno) => layer(
            "landlock",
            false,
            errno.to_string(),
            "add landlock to the lsm= parameter of the kernel (5.13 or newer)",
        ),
    }
}

fn owners(works: bool) -> Layer {
    let found = if works { "the root file system has them" } else { "not on the root file system" };
    let hint =
        "as root, keep workspaces on ext4, xfs, btrfs or tmpfs, or run pinfold as their owner";
    layer("id-mapped mounts", works, found, hint)
}

fn bubblewrap() -> Layer {
    match crate::bwrap::version() {
        Some(version) => layer("bubblewrap", true, version, ""),
        None => layer("bubblewrap", false, "not installed", "install the package bubblewrap"),
    }
}

/// What to do where no way works, by what is likely in the way.
pub(crate) fn hint() -> String {
    let container = fs::exists("/.dockerenv").unwrap_or(false)
        || fs::exists("/run/.containerenv").unwrap_or(false);
    let missing: Vec<_> = Level::of_host()
        .layers
        .into_iter()
        .filter(|layer| !layer.works && layer.name != "landlock")
        .filter_map(|layer| Some(format!("{}: {}", layer.name, layer.hint?)))
        .collect();
    let mut hint = missing.join("; ");
    if container {
        hint = format!(
            "this is a container: start it with --security-opt seccomp=unconfined --security-opt \
             systempaths=unconfined; {hint}"
        );
    }
    if hint.is_empty() { "run `pinfold doctor` for the details".to_owned() } else { hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        assert_eq!(version("6.18.44-fc"), Some((6, 18)));
        assert!(version("5.4.0-100-generic").unwrap() < (5, 14));
        assert_eq!(version("unknown"), None);
    }

    #[test]
    fn what_is_missing_comes_with_what_to_do() {
        for layer in Level::of_host().layers {
            assert_eq!(layer.works, layer.hint.is_none(), "{layer:?}");
            assert!(!layer.found.is_empty(), "{layer:?}");
        }
    }
}

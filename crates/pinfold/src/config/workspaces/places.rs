//! Folders that no script may work in, whatever the configuration says.

use std::path::{Path, PathBuf};

use super::host::Host;
use super::paths::{below, end};

/// Of the system, with everything in them.
const SYSTEM: [&str; 15] = [
    "/etc",
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/boot",
    "/dev",
    "/proc",
    "/sys",
    "/run",
    "/var/spool",
    "/snap",
];

/// Where removable disks are mounted below one of them.
const MEDIA: &str = "/run/media";

/// Shared by everybody, where a folder of one's own is fine.
const SHARED: [&str; 8] = ["/", "/var", "/var/lib", "/var/tmp", "/tmp", "/home", "/opt", "/srv"];

/// Why scripts cannot work in `workspace`, which has no links in it. `writes`: they could change it.
pub(super) fn objection(workspace: &Path, writes: bool, host: &Host) -> Option<String> {
    let shown = workspace.display();
    let touched = |place: &Path| below(place, workspace) || below(workspace, place);
    let own =
        [("your own configuration", &host.configuration), ("what you have trusted", &host.state)];
    for (what, place) in own {
        if let Some(place) = place.as_deref().map(end).filter(|place| touched(place)) {
            return Some(format!(
                "has scripts work in {shown}, and {what} is kept in {}; choose a folder apart \
                 from it",
                place.display()
            ));
        }
    }
    for home in host.homes.iter().map(|home| end(home)) {
        if below(&home, workspace) {
            return Some(format!(
                "has scripts work in {shown}, which is or holds a home directory; choose a \
                 folder in it, such as {}",
                home.join("work").display()
            ));
        }
        let hidden = workspace.strip_prefix(&home).ok().and_then(|rest| rest.iter().next());
        if hidden.is_some_and(|name| name.as_encoded_bytes().starts_with(b".")) {
            return Some(format!(
                "has scripts work in {shown}; programs keep settings and keys in folders of a \
                 home directory that begin with a dot, so choose another one"
            ));
        }
    }
    let removable = below(workspace, Path::new(MEDIA)) && workspace != Path::new(MEDIA);
    let system = SYSTEM.iter().any(|place| below(workspace, &end(Path::new(place)))) && !removable;
    let shared = SHARED.iter().map(PathBuf::from).chain([host.temporary.clone()]);
    if system || shared.into_iter().any(|place| end(&place) == workspace) {
        return Some(format!(
            "has scripts work in {shown}, which belongs to the system; choose a folder of your own"
        ));
    }
    let executable = host.executable.as_deref().map(end);
    if let Some(executable) = executable.filter(|path| writes && below(path, workspace)) {
        return Some(format!(
            "has scripts work in {shown}, where they could change pinfold itself ({}); install it \
             somewhere else or choose another folder",
            executable.display()
        ));
    }
    None
}

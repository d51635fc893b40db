//! Where the hierarchies are mounted and where in them this process is.

use std::path::{Path, PathBuf};

/// A hierarchy as seen from here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Controllers of a v1 hierarchy; empty for v2.
    pub(crate) controllers: Vec<String>,
    pub(crate) unified: bool,
    /// Where it is mounted.
    pub(crate) mount: PathBuf,
    /// The directory of this process's own group.
    pub(crate) own: PathBuf,
}

pub(crate) fn places() -> Vec<Place> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    parse(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"))
}

fn parse(mounts: &str, groups: &str) -> Vec<Place> {
    let mut places = Vec::new();
    for line in mounts.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let left: Vec<&str> = left.split(' ').collect();
        let right: Vec<&str> = right.split(' ').collect();
        let (Some(root), Some(mount)) = (left.get(3), left.get(4)) else { continue };
        let (Some(kind), Some(options)) = (right.first(), right.get(2)) else { continue };
        let unified = *kind == "cgroup2";
        if !unified && *kind != "cgroup" {
            continue;
        }
        let own = groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let mut named = controllers.split(',');
            let matches = if unified {
                number == "0" && controllers.is_empty()
            } else {
                !controllers.is_empty() && named.all(|name| options.split(',').any(|o| o == name))
            };
            matches.then_some(path)
        });
        let Some(own) = own else { continue };
        // What is mounted may be a part of the hierarchy only (a container).
        let Ok(relative) = Path::new(own).strip_prefix(unescape(root)) else { continue };
        let mount = unescape(mount);
        let controllers =
            if unified { Vec::new() } else { options.split(',').map(str::to_owned).collect() };
        places.push(Place { controllers, unified, own: mount.join(relative), mount });
    }
    places
}

/// Mount tables write a space as `\040`.
fn unescape(text: &str) -> PathBuf {
    PathBuf::from(text.replace("\\040", " ").replace("\\134", "\\"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hybrid_host_has_both_kinds() {
        let mounts = "\
34 31 0:31 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:4 - cgroup2 cgroup2 rw
";
        let groups = "4:memory:/a/b\n2:cpu,cpuacct:/\n1:name=systemd:/\n0::/x\n";
        let places = parse(mounts, groups);
        let owns: Vec<_> = places.iter().map(|place| place.own.to_str().unwrap()).collect();
        let expected = [
            "/sys/fs/cgroup/cpu,cpuacct/",
            "/sys/fs/cgroup/memory/a/b",
            "/sys/fs/cgroup/systemd/",
            "/sys/fs/cgroup/unified/x",
        ];
        assert_eq!(owns, expected);
    }

    #[test]
    fn a_container_sees_a_part_and_its_own_group_in_it() {
        let mounts = "35 31 0:32 /docker/abc /sys/fs/cgroup ro shared:4 - cgroup2 cgroup rw\n";
        let places = parse(mounts, "0::/docker/abc/leaf\n");
        assert_eq!(places[0].own, Path::new("/sys/fs/cgroup/leaf"));
        assert_eq!(parse(mounts, "0::/elsewhere\n"), []);
    }
}

//! Rules about single files: length, form, names, and nothing of the machine they were made on.

use super::tree::Tree;

const MOST_LINES: usize = 500;
const VAGUE: [&str; 9] =
    ["utils", "util", "common", "helper", "helpers", "manager", "core", "misc", "shared"];

pub(crate) fn length(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    for extension in ["rs", "py", "ts", "tsx", "css", "sh"] {
        for (path, text) in tree.with_extension(extension) {
            if is_test(path) || path.contains("/dist/") {
                continue;
            }
            let lines = lines_without_tests(text);
            if lines > MOST_LINES {
                faults.push(format!("{path} has {lines} lines; split it where it is two things"));
            }
        }
    }
    faults
}

pub(crate) fn mod_form(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, _) in tree.with_extension("rs") {
        let module = &path[..path.len() - 3];
        let children = format!("{module}/");
        let has_children = tree.files.keys().any(|other| {
            other.strip_prefix(&children).is_some_and(|inside| {
                inside.ends_with(".rs") && inside != "tests.rs" && !inside.starts_with("tests/")
            })
        });
        if has_children && path.contains("/src/") {
            faults.push(format!("{path} stands beside {children}; make it {children}mod.rs"));
        }
    }
    faults
}

pub(crate) fn names(tree: &Tree) -> Vec<String> {
    tree.files
        .keys()
        .filter(|path| path.starts_with("crates/") || path.starts_with("xtask/"))
        .filter_map(|path| {
            let stems = path.split('/').map(|part| part.split('.').next().unwrap_or(part));
            let vague = stems.into_iter().find(|stem| VAGUE.contains(stem))?;
            Some(format!("{path}: `{vague}` says nothing; name what is in it"))
        })
        .collect()
}

pub(crate) fn nothing_of_this_machine(tree: &Tree) -> Vec<String> {
    let mut own: Vec<String> = vec![format!("{}/", crate::root().display())];
    // A home of one component, as root's, is written in documents and attacks on purpose.
    own.extend(
        std::env::var("HOME")
            .ok()
            .filter(|home| home.trim_matches('/').contains('/'))
            .map(|home| format!("{home}/")),
    );
    let mut faults = foreign_text(tree, &own);
    for (path, text) in &tree.files {
        let name = path.rsplit('/').next().unwrap_or(path);
        if [".npmrc", "pip.conf", ".pypirc", "uv.toml"].contains(&name) {
            faults.push(format!("{path} configures a registry; that is the machine's matter"));
        }
        // Cargo names its public index whatever the machine uses; npm can leave addresses out
        // (`omit-lockfile-registry-resolved`).
        let foreign = |line: &str| match name {
            "Cargo.lock" => line
                .split_once("source = \"")
                .is_some_and(|(_, source)| !source.ends_with("/crates.io-index\"")),
            "package-lock.json" => line.contains("\"resolved\": \"http"),
            _ => false,
        };
        for (index, line) in text.lines().enumerate().filter(|(_, line)| foreign(line)) {
            let line = line.trim();
            faults.push(format!("{path}:{} names a registry: {line}", index + 1));
        }
        if path == ".cargo/config.toml"
            && ["[source", "[registries", "[registry"].iter().any(|table| text.contains(table))
        {
            faults.push(format!("{path} names a registry; that is the machine's matter"));
        }
    }
    faults
}

/// Lines that contain one of `own`.
pub(crate) fn foreign_text(tree: &Tree, own: &[String]) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in &tree.files {
        for (index, line) in text.lines().enumerate() {
            if let Some(found) = own.iter().find(|own| line.contains(own.as_str())) {
                faults.push(format!("{path}:{} has the path {found} of this machine", index + 1));
            }
        }
    }
    faults
}

fn is_test(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "benches") || path.ends_with("/tests.rs")
}

/// Lines up to an in-file test module, which by custom is the last thing.
fn lines_without_tests(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    lines
        .windows(2)
        .position(|pair| pair[0] == "#[cfg(test)]" && pair[1].ends_with("mod tests {"))
        .unwrap_or(lines.len())
}

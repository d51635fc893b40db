//! Rules about crates: who may depend on whom, and how their tests are laid out.

use super::tree::Tree;

/// Which of our crates each may use; the picture is in ARCHITECTURE.md. `pinfold` and `xtask`
/// stand outside: the one may use all, the other none.
const ALLOWED: [(&str, &[&str]); 10] = [
    ("sandbox", &[]),
    ("store", &[]),
    ("mcp", &[]),
    ("inside", &[]),
    ("script", &["sandbox"]),
    ("workspace", &["sandbox", "inside"]),
    ("gateway", &["sandbox", "store", "mcp", "script", "workspace"]),
    ("agent", &["gateway"]),
    ("pinfold", &["sandbox", "store", "mcp", "script", "workspace", "gateway", "agent"]),
    ("xtask", &[]),
];

pub(crate) fn directions(tree: &Tree) -> Vec<String> {
    let ours: Vec<&str> = ALLOWED.iter().map(|(name, _)| *name).collect();
    let mut faults = Vec::new();
    for manifest in manifests(tree) {
        let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == manifest.name) else {
            faults.push(format!(
                "{} is not in the list in xtask/src/tidy/crates.rs; decide what it may use",
                manifest.path
            ));
            continue;
        };
        for (kind, dependency) in &manifest.dependencies {
            // A crate may name itself, to turn on a feature for its own tests.
            let itself = *dependency == manifest.name && kind == "dev-dependencies";
            let ours = ours.contains(&dependency.as_str());
            if ours && !itself && !allowed.contains(&dependency.as_str()) {
                faults.push(format!(
                    "{} has {dependency} in {kind}: {} may use only {allowed:?}",
                    manifest.path, manifest.name
                ));
            }
        }
        if manifest.name != "sandbox" && !manifest.workspace_lints {
            faults.push(format!("{} lacks `[lints] workspace = true`", manifest.path));
        }
    }
    faults
}

pub(crate) fn one_test_binary(tree: &Tree) -> Vec<String> {
    tree.with_extension("rs")
        .filter_map(|(path, _)| {
            let inside = path.strip_prefix("crates/")?.split_once("/tests/")?.1;
            let lonely = !inside.contains('/');
            let other_binary = inside.ends_with("/main.rs") && inside != "it/main.rs";
            (lonely || other_binary)
                .then(|| format!("{path} is a test binary of its own; move it into tests/it/"))
        })
        .collect()
}

pub(crate) fn no_forgotten_tests(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, _) in tree.with_extension("rs") {
        let Some((_, inside)) = path.split_once("/tests/it/") else { continue };
        if inside == "main.rs" {
            continue;
        }
        // `x.rs` is declared by its folder's main.rs or mod.rs, `x/mod.rs` by the one above.
        let module = path.strip_suffix("/mod.rs").unwrap_or(&path[..path.len() - 3]);
        let Some((folder, name)) = module.rsplit_once('/') else { continue };
        let declared = ["main.rs", "mod.rs"].iter().any(|parent| {
            tree.files.get(&format!("{folder}/{parent}")).is_some_and(|text| {
                text.lines().any(|line| line.trim().ends_with(&format!("mod {name};")))
            })
        });
        if !declared {
            faults.push(format!("{path} is never compiled; add `mod {name};` in {folder}/"));
        }
    }
    faults
}

pub(crate) fn unsafe_only_in_sandbox(tree: &Tree) -> Vec<String> {
    let forms = ["{", "fn ", "impl ", "extern ", "trait "].map(|form| format!("unsafe {form}"));
    let mut faults = Vec::new();
    for (path, text) in tree.with_extension("rs") {
        if path.starts_with("crates/sandbox/") || path.starts_with("xtask/") {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if forms.iter().any(|form| code.contains(form.as_str())) {
                faults.push(format!("{path}:{}", index + 1));
            }
        }
    }
    faults
}

struct Manifest<'a> {
    path: &'a str,
    name: String,
    /// (table, dependency)
    dependencies: Vec<(String, String)>,
    workspace_lints: bool,
}

fn manifests(tree: &Tree) -> Vec<Manifest<'_>> {
    let mut found = Vec::new();
    for (path, text) in &tree.files {
        if path == "Cargo.toml" || !path.ends_with("/Cargo.toml") {
            continue;
        }
        let Ok(table) = text.parse::<toml::Table>() else { continue };
        let name = table.get("package").and_then(|package| package.get("name"));
        let Some(name) = name.and_then(toml::Value::as_str) else { continue };
        let kinds = ["dependencies", "dev-dependencies", "build-dependencies"];
        let mut dependencies = Vec::new();
        let targets = table.get("target").and_then(toml::Value::as_table);
        let tables = std::iter::once(&table)
            .chain(targets.into_iter().flat_map(|all| all.values()).filter_map(|t| t.as_table()));
        for table in tables {
            for kind in kinds {
                let Some(entries) = table.get(kind).and_then(toml::Value::as_table) else {
                    continue;
                };
                for (key, entry) in entries {
                    let renamed = entry.get("package").and_then(toml::Value::as_str);
                    dependencies.push((kind.to_owned(), renamed.unwrap_or(key).to_owned()));
                }
            }
        }
        let workspace_lints = table
            .get("lints")
            .and_then(|lints| lints.get("workspace"))
            .and_then(toml::Value::as_bool)
            .unwrap_or(false);
        found.push(Manifest { path, name: name.to_owned(), dependencies, workspace_lints });
    }
    found
}

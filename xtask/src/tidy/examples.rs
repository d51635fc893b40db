//! Examples are promises: each is whole, and a test of the binary runs it.

use super::tree::Tree;

pub(crate) fn whole(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    for case in tree.directories("examples") {
        for needed in ["README.md", "pinfold.toml"] {
            if !tree.files.contains_key(&format!("examples/{case}/{needed}")) {
                faults.push(format!("examples/{case} has no {needed}"));
            }
        }
        let script = tree.with_extension("py").any(|(path, text)| {
            path.starts_with(&format!("examples/{case}/")) && text.contains("agent_tools")
        });
        if !script {
            faults.push(format!("examples/{case} has no script that uses agent_tools"));
        }
        let tested = tree.files.iter().any(|(path, text)| {
            path.starts_with("crates/pinfold/tests/it/")
                && text.contains(&format!("examples/{case}"))
        });
        if !tested {
            faults.push(format!("no test in crates/pinfold/tests/it/ runs examples/{case}"));
        }
        let configuration = tree.files.get(&format!("examples/{case}/pinfold.toml"));
        if let Some(Err(error)) = configuration.map(|text| text.parse::<toml::Table>()) {
            faults.push(format!("examples/{case}/pinfold.toml: {}", error.message()));
        }
    }
    faults
}

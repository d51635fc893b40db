use super::tree::Tree;
use super::{crates, examples, files};

fn tree(files: &[(&str, &str)]) -> Tree {
    Tree {
        files: files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect(),
    }
}

#[test]
fn a_dependency_upwards_is_found_in_every_table() {
    let manifest =
        |tables: &str| format!("[package]\nname = \"store\"\n[lints]\nworkspace = true\n{tables}");
    for tables in [
        "[dependencies]\ngateway.workspace = true",
        "[dev-dependencies]\ngateway = { path = \"../gateway\" }",
        "[target.'cfg(unix)'.dependencies]\nother = { package = \"gateway\", path = \"x\" }",
    ] {
        let faults = crates::directions(&tree(&[("crates/store/Cargo.toml", &manifest(tables))]));
        assert_eq!(faults.len(), 1, "{tables}: {faults:?}");
        assert!(faults[0].contains("gateway"), "{faults:?}");
    }
    let fine = manifest("[dependencies]\nserde.workspace = true");
    assert!(crates::directions(&tree(&[("crates/store/Cargo.toml", &fine)])).is_empty());
}

#[test]
fn a_crate_nobody_decided_about_and_one_without_lints_are_found() {
    let faults = crates::directions(&tree(&[
        ("crates/new/Cargo.toml", "[package]\nname = \"new\"\n"),
        ("crates/mcp/Cargo.toml", "[package]\nname = \"mcp\"\n"),
    ]));
    assert_eq!(faults.len(), 2, "{faults:?}");
}

#[test]
fn a_test_file_that_is_never_compiled_is_found() {
    let faults = crates::no_forgotten_tests(&tree(&[
        ("crates/a/tests/it/main.rs", "mod known;\nmod folder;\n"),
        ("crates/a/tests/it/known.rs", ""),
        ("crates/a/tests/it/forgotten.rs", ""),
        ("crates/a/tests/it/folder/mod.rs", "mod inner;\n"),
        ("crates/a/tests/it/folder/inner.rs", ""),
        ("crates/a/tests/it/folder/lost.rs", ""),
    ]));
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(faults[0].contains("lost.rs") && faults[1].contains("forgotten.rs"), "{faults:?}");
}

#[test]
fn a_second_test_binary_is_found() {
    let faults = crates::one_test_binary(&tree(&[
        ("crates/a/tests/it/main.rs", ""),
        ("crates/a/tests/it/case.rs", ""),
        ("crates/a/tests/lonely.rs", ""),
        ("crates/a/tests/other/main.rs", ""),
    ]));
    assert_eq!(faults.len(), 2, "{faults:?}");
}

#[test]
fn unsafe_outside_the_sandbox_is_found_and_the_word_is_not() {
    let text = "// unsafe { is only spoken of\nlet a = \"unsafely\";\nunsafe { b() }\n";
    let faults = crates::unsafe_only_in_sandbox(&tree(&[
        ("crates/store/src/lib.rs", text),
        ("crates/sandbox/src/lib.rs", text),
    ]));
    assert_eq!(faults, ["crates/store/src/lib.rs:3"]);
}

#[test]
fn long_files_are_found_and_tests_do_not_count() {
    let long = "x\n".repeat(501);
    let tested = format!("{}#[cfg(test)]\nmod tests {{\n{long}", "x\n".repeat(400));
    let faults = files::length(&tree(&[
        ("crates/a/src/long.rs", &long),
        ("crates/a/src/tested.rs", &tested),
        ("crates/a/src/long/tests.rs", &long),
        ("crates/a/tests/it/long.rs", &long),
    ]));
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].contains("long.rs has 501"), "{faults:?}");
}

#[test]
fn a_file_beside_its_folder_is_found_unless_the_folder_holds_its_tests() {
    let faults = files::mod_form(&tree(&[
        ("crates/a/src/x.rs", ""),
        ("crates/a/src/x/y.rs", ""),
        ("crates/a/src/z.rs", ""),
        ("crates/a/src/z/tests.rs", ""),
    ]));
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].starts_with("crates/a/src/x.rs"), "{faults:?}");
}

#[test]
fn vague_names_are_found() {
    let faults = files::names(&tree(&[
        ("crates/a/src/utils.rs", ""),
        ("crates/a/src/common/mod.rs", ""),
        ("crates/a/src/commands/mod.rs", ""),
        ("docs/common.md", ""),
    ]));
    assert_eq!(faults.len(), 2, "{faults:?}");
}

#[test]
fn paths_and_registries_of_this_machine_are_found() {
    let own = ["/place/of/build/".to_owned()];
    let here = tree(&[("README.md", "fine\nsee /place/of/build/x\n")]);
    assert_eq!(files::foreign_text(&here, &own).len(), 1);

    let faults = files::nothing_of_this_machine(&tree(&[
        ("Cargo.lock", "source = \"registry+https://mirror.invalid/index\"\n"),
        ("web/package-lock.json", "\"resolved\": \"https://mirror.invalid/a.tgz\"\n"),
        (".npmrc", "registry=x\n"),
        (".cargo/config.toml", "[source.crates-io]\n"),
    ]));
    assert_eq!(faults.len(), 4, "{faults:?}");
}

#[test]
fn an_example_without_its_parts_or_its_test_is_found() {
    let script = ("examples/a/s.py", "from agent_tools import call\n");
    let whole = [
        script,
        ("examples/a/README.md", ""),
        ("examples/a/pinfold.toml", "[servers]\n"),
        ("crates/pinfold/tests/it/examples.rs", "examples/a/s.py"),
    ];
    assert!(examples::whole(&tree(&whole)).is_empty());
    assert_eq!(examples::whole(&tree(&[script])).len(), 3);
    let broken = [whole[0], whole[1], ("examples/a/pinfold.toml", "= 1"), whole[3]];
    assert_eq!(examples::whole(&tree(&broken)).len(), 1);
}

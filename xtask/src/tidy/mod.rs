//! The rules about the tree that no compiler checks; each is a function over a [`Tree`].
//!
//! It deliberately does not fix anything: a broken rule is for a person to think about.

mod crates;
mod examples;
mod files;
mod tree;

#[cfg(test)]
mod tests;

use anyhow::bail;
use tree::Tree;

/// A rule gives one line per fault.
type Rule = fn(&Tree) -> Vec<String>;

const RULES: [(&str, Rule); 9] = [
    ("crates depend only downwards", crates::directions),
    ("one integration binary per crate", crates::one_test_binary),
    ("no forgotten test file", crates::no_forgotten_tests),
    ("unsafe only in crates/sandbox", crates::unsafe_only_in_sandbox),
    ("files of at most 500 lines", files::length),
    ("modules with children are folders with mod.rs", files::mod_form),
    ("no vague module names", files::names),
    ("nothing of this machine", files::nothing_of_this_machine),
    ("every example is whole and tested", examples::whole),
];

pub(crate) fn run() -> anyhow::Result<()> {
    let tree = Tree::of_repository(&crate::root())?;
    let mut faults = 0;
    for (name, rule) in RULES {
        for fault in rule(&tree) {
            eprintln!("tidy: {name}: {fault}");
            faults += 1;
        }
    }
    if faults > 0 {
        bail!("tidy found {faults} faults");
    }
    println!("tidy: {} rules hold over {} files", RULES.len(), tree.files.len());
    Ok(())
}

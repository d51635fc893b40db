//! `docs/known-gaps.md` names tests; those have to be there.

use std::collections::BTreeSet;
use std::path::Path;

use crate::world::repository;

/// The numbers of the lines that have to be in it.
const LINES: [u32; 52] = [
    1, 2, 4, 5, 7, 8, 10, 12, 13, 15, 16, 17, 18, 19, 20, 21, 24, 25, 26, 27, 28, 29, 30, 32, 33,
    34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 45, 46, 47, 48, 49, 50, 51, 54, 55, 56, 58, 59, 60, 61,
    62, 63, 64,
];

/// The names of all functions in the sources below.
fn functions(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension() == Some("rs".as_ref()) {
            let text = std::fs::read_to_string(&path).unwrap();
            let names = text.split("fn ").skip(1).filter_map(|rest| rest.split('(').next());
            found.extend(names.map(str::to_owned));
        }
    }
}

#[test]
fn every_line_is_there_and_every_test_that_is_named() {
    let text = std::fs::read_to_string(repository().join("docs/known-gaps.md")).unwrap();
    let mut functions_there = BTreeSet::new();
    functions(&repository().join("crates"), &mut functions_there);
    let numbered = |line: &str| -> Option<Vec<u32>> {
        let numbers = line.strip_prefix("| ")?.split('|').next()?;
        numbers.split(',').map(|number| number.trim().parse().ok()).collect()
    };
    let mut numbers: Vec<u32> = text.lines().filter_map(numbered).flatten().collect();
    numbers.sort_unstable();
    assert_eq!(numbers, LINES);
    let mut named = 0;
    for row in text.lines().filter(|line| line.starts_with("| ")) {
        for name in row.split('`').skip(1).step_by(2).filter(|name| name.contains("::")) {
            let function = name.rsplit("::").next().unwrap();
            assert!(functions_there.contains(function), "there is no test {name}");
            named += 1;
        }
    }
    assert!(named > 50, "{named}");
}

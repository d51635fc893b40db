//! What an agent has read: of each file what it was and which lines, never its text.
//!
//! Kept under the path without links, and found again by the path as it was written.

use std::collections::HashMap;

use inside::Token;

/// Files remembered; the one that was used longest ago goes first.
const MOST: usize = 4096;

/// What an agent has read.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    files: HashMap<String, File>,
    /// Paths as written, to those without links.
    names: HashMap<String, String>,
    clock: u64,
}

/// What is known of one file.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) token: Token,
    /// Lines that were shown, as inclusive ranges from 1; `None`: everything.
    pub(crate) ranges: Option<Vec<(u64, u64)>>,
    used: u64,
}

impl Seen {
    /// What is known of the file at a path, as written or without links.
    pub(crate) fn get(&mut self, path: &str) -> Option<File> {
        self.clock += 1;
        let plain = plain(path);
        let real = self.names.get(&plain).unwrap_or(&plain);
        let file = self.files.get_mut(real)?;
        file.used = self.clock;
        Some(file.clone())
    }

    /// Lines of a file were shown; `None`: everything.
    pub(crate) fn read(
        &mut self,
        path: &str,
        real: &str,
        token: Token,
        range: Option<(u64, u64)>,
        total: Option<u64>,
    ) {
        let before = self.files.get(real).filter(|file| file.token == token);
        let ranges = match (range, before.map(|file| file.ranges.clone())) {
            (None, _) | (_, Some(None)) => None,
            (Some(range), before) => {
                let mut ranges = before.flatten().unwrap_or_default();
                if range.0 <= range.1 {
                    ranges.push(range);
                }
                let ranges = join(ranges);
                let whole = total.is_some_and(|total| {
                    total == 0 || ranges.iter().any(|range| range.0 <= 1 && range.1 >= total)
                });
                (!whole).then_some(ranges)
            }
        };
        self.put(path, real, token, ranges);
    }

    /// A file was written whole.
    pub(crate) fn wrote(&mut self, path: &str, real: &str, token: Token) {
        self.put(path, real, token, None);
    }

    /// Places in a file were replaced: where they begin now, and the line feeds before and after.
    pub(crate) fn edited(
        &mut self,
        path: &str,
        real: &str,
        token: Token,
        at: &[u64],
        spans: &[(u64, u64)],
    ) {
        let ranges = self.files.get(real).and_then(|file| file.ranges.clone());
        let ranges = ranges.map(|ranges| {
            let shifted = |line: u64, up_to: bool| {
                let (mut grown, mut moved) = (0i128, i128::from(line));
                for (now, (before, after)) in at.iter().zip(spans) {
                    let was = i128::from(*now) - grown;
                    let first = i128::from(line) > was;
                    if first || (up_to && i128::from(line) == was) {
                        moved += i128::from(*after) - i128::from(*before);
                    }
                    grown += i128::from(*after) - i128::from(*before);
                }
                u64::try_from(moved.max(1)).unwrap_or(1)
            };
            ranges.iter().map(|range| (shifted(range.0, false), shifted(range.1, true))).collect()
        });
        self.put(path, real, token, ranges);
    }

    fn put(&mut self, path: &str, real: &str, token: Token, ranges: Option<Vec<(u64, u64)>>) {
        self.clock += 1;
        if self.names.len() > 4 * MOST {
            self.names.clear();
        }
        let plain = plain(path);
        if plain == real {
            self.names.remove(&plain);
        } else {
            self.names.insert(plain, real.to_owned());
        }
        self.files.insert(real.to_owned(), File { token, ranges, used: self.clock });
        if self.files.len() > MOST {
            let oldest = self.files.iter().min_by_key(|(_, file)| file.used);
            if let Some(oldest) = oldest.map(|(path, _)| path.clone()) {
                self.files.remove(&oldest);
            }
        }
    }
}

/// A path without doubled slashes and dots. Steps up stay: a link may stand before them.
fn plain(path: &str) -> String {
    let parts: Vec<&str> =
        path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    format!("/{}", parts.join("/"))
}

fn join(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.0 <= last.1.saturating_add(1) => last.1 = last.1.max(range.1),
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(number: u8) -> Token {
        Token::Content([number; 32])
    }

    #[test]
    fn pages_of_the_same_file_join_and_the_last_makes_it_whole() {
        let mut seen = Seen::default();
        seen.read("/w//a", "/w/a", token(1), Some((1, 10)), Some(30));
        seen.read("/w/./a", "/w/a", token(1), Some((21, 30)), Some(30));
        assert_eq!(seen.get("/w/a").unwrap().ranges, Some(vec![(1, 10), (21, 30)]));
        seen.read("/w/a", "/w/a", token(1), Some((11, 20)), Some(30));
        assert_eq!(seen.get("/w/a").unwrap().ranges, None);
        seen.read("/w/a", "/w/a", token(2), Some((1, 10)), Some(30));
        assert_eq!(seen.get("/w/a").unwrap().ranges, Some(vec![(1, 10)]), "another file");
    }

    #[test]
    fn ranges_move_with_what_is_edited() {
        let mut seen = Seen::default();
        seen.read("/a", "/a", token(1), Some((1, 10)), None);
        seen.read("/a", "/a", token(1), Some((20, 30)), None);
        // One line became three at line 5, then one became none at line 25 (27 by then).
        seen.edited("/a", "/a", token(2), &[5], &[(0, 2)]);
        assert_eq!(seen.get("/a").unwrap().ranges, Some(vec![(1, 12), (22, 32)]));
        seen.edited("/a", "/a", token(3), &[27], &[(1, 0)]);
        assert_eq!(seen.get("/a").unwrap().ranges, Some(vec![(1, 12), (22, 31)]));
        seen.edited("/a", "/a", token(4), &[2, 4], &[(0, 1), (0, 1)]);
        assert_eq!(seen.get("/a").unwrap().ranges, Some(vec![(1, 14), (24, 33)]));
    }

    #[test]
    fn a_link_and_what_it_leads_to_are_one_file() {
        let mut seen = Seen::default();
        seen.read("/w/link", "/w/real", token(1), None, None);
        assert!(seen.get("/w/link").is_some() && seen.get("/w/real").is_some());
        seen.wrote("/w/real", "/w/real", token(2));
        assert_eq!(seen.get("/w/link").unwrap().token, token(2));
    }

    #[test]
    fn of_too_many_files_the_one_used_longest_ago_is_forgotten() {
        let mut seen = Seen::default();
        for number in 0..MOST {
            seen.wrote(&format!("/{number}"), &format!("/{number}"), token(0));
        }
        assert!(seen.get("/0").is_some());
        seen.wrote("/new", "/new", token(0));
        assert!(seen.get("/0").is_some() && seen.get("/new").is_some());
        assert!(seen.get("/1").is_none());
    }
}

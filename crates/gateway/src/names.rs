//! The full names of tools: `server__tool`.
//!
//! A name depends on the server's and the tool's own names and on nothing else, so it is the same
//! whatever else is configured or connected. Where the plain form would be too long, not valid or
//! open to two readings, it ends in a hash of both names instead. One server can be without prefix:
//! its tools keep their own names where those cannot be taken for another server's tool or for one
//! of ours, so whether a name is taken never depends on which servers are there.

use std::collections::HashSet;

use crate::json;
use crate::sources::own;

/// Between server and tool.
const SEPARATOR: &str = "__";

/// Longest name: some models' interfaces take no more, though MCP itself would allow 128.
const LONGEST: usize = 64;

/// Longest part of the server in a name with a hash.
const SERVER_PART: usize = 24;

/// Hexadecimal digits of the hash.
const DIGITS: usize = 10;

/// Names that are suggested at most.
const SUGGESTIONS: usize = 3;

/// How tools are named.
#[derive(Clone, Debug, Default)]
pub(crate) struct Naming {
    /// The server without prefix, if there is one.
    bare: Option<String>,
}

impl Naming {
    pub(crate) fn new(bare: Option<String>) -> Self {
        Self { bare }
    }

    /// The full name of a server's tool.
    pub(crate) fn full(&self, server: &str, tool: &str) -> String {
        if self.is_bare(server) && stands_alone(tool) {
            tool.to_owned()
        } else {
            full(server, tool)
        }
    }

    /// Whether a full name could be that of a tool of this server.
    pub(crate) fn belongs(&self, name: &str, server: &str) -> bool {
        belongs(name, server) || (self.is_bare(server) && stands_alone(name))
    }

    pub(crate) fn is_bare(&self, server: &str) -> bool {
        self.bare.as_deref() == Some(server)
    }
}

/// Whether a tool's own name can be its full name. No name with a prefix is like that.
fn stands_alone(tool: &str) -> bool {
    (1..=LONGEST).contains(&tool.len())
        && tool.chars().all(valid)
        && !tool.contains(SEPARATOR)
        && own::find(tool).is_none()
}

/// The name with the server's prefix.
fn full(server: &str, tool: &str) -> String {
    let plain = format!("{server}{SEPARATOR}{tool}");
    // A server without the separator in it, and not ending in half of one, can be read back from
    // the front; then two different pairs never give the same plain name.
    let one_reading = !server.is_empty()
        && !tool.is_empty()
        && !server.contains(SEPARATOR)
        && !server.ends_with('_');
    if one_reading && plain.len() <= LONGEST && plain.chars().all(valid) && !ends_in_hash(&plain) {
        return plain;
    }
    let server_part = clean(server, SERVER_PART);
    let room = LONGEST - server_part.len() - SEPARATOR.len() - 1 - DIGITS;
    let tool_part = clean(tool, room);
    let hash = json::hash([server, tool]);
    format!("{server_part}{SEPARATOR}{tool_part}_{}", &hash[..DIGITS])
}

fn belongs(name: &str, server: &str) -> bool {
    [server.to_owned(), clean(server, SERVER_PART)].iter().any(|prefix| {
        name.strip_prefix(prefix.as_str()).is_some_and(|rest| rest.starts_with(SEPARATOR))
    })
}

fn valid(character: char) -> bool {
    character.is_ascii_alphanumeric() || "_.-".contains(character)
}

fn clean(name: &str, longest: usize) -> String {
    name.chars().take(longest).map(|c| if valid(c) { c } else { '_' }).collect()
}

/// Whether a plain name looks like one with a hash; it gets a hash then, so that no server can
/// choose a name that another one's tool gets.
fn ends_in_hash(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.len() > DIGITS
        && bytes[bytes.len() - DIGITS - 1] == b'_'
        && bytes[bytes.len() - DIGITS..].iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// What a name most probably meant, best first.
pub(crate) fn similar<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let wanted = plain(&json::cut(wanted, 200));
    let wanted_tool = tool_part(&wanted);
    let mut scored: Vec<(f64, &str)> = known
        .into_iter()
        .filter_map(|name| {
            let candidate = plain(name);
            let score = score(&wanted, wanted_tool, &candidate);
            (score >= 0.7).then_some((score, name))
        })
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    let best = scored.first().map_or(0.0, |first| first.0);
    let mut seen = HashSet::new();
    scored
        .into_iter()
        // Beside a good hit, mere likenesses only confuse.
        .filter(|(score, name)| *score >= best - 0.06 && seen.insert(*name))
        .take(SUGGESTIONS)
        .map(|(_, name)| name.to_owned())
        .collect()
}

/// Lower case, one separator: clients and models change both.
fn plain(name: &str) -> String {
    name.to_lowercase().replace(['-', '.', ' ', '/', ':'], "_")
}

fn tool_part(name: &str) -> &str {
    name.rsplit_once(SEPARATOR).map_or(name, |(_, tool)| tool)
}

fn score(wanted: &str, wanted_tool: &str, candidate: &str) -> f64 {
    if wanted == candidate {
        return 1.0;
    }
    // A client's own prefix: `mcp__pinfold__server__tool`.
    if wanted.len() > candidate.len() && wanted.ends_with(candidate) {
        let before = &wanted[..wanted.len() - candidate.len()];
        if before.ends_with('_') {
            return 0.99;
        }
    }
    let candidate_tool = candidate.split_once(SEPARATOR).map_or(candidate, |(_, tool)| tool);
    if wanted == candidate_tool || wanted_tool == candidate_tool {
        return 0.97;
    }
    let whole = strsim::normalized_damerau_levenshtein(wanted, candidate);
    let tool = strsim::normalized_damerau_levenshtein(wanted_tool, candidate_tool) * 0.96;
    // Single words, so that `device_status` finds `fleet__get_device_status`.
    let words = |text: &str| -> HashSet<String> {
        text.split('_').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let (left, right) = (words(wanted_tool), words(candidate_tool));
    let shared = left.intersection(&right).count() as f64;
    let smaller = left.len().min(right.len()).max(1) as f64;
    let by_words = if shared >= 2.0 { 0.72 + 0.2 * (shared / smaller - 0.5) } else { 0.0 };
    whole.max(tool).max(by_words)
}

/// `; did you mean "a" or "b"?`, or nothing.
pub(crate) fn did_you_mean(suggestions: &[String]) -> String {
    if suggestions.is_empty() {
        return String::new();
    }
    let quoted: Vec<String> = suggestions.iter().map(|name| format!("{name:?}")).collect();
    format!("; did you mean {}?", quoted.join(" or "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn plain_names_stay_plain() {
        for (server, tool, expected) in [
            ("fleet", "get_device_status", "fleet__get_device_status"),
            ("git-hub", "issues.list", "git-hub__issues.list"),
            ("a_b", "_c", "a_b___c"),
            ("files", "read__all", "files__read__all"),
        ] {
            assert_eq!(full(server, tool), expected);
        }
    }

    #[test]
    fn awkward_names_get_a_hash() {
        for (server, tool, start) in [
            ("my server", "x", "my_server__x_"),
            ("a_", "b", "a___b_"),
            ("a__b", "c", "a__b__c_"),
            ("日本", "検索", "____"),
            ("", "x", "__x_"),
            ("x", "", "x___"),
            ("fleet", "run_0123456789", "fleet__run_0123456789_"),
            ("fleet", &"long_".repeat(30), "fleet__long_long_"),
        ] {
            let name = full(server, tool);
            assert!(name.starts_with(start) && ends_in_hash(&name), "{name}");
        }
        assert_ne!(full("a__b", "c"), full("a", "b__c"));
        assert_ne!(full("a_", "b"), full("a", "_b"));
        assert_ne!(full("a b", "c"), full("a_b", "c"));
    }

    #[test]
    fn one_server_can_be_without_prefix() {
        let naming = Naming::new(Some("fleet".to_owned()));
        for (tool, expected) in [
            ("get", "get"),
            ("a_b.c-d", "a_b.c-d"),
            ("tickets__close", "fleet__tickets__close"),
            ("run_script", "fleet__run_script"),
        ] {
            assert_eq!(naming.full("fleet", tool), expected);
            assert!(naming.belongs(expected, "fleet"));
        }
        assert_eq!(naming.full("tickets", "get"), "tickets__get");
        assert!(!naming.belongs("get", "tickets") && !naming.belongs("run_script", "fleet"));
        for tool in ["", "a b", &"long_".repeat(20)] {
            assert_eq!(naming.full("fleet", tool), full("fleet", tool));
        }
    }

    proptest! {
        #[test]
        fn every_name_is_valid_and_short(server in ".{0,80}", tool in ".{0,200}") {
            let name = full(&server, &tool);
            prop_assert!((1..=LONGEST).contains(&name.len()), "{}", name);
            prop_assert!(name.chars().all(valid), "{}", name);
        }

        #[test]
        fn two_pairs_never_share_a_name(
            a in "[a_ ]{1,4}", b in "[a_ ]{1,4}", c in "[a_ ]{1,4}", d in "[a_ ]{1,4}",
        ) {
            prop_assume!((&a, &b) != (&c, &d));
            prop_assert_ne!(full(&a, &b), full(&c, &d));
        }

        #[test]
        fn without_prefix_two_tools_never_share_a_name_either(
            a in "[a_ ]{1,4}", b in "[a_ ]{1,4}", c in "[a_ ]{1,4}", d in "[a_ ]{1,4}",
        ) {
            prop_assume!((&a, &b) != (&c, &d));
            let naming = Naming::new(Some(a.clone()));
            prop_assert_ne!(naming.full(&a, &b), naming.full(&c, &d));
            prop_assert!(naming.belongs(&naming.full(&a, &b), &a));
        }

        #[test]
        fn suggestions_take_any_text(wanted in ".{0,300}") {
            similar(&wanted, ["fleet__get_device_status", "日本__x"]);
        }
    }

    #[test]
    fn what_was_meant_is_found() {
        let known = [
            "fleet__get_device_status",
            "fleet__list_devices",
            "fleet__reboot",
            "tickets__close",
            "tickets__list",
        ];
        for (wanted, expected) in [
            ("fleet__get_device_statu", "fleet__get_device_status"),
            ("get_device_status", "fleet__get_device_status"),
            ("mcp__pinfold__fleet__get_device_status", "fleet__get_device_status"),
            ("pinfold_fleet__reboot", "fleet__reboot"),
            ("fleet.list-devices", "fleet__list_devices"),
            ("Fleet__Reboot", "fleet__reboot"),
            ("fleet_get_device_status", "fleet__get_device_status"),
            ("fleet:reboot", "fleet__reboot"),
            ("other__reboot", "fleet__reboot"),
            ("device_status", "fleet__get_device_status"),
            ("tickets__clsoe", "tickets__close"),
        ] {
            let found = similar(wanted, known);
            assert_eq!(found.first().map(String::as_str), Some(expected), "{wanted}: {found:?}");
        }
        assert_eq!(similar("weather", known), Vec::<String>::new());
        assert_eq!(similar("", known), Vec::<String>::new());
        assert_eq!(did_you_mean(&["a".into(), "b".into()]), "; did you mean \"a\" or \"b\"?");
    }
}

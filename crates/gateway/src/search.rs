//! Ranked search among tools: what a model describes in a few words, by the words of names, titles,
//! descriptions and parameters (BM25 over weighted fields).
//!
//! It has no language model and no list of the world's words: words are cut to stems in a simple
//! way, a few verbs that tools are named by count as alike, and what is misspelt is taken for the
//! nearest word there is. Text without spaces (Chinese, Japanese) is searched by pairs of characters.

use std::collections::{BTreeMap, HashMap};

/// How much a word counts by where it stands.
const NAME: f64 = 4.0;
const TITLE: f64 = 3.0;
const TEXT: f64 = 1.0;

/// BM25's own: how soon more of the same word adds nothing, how much length counts.
const SATURATION: f64 = 1.2;
const LENGTH: f64 = 0.4;

/// What a word is worth that is only like the one that was asked for.
const ALIKE: f64 = 0.45;
const BEGINS: f64 = 0.6;
const MISSPELT: f64 = 0.5;

/// Bounds on what is read of a tool and of a query.
const TEXT_CHARACTERS: usize = 4_000;
const QUERY_WORDS: usize = 40;

/// Words that say nothing about a tool.
const EMPTY: &[&str] = &[
    "a", "all", "an", "and", "any", "are", "as", "at", "be", "by", "can", "do", "for", "from",
    "give", "how", "i", "in", "is", "it", "its", "me", "my", "of", "on", "or", "please", "some",
    "that", "the", "their", "there", "this", "to", "tool", "want", "what", "which", "with",
    "would", "you", "your",
];

/// Verbs that tools are named by, those of a line for the same thing.
const SAME: [&[&str]; 9] = [
    &["delete", "remove", "erase", "drop", "wipe", "purge"],
    &["create", "add", "new", "make", "insert", "open", "register"],
    &["get", "fetch", "read", "show", "retrieve", "view", "load", "describe"],
    &["list", "enumerate"],
    &["search", "find", "query", "lookup", "look"],
    &["update", "edit", "modify", "change", "set", "patch", "rename"],
    &["send", "post", "publish", "notify"],
    &["run", "execute", "start", "launch", "trigger"],
    &["restart", "reboot", "reset"],
];

/// What is known of a tool.
pub(crate) struct Entry<'a> {
    pub(crate) name: &'a str,
    pub(crate) title: &'a str,
    pub(crate) description: &'a str,
    pub(crate) parameters: &'a [String],
}

/// Tools, ready to be searched. A tool is named by its place among those that were given.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// By word: in which tools it stands, and with which weight.
    words: BTreeMap<String, Vec<(u32, f64)>>,
    lengths: Vec<f64>,
    usual: f64,
    /// By stem: stems of words for the same thing.
    same: HashMap<String, Vec<String>>,
}

impl Index {
    pub(crate) fn new<'a>(entries: impl Iterator<Item = Entry<'a>>) -> Self {
        let mut index = Self { same: same(), ..Self::default() };
        for (place, entry) in entries.enumerate() {
            let place = u32::try_from(place).unwrap_or(u32::MAX);
            let mut weights: HashMap<String, f64> = HashMap::new();
            let parameters = entry.parameters.join(" ");
            let fields = [
                (entry.name, NAME),
                (entry.title, TITLE),
                (entry.description, TEXT),
                (&parameters, TEXT),
            ];
            for (text, weight) in fields {
                for word in words(text) {
                    *weights.entry(word).or_default() += weight;
                }
            }
            index.lengths.push(weights.values().sum());
            for (word, weight) in weights {
                index.words.entry(word).or_default().push((place, weight));
            }
        }
        index.usual = index.lengths.iter().sum::<f64>() / index.lengths.len().max(1) as f64;
        index
    }

    /// The places of the tools that fit, best first; of equals the first.
    pub(crate) fn search(&self, query: &str) -> Vec<usize> {
        let mut scores: HashMap<u32, f64> = HashMap::new();
        let mut wanted = words(query);
        wanted.sort_unstable();
        wanted.dedup();
        wanted.truncate(QUERY_WORDS);
        for word in wanted {
            // A tool gets the best of what is like the word, not the sum.
            let mut best: HashMap<u32, f64> = HashMap::new();
            for (word, worth) in self.meant(&word) {
                for (place, score) in self.score(word) {
                    let score = score * worth;
                    let best = best.entry(place).or_default();
                    *best = best.max(score);
                }
            }
            for (place, score) in best {
                *scores.entry(place).or_default() += score;
            }
        }
        let mut found: Vec<(u32, f64)> = scores.into_iter().collect();
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        found.into_iter().map(|(place, _)| place as usize).collect()
    }

    /// Words there are that a word of a query can mean, and what each is worth.
    fn meant(&self, word: &str) -> Vec<(&str, f64)> {
        let mut meant = Vec::new();
        if let Some((known, _)) = self.words.get_key_value(word) {
            meant.push((known.as_str(), 1.0));
        }
        for other in self.same.get(word).into_iter().flatten() {
            if let Some((known, _)) = self.words.get_key_value(other) {
                meant.push((known.as_str(), ALIKE));
            }
        }
        let letters = word.chars().count();
        if letters >= 3 {
            let from = self.words.range(word.to_owned()..);
            let begin = from.map(|(known, _)| known.as_str());
            let begin =
                begin.take_while(|known| known.starts_with(word)).filter(|known| *known != word);
            meant.extend(begin.take(20).map(|known| (known, BEGINS)));
        }
        if meant.is_empty() && letters >= 4 {
            let near = |known: &&str| {
                let most = if letters >= 8 { 2 } else { 1 };
                known.len().abs_diff(word.len()) <= most
                    && strsim::damerau_levenshtein(known, word) <= most
            };
            let known = self.words.keys().map(String::as_str);
            meant.extend(known.filter(near).map(|known| (known, MISSPELT)));
        }
        meant
    }

    /// BM25 of a word there is, by tool.
    fn score(&self, word: &str) -> impl Iterator<Item = (u32, f64)> {
        let places = self.words.get(word).map_or(&[][..], Vec::as_slice);
        let all = self.lengths.len() as f64;
        let with = places.len() as f64;
        let rarity = (1.0 + (all - with + 0.5) / (with + 0.5)).ln();
        places.iter().map(move |&(place, weight)| {
            let length = self.lengths.get(place as usize).copied().unwrap_or_default();
            let length = 1.0 - LENGTH + LENGTH * length / self.usual.max(1.0);
            (place, rarity * weight * (SATURATION + 1.0) / (weight + SATURATION * length))
        })
    }
}

fn same() -> HashMap<String, Vec<String>> {
    let mut same: HashMap<String, Vec<String>> = HashMap::new();
    for line in SAME {
        for word in line {
            let others = line.iter().filter(|other| *other != word).map(|other| stem(other));
            same.entry(stem(word)).or_default().extend(others);
        }
    }
    same
}

/// The words of a text: lower case, without endings; `getDeviceStatus` and `get_device_status` are
/// the same three.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut before: Option<char> = None;
    let mut dense: Vec<char> = Vec::new();
    let end = |word: &mut String, words: &mut Vec<String>| {
        let whole = std::mem::take(word);
        if !whole.is_empty() && !EMPTY.contains(&whole.as_str()) {
            words.push(stem(&whole));
        }
    };
    let pairs = |dense: &mut Vec<char>, words: &mut Vec<String>| {
        match dense.as_slice() {
            [] => {}
            [one] => words.push(one.to_string()),
            more => words.extend(more.windows(2).map(|pair| pair.iter().collect())),
        }
        dense.clear();
    };
    for character in text.chars().take(TEXT_CHARACTERS) {
        let turns = character.is_uppercase() && before.is_some_and(char::is_lowercase)
            || character.is_numeric() != before.is_some_and(char::is_numeric);
        if is_dense(character) {
            end(&mut word, &mut words);
            dense.push(character);
        } else if character.is_alphanumeric() {
            pairs(&mut dense, &mut words);
            if turns {
                end(&mut word, &mut words);
            }
            word.extend(character.to_lowercase());
        } else {
            pairs(&mut dense, &mut words);
            end(&mut word, &mut words);
        }
        before = Some(character);
    }
    pairs(&mut dense, &mut words);
    end(&mut word, &mut words);
    words
}

/// Scripts that put no spaces between words.
fn is_dense(character: char) -> bool {
    matches!(character, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{2fa1f}')
}

/// A word without its English ending: not its root, but the same for all its forms.
fn stem(word: &str) -> String {
    if !word.is_ascii() || word.len() < 4 {
        return word.to_owned();
    }
    let mut word = word.to_owned();
    if word.ends_with("ies") {
        word.truncate(word.len() - 3);
        word.push('y');
    } else if word.ends_with('s') && !["ss", "us", "is"].iter().any(|end| word.ends_with(end)) {
        word.truncate(word.len() - 1);
    }
    for ending in ["ing", "ed"] {
        let Some(rest) = word.strip_suffix(ending) else { continue };
        if rest.len() < 3 || !rest.contains(['a', 'e', 'i', 'o', 'u', 'y']) {
            continue;
        }
        let letters = rest.as_bytes();
        let [.., before, last] = letters else { continue };
        let doubled = before == last && !b"lsz".contains(last);
        word.truncate(rest.len() - usize::from(doubled));
        break;
    }
    if word.len() > 3 && word.ends_with('e') {
        word.truncate(word.len() - 1);
    }
    word
}

#[cfg(test)]
mod tests;

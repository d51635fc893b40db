//! For a text that is not in a file: where something like it stands, and what differs.

use crate::read;

/// Lines longer than this are not compared.
const LONGEST: usize = 400;
/// Lines that are compared at most.
const MOST: usize = 20_000;

/// In words; empty when nothing is like it.
pub(crate) fn explain(bytes: &[u8], old: &str) -> String {
    if !old.contains('\n') && old.contains("\\n") {
        let real = old.replace("\\n", "\n");
        if memchr::memmem::find(bytes, real.as_bytes()).is_some() {
            return "; it has \\n as two characters where the file has a line's end: give a real \
                    one"
            .to_owned();
        }
    }
    let wanted: Vec<&str> = old.lines().collect();
    let Some((at, first)) = wanted.iter().enumerate().find(|(_, line)| !line.trim().is_empty())
    else {
        return String::new();
    };
    let lines: Vec<String> = read::lines(bytes).take(MOST).map(text).collect();
    let key = loose(first);
    let mut best: Option<(f64, usize)> = None;
    for (index, line) in lines.iter().enumerate() {
        let candidate = loose(line);
        let likeness = if candidate == key {
            // Of several the one after which more lines agree.
            let following = wanted[at..].iter().zip(&lines[index..]);
            1.0 + following.take_while(|(a, b)| loose(a) == loose(b)).count() as f64
        } else if candidate.len().abs_diff(key.len()) * 2 > key.len().max(candidate.len()) {
            continue;
        } else {
            strsim::normalized_levenshtein(&candidate, &key)
        };
        if likeness > best.map_or(0.6, |(likeness, _)| likeness) {
            best = Some((likeness, index));
        }
    }
    let Some((_, start)) = best else { return String::new() };
    for (wanted, (index, line)) in wanted[at..].iter().zip(lines.iter().enumerate().skip(start)) {
        if wanted != line {
            return format!("; nearest is line {}: {line:?}{}", index + 1, differing(wanted, line));
        }
    }
    format!("; line {} is the same, what follows is not: look there again", start + 1)
}

/// The first character that differs, named.
fn differing(wanted: &str, line: &str) -> String {
    let both = wanted.chars().map(Some).chain([None]).zip(line.chars().map(Some).chain([None]));
    let found = both.enumerate().find(|(_, (wanted, line))| wanted != line);
    match found {
        Some((at, (wanted, line))) => {
            format!(
                " (character {}: the file has {}, old_string has {})",
                at + 1,
                name(line),
                name(wanted)
            )
        }
        None => String::new(),
    }
}

fn name(character: Option<char>) -> String {
    match character {
        None => "the line's end".to_owned(),
        Some('\t') => "a tab".to_owned(),
        Some(' ') => "a blank".to_owned(),
        Some('\u{a0}') => "a no-break space (U+00A0)".to_owned(),
        Some(other) if other.is_ascii_graphic() => format!("{other:?}"),
        Some(other) => format!("{other:?} (U+{:04X})", other as u32),
    }
}

/// Without differences that eyes do not see.
fn loose(line: &str) -> String {
    let mut words = String::with_capacity(line.len());
    for word in line.split(|c: char| c.is_whitespace() || c == '\u{a0}').filter(|w| !w.is_empty()) {
        if !words.is_empty() {
            words.push(' ');
        }
        for character in word.chars().take(LONGEST) {
            words.push(match character {
                '\u{2018}' | '\u{2019}' => '\'',
                '\u{201c}' | '\u{201d}' => '"',
                '\u{2013}' | '\u{2014}' => '-',
                other => other,
            });
        }
    }
    words
}

fn text(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let text = String::from_utf8_lossy(&line[..line.len().min(4 * LONGEST)]);
    text.chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_line_and_the_differing_character_are_named() {
        let file = "fn a() {\n\tlet x = 1;\n}\nprice:\u{a0}5\n";
        let table = [
            (
                "    let x = 1;",
                "line 2: \"\\tlet x = 1;\" (character 1: the file has a tab, old_string has a blank)",
            ),
            (
                "price: 5",
                "character 7: the file has a no-break space (U+00A0), old_string has a blank",
            ),
            ("fn a() {\\n\tlet x", "give a real one"),
            ("fn a() {\n\tlet y = 1;", "line 2"),
            ("let x = 1", "line 2"),
        ];
        for (old, expected) in table {
            let found = explain(file.as_bytes(), old);
            assert!(found.contains(expected), "{old:?}: {found}");
        }
        assert_eq!(explain(file.as_bytes(), "nothing of the kind at all"), "");
        assert_eq!(explain(b"", "x"), "");
    }
}

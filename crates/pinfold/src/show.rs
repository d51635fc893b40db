//! Text that somebody else wrote, made safe to look at on a terminal.
//!
//! What a person approves must be what runs. So nothing here can move the cursor, change colours,
//! reverse the direction of reading or hide: control characters, escapes, direction marks and
//! invisible characters appear as what they are, in `\u{…}`.

use std::fmt;

/// Columns after which a line is folded, so that a long line cannot push code out of sight.
const FOLD: usize = 160;

/// A text to be displayed; see the module.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'a> {
    text: &'a str,
    most: usize,
}

impl<'a> Shown<'a> {
    /// One line, whatever is in it, cut at 400 characters with the rest counted.
    pub(crate) fn line(text: &'a str) -> Self {
        Self { text, most: 400 }
    }

    /// One line, never cut.
    pub(crate) fn whole(text: &'a str) -> Self {
        Self { text, most: usize::MAX }
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut characters = self.text.chars();
        for character in characters.by_ref().take(self.most) {
            if deceives(character) {
                write!(f, "{}", character.escape_unicode())?;
            } else {
                write!(f, "{character}")?;
            }
        }
        match characters.count() {
            0 => Ok(()),
            rest => write!(f, "… ({rest} more characters)"),
        }
    }
}

/// The lines of a script with their numbers, neutralised and folded; at most `most` rows, the
/// first and the last ones, with what was left out said where it is missing.
pub(crate) fn script(code: &str, most: usize) -> Vec<String> {
    let mut rows = Vec::new();
    for (index, line) in code.split('\n').enumerate() {
        // A trailing newline is no line of its own; `\r` inside one is shown as such.
        if line.is_empty() && index > 0 && index == code.matches('\n').count() {
            break;
        }
        let line = line.strip_suffix('\r').unwrap_or(line).replace('\t', "    ");
        let safe: Vec<char> = Shown::whole(&line).to_string().chars().collect();
        let mut pieces = safe.chunks(FOLD);
        let first: String = pieces.next().unwrap_or_default().iter().collect();
        rows.push(format!("{:>5} │ {first}", index + 1));
        rows.extend(pieces.map(|piece| format!("      ↳ {}", piece.iter().collect::<String>())));
    }
    if rows.len() > most {
        let head = most - most / 4;
        let tail = most - head;
        let left_out = rows.len() - head - tail;
        let note = format!("      ┆ {left_out} rows are not shown here");
        rows.splice(head..head + left_out, [note]);
    }
    rows
}

/// Whether a character could make a text look like another one.
fn deceives(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_direction_marks_are_written_out() {
        let attack = "ok\u{1b}[2K\r\u{202e}evil\u{200b}\u{e0041}";
        let shown = Shown::line(attack).to_string();
        assert_eq!(shown, r"ok\u{1b}[2K\u{d}\u{202e}evil\u{200b}\u{e0041}");
        assert_eq!(Shown::line("Cádiz 设备 °C").to_string(), "Cádiz 设备 °C");
    }

    #[test]
    fn a_long_line_is_folded_and_none_of_it_is_lost() {
        let code = format!("x = 1{}wipe()\n", " ".repeat(500));
        let rows = script(&code, 100);
        assert!(rows.len() > 3 && rows.iter().all(|row| row.chars().count() <= FOLD + 8));
        assert!(rows.last().unwrap().contains("wipe()"), "{rows:?}");
    }

    #[test]
    fn a_long_script_says_how_much_is_missing_and_where() {
        let code: String = (0..1000).map(|n| format!("line{n}\n")).collect();
        let rows = script(&code, 40);
        assert_eq!(rows.len(), 41);
        assert!(rows[30].contains("960 rows are not shown"), "{}", rows[30]);
        assert!(rows[40].ends_with("line999"));
    }

    #[test]
    fn a_carriage_return_inside_a_line_cannot_overwrite_it() {
        assert_eq!(script("a\r\nb\rc", 10), ["    1 │ a", r"    2 │ b\u{d}c"]);
    }
}

//! The tokens of a text that may or may not be JSON: it is walked, never judged.
//!
//! Strings are told from what stands between them, and nothing recurses, so that any text may come.

use std::ops::Range;

/// Deepest nesting of a message that is taken. Whoever reads it later may recurse.
pub(crate) const DEEPEST: usize = 256;

/// What stands at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// `{` or `[`.
    Open,
    /// `}` or `]`.
    Close,
    Colon,
    Comma,
    /// A string; its place is what stands between the quotes.
    Text,
    /// Anything else up to white space or the next token: a number, `true`, `NaN`.
    Word,
}

/// Walks over a text.
pub(crate) struct Tokens<'a> {
    text: &'a [u8],
    at: usize,
}

/// The tokens of `text`. Their places begin and end between characters.
pub(crate) fn tokens(text: &str) -> Tokens<'_> {
    Tokens { text: text.as_bytes(), at: 0 }
}

/// Whether brackets stand deeper in each other than is taken.
pub(crate) fn is_too_deep(text: &str) -> bool {
    // Most messages do not even have so many brackets.
    if memchr::memchr2_iter(b'{', b'[', text.as_bytes()).nth(DEEPEST).is_none() {
        return false;
    }
    let mut depth = 0_usize;
    tokens(text).any(|(token, _)| {
        match token {
            Token::Open => depth += 1,
            Token::Close => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > DEEPEST
    })
}

impl Tokens<'_> {
    /// The end of the string that begins here, which may lack its closing quote.
    fn text_end(&self, mut at: usize) -> usize {
        while let Some(next) = memchr::memchr2(b'"', b'\\', &self.text[at..]) {
            at += next;
            if self.text[at] == b'"' {
                return at;
            }
            at += 2;
            if at >= self.text.len() {
                break;
            }
        }
        self.text.len()
    }
}

impl Iterator for Tokens<'_> {
    type Item = (Token, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        let blank = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_whitespace());
        let start = self.at + blank.count();
        let token = match self.text.get(start)? {
            b'{' | b'[' => Token::Open,
            b'}' | b']' => Token::Close,
            b':' => Token::Colon,
            b',' => Token::Comma,
            b'"' => {
                let end = self.text_end(start + 1);
                self.at = (end + 1).min(self.text.len());
                return Some((Token::Text, start + 1..end));
            }
            _ => {
                let word = self.text[start..]
                    .iter()
                    .take_while(|byte| !byte.is_ascii_whitespace() && !b"{}[]:,\"".contains(byte));
                self.at = start + word.count();
                return Some((Token::Word, start..self.at));
            }
        };
        self.at = start + 1;
        Some((token, start..self.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_walked_to_its_end() {
        let seen = |text: &'static str| -> Vec<&'static str> {
            tokens(text).map(|(_, place)| &text[place]).collect()
        };
        assert_eq!(
            seen(r#"{"a\"b": [NaN,-1.5e3]}"#),
            ["{", r#"a\"b"#, ":", "[", "NaN", ",", "-1.5e3", "]", "}"]
        );
        assert_eq!(seen("é \"ü"), ["é", "ü"]);
        assert_eq!(seen(r#""a\"#), [r"a\"]);
        assert_eq!(seen(r#""\é"#), [r"\é"]);
        assert!(seen("  ").is_empty());
    }

    #[test]
    fn depth_is_counted_between_strings_only() {
        let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(!is_too_deep(&nested(DEEPEST)));
        assert!(is_too_deep(&nested(DEEPEST + 1)));
        assert!(is_too_deep(&"{\"a\":".repeat(5_000_000)));
        assert!(!is_too_deep(&format!("\"{}\"", "[".repeat(1_000))));
        assert!(!is_too_deep(&format!("[{}0]", "[0],".repeat(1_000))));
    }
}

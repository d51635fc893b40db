//! Halves of surrogate pairs, which stand in JSON where a program cut a text in the middle of a
//! character. As with bytes that are no UTF-8, U+FFFD takes their place and the rest gets through.

use std::borrow::Cow;

/// `\ufffd`, which has the length of what it replaces.
const REPLACEMENT: &str = "\\ufffd";

/// The text with every lone half replaced.
pub(crate) fn mended(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut lone = Vec::new();
    let mut after_pair = 0;
    for at in memchr::memmem::find_iter(bytes, b"\\u") {
        let slashes = bytes[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
        if at < after_pair || slashes % 2 == 1 {
            continue;
        }
        match unit(bytes, at) {
            Some(0xD800..=0xDBFF) if matches!(unit(bytes, at + 6), Some(0xDC00..=0xDFFF)) => {
                after_pair = at + 12;
            }
            Some(0xD800..=0xDFFF) => lone.push(at),
            _ => {}
        }
    }
    if lone.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut mended = text.to_owned();
    for at in lone {
        mended.replace_range(at..at + REPLACEMENT.len(), REPLACEMENT);
    }
    Cow::Owned(mended)
}

/// The value of the escape `\uXXXX` that stands here.
pub(crate) fn unit(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let digits = std::str::from_utf8(digits).ok()?;
    // `from_str_radix` takes a sign, too.
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lone_halves_are_replaced() {
        for (text, expected) in [
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""a\uDE00b\ud83d\ud83d\ude00""#, r#""a\ufffdb\ufffd\ud83d\ude00""#),
            (r#""\ud83d\ude00 \\ud83d \u00e9""#, r#""\ud83d\ude00 \\ud83d \u00e9""#),
            (r#""\\\ud83d""#, r#""\\\ufffd""#),
            (r#""\ud83"#, r#""\ud83"#),
            (r#""\ud+12 \u""#, r#""\ud+12 \u""#),
        ] {
            assert_eq!(mended(text), expected, "{text}");
        }
    }
}

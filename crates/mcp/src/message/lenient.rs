//! Single fields, read so that a wrong type counts as absent.

use serde::Deserialize;
use serde_json::value::RawValue;

/// A string.
#[must_use]
pub fn text(raw: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(raw?.get()).ok()
}

/// A boolean.
#[must_use]
pub fn flag(raw: Option<&RawValue>) -> Option<bool> {
    serde_json::from_str(raw?.get()).ok()
}

/// A finite number.
#[must_use]
pub fn number(raw: Option<&RawValue>) -> Option<f64> {
    serde_json::from_str(raw?.get()).ok().filter(|number: &f64| number.is_finite())
}

/// The fields of an object; nothing else has any.
#[must_use]
pub fn fields<'a, T: Default + Deserialize<'a>>(raw: Option<&'a RawValue>) -> T {
    raw.filter(|raw| raw.get().starts_with('{'))
        .and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or_default()
}

/// The text, or its first `limit` bytes and a mark.
#[must_use]
pub fn shorten(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(limit)])
}

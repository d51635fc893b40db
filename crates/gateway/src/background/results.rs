//! What is kept as the result of a call in the background: what the tool gave, up to a bound, or
//! why there is none.

use std::sync::Arc;

use serde_json::json;

use crate::json;

/// Longest result that is kept whole, in bytes.
const LONGEST: usize = 4 << 20;

/// Of the text of a longer one so much is kept, in bytes.
const KEPT_TEXT: usize = 1 << 20;

/// The result object as it is kept.
pub(super) fn kept(result: &mcp::CallResult) -> Arc<str> {
    let raw = result.raw.get();
    if raw.len() <= LONGEST {
        return raw.into();
    }
    let text = if result.text.is_empty() {
        result.structured.as_deref().map_or("", |structured| structured.get())
    } else {
        &result.text
    };
    let mut end = text.len().min(KEPT_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let head = &text[..end];
    let note = format!(
        "[… cut here: the result has {} bytes, more than the {LONGEST} that are kept of a call in \
         the background, so only the beginning of its text is here …]",
        raw.len()
    );
    said(&format!("{head}\n{note}"), result.is_error).raw.get().into()
}

/// For a call whose process ended first; `rest` is what could still be said of it.
pub(crate) fn interrupted(tool: &str, rest: &str) -> mcp::CallResult {
    let tool = json::cut(tool, 200);
    let rest = if rest.is_empty() { String::new() } else { format!("\n{rest}") };
    said(
        &format!(
            "interrupted: pinfold ended while {tool} ran in the background, so it was stopped and \
             will give no result. What it changed before stays changed, and of writes that were \
             under way nobody knows: look before you make the call again.{rest}"
        ),
        true,
    )
}

/// For a call that ended when the store took nothing.
pub(crate) fn lost(outcome: &str) -> mcp::CallResult {
    said(
        &format!(
            "the call ended ({outcome}), but its result was lost: the database took nothing at \
             that time. Look what was done before you make the call again."
        ),
        true,
    )
}

/// A result of text alone.
pub(crate) fn said(text: &str, is_error: bool) -> mcp::CallResult {
    let content = json!([{"type": "text", "text": text}]);
    let raw = json!({"content": content, "isError": is_error});
    mcp::CallResult {
        text: text.to_owned(),
        structured: None,
        content: Arc::from(json::raw(&content)),
        has_media: false,
        is_error,
        raw: Arc::from(json::raw(&raw)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_kept_as_it_is_until_it_is_too_large() {
        let small = said("hi", false);
        assert_eq!(&*kept(&small), small.raw.get());
        let large = said(&"ä".repeat(LONGEST), true);
        let kept: serde_json::Value = serde_json::from_str(&kept(&large)).unwrap();
        let text = kept["content"][0]["text"].as_str().unwrap();
        assert!(text.len() < 2 * KEPT_TEXT && text.contains("ä\n[… cut here: the result has 8"));
        assert_eq!(kept["isError"], true);
    }
}

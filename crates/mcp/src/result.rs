//! What a tool answered: everything raw, with the text taken out.

use std::sync::Arc;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::error::Error;
use crate::message::{flag, object, quote, raw, shorten, text};
use crate::server::object::Object;

/// What a tool answered.
#[derive(Clone, Debug)]
pub struct CallResult {
    /// The text parts, joined by newlines.
    pub text: String,
    /// `structuredContent`.
    pub structured: Option<Arc<RawValue>>,
    /// The `content` array as it was sent.
    pub content: Arc<RawValue>,
    /// Whether there is more than text in `content`.
    pub has_media: bool,
    /// `isError`.
    pub is_error: bool,
    /// The whole result object as it was sent.
    pub raw: Arc<RawValue>,
}

/// Longest description of wanted input that is passed on, in bytes.
const LONGEST_WISH: usize = 1_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fields<'a> {
    #[serde(borrow, default)]
    result_type: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    structured_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    is_error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input_requests: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
}

fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

impl CallResult {
    /// Reads a result object that was kept as it was sent.
    pub fn parse(raw: Box<RawValue>) -> Result<Self, Error> {
        Self::read(raw, true)
    }

    /// Reads the result of `tools/call`. `modern` says in which era it was given: before 2026-07-28
    /// structured content is an object, so that null there only means that there is none.
    pub(crate) fn read(raw: Box<RawValue>, modern: bool) -> Result<Self, Error> {
        let broken = |what: &str| Error::Protocol(format!("a tool's result {what}"));
        if !raw.get().starts_with('{') {
            return Err(broken("is not an object"));
        }
        let fields: Fields<'_> = serde_json::from_str(raw.get())
            .map_err(|error| broken(&format!("is wrong: {error}")))?;
        match text(fields.result_type).as_deref() {
            None | Some("complete") => {}
            Some("input_required") => {
                return Err(Error::InputRequired(wishes(fields.input_requests)));
            }
            Some("task") => {
                return Err(broken("is a task, though the request did not allow one"));
            }
            Some(other) => {
                return Err(broken(&format!("is of the unknown type `{}`", shorten(other, 60))));
            }
        }
        let parts: Vec<&RawValue> = match fields.content {
            None => Vec::new(),
            Some(content) => serde_json::from_str(content.get())
                .map_err(|_| broken("has a `content` that is not an array"))?,
        };
        let mut texts = Vec::new();
        let mut has_media = false;
        for part in parts {
            let part = serde_json::from_str::<Part<'_>>(part.get()).ok();
            match part.filter(|part| text(part.kind).as_deref() == Some("text")) {
                Some(part) => texts.extend(text(part.text)),
                None => has_media = true,
            }
        }
        let structured = fields.structured_content.filter(|raw| modern || raw.get() != "null");
        Ok(Self {
            text: texts.join("\n"),
            structured: structured.map(|structured| Arc::from(structured.to_owned())),
            content: fields
                .content
                .map_or_else(
                    || RawValue::from_string("[]".to_owned()).map_err(|_| broken("")),
                    |content| Ok(content.to_owned()),
                )?
                .into(),
            has_media,
            is_error: flag(fields.is_error).unwrap_or(false),
            raw: raw.into(),
        })
    }
}

impl CallResult {
    /// Of a tool that asked for input which nobody could give: whatever it made of that, it is not
    /// what was called for, so it is an error that says so, in front of all that the tool said.
    pub(crate) fn without_an_answer(self, words: &str) -> Self {
        let said = format!(
            "the tool wants input from a person, which cannot be given in this call; it asked: \
             {words}. It was told that nobody answers, and answered:"
        );
        let part = object(&[("type", r#""text""#), ("text", &quote(&said))]);
        let rest = self.content.get().trim_start_matches('[').trim_start();
        let comma = if rest.starts_with(']') { "" } else { "," };
        let content = raw(format!("[{part}{comma}{rest}"));
        let mut whole = Object::read(Some(&self.raw)).unwrap_or_default();
        whole.set("content", content.get().to_owned());
        whole.set("isError", "true".to_owned());
        // Clients would show the model that alone.
        whole.remove("structuredContent");
        Self {
            text: format!("{said}\n{}", self.text),
            structured: None,
            content: content.into(),
            has_media: self.has_media,
            is_error: true,
            raw: raw(whole.write()).into(),
        }
    }
}

/// What an `input_required` result asks for, in the words of its requests.
pub(crate) fn wishes(requests: Option<&RawValue>) -> String {
    #[derive(Deserialize)]
    struct Wish<'a> {
        #[serde(borrow, default)]
        method: Option<&'a RawValue>,
        #[serde(borrow, default)]
        params: Option<Params<'a>>,
    }
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow, default)]
        message: Option<&'a RawValue>,
    }
    let wishes: std::collections::BTreeMap<String, Wish<'_>> =
        requests.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let words: Vec<String> = wishes
        .into_values()
        .map(|wish| {
            let method = text(wish.method).unwrap_or_else(|| "unknown".to_owned());
            match wish.params.and_then(|params| text(params.message)) {
                Some(message) => format!("{method}: {message}"),
                None => method,
            }
        })
        .collect();
    if words.is_empty() {
        return "it does not say what".to_owned();
    }
    shorten(&words.join("; "), LONGEST_WISH)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str, modern: bool) -> Result<CallResult, Error> {
        CallResult::read(RawValue::from_string(json.to_owned()).unwrap(), modern)
    }

    #[test]
    fn text_is_taken_out_and_everything_kept() {
        let json = r#"{"content":[{"type":"text","text":"a"},{"type":"image","data":"AA==","mimeType":"image/png"},{"type":"text","text":"b","_meta":{"k":1}}],"structuredContent":{"z":1,"a":2},"_meta":{"x":1}}"#;
        let result = read(json, false).unwrap();
        assert_eq!(result.text, "a\nb");
        assert!(result.has_media);
        assert!(!result.is_error);
        assert_eq!(result.structured.unwrap().get(), r#"{"z":1,"a":2}"#);
        assert_eq!(result.raw.get(), json);
        assert!(result.content.get().contains(r#""_meta":{"k":1}"#));
    }

    #[test]
    fn a_null_is_a_value_only_in_the_modern_era() {
        let json = r#"{"content":[],"structuredContent":null,"isError":true}"#;
        assert!(read(json, false).unwrap().structured.is_none());
        let modern = read(json, true).unwrap();
        assert_eq!(modern.structured.unwrap().get(), "null");
        assert!(modern.is_error);
    }

    #[test]
    fn wanted_input_is_told_in_the_servers_words() {
        let json = r#"{"resultType":"input_required","requestState":"s","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"Which region?"}}}}"#;
        let Err(Error::InputRequired(words)) = read(json, true) else { panic!("no wish") };
        assert_eq!(words, "elicitation/create: Which region?");
    }

    #[test]
    fn what_is_no_result_breaks_the_protocol() {
        for json in [
            "null",
            "[]",
            r#"{"content":"x"}"#,
            r#"{"resultType":"task"}"#,
            r#"{"resultType":"?"}"#,
        ] {
            assert!(matches!(read(json, true), Err(Error::Protocol(_))), "{json}");
        }
    }
}

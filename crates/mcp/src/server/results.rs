//! Results in the form of each era.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use super::object::Object;
use super::{About, Question, Shape, Tools, tasks};
use crate::message::{object, quote};
use crate::revision::{LEGACY, MODERN, Revision};

/// Says who answers, in `_meta`.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// The name of the one question in `inputRequests`.
pub(crate) const QUESTION: &str = "question";

/// How long what a server says about itself may be taken for true.
const FRESH: Duration = Duration::from_secs(300);

/// What can be offered: tools, and more besides them; `revision` is there for an older client.
fn capabilities(has_more: bool, with_tasks: bool, revision: Option<&Revision>) -> String {
    let mut all = vec![("tools", r#"{"listChanged":true}"#)];
    if has_more {
        all.push(("resources", r#"{"subscribe":true,"listChanged":true}"#));
        all.push(("prompts", r#"{"listChanged":true}"#));
        all.push(("completions", "{}"));
    }
    if with_tasks {
        all.extend(tasks::capability(revision));
    }
    object(&all)
}

fn server_info(about: &About) -> String {
    object(&[
        ("name", &quote(&about.name)),
        ("title", &quote(&about.title)),
        ("version", &quote(&about.version)),
    ])
}

/// `_meta` with who answers in it.
pub(crate) fn meta(about: &About) -> String {
    object(&[(SERVER_INFO, &server_info(about))])
}

/// Of `initialize`.
pub(crate) fn initialized(
    about: &About,
    has_more: bool,
    with_tasks: bool,
    revision: &Revision,
) -> String {
    object(&[
        ("protocolVersion", &quote(&revision.0)),
        ("capabilities", &capabilities(has_more, with_tasks, Some(revision))),
        ("serverInfo", &server_info(about)),
        ("instructions", &quote(&about.instructions)),
    ])
}

/// Of `server/discover`.
pub(crate) fn discovered(about: &About, has_more: bool, with_tasks: bool) -> String {
    let revisions: Vec<String> = MODERN.iter().chain(&LEGACY).map(|name| quote(name)).collect();
    object(&[
        ("resultType", r#""complete""#),
        ("supportedVersions", &format!("[{}]", revisions.join(","))),
        ("capabilities", &capabilities(has_more, with_tasks, None)),
        ("instructions", &quote(&about.instructions)),
        ("ttlMs", &FRESH.as_millis().to_string()),
        ("cacheScope", r#""private""#),
        ("_meta", &meta(about)),
    ])
}

/// Of `tools/list`, all in one page.
pub(crate) fn listed(about: &About, tools: &Tools, revision: &Revision) -> String {
    listed_page(about, "tools", tools, None, revision)
}

/// Of a list, one page, with where the next begins.
pub(crate) fn listed_page(
    about: &About,
    field: &str,
    listed: &Tools,
    next: Option<&str>,
    revision: &Revision,
) -> String {
    let definitions: Vec<&str> = listed.definitions.iter().map(|one| one.get()).collect();
    let definitions = format!("[{}]", definitions.join(","));
    let next = next.map(quote);
    let mut fields = vec![(field, definitions.as_str())];
    if let Some(next) = &next {
        fields.push(("nextCursor", next));
    }
    let (fresh, meta) = (listed.fresh.as_millis().to_string(), meta(about));
    if revision.is_modern() {
        fields.insert(0, ("resultType", r#""complete""#));
        fields.push(("ttlMs", &fresh));
        fields.push(("cacheScope", r#""private""#));
        fields.push(("_meta", &meta));
    }
    object(&fields)
}

/// Of what only passes through, with no more changed than the era asks for.
pub(crate) fn passed(
    about: &About,
    result: &RawValue,
    is_read: bool,
    revision: &Revision,
) -> String {
    let mut object = Object::read(Some(result)).unwrap_or_default();
    if !revision.is_modern() {
        for name in ["resultType", "ttlMs", "cacheScope"] {
            object.remove(name);
        }
        return object.write();
    }
    object.set("resultType", quote("complete"));
    if is_read {
        if object
            .get("ttlMs")
            .is_none_or(|fresh| !fresh.get().starts_with(|c: char| c.is_ascii_digit()))
        {
            object.set("ttlMs", "0".to_owned());
        }
        // Whatever the server says: it was asked with the rights of one.
        object.set("cacheScope", quote("private"));
    }
    let mut meta = Object::read(object.get("_meta")).unwrap_or_default();
    meta.set(SERVER_INFO, server_info(about));
    object.set("_meta", meta.write());
    object.write()
}

/// Of `tools/call`: what the tool gave, with no more changed than the era asks for.
pub(crate) fn called(about: &About, result: &RawValue, revision: &Revision) -> String {
    let mut object = Object::read(Some(result)).unwrap_or_default();
    if object.get("content").is_none() {
        object.set("content", "[]".to_owned());
    }
    if revision.is_modern() {
        object.set("resultType", quote("complete"));
        let mut meta = Object::read(object.get("_meta")).unwrap_or_default();
        meta.set(SERVER_INFO, server_info(about));
        object.set("_meta", meta.write());
    } else {
        object.remove("resultType");
        // Only an object was allowed before, and strict clients take nothing else.
        if object.get("structuredContent").is_some_and(|value| !value.get().starts_with('{')) {
            object.remove("structuredContent");
        }
    }
    object.write()
}

/// Of `tools/call`, where a person has to be asked first.
pub(crate) fn asking(about: &About, question: &Question, state: &str) -> String {
    let request =
        object(&[("method", r#""elicitation/create""#), ("params", &form(question, true))]);
    object(&[
        ("resultType", r#""input_required""#),
        ("inputRequests", &object(&[(QUESTION, &request)])),
        ("requestState", &quote(state)),
        ("_meta", &meta(about)),
    ])
}

/// Parameters of `elicitation/create`.
pub(crate) fn form(question: &Question, names_mode: bool) -> String {
    let message = quote(&question.message);
    match &question.shape {
        Shape::Form(schema) => {
            let mut fields = vec![("message", message.as_str()), ("requestedSchema", schema.get())];
            if names_mode {
                fields.insert(0, ("mode", r#""form""#));
            }
            object(&fields)
        }
        Shape::Link { url, id } => object(&[
            ("mode", r#""url""#),
            ("message", &message),
            ("url", &quote(url)),
            ("elicitationId", &quote(id)),
        ]),
    }
}

/// A result of text alone.
pub(crate) fn text(text: &str, is_error: bool) -> Arc<RawValue> {
    let part = object(&[("type", r#""text""#), ("text", &quote(text))]);
    let content = format!("[{part}]");
    let is_error = is_error.to_string();
    let result = object(&[("content", &content), ("isError", &is_error)]);
    // What `object` writes is JSON.
    RawValue::from_string(result).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called_as(result: &str, revision: &str) -> String {
        let about = About {
            name: "n".to_owned(),
            title: "t".to_owned(),
            version: "1".to_owned(),
            instructions: String::new(),
        };
        let result = RawValue::from_string(result.to_owned()).unwrap();
        called(&about, &result, &Revision(revision.to_owned()))
    }

    #[test]
    fn a_result_is_passed_on_as_it_came() {
        let result =
            r#"{"x":[1, 2],"content":[{"type":"image"}],"structuredContent":{"b":1,"a":2}}"#;
        assert_eq!(called_as(result, "2025-06-18"), result);
        let modern = called_as(result, "2026-07-28");
        assert!(modern.starts_with(&result[..result.len() - 1]), "{modern}");
        assert!(modern.contains(r#""resultType":"complete""#), "{modern}");
    }

    #[test]
    fn what_an_older_client_cannot_take_is_left_out() {
        let result = r#"{"resultType":"complete","content":[],"structuredContent":[1]}"#;
        assert_eq!(called_as(result, "2025-11-25"), r#"{"content":[]}"#);
        assert!(called_as(result, "2026-07-28").contains(r#""structuredContent":[1]"#));
    }
}

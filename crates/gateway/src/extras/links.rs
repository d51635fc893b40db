//! The URIs in what a server says, changed where outside they would mean another server's resource.
//! Everything else stays as it came.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::addresses::Addresses;
use crate::json::{self, Members};

/// What a server said, seen by the clients of a profile.
pub(crate) struct Links<'a> {
    pub(crate) addresses: &'a Addresses,
    /// Which server said it.
    pub(crate) server: usize,
}

/// Something that was changed.
type Changed = Option<Box<RawValue>>;

impl Links<'_> {
    /// Of a tool's result.
    pub(crate) fn of_result(&self, result: &RawValue) -> Changed {
        self.member(result, "content", &|content| self.each(content, &|part| self.of_part(part)))
    }

    /// Of a prompt.
    pub(crate) fn of_prompt(&self, prompt: &RawValue) -> Changed {
        let message = |message: &RawValue| {
            // One part, or several of them.
            self.member(message, "content", &|content| {
                if content.get().starts_with('[') {
                    self.each(content, &|part| self.of_part(part))
                } else {
                    self.of_part(content)
                }
            })
        };
        self.member(prompt, "messages", &|messages| self.each(messages, &message))
    }

    /// Of a resource that was read as `asked`, which its server knows as `own`.
    pub(crate) fn of_contents(&self, contents: &RawValue, own: &str, asked: &str) -> Changed {
        let uri = |uri: &RawValue| {
            let text: String = serde_json::from_str(uri.get()).ok()?;
            if text != own {
                return self.of_uri(uri);
            }
            (own != asked).then(|| quoted(asked))
        };
        let item = |item: &RawValue| self.member(item, "uri", &uri);
        self.member(contents, "contents", &|items| self.each(items, &item))
    }

    /// Of a tool's definition, which may name a user interface.
    pub(crate) fn of_definition(&self, definition: &RawValue) -> Changed {
        self.member(definition, "_meta", &|meta| {
            let uri = |uri: &RawValue| self.of_uri(uri);
            let inner = self.member(meta, "ui", &|ui| self.member(ui, "resourceUri", &uri));
            let meta = inner.as_deref().unwrap_or(meta);
            // How it was written first.
            let flat = self.member(meta, "ui/resourceUri", &uri);
            flat.or(inner)
        })
    }

    fn of_part(&self, part: &RawValue) -> Changed {
        let uri = |uri: &RawValue| self.of_uri(uri);
        match kind(part).as_deref() {
            Some("resource_link") => self.member(part, "uri", &uri),
            Some("resource") => {
                self.member(part, "resource", &|resource| self.member(resource, "uri", &uri))
            }
            _ => None,
        }
    }

    fn of_uri(&self, uri: &RawValue) -> Changed {
        let text: String = serde_json::from_str(uri.get()).ok()?;
        self.addresses.link_outside(self.server, &text).map(|uri| quoted(&uri))
    }

    /// An object in which the value of a name was changed.
    fn member(
        &self,
        object: &RawValue,
        name: &str,
        change: &dyn Fn(&RawValue) -> Changed,
    ) -> Changed {
        let Members(mut members) = serde_json::from_str(object.get()).ok()?;
        let mut any = false;
        for (_, value) in members.iter_mut().filter(|(key, _)| key == name) {
            if let Some(changed) = change(value) {
                *value = changed;
                any = true;
            }
        }
        if !any {
            return None;
        }
        let members: Vec<String> = members
            .iter()
            .map(|(name, value)| format!("{}:{}", json::quoted(name), value.get()))
            .collect();
        RawValue::from_string(format!("{{{}}}", members.join(","))).ok()
    }

    /// An array in which some were changed.
    fn each(&self, array: &RawValue, change: &dyn Fn(&RawValue) -> Changed) -> Changed {
        let parts: Vec<&RawValue> = serde_json::from_str(array.get()).ok()?;
        let changed: Vec<Changed> = parts.iter().map(|part| change(part)).collect();
        if changed.iter().all(Option::is_none) {
            return None;
        }
        let texts: Vec<&str> = parts
            .iter()
            .zip(&changed)
            .map(|(part, changed)| changed.as_ref().map_or(part.get(), |changed| changed.get()))
            .collect();
        RawValue::from_string(format!("[{}]", texts.join(","))).ok()
    }
}

/// The result of a tool with its links as they are outside.
pub(crate) fn outside(links: &Links<'_>, mut result: mcp::CallResult) -> mcp::CallResult {
    // Links are not text.
    if !result.has_media {
        return result;
    }
    if let Some(changed) = links.of_result(&result.raw) {
        if let Ok(Members(members)) = serde_json::from_str(changed.get())
            && let Some((_, content)) = members.into_iter().rfind(|(name, _)| name == "content")
        {
            result.content = Arc::from(content);
        }
        result.raw = Arc::from(changed);
    }
    result
}

fn kind(part: &RawValue) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Part {
        #[serde(rename = "type")]
        kind: String,
    }
    serde_json::from_str::<Part>(part.get()).ok().map(|part| part.kind)
}

fn quoted(text: &str) -> Box<RawValue> {
    RawValue::from_string(json::quoted(text)).unwrap_or_default()
}

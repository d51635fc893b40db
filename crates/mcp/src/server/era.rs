//! Under which rules a request is made, and what the client says about itself.
//!
//! A request of 2026-07-28 carries it in `_meta`; an older client said it once, in `initialize`.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::object::Object;
use super::{Caller, Refusal, tasks};
use crate::message::{fields, shorten, text};
use crate::revision::{LEGACY, MODERN, Revision};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT: &str = "io.modelcontextprotocol/clientInfo";

/// First revision in which a server may ask a person.
const ASKS_SINCE: &str = "2025-06-18";

/// First revision in which it may have an address opened.
const OPENS_SINCE: &str = "2025-11-25";

/// Longest name of a client that is kept, in bytes.
const LONGEST_NAME: usize = 200;

/// `params._meta`, as it was sent.
pub(crate) fn meta(params: Option<&RawValue>) -> Option<Box<RawValue>> {
    #[derive(Default, Deserialize)]
    struct Params<'a> {
        #[serde(borrow, default, rename = "_meta")]
        meta: Option<&'a RawValue>,
    }
    fields::<Params<'_>>(params).meta.map(ToOwned::to_owned)
}

/// Whether `_meta` says that the request stands alone.
pub(crate) fn is_modern(meta: Option<&RawValue>) -> bool {
    Object::read(meta).is_some_and(|meta| meta.get(VERSION).is_some())
}

/// The revision that `_meta` names.
pub(crate) fn version(meta: Option<&RawValue>) -> Option<String> {
    text(Object::read(meta)?.get(VERSION))
}

/// The caller of a request that stands alone.
pub(crate) fn modern(meta: Option<&RawValue>, session: Option<String>) -> Result<Caller, Refusal> {
    let missing = |what: &str| {
        Refusal::invalid(format!(
            "params._meta has no {what}; send it with every request, or begin with initialize"
        ))
    };
    let meta = Object::read(meta).unwrap_or_default();
    let version = text(meta.get(VERSION)).ok_or_else(|| missing(VERSION))?;
    if !MODERN.contains(&version.as_str()) {
        let supported: Vec<&str> = MODERN.iter().chain(&LEGACY).copied().collect();
        return Err(Refusal::unsupported(&version, &supported));
    }
    let capabilities = meta.get(CAPABILITIES).filter(|value| value.get().starts_with('{'));
    let capabilities = capabilities.ok_or_else(|| missing(CAPABILITIES))?;
    let tasks = tasks::are_known(&version, Some(capabilities));
    Ok(Caller {
        revision: Revision(version),
        client: name(meta.get(CLIENT)),
        session,
        asks: shows_forms(Some(capabilities)),
        tasks,
        opens: opens_urls(Some(capabilities)),
    })
}

/// Whether there is a revision in `initialize`.
pub(crate) fn offers(params: Option<&RawValue>) -> bool {
    Object::read(params).is_some_and(|params| params.get("protocolVersion").is_some())
}

/// The caller that `initialize` tells of, with the revision that is answered.
pub(crate) fn legacy(
    params: Option<&RawValue>,
    session: Option<String>,
) -> Result<Caller, Refusal> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        #[serde(borrow, default)]
        protocol_version: Option<&'a RawValue>,
        #[serde(borrow, default)]
        capabilities: Option<&'a RawValue>,
        #[serde(borrow, default)]
        client_info: Option<&'a RawValue>,
    }
    let params: Params<'_> = fields(params);
    let wanted = text(params.protocol_version)
        .ok_or_else(|| Refusal::invalid("initialize has no protocolVersion"))?;
    let revision = LEGACY.iter().find(|ours| **ours == wanted).unwrap_or(&LEGACY[0]);
    Ok(Caller {
        revision: Revision((*revision).to_owned()),
        client: name(params.client_info),
        session,
        asks: *revision >= ASKS_SINCE && shows_forms(params.capabilities),
        tasks: tasks::are_known(revision, params.capabilities),
        opens: *revision >= OPENS_SINCE && opens_urls(params.capabilities),
    })
}

/// Whether forms are among the capabilities: alone they need not be named.
fn shows_forms(capabilities: Option<&RawValue>) -> bool {
    #[derive(Default, Deserialize)]
    struct Capabilities<'a> {
        #[serde(borrow, default)]
        elicitation: Option<&'a RawValue>,
    }
    let elicitation = fields::<Capabilities<'_>>(capabilities).elicitation;
    Object::read(elicitation)
        .is_some_and(|kinds| kinds.get("form").is_some() || kinds.get("url").is_none())
}

/// Whether addresses are: they have to be named.
fn opens_urls(capabilities: Option<&RawValue>) -> bool {
    let elicitation = Object::read(capabilities)
        .and_then(|capabilities| Object::read(capabilities.get("elicitation")));
    elicitation.is_some_and(|kinds| kinds.get("url").is_some_and(|url| url.get() != "null"))
}

fn name(client: Option<&RawValue>) -> Option<String> {
    #[derive(Default, Deserialize)]
    struct Client<'a> {
        #[serde(borrow, default)]
        name: Option<&'a RawValue>,
    }
    text(fields::<Client<'_>>(client).name).map(|name| shorten(&name, LONGEST_NAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn forms_are_shown_where_the_client_says_so() {
        for (capabilities, shows) in [
            ("{}", false),
            (r#"{"elicitation":{}}"#, true),
            (r#"{"elicitation":{"form":{}}}"#, true),
            (r#"{"elicitation":{"form":{},"url":{}}}"#, true),
            (r#"{"elicitation":{"url":{}}}"#, false),
            (r#"{"elicitation":true}"#, false),
            (r#"{"elicitation":null}"#, false),
            ("[]", false),
        ] {
            assert_eq!(shows_forms(Some(&raw(capabilities))), shows, "{capabilities}");
        }
    }

    #[test]
    fn a_revision_before_questions_is_not_asked() {
        let params = |version: &str| {
            raw(&format!(
                r#"{{"protocolVersion":"{version}","capabilities":{{"elicitation":{{}}}}}}"#
            ))
        };
        let of = |version: &str| legacy(Some(&params(version)), None).unwrap();
        assert!(of("2025-06-18").asks && !of("2025-03-26").asks);
        assert_eq!(of("2031-01-01").revision.0, "2025-11-25");
        assert_eq!(of("2026-07-28").revision.0, "2025-11-25");
    }
}

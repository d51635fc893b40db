//! What a server says about itself, in the answers to `server/discover` and `initialize`.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::ServerInfo;
use crate::error::Error;
use crate::message::{fields, flag, shorten, text};
use crate::revision::Revision;
use crate::server::object::Object;

/// Longest instructions that are kept, in bytes.
const LONGEST_INSTRUCTIONS: usize = 64 * 1024;

/// What both methods answer.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct About<'a> {
    #[serde(borrow, default)]
    pub(super) supported_versions: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) protocol_version: Option<&'a RawValue>,
    #[serde(borrow, default)]
    capabilities: Option<&'a RawValue>,
    #[serde(borrow, default)]
    instructions: Option<&'a RawValue>,
    #[serde(borrow, default)]
    server_info: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct Identity<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    version: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct Meta<'a> {
    #[serde(borrow, default, rename = "io.modelcontextprotocol/serverInfo")]
    server_info: Option<&'a RawValue>,
}

impl<'a> About<'a> {
    pub(super) fn read(method: &str, result: &'a RawValue) -> Result<Self, Error> {
        serde_json::from_str(result.get())
            .map_err(|error| Error::Protocol(format!("its answer to {method} is wrong: {error}")))
    }

    pub(super) fn into_info(self, revision: Revision) -> ServerInfo {
        let meta: Meta<'_> = fields(self.meta);
        let identity: Identity<'_> = fields(meta.server_info.or(self.server_info));
        ServerInfo {
            revision,
            abilities: Abilities::read(self.capabilities),
            name: text(identity.name).map(|name| shorten(&name, 200)),
            version: text(identity.version).map(|version| shorten(&version, 200)),
            instructions: text(self.instructions).map(|text| shorten(&text, LONGEST_INSTRUCTIONS)),
            capabilities: self.capabilities.map(ToOwned::to_owned),
        }
    }
}

/// What a server says that it can do, besides answering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Changes of its tools are told.
    pub tools_change: bool,
    /// It has prompts.
    pub prompts: bool,
    /// Changes of its prompts are told.
    pub prompts_change: bool,
    /// It has resources.
    pub resources: bool,
    /// Changes of the list of its resources are told.
    pub resources_change: bool,
    /// Changes of single resources are told.
    pub subscribe: bool,
    /// It completes arguments.
    pub completions: bool,
    /// It sends log messages, as many as it is told to (older revisions).
    pub logging: bool,
}

impl Abilities {
    pub(super) fn read(capabilities: Option<&RawValue>) -> Self {
        let Some(capabilities) = Object::read(capabilities) else { return Self::default() };
        let part = |name: &str| capabilities.get(name).filter(|part| part.get() != "null");
        let says = |name: &str, what: &str| {
            Object::read(part(name)).is_some_and(|part| flag(part.get(what)) == Some(true))
        };
        Self {
            tools_change: says("tools", "listChanged"),
            prompts: part("prompts").is_some(),
            prompts_change: says("prompts", "listChanged"),
            resources: part("resources").is_some(),
            resources_change: says("resources", "listChanged"),
            subscribe: says("resources", "subscribe"),
            completions: part("completions").is_some(),
            logging: part("logging").is_some(),
        }
    }
}

/// The best revision of those in the `data.supported` of an error.
pub(super) fn supported(data: Option<&RawValue>) -> Option<Revision> {
    #[derive(Deserialize)]
    struct Data {
        supported: Vec<String>,
    }
    let data: Data = serde_json::from_str(data?.get()).ok()?;
    Revision::choose(data.supported.iter().map(String::as_str))
}

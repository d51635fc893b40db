//! What a server says about itself, in the answers to `server/discover` and `initialize`.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::ServerInfo;
use crate::error::Error;
use crate::message::{fields, flag, shorten, text};
use crate::revision::Revision;

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
            name: text(identity.name).map(|name| shorten(&name, 200)),
            version: text(identity.version).map(|version| shorten(&version, 200)),
            instructions: text(self.instructions).map(|text| shorten(&text, LONGEST_INSTRUCTIONS)),
            capabilities: self.capabilities.map(ToOwned::to_owned),
        }
    }
}

/// Whether the capabilities say that changes of the tools are told.
pub(super) fn tells_changes(capabilities: Option<&RawValue>) -> bool {
    #[derive(Default, Deserialize)]
    struct Capabilities<'a> {
        #[serde(borrow, default)]
        tools: Option<&'a RawValue>,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Tools<'a> {
        #[serde(borrow, default)]
        list_changed: Option<&'a RawValue>,
    }
    let capabilities: Capabilities<'_> = fields(capabilities);
    let tools: Tools<'_> = fields(capabilities.tools);
    flag(tools.list_changed).unwrap_or(false)
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

//! `initialize`, with which every revision before 2026-07-28 begins.

use serde_json::value::RawValue;

use super::ServerInfo;
use super::about::{About, supported};
use super::connection::{Connection, Limit, Request, client_info};
use crate::error::Error;
use crate::message::{self, quote, shorten, text};
use crate::revision::{LEGACY, Revision};

/// What we declare. One connection serves many callers: for one who cannot be asked, we answer that
/// nobody did.
const CAPABILITIES: &str = r#"{"elicitation":{"form":{},"url":{}}}"#;

pub(super) async fn initialize(
    connection: &Connection,
    wanted: &Revision,
    limit: Limit,
) -> Result<ServerInfo, Error> {
    let answer = match ask(connection, wanted, limit).await {
        Err(Error::Rpc { code, message, data }) => match supported(data.as_deref()) {
            // Some refuse a newer revision, rather than answering with theirs.
            Some(other) if !other.is_modern() && other != *wanted => {
                ask(connection, &other, limit).await?
            }
            _ => return Err(Error::Rpc { code, message, data }),
        },
        answer => answer?,
    };
    let about = About::read("initialize", &answer)?;
    let version = text(about.protocol_version).unwrap_or_default();
    let Some(agreed) = LEGACY.iter().find(|ours| **ours == version) else {
        return Err(Error::Refused(format!(
            "the server answered `initialize` with the protocol revision `{}`; {} are spoken here",
            shorten(&version, 40),
            Revision::spoken(),
        )));
    };
    let revision = Revision((*agreed).to_owned());
    connection.transport.agree(&revision);
    let initialized = message::notification("notifications/initialized", "{}");
    connection.transport.tell(initialized).await?;
    connection.transport.listen();
    Ok(about.into_info(revision))
}

async fn ask(
    connection: &Connection,
    wanted: &Revision,
    limit: Limit,
) -> Result<Box<RawValue>, Error> {
    let version = quote(&wanted.0);
    let info = client_info();
    let mut request = Request::new("initialize", None, limit);
    request.params =
        vec![("protocolVersion", &version), ("capabilities", CAPABILITIES), ("clientInfo", &info)];
    connection.request(request).await
}

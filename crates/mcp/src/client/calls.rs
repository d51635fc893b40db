//! `tools/call`.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use super::connection::{Limit, Request};
use super::{Shared, ToolCall, lists};
use crate::error::Error;
use crate::message::{code, quote};
use crate::result::CallResult;

/// With progress a call may last so many times its longest silence. A server that reports progress
/// without end is stopped too.
const LONGEST: u32 = 10;

pub(super) async fn call_tool(shared: &Shared, call: ToolCall) -> Result<CallResult, Error> {
    let answer = match ask(shared, &call).await {
        // The schema changed, and with it what must be repeated in headers. The server did not run
        // the call, so it may be made again.
        Err(Error::Rpc { code: code::HEADER_MISMATCH, .. }) if is_mirroring(shared) => {
            lists::list_tools(shared).await?;
            shared.connection.inbox.suspect_change();
            ask(shared, &call).await
        }
        answer => answer,
    };
    CallResult::read(answer?, shared.info.revision.is_modern())
}

fn is_mirroring(shared: &Shared) -> bool {
    shared.connection.transport.is_streamed() && shared.info.revision.is_modern()
}

async fn ask(shared: &Shared, call: &ToolCall) -> Result<Box<serde_json::value::RawValue>, Error> {
    let mirrored = shared
        .mirrored
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get(&call.name)
        .map_or_else(BTreeMap::new, |mirrored| mirrored.of(&call.arguments));
    let name = quote(&call.name);
    let total = if call.progress.is_some() { call.timeout * LONGEST } else { call.timeout };
    shared
        .connection
        .request(Request {
            method: "tools/call",
            params: vec![("name", &name), ("arguments", call.arguments.get())],
            revision: Some(&shared.info.revision),
            name: Some(&call.name),
            mirrored,
            limit: Limit { silence: Some(call.timeout), total: Some(total) },
            cancel: Some(&call.cancel),
            progress: call.progress.clone(),
        })
        .await
}

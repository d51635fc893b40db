//! `tools/call`.

use super::connection::Limit;
use super::rounds::{self, Round};
use super::{Shared, ToolCall};
use crate::error::Error;
use crate::result::CallResult;

/// With progress a call may last so many times its longest silence. A server that reports progress
/// without end is stopped too.
const LONGEST: u32 = 10;

pub(super) async fn call_tool(shared: &Shared, call: ToolCall) -> Result<CallResult, Error> {
    let total = if call.progress.is_some() { call.timeout * LONGEST } else { call.timeout };
    let round = Round {
        method: "tools/call",
        params: rounds::call_params(&call.name, &call.arguments),
        name: Some(&call.name),
        arguments: Some(&call.arguments),
        limit: Limit { silence: Some(call.timeout), total: Some(total) },
        cancel: &call.cancel,
        progress: call.progress,
        passed: &call.passed,
    };
    let (result, refused) = rounds::all(shared, round).await?;
    let result = CallResult::read(result, shared.info.revision.is_modern())?;
    Ok(match refused {
        Some(words) => result.without_an_answer(&words),
        None => result,
    })
}

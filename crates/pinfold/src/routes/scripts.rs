//! `/api/scripts/{id}`: a script with its calls and its output, as its records have them.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use gateway::ScriptSeen;
use serde::Deserialize;

use super::Shared;
use super::error::Refusal;
use super::request::{Asked, page};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// Calls after so many.
    after: Option<usize>,
    limit: Option<u32>,
}

/// `GET /api/scripts/{id}`
pub(super) async fn one(
    State(shared): State<Shared>,
    headers: HeaderMap,
    Path(id): Path<String>,
    Asked(wanted): Asked<Wanted>,
) -> Result<Json<ScriptSeen>, Refusal> {
    let principal = shared.caller(&headers)?.sees_only()?;
    let (after, limit) = (wanted.after.unwrap_or(0), page(wanted.limit)?);
    let script = shared.gateway()?.script(&id, after, limit as usize).await?;
    let script = script.filter(|script| principal.is_none_or(|one| one == script.principal));
    script.map(Json).ok_or_else(|| Refusal::missing("there is no such script"))
}

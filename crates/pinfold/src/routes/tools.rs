//! `/api/tools`: the tools of a profile, and how its servers are.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use gateway::Listed;
use gateway::sources;
use serde::{Deserialize, Serialize};

use super::Shared;
use super::error::Refusal;
use super::mcp::SESSION;
use super::request::Asked;
use crate::wiring::PRINCIPAL;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    profile: Option<String>,
}

#[derive(Serialize)]
pub(super) struct Tools {
    profile: String,
    servers: Vec<Server>,
    tools: Vec<Listed>,
    /// Why `run_script` is not among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    without_scripts: Option<String>,
}

#[derive(Serialize)]
struct Server {
    name: String,
    /// `starting`, `ready` or `down`.
    state: &'static str,
    /// Why it is down.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// `GET /api/tools`
pub(super) async fn list(
    State(shared): State<Shared>,
    headers: HeaderMap,
    Asked(wanted): Asked<Wanted>,
) -> Result<Json<Tools>, Refusal> {
    let caller = shared.caller(&headers)?;
    let own = caller.sees_only()?;
    let profile = wanted.profile.unwrap_or_else(|| caller.profile.clone());
    if own.is_some() && profile != caller.profile {
        return Err(Refusal::forbidden("the tools of another profile take the role admin"));
    }
    let gateway = shared.gateway()?;
    // The session of a client that names none, so that nothing new is made for this.
    let principal = if shared.access.is_open() { PRINCIPAL } else { &caller.name };
    let session = gateway.session(principal, &profile, SESSION).await?;
    let servers = gateway.sources(&profile).into_iter().map(|(name, state)| {
        let (state, reason) = match state {
            sources::State::Starting => ("starting", None),
            sources::State::Ready => ("ready", None),
            sources::State::Down { reason } => ("down", Some(reason)),
        };
        Server { name, state, reason }
    });
    Ok(Json(Tools {
        servers: servers.collect(),
        tools: gateway.tools(&session),
        without_scripts: gateway.without_scripts(&session),
        profile,
    }))
}

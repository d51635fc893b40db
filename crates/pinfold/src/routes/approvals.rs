//! `/api/approvals`: what a person is asked, and the answer.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use gateway::policy::Effect;
use gateway::{Answer, Approval, ApprovalState, Choice, Gateway};
use serde::{Deserialize, Serialize};

use super::Shared;
use super::access::Caller;
use super::error::Refusal;
use super::request::{Asked, Sent, page};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    state: Option<ApprovalState>,
    before: Option<String>,
    limit: Option<u32>,
}

#[derive(Serialize)]
pub(super) struct Page {
    approvals: Vec<Shown>,
    /// For `before`, if there is more.
    next: Option<String>,
}

/// A question with what its tools do.
#[derive(Serialize)]
pub(super) struct Shown {
    #[serde(flatten)]
    pub(super) approval: Approval,
    /// Of the tools it is about, where their server lists them now.
    pub(super) effects: std::collections::BTreeMap<String, Effect>,
}

/// `GET /api/approvals`
pub(super) async fn list(
    State(shared): State<Shared>,
    headers: HeaderMap,
    Asked(wanted): Asked<Wanted>,
) -> Result<Json<Page>, Refusal> {
    let caller = shared.caller(&headers)?;
    let gateway = shared.gateway()?;
    let limit = page(wanted.limit)?;
    let filter = store::ApprovalFilter {
        state: Some(state(wanted.state.unwrap_or(ApprovalState::Open))),
        principal: caller.sees_approvals_of(),
        before: wanted.before,
        limit,
    };
    let found = gateway.approvals_by(&filter).await?;
    let next = found.last().filter(|_| found.len() >= limit as usize);
    let next = next.map(|approval| approval.id.clone());
    let approvals = found.into_iter().map(|approval| shown(&gateway, approval)).collect();
    Ok(Json(Page { approvals, next }))
}

/// `GET /api/approvals/{id}`
pub(super) async fn one(
    State(shared): State<Shared>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Json<Shown>, Refusal> {
    let caller = shared.caller(&headers)?;
    let gateway = shared.gateway()?;
    let approval = find(&gateway, &caller, &id).await?;
    Ok(Json(shown(&gateway, approval)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Decision {
    decision: Choice,
    #[serde(default)]
    reason: String,
}

/// `POST /api/approvals/{id}`
pub(super) async fn answer(
    State(shared): State<Shared>,
    headers: HeaderMap,
    Path(id): Path<String>,
    Sent(Decision { decision, reason }): Sent<Decision>,
) -> Result<Json<Shown>, Refusal> {
    let caller = shared.caller(&headers)?;
    shared.same_origin(&caller, &headers)?;
    let gateway = shared.gateway()?;
    if !reason.is_empty() && decision != Choice::Deny {
        return Err(Refusal::wrong("a reason goes with deny only"));
    }
    give(&gateway, &caller, &id, decision, reason, "API").await?;
    let approval = find(&gateway, &caller, &id).await?;
    Ok(Json(shown(&gateway, approval)))
}

/// Passes an answer on, if the caller may give it.
pub(super) async fn give(
    gateway: &Gateway,
    caller: &Caller,
    id: &str,
    decision: Choice,
    reason: String,
    place: &str,
) -> Result<(), Refusal> {
    let approval = find(gateway, caller, id).await?;
    caller.answers(&approval)?;
    let answer = match decision {
        Choice::Once => Answer::Once,
        Choice::Session => Answer::Session,
        Choice::Deny => Answer::Deny { reason },
    };
    gateway.answer(id, answer, &format!("{} ({place})", caller.name)).await?;
    Ok(())
}

/// A question that the caller may see.
pub(super) async fn find(
    gateway: &Gateway,
    caller: &Caller,
    id: &str,
) -> Result<Approval, Refusal> {
    let found = gateway.approval(id).await?;
    let sees = |approval: &Approval| {
        caller.sees_approvals_of().is_none_or(|principal| principal == approval.principal)
    };
    found.filter(sees).ok_or_else(|| {
        Refusal::missing("there is no such approval; GET /api/approvals lists the open ones")
    })
}

/// With the effects of its tools.
pub(super) fn shown(gateway: &Gateway, approval: Approval) -> Shown {
    let names = approval.listed.iter().map(|tool| &tool.name).chain([&approval.tool]);
    let effects = names
        .filter_map(|name| Some((name.clone(), gateway.effect(&approval.profile, name)?)))
        .collect();
    Shown { approval, effects }
}

fn state(state: ApprovalState) -> store::ApprovalState {
    match state {
        ApprovalState::Open => store::ApprovalState::Open,
        ApprovalState::Answered => store::ApprovalState::Answered,
        ApprovalState::Used => store::ApprovalState::Used,
        ApprovalState::Expired => store::ApprovalState::Expired,
        ApprovalState::Void => store::ApprovalState::Void,
    }
}

//! `/approvals`: a small page on which a person answers. It works without scripts; with them it
//! notices when somebody else has answered.

mod html;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use gateway::Choice;
use serde::Deserialize;

use super::Shared;
use super::access::Caller;
use super::approvals::{find, give, shown};
use super::error::Refusal;
use super::request::{Asked, Filled};

/// Answered questions that are listed below the open ones.
const HISTORY: u32 = 50;

/// Longest reason that is passed on to the model, in characters.
const LONGEST_REASON: usize = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Link {
    /// The key, in the link that `pinfold serve` has printed.
    code: Option<String>,
}

/// `GET /approvals`
pub(super) async fn list(
    State(shared): State<Shared>,
    headers: HeaderMap,
    Asked(link): Asked<Link>,
) -> Response {
    if let Some(code) = link.code {
        return let_in(&shared, &code, "/approvals");
    }
    let listed = async {
        let caller = shared.caller(&headers)?;
        let gateway = shared.gateway()?;
        let filter = |state, limit| store::ApprovalFilter {
            state,
            principal: caller.sees_approvals_of(),
            before: None,
            limit,
        };
        let open = gateway.approvals_by(&filter(Some(store::ApprovalState::Open), 1_000)).await?;
        let mut recent = gateway.approvals_by(&filter(None, HISTORY)).await?;
        recent.retain(|approval| approval.state != gateway::ApprovalState::Open);
        Ok::<_, Refusal>(html::list(&open, &recent))
    };
    match listed.await {
        Ok(page) => Html(page).into_response(),
        Err(refusal) => instead(&shared, &refusal, "/approvals"),
    }
}

/// `GET /approvals/{id}`
pub(super) async fn one(
    State(shared): State<Shared>,
    headers: HeaderMap,
    Path(id): Path<String>,
    Asked(link): Asked<Link>,
) -> Response {
    let here = format!("/approvals/{id}");
    if let Some(code) = link.code {
        return let_in(&shared, &code, &here);
    }
    let shown = async {
        let caller = shared.caller(&headers)?;
        whole(&shared, &caller, &id, None).await
    };
    match shown.await {
        Ok(page) => Html(page).into_response(),
        Err(refusal) => instead(&shared, &refusal, &here),
    }
}

async fn whole(
    shared: &Shared,
    caller: &Caller,
    id: &str,
    note: Option<&str>,
) -> Result<String, Refusal> {
    let gateway = shared.gateway()?;
    let approval = find(&gateway, caller, id).await?;
    let may = caller.answers(&approval).err();
    let may_not = may.as_ref().map(Refusal::message);
    let key = caller.form_key.as_deref().unwrap_or_default();
    Ok(html::one(&shown(&gateway, approval), key, may_not, note))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Form {
    decision: Choice,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    key: String,
}

/// `POST /approvals/{id}`
pub(super) async fn answer(
    State(shared): State<Shared>,
    headers: HeaderMap,
    Path(id): Path<String>,
    Filled(form): Filled<Form>,
) -> Response {
    let here = format!("/approvals/{id}");
    let caller = match shared.caller(&headers) {
        Ok(caller) => caller,
        Err(refusal) => return instead(&shared, &refusal, &here),
    };
    let given = async {
        shared.same_origin(&caller, &headers)?;
        if caller.form_key.as_ref().is_some_and(|key| *key != form.key) {
            return Err(Refusal::forbidden(
                "this form is of an earlier visit: load the page again",
            ));
        }
        let reason = form.reason.trim().chars().take(LONGEST_REASON).collect();
        give(&*shared.gateway()?, &caller, &id, form.decision, reason, "web").await
    };
    let Err(refusal) = given.await else { return Redirect::to(&here).into_response() };
    // What became of it stands on the page, with why this answer did not count.
    match whole(&shared, &caller, &id, Some(refusal.message())).await {
        Ok(page) => (refusal.status(), Html(page)).into_response(),
        Err(_) => instead(&shared, &refusal, &here),
    }
}

/// `GET /approvals/{id}/state`: for the page, to notice when it is answered elsewhere.
pub(super) async fn state(
    State(shared): State<Shared>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<String, Refusal> {
    let caller = shared.caller(&headers)?;
    let approval = find(&*shared.gateway()?, &caller, &id).await?;
    Ok(crate::terminal::approve::word(approval.state))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    code: String,
    to: String,
}

/// `POST /approvals/enter`
pub(super) async fn enter(
    State(shared): State<Shared>,
    headers: HeaderMap,
    Filled(Entry { code, to }): Filled<Entry>,
) -> Response {
    if super::is_of(headers.get(header::HOST), &headers) == Some(false) {
        return Refusal::forbidden("this form is of another page").into_response();
    }
    let_in(&shared, &code, &to)
}

/// Lets somebody in who has a token or the key, and leads on to a page of ours.
fn let_in(shared: &Shared, secret: &str, to: &str) -> Response {
    if !shared.access.browsers.may_try() {
        let refusal = Refusal::too_much("too many wrong keys: wait 5 s", 5);
        return instead(shared, &refusal, to);
    }
    let Some(caller) = shared.access.by_secret(secret.trim()) else {
        shared.access.browsers.was_wrong();
        let page = html::enter(&shared.access.how_to_enter(), to, Some("That is not the key."));
        return (StatusCode::UNAUTHORIZED, Html(page)).into_response();
    };
    let to = if html::is_ours(to) { to } else { "/approvals" };
    match shared.access.browsers.enter(caller) {
        Ok(cookie) => {
            let mut response = Redirect::to(to).into_response();
            response.headers_mut().insert(header::SET_COOKIE, cookie);
            response
        }
        Err(error) => {
            tracing::error!(%error, "nobody can be let in");
            instead(shared, &Refusal::unavailable("nobody can be let in now"), to)
        }
    }
}

/// The page that is shown instead of what was asked for.
fn instead(shared: &Shared, refusal: &Refusal, to: &str) -> Response {
    let page = if refusal.status() == StatusCode::UNAUTHORIZED {
        html::enter(&shared.access.how_to_enter(), to, None)
    } else {
        html::no(refusal.message())
    };
    (refusal.status(), Html(page)).into_response()
}

/// `GET /approvals/style.css`
pub(super) async fn style() -> Response {
    asset("text/css; charset=utf-8", include_str!("style.css"))
}

/// `GET /approvals/live.js`
pub(super) async fn live() -> Response {
    asset("text/javascript; charset=utf-8", include_str!("live.js"))
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static(kind))], text).into_response()
}

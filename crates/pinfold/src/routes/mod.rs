//! What `pinfold serve` answers, one file per route. Routes translate and decide nothing.

mod error;
mod request;

mod access;
mod browsers;
mod limits;

mod health;

mod mcp;

mod well_known;

mod execute;

mod approvals;
mod audit;
mod scripts;
mod sessions;
mod tools;

mod page;

use std::sync::Arc;

use ::mcp::server::Gate;
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderValue, Request, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get, post};
use gateway::Gateway;
use tokio_util::sync::CancellationToken;

use crate::execution::OnDemand;
use access::Caller;
use error::Refusal;

pub(crate) use access::Access;
pub(crate) use limits::Limits;
pub(crate) use mcp::Doors;

/// What every route may use.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) access: Arc<Access>,
    pub(crate) doors: Arc<Doors>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) execution: Arc<OnDemand>,
    pub(crate) gate: Gate,
    pub(crate) closing: CancellationToken,
    /// How clients reach this, where it is not by the address that they name.
    pub(crate) public_url: Option<Arc<str>>,
}

impl Shared {
    /// Who uses the API; the request is counted.
    fn caller(&self, headers: &HeaderMap) -> Result<Caller, Refusal> {
        let caller = self.access.caller(headers)?;
        if !self.access.is_open() {
            self.limits.count(&caller.name)?;
        }
        Ok(caller)
    }

    fn gateway(&self) -> Result<Arc<Gateway>, Refusal> {
        self.doors.gateway().ok_or_else(|| Refusal::unavailable("pinfold is starting; try again"))
    }

    /// A browser changes something only where a page of this very address sent it.
    fn same_origin(&self, caller: &Caller, headers: &HeaderMap) -> Result<(), Refusal> {
        if caller.form_key.is_none() || is_of(headers.get(header::HOST), headers) == Some(true) {
            return Ok(());
        }
        Err(Refusal::forbidden("a browser has to send this from a page of this address"))
    }
}

/// Whether the page that sent this is of the host; `None` where the browser does not say.
fn is_of(host: Option<&HeaderValue>, headers: &HeaderMap) -> Option<bool> {
    let origin = headers.get(header::ORIGIN)?.to_str().unwrap_or("null");
    let authority = origin.split_once("://").map(|(_, authority)| authority.as_bytes());
    Some(authority.is_some() && authority == host.map(HeaderValue::as_bytes))
}

/// All routes.
pub(crate) fn router(shared: Shared) -> Router {
    let api = Router::new()
        .route("/approvals", get(approvals::list))
        .route("/approvals/{id}", get(approvals::one).post(approvals::answer))
        .route("/sessions", get(sessions::list))
        .route("/sessions/{id}/events", get(sessions::events))
        .route("/scripts/{id}", get(scripts::one))
        .route("/audit", get(audit::list))
        .route("/tools", get(tools::list))
        .fallback(|| async { Refusal::missing("there is no such route; see docs/api.md") })
        .method_not_allowed_fallback(|| async { Refusal::wrong("this route has other methods") });
    let pages = Router::new()
        .route("/approvals", get(page::list))
        .route("/approvals/enter", post(page::enter))
        .route("/approvals/style.css", get(page::style))
        .route("/approvals/live.js", get(page::live))
        .route("/approvals/{id}", get(page::one).post(page::answer))
        .route("/approvals/{id}/state", get(page::state));
    let guarded = Router::new()
        .nest("/api", api)
        .merge(pages)
        .route("/execute", post(execute::run))
        .layer(from_fn_with_state(shared.clone(), guard));
    Router::new()
        .route("/healthz", get(health::show))
        .route("/mcp", any(mcp::default))
        .route("/mcp/{profile}", any(mcp::named))
        .route(well_known::PREFIX, get(well_known::whole))
        .route(&format!("{}/mcp", well_known::PREFIX), get(well_known::default))
        .route(&format!("{}/mcp/{{profile}}", well_known::PREFIX), get(well_known::named))
        .merge(guarded)
        // Bodies are bounded where they are read, with an answer of the protocol's own.
        .layer(DefaultBodyLimit::disable())
        .with_state(shared)
}

/// What is true of every request to the API and the pages, and of every answer.
async fn guard(State(shared): State<Shared>, request: Request<Body>, next: Next) -> Response {
    let headers = request.headers();
    // Stricter than for MCP: a page of another program on this machine has no business here.
    let foreign = is_of(headers.get(header::HOST), headers) == Some(false);
    let why = shared.gate.refuses(headers);
    let why = why.or_else(|| foreign.then_some("pages of another origin may not send this"));
    let mut response = match why {
        Some(why) => Refusal::forbidden(why).into_response(),
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::CACHE_CONTROL, "no-store"),
        // With no-referrer a browser would send forms with the origin "null".
        (header::REFERRER_POLICY, "same-origin"),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ));
    response
}

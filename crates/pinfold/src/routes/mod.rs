//! What `pinfold serve` answers, one file per route. Routes translate and decide nothing.

mod access;

mod health;

mod mcp;

mod well_known;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{any, get};

pub(crate) use access::Access;
pub(crate) use mcp::Doors;

/// What every route may use.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) access: std::sync::Arc<Access>,
    pub(crate) doors: std::sync::Arc<Doors>,
    /// How clients reach this, where it is not by the address that they name.
    pub(crate) public_url: Option<std::sync::Arc<str>>,
}

/// All routes.
pub(crate) fn router(shared: Shared) -> Router {
    Router::new()
        .route("/healthz", get(health::show))
        .route("/mcp", any(mcp::default))
        .route("/mcp/{profile}", any(mcp::named))
        .route(well_known::PREFIX, get(well_known::whole))
        .route(&format!("{}/mcp", well_known::PREFIX), get(well_known::default))
        .route(&format!("{}/mcp/{{profile}}", well_known::PREFIX), get(well_known::named))
        // Bodies are bounded where they are read, with an answer of the protocol's own.
        .layer(DefaultBodyLimit::disable())
        .with_state(shared)
}

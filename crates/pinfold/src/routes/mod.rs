//! What `pinfold serve` answers, one file per route. Routes translate and decide nothing.

mod access;

mod health;

mod mcp;

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
}

/// All routes.
pub(crate) fn router(shared: Shared) -> Router {
    Router::new()
        .route("/healthz", get(health::show))
        .route("/mcp", any(mcp::default))
        .route("/mcp/{profile}", any(mcp::named))
        // Bodies are bounded where they are read, with an answer of the protocol's own.
        .layer(DefaultBodyLimit::disable())
        .with_state(shared)
}

//! `/mcp` and `/mcp/{profile}`: the tools of a profile over streamable HTTP.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::WWW_AUTHENTICATE;
use axum::http::{Request, Response};
use axum::response::IntoResponse as _;
use gateway::Gateway;
use mcp::server::{Endpoint, Gate, Seal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::access::Guest;
use super::error::Refusal;
use super::{Shared, well_known};
use crate::config::Config;
use crate::serving::{Answers, Offer};
use crate::wiring;

/// Who names no session has this one, one per principal and profile.
pub(super) const SESSION: &str = "http";

/// One endpoint for each who calls and each profile, made when it is first needed.
#[derive(Debug)]
pub(crate) struct Doors {
    config: Arc<Config>,
    seal: Seal,
    gate: Gate,
    opened: watch::Receiver<Option<Arc<Gateway>>>,
    /// Told whenever a server's tools or state change.
    sources: watch::Receiver<u64>,
    closing: CancellationToken,
    made: Mutex<BTreeMap<Guest, Arc<Endpoint<Offer>>>>,
    /// The configuration, as it was given.
    given: Option<PathBuf>,
    /// Where a person answers in a browser.
    page: Option<String>,
}

impl Doors {
    pub(crate) fn new(
        config: Arc<Config>,
        seal: Seal,
        gate: Gate,
        (opened, sources): (watch::Receiver<Option<Arc<Gateway>>>, watch::Receiver<u64>),
        closing: CancellationToken,
        (given, page): (Option<PathBuf>, Option<String>),
    ) -> Self {
        let made = Mutex::default();
        Self { config, seal, gate, opened, sources, closing, made, given, page }
    }

    /// Whether the gateway is open.
    pub(crate) fn is_open(&self) -> bool {
        self.opened.borrow().is_some()
    }

    pub(super) fn gateway(&self) -> Option<Arc<Gateway>> {
        self.opened.borrow().clone()
    }

    fn endpoint(&self, guest: Guest) -> Result<Arc<Endpoint<Offer>>, Refusal> {
        self.config
            .profile(&guest.profile)
            .map_err(|error| Refusal::forbidden(error.to_string()))?;
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(endpoint) = made.get(&guest) {
            return Ok(endpoint.clone());
        }
        let offer = Offer::new(
            &self.config,
            &guest.profile,
            &guest.principal,
            SESSION,
            Answers {
                command_options: wiring::command_options(
                    Some(&guest.profile),
                    self.given.as_deref(),
                ),
                page: self.page.clone(),
            },
            self.opened.clone(),
        );
        let (watching, sources, closing) =
            (offer.clone(), self.sources.clone(), self.closing.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = watching.watch(sources) => {}
                () = closing.cancelled() => {}
            }
        });
        let endpoint =
            Endpoint::new(offer, self.seal.clone(), self.gate.clone(), self.closing.child_token());
        let endpoint = Arc::new(endpoint);
        made.insert(guest, endpoint.clone());
        Ok(endpoint)
    }
}

/// `/mcp`
pub(super) async fn default(
    State(shared): State<Shared>,
    request: Request<Body>,
) -> Response<Body> {
    handle(&shared, None, request).await
}

/// `/mcp/{profile}`
pub(super) async fn named(
    State(shared): State<Shared>,
    Path(profile): Path<String>,
    request: Request<Body>,
) -> Response<Body> {
    handle(&shared, Some(&profile), request).await
}

async fn handle(shared: &Shared, profile: Option<&str>, request: Request<Body>) -> Response<Body> {
    let guest = shared.access.agent(request.headers(), profile);
    let counted = guest.and_then(|guest| {
        if !shared.access.is_open() {
            shared.limits.count(&guest.principal)?;
        }
        shared.doors.endpoint(guest)
    });
    match counted {
        Ok(endpoint) => endpoint.handle(request).await,
        Err(refusal) => {
            let mut response = refusal.into_response();
            if let Some(challenge) = response.headers_mut().get_mut(WWW_AUTHENTICATE) {
                *challenge = well_known::challenge(shared, request.headers(), profile);
            }
            response
        }
    }
}

//! `GET /healthz`: whether this process serves, for whoever watches over it.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::Shared;

/// 503 until the gateway is open; names no server and no reason, because anybody may ask.
pub(super) async fn show(State(shared): State<Shared>) -> (StatusCode, Json<Value>) {
    let version = env!("CARGO_PKG_VERSION");
    if shared.doors.is_open() {
        (StatusCode::OK, Json(json!({"ok": true, "version": version})))
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"ok": false, "version": version})))
    }
}

//! The client, answered with damaged messages over HTTP and over lines.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use mcp::Error;
use serde_json::{Value, json};

use super::{Damage, for_a_while};
use crate::support::{SOON, call, connect, connect_within, fixture, http};

/// What a server answers, most often damaged, as JSON or as events.
fn answer(damage: &mut Damage, request: &Value) -> Response {
    let right = match request["method"].as_str() {
        Some("server/discover") => {
            json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
        }
        Some("initialize") => {
            json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}})
        }
        Some("tools/list") => {
            json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
        }
        _ => json!({"content": [{"type": "text", "text": "hi"}]}),
    };
    let right = json!({"jsonrpc": "2.0", "id": request["id"], "result": right}).to_string();
    let is_right = damage.one_in(2);
    if damage.one_in(2) {
        let body = if is_right { right } else { damage.message() };
        return Response::builder()
            .header("content-type", "application/json")
            .body(body.into())
            .unwrap();
    }
    let mut events = String::new();
    for _ in 0..damage.below(4) {
        let id = if damage.one_in(2) { "id: e\n" } else { "" };
        let retry = if damage.one_in(4) { "retry: 1\n" } else { "" };
        events.push_str(&format!("{id}{retry}data: {}\n\n", damage.message()));
    }
    if is_right {
        events.push_str(&format!("data: {right}\n\n"));
    }
    Response::builder()
        .header("content-type", "text/event-stream")
        .body(Body::from(events))
        .unwrap()
}

#[test]
fn the_client_takes_any_answer_over_http_in_time() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let damage = Arc::new(Mutex::new(Damage::new(0)));
    let url = runtime.block_on(async {
        let damage = Arc::clone(&damage);
        let router = axum::Router::new().fallback(move |body: Bytes| {
            let request: Value = serde_json::from_slice(&body).unwrap_or_default();
            let response = answer(&mut damage.lock().unwrap(), &request);
            async move { response }
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    });
    for_a_while(|next| {
        *damage.lock().unwrap() = next;
        runtime.block_on(async {
            let talking = async {
                let connected = connect_within(&http(&url), Duration::from_millis(500)).await?;
                let _ = connected.client.list_tools().await;
                for _ in 0..3 {
                    let mut one = call("echo", json!({}));
                    one.timeout = Duration::from_millis(300);
                    let _ = connected.client.call_tool(one).await;
                }
                Ok::<(), Error>(())
            };
            let _ = tokio::time::timeout(SOON, talking).await.expect("it hangs");
        });
    });
}

#[test]
fn the_client_passes_over_damaged_lines() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    for_a_while(|mut damage| {
        let path = folder.path().join("lines");
        // An answer to what was asked ends what was asked, whatever is in it.
        let lines: Vec<String> =
            std::iter::repeat_with(|| damage.line().replace("\"id\":", "\"id\":99"))
                .take(400)
                .collect();
        std::fs::write(&path, lines.join("\n")).unwrap();
        runtime.block_on(async {
            let server = fixture("noisy.py", &[path.to_str().unwrap()]);
            let connected = connect(&server).await.unwrap();
            for _ in 0..4 {
                let result = connected.call("echo", json!({})).await.unwrap();
                assert!(result.raw.get().contains("hi"));
            }
            connected.client.close().await;
        });
    });
}

//! The server, sent damaged messages over lines and over HTTP.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response};
use futures_util::StreamExt as _;
use mcp::server::{Endpoint, Gate, Seal};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio_util::sync::CancellationToken;

use super::{Damage, for_a_while};
use crate::service::Desk;
use crate::support::SOON;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// The ids of messages; panics if they are none. What is in them can be deeper than a parser of
/// values goes.
fn ids(text: &str) -> Vec<String> {
    type Message<'a> = HashMap<String, &'a RawValue>;
    let all: Vec<Message<'_>> = match serde_json::from_str(text) {
        Ok(one) => vec![one],
        Err(_) => serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}")),
    };
    assert!(all.iter().all(|message| message["jsonrpc"].get() == "\"2.0\""), "{text}");
    all.iter().filter_map(|message| Some(message.get("id")?.get().to_owned())).collect()
}

fn desk() -> Arc<Desk> {
    Desk::with_questions_of(Duration::from_millis(20))
}

#[test]
fn the_server_answers_lines_in_the_protocol_and_goes_on() {
    let runtime = runtime();
    for_a_while(|mut damage| {
        runtime.block_on(async {
            let (line, serving) = desk().open();
            let (input, mut output) = tokio::io::split(line);
            let mut lines = BufReader::new(input).lines();
            let sending = async {
                for _ in 0..40 {
                    let line = damage.line();
                    output.write_all(format!("{line}\n").as_bytes()).await.unwrap();
                }
                let last = json!({"jsonrpc": "2.0", "id": "the last", "method": "ping"});
                output.write_all(format!("{last}\n").as_bytes()).await.unwrap();
            };
            let reading = async {
                loop {
                    let line = lines.next_line().await.unwrap().unwrap();
                    if ids(&line).iter().any(|id| id == "\"the last\"") {
                        return;
                    }
                }
            };
            tokio::time::timeout(SOON, async { tokio::join!(sending, reading) }).await.unwrap();
            drop((output, lines));
            tokio::time::timeout(SOON, serving).await.unwrap().unwrap().unwrap();
        });
    });
}

/// A request with damaged parts.
fn request(damage: &mut Damage, session: &str) -> Request<Body> {
    let method = if damage.one_in(8) { damage.pick(&["GET", "DELETE", "PUT"]) } else { "POST" };
    let mut request = Request::builder().method(method).uri("/mcp");
    let message = damage.message();
    let named = serde_json::from_str::<Value>(&message).unwrap_or_default();
    let mut header = |damage: &mut Damage, name: &str, right: &str| {
        let odd =
            ["", "x", "=?base64?!?=", "2026-07-28", "a1-1", "o1-0", "a18446744073709551615-1"];
        let value = if damage.one_in(10) { damage.pick(&odd) } else { right };
        // What cannot be a header cannot be sent.
        if let Ok(value) = axum::http::HeaderValue::from_str(value)
            && !damage.one_in(10)
        {
            request
                .headers_mut()
                .unwrap()
                .insert(axum::http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value);
        }
    };
    header(damage, "host", "localhost");
    header(damage, "content-type", "application/json");
    header(damage, "accept", "application/json, text/event-stream");
    if damage.one_in(2) {
        header(damage, "mcp-session-id", session);
        header(damage, "mcp-protocol-version", "2025-11-25");
        if damage.one_in(4) {
            header(damage, "last-event-id", "a1-0");
        }
    } else {
        header(damage, "mcp-protocol-version", "2026-07-28");
        header(damage, "mcp-method", named["method"].as_str().unwrap_or_default());
        header(damage, "mcp-name", named["params"]["name"].as_str().unwrap_or_default());
    }
    request.body(message.into()).unwrap()
}

/// Reads what there is of a body within a moment.
async fn start_of(response: Response<Body>) -> (u16, String) {
    let status = response.status().as_u16();
    let mut body = response.into_body().into_data_stream();
    let mut text = String::new();
    let reading = async {
        while let Some(chunk) = body.next().await {
            text.push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
        }
    };
    let _ = tokio::time::timeout(Duration::from_millis(20), reading).await;
    (status, text)
}

#[test]
fn the_server_answers_over_http_in_the_protocol_and_goes_on() {
    let runtime = runtime();
    for_a_while(|mut damage| {
        runtime.block_on(async {
            let (seal, closing) = (Seal::with_key([7; 32]), CancellationToken::new());
            let endpoint = Endpoint::new(desk(), seal, Gate::Loopback, closing.clone());
            let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize",
                "params": {"protocolVersion": "2025-11-25", "capabilities": {}}});
            let post = |body: &Value| {
                let request = Request::post("/mcp").header("host", "localhost");
                let request = request.header("content-type", "application/json");
                request.body(Body::from(body.to_string())).unwrap()
            };
            let begun = endpoint.handle(post(&initialize)).await;
            let session = begun.headers()["mcp-session-id"].to_str().unwrap().to_owned();
            for _ in 0..20 {
                let request = request(&mut damage, &session);
                let shown = format!("{request:?}");
                let handled = tokio::time::timeout(SOON, endpoint.handle(request)).await.unwrap();
                let is_json = handled
                    .headers()
                    .get("content-type")
                    .is_some_and(|kind| kind == "application/json");
                let (status, text) = start_of(handled).await;
                assert!(status < 500, "{status}: {shown}");
                if is_json {
                    ids(&text);
                }
                for line in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
                    ids(line);
                }
            }
            let begun = endpoint.handle(post(&initialize)).await;
            assert_eq!(begun.status(), 200);
            closing.cancel();
        });
    });
}

//! HTTP servers that misbehave, and the corners of the transport that published ones do not show.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;
use mcp::{Endpoint, Error};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::support::{Connected, SOON, call, connect, connect_within, drain, eventually, http};

/// A request as it arrived.
struct Seen {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Value,
}

impl Seen {
    fn rpc(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// A server that answers as the test says.
async fn serve(answer: impl Fn(&Seen) -> Response + Send + Sync + 'static) -> String {
    let answer = Arc::new(answer);
    let router = axum::Router::new().fallback(
        move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| {
            let answer = Arc::clone(&answer);
            async move {
                let body = serde_json::from_slice(&body).unwrap_or_default();
                answer(&Seen { method, path: uri.path().to_owned(), headers, body })
            }
        },
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

fn status(status: u16, body: impl Into<Body>) -> Response {
    Response::builder().status(status).body(body.into()).unwrap()
}

fn answer(seen: &Seen, result: &Value) -> Response {
    let body = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result});
    Response::builder()
        .header("content-type", "application/json; charset=utf-8")
        .body(body.to_string().into())
        .unwrap()
}

fn stream(body: impl Into<Body>) -> Response {
    Response::builder().header("content-type", "text/event-stream").body(body.into()).unwrap()
}

fn failure(status: u16, code: i64, message: &str) -> Response {
    let body = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": message}});
    Response::builder()
        .status(status)
        .header("content-type", "application/json")
        .body(body.to_string().into())
        .unwrap()
}

fn text(words: &str) -> Value {
    json!({"content": [{"type": "text", "text": words}]})
}

/// What a decent server of the new era answers to all but calls.
fn modern(seen: &Seen) -> Option<Response> {
    match seen.rpc() {
        "server/discover" => Some(answer(
            seen,
            &json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {}}}),
        )),
        "tools/list" => {
            Some(answer(seen, &json!({"tools": [{"name": "echo", "inputSchema": {}}]})))
        }
        _ => None,
    }
}

/// What a decent older server answers to all but calls.
fn legacy(seen: &Seen) -> Option<Response> {
    match (&seen.method, seen.rpc()) {
        (_, "server/discover") => Some(status(400, "Bad Request: no session")),
        (_, "initialize") => {
            let mut response = answer(
                seen,
                &json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}),
            );
            response.headers_mut().insert("mcp-session-id", "s-1".parse().unwrap());
            Some(response)
        }
        (_, "notifications/initialized") => Some(status(202, "")),
        (&Method::GET, _) => Some(status(405, "")),
        (&Method::DELETE, _) => Some(status(200, "")),
        (_, "tools/list") => {
            Some(answer(seen, &json!({"tools": [{"name": "echo", "inputSchema": {}}]})))
        }
        _ => None,
    }
}

async fn connected(answer: impl Fn(&Seen) -> Response + Send + Sync + 'static) -> Connected {
    connect(&http(&serve(answer).await)).await.unwrap()
}

/// Calls a tool of a server of the new era that answers the call in this way.
async fn called(answer: impl Fn(&Seen) -> Response + Send + Sync + 'static) -> (Connected, Error) {
    let server = connected(move |seen| modern(seen).unwrap_or_else(|| answer(seen))).await;
    let error = server.call("echo", json!({})).await.unwrap_err();
    (server, error)
}

#[tokio::test]
async fn redirects_do_not_carry_secrets_to_another_host() {
    let reached = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&reached);
    let other = serve(move |seen| {
        log.lock().unwrap().push(seen.header("x-key").to_owned());
        modern(seen).unwrap_or_else(|| answer(seen, &text("stolen")))
    })
    .await;
    let target = other.clone();
    let url = serve(move |_| {
        let mut response = status(307, "");
        let target = format!("{target}?token=in-the-address");
        response.headers_mut().insert("location", target.parse().unwrap());
        response
    })
    .await;
    let headers = BTreeMap::from([("X-Key".to_owned(), "very-secret-value".to_owned())]);
    let endpoint = Endpoint::Http { url, headers, login: None, secrets: mcp::Secrets::default() };
    let error = connect_within(&endpoint, Duration::from_secs(5)).await.err().unwrap().to_string();
    assert!(error.contains(other.trim_end_matches("/mcp")), "{error}");
    assert!(error.contains("put the final address in `url`"), "{error}");
    assert!(!error.contains("in-the-address") && !error.contains("very-secret"), "{error}");
    assert!(reached.lock().unwrap().is_empty());
}

#[tokio::test]
async fn redirects_within_the_server_are_followed() {
    let url = serve(|seen| {
        if seen.path == "/mcp" {
            let mut response = status(307, "");
            response.headers_mut().insert("location", "/mcp/".parse().unwrap());
            return response;
        }
        modern(seen).unwrap_or_else(|| answer(seen, &text(seen.header("x-key"))))
    })
    .await;
    let headers = BTreeMap::from([("X-Key".to_owned(), "very-secret-value".to_owned())]);
    let server =
        connect(&Endpoint::Http { url, headers, login: None, secrets: mcp::Secrets::default() })
            .await
            .unwrap();
    assert_eq!(server.call("echo", json!({})).await.unwrap().text, "very-secret-value");
    server.client.close().await;
}

#[tokio::test]
async fn refusals_say_what_to_do_and_no_secret() {
    for (number, words) in [
        (401, "headers"),
        (403, "headers"),
        (404, "check `url`"),
        (405, "check `url`"),
        (429, "later"),
    ] {
        let url =
            serve(move |seen| status(number, format!("you sent {}", seen.header("authorization"))))
                .await;
        let headers =
            BTreeMap::from([("Authorization".to_owned(), "Bearer very-secret".to_owned())]);
        let endpoint =
            Endpoint::Http { url, headers, login: None, secrets: mcp::Secrets::default() };
        let error = connect(&endpoint).await.err().unwrap().to_string();
        assert!(error.contains(words) && !error.contains("very-secret"), "{error}");
        assert!(!format!("{endpoint:?}").contains("very-secret"));
    }
    let (_, error) = called(|seen| status(422, format!("bad {}", seen.rpc()))).await;
    assert!(matches!(&error, Error::Refused(why) if why.contains("HTTP 422): bad tools/call")));
}

#[tokio::test]
async fn a_web_page_is_no_answer() {
    let (_, error) = called(|_| {
        let page = Response::builder().header("content-type", "text/html");
        page.body("<html>".into()).unwrap()
    })
    .await;
    assert!(matches!(&error, Error::Protocol(why) if why.contains("text/html")), "{error}");
    let (_, error) = called(|_| status(202, "")).await;
    assert!(matches!(&error, Error::Protocol(_)), "{error}");
}

#[tokio::test]
async fn answers_longer_than_the_bound_are_cut_off() {
    let endless = || {
        let part = Bytes::from(vec![b'x'; 1024 * 1024]);
        Body::from_stream(futures_util::stream::iter(
            (0..200).map(move |_| Ok::<_, std::io::Error>(part.clone())),
        ))
    };
    let (server, error) = called(move |_| {
        let response = Response::builder().header("content-type", "application/json");
        response.body(endless()).unwrap()
    })
    .await;
    assert!(error.to_string().contains("longer than 64 MB"), "{error}");
    assert_eq!(server.names().await, ["echo"]);
    let (server, error) = called(move |_| stream(endless())).await;
    assert!(error.to_string().contains("longer than 64 MB"), "{error}");
    assert_eq!(server.names().await, ["echo"]);
}

#[tokio::test]
async fn a_response_without_the_answer_is_a_loss() {
    let forged = |seen: &Seen| {
        let body = json!({"jsonrpc": "2.0", "id": seen.body["id"].as_i64().unwrap() + 1, "result": text("forged")});
        body.to_string()
    };
    let (_, error) = called(move |seen| {
        let response = Response::builder().header("content-type", "application/json");
        response.body(forged(seen).into()).unwrap()
    })
    .await;
    assert!(matches!(error, Error::Lost(_)), "{error}");
    let (server, error) =
        called(move |seen| stream(format!("id: 1\ndata: {}\n\n", forged(seen)))).await;
    assert!(matches!(error, Error::Lost(_)), "{error}");
    assert!(server.client.closed().await.contains("without an answer"));
    let (_, error) = called(|_| stream("data: {\"half\": ")).await;
    assert!(matches!(error, Error::Lost(_)), "{error}");
}

#[tokio::test]
async fn a_failing_server_is_not_taken_for_a_refusing_one() {
    let (server, error) = called(|_| status(500, "oops")).await;
    assert!(matches!(&error, Error::Lost(why) if why.contains("oops")), "{error}");
    assert_eq!(server.names().await, ["echo"]);
    let (server, error) = called(|_| status(503, "")).await;
    assert!(matches!(error, Error::Lost(_)), "{error}");
    let reason = tokio::time::timeout(SOON, server.client.closed()).await.unwrap();
    assert!(reason.contains("503"), "{reason}");
    let (_, error) = called(|_| failure(400, -32602, "no such tool")).await;
    assert!(matches!(error, Error::Rpc { code: -32602, .. }), "{error}");
    let (_, error) = called(|_| failure(200, -32603, "broken")).await;
    assert!(matches!(error, Error::Rpc { code: -32603, .. }), "{error}");
}

#[tokio::test]
async fn silence_is_a_timeout() {
    let server = connected(|seen| {
        modern(seen).unwrap_or_else(|| {
            let dots = futures_util::stream::pending::<Result<Bytes, std::io::Error>>();
            stream(Body::from_stream(dots))
        })
    })
    .await;
    let mut silent = call("echo", json!({}));
    silent.timeout = Duration::from_millis(300);
    let outcome = server.client.call_tool(silent).await;
    assert!(matches!(outcome, Err(Error::Timeout { .. })), "{outcome:?}");
    assert_eq!(server.names().await, ["echo"]);
}

#[tokio::test]
async fn an_older_server_that_hangs_on_discover_is_still_found() {
    let url = {
        let router = axum::Router::new().fallback(
            |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| async move {
                let body: Value = serde_json::from_slice(&body).unwrap_or_default();
                if body["method"] == "server/discover" {
                    std::future::pending::<()>().await;
                }
                let seen = Seen { method, path: uri.path().to_owned(), headers, body };
                legacy(&seen).unwrap_or_else(|| status(500, ""))
            },
        );
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    };
    let server = connect_within(&http(&url), Duration::from_secs(12)).await.unwrap();
    assert_eq!(server.client.info().revision.0, "2025-06-18");
    server.client.close().await;
}

#[tokio::test]
async fn an_older_stream_that_breaks_is_taken_up_again() {
    let id = Arc::new(Mutex::new(Value::Null));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (called, log) = (Arc::clone(&id), Arc::clone(&asked));
    let server = connected(move |seen| {
        let last = seen.header("last-event-id").to_owned();
        if seen.method == Method::GET && !last.is_empty() {
            log.lock().unwrap().push(format!("{last} {}", seen.header("mcp-session-id")));
            let id = called.lock().unwrap().clone();
            let next = json!({"jsonrpc": "2.0", "method": "notifications/progress",
                              "params": {"progressToken": id, "progress": 2}});
            if last == "e-1" {
                return stream(format!("id: e-2\nretry: 10\ndata: {next}\n\n"));
            }
            let done = json!({"jsonrpc": "2.0", "id": id, "result": text("at last")});
            return stream(format!("id: e-3\ndata: {done}\n\n"));
        }
        legacy(seen).unwrap_or_else(|| {
            *called.lock().unwrap() = seen.body["id"].clone();
            assert_eq!(seen.header("mcp-session-id"), "s-1");
            assert_eq!(seen.header("mcp-protocol-version"), "2025-06-18");
            stream("id: e-1\nretry: 10\ndata: \n\n")
        })
    })
    .await;
    let (sender, progress) = mpsc::unbounded_channel();
    let mut resumed = call("echo", json!({}));
    resumed.progress = Some(sender);
    assert_eq!(server.client.call_tool(resumed).await.unwrap().text, "at last");
    assert_eq!(drain(progress).len(), 1);
    assert_eq!(*asked.lock().unwrap(), ["e-1 s-1", "e-2 s-1"]);
    server.client.close().await;
}

#[tokio::test]
async fn a_stream_that_never_gets_further_is_given_up() {
    let server = connected(|seen| {
        if seen.method == Method::GET && !seen.header("last-event-id").is_empty() {
            return stream("");
        }
        legacy(seen).unwrap_or_else(|| stream("id: e-1\nretry: 10\ndata: \n\n"))
    })
    .await;
    let error = server.call("echo", json!({})).await.unwrap_err();
    assert!(matches!(&error, Error::Lost(why) if why.contains("taken up again")), "{error}");
}

#[tokio::test]
async fn a_session_that_ended_ends_the_connection_and_the_call_was_not_made() {
    for (number, body) in [(404, "Session not found"), (400, "Bad Request: No valid session ID")] {
        let server =
            connected(move |seen| legacy(seen).unwrap_or_else(|| status(number, body))).await;
        let error = server.call("echo", json!({})).await.unwrap_err();
        assert!(matches!(&error, Error::Connect(why) if why.contains("session")), "{error}");
        assert!(server.client.closed().await.contains("session"));
    }
}

#[tokio::test]
async fn the_get_stream_of_an_older_server_tells_changes_and_asks() {
    let replies = Arc::new(Mutex::new(Vec::new()));
    let opened = Arc::new(Mutex::new(Vec::new()));
    let (said, log) = (Arc::clone(&replies), Arc::clone(&opened));
    let mut server = connected(move |seen| {
        if seen.method == Method::GET {
            let last = seen.header("last-event-id").to_owned();
            log.lock().unwrap().push(last.clone());
            if !last.is_empty() {
                return status(405, "");
            }
            let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
            let ping = json!({"jsonrpc": "2.0", "id": "p", "method": "ping"});
            let wish = json!({"jsonrpc": "2.0", "id": "w", "method": "elicitation/create"});
            return stream(format!(
                ": hello\n\nid: 9\nretry: 10\ndata: {changed}\n\nid: 10\ndata: {ping}\n\nid: 11\ndata: {wish}\n\n"
            ));
        }
        if seen.rpc().is_empty() && seen.method == Method::POST {
            said.lock().unwrap().push(seen.body.clone());
            return status(202, "");
        }
        legacy(seen).unwrap_or_else(|| answer(seen, &text("fine")))
    })
    .await;
    server.tools_changed().await;
    eventually("both were answered", || replies.lock().unwrap().len() == 2).await;
    let mut replies = replies.lock().unwrap().clone();
    replies.sort_by_key(|reply| reply["id"].to_string());
    assert_eq!(replies[0], json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
    // Nobody called anything, so there is nobody to ask.
    assert_eq!(replies[1]["result"], json!({"action": "cancel"}));
    eventually("it was opened again", || opened.lock().unwrap().len() == 2).await;
    assert_eq!(*opened.lock().unwrap(), ["", "11"]);
    assert_eq!(server.call("echo", json!({})).await.unwrap().text, "fine");
    server.client.close().await;
}

#[tokio::test]
async fn mirrored_arguments_follow_the_schema() {
    let lists = Arc::new(Mutex::new(0));
    let listed = Arc::clone(&lists);
    let server = connected(move |seen| {
        let schema = |header: &str| {
            json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": header}}})
        };
        match seen.rpc() {
            "tools/list" => {
                let mut lists = listed.lock().unwrap();
                *lists += 1;
                let header = if *lists == 1 { "Old" } else { "New" };
                let tools = json!([
                    {"name": "deploy", "inputSchema": schema(header)},
                    {"name": "wrong", "inputSchema": schema("no token")},
                    {"name": "plain", "inputSchema": {}},
                ]);
                answer(seen, &json!({"tools": tools}))
            }
            "tools/call" if seen.header("mcp-param-new").is_empty() => {
                failure(400, -32020, "header mismatch")
            }
            "tools/call" => answer(seen, &text(seen.header("mcp-param-new"))),
            _ => modern(seen).unwrap(),
        }
    })
    .await;
    let mut server = server;
    assert_eq!(server.names().await, ["deploy", "plain"]);
    assert!(server.log().iter().any(|line| line.contains("`wrong`")));
    let result = server.call("deploy", json!({"region": "eu\r\nX-Evil: 1"})).await.unwrap();
    assert_eq!(result.text, "=?base64?ZXUNClgtRXZpbDogMQ==?=");
    assert_eq!(*lists.lock().unwrap(), 2);
    // The supervisor is told, since the definitions changed.
    server.tools_changed().await;
    server.client.close().await;
}

#[tokio::test]
async fn a_call_that_is_over_leaves_its_connection_usable() {
    let server = connected(|seen| {
        modern(seen).unwrap_or_else(|| {
            // The answer comes first; what follows is nobody's business.
            let body = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": text("first")});
            let first = Bytes::from(format!("data: {body}\n\n"));
            let rest = futures_util::stream::repeat_with(|| {
                Ok::<_, std::io::Error>(Bytes::from_static(b"data: {\"method\":\"x\"}\n\n"))
            });
            use futures_util::StreamExt as _;
            let all = futures_util::stream::once(async move { Ok(first) }).chain(rest);
            stream(Body::from_stream(all))
        })
    })
    .await;
    for _ in 0..20 {
        assert_eq!(server.call("echo", json!({})).await.unwrap().text, "first");
    }
    server.client.close().await;
}

fn json_body(body: impl Into<Body>) -> Response {
    Response::builder().header("content-type", "application/json").body(body.into()).unwrap()
}

#[tokio::test]
async fn a_body_that_is_not_json_is_an_error_that_says_so() {
    for (body, words) in [
        (
            r#"{"jsonrpc":"2.0","id":ID,"result":{"x":NaN}}"#,
            "its answer is not valid JSON: NaN at byte",
        ),
        // Here the answer needs no id to be known as one.
        (r#"{"result":{"x":Infinity"#, "its answer is not valid JSON: Infinity at byte"),
        (
            "Internal error",
            "its answer is not valid JSON: expected value at byte 0: Internal error",
        ),
        ("", "its answer is not valid JSON: EOF"),
    ] {
        let (_server, error) =
            called(move |seen| json_body(body.replace("ID", &seen.body["id"].to_string()))).await;
        assert!(matches!(&error, Error::Protocol(why) if why.starts_with(words)), "{error:?}");
    }
}

#[tokio::test]
async fn an_event_that_is_not_json_is_an_error_that_says_so() {
    let (_server, error) = called(|seen| {
        stream(format!("data: {{\"id\":{},\"result\":{{\"x\":NaN}}}}\n\n", seen.body["id"]))
    })
    .await;
    assert!(matches!(&error, Error::Protocol(why) if why.contains("NaN")), "{error:?}");
    let (_server, error) = called(|_| stream("data: nothing of use\n\n")).await;
    let words = error.to_string();
    assert!(matches!(error, Error::Lost(_)), "{words}");
    assert!(words.contains("could not be read, the first: nothing of use"), "{words}");
}

#[tokio::test]
async fn a_secret_that_an_http_server_repeats_is_hidden() {
    let url = serve(|seen| {
        modern(seen).unwrap_or_else(|| match seen.body["params"]["arguments"]["as"].as_str() {
            Some("event") => stream(format!(
                "data: {{\"id\":{},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"{}\"}}]}}}}\n\n",
                seen.body["id"],
                seen.header("authorization")
            )),
            Some("refusal") => failure(400, -32000, seen.header("authorization")),
            Some("unreadable") => json_body(seen.header("authorization").to_owned()),
            _ => answer(seen, &text(seen.header("authorization"))),
        })
    })
    .await;
    let headers =
        BTreeMap::from([("Authorization".to_owned(), "Bearer s3cr3t-XYZZY-42".to_owned())]);
    let secrets = mcp::Secrets::new(["s3cr3t-XYZZY-42"]);
    let server = connect(&Endpoint::Http { url, headers, login: None, secrets }).await.unwrap();
    for form in ["body", "event"] {
        let result = server.call("echo", json!({"as": form})).await.unwrap();
        assert_eq!(result.text, "Bearer ***", "{form}");
    }
    for form in ["refusal", "unreadable"] {
        let error = server.call("echo", json!({"as": form})).await.unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(shown.contains("***") && !shown.contains("XYZZY"), "{form}: {shown}");
    }
    server.client.close().await;
}

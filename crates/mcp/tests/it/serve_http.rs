//! The server over HTTP, request by request, as no well-behaved client would send them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use crate::service::Desk;
use crate::support::{SOON, eventually};

/// A client that sends what it is told to.
struct Web {
    client: Client,
    url: String,
}

/// An answer that is over.
#[derive(Debug)]
struct Said {
    status: StatusCode,
    body: Value,
}

impl Web {
    async fn to(desk: &Arc<Desk>) -> Self {
        let client = Client::builder().no_proxy().timeout(SOON).build().unwrap();
        Self { client, url: desk.open_http().await }
    }

    fn request(&self, method: Method) -> RequestBuilder {
        self.client
            .request(method, &self.url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
    }

    /// A request of 2026-07-28, with its headers.
    fn modern(&self, method: &str, params: Value) -> RequestBuilder {
        let message = modern(method, params);
        let mut request = self
            .request(Method::POST)
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", method);
        if let Some(name) = message["params"]["name"].as_str() {
            request = request.header("mcp-name", name);
        }
        request.body(message.to_string())
    }

    /// Begins an older client's session; its name.
    async fn initialize(&self) -> String {
        let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}}}});
        let answer = self.request(Method::POST).body(message.to_string()).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        let session = answer.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        assert!(session.len() >= 32 && session.bytes().all(|byte| byte.is_ascii_graphic()));
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(said(self.legacy(&session, &ready)).await.status, 202);
        session
    }

    fn legacy(&self, session: &str, message: &Value) -> RequestBuilder {
        self.request(Method::POST)
            .header("mcp-session-id", session)
            .header("mcp-protocol-version", "2025-06-18")
            .body(message.to_string())
    }
}

fn modern(method: &str, mut params: Value) -> Value {
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    });
    if let Value::Object(more) = params["_meta"].take() {
        meta.as_object_mut().unwrap().extend(more);
    }
    params["_meta"] = meta;
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

async fn said(request: RequestBuilder) -> Said {
    let answer = request.send().await.unwrap();
    let status = answer.status();
    let text = answer.text().await.unwrap();
    let body = serde_json::from_str(&text).unwrap_or(Value::Null);
    Said { status, body }
}

/// The messages of a stream, as they come.
struct Events {
    answer: Response,
    rest: String,
}

impl Events {
    async fn of(request: RequestBuilder) -> Self {
        let answer = request.send().await.unwrap();
        let headers = answer.headers();
        assert_eq!(headers["content-type"], "text/event-stream", "{}", answer.status());
        assert_eq!(headers["x-accel-buffering"], "no");
        Self { answer, rest: String::new() }
    }

    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.rest.split_once("\n\n") {
                let data = event.lines().find_map(|line| line.strip_prefix("data: "));
                let message = data.map(|data| serde_json::from_str(data).unwrap());
                self.rest = rest.to_owned();
                match message {
                    Some(message) => return Some(message),
                    None => continue,
                }
            }
            let chunk = self.answer.chunk().await.unwrap()?;
            self.rest.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }
}

#[tokio::test]
async fn headers_say_what_the_body_says() {
    let web = Web::to(&Desk::new()).await;
    let call = || modern("tools/call", json!({"name": "echo", "arguments": {}})).to_string();
    let with = |headers: &[(&'static str, &str)]| {
        let request = web.request(Method::POST);
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
    };
    let version = ("mcp-protocol-version", "2026-07-28");
    let method = ("mcp-method", "tools/call");
    for headers in [
        vec![],
        vec![version],
        vec![version, method],
        vec![version, method, ("mcp-name", "ask")],
        vec![version, ("mcp-method", "tools/list"), ("mcp-name", "echo")],
        vec![("mcp-protocol-version", "2025-11-25"), method, ("mcp-name", "echo")],
    ] {
        let said = said(with(&headers).body(call())).await;
        assert_eq!(
            (said.status.as_u16(), &said.body["error"]["code"]),
            (400, &json!(-32020)),
            "{headers:?}: {said:?}"
        );
    }
    // A name may be written as base64.
    let headers = [version, method, ("mcp-name", "=?base64?ZWNobw==?=")];
    assert_eq!(said(with(&headers).body(call())).await.status, 200);
    assert_eq!(said(web.modern("tools/call", json!({"name": "echo"}))).await.status, 200);
}

#[tokio::test]
async fn what_is_wrong_has_its_status() {
    let web = Web::to(&Desk::new()).await;
    let status = |code: u16, error: i64| (code, json!(error));
    let of = |said: &Said| (said.status.as_u16(), said.body["error"]["code"].clone());
    let found = said(web.modern("server/discover", json!({}))).await;
    assert_eq!(
        (found.status, &found.body["result"]["resultType"]),
        (StatusCode::OK, &json!("complete"))
    );
    for gone in ["ping", "initialize", "logging/setLevel"] {
        assert_eq!(of(&said(web.modern(gone, json!({}))).await), status(404, -32601), "{gone}");
    }
    let old = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "1900-01-01"}});
    let old = web.modern("tools/list", old).header("mcp-protocol-version", "1900-01-01");
    assert_eq!(said(old).await.status, 400);
    let bare = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let bare = web
        .request(Method::POST)
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/list")
        .body(bare);
    assert_eq!(of(&said(bare).await), status(400, -32602));
    assert_eq!(of(&said(web.request(Method::POST).body("{")).await), status(400, -32700));
    assert_eq!(of(&said(web.request(Method::POST).body("{}")).await), status(400, -32600));
    let plain = web.client.post(&web.url).header("content-type", "text/plain").body("{}");
    assert_eq!(said(plain).await.status, 415);
    let huge = web.request(Method::POST).body(format!("\"{}\"", "x".repeat(5 << 20)));
    assert_eq!(said(huge).await.status, 413);
    for method in [Method::GET, Method::DELETE, Method::PUT] {
        assert_eq!(said(web.request(method)).await.status, 405);
    }
}

#[tokio::test]
async fn pages_of_other_origins_and_other_names_are_turned_away() {
    let web = Web::to(&Desk::new()).await;
    let list = || web.modern("tools/list", json!({}));
    assert_eq!(said(list().header("origin", "https://evil.example")).await.status, 403);
    assert_eq!(said(list().header("host", "evil.example")).await.status, 403);
    assert_eq!(said(list().header("origin", "http://localhost:9")).await.status, 200);
}

#[tokio::test]
async fn progress_comes_before_the_answer_in_one_stream() {
    let web = Web::to(&Desk::new()).await;
    let params = json!({"name": "count", "_meta": {"progressToken": 5}});
    let mut events = Events::of(web.modern("tools/call", params)).await;
    for number in 1..=3 {
        let told = events.next().await.unwrap();
        assert_eq!(told["params"]["progress"].as_f64(), Some(f64::from(number)), "{told}");
    }
    assert_eq!(events.next().await.unwrap()["result"]["content"][0]["text"], "counted");
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn a_closed_stream_cancels_the_call() {
    let desk = Desk::new();
    let web = Web::to(&desk).await;
    let events = Events::of(web.modern("tools/call", json!({"name": "sleep"}))).await;
    assert_eq!(desk.cancelled.load(Ordering::SeqCst), 0);
    drop(events);
    eventually("the call was cancelled", || desk.cancelled.load(Ordering::SeqCst) == 1).await;
    // Before anything of the answer was there, too.
    let early = web.modern("tools/call", json!({"name": "sleep"})).send();
    assert!(tokio::time::timeout(Duration::from_millis(200), early).await.is_err());
    eventually("the call was cancelled", || desk.cancelled.load(Ordering::SeqCst) == 2).await;
}

#[tokio::test]
async fn a_session_begins_asks_listens_and_ends() {
    let desk = Desk::new();
    let web = Web::to(&desk).await;
    let session = web.initialize().await;
    assert_ne!(session, web.initialize().await);

    let call =
        json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "ask"}});
    let mut events = Events::of(web.legacy(&session, &call)).await;
    let asked = events.next().await.unwrap();
    assert_eq!(asked["method"], "elicitation/create");
    let reply = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}});
    // The answer of another session answers nothing.
    let other = web.initialize().await;
    assert_eq!(said(web.legacy(&other, &reply)).await.status, 202);
    assert_eq!(said(web.legacy(&session, &reply)).await.status, 202);
    assert_eq!(events.next().await.unwrap()["result"]["content"][0]["text"], "decline");

    let listen = || web.request(Method::GET).header("mcp-session-id", &session);
    let mut own = Events::of(listen()).await;
    assert_eq!(said(listen()).await.status, 409);
    desk.changes.send_modify(|count| *count += 1);
    assert_eq!(own.next().await.unwrap()["method"], "notifications/tools/list_changed");

    let sleep =
        json!({"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": {"name": "sleep"}});
    let mut sleeping = Events::of(web.legacy(&session, &sleep)).await;
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 8}});
    // Only the session's own call is cancelled.
    assert_eq!(said(web.legacy(&other, &cancel)).await.status, 202);
    assert_eq!(desk.cancelled.load(Ordering::SeqCst), 0);
    assert_eq!(said(web.legacy(&session, &cancel)).await.status, 202);
    assert!(sleeping.next().await.is_none());

    let end = web.request(Method::DELETE).header("mcp-session-id", &session);
    assert_eq!(said(end).await.status, 202);
    assert!(own.next().await.is_none());
    let ping = json!({"jsonrpc": "2.0", "id": 9, "method": "ping"});
    assert_eq!(said(web.legacy(&session, &ping)).await.status, 404);
    assert_eq!(said(web.legacy(&other, &ping)).await.body["result"], json!({}));
    let wrong = web
        .request(Method::POST)
        .header("mcp-session-id", &other)
        .header("mcp-protocol-version", "1.0")
        .body(ping.to_string());
    assert_eq!(said(wrong).await.status, 400);
}

#[tokio::test]
async fn listening_goes_on_until_it_is_closed() {
    let desk = Desk::new();
    let web = Web::to(&desk).await;
    let params = json!({"notifications": {"toolsListChanged": true}});
    let mut events = Events::of(web.modern("subscriptions/listen", params)).await;
    let accepted = events.next().await.unwrap();
    assert_eq!(accepted["method"], "notifications/subscriptions/acknowledged");
    for _ in 0..2 {
        desk.changes.send_modify(|count| *count += 1);
        assert_eq!(events.next().await.unwrap()["method"], "notifications/tools/list_changed");
    }
}

//! rmcp, an independent implementation, as the server: both transports, every revision.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp::{Client, Endpoint, Error};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ProtocolVersion, ServerCapabilities,
    ServerConfig, SubscriptionFilter, Tool,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::support::{Connected, call, connect, drain, eventually};

const EVERY: &[ProtocolVersion] = ProtocolVersion::KNOWN_VERSIONS;

/// A server in which one tool adds another.
#[derive(Clone)]
struct Peer {
    versions: &'static [ProtocolVersion],
    is_grown: watch::Sender<bool>,
    started: Arc<Notify>,
    cancelled: Arc<AtomicBool>,
}

impl Peer {
    fn new(versions: &'static [ProtocolVersion]) -> Self {
        Self {
            versions,
            is_grown: watch::Sender::new(false),
            started: Arc::default(),
            cancelled: Arc::default(),
        }
    }
}

/// Says that a call ended, however that came.
struct Ended(Arc<AtomicBool>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
        eprintln!("a call ended");
    }
}

fn tools() -> Value {
    json!([
        {"name": "echo", "description": "Echoes.", "inputSchema": {"type": "object"},
         "annotations": {"readOnlyHint": true}},
        {"name": "grow", "inputSchema": {"type": "object"}},
        {"name": "steps", "inputSchema": {"type": "object"}},
        {"name": "wait", "inputSchema": {"type": "object"}},
        {"name": "größe ", "inputSchema": {"type": "object"}},
        {"name": "deploy", "inputSchema": {"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "where": {"type": "object", "properties": {
                "zone": {"type": "integer", "x-mcp-header": "Zone"}}}}}},
    ])
}

fn result(value: Value) -> CallToolResponse {
    serde_json::from_value::<CallToolResult>(value).unwrap().into()
}

impl ServerHandler for Peer {
    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(self.versions)
    }

    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(
            ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build(),
        )
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let tools: Vec<Tool> = serde_json::from_value(tools()).unwrap();
        tools.into_iter().find(|tool| tool.name == name)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let all = tools();
        let all = all.as_array().unwrap();
        // Two pages, so that the cursor is needed.
        let page = match request.and_then(|request| request.cursor) {
            None => json!({"tools": all[..3], "nextCursor": "second page"}),
            Some(cursor) if cursor == "second page" => {
                let mut rest = all[3..].to_vec();
                if *self.is_grown.borrow() {
                    rest.push(json!({"name": "new", "inputSchema": {"type": "object"}}));
                }
                json!({"tools": rest})
            }
            Some(_) => return Err(ErrorData::invalid_params("no such cursor", None)),
        };
        Ok(serde_json::from_value(page).unwrap())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::from(request.arguments.unwrap_or_default());
        match request.name.as_ref() {
            "steps" => {
                let token = context.meta.get_progress_token();
                if let Some(token) = token.clone() {
                    for step in 1..=3 {
                        let progress =
                            ProgressNotificationParam::new(token.clone(), f64::from(step));
                        context.peer.notify_progress(progress).await.unwrap();
                    }
                }
                let words = format!("token: {}", token.is_some());
                Ok(result(json!({"content": [{"type": "text", "text": words}]})))
            }
            "grow" => {
                self.is_grown.send_replace(true);
                if context.protocol_version() != Some(ProtocolVersion::V_2026_07_28) {
                    context.peer.notify_tool_list_changed().await.unwrap();
                }
                Ok(result(json!({"content": [{"type": "text", "text": "grown"}]})))
            }
            "wait" => {
                // rmcp may drop this future when the call is cancelled.
                let _ended = Ended(Arc::clone(&self.cancelled));
                self.started.notify_one();
                context.ct.cancelled().await;
                Ok(result(json!({"content": []})))
            }
            "echo" | "deploy" | "größe " => Ok(result(json!({
                "content": [
                    {"type": "text", "text": request.name},
                    {"type": "resource_link", "uri": "file:///a", "name": "a"},
                ],
                "structuredContent": arguments,
            }))),
            _ => Err(ErrorData::invalid_params("no such tool", None)),
        }
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut is_grown = self.is_grown.subscribe();
        let grown = async { is_grown.wait_for(|is_grown| *is_grown).await.is_ok() };
        let is_grown = tokio::select! {
            () = context.cancelled() => false,
            is_grown = grown => is_grown,
        };
        if is_grown {
            let _ = context.sink().notify_tool_list_changed().await;
            context.cancelled().await;
        }
        Ok(())
    }
}

/// An rmcp server over HTTP, with what arrived at it.
struct Served {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
    stop: CancellationToken,
}

async fn serve(peer: Peer, sessions: bool, json: bool) -> Served {
    let stop = CancellationToken::new();
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(sessions)
        .with_json_response(json)
        // How soon the server sees that a stream was closed.
        .with_sse_keep_alive(Some(Duration::from_millis(100)))
        .with_cancellation_token(stop.child_token());
    let service: StreamableHttpService<Peer, LocalSessionManager> =
        StreamableHttpService::new(move || Ok(peer.clone()), Arc::default(), config);
    let requests = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&requests);
    let record = move |request: axum::extract::Request, next: axum::middleware::Next| {
        let header = |name| request.headers().get(name).map_or("", |v| v.to_str().unwrap_or("?"));
        log.lock().unwrap().push(format!(
            "{} {} version={} name={} session={} key={}",
            request.method(),
            header("mcp-method"),
            header("mcp-protocol-version"),
            header("mcp-name"),
            !header("mcp-session-id").is_empty(),
            header("x-key"),
        ));
        next.run(request)
    };
    let router =
        axum::Router::new().nest_service("/mcp", service).layer(axum::middleware::from_fn(record));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let until = stop.clone();
    tokio::spawn(async move {
        let serving = axum::serve(listener, router);
        tokio::select! {
            _ = serving => {}
            () = until.cancelled_owned() => {}
        }
    });
    Served { url, requests, stop }
}

impl Served {
    fn endpoint(&self) -> Endpoint {
        let headers = BTreeMap::from([("X-Key".to_owned(), "very-secret-value".to_owned())]);
        Endpoint::Http {
            url: self.url.clone(),
            headers,
            login: None,
            secrets: mcp::Secrets::default(),
        }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// What every server must be able to do with us.
async fn exercise(server: &mut Connected) {
    let names = server.names().await;
    assert_eq!(names, ["echo", "grow", "steps", "wait", "größe ", "deploy"]);
    let arguments = json!({"region": " Zürich", "where": {"zone": 7}, "b": [1, {"a": null}]});
    for name in ["echo", "größe ", "deploy"] {
        let result = server.call(name, arguments.clone()).await.unwrap();
        assert_eq!(result.text, name);
        assert!(result.has_media);
        let structured: Value = serde_json::from_str(result.structured.unwrap().get()).unwrap();
        assert_eq!(structured, arguments);
    }
    let error = server.call("nothing", json!({})).await.unwrap_err();
    assert!(matches!(error, Error::Rpc { code: -32602, .. }), "{error}");

    assert_eq!(server.call("steps", json!({})).await.unwrap().text, "token: false");
    let (sender, progress) = mpsc::unbounded_channel();
    let mut steps = call("steps", json!({}));
    steps.progress = Some(sender);
    assert_eq!(server.client.call_tool(steps).await.unwrap().text, "token: true");
    // rmcp may let the answer overtake the last notifications.
    assert!(!drain(progress).is_empty());

    assert_eq!(server.call("grow", json!({})).await.unwrap().text, "grown");
    server.tools_changed().await;
    assert!(server.names().await.contains(&"new".to_owned()));
}

async fn cancel(peer: &Peer, client: &Client) {
    peer.cancelled.store(false, Ordering::SeqCst);
    let waiting = call("wait", json!({}));
    let token = waiting.cancel.clone();
    let (outcome, ()) = tokio::join!(client.call_tool(waiting), async {
        peer.started.notified().await;
        token.cancel();
    });
    assert!(matches!(outcome, Err(Error::Cancelled)), "{outcome:?}");
    eventually("the server saw the cancel", || peer.cancelled.load(Ordering::SeqCst)).await;
}

#[tokio::test]
async fn the_new_era_over_http() {
    for json in [false, true] {
        let peer = Peer::new(EVERY);
        let served = serve(peer.clone(), true, json).await;
        let mut server = connect(&served.endpoint()).await.unwrap();
        assert_eq!(server.client.info().revision.0, "2026-07-28");
        exercise(&mut server).await;
        cancel(&peer, &server.client).await;
        server.client.close().await;
        let requests = served.requests();
        assert!(requests.iter().all(|request| request.starts_with("POST ")), "{requests:?}");
        assert!(requests.iter().all(|request| request.contains("version=2026-07-28")));
        assert!(requests.iter().all(|request| request.ends_with("key=very-secret-value")));
        assert!(requests.iter().any(|request| request.contains("name==?base64?")));
    }
}

#[tokio::test]
async fn the_older_revisions_over_http() {
    let one: [&'static [ProtocolVersion]; 3] = [
        &[ProtocolVersion::V_2025_11_25],
        &[ProtocolVersion::V_2025_06_18],
        &[ProtocolVersion::V_2025_03_26],
    ];
    for versions in one {
        let peer = Peer::new(versions);
        let served = serve(peer.clone(), true, false).await;
        let mut server = connect(&served.endpoint()).await.unwrap();
        assert_eq!(server.client.info().revision.0, versions[0].as_str());
        exercise(&mut server).await;
        cancel(&peer, &server.client).await;
        server.client.close().await;
        let requests = served.requests();
        assert!(requests.iter().any(|request| request.starts_with("GET ")), "{requests:?}");
        let last = requests.last().unwrap();
        assert!(last.starts_with("DELETE ") && last.contains("session=true"), "{last}");
    }
}

#[tokio::test]
async fn an_older_server_without_sessions() {
    let served = serve(Peer::new(&[ProtocolVersion::V_2025_06_18]), false, true).await;
    let server = connect(&served.endpoint()).await.unwrap();
    assert_eq!(server.client.info().revision.0, "2025-06-18");
    assert_eq!(server.names().await.len(), 6);
    assert_eq!(server.call("echo", json!({})).await.unwrap().text, "echo");
    server.client.close().await;
}

#[tokio::test]
async fn a_session_that_the_server_forgot_ends_the_connection_before_the_call() {
    let versions: &'static [ProtocolVersion] = &[ProtocolVersion::V_2025_11_25];
    let served = serve(Peer::new(versions), true, false).await;
    let server = connect(&served.endpoint()).await.unwrap();
    let address = served.url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    served.stop.cancel();
    // A restarted server at the same address, which knows nothing of the session.
    let service: StreamableHttpService<Peer, LocalSessionManager> = StreamableHttpService::new(
        move || Ok(Peer::new(versions)),
        Arc::default(),
        StreamableHttpServerConfig::default(),
    );
    let mut listener = tokio::net::TcpListener::bind(&address).await;
    for _ in 0..100 {
        if listener.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        listener = tokio::net::TcpListener::bind(&address).await;
    }
    let router = axum::Router::new().nest_service("/mcp", service);
    let listener = listener.unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });

    let outcome = server.call("echo", json!({})).await;
    assert!(matches!(outcome, Err(Error::Connect(_) | Error::Lost(_))), "{outcome:?}");
    let reason = tokio::time::timeout(crate::support::SOON, server.client.closed()).await.unwrap();
    assert!(!reason.is_empty() && !reason.contains("very-secret"), "{reason}");
    let (events, _received) = mpsc::unbounded_channel();
    let again = server.client.reconnect(crate::support::SOON, events).await.unwrap();
    assert_eq!(again.list_tools().await.unwrap().len(), 6);
    again.close().await;
}

/// Runs as a child of the tests below: this binary itself is the server's program.
#[test]
#[ignore = "a server, started by the other tests"]
fn serve_over_stdio() {
    let Ok(mode) = std::env::var("PINFOLD_TEST_PEER") else { return };
    let versions: &'static [ProtocolVersion] =
        if mode == "legacy" { &[ProtocolVersion::V_2025_11_25] } else { EVERY };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let peer = Peer::new(versions);
        let service = peer.serve(rmcp::transport::stdio()).await.unwrap();
        let _ = service.waiting().await;
    });
    std::process::exit(0);
}

#[tokio::test]
async fn both_eras_over_stdio() {
    for (mode, revision) in [("every", "2026-07-28"), ("legacy", "2025-11-25")] {
        let endpoint = Endpoint::Stdio {
            command: std::env::current_exe().unwrap().to_str().unwrap().to_owned(),
            // The test harness writes its own lines to stdout: noise.
            args: [
                "peer::serve_over_stdio",
                "--exact",
                "--ignored",
                "--nocapture",
                "--test-threads=2",
            ]
            .map(ToOwned::to_owned)
            .to_vec(),
            env: BTreeMap::from([("PINFOLD_TEST_PEER".to_owned(), mode.to_owned())]),
            cwd: None,
            secrets: mcp::Secrets::default(),
        };
        let mut server = connect(&endpoint).await.unwrap();
        assert_eq!(server.client.info().revision.0, revision);
        exercise(&mut server).await;
        let mut waiting = call("wait", json!({}));
        waiting.timeout = Duration::from_millis(300);
        let outcome = server.client.call_tool(waiting).await;
        assert!(matches!(outcome, Err(Error::Timeout { .. })), "{outcome:?}");
        assert_eq!(server.call("echo", json!({})).await.unwrap().text, "echo");
        let mut log = Vec::new();
        eventually("the server saw the cancel", || {
            log.append(&mut server.log());
            log.iter().any(|line| line == "stderr: a call ended")
        })
        .await;
        server.client.close().await;
    }
}

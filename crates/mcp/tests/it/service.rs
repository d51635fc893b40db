//! A service for tests: one tool for each thing that a call can do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use mcp::Progress;
use mcp::server::{
    About, Answer, Call, Caller, Endpoint, Gate, Given, Question, Refusal, Reply, Seal, Service,
    Shape, Tools, serve,
};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use tokio::io::DuplexStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// What the tools did.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) changes: watch::Sender<u64>,
    pub(crate) cancelled: AtomicUsize,
    /// How long a question can be answered.
    pub(crate) lasts: Duration,
}

impl Desk {
    pub(crate) fn new() -> Arc<Self> {
        Self::with_questions_of(Duration::from_secs(60))
    }

    pub(crate) fn with_questions_of(lasts: Duration) -> Arc<Self> {
        Arc::new(Self { changes: watch::Sender::new(0), cancelled: AtomicUsize::new(0), lasts })
    }

    /// Serves over HTTP on a free port; the address.
    pub(crate) async fn open_http(self: &Arc<Self>) -> String {
        let seal = Seal::with_key([7; 32]);
        let endpoint =
            Endpoint::new(Arc::clone(self), seal, Gate::Loopback, CancellationToken::new());
        let endpoint = Arc::new(endpoint);
        let handle = move |request: Request<Body>| {
            let endpoint = Arc::clone(&endpoint);
            async move { endpoint.handle(request).await }
        };
        let router = axum::Router::new().route("/mcp", axum::routing::any(handle));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        format!("http://{address}/mcp")
    }

    /// Serves one client; the other end of the line and the server's end.
    pub(crate) fn open(self: &Arc<Self>) -> (DuplexStream, JoinHandle<std::io::Result<()>>) {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (input, output) = tokio::io::split(theirs);
        let seal = Seal::with_key([7; 32]);
        let serving = serve(Arc::clone(self), seal, input, output, CancellationToken::new());
        (ours, tokio::spawn(serving))
    }
}

/// Says that a call ended, however that came.
struct Ended<'a>(&'a Desk);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.cancelled.fetch_add(1, Ordering::SeqCst);
    }
}

/// A definition with everything in it that has to come through.
pub(crate) const DEFINITION: &str = r#"{"name":"echo","zeta":{"b":1,"a":[2.50]},"inputSchema":{"type":"object"},"icons":[{"src":"data:,x"}],"annotations":{"readOnlyHint":true,"odd":1},"_meta":{"x/y":true}}"#;

fn raw(json: &str) -> Arc<RawValue> {
    Arc::from(RawValue::from_string(json.to_owned()).unwrap())
}

#[async_trait::async_trait]
impl Service for Desk {
    fn about(&self) -> About {
        About {
            name: "desk".to_owned(),
            title: "Desk".to_owned(),
            version: "1".to_owned(),
            instructions: "Ask.".to_owned(),
        }
    }

    fn principal(&self) -> &str {
        "tester"
    }

    async fn tools(&self, _caller: &Caller) -> Result<Tools, Refusal> {
        let more = *self.changes.borrow();
        let mut definitions = vec![raw(DEFINITION)];
        for name in ["ask", "count", "raw", "sleep"] {
            definitions
                .push(raw(&format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#)));
        }
        for number in 0..more {
            let name = format!("more{number}");
            definitions
                .push(raw(&format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#)));
        }
        Ok(Tools { definitions, fresh: Duration::from_secs(9) })
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    async fn call(&self, caller: &Caller, call: Call) -> Result<Answer, Refusal> {
        match call.name.as_str() {
            "echo" => Ok(Answer::text(call.arguments.get(), false)),
            // Its argument is the result.
            "raw" => Ok(Answer::Result(call.arguments.into())),
            "sleep" => {
                let _ended = Ended(self);
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_secs(100)) => {}
                    () = call.cancel.cancelled() => {}
                }
                Ok(Answer::text("slept", false))
            }
            "count" => {
                for number in 1..=3_u32 {
                    if let Some(progress) = &call.progress {
                        let message = Some(format!("{number} of 3"));
                        let one = Progress { progress: number.into(), total: Some(3.0), message };
                        progress.send(one).unwrap();
                    }
                    tokio::time::sleep(Duration::from_millis(250)).await;
                }
                Ok(Answer::text("counted", false))
            }
            "ask" => Ok(match call.given {
                Some(Given { state, reply }) => {
                    assert_eq!(state, "the state");
                    let said = match reply {
                        Reply::Accept(content) => format!("accept {}", content.unwrap().get()),
                        Reply::Decline => "decline".to_owned(),
                        Reply::Cancel => "cancel".to_owned(),
                    };
                    Answer::text(&said, false)
                }
                None if !caller.asks => Answer::text("nobody can be asked", true),
                None => Answer::Ask(Question {
                    message: "May I?".to_owned(),
                    shape: Shape::Form(
                        to_raw_value(&json!({
                            "type": "object",
                            "properties": {"decision": {"type": "string", "enum": ["yes", "no"]}},
                            "required": ["decision"],
                        }))
                        .unwrap(),
                    ),
                    state: "the state".to_owned(),
                    lasts: self.lasts,
                }),
            }),
            other => Err(Refusal::invalid(format!("there is no tool {other}"))),
        }
    }

    async fn answered_elsewhere(&self, _state: &str) {
        std::future::pending().await
    }
}

//! A published server of the new era over HTTP, and one of the older era.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use mcp::Error;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use crate::support::{call, connect, drain, eventually, http, installed};

/// A server process that ends with the test.
struct Served {
    child: Child,
    url: String,
}

async fn fastmcp() -> Option<Served> {
    let python = installed("venv/bin/python")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/fastmcp_server.py");
    let mut child = Command::new(python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let port = tokio::time::timeout(Duration::from_secs(60), lines.next_line()).await;
    let port = port.unwrap().unwrap().unwrap();
    Some(Served { child, url: format!("http://127.0.0.1:{port}/mcp") })
}

#[tokio::test]
async fn fastmcp_answers_in_the_new_era() {
    let Some(served) = fastmcp().await else { return };
    let server = connect(&http(&served.url)).await.unwrap();
    let info = server.client.info();
    assert_eq!(info.revision.0, "2026-07-28");
    assert_eq!(info.instructions.as_deref(), Some("for tests"));
    let tools = server.client.list_tools().await.unwrap();
    let add = tools.iter().find(|tool| tool.name == "add").unwrap();
    assert_eq!(add.annotations.read_only, Some(true));

    let sum = server.call("add", json!({"a": 2, "b": 3})).await.unwrap();
    assert_eq!(sum.text, "5");
    let row = server.call("row", json!({"name": "grün"})).await.unwrap();
    let structured: serde_json::Value =
        serde_json::from_str(row.structured.unwrap().get()).unwrap();
    assert_eq!(structured, json!({"z": 1, "name": "grün", "a": [1, 2]}));
    let failed = server.call("fail", json!({})).await.unwrap();
    assert!(failed.is_error && failed.text.contains("on purpose"), "{failed:?}");
    let picture = server.call("picture", json!({})).await.unwrap();
    assert_eq!((picture.text.as_str(), picture.has_media), ("a dot", true));
    let unknown = server.call("nothing", json!({})).await;
    assert!(unknown.is_err() || unknown.unwrap().is_error);
    server.client.close().await;
}

#[tokio::test]
async fn fastmcp_streams_progress_and_sees_a_cancel() {
    let Some(mut served) = fastmcp().await else { return };
    let server = connect(&http(&served.url)).await.unwrap();
    let (sender, progress) = mpsc::unbounded_channel();
    let mut steps = call("steps", json!({"count": 5}));
    steps.progress = Some(sender);
    assert_eq!(server.client.call_tool(steps).await.unwrap().text, "done");
    let progress = drain(progress);
    assert_eq!(progress.len(), 5, "{progress:?}");
    assert_eq!(progress[4].message.as_deref(), Some("step 5"));

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ended");
    let sleep = call("sleep", json!({"path": path, "seconds": 15}));
    let cancel = sleep.cancel.clone();
    let (outcome, ()) = tokio::join!(server.client.call_tool(sleep), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        cancel.cancel();
    });
    assert!(matches!(outcome, Err(Error::Cancelled)), "{outcome:?}");
    eventually("the server saw the cancel", || path.exists()).await;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "cancelled");

    let waiting = call("sleep", json!({"path": path, "seconds": 15}));
    let (outcome, _) = tokio::join!(server.client.call_tool(waiting), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        served.child.kill().await
    });
    assert!(matches!(outcome, Err(Error::Lost(_))), "{outcome:?}");
    let reason = tokio::time::timeout(crate::support::SOON, server.client.closed()).await.unwrap();
    assert!(reason.contains("broke"), "{reason}");
    let later = server.call("add", json!({"a": 1, "b": 1})).await;
    assert!(matches!(later, Err(Error::Connect(_))), "{later:?}");
}

#[tokio::test]
async fn everything_over_http_has_a_session() {
    let Some(script) =
        installed("node_modules/@modelcontextprotocol/server-everything/dist/index.js")
    else {
        return;
    };
    // It takes the port from a variable and does not say which it got.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut child = Command::new("node")
        .arg(script)
        .arg("streamableHttp")
        .env("PORT", port.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let listening = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains(&port.to_string()) {
                return;
            }
        }
    };
    tokio::time::timeout(crate::support::SOON, listening).await.unwrap();
    let reader =
        tokio::spawn(async move { while lines.next_line().await.is_ok_and(|l| l.is_some()) {} });

    let server = connect(&http(&format!("http://127.0.0.1:{port}/mcp"))).await.unwrap();
    assert_eq!(server.client.info().revision.0, "2025-11-25");
    assert!(server.names().await.contains(&"echo".to_owned()));
    let echo = server.call("echo", json!({"message": "über"})).await.unwrap();
    assert_eq!(echo.text, "Echo: über");
    let (sender, progress) = mpsc::unbounded_channel();
    let mut long = call("trigger-long-running-operation", json!({"duration": 1, "steps": 4}));
    long.progress = Some(sender);
    assert!(!server.client.call_tool(long).await.unwrap().is_error);
    assert_eq!(drain(progress).len(), 4);
    server.client.close().await;
    assert!(matches!(server.call("echo", json!({"message": "a"})).await, Err(Error::Connect(_))));
    reader.abort();
}

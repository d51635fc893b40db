//! Published servers over stdio: two of the older era, two of the new one.

use std::process::Command;
use std::time::Duration;

use mcp::TaskSupport;
use serde_json::json;
use tokio::sync::mpsc;

use crate::support::{call, connect, drain, installed, stdio};

const EVERYTHING: &str = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
const FILESYSTEM: &str = "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js";

#[tokio::test]
async fn everything_is_listed_with_its_raw_facts() {
    let Some(script) = installed(EVERYTHING) else { return };
    let server = connect(&stdio("node", &[script.to_str().unwrap()])).await.unwrap();
    assert_eq!(server.client.info().revision.0, "2025-11-25");
    let tools = server.client.list_tools().await.unwrap();
    let echo = tools.iter().find(|tool| tool.name == "echo").unwrap();
    assert_eq!(echo.annotations.read_only, Some(true));
    assert!(echo.raw.get().contains(r#""execution":{"taskSupport":"forbidden"}"#));
    assert!(tools.iter().any(|tool| tool.task_support == TaskSupport::Required));
    server.client.close().await;
}

#[tokio::test]
async fn everything_answers_in_every_kind_of_content() {
    let Some(script) = installed(EVERYTHING) else { return };
    let server = connect(&stdio("node", &[script.to_str().unwrap()])).await.unwrap();
    let echo = server.call("echo", json!({"message": "grüße"})).await.unwrap();
    assert_eq!(echo.text, "Echo: grüße");
    assert!(!echo.has_media && !echo.is_error && echo.structured.is_none());

    let image = server.call("get-tiny-image", json!({})).await.unwrap();
    assert!(image.has_media && image.content.get().contains(r#""type":"image""#));

    let links = server.call("get-resource-links", json!({"count": 3})).await.unwrap();
    assert_eq!(links.content.get().matches(r#""type":"resource_link""#).count(), 3);

    let weather = server.call("get-structured-content", json!({"location": "Chicago"}));
    let weather = weather.await.unwrap();
    let structured: serde_json::Value =
        serde_json::from_str(weather.structured.unwrap().get()).unwrap();
    assert!(structured["temperature"].is_number(), "{structured}");

    let wrong = server.call("get-sum", json!({"a": "x"})).await.unwrap();
    assert!(wrong.is_error, "{wrong:?}");
    let unknown = server.call("no-such-tool", json!({})).await;
    assert!(unknown.is_err() || unknown.unwrap().is_error);
    server.client.close().await;
}

#[tokio::test]
async fn everything_reports_progress_only_when_asked() {
    let Some(script) = installed(EVERYTHING) else { return };
    let mut server = connect(&stdio("node", &[script.to_str().unwrap()])).await.unwrap();
    let (sender, progress) = mpsc::unbounded_channel();
    let mut long = call("trigger-long-running-operation", json!({"duration": 4, "steps": 4}));
    // Shorter than the call: each step starts it anew.
    long.timeout = Duration::from_millis(3_000);
    long.progress = Some(sender);
    let result = server.client.call_tool(long).await.unwrap();
    assert!(!result.is_error, "{}", result.text);
    let progress = drain(progress);
    assert_eq!(progress.len(), 4, "{progress:?}");
    assert_eq!(progress[3].total, Some(4.0));

    let mut silent = call("trigger-long-running-operation", json!({"duration": 5, "steps": 5}));
    silent.timeout = Duration::from_millis(500);
    let error = server.client.call_tool(silent).await.unwrap_err();
    assert!(matches!(error, mcp::Error::Timeout(_)), "{error}");
    // The connection is none the worse.
    assert_eq!(server.call("echo", json!({"message": "a"})).await.unwrap().text, "Echo: a");
    server.client.close().await;
    assert!(server.log().iter().any(|line| line.starts_with("stderr: ")));
}

#[tokio::test]
async fn filesystem_reads_and_writes_within_its_directory() {
    let Some(script) = installed(FILESYSTEM) else { return };
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let endpoint = stdio("node", &[script.to_str().unwrap(), root.to_str().unwrap()]);
    let server = connect(&endpoint).await.unwrap();
    let file = root.join("a.txt");
    let written = server.call("write_file", json!({"path": file, "content": "one\ntwo"}));
    assert!(!written.await.unwrap().is_error);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\ntwo");
    let read = server.call("read_text_file", json!({"path": file})).await.unwrap();
    assert_eq!(read.text, "one\ntwo");
    let outside = server.call("read_text_file", json!({"path": "/etc/hostname"})).await.unwrap();
    assert!(outside.is_error);
    server.client.close().await;
}

#[tokio::test]
async fn git_and_time_speak_the_new_era() {
    let (Some(git), Some(time)) =
        (installed("venv/bin/mcp-server-git"), installed("venv/bin/mcp-server-time"))
    else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let repository = directory.path().to_str().unwrap();
    let made = Command::new("git").args(["init", "-q", repository]).status();
    if !made.is_ok_and(|status| status.success()) {
        return crate::support::skip("git is not installed");
    }
    let server = connect(&stdio(git, &[])).await.unwrap();
    assert_eq!(server.client.info().revision.0, "2026-07-28");
    assert!(server.names().await.contains(&"git_status".to_owned()));
    let status = server.call("git_status", json!({"repo_path": repository})).await.unwrap();
    assert!(status.text.contains("No commits yet"), "{}", status.text);
    let wrong = server.call("git_status", json!({"repo_path": "/nowhere"})).await.unwrap();
    assert!(wrong.is_error);
    server.client.close().await;

    let server = connect(&stdio(time, &[])).await.unwrap();
    assert_eq!(server.client.info().revision.0, "2026-07-28");
    let now = server.call("get_current_time", json!({"timezone": "Asia/Tokyo"})).await.unwrap();
    assert!(now.text.contains("Asia/Tokyo"), "{}", now.text);
    server.client.close().await;
}

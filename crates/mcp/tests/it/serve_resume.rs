//! Streams of older clients' sessions whose connection breaks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use crate::service::Desk;
use crate::support::{SOON, eventually};

/// One session of a client that is cut off again and again.
struct Session {
    client: Client,
    url: String,
    name: String,
}

/// An event as it was sent.
#[derive(Debug, Default, PartialEq)]
struct Event {
    id: Option<String>,
    retry: Option<String>,
    /// `None` where there is nothing in it.
    data: Option<Value>,
}

struct Stream {
    answer: Response,
    rest: String,
}

impl Session {
    async fn begin(desk: &Arc<Desk>, version: &str) -> Self {
        let client = Client::builder().no_proxy().timeout(SOON).build().unwrap();
        let mut session = Self { client, url: desk.open_http().await, name: String::new() };
        let params = json!({"protocolVersion": version, "capabilities": {}});
        let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let answer = session.post(&message).send().await.unwrap();
        session.name = answer.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(session.post(&ready).send().await.unwrap().status(), 202);
        session
    }

    fn post(&self, message: &Value) -> RequestBuilder {
        let request = self.client.request(Method::POST, &self.url).body(message.to_string());
        let request = request.header("content-type", "application/json");
        if self.name.is_empty() { request } else { request.header("mcp-session-id", &self.name) }
    }

    fn call(&self, tool: &str) -> RequestBuilder {
        let params = json!({"name": tool, "_meta": {"progressToken": 1}});
        self.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}))
    }

    fn get(&self, last: Option<&str>) -> RequestBuilder {
        let request = self.client.get(&self.url).header("mcp-session-id", &self.name);
        match last {
            Some(last) => request.header("last-event-id", last),
            None => request,
        }
    }
}

impl Stream {
    async fn of(request: RequestBuilder) -> Self {
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Self { answer, rest: String::new() }
    }

    /// The next event that is not only a comment.
    async fn next(&mut self) -> Option<Event> {
        loop {
            while let Some((lines, rest)) = self.rest.split_once("\n\n") {
                let mut event = Event::default();
                for line in lines.lines() {
                    match line.split_once(':').map(|(name, value)| (name, value.trim())) {
                        Some(("id", id)) => event.id = Some(id.to_owned()),
                        Some(("retry", retry)) => event.retry = Some(retry.to_owned()),
                        Some(("data", "")) | Some(("", _)) => {}
                        Some(("data", data)) => event.data = serde_json::from_str(data).unwrap(),
                        other => assert_eq!(other, Some(("event", "message"))),
                    }
                }
                self.rest = rest.to_owned();
                if event != Event::default() {
                    return Some(event);
                }
            }
            let chunk = self.answer.chunk().await.unwrap()?;
            self.rest.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }
}

fn text(event: &Event) -> Option<&str> {
    event.data.as_ref()?["result"]["content"][0]["text"].as_str()
}

#[tokio::test]
async fn an_answer_is_fetched_after_the_connection_broke() {
    for version in ["2025-11-25", "2025-06-18", "2025-03-26"] {
        let desk = Desk::new();
        let session = Session::begin(&desk, version).await;
        let mut stream = Stream::of(session.call("count")).await;
        let start = stream.next().await.unwrap();
        // Only clients of the newest of these revisions take an event without data.
        assert_eq!(start.id.is_some(), version == "2025-11-25", "{start:?}");
        assert!(start.retry.is_some() && start.data.is_none(), "{start:?}");
        let first = stream.next().await.unwrap();
        assert_eq!(first.data.as_ref().unwrap()["method"], "notifications/progress");
        drop(stream);
        // Twice, as if the first answer to it had been lost as well.
        let mut ids = vec![first.id.clone()];
        for _ in 0..2 {
            let mut stream = Stream::of(session.get(first.id.as_deref())).await;
            let mut seen = Vec::new();
            while let Some(event) = stream.next().await {
                ids.push(event.id.clone());
                seen.push(event);
            }
            let numbers: Vec<_> = seen
                .iter()
                .filter_map(|one| one.data.as_ref()?["params"]["progress"].as_f64())
                .collect();
            assert_eq!(numbers, [2.0, 3.0], "{version}: {seen:#?}");
            assert_eq!(text(seen.last().unwrap()), Some("counted"));
        }
        assert_eq!(ids[1..4], ids[4..7], "the same events have the same ids");
        ids.truncate(4);
        ids.dedup();
        assert_eq!(ids.len(), 4, "each event has an id of its own: {ids:?}");
    }
}

#[tokio::test]
async fn a_broken_connection_is_no_cancellation_and_the_cancellation_still_is_one() {
    let desk = Desk::new();
    let session = Session::begin(&desk, "2025-11-25").await;
    let mut stream = Stream::of(session.call("sleep")).await;
    let start = stream.next().await.unwrap();
    drop(stream);
    let mut stream = Stream::of(session.get(start.id.as_deref())).await;
    assert_eq!(desk.cancelled.load(Ordering::SeqCst), 0);
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(session.post(&cancel).send().await.unwrap().status(), 202);
    // It says that it still runs now and then, and never answers.
    while let Some(event) = stream.next().await {
        assert_eq!(text(&event), None, "{event:?}");
    }
    eventually("the call was cancelled", || desk.cancelled.load(Ordering::SeqCst) == 1).await;
}

#[tokio::test]
async fn only_the_streams_own_later_events_of_the_own_session_are_told() {
    let desk = Desk::new();
    let session = Session::begin(&desk, "2025-11-25").await;
    let mut calls = Vec::new();
    for id in [1, 2] {
        let params =
            json!({"name": "count", "arguments": {"id": id}, "_meta": {"progressToken": id}});
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        let mut stream = Stream::of(session.post(&call)).await;
        calls.push((id, stream.next().await.unwrap().id.unwrap()));
    }
    for (id, last) in &calls {
        let mut stream = Stream::of(session.get(Some(last))).await;
        let mut answers = 0;
        while let Some(event) = stream.next().await {
            let data = event.data.unwrap();
            assert!(data["id"] == *id || data["params"]["progressToken"] == *id, "{data}");
            answers += usize::from(data["id"] == *id);
        }
        assert_eq!(answers, 1);
    }
    for wrong in ["a999-1", "a1-999", "x", "", "a1-1\u{e9}"] {
        let answer = session.get(Some(wrong)).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{wrong:?}");
    }
}

#[tokio::test]
async fn changes_that_came_while_nobody_listened_are_told() {
    let desk = Desk::new();
    let session = Session::begin(&desk, "2025-11-25").await;
    let changed = || desk.changes.send_modify(|count| *count += 1);
    let is_told = |event: Option<Event>| {
        let event = event.unwrap();
        assert_eq!(event.data.as_ref().unwrap()["method"], "notifications/tools/list_changed");
        event.id
    };
    let mut stream = Stream::of(session.get(None)).await;
    let start = stream.next().await.unwrap().id;
    assert_eq!(session.get(None).send().await.unwrap().status(), 409);
    drop(stream);
    changed();
    // With the id that was seen last, and without one, as a client does that begins anew.
    let mut stream = Stream::of(session.get(start.as_deref())).await;
    let last = is_told(stream.next().await);
    drop(stream);
    changed();
    let deadline = tokio::time::Instant::now() + SOON;
    let mut stream = loop {
        // That the connection is gone is found out a little later.
        let answer = session.get(None).send().await.unwrap();
        if answer.status() == 200 {
            break Stream { answer, rest: String::new() };
        }
        assert_eq!(answer.status(), 409);
        assert!(tokio::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    // What was told last may come again, because it may not have arrived.
    while is_told(stream.next().await) == last {}
    // What one of a stream that is not known any more has missed nobody knows; so it is told to look.
    drop(stream);
    let fresh = Session::begin(&desk, "2025-11-25").await;
    let mut stream = Stream::of(fresh.get(Some("o77-3"))).await;
    assert!(stream.next().await.unwrap().data.is_none());
    is_told(stream.next().await);
}

#[tokio::test]
async fn a_session_that_ends_ends_its_streams() {
    let desk = Desk::new();
    let session = Session::begin(&desk, "2025-11-25").await;
    let mut stream = Stream::of(session.call("sleep")).await;
    let start = stream.next().await.unwrap();
    drop(stream);
    let end = session.client.delete(&session.url).header("mcp-session-id", &session.name);
    assert_eq!(end.send().await.unwrap().status(), 202);
    eventually("the call was cancelled", || desk.cancelled.load(Ordering::SeqCst) == 1).await;
    assert_eq!(session.get(start.id.as_deref()).send().await.unwrap().status(), 404);
}

//! Keeps one server connected: connect, serve, and after an end again, ever less often.
//!
//! There is one supervisor for each server, so attempts to connect never overlap.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use mcp::{Client, Endpoint, Event, Tool};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::{ATTEMPTS_APART, Link, Shared};
use crate::sources::State;

/// Waits between attempts: the first and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A connection that held so long was a good one.
const GOOD: Duration = Duration::from_secs(60);

/// Changes that come so close together are one.
const COALESCE: Duration = Duration::from_millis(100);

/// The tools are listed again no more often than this, however often they are said to change.
const LISTS_APART: Duration = Duration::from_secs(1);

/// So long may the first list of what is offered besides tools hold them up.
const EXTRAS_TIME: Duration = Duration::from_secs(5);

/// Calls have the tools listed again no more often than this.
const DOUBTS_APART: Duration = Duration::from_secs(10);

/// A connection with its tools, ready to be used.
struct Up {
    client: Client,
    tools: Vec<Tool>,
    events: mpsc::UnboundedReceiver<Event>,
    /// So many changes were announced before they were listed.
    announced: u64,
    /// The tools changed while they were listed.
    is_stale: bool,
    /// What it offers besides tools is not all listed.
    lacks_extras: bool,
}

pub(super) async fn supervise(shared: Arc<Shared>, endpoint: Endpoint) {
    let mut pause = FIRST_PAUSE;
    let mut before: Option<Client> = None;
    loop {
        let up = tokio::select! {
            () = shared.closing.cancelled() => break,
            up = bring_up(&shared, &endpoint, before.as_ref()) => up,
        };
        let reason = match up {
            Ok(up) => {
                let client = up.client.clone();
                let since = Instant::now();
                let reason = tokio::select! {
                    () = shared.closing.cancelled() => None,
                    reason = serve(&shared, up) => Some(reason),
                };
                shared.link.send_modify(|link| link.client = None);
                let Some(reason) = reason else {
                    client.close().await;
                    break;
                };
                let ending = client.clone();
                tokio::spawn(async move { ending.close().await });
                before = Some(client);
                if since.elapsed() > GOOD {
                    pause = FIRST_PAUSE;
                }
                shared.publish(None, State::Down { reason: reason.clone() });
                reason
            }
            Err(reason) => {
                // The reason is there before those who wait for the attempt look for it.
                shared.publish(None, State::Down { reason: reason.clone() });
                shared.link.send_modify(|link| {
                    link.attempts += 1;
                    link.failed = Some(Instant::now());
                });
                reason
            }
        };
        tracing::warn!(server = shared.name, reason, "an MCP server is down");
        tokio::select! {
            () = shared.closing.cancelled() => break,
            () = tokio::time::sleep(jittered(pause)) => {}
            () = woken(&shared) => {}
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    let state = State::Down { reason: "it was closed".to_owned() };
    shared.publish(None, state);
    shared.link.send_modify(|link| *link = Link { attempts: link.attempts + 1, ..Link::default() });
    shared.finished.cancel();
}

/// Connects and lists.
async fn bring_up(
    shared: &Shared,
    endpoint: &Endpoint,
    before: Option<&Client>,
) -> Result<Up, String> {
    let (sender, mut events) = mpsc::unbounded_channel();
    let patience = shared.patience.connect;
    let connect = async {
        let client = match before {
            Some(before) => before.reconnect(patience, sender).await,
            None => Client::connect(endpoint, patience, sender).await,
        };
        let client = client.map_err(|error| error.to_string())?;
        let announced = client.announced_changes();
        match client.list_tools().await {
            Ok(tools) => {
                // Who lists them at once should find them; but tools do not wait for them long.
                let again = tokio::time::timeout(EXTRAS_TIME, shared.list_extras(&client)).await;
                Ok((client, tools, announced, again.unwrap_or(true)))
            }
            Err(error) => {
                client.close().await;
                Err(format!("its tools could not be listed: {error}"))
            }
        }
    };
    tokio::pin!(connect);
    let (mut is_stale, mut are_extras_stale) = (false, false);
    loop {
        tokio::select! {
            up = &mut connect => {
                let (client, tools, announced, again) = up?;
                let lacks_extras = again || are_extras_stale;
                return Ok(Up { client, tools, events, announced, is_stale, lacks_extras });
            }
            Some(event) = events.recv() => match event {
                Event::ToolsChanged => is_stale = true,
                Event::Log(line) => log(shared, &line),
                Event::PromptsChanged | Event::ResourcesChanged => are_extras_stale = true,
                Event::ResourceUpdated(uri) => shared.updated(&uri),
            },
        }
    }
}

/// Offers a connection until it ends; gives the reason.
async fn serve(shared: &Arc<Shared>, up: Up) -> String {
    let Up { client, tools, mut events, announced, is_stale, lacks_extras } = up;
    tracing::info!(
        server = shared.name,
        revision = client.info().revision.0,
        tools = tools.len(),
        "an MCP server is ready"
    );
    shared.note_left_out(client.left_out());
    shared.publish(Some(tools), State::Ready);
    shared.listed.send_replace(announced);
    shared.link.send_modify(|link| {
        link.client = Some(client.clone());
        link.number += 1;
        link.attempts += 1;
        link.failed = None;
    });
    shared.watch_on(&client);
    let extras_due = Notify::new();
    if lacks_extras {
        extras_due.notify_one();
    }
    // Beside the tools, since calls wait for their list.
    let extras = keep_extras(shared, &client, &extras_due);
    tokio::pin!(extras);
    let mut pause = FIRST_PAUSE;
    let mut list_at = is_stale.then(Instant::now);
    let mut listed = Instant::now();
    let mut doubt_from = Instant::now();
    loop {
        tokio::select! {
            reason = client.closed() => return reason,
            Some(event) = events.recv() => match event {
                Event::ToolsChanged => {
                    let soon = (Instant::now() + COALESCE).max(listed + LISTS_APART);
                    list_at = list_at.or(Some(soon));
                }
                Event::PromptsChanged | Event::ResourcesChanged => extras_due.notify_one(),
                Event::ResourceUpdated(uri) => shared.updated(&uri),
                Event::Log(line) => log(shared, &line),
            },
            () = &mut extras => {}
            () = shared.doubt.notified() => {
                let now = Instant::now();
                if now >= doubt_from {
                    doubt_from = now + DOUBTS_APART;
                    list_at = list_at.or(Some(now));
                }
            }
            () = shared.hurry.notified() => list_at = Some(Instant::now()),
            () = tokio::time::sleep_until(list_at.unwrap_or_else(Instant::now)), if list_at.is_some() => {
                let announced = client.announced_changes();
                let outcome = client.list_tools().await;
                listed = Instant::now();
                list_at = match outcome {
                    Ok(tools) => {
                        shared.note_left_out(client.left_out());
                        shared.publish(Some(tools), State::Ready);
                        shared.listed.send_replace(announced);
                        pause = FIRST_PAUSE;
                        None
                    }
                    // The list there is stays.
                    Err(error) => {
                        tracing::warn!(server = shared.name, %error, "its tools could not be listed");
                        pause = (pause * 2).min(LONGEST_PAUSE);
                        Some(Instant::now() + jittered(pause))
                    }
                };
            }
        }
    }
}

/// Lists what is offered besides tools whenever that is due, for as long as it is polled.
async fn keep_extras(shared: &Shared, client: &Client, due: &Notify) {
    let mut pause = FIRST_PAUSE;
    loop {
        due.notified().await;
        tokio::time::sleep(COALESCE).await;
        if shared.list_extras(client).await {
            due.notify_one();
            pause = (pause * 2).min(LONGEST_PAUSE);
            tokio::time::sleep(jittered(pause)).await;
        } else {
            pause = FIRST_PAUSE;
            tokio::time::sleep(LISTS_APART).await;
        }
    }
}

/// Resolves when a call wants the server, but not right after an attempt.
async fn woken(shared: &Shared) {
    let failed = shared.link.borrow().failed;
    shared.wake.notified().await;
    if let Some(failed) = failed {
        tokio::time::sleep_until(failed + ATTEMPTS_APART).await;
    }
}

fn log(shared: &Shared, line: &str) {
    tracing::debug!(server = shared.name, "{line}");
}

/// Between half and all of the time, so that servers that fell together do not rise together.
fn jittered(pause: Duration) -> Duration {
    // Each of these is seeded differently, which is all the chance that is needed.
    let chance = RandomState::new().build_hasher().finish() % 1_000;
    pause / 2 + pause / 2_000 * u32::try_from(chance).unwrap_or_default()
}

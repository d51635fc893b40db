//! What only the legacy revisions have: the GET stream, answers of ours, and DELETE.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Method, StatusCode};

use super::Shared;
use super::answer::Place;
use crate::error::Error;

/// How long the farewell may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// The longest wait between two attempts to open the GET stream.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

impl Shared {
    /// Sends an answer of ours to a request of the server's.
    pub(super) fn reply(&self, reply: String) {
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else { return };
        let request = self.post(reply);
        let login = self.login.clone();
        tokio::spawn(async move {
            let replying = async { super::authorized::with(login, request).await.send().await };
            let _ = tokio::time::timeout(super::CONNECT_TIME, replying).await;
            drop(permit);
        });
    }
}

/// Keeps the GET stream open, where the server offers one, until the connection ends.
pub(super) async fn listen(shared: Arc<Shared>) {
    let closing = shared.closing.clone();
    tokio::select! {
        () = closing.cancelled() => {}
        _ = shared.inbox.ended() => {}
        () = keep_listening(&shared) => {}
    }
}

async fn keep_listening(shared: &Shared) {
    let mut place = Place::default();
    let mut failures = 0_u32;
    loop {
        let mut request = shared.request(Method::GET).header(ACCEPT, "text/event-stream");
        if let Some(last_event) = place.last_event.clone() {
            request = request.header("last-event-id", last_event);
        }
        let response = match shared.send(request).await {
            Ok(response) => response,
            Err(error) => {
                tracing::debug!(%error, "the stream of notifications could not be opened");
                return;
            }
        };
        let status = response.status();
        let is_stream = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok())
            .is_some_and(|kind| kind.starts_with("text/event-stream"));
        if status.is_success() && is_stream {
            let before = tokio::time::Instant::now();
            if let Err(error) = shared.read_events(response, None, &mut place).await {
                shared.inbox.journal().line("noise", &error.to_string());
            }
            failures = if before.elapsed() > LONGEST_PAUSE { 0 } else { failures + 1 };
            // What was said while no stream was open is lost, unless the server can resume.
            if place.last_event.is_none() {
                shared.inbox.suspect_change();
            }
        } else if status == StatusCode::NOT_FOUND && shared.session().is_some() {
            // This also ends the connection.
            let _: Error = shared.refusal(response).await;
            return;
        } else if status.is_client_error() || status.is_success() || status.is_redirection() {
            // Not offered (405 by the book).
            return;
        } else {
            failures += 1;
        }
        let pause = place.pause() * 2_u32.saturating_pow(failures.saturating_sub(1).min(6));
        tokio::time::sleep(pause.min(LONGEST_PAUSE)).await;
    }
}

/// Ends the session at the server.
pub(super) async fn delete(shared: &Shared) {
    if shared.session().is_none() {
        return;
    }
    let request = shared.request(Method::DELETE);
    let farewell =
        async { super::authorized::with(shared.login.clone(), request).await.send().await };
    // 405 says that clients may not do this; anything else makes no difference either.
    let _ = tokio::time::timeout(FAREWELL, farewell).await;
}

//! From an endpoint to a connection whose revision is agreed on.
//!
//! A server of the new era answers `server/discover`. Any other answer, a hang or a death says that
//! it is an older one, which is then asked to `initialize`: the same process if it lives, a new one
//! if the probe killed or wedged it. Only −32020 to −32022 come from the new era alone, so on these
//! nothing is guessed: −32022 names what the server speaks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::about::supported;
use super::connection::{Connection, Limit};
use super::inbox::Inbox;
use super::legacy::initialize;
use super::modern::{discover, keep_listening};
use super::watched::Watched;
use super::{Client, ServerInfo, Shared};
use crate::censor::Censor;
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::journal::{Event, Journal};
use crate::message::{code, shorten};
use crate::revision::{LEGACY, MODERN, Revision};
use crate::transport::Transport;
use crate::transport::http::Http;
use crate::transport::stdio::{Stdio, process};

/// The longest wait for the answer to the probe.
const LONGEST_PROBE: Duration = Duration::from_secs(10);

/// Why the probe led nowhere.
enum Probe {
    /// The server speaks one of the older revisions.
    Older,
    /// The connection is of no more use; a new one may do.
    Unusable(Error),
}

pub(super) async fn connect(
    endpoint: &Endpoint,
    timeout: Duration,
    events: mpsc::UnboundedSender<Event>,
    before: Option<&Revision>,
) -> Result<Client, Error> {
    let deadline = Instant::now() + timeout;
    let attempt = Attempt { endpoint, deadline, timeout, events, latest: Mutex::default() };
    let agreed = tokio::time::timeout_at(deadline, attempt.agree(before)).await;
    let (connection, info) = match agreed {
        Ok(Err(Error::Timeout { .. })) | Err(_) => return Err(attempt.too_late()),
        Ok(agreed) => agreed?,
    };
    if info.revision.is_modern() {
        tokio::spawn(keep_listening(Arc::clone(&connection), info.clone()));
    }
    let watched = Watched::new(&connection, &info);
    let shared = Shared {
        endpoint: endpoint.clone(),
        connection,
        info,
        mirrored: Mutex::new(HashMap::new()),
        watched,
        left_out: Mutex::new(Vec::new()),
    };
    Ok(Client { shared: Arc::new(shared) })
}

struct Attempt<'a> {
    endpoint: &'a Endpoint,
    deadline: Instant,
    timeout: Duration,
    events: mpsc::UnboundedSender<Event>,
    /// Of the connection that was opened last.
    latest: Mutex<Option<Arc<Inbox>>>,
}

/// Ends a connection that is not handed out after all.
struct Unfinished(Option<Arc<Connection>>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(connection) = &self.0 {
            connection.closing.cancel();
        }
    }
}

impl Unfinished {
    fn get(&self) -> Result<&Connection, Error> {
        self.0.as_deref().ok_or_else(|| Error::Connect("there is no connection".to_owned()))
    }

    /// Ends the connection and waits until all of it is gone.
    async fn end(mut self) {
        if let Some(connection) = self.0.take() {
            connection.closing.cancel();
            connection.finished.cancelled().await;
        }
    }

    fn finish(mut self, info: ServerInfo) -> Result<(Arc<Connection>, ServerInfo), Error> {
        let connection =
            self.0.take().ok_or_else(|| Error::Connect("there is no connection".to_owned()))?;
        Ok((connection, info))
    }
}

impl Attempt<'_> {
    async fn agree(
        &self,
        before: Option<&Revision>,
    ) -> Result<(Arc<Connection>, ServerInfo), Error> {
        if let Some(revision) = before.filter(|revision| !revision.is_modern()) {
            let unfinished = self.open()?;
            match initialize(unfinished.get()?, revision, self.limit(1)).await {
                Ok(info) => return unfinished.finish(info),
                // It may have been replaced by a newer server meanwhile.
                Err(Error::Rpc { .. } | Error::Refused(_) | Error::Protocol(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let unfinished = self.open()?;
        match self.probe(unfinished.get()?).await {
            Ok(info) => return unfinished.finish(info),
            Err(Probe::Older) => {
                let legacy = Revision(LEGACY[0].to_owned());
                let info = initialize(unfinished.get()?, &legacy, self.limit(1)).await;
                match info {
                    Ok(info) => return unfinished.finish(info),
                    Err(Error::Lost(_)) if self.is_stdio() => {}
                    Err(error) => return Err(error),
                }
            }
            Err(Probe::Unusable(Error::Lost(_) | Error::Timeout { .. })) if self.is_stdio() => {}
            Err(Probe::Unusable(error)) => return Err(error),
        }
        tracing::debug!(endpoint = ?self.endpoint, "started again for `initialize`");
        // It may hold something that only one can have.
        unfinished.end().await;
        let unfinished = self.open()?;
        let legacy = Revision(LEGACY[0].to_owned());
        let info = initialize(unfinished.get()?, &legacy, self.limit(1)).await?;
        unfinished.finish(info)
    }

    fn is_stdio(&self) -> bool {
        matches!(self.endpoint, Endpoint::Stdio { .. })
    }

    /// A part of the time that is left.
    fn limit(&self, part: u32) -> Limit {
        Limit::of(self.deadline.saturating_duration_since(Instant::now()) / part)
    }

    fn too_late(&self) -> Error {
        let reason = format!("the server did not begin to talk within {:?}", self.timeout);
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        Error::Connect(match latest.as_ref() {
            Some(inbox) => inbox.journal().with_last_words(&reason),
            None => reason,
        })
    }

    /// Starts the server, or prepares to reach it.
    fn open(&self) -> Result<Unfinished, Error> {
        let closing = CancellationToken::new();
        let finished = CancellationToken::new();
        let inbox = Arc::new(Inbox::new(Journal::new(
            self.events.clone(),
            Censor::of_endpoint(self.endpoint),
        )));
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&inbox));
        let transport = match self.endpoint {
            Endpoint::Stdio { command, args, env, cwd, .. } => {
                let started = process::start(command, args, env, cwd.as_deref());
                let (process, pipes) = started.map_err(|error| match error {
                    Error::Connect(why) => Error::Connect(inbox.journal().hide(&why)),
                    error => error,
                })?;
                Transport::Stdio(Stdio::over(process, pipes, &inbox, &closing, &finished)?)
            }
            Endpoint::Http { url, headers, login, .. } => {
                let http = Http::new(url, headers, login.clone(), &inbox, &closing)?;
                let farewell = http.clone().end_session();
                let finished = finished.clone();
                tokio::spawn(async move {
                    farewell.await;
                    finished.cancel();
                });
                Transport::Http(http)
            }
        };
        let reporter = Arc::clone(&inbox);
        let until = finished.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = until.cancelled() => {}
                () = reporter.report_changes() => {}
            }
        });
        let connection = Arc::new(Connection { transport, inbox, closing, finished });
        if let Some(answers) = connection.inbox.answers() {
            tokio::spawn(send_answers(Arc::clone(&connection), answers));
        }
        Ok(Unfinished(Some(connection)))
    }

    /// Asks `server/discover`. Over stdio, a server that is silent for long gets `initialize` after
    /// it on the same pipe, since a slow start looks the same; whichever is answered counts.
    async fn probe(&self, connection: &Connection) -> Result<ServerInfo, Probe> {
        let part = self.timeout / 4;
        let modern = Revision(MODERN[0].to_owned());
        let discover = discover(connection, &modern, self.limit(1));
        tokio::pin!(discover);
        let silence = tokio::time::sleep(part.min(LONGEST_PROBE));
        tokio::select! {
            answer = &mut discover => return self.judge(connection, answer).await,
            () = silence => {}
        }
        if !self.is_stdio() {
            return Err(Probe::Older);
        }
        let legacy = Revision(LEGACY[0].to_owned());
        let initialize = initialize(connection, &legacy, self.limit(1));
        let patience = tokio::time::sleep(part);
        tokio::pin!(initialize, patience);
        let mut probing = true;
        loop {
            tokio::select! {
                biased;
                answer = &mut discover, if probing => match answer {
                    Err(Error::Rpc { .. }) => probing = false,
                    answer => return self.judge(connection, answer).await,
                },
                answer = &mut initialize => return match answer {
                    // The modern answer to `initialize` may overtake the one to the probe.
                    Err(Error::Rpc { code: code::UNSUPPORTED_VERSION, .. }) if probing => {
                        let answer = discover.await;
                        self.judge(connection, answer).await
                    }
                    answer => answer.map_err(Probe::Unusable),
                },
                () = &mut patience => {
                    return Err(Probe::Unusable(Error::Timeout { after: self.timeout, unreadable: None }));
                }
            }
        }
    }

    /// What the answer to the probe says about the server.
    async fn judge(
        &self,
        connection: &Connection,
        answer: Result<ServerInfo, Error>,
    ) -> Result<ServerInfo, Probe> {
        match answer {
            Ok(info) if info.revision.is_modern() => {
                connection.inbox.set_modern();
                Ok(info)
            }
            // It answers the probe, but offers older revisions only.
            Ok(info) => {
                initialize(connection, &info.revision, self.limit(1)).await.map_err(Probe::Unusable)
            }
            Err(Error::Rpc { code: code::UNSUPPORTED_VERSION, message, data }) => {
                match supported(data.as_deref()) {
                    Some(revision) if !revision.is_modern() => {
                        initialize(connection, &revision, self.limit(1))
                            .await
                            .map_err(Probe::Unusable)
                    }
                    // It names what was asked with: it is taken at its word, once.
                    Some(revision) => match discover(connection, &revision, self.limit(1)).await {
                        Ok(info) if info.revision.is_modern() => {
                            connection.inbox.set_modern();
                            Ok(info)
                        }
                        Ok(_) | Err(Error::Rpc { code: code::UNSUPPORTED_VERSION, .. }) => {
                            Err(Probe::Unusable(no_common_revision(&message, data.as_deref())))
                        }
                        Err(error) => Err(Probe::Unusable(error)),
                    },
                    None => Err(Probe::Unusable(no_common_revision(&message, data.as_deref()))),
                }
            }
            Err(
                error @ Error::Rpc {
                    code: code::HEADER_MISMATCH | code::MISSING_CAPABILITY, ..
                },
            ) => Err(Probe::Unusable(error)),
            Err(error @ Error::Connect(_)) => Err(Probe::Unusable(error)),
            // Over HTTP nothing is lost with a response, so `initialize` may still work.
            Err(error @ (Error::Lost(_) | Error::Timeout { .. })) if self.is_stdio() => {
                Err(Probe::Unusable(error))
            }
            Err(_) => Err(Probe::Older),
        }
    }
}

/// Sends what is answered to the server's questions, until the connection ends.
async fn send_answers(connection: Arc<Connection>, mut answers: mpsc::UnboundedReceiver<String>) {
    loop {
        tokio::select! {
            () = connection.closing.cancelled() => return,
            () = connection.finished.cancelled() => return,
            Some(answer) = answers.recv() => {
                if let Err(error) = connection.transport.tell(answer).await {
                    connection.inbox.journal().line("noise", &error.to_string());
                }
            }
        }
    }
}

fn no_common_revision(message: &str, data: Option<&RawValue>) -> Error {
    let data = data.map_or("", |data| data.get());
    Error::Refused(format!(
        "the server speaks no protocol revision that is spoken here ({}): {message} {}",
        Revision::spoken(),
        shorten(data, 200),
    ))
}

//! From an endpoint to a connection whose revision is agreed on.
//!
//! A server of the new era answers `server/discover`. Any other answer, a hang or a death says that
//! it is an older one, which is then asked to `initialize`: the same process if it lives, a new one
//! if the probe killed or wedged it. Only −32020 to −32022 come from the new era alone, so on these
//! nothing is guessed: −32022 names what the server speaks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::connection::{Connection, Limit, Request, client_info};
use super::inbox::Inbox;
use super::{Client, ServerInfo, Shared, listen};
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::journal::{Event, Journal};
use crate::message::{self, code, flag, quote, shorten, text};
use crate::revision::{LEGACY, MODERN, Revision};
use crate::secrets::Secrets;
use crate::transport::Transport;
use crate::transport::http::Http;
use crate::transport::stdio::{Stdio, process};

/// The longest wait for the answer to the probe.
const LONGEST_PROBE: Duration = Duration::from_secs(10);

/// Longest instructions that are kept, in bytes.
const LONGEST_INSTRUCTIONS: usize = 64 * 1024;

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
    let attempt = Attempt { endpoint, deadline: Instant::now() + timeout, timeout, events };
    let agreed = tokio::time::timeout_at(attempt.deadline, attempt.agree(before)).await;
    let (connection, info) = agreed.unwrap_or(Err(Error::Timeout(timeout)))?;
    if info.revision.is_modern() {
        let revision = info.revision.clone();
        if listens(info.capabilities.as_deref()) {
            tokio::spawn(listen::keep_listening(Arc::clone(&connection), revision));
        }
    }
    let shared = Shared {
        endpoint: endpoint.clone(),
        connection,
        info,
        mirrored: Mutex::new(HashMap::new()),
    };
    Ok(Client { shared: Arc::new(shared) })
}

struct Attempt<'a> {
    endpoint: &'a Endpoint,
    deadline: Instant,
    timeout: Duration,
    events: mpsc::UnboundedSender<Event>,
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
            Err(Probe::Unusable(Error::Lost(_) | Error::Timeout(_))) if self.is_stdio() => {}
            Err(Probe::Unusable(error)) => return Err(error),
        }
        tracing::debug!(endpoint = ?self.endpoint, "started again for `initialize`");
        drop(unfinished);
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

    /// Starts the server, or prepares to reach it.
    fn open(&self) -> Result<Unfinished, Error> {
        let closing = CancellationToken::new();
        let finished = CancellationToken::new();
        let (Endpoint::Stdio { env: values, .. } | Endpoint::Http { headers: values, .. }) =
            self.endpoint;
        let inbox = Arc::new(Inbox::new(Journal::new(self.events.clone(), Secrets::of(values))));
        let transport = match self.endpoint {
            Endpoint::Stdio { command, args, env, cwd } => {
                let (process, pipes) = process::start(command, args, env, cwd.as_deref())?;
                Transport::Stdio(Stdio::over(process, pipes, &inbox, &closing, &finished))
            }
            Endpoint::Http { url, headers } => {
                let http = Http::new(url, headers, &inbox, &closing)?;
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
        Ok(Unfinished(Some(Arc::new(Connection { transport, inbox, closing, finished }))))
    }

    /// Asks `server/discover`. Over stdio, a server that is silent for long gets `initialize` after
    /// it on the same pipe, since a slow start looks the same; whichever is answered counts.
    async fn probe(&self, connection: &Connection) -> Result<ServerInfo, Probe> {
        let part = self.timeout / 3;
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
                    return Err(Probe::Unusable(Error::Timeout(self.timeout)));
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
                    _ => Err(Probe::Unusable(no_common_revision(&message, data.as_deref()))),
                }
            }
            Err(
                error @ Error::Rpc {
                    code: code::HEADER_MISMATCH | code::MISSING_CAPABILITY, ..
                },
            ) => Err(Probe::Unusable(error)),
            Err(error @ Error::Connect(_)) => Err(Probe::Unusable(error)),
            // Over HTTP nothing is lost with a response, so `initialize` may still work.
            Err(error @ (Error::Lost(_) | Error::Timeout(_))) if self.is_stdio() => {
                Err(Probe::Unusable(error))
            }
            Err(_) => Err(Probe::Older),
        }
    }
}

/// Whether the server tells about changes of its tools.
fn listens(capabilities: Option<&RawValue>) -> bool {
    #[derive(Deserialize)]
    struct Capabilities<'a> {
        #[serde(borrow, default)]
        tools: Option<Tools<'a>>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Tools<'a> {
        #[serde(borrow, default)]
        list_changed: Option<&'a RawValue>,
    }
    capabilities
        .and_then(|raw| serde_json::from_str::<Capabilities<'_>>(raw.get()).ok())
        .and_then(|capabilities| flag(capabilities.tools?.list_changed))
        .unwrap_or(false)
}

/// The best revision of those in `data.supported`.
fn supported(data: Option<&RawValue>) -> Option<Revision> {
    #[derive(Deserialize)]
    struct Data {
        supported: Vec<String>,
    }
    let data: Data = serde_json::from_str(data?.get()).ok()?;
    Revision::choose(data.supported.iter().map(String::as_str))
}

fn no_common_revision(message: &str, data: Option<&RawValue>) -> Error {
    let data = data.map_or("", |data| data.get());
    Error::Refused(format!(
        "the server speaks no protocol revision that is spoken here ({}): {message} {}",
        Revision::spoken(),
        shorten(data, 200),
    ))
}

/// What both `server/discover` and `initialize` answer.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct About<'a> {
    #[serde(borrow, default)]
    supported_versions: Option<&'a RawValue>,
    #[serde(borrow, default)]
    protocol_version: Option<&'a RawValue>,
    #[serde(borrow, default)]
    capabilities: Option<&'a RawValue>,
    #[serde(borrow, default)]
    instructions: Option<&'a RawValue>,
    #[serde(borrow, default)]
    server_info: Option<Identity<'a>>,
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<Meta<'a>>,
}

#[derive(Default, Deserialize)]
struct Identity<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    version: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow, default, rename = "io.modelcontextprotocol/serverInfo")]
    server_info: Option<Identity<'a>>,
}

impl About<'_> {
    fn into_info(self, revision: Revision) -> ServerInfo {
        let identity = self.meta.and_then(|meta| meta.server_info).or(self.server_info);
        let identity = identity.unwrap_or_default();
        ServerInfo {
            revision,
            name: text(identity.name).map(|name| shorten(&name, 200)),
            version: text(identity.version).map(|version| shorten(&version, 200)),
            instructions: text(self.instructions).map(|text| shorten(&text, LONGEST_INSTRUCTIONS)),
            capabilities: self.capabilities.map(ToOwned::to_owned),
        }
    }
}

fn read_about<'a>(method: &str, result: &'a RawValue) -> Result<About<'a>, Error> {
    serde_json::from_str(result.get())
        .map_err(|error| Error::Protocol(format!("its answer to {method} is wrong: {error}")))
}

async fn discover(
    connection: &Connection,
    revision: &Revision,
    limit: Limit,
) -> Result<ServerInfo, Error> {
    let method = "server/discover";
    let result = connection.request(Request::new(method, Some(revision), limit)).await?;
    let about = read_about(method, &result)?;
    let versions: Vec<String> = about
        .supported_versions
        .and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or_default();
    let chosen = Revision::choose(versions.iter().map(String::as_str)).ok_or_else(|| {
        Error::Refused(format!(
            "the server speaks {} and here {} are spoken: there is none in common",
            shorten(&versions.join(", "), 200),
            Revision::spoken(),
        ))
    })?;
    Ok(about.into_info(chosen))
}

async fn initialize(
    connection: &Connection,
    wanted: &Revision,
    limit: Limit,
) -> Result<ServerInfo, Error> {
    let answer = match ask_initialize(connection, wanted, limit).await {
        Err(Error::Rpc { code, message, data }) => match supported(data.as_deref()) {
            // Some refuse a newer revision, rather than answering with theirs.
            Some(other) if !other.is_modern() && other != *wanted => {
                ask_initialize(connection, &other, limit).await?
            }
            _ => return Err(Error::Rpc { code, message, data }),
        },
        answer => answer?,
    };
    let about = read_about("initialize", &answer)?;
    let version = text(about.protocol_version).unwrap_or_default();
    let Some(agreed) = LEGACY.iter().find(|ours| **ours == version) else {
        return Err(Error::Refused(format!(
            "the server answered `initialize` with the protocol revision `{}`; {} are spoken here",
            shorten(&version, 40),
            Revision::spoken(),
        )));
    };
    let revision = Revision((*agreed).to_owned());
    connection.transport.agree(&revision);
    let initialized = message::notification("notifications/initialized", "{}");
    connection.transport.tell(initialized).await?;
    connection.transport.listen();
    Ok(about.into_info(revision))
}

async fn ask_initialize(
    connection: &Connection,
    wanted: &Revision,
    limit: Limit,
) -> Result<Box<RawValue>, Error> {
    let version = quote(&wanted.0);
    let info = client_info();
    let mut request = Request::new("initialize", None, limit);
    request.params =
        vec![("protocolVersion", &version), ("capabilities", "{}"), ("clientInfo", &info)];
    connection.request(request).await
}

//! What servers offer besides tools: resources, their templates, prompts, completion.
//!
//! It passes through, under the names that clients of a profile see (`addresses`). Reading asks no
//! person: a resource is there to be read, as a tool with `readOnlyHint` is; what is read and which
//! prompts are fetched is written down. Only servers of the session's profile are ever asked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use serde_json::value::RawValue;
use store::AuditRow;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use self::addresses::Owner;
use self::links::Links;
use crate::backlog::Ending;
use crate::gateway::{Gateway, now_ms};
use crate::json::Members;
use crate::session::Session;
use crate::sources::{PassError, Source, SourceError, SourceRequest, State};
use crate::{json, names};

mod addresses;
mod links;
mod shelves;
mod template;

pub(crate) use shelves::Shelves;

/// Longest URI or name that is looked up, in bytes.
const LONGEST: usize = 8 * 1024;

/// Servers that are tried for a URI that none has listed.
const TRIED: usize = 20;

/// What a request for something besides tools goes along with.
#[derive(Debug, Default)]
pub struct Along {
    /// What goes on to the server.
    pub passed: mcp::Passed,
    /// Ends the request.
    pub cancel: CancellationToken,
}

/// Why such a request gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum ExtraError {
    /// There is no such resource.
    #[error("{0}")]
    NoResource(String),
    /// There is no such prompt, or the request is wrong in another way.
    #[error("{0}")]
    Invalid(String),
    /// The server answered with an error, which is passed on.
    #[error("{message}")]
    Answered {
        /// JSON-RPC code.
        code: i64,
        /// The server's words.
        message: String,
        /// `data`, as it was sent.
        data: Option<Box<RawValue>>,
    },
    /// The server gave no answer.
    #[error("{0}")]
    Unavailable(String),
    /// Cancelled.
    #[error("the request was cancelled")]
    Cancelled,
}

/// A resource is watched for as long as this is kept.
#[derive(Debug)]
pub struct Watched {
    source: Arc<dyn Source>,
    own: String,
    updates: Option<broadcast::Receiver<Arc<str>>>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.source.unwatch(&self.own);
    }
}

impl Watched {
    /// Resolves when the resource changed.
    pub async fn changed(&mut self) {
        while let Some(updates) = &mut self.updates {
            match updates.recv().await {
                Ok(uri) if *uri == *self.own => return,
                Ok(_) => {}
                // Some were missed; this one may be among them.
                Err(broadcast::error::RecvError::Lagged(_)) => return,
                Err(broadcast::error::RecvError::Closed) => self.updates = None,
            }
        }
        std::future::pending().await
    }
}

impl Gateway {
    /// Everything of a kind that the session's servers offer, under the names it has outside,
    /// sorted by them.
    pub fn extras(&self, session: &Session, kind: mcp::Kind) -> Vec<Arc<RawValue>> {
        let shelf = self.shelf(session);
        let mut named = Vec::new();
        for (number, server) in shelf.addresses.servers.iter().enumerate() {
            let extras = &server.extras;
            let items = match kind {
                mcp::Kind::Resources => &extras.resources,
                mcp::Kind::Templates => &extras.templates,
                mcp::Kind::Prompts => &extras.prompts,
            };
            for (place, item) in items.iter().enumerate() {
                let name = match kind {
                    mcp::Kind::Resources => shelf.addresses.outside(number, &item.key),
                    mcp::Kind::Templates => shelf.addresses.template_outside(number, &item.key),
                    mcp::Kind::Prompts => {
                        let name = self.catalog.naming.full(server.source.name(), &item.key);
                        if shelf.prompts.get(&name) != Some(&Some((number, place))) {
                            continue;
                        }
                        name
                    }
                };
                let Ok(raw) = RawValue::from_string(item.raw.to_string()) else { continue };
                let raw = if name == item.key {
                    raw
                } else {
                    json::with_member(&raw, kind.key(), &name).unwrap_or(raw)
                };
                named.push((name, Arc::from(raw)));
            }
        }
        named.sort_by(|a: &(String, Arc<RawValue>), b| a.0.cmp(&b.0));
        named.into_iter().map(|(_, raw)| raw).collect()
    }

    /// `resources/read`.
    pub async fn read(
        &self,
        session: &Session,
        uri: &str,
        along: Along,
    ) -> Result<Box<RawValue>, ExtraError> {
        let began = Instant::now();
        let (server, outcome) = self.find_and_read(session, uri, along).await;
        self.note(session, "resource", uri, server.as_deref(), began, &outcome).await;
        outcome
    }

    async fn find_and_read(
        &self,
        session: &Session,
        uri: &str,
        along: Along,
    ) -> (Option<String>, Result<Box<RawValue>, ExtraError>) {
        let shelf = self.shelf(session);
        let addresses = &shelf.addresses;
        let missing = || ExtraError::NoResource(format!("there is no resource {}", shown(uri)));
        let candidates = match addresses.owner(uri) {
            _ if uri.len() > LONGEST => return (None, Err(missing())),
            Owner::One(number, own) => vec![(number, own)],
            Owner::Several(owners) => {
                return (None, Err(ExtraError::Invalid(addresses.choice(&owners, uri))));
            }
            Owner::Elsewhere => return (None, Err(missing())),
            Owner::Nobody => addresses
                .servers
                .iter()
                .enumerate()
                .filter(|(_, server)| {
                    server.extras.abilities.resources
                        && server.source.snapshot().state == State::Ready
                })
                .take(TRIED)
                .map(|(number, _)| (number, uri.to_owned()))
                .collect(),
        };
        let several = candidates.len() > 1;
        let mut last = (None, missing());
        for (number, own) in candidates {
            let source = &addresses.servers[number].source;
            let name = Some(source.name().to_owned());
            let request = self.request("resources/read", &along, |request| {
                request.params.push(("uri", json::quoted(&own)));
                request.name = Some(own.clone());
            });
            match self.send(source, request, &along.cancel).await {
                Ok(contents) => {
                    let links = Links { addresses, server: number };
                    let changed = links.of_contents(&contents, &own, uri);
                    return (name, Ok(changed.unwrap_or(contents)));
                }
                // Where it was only tried, the next one may have it.
                Err(ExtraError::Answered { .. } | ExtraError::Unavailable(_)) if several => {}
                Err(error) => last = (name, error),
            }
            if along.cancel.is_cancelled() {
                return (None, Err(ExtraError::Cancelled));
            }
        }
        (last.0, Err(last.1))
    }

    /// `prompts/get`.
    pub async fn prompt(
        &self,
        session: &Session,
        name: &str,
        arguments: Option<&RawValue>,
        along: Along,
    ) -> Result<Box<RawValue>, ExtraError> {
        let began = Instant::now();
        let shelf = self.shelf(session);
        let Some((number, own)) = shelf.prompt(name) else {
            let known = shelf.prompts.keys().map(String::as_str);
            let meant = names::similar(name, known);
            let why = format!("there is no prompt {}{}", shown(name), names::did_you_mean(&meant));
            let outcome = Err(ExtraError::Invalid(why));
            self.note(session, "prompt", name, None, began, &outcome).await;
            return outcome;
        };
        let source = &shelf.addresses.servers[number].source;
        let request = self.request("prompts/get", &along, |request| {
            request.params.push(("name", json::quoted(&own)));
            if let Some(arguments) = arguments {
                request.params.push(("arguments", arguments.get().to_owned()));
            }
            request.name = Some(own.clone());
        });
        let outcome = self.send(source, request, &along.cancel).await.map(|prompt| {
            let links = Links { addresses: &shelf.addresses, server: number };
            links.of_prompt(&prompt).unwrap_or(prompt)
        });
        self.note(session, "prompt", name, Some(source.name()), began, &outcome).await;
        outcome
    }

    /// `completion/complete`.
    pub async fn complete(
        &self,
        session: &Session,
        reference: &RawValue,
        argument: &RawValue,
        context: Option<&RawValue>,
        along: Along,
    ) -> Result<Box<RawValue>, ExtraError> {
        let wrong = |why: &str| ExtraError::Invalid(format!("`ref` of completion/complete {why}"));
        let Members(members) =
            serde_json::from_str(reference.get()).map_err(|_| wrong("is not an object"))?;
        let text = |name: &str| {
            let found = members.iter().rfind(|(key, _)| key == name);
            found.and_then(|(_, value)| serde_json::from_str::<String>(value.get()).ok())
        };
        let shelf = self.shelf(session);
        let (key, number, own) = match text("type").as_deref() {
            Some("ref/prompt") => {
                let name = text("name").ok_or_else(|| wrong("has no name"))?;
                let (number, own) = shelf.prompt(&name).ok_or_else(|| {
                    ExtraError::Invalid(format!("there is no prompt {}", shown(&name)))
                })?;
                ("name", number, own)
            }
            Some("ref/resource") => {
                let uri = text("uri").ok_or_else(|| wrong("has no uri"))?;
                match shelf.addresses.owner_of_template(&uri) {
                    Owner::One(number, own) => ("uri", number, own),
                    Owner::Several(owners) => {
                        let why = shelf.addresses.choice(&owners, &uri);
                        return Err(ExtraError::Invalid(why));
                    }
                    Owner::Nobody | Owner::Elsewhere => {
                        let why = format!("there is no resource template {}", shown(&uri));
                        return Err(ExtraError::Invalid(why));
                    }
                }
            }
            _ => return Err(wrong("is neither ref/prompt nor ref/resource")),
        };
        let server = &shelf.addresses.servers[number];
        if !server.extras.abilities.completions {
            // A client may ask for any argument; that there is nothing to suggest is no fault.
            return Ok(json::raw(&json!({"completion": {"values": [], "hasMore": false}})));
        }
        let reference = json::with_member(reference, key, &own).map_err(|why| wrong(&why))?;
        let request = self.request("completion/complete", &along, |request| {
            request.params.push(("ref", reference.get().to_owned()));
            request.params.push(("argument", argument.get().to_owned()));
            if let Some(context) = context {
                request.params.push(("context", context.get().to_owned()));
            }
        });
        self.send(&server.source, request, &along.cancel).await
    }

    /// Has changes of a resource told, for as long as what is returned is kept.
    pub async fn watch(&self, session: &Session, uri: &str) -> Result<Watched, ExtraError> {
        let shelf = self.shelf(session);
        let (number, own) = match shelf.addresses.owner(uri) {
            Owner::One(number, own) => (number, own),
            Owner::Several(owners) => {
                let why = shelf.addresses.choice(&owners, uri);
                return Err(ExtraError::Invalid(why));
            }
            Owner::Nobody | Owner::Elsewhere => {
                let why = format!("there is no resource {}", shown(uri));
                return Err(ExtraError::NoResource(why));
            }
        };
        let server = &shelf.addresses.servers[number];
        if !server.extras.abilities.subscribe {
            return Err(ExtraError::Invalid(format!(
                "the server {:?} does not tell changes of its resources",
                server.source.name()
            )));
        }
        let updates = server.source.updates();
        server.source.watch(&own).await.map_err(|error| explained(&*server.source, error))?;
        Ok(Watched { source: server.source.clone(), own, updates })
    }

    fn request(
        &self,
        method: &'static str,
        along: &Along,
        fill: impl FnOnce(&mut SourceRequest),
    ) -> SourceRequest {
        let mut request = SourceRequest {
            method,
            params: Vec::new(),
            name: None,
            cancel: self.stop.child_token(),
            timeout: Duration::from_secs(self.scripts.call_timeout_sec),
            passed: along.passed.clone(),
        };
        fill(&mut request);
        request
    }

    async fn send(
        &self,
        source: &Arc<dyn Source>,
        request: SourceRequest,
        cancel: &CancellationToken,
    ) -> Result<Box<RawValue>, ExtraError> {
        let stop = request.cancel.clone();
        let sent = source.pass(request);
        tokio::pin!(sent);
        let outcome = tokio::select! {
            outcome = &mut sent => outcome,
            () = cancel.cancelled() => {
                stop.cancel();
                sent.await
            }
        };
        outcome.map_err(|error| explained(&**source, error))
    }

    /// Writes down what was read.
    async fn note(
        &self,
        session: &Session,
        kind: &str,
        what: &str,
        server: Option<&str>,
        began: Instant,
        outcome: &Result<Box<RawValue>, ExtraError>,
    ) {
        let mut detail = json!({
            "ms": u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
        if let Some(server) = server {
            detail["server"] = json!(server);
        }
        let word = match outcome {
            Ok(_) => "ok",
            Err(ExtraError::Cancelled) => "cancelled",
            Err(ExtraError::NoResource(_) | ExtraError::Invalid(_)) => "refused",
            Err(_) => "failed",
        };
        if let Err(error) = outcome {
            detail["message"] = json!(json::one_line(&error.to_string(), 1000));
        }
        let audit = Box::new(AuditRow {
            id: uuid::Uuid::now_v7().to_string(),
            at_ms: now_ms(),
            kind: kind.to_owned(),
            principal: session.principal.clone(),
            profile: session.profile_name.clone(),
            session: session.id.clone(),
            tool: json::one_line(what, 200),
            outcome: word.to_owned(),
            isolation: String::new(),
            detail: detail.to_string(),
        });
        let kept = self.backlog.keep(&self.store, &self.owner, Ending::Call { audit }).await;
        if let Err(reason) = kept {
            tracing::error!(kind, reason, "what was read could not be recorded");
        }
    }
}

fn explained(source: &dyn Source, error: PassError) -> ExtraError {
    let server = source.name();
    match error {
        PassError::Answered { code, message, data } => ExtraError::Answered { code, message, data },
        PassError::Source(SourceError::Cancelled) => ExtraError::Cancelled,
        PassError::Source(error) => {
            ExtraError::Unavailable(format!("the server {server:?} gave no answer: {error}"))
        }
    }
}

fn shown(text: &str) -> String {
    format!("{:?}", json::cut(text, 200))
}

//! The gateway: what it is made of and what can be asked of it besides calls.

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::background::Background;
use crate::backlog::Backlog;
use crate::catalog::{Catalog, Known};
use crate::config::{Approvals, BackgroundCalls, Profile, Scripts};
use crate::events::Pump;
use crate::extras::Shelves;
use crate::names::{self, Naming};
use crate::owner::{self, Owner};
use crate::policy::{ApprovalRule, Effect, Facts};
use crate::recovery;
use crate::session::Session;
use crate::sources::{Source, State, own, run_script};
use crate::view::Views;

/// The source of our own tools, as it is shown.
pub(crate) const OWN: &str = "pinfold";

/// What a gateway is made of.
#[derive(Debug)]
pub struct Parts {
    /// Rows.
    pub store: store::Store,
    /// What runs scripts, or why `run_script` cannot be offered.
    pub engine: Result<script::Engine, String>,
    /// The user's servers.
    pub sources: Vec<Arc<dyn Source>>,
    /// The server whose tools keep their own names, if there is one.
    pub bare: Option<String>,
    /// By name.
    pub profiles: BTreeMap<String, Profile>,
    /// Bounds of scripts.
    pub scripts: Scripts,
    /// How approvals behave.
    pub approvals: Approvals,
    /// When calls go on in the background.
    pub background: BackgroundCalls,
    /// Where everything is written; workspaces of sessions are below it.
    pub data_dir: PathBuf,
    /// The isolation level in force, for audit rows.
    pub isolation: String,
}

/// Why the gateway could not do something that is not a tool call.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting cannot be used; says which and what would do.
    #[error("{0}")]
    Setting(String),
    /// The workspace cannot be used; says why and what to do.
    #[error("{0}")]
    Workspace(String),
    /// No such approval, or it can no longer be answered that way.
    #[error("{0}")]
    Approval(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// A tool as it is offered to a session.
#[derive(Clone, Debug, Serialize)]
pub struct Listed {
    /// Its full name.
    pub name: String,
    /// The source's name; `pinfold` for our own.
    pub source: String,
    /// What it does to the world.
    pub effect: Effect,
    /// When a person is asked.
    pub approval: ApprovalRule,
    /// Whether it can only be run as a task.
    pub task_only: bool,
    /// Whether scripts can call it (listed, if it writes).
    pub in_scripts: bool,
    /// Whether its server has not yet said in this process that it has it.
    pub is_remembered: bool,
    /// The whole definition, as the source sent it, with the full name in it.
    pub definition: Arc<RawValue>,
}

/// Decides about, runs and records every tool call.
#[derive(Debug)]
pub struct Gateway {
    pub(crate) store: store::Store,
    pub(crate) engine: Result<script::Engine, String>,
    pub(crate) catalog: Catalog,
    /// What its servers offer besides tools, by profile.
    pub(crate) shelves: Shelves,
    /// What each profile offers of it.
    pub(crate) views: Views,
    pub(crate) profiles: BTreeMap<String, Arc<Profile>>,
    pub(crate) scripts: Scripts,
    pub(crate) approvals: Approvals,
    pub(crate) data_dir: PathBuf,
    pub(crate) isolation: String,
    pub(crate) owner: Owner,
    pub(crate) background: Background,
    /// What the store has not taken yet.
    pub(crate) backlog: Backlog,
    /// What happens, on its way to whoever listens.
    pub(crate) events: Pump,
    /// Calls that run, each in a task of its own.
    pub(crate) jobs: TaskTracker,
    /// Cancelled when the gateway closes; every call has a child of it.
    pub(crate) stop: CancellationToken,
}

impl Gateway {
    /// Puts the parts together and settles what a crashed process left behind.
    pub async fn open(parts: Parts) -> Result<Arc<Self>, Error> {
        let Parts { store, engine, sources, profiles, scripts, .. } = parts;
        let Parts { bare, approvals, background, data_dir, isolation, .. } = parts;
        scripts.validate().map_err(Error::Setting)?;
        approvals.validate().map_err(Error::Setting)?;
        background.validate().map_err(Error::Setting)?;
        let naming = Naming::new(bare);
        check_names(&sources, &profiles, &naming)?;
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&data_dir);
        let data_dir = made.and_then(|()| std::fs::canonicalize(&data_dir)).map_err(|error| {
            Error::Setting(format!(
                "data_dir {} cannot be used: {error}; give a place that can be written",
                data_dir.display()
            ))
        })?;
        let located = |error: Error| match error {
            Error::Store(error) => Error::Store(store.located(error)),
            other => other,
        };
        let owner = Owner::register(&data_dir, &store).await.map_err(located)?;
        recovery::run(&store, &data_dir, &owner).await.map_err(located)?;
        let gateway = Arc::new(Self {
            events: Pump::start(store.clone()),
            store,
            engine,
            catalog: Catalog::new(sources, naming),
            shelves: Shelves::default(),
            views: Views::default(),
            profiles: profiles
                .into_iter()
                .map(|(name, profile)| (name, Arc::new(profile)))
                .collect(),
            scripts,
            approvals,
            data_dir,
            isolation,
            owner,
            background: Background::new(background.after()),
            backlog: Backlog::default(),
            jobs: TaskTracker::new(),
            stop: CancellationToken::new(),
        });
        if gateway.store.is_remote() {
            tokio::spawn(beat(
                gateway.store.clone(),
                gateway.owner.row.clone(),
                gateway.stop.clone(),
            ));
        }
        Ok(gateway)
    }

    /// How each server of the profile is.
    pub fn sources(&self, profile: &str) -> Vec<(String, State)> {
        let Some(profile) = self.profiles.get(profile) else { return Vec::new() };
        self.catalog
            .sources()
            .filter(|source| profile.servers.iter().any(|name| name == source.name()))
            .map(|source| (source.name().to_owned(), source.snapshot().state.clone()))
            .collect()
    }

    /// Waits until no server of the profile is still starting, or the limit. Says which are not
    /// ready and why.
    pub async fn settle(&self, profile: &str, limit: Duration) -> Vec<(String, State)> {
        let deadline = tokio::time::Instant::now() + limit;
        if let Some(profile) = self.profiles.get(profile) {
            for source in self.catalog.sources() {
                if !profile.servers.iter().any(|name| name == source.name()) {
                    continue;
                }
                let mut changes = source.changes();
                while source.snapshot().state == State::Starting {
                    match tokio::time::timeout_at(deadline, changes.changed()).await {
                        Ok(Ok(())) => {}
                        Ok(Err(_)) | Err(_) => break,
                    }
                }
            }
        }
        for rule in self.unused_rules(profile) {
            tracing::warn!(
                profile,
                rule,
                "tools.{rule:?} is about a tool that its server does not offer: it has no effect"
            );
        }
        let mut states = self.sources(profile);
        states.retain(|(_, state)| *state != State::Ready);
        states
    }

    /// Rules of the profile about tools that a server, though it is ready, does not offer: most
    /// probably they are misspelt.
    pub fn unused_rules(&self, profile: &str) -> Vec<String> {
        let ready: Vec<String> = self
            .sources(profile)
            .into_iter()
            .filter(|(_, state)| *state == State::Ready)
            .map(|(name, _)| name)
            .collect();
        let table = self.catalog.table();
        let Some(profile) = self.profiles.get(profile) else { return Vec::new() };
        let unused = profile.tools.keys().filter(|rule| {
            table.get(rule).is_none()
                && ready.iter().any(|server| self.catalog.naming.belongs(rule, server))
        });
        unused.cloned().collect()
    }

    /// Waits until each server of the profile has some tools to be listed, be they remembered, or
    /// is down, or the limit. Whether all of them have said themselves what they offer.
    pub async fn settle_lists(&self, profile: &str, limit: Duration) -> bool {
        let deadline = tokio::time::Instant::now() + limit;
        let Some(profile) = self.profiles.get(profile) else { return true };
        let mut is_told = true;
        for source in self.catalog.sources() {
            if !profile.servers.iter().any(|name| name == source.name()) {
                continue;
            }
            let mut changes = source.changes();
            let is_unknown = || {
                let snapshot = source.snapshot();
                snapshot.state == State::Starting && snapshot.tools.is_empty()
            };
            while is_unknown() {
                match tokio::time::timeout_at(deadline, changes.changed()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) | Err(_) => break,
                }
            }
            is_told &= source.snapshot().state != State::Starting;
        }
        is_told
    }

    /// What of its servers' lists the profile cannot offer, and why, by server. In words of theirs,
    /// not yet made safe to be shown.
    pub fn left_out(&self, profile: &str) -> Vec<(String, String)> {
        let Some(profile) = self.profiles.get(profile) else { return Vec::new() };
        let is_named = |server: &str| profile.servers.iter().any(|name| name == server);
        let by_sources = self.catalog.sources().flat_map(|source| {
            let left_out = source.left_out();
            let name = source.name().to_owned();
            left_out.iter().map(|why| (name.clone(), why.clone())).collect::<Vec<_>>()
        });
        let table = self.catalog.table();
        let by_us = table.left_out().iter().cloned();
        by_sources.chain(by_us).filter(|(server, _)| is_named(server)).collect()
    }

    /// Whether a server of the session's profile has this tool and the profile does not offer it.
    pub fn withholds(&self, session: &Session, tool: &str) -> bool {
        self.catalog.table().get(tool).is_some_and(|known| {
            let named = session.profile.servers.iter().any(|name| name == known.source.name());
            named && visible(session, known).is_none()
        })
    }

    /// Opens (or opens again) the session that `key` names for this principal and profile.
    pub async fn session(
        &self,
        principal: &str,
        profile: &str,
        key: &str,
    ) -> Result<Arc<Session>, Error> {
        let Some(found) = self.profiles.get(profile) else {
            let known = names::similar(profile, self.profiles.keys().map(String::as_str));
            return Err(Error::Setting(format!(
                "there is no profile {profile:?}{}",
                names::did_you_mean(&known)
            )));
        };
        let session = Session::open(principal, profile, found.clone(), key, &self.data_dir)?;
        session.keep_out(self.store.file())?;
        self.store
            .touch_session(&store::SessionRow {
                id: session.id.clone(),
                principal: session.principal.clone(),
                profile: session.profile_name.clone(),
                key: session.key.clone(),
                at_ms: now_ms(),
            })
            .await?;
        Ok(Arc::new(session))
    }

    /// Every tool that is offered to the session, sorted by name.
    pub fn tools(&self, session: &Session) -> Vec<Listed> {
        let mut listed = self.view(session).listed().to_vec();
        self.name_interfaces(session, &mut listed);
        listed.extend(own::listed(self, session));
        if self.background.after.is_none() {
            listed.retain(|tool| !tool.task_only);
        }
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        listed
    }

    /// Whether a client that knows tasks may call this tool as one.
    pub fn may_be_task(&self, session: &Session, tool: &str) -> bool {
        if self.background.after.is_none() {
            return false;
        }
        if let Some(own) = own::find(tool) {
            return own.tool.is_script();
        }
        self.catalog.table().get(tool).is_some_and(|known| {
            known.tool.task_support != mcp::TaskSupport::Forbidden
                && visible(session, known).is_some()
        })
    }

    /// Which arguments of a tool its definition wants in headers, too.
    pub fn headers(&self, profile: &str, tool: &str) -> mcp::server::Headers {
        let table = self.catalog.table();
        let profile = self.profiles.get(profile);
        let known = table.get(tool).filter(|known| {
            profile.is_some_and(|rules| rules.servers.iter().any(|one| one == known.source.name()))
        });
        known
            .map(|known| mcp::server::Headers::of_schema(&known.tool.input_schema))
            .unwrap_or_default()
    }

    /// Why `run_script` is not among [`Gateway::tools`], if it is not.
    pub fn without_scripts(&self, session: &Session) -> Option<String> {
        own::find(run_script::NAME)?.withheld(self, session)
    }

    /// Ends what runs, waits for it, and gives up the place among the processes that share the
    /// store.
    pub async fn close(&self) {
        self.stop.cancel();
        self.jobs.close();
        let ended = tokio::time::timeout(Duration::from_secs(20), self.jobs.wait()).await;
        self.events.close().await;
        if ended.is_err() {
            // The lock goes with the process, and the next one settles what is left.
            tracing::warn!("some calls did not end in time; the next start will settle them");
        } else if let Err(reason) = self.backlog.catch_up(&self.store).await {
            tracing::warn!(reason, "the store lacks how calls ended; the next start will add it");
        } else if let Err(error) = self.owner.leave(&self.store).await {
            tracing::warn!(%error, "the store could not be told that this process ends");
        }
        self.store.close().await;
    }
}

/// What is known of a tool for this session, if the session may see it at all.
pub(crate) fn visible(session: &Session, known: &Known) -> Option<Facts> {
    let profile = &session.profile;
    if !profile.servers.iter().any(|name| name == known.source.name()) {
        return None;
    }
    let rule = profile.tools.get(&known.name);
    let facts = Facts::of(known.tool.annotations, known.tool.task_support, rule);
    facts.offered(profile.permission_mode).then_some(facts)
}

pub(crate) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

fn check_names(
    sources: &[Arc<dyn Source>],
    profiles: &BTreeMap<String, Profile>,
    naming: &Naming,
) -> Result<(), Error> {
    let servers: Vec<&str> = sources.iter().map(|source| source.name()).collect();
    for (index, name) in servers.iter().enumerate() {
        if servers[..index].contains(name) {
            return Err(Error::Setting(format!("two servers are named {name:?}; rename one")));
        }
    }
    for (name, profile) in profiles {
        let wrong = |reason: String| Error::Setting(format!("profiles.{name}: {reason}"));
        profile.validate().map_err(wrong)?;
        for server in &profile.servers {
            if !servers.contains(&server.as_str()) {
                let known = names::similar(server, servers.iter().copied());
                return Err(wrong(format!(
                    "there is no server {server:?}{}",
                    names::did_you_mean(&known)
                )));
            }
        }
        // A rule for a tool that can never be there would protect nothing.
        for (tool, rule) in &profile.tools {
            if let Some(own) = own::find(tool) {
                let checked = own::check_rule(own, rule);
                checked.map_err(|what| wrong(format!("tools.{tool:?}: {what}")))?;
                continue;
            }
            let known = profile.servers.iter().any(|server| naming.belongs(tool, server));
            if !known {
                return Err(wrong(format!(
                    "tools.{tool:?} is about no server of the profile; tools are named \
                     server__tool, with one of {:?} before the __",
                    profile.servers
                )));
            }
        }
    }
    Ok(())
}

async fn beat(store: store::Store, mut row: store::Owner, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(owner::BEAT) => {}
        }
        row.seen_ms = now_ms();
        if let Err(error) = store.touch_owner(&row).await {
            tracing::warn!(%error, "the store could not be told that this process lives");
        }
    }
}

//! Puts the parts together: what a command needs to call tools.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use gateway::config::{Profile, Server};
use gateway::sources::upstream::{Memory, Patience, Upstream};
use gateway::sources::{Source, State};
use gateway::{Gateway, Parts, Session};
use serde_json::json;
use store::Store;
use tokio::sync::watch;

use crate::config::file::File;
use crate::config::{Config, did_you_mean};
use crate::credentials::Keeper;
use crate::failure::Failure;
use crate::terminal;

/// Who calls from the command line. One person owns the process, so there is one.
pub(crate) const PRINCIPAL: &str = "local";

/// The command line has one session per profile, so that files a script writes are found again.
const SESSION: &str = "cli";

/// How long a command waits for servers that are still starting.
const PATIENCE: Duration = Duration::from_secs(30);

/// After which the wait is explained.
const QUIET: Duration = Duration::from_secs(2);

/// An open gateway and the servers that were started for it.
pub(crate) struct Started {
    pub(crate) gateway: Arc<Gateway>,
    upstreams: Vec<Arc<Upstream>>,
    /// The server without prefix, if there is one.
    bare: Option<String>,
}

impl Started {
    /// Tells every change of a server's tools or state, for as long as it is polled.
    pub(crate) async fn tell_changes(&self, to: &watch::Sender<u64>) {
        let mut sources: Vec<_> = self.upstreams.iter().map(|one| one.changes()).collect();
        while !sources.is_empty() {
            let changed = sources.iter_mut().map(|source| Box::pin(source.changed()));
            let (result, index, rest) = futures_util::future::select_all(changed).await;
            drop(rest);
            match result {
                Ok(()) => to.send_modify(|count| *count += 1),
                Err(_) => drop(sources.remove(index)),
            }
        }
        std::future::pending().await
    }

    /// Ends what runs and the servers that were started, and waits for it.
    pub(crate) async fn close(self) {
        self.gateway.close().await;
        let closing = self.upstreams.iter().map(|upstream| upstream.close());
        futures_util::future::join_all(closing).await;
    }
}

/// The same with the command line's session.
pub(crate) struct Open {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) session: Arc<Session>,
    /// Servers of the profile that cannot be used now.
    pub(crate) not_ready: Vec<(String, State)>,
    started: Started,
}

impl Open {
    /// Ends what runs and the servers that were started, and waits for it.
    pub(crate) async fn close(self) {
        self.started.close().await;
    }
}

/// Starts the sandbox, the interpreter and the profile's servers, and waits for them as long as
/// is fair.
pub(crate) async fn open(config: &Config, profile: &str, wait: Wait<'_>) -> Result<Open, Failure> {
    let started = start(config, &[profile], Lifetime::OneCommand).await?;
    let gateway = started.gateway.clone();
    let session = gateway.session(PRINCIPAL, profile, SESSION).await.map_err(Failure::usage)?;
    let not_ready = settle(&session, &started, wait).await;
    warn_of_unused_rules(&gateway, &session);
    Ok(Open { gateway, session, not_ready, started })
}

/// How long what is started will be of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// For one script at most: an interpreter that waits for the next would wait in vain.
    OneCommand,
    /// For many.
    Server,
}

/// Starts what these profiles need without waiting for any server.
pub(crate) async fn start(
    config: &Config,
    profiles: &[&str],
    lifetime: Lifetime,
) -> Result<Started, Failure> {
    let profiles = profiles
        .iter()
        .map(|name| Ok(((*name).to_owned(), config.profile(name)?.clone())))
        .collect::<anyhow::Result<BTreeMap<String, Profile>>>()
        .map_err(Failure::usage)?;
    // All of them, before the first is started: a fault in the last should not cost a start.
    let endpoints = BTreeSet::from_iter(profiles.values().flat_map(|rules| &rules.servers))
        .into_iter()
        .map(|name| Ok((name, config.endpoint(name)?)))
        .collect::<anyhow::Result<Vec<_>>>()
        .map_err(Failure::usage)?;
    let bare = config
        .bare(endpoints.iter().map(|(name, _)| name.as_str()))
        .map_err(Failure::usage)?
        .map(str::to_owned);
    // What can fail without them comes before the servers are started.
    let store = store(config).await?;
    let endpoints = with_logins(config, &store, endpoints).map_err(Failure::usage)?;
    let upstreams: Vec<Arc<Upstream>> = endpoints
        .into_iter()
        .map(|(name, endpoint)| {
            let memory = memory(&config.file, name);
            Upstream::start_remembering(name, endpoint, Patience::default(), memory)
        })
        .collect();
    let sources =
        upstreams.iter().map(|upstream| Arc::clone(upstream) as Arc<dyn Source>).collect();
    let offer = Offer { sources, bare: bare.clone(), profiles };
    let gateway = gateway(config, store, offer, engine(config, lifetime).await).await?;
    Ok(Started { gateway, upstreams, bare })
}

/// Gives each server that may want a login the one that is kept for it.
fn with_logins<'a>(
    config: &Config,
    store: &Store,
    mut endpoints: Vec<(&'a String, mcp::Endpoint)>,
) -> anyhow::Result<Vec<(&'a String, mcp::Endpoint)>> {
    if endpoints.iter().all(|(_, endpoint)| matches!(endpoint, mcp::Endpoint::Stdio { .. })) {
        return Ok(endpoints);
    }
    let keeper = Keeper::new(config, store.clone())?;
    for (name, endpoint) in &mut endpoints {
        if let Some(login) = keeper.login(config, name, endpoint)? {
            *endpoint = endpoint.clone().with_login(login);
        }
    }
    Ok(endpoints)
}

/// Where the tools are kept that a server had last. `${…}` in its entry is not expanded here: no
/// secret goes into the name of a file.
pub(crate) fn memory(file: &File, name: &str) -> Memory {
    let configuration = file.servers.get(name).map(|server| {
        let Server { command, args, env, cwd, url, headers, .. } = server;
        json!([command, args, env, cwd, url, headers]).to_string()
    });
    Memory::new(&file.data_dir, name, &configuration.unwrap_or_default())
}

/// Makes the directory that holds everything pinfold writes, for its owner alone.
pub(crate) fn private_directory(path: &Path) -> anyhow::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(path).with_context(|| format!("cannot make data_dir {}", path.display()))
}

/// A gateway that knows the store and starts nothing.
pub(crate) async fn without_servers(config: &Config) -> Result<Arc<Gateway>, Failure> {
    let nothing = "not started for this command".to_owned();
    let store = store(config).await?;
    gateway(config, store, Offer::default(), (Err(nothing), "none".to_owned())).await
}

/// What is offered, and how it is named.
#[derive(Default)]
struct Offer {
    sources: Vec<Arc<dyn Source>>,
    bare: Option<String>,
    profiles: BTreeMap<String, Profile>,
}

/// The store, and before it the directory that everything is in.
pub(crate) async fn store(config: &Config) -> Result<Store, Failure> {
    private_directory(&config.file.data_dir).map_err(Failure::usage)?;
    Store::open(&config.database).await.map_err(Failure::usage)
}

async fn gateway(
    config: &Config,
    store: Store,
    offer: Offer,
    (engine, isolation): (Result<script::Engine, String>, String),
) -> Result<Arc<Gateway>, Failure> {
    let Offer { sources, bare, profiles } = offer;
    Gateway::open(Parts {
        store,
        engine,
        sources,
        bare,
        profiles,
        scripts: config.file.scripts.clone(),
        approvals: config.file.approvals.clone(),
        background: config.file.background_calls.clone(),
        data_dir: config.file.data_dir.clone(),
        isolation,
    })
    .await
    .map_err(Failure::usage)
}

/// What runs scripts and how well it confines them, or why there is nothing.
async fn engine(config: &Config, lifetime: Lifetime) -> (Result<script::Engine, String>, String) {
    let sandbox = match sandbox::Sandbox::start(sandbox::Options::default()).await {
        Ok(sandbox) => sandbox,
        Err(error) => return (Err(error.to_string()), "none".to_owned()),
    };
    let isolation = sandbox.level().name.clone();
    let engine = async {
        let python = script::Python::find(&config.file.execute.python).await?;
        let most = match lifetime {
            Lifetime::OneCommand => 0,
            Lifetime::Server => config.file.execute.warm_python as usize,
        };
        script::Engine::starting_ahead(sandbox, python, &config.file.data_dir, most)
    };
    (engine.await.map_err(|error: script::Error| error.to_string()), isolation)
}

/// Waits until what `wait` asks for is there or cannot be, at most [`PATIENCE`].
async fn settle(session: &Session, started: &Started, wait: Wait<'_>) -> Vec<(String, State)> {
    let Started { gateway, upstreams, bare } = started;
    // Names in a script do not tell those of a server without prefix.
    let needs = |name: &str| bare.as_deref() == Some(name) || wait.needs(name);
    let mut changes: Vec<_> = upstreams.iter().map(|upstream| upstream.changes()).collect();
    let starting = |needed: bool| -> Vec<&str> {
        let starting = upstreams.iter().filter(|one| one.snapshot().state == State::Starting);
        starting.map(|one| one.name()).filter(|name| !needed || needs(name)).collect()
    };
    let begun = Instant::now();
    let mut explained = false;
    loop {
        // Without any tool there are no scripts, so the first server to come is needed too.
        let waiting = match starting(true) {
            needed if !needed.is_empty() => needed,
            _ if gateway.without_scripts(session).is_some() => starting(false),
            _ => Vec::new(),
        };
        if waiting.is_empty() || begun.elapsed() >= PATIENCE {
            break;
        }
        let limit = if explained { PATIENCE } else { QUIET };
        let left = limit.saturating_sub(begun.elapsed());
        let any = changes.iter_mut().map(|change| Box::pin(change.changed()));
        let changed = tokio::time::timeout(left, futures_util::future::select_all(any)).await;
        if changed.is_err() && !explained {
            explained = true;
            let (names, most) = (waiting.join(", "), PATIENCE.as_secs());
            terminal::say(&format!("waiting up to {most} s for {names} to start"));
        }
    }
    let all = upstreams.iter().map(|one| (one.name().to_owned(), one.snapshot().state.clone()));
    all.filter(|(_, state)| *state != State::Ready).collect()
}

/// A rule for a tool that is not there protects nothing, and the person may think it does.
fn warn_of_unused_rules(gateway: &Gateway, session: &Session) {
    let tools = gateway.tools(session);
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    for rule in gateway.unused_rules(session.profile()) {
        terminal::say(&format!(
            "warning: profiles.{}.tools.\"{rule}\" has no effect: its server has no such tool{}",
            session.profile(),
            did_you_mean(&rule, &names)
        ));
    }
}

/// What `pinfold approvals` needs to find the same configuration and profile.
pub(crate) fn command_options(profile: Option<&str>, config: Option<&Path>) -> String {
    let mut options = String::new();
    if let Some(profile) = profile.filter(|profile| *profile != "default") {
        options.push_str(&format!(" --profile {}", quoted(profile)));
    }
    if let Some(path) = config {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        options.push_str(&format!(" --config {}", quoted(&path.display().to_string())));
    }
    options
}

/// A word for a shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./+:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// For which servers a command waits.
#[derive(Clone, Copy)]
pub(crate) enum Wait<'a> {
    /// For every server of the profile.
    All,
    /// For those whose tools stand in this script; a server that nobody needs holds nobody up.
    Named(&'a str),
}

impl Wait<'_> {
    fn needs(self, server: &str) -> bool {
        match self {
            Self::All => true,
            // Characters that a tool's name cannot have are replaced, so such a name tells nothing.
            Self::Named(script) => {
                let plain = server.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
                !plain || script.contains(&format!("{server}__"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_needs_the_servers_it_names() {
        let wait = Wait::Named("call('fleet__list_devices', {})");
        assert!(wait.needs("fleet") && !wait.needs("tickets"));
        assert!(wait.needs("odd name"), "its tools have another prefix, so it may be needed");
        assert!(Wait::All.needs("tickets"));
    }
}

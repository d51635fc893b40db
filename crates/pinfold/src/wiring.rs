//! Puts the parts together: what a command needs to call tools.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use gateway::sources::{Source, State};
use gateway::{Gateway, Parts, Session};

use crate::config::Config;
use crate::failure::Failure;
use crate::terminal;

/// Who calls from the command line. One person owns the process, so there is one.
const PRINCIPAL: &str = "local";

/// The command line has one session per profile, so that files a script writes are found again.
const SESSION: &str = "cli";

/// How long a command waits for servers that are still starting.
const PATIENCE: Duration = Duration::from_secs(30);

/// After which the wait is explained.
const QUIET: Duration = Duration::from_secs(2);

/// An open gateway with the command line's session.
pub(crate) struct Open {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) session: Arc<Session>,
    /// Servers of the profile that cannot be used now.
    pub(crate) not_ready: Vec<(String, State)>,
}

/// Starts the sandbox, the interpreter and the profile's servers, and waits for them as long as
/// is fair.
pub(crate) async fn open(config: &Config, profile: &str) -> Result<Open, Failure> {
    let rules = config.profile(profile).map_err(Failure::usage)?;
    let mut sources: Vec<Arc<dyn Source>> = Vec::new();
    for name in &rules.servers {
        let endpoint = config.endpoint(name).map_err(Failure::usage)?;
        sources.push(upstream(name, endpoint));
    }
    let data_dir = config.file.data_dir.clone();
    std::fs::create_dir_all(&data_dir)
        .with_context(|| format!("cannot make data_dir {}", data_dir.display()))
        .map_err(Failure::usage)?;
    let store = store::Store::open(&config.database).await.map_err(Failure::usage)?;
    let (engine, isolation) = engine(config).await;
    let parts = Parts {
        store,
        engine,
        sources,
        profiles: BTreeMap::from([(profile.to_owned(), rules.clone())]),
        scripts: config.file.scripts.clone(),
        approvals: config.file.approvals.clone(),
        data_dir,
        isolation,
    };
    let gateway = Gateway::open(parts).await.map_err(Failure::usage)?;
    let session = gateway.session(PRINCIPAL, profile, SESSION).await.map_err(Failure::usage)?;
    let not_ready = settled(&gateway, profile).await;
    Ok(Open { gateway, session, not_ready })
}

/// What runs scripts and how well it confines them, or why there is nothing.
async fn engine(config: &Config) -> (Result<script::Engine, String>, String) {
    let sandbox = match sandbox::Sandbox::start(sandbox::Options::default()).await {
        Ok(sandbox) => sandbox,
        Err(error) => return (Err(error.to_string()), "none".to_owned()),
    };
    let isolation = sandbox.level().name.clone();
    let engine = async {
        let python = script::Python::find(&config.file.execute.python).await?;
        script::Engine::new(sandbox, python, &config.file.data_dir)
    };
    (engine.await.map_err(|error: script::Error| error.to_string()), isolation)
}

async fn settled(gateway: &Gateway, profile: &str) -> Vec<(String, State)> {
    let waiting = gateway.settle(profile, QUIET).await;
    let starting: Vec<&str> = waiting
        .iter()
        .filter(|(_, state)| *state == State::Starting)
        .map(|(name, _)| name.as_str())
        .collect();
    if starting.is_empty() {
        return waiting;
    }
    terminal::say(&format!(
        "waiting up to {} s for {} to start",
        PATIENCE.as_secs(),
        starting.join(", ")
    ));
    gateway.settle(profile, PATIENCE).await
}

fn upstream(_name: &str, _endpoint: mcp::Endpoint) -> Arc<dyn Source> {
    unimplemented!()
}

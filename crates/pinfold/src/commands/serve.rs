//! `pinfold serve`: the tools of every profile over HTTP.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use mcp::server::Gate;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::run::watch_signals;
use crate::execution::OnDemand;
use crate::failure::Failure;
use crate::routes::{Access, Doors, Limits, Shared, router};
use crate::{config, listening, serving, terminal, wiring};

#[derive(clap::Args)]
pub(crate) struct Serve {
    /// Where to listen, instead of the configuration's `listen`
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
}

impl Serve {
    pub(crate) async fn run(self, given: Option<&Path>) -> Result<(), Failure> {
        let config = Arc::new(config::load(given).map_err(Failure::usage)?);
        let address = self.listen.unwrap_or(config.file.listen);
        let limits = config.file.limits.clone();
        wiring::private_directory(&config.file.data_dir).map_err(Failure::usage)?;
        let person = serving::person(&config.file.data_dir).map_err(Failure::usage)?;
        let access = Access::new(config.file.auth.clone(), &person);
        if access.is_open() && !address.ip().is_loopback() {
            return Err(Failure::usage(anyhow::anyhow!(
                "{address} can be reached from elsewhere and there are no tokens: add [auth] \
                 tokens, or listen on 127.0.0.1"
            )));
        }
        let gate = if access.is_open() { Gate::Loopback } else { Gate::Anywhere };
        raise_descriptor_limit();
        let stop = CancellationToken::new();
        watch_signals(stop.clone()).map_err(Failure::failed)?;
        let seal = serving::seal(&config.file.data_dir).map_err(Failure::usage)?;
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot listen on {address}; choose another with --listen"))
            .map_err(Failure::usage)?;
        let bound = listener.local_addr().map_err(Failure::failed)?;

        let open = access.is_open();
        let page = page(config.file.public_url.as_deref(), bound);
        let (opened, publishing) = watch::channel(None);
        let (changed, changes) = watch::channel(0);
        let doors = Doors::new(
            config.clone(),
            seal,
            gate.clone(),
            (publishing, changes),
            stop.child_token(),
            (given.map(Path::to_owned), page.clone()),
        );
        let shared = Shared {
            access: Arc::new(access),
            doors: Arc::new(doors),
            limits: Arc::new(Limits::new(&limits)),
            execution: Arc::new(OnDemand::new(
                config.file.execute.clone(),
                config.file.data_dir.clone(),
            )),
            gate,
            closing: stop.child_token(),
            public_url: config.file.public_url.as_deref().map(Arc::from),
        };
        let ending = stop.clone();
        let mut serving = tokio::spawn(async move {
            listening::serve(listener, router(shared), &limits, ending).await;
        });
        terminal::say(&format!("listening on http://{bound}/mcp"));
        if let Some(page) = &page {
            // The key opens the page; whoever sees this terminal is the person.
            let key = if open { format!("?code={person}") } else { String::new() };
            terminal::say(&format!("approvals: {page}{key}"));
        }
        let profiles: Vec<&str> = config.file.profiles.keys().map(String::as_str).collect();
        let started = wiring::start(&config, &profiles, wiring::Lifetime::Server).await?;
        opened.send_replace(Some(started.gateway.clone()));
        let ended = tokio::select! {
            served = &mut serving => served.map_err(Failure::failed),
            () = started.tell_changes(&changed) => Ok(()),
            () = stop.cancelled() => Ok(()),
        };
        stop.cancel();
        started.close().await;
        if !serving.is_finished() {
            let _ = serving.await;
        }
        ended
    }
}

/// Where people find the approvals; nothing where no address is sure to lead here.
fn page(public_url: Option<&str>, bound: SocketAddr) -> Option<String> {
    let base = match public_url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None if bound.ip().is_unspecified() => return None,
        None => format!("http://{bound}"),
    };
    Some(format!("{base}/approvals"))
}

/// Each session that listens has a descriptor, and a shell usually lets a program have 1024.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit of open descriptors stays as it is");
    }
}

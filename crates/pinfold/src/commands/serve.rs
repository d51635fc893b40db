//! `pinfold serve`: the tools of every profile over HTTP.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use mcp::server::Gate;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::run::watch_signals;
use crate::failure::Failure;
use crate::routes::{Access, Doors, Shared, router};
use crate::{config, serving, terminal, wiring};

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
        let access = Access::new(config.file.auth.clone());
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
        wiring::private_directory(&config.file.data_dir).map_err(Failure::usage)?;
        let seal = serving::seal(&config.file.data_dir).map_err(Failure::usage)?;
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot listen on {address}; choose another with --listen"))
            .map_err(Failure::usage)?;
        let bound = listener.local_addr().map_err(Failure::failed)?;

        let (opened, publishing) = watch::channel(None);
        let (changed, changes) = watch::channel(0);
        let doors = Doors::new(
            config.clone(),
            seal,
            gate,
            (publishing, changes),
            stop.child_token(),
            given.map(Path::to_owned),
        );
        let shared = Shared {
            access: Arc::new(access),
            doors: Arc::new(doors),
            public_url: config.file.public_url.as_deref().map(Arc::from),
        };
        let ending = stop.clone();
        let serving = async move {
            use axum::serve::ListenerExt as _;
            // An answer is small and has to leave at once.
            let listener = listener.tap_io(|stream| {
                let _ = stream.set_nodelay(true);
            });
            axum::serve(listener, router(shared))
                .with_graceful_shutdown(async move { ending.cancelled().await })
                .await
        };
        let serving = tokio::spawn(serving);
        terminal::say(&format!("listening on http://{bound}/mcp"));
        let profiles: Vec<&str> = config.file.profiles.keys().map(String::as_str).collect();
        let started = wiring::start(&config, &profiles).await?;
        opened.send_replace(Some(started.gateway.clone()));
        let ended = tokio::select! {
            served = serving => served.map_err(Failure::failed)?.map_err(Failure::failed),
            () = started.tell_changes(&changed) => Ok(()),
            () = stop.cancelled() => Ok(()),
        };
        stop.cancel();
        started.close().await;
        ended
    }
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

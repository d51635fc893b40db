//! `pinfold mcp`: the tools of a profile over standard input and output, for a client that starts
//! its servers itself.
//!
//! Nothing but the protocol may be printed here.

use std::path::Path;

use mcp::server::serve_stdio;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::run::watch_signals;
use crate::failure::Failure;
use crate::serving::{self, Offer};
use crate::{config, wiring};

#[derive(clap::Args)]
pub(crate) struct Mcp {
    /// The profile that says which servers and rules apply
    #[arg(long, value_name = "NAME", default_value = "default")]
    profile: String,

    /// Continue this session: its workspace, and what was allowed in it. Otherwise each process
    /// has a new one
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
}

impl Mcp {
    pub(crate) async fn run(self, given: Option<&Path>) -> Result<(), Failure> {
        let config = config::load(given).map_err(Failure::usage)?;
        let stop = CancellationToken::new();
        watch_signals(stop.clone()).map_err(Failure::failed)?;
        wiring::private_directory(&config.file.data_dir).map_err(Failure::usage)?;
        let seal = serving::seal(&config.file.data_dir).map_err(Failure::usage)?;
        let key = self.session.clone().unwrap_or_else(|| {
            format!("stdio {} {}", std::process::id(), jiff::Timestamp::now().as_nanosecond())
        });
        let (opened, published) = watch::channel(None);
        let (changed, changes) = watch::channel(0);
        let offer = Offer::new(
            &config,
            &self.profile,
            wiring::PRINCIPAL,
            &key,
            // No page: nothing is known of a `pinfold serve` that shares the store.
            serving::Answers {
                command_options: wiring::command_options(Some(&self.profile), given),
                page: None,
            },
            published,
        );
        let opening = async {
            let started =
                wiring::start(&config, &[&self.profile], wiring::Lifetime::Server).await?;
            // What is wrong with its workspace should be told now, not to the first caller.
            let session = started.gateway.session(wiring::PRINCIPAL, &self.profile, &key).await;
            if let Err(error) = session {
                started.close().await;
                return Err(Failure::usage(error));
            }
            opened.send_replace(Some(started.gateway.clone()));
            Ok(started)
        };
        let serving = serve_stdio(offer.clone(), seal, stop.clone());
        tokio::pin!(opening, serving);
        let started: wiring::Started = tokio::select! {
            started = &mut opening => match started {
                Ok(started) => started,
                Err(failure) => {
                    stop.cancel();
                    let _ = serving.await;
                    return Err(failure);
                }
            },
            served = &mut serving => {
                // The client went away; what was begun has to be ended in good order.
                if let Ok(started) = opening.await {
                    started.close().await;
                }
                return served.map_err(Failure::failed);
            }
        };
        let served = tokio::select! {
            served = &mut serving => served,
            () = started.tell_changes(&changed) => Ok(()),
            () = offer.watch(changes) => Ok(()),
        };
        started.close().await;
        served.map_err(Failure::failed)
    }
}

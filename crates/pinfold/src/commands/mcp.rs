//! `pinfold mcp`: the tools of a profile over standard input and output, for a client that starts
//! its servers itself.
//!
//! Nothing but the protocol may be printed here.

use std::path::Path;

use anyhow::Context;
use mcp::server::{Seal, serve_stdio};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::run::watch_signals;
use crate::failure::Failure;
use crate::serving::{Offer, Opened};
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
        let seal = Seal::generate().context("no random numbers").map_err(Failure::failed)?;
        let key = self.session.clone().unwrap_or_else(|| {
            format!("stdio {} {}", std::process::id(), jiff::Timestamp::now().as_nanosecond())
        });
        let (opened, published) = watch::channel(None);
        let offer = Offer::new(
            &config,
            &self.profile,
            wiring::PRINCIPAL,
            &self.command_options(given),
            published,
        );
        let opening = async {
            let open = wiring::start(&config, &self.profile, &key).await?;
            let (gateway, session) = (open.gateway.clone(), open.session.clone());
            opened.send_replace(Some(Opened { gateway, session }));
            Ok(open)
        };
        let serving = serve_stdio(offer.clone(), seal, stop.clone());
        tokio::pin!(opening, serving);
        let open = tokio::select! {
            open = &mut opening => open,
            served = &mut serving => {
                // The client went away; what was begun has to be ended in good order.
                if let Ok(open) = opening.await {
                    let open: wiring::Open = open;
                    open.close().await;
                }
                return served.map_err(Failure::failed);
            }
        };
        let open = match open {
            Ok(open) => open,
            Err(failure) => {
                stop.cancel();
                let _ = serving.await;
                return Err(failure);
            }
        };
        let watching = offer.watch(open.changes());
        let served = tokio::select! {
            served = &mut serving => served,
            () = async { watching.await; std::future::pending().await } => Ok(()),
        };
        open.close().await;
        served.map_err(Failure::failed)
    }

    /// What another command needs to find the same configuration and profile.
    fn command_options(&self, given: Option<&Path>) -> String {
        let mut options = String::new();
        if self.profile != "default" {
            options.push_str(&format!(" --profile {}", quoted(&self.profile)));
        }
        if let Some(path) = given {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            options.push_str(&format!(" --config {}", quoted(&path.display().to_string())));
        }
        options
    }
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./+:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

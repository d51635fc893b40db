//! `pinfold login` and `pinfold logout`: a person gives pinfold an account at a server, or takes it
//! back.

use std::io::BufRead as _;
use std::path::Path;
use std::time::Duration;

use anyhow::anyhow;
use mcp::auth::{Asked, Grant, Notice};
use tokio::sync::mpsc;

use crate::config::{self, Config, did_you_mean};
use crate::credentials::Keeper;
use crate::failure::Failure;
use crate::{terminal, wiring};

/// How long the server may take to show that it accepts the login.
const TRIAL: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
pub(crate) struct Login {
    /// The server, as the configuration calls it
    #[arg(value_name = "SERVER")]
    server: String,

    /// Ask for this right as well; may be given several times
    #[arg(long, value_name = "NAME")]
    scope: Vec<String>,
}

#[derive(clap::Args)]
pub(crate) struct Logout {
    /// The server, as the configuration calls it, or called it
    #[arg(value_name = "SERVER")]
    server: String,
}

impl Login {
    pub(crate) async fn run(self, given: Option<&Path>) -> Result<(), Failure> {
        let config = config::load(given).map_err(Failure::usage)?;
        let name = self.server.as_str();
        known(&config, name)?;
        let endpoint = config.endpoint(name).map_err(Failure::usage)?;
        let store = wiring::store(&config).await?;
        let keeper = Keeper::new(&config, store.clone()).map_err(Failure::usage)?;
        let login = keeper.login(&config, name, &endpoint).map_err(Failure::usage)?;
        let Some(login) = login else {
            return Err(Failure::usage(anyhow!(
                "{name} needs no login: it is a program, or has a token in its `headers`"
            )));
        };
        let granted = if login.settings().grant == Grant::ClientCredentials {
            login.try_unattended().await.map_err(Failure::failed)?;
            None
        } else {
            let asked = login.begin(&self.scope).await.map_err(Failure::failed)?;
            Some(answered(name, asked).await?)
        };
        let scopes = match granted.filter(|scopes| !scopes.is_empty()) {
            Some(scopes) => format!(" with the rights {}", scopes.join(" ")),
            None => String::new(),
        };
        terminal::say(&format!("logged in at {name}{scopes}"));
        let tried = try_out(&endpoint.with_login(login)).await;
        store.close().await;
        match tried {
            Ok(tools) => {
                terminal::say(&format!("it offers {tools} tools"));
                Ok(())
            }
            Err(error) => Err(Failure::failed(anyhow!("but the server cannot be used: {error}"))),
        }
    }
}

/// Shows where to log in and waits for it.
async fn answered(name: &str, asked: Asked) -> Result<Vec<String>, Failure> {
    terminal::say(&format!("to log in at {name}, open this address in a browser:"));
    terminal::print(&format!("{}\n", asked.address())).map_err(Failure::unwritten)?;
    let (pasted, lines) = mpsc::unbounded_channel();
    if terminal::has_person() {
        terminal::say(
            "if that browser is on another machine, it ends at an address there that cannot be \
             opened: paste that address here",
        );
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                if !line.trim().is_empty() && pasted.send(line).is_err() {
                    return;
                }
            }
        });
    }
    let notice = |notice| {
        terminal::say(match notice {
            Notice::Stranger => {
                "an answer that does not belong to this login came to the port; it is passed over"
            }
            Notice::NotTheAnswer => "that is not the address of the answer to this login",
        });
    };
    asked.finish(lines, notice).await.map_err(Failure::failed)
}

/// Whether the server takes the login: how many tools it offers.
async fn try_out(endpoint: &mcp::Endpoint) -> Result<usize, mcp::Error> {
    let (events, _ignored) = mpsc::unbounded_channel();
    let client = mcp::Client::connect(endpoint, TRIAL, events).await?;
    let tools = client.list_tools().await;
    client.close().await;
    tools.map(|tools| tools.len())
}

impl Logout {
    pub(crate) async fn run(self, given: Option<&Path>) -> Result<(), Failure> {
        let config = config::load(given).map_err(Failure::usage)?;
        let store = wiring::store(&config).await?;
        let forgotten = store.forget_credentials(&self.server).await.map_err(Failure::failed)?;
        store.close().await;
        if forgotten == 0 {
            known(&config, &self.server)?;
            terminal::say(&format!("nobody was logged in at {}", self.server));
        } else {
            terminal::say(&format!("logged out of {}", self.server));
        }
        Ok(())
    }
}

fn known(config: &Config, name: &str) -> Result<(), Failure> {
    if config.file.servers.contains_key(name) {
        return Ok(());
    }
    let names: Vec<&String> = config.file.servers.keys().collect();
    Err(Failure::usage(anyhow!("there is no server {name:?}{}", did_you_mean(name, &names))))
}

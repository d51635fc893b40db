//! How it stands with the logins, told from what is kept; no server is asked.

use serde::Serialize;

use super::{KEY, Keeper};
use crate::config::Config;
use crate::wiring;

/// How it stands with the login at one server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Standing {
    /// The server's name.
    pub(crate) server: String,
    /// In words.
    pub(crate) standing: String,
}

/// Of all servers that somebody logged in at, or that are configured for it.
pub(crate) async fn standings(config: &Config) -> Vec<Standing> {
    let mut found = Vec::new();
    // Nothing is made for the sake of looking: without a key nobody has logged in.
    let is_new = config.file.credentials_key.is_none() && !config.file.data_dir.join(KEY).exists();
    let keeper = match is_new {
        true => None,
        false => match wiring::store(config).await {
            Ok(store) => Keeper::new(config, store).ok(),
            Err(_) => None,
        },
    };
    for (server, entry) in &config.file.servers {
        let standing = match &keeper {
            Some(keeper) => standing(config, keeper, server).await,
            None => Ok(None),
        };
        let asked = entry.oauth.is_some();
        let standing = match standing {
            Ok(Some(standing)) => standing,
            Ok(None) if !asked => continue,
            Ok(None) => mcp::auth::Standing::None,
            Err(why) => {
                found.push(Standing { server: server.clone(), standing: why });
                continue;
            }
        };
        let command = config.login_command(server);
        use mcp::auth::Standing as Found;
        let standing = match standing {
            Found::None if !asked => continue,
            Found::None => format!("needs login: {command}"),
            Found::Refused(why) => format!("needs login: {command} ({why})"),
            Found::Unattended => "logs in by client credentials".to_owned(),
            Found::LoggedIn { renews: true, .. } => "logged in; the login renews itself".to_owned(),
            Found::LoggedIn { expires_at, .. } => match expires_at.map(until) {
                Some(until) => format!("logged in until {until}"),
                None => "logged in".to_owned(),
            },
        };
        found.push(Standing { server: server.clone(), standing });
    }
    found
}

async fn standing(
    config: &Config,
    keeper: &Keeper,
    server: &str,
) -> Result<Option<mcp::auth::Standing>, String> {
    let endpoint = config.endpoint(server).map_err(|error| error.to_string())?;
    let login = keeper.login(config, server, &endpoint).map_err(|error| error.to_string())?;
    match login {
        Some(login) => login.standing().await.map(Some),
        None => Ok(None),
    }
}

fn until(seconds: u64) -> String {
    let at = i64::try_from(seconds).ok().and_then(|at| jiff::Timestamp::from_second(at).ok());
    at.map_or_else(|| "later".to_owned(), |at| at.to_string())
}

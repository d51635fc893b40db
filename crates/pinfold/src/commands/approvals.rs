//! `pinfold approvals`: answers questions about calls that wait for a person.
//!
//! A call that found nobody to ask leaves its question open for a while; once it is answered here,
//! the same call made again finds the answer.

use std::path::Path;

use gateway::{Answer, Approval};

use crate::failure::Failure;
use crate::terminal::approve::question;
use crate::wiring::{self, Wait};
use crate::{config, terminal};

/// Rows of a script in the list.
const ROWS: usize = 40;

#[derive(clap::Args)]
pub(crate) struct Approvals {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Show the questions that are open
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Allow it, once
    Approve {
        /// The question, as `list` names it
        id: String,
        /// The profile under which it was asked
        #[arg(long, value_name = "NAME", default_value = "default")]
        profile: String,
    },
    /// Refuse it
    Deny {
        /// The question, as `list` names it
        id: String,
        /// Why; the model sees it
        #[arg(long, default_value = "")]
        reason: String,
    },
}

impl Approvals {
    pub(crate) async fn run(self, config: Option<&Path>) -> Result<(), Failure> {
        let config = config::load(config).map_err(Failure::usage)?;
        match self.action.unwrap_or(Action::List { json: false }) {
            Action::List { json } => {
                let gateway = wiring::without_servers(&config).await?;
                let open = gateway.approvals().await;
                gateway.close().await;
                show(&open.map_err(Failure::failed)?, json)
            }
            Action::Approve { id, profile } => {
                // With its servers: what was asked about must still be what it was.
                let open = wiring::open(&config, &profile, Wait::All).await?;
                let answered = open.gateway.answer(&id, Answer::Once, "pinfold approvals").await;
                open.close().await;
                let answered = answered.map_err(Failure::failed)?;
                terminal::say(&format!(
                    "allowed once; make the call of {} again within {} s",
                    answered.tool, config.file.approvals.expire_sec
                ));
                Ok(())
            }
            Action::Deny { id, reason } => {
                let gateway = wiring::without_servers(&config).await?;
                let answered =
                    gateway.answer(&id, Answer::Deny { reason }, "pinfold approvals").await;
                gateway.close().await;
                answered.map_err(Failure::failed)?;
                terminal::say("denied");
                Ok(())
            }
        }
    }
}

fn show(open: &[Approval], json: bool) -> Result<(), Failure> {
    if json {
        let text = serde_json::to_string_pretty(open).map_err(Failure::failed)?;
        terminal::print(&format!("{text}\n")).map_err(Failure::unwritten)?;
    } else if open.is_empty() {
        terminal::say("no question is open");
    } else {
        for approval in open {
            let question = question(approval, &[], ROWS);
            terminal::print(&format!("{}{question}", approval.id)).map_err(Failure::unwritten)?;
        }
    }
    Ok(())
}

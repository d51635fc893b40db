//! `pinfold tools`: what a profile offers, and under which rules.

use std::fmt::Write;
use std::path::Path;

use serde_json::json;

use super::run::describe;
use crate::failure::Failure;
use crate::show::Shown;
use crate::terminal::approve::word;
use crate::wiring::{self, Wait};
use crate::{config, terminal};

#[derive(clap::Args)]
pub(crate) struct Tools {
    /// The profile
    #[arg(long, value_name = "NAME", default_value = "default")]
    profile: String,

    /// Print JSON, with every tool's whole definition
    #[arg(long)]
    json: bool,
}

impl Tools {
    pub(crate) async fn run(self, config: Option<&Path>) -> Result<(), Failure> {
        let config = config::load(config).map_err(Failure::usage)?;
        let open = wiring::open(&config, &self.profile, Wait::All).await?;
        let tools = open.gateway.tools(&open.session);
        let without_scripts = open.gateway.without_scripts(&open.session);
        let left_out = open.gateway.left_out(open.session.profile());
        let printed = if self.json {
            let servers: Vec<_> = open
                .not_ready
                .iter()
                .map(|(name, state)| json!({"name": name, "state": describe(state)}))
                .collect();
            let all = json!({
                "tools": tools,
                "servers_not_ready": servers,
                "run_script_not_offered": without_scripts,
                "left_out": left_out
                    .iter()
                    .map(|(server, why)| json!({"server": server, "why": why}))
                    .collect::<Vec<_>>(),
            });
            terminal::print(&format!("{all:#}\n"))
        } else {
            let printed = terminal::print(&table(&tools));
            for (name, state) in &open.not_ready {
                let remembered =
                    tools.iter().any(|tool| tool.source == *name && tool.is_remembered);
                let last = if remembered { "; its tools are those of the last time" } else { "" };
                terminal::say(&format!("warning: server {name} {}{last}", describe(state)));
            }
            for (server, why) in &left_out {
                terminal::say(&format!("left out: server {server}: {}", Shown::line(why)));
            }
            if let Some(reason) = without_scripts {
                terminal::say(&format!("run_script is not offered: {reason}"));
            }
            printed
        };
        open.close().await;
        printed.map_err(Failure::unwritten)
    }
}

fn table(tools: &[gateway::Listed]) -> String {
    let width = |of: fn(&gateway::Listed) -> usize, least: usize| {
        tools.iter().map(of).max().unwrap_or_default().max(least)
    };
    let name = width(|tool| tool.name.len(), 4);
    let source = width(|tool| tool.source.len(), 6);
    let mut text = String::new();
    let mut row = |cells: [&str; 5]| {
        let [a, b, c, d, e] = cells;
        let line = format!("{a:<name$}  {b:<source$}  {c:<11}  {d:<8}  {e}");
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{}", line.trim_end());
    };
    row(["tool", "source", "effect", "approval", "in scripts"]);
    for tool in tools {
        let in_scripts = match (tool.in_scripts, tool.effect) {
            (false, _) if tool.task_only => "no: only as a task",
            (false, _) => "no",
            (true, gateway::policy::Effect::Read) => "yes",
            (true, _) => "if listed",
        };
        row([
            &Shown::line(&tool.name).to_string(),
            &Shown::line(&tool.source).to_string(),
            &word(tool.effect),
            &word(tool.approval),
            in_scripts,
        ]);
    }
    text
}

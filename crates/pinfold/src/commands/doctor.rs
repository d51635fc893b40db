//! `pinfold doctor`: what this host can isolate, tried and told layer by layer.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use serde::Serialize;

use crate::config::file::File;
use crate::credentials::{self, Standing};
use crate::failure::Failure;
use crate::show::Shown;
use crate::{config, terminal, wiring};

#[derive(clap::Args)]
pub(crate) struct Doctor {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was found.
#[derive(Serialize)]
struct Findings {
    version: &'static str,
    isolation: Option<sandbox::Level>,
    /// Why nothing can be isolated.
    isolation_fault: Option<String>,
    python: Option<Python>,
    python_fault: Option<String>,
    /// Whether a script was parsed by that interpreter inside a sandbox.
    run_script_offered: bool,
    run_script_fault: Option<String>,
    /// How it stands with logins at servers.
    logins: Vec<Standing>,
    /// What of the servers' tools could not be offered when they were last listed.
    left_out: Vec<LeftOut>,
}

#[derive(Serialize)]
struct LeftOut {
    server: String,
    why: String,
}

#[derive(Serialize)]
struct Python {
    executable: PathBuf,
    version: String,
}

impl Doctor {
    pub(crate) async fn run(self, config: Option<&Path>) -> Result<(), Failure> {
        let (config, passed_over) = config::load_or_none(config).map_err(Failure::usage)?;
        if let Some(reason) = passed_over {
            terminal::say(&format!("warning: looked at without a configuration: {reason}"));
        }
        let python = config.as_ref().map(|config| config.file.execute.python.as_str());
        let mut findings = examine(python.unwrap_or("auto")).await;
        if let Some(config) = &config {
            findings.left_out = left_out(&config.file);
            findings.logins = credentials::standings(config).await;
        }
        if self.json {
            let text = serde_json::to_string_pretty(&findings).map_err(Failure::failed)?;
            terminal::print(&format!("{text}\n"))
        } else {
            terminal::print(&report(&findings))
        }
        .map_err(Failure::unwritten)?;
        match findings.run_script_offered {
            true => Ok(()),
            false if self.json => Err(Failure::shown()),
            false => Err(Failure::failed(anyhow!(
                "run_script cannot be offered on this host; see above"
            ))),
        }
    }
}

/// Servers are not started for this: it is what they said when they last were.
fn left_out(file: &File) -> Vec<LeftOut> {
    let of_server = |server: &String| {
        let kept = wiring::memory(file, server).read().unwrap_or_default();
        let server = server.clone();
        kept.left_out.into_iter().map(move |why| LeftOut { server: server.clone(), why })
    };
    file.servers.keys().flat_map(of_server).collect()
}

async fn examine(python: &str) -> Findings {
    let mut findings = Findings {
        version: env!("CARGO_PKG_VERSION"),
        isolation: None,
        isolation_fault: None,
        python: None,
        python_fault: None,
        run_script_offered: false,
        run_script_fault: None,
        logins: Vec::new(),
        left_out: Vec::new(),
    };
    let sandbox = match sandbox::Sandbox::start(sandbox::Options::default()).await {
        Ok(sandbox) => {
            findings.isolation = Some(sandbox.level().clone());
            Some(sandbox)
        }
        Err(error) => {
            findings.isolation_fault = Some(error.to_string());
            None
        }
    };
    let python = match script::Python::find(python).await {
        Ok(python) => {
            let (major, minor, micro) = python.version;
            findings.python = Some(Python {
                executable: python.executable.clone(),
                version: format!("{major}.{minor}.{micro}"),
            });
            Some(python)
        }
        Err(error) => {
            findings.python_fault = Some(error.to_string());
            None
        }
    };
    if let (Some(sandbox), Some(python)) = (sandbox, python) {
        match try_script(sandbox, python).await {
            Ok(()) => findings.run_script_offered = true,
            Err(fault) => findings.run_script_fault = Some(fault),
        }
    }
    findings
}

/// Lets the interpreter parse a line inside the sandbox, as `run_script` would.
async fn try_script(sandbox: sandbox::Sandbox, python: script::Python) -> Result<(), String> {
    let place = std::env::temp_dir().join(format!("pinfold-doctor-{}", std::process::id()));
    std::fs::create_dir(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    let tried = async {
        let engine = script::Engine::new(sandbox, python, &place)?;
        engine.check("print('well')").await
    };
    let checked = tried.await;
    let _ = std::fs::remove_dir_all(&place);
    match checked {
        Ok(script::Checked::Parses { .. }) => Ok(()),
        Ok(script::Checked::SyntaxError { message, .. }) => {
            Err(format!("the interpreter calls a right script wrong: {message}"))
        }
        Err(error) => Err(error.to_string()),
    }
}

fn report(findings: &Findings) -> String {
    let mut lines = vec![format!("pinfold {}", findings.version), String::new()];
    match (&findings.isolation, &findings.isolation_fault) {
        (Some(level), _) => {
            lines.push(format!("isolation: {}", level.name));
            let width = level.layers.iter().map(|layer| layer.name.len()).max().unwrap_or(0);
            for layer in &level.layers {
                let mark = if layer.works { "✓" } else { "✗" };
                lines.push(format!("  {mark} {:<width$}  {}", layer.name, layer.found));
                if let Some(hint) = &layer.hint {
                    lines.push(format!("    {:<width$}  → {hint}", ""));
                }
            }
        }
        (None, fault) => lines.push(format!("isolation: none: {}", said(fault))),
    }
    lines.push(String::new());
    lines.push(match &findings.python {
        Some(python) => {
            format!("python: {} at {}", python.version, python.executable.display())
        }
        None => format!("python: none: {}", said(&findings.python_fault)),
    });
    lines.push(match (findings.run_script_offered, &findings.run_script_fault) {
        (true, _) => "run_script: offered; a script was parsed in the sandbox".to_owned(),
        (false, Some(fault)) => format!("run_script: not offered: {fault}"),
        (false, None) => "run_script: not offered, for the reason above".to_owned(),
    });
    for login in &findings.logins {
        lines.push(format!("server {}: {}", login.server, login.standing));
    }
    for LeftOut { server, why } in &findings.left_out {
        lines.push(format!("left out, when {server} was last asked: {}", Shown::line(why)));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn said(fault: &Option<String>) -> &str {
    fault.as_deref().unwrap_or("not examined")
}

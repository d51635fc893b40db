//! One file per verb: its arguments, its help, what it does.

mod approvals;
mod doctor;
mod exec;
mod login;
mod mcp;
mod run;
mod serve;
mod tools;

use std::path::Path;

use crate::failure::Failure;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Run a script that calls tools
    Run(run::Run),
    /// Run one function, as POST /execute does, and print its answer
    Exec(exec::Exec),
    /// Serve the tools of every profile over HTTP
    Serve(serve::Serve),
    /// Serve the tools over standard input and output, for Claude Code, Codex and other clients
    Mcp(mcp::Mcp),
    /// List every tool with its source, effect and approval rule
    Tools(tools::Tools),
    /// Log in at a server that wants it, with a browser
    Login(login::Login),
    /// Forget the login at a server
    Logout(login::Logout),
    /// Answer questions about calls that wait for a person
    Approvals(approvals::Approvals),
    /// Say what this host can isolate, and try it
    Doctor(doctor::Doctor),
}

impl Command {
    pub(crate) async fn run(self, config: Option<&Path>) -> Result<(), Failure> {
        match self {
            Self::Run(command) => command.run(config).await,
            Self::Exec(command) => command.run(config).await,
            Self::Serve(command) => command.run(config).await,
            Self::Mcp(command) => command.run(config).await,
            Self::Tools(command) => command.run(config).await,
            Self::Login(command) => command.run(config).await,
            Self::Logout(command) => command.run(config).await,
            Self::Approvals(command) => command.run(config).await,
            Self::Doctor(command) => command.run(config).await,
        }
    }
}

//! The gateway: what it is made of and what can be asked of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::approval::{Answer, Answered};
use crate::call::{Outcome, Request};
use crate::config::{Approvals, Profile, Scripts};
use crate::policy::{ApprovalRule, Effect};
use crate::session::Session;
use crate::sources::{Source, State};

/// What a gateway is made of.
#[derive(Debug)]
pub struct Parts {
    /// Rows.
    pub store: store::Store,
    /// What runs scripts, or why `run_script` cannot be offered.
    pub engine: Result<script::Engine, String>,
    /// The user's servers.
    pub sources: Vec<Arc<dyn Source>>,
    /// By name.
    pub profiles: BTreeMap<String, Profile>,
    /// Bounds of scripts.
    pub scripts: Scripts,
    /// How approvals behave.
    pub approvals: Approvals,
    /// Where everything is written; workspaces of sessions are below it.
    pub data_dir: PathBuf,
    /// The isolation level in force, for audit rows.
    pub isolation: String,
}

/// Why the gateway could not do something that is not a tool call.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting cannot be used; says which and what would do.
    #[error("{0}")]
    Setting(String),
    /// The workspace cannot be used; says why and what to do.
    #[error("{0}")]
    Workspace(String),
    /// No such approval, or it can no longer be answered that way.
    #[error("{0}")]
    Approval(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// A tool as it is offered to a session.
#[derive(Clone, Debug, Serialize)]
pub struct Listed {
    /// Its full name.
    pub name: String,
    /// The source's name; `pinfold` for our own.
    pub source: String,
    /// What it does to the world.
    pub effect: Effect,
    /// When a person is asked.
    pub approval: ApprovalRule,
    /// Whether it can only be run as a task.
    pub task_only: bool,
    /// Whether scripts can call it (listed, if it writes).
    pub in_scripts: bool,
    /// The whole definition, as the source sent it, with the full name in it.
    pub definition: Arc<RawValue>,
}

/// Decides about, runs and records every tool call.
#[derive(Debug)]
pub struct Gateway {}

impl Gateway {
    /// Puts the parts together and settles what a crashed process left behind.
    pub async fn open(_parts: Parts) -> Result<Arc<Self>, Error> {
        unimplemented!()
    }

    /// Waits until no server of the profile is still starting, or the limit. Says which are not
    /// ready and why.
    pub async fn settle(&self, _profile: &str, _limit: Duration) -> Vec<(String, State)> {
        unimplemented!()
    }

    /// Opens (or opens again) the session that `key` names for this principal and profile.
    pub async fn session(
        &self,
        _principal: &str,
        _profile: &str,
        _key: &str,
    ) -> Result<Arc<Session>, Error> {
        unimplemented!()
    }

    /// Every tool that is offered to the session, sorted by name.
    pub fn tools(&self, _session: &Session) -> Vec<Listed> {
        unimplemented!()
    }

    /// Why `run_script` is not among [`Gateway::tools`], if it is not.
    pub fn without_scripts(&self, _session: &Session) -> Option<String> {
        unimplemented!()
    }

    /// Carries out a call. If the returned future is dropped, the call is cancelled.
    pub async fn call(self: &Arc<Self>, _request: Request) -> Outcome {
        unimplemented!()
    }

    /// Answers an approval; `by` says who, for the record.
    pub async fn answer(&self, _id: &str, _answer: Answer, _by: &str) -> Result<Answered, Error> {
        unimplemented!()
    }

    /// Ends what the gateway does in the background and gives up its place among the processes
    /// that share the store.
    pub async fn close(&self) {
        unimplemented!()
    }
}

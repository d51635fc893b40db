//! What a tool may do, as a pure function over plain values.
//!
//! [`Facts`] are what is known of a tool, [`decide`] is the whole permission table. Nothing here
//! reads a clock, a store or a configuration, so the table can be tested row by row.

use serde::{Deserialize, Serialize};

use crate::config::ToolRule;

#[cfg(test)]
mod tests;

/// What a tool does to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Changes nothing.
    Read,
    /// Changes something.
    Write,
    /// Changes something that cannot be brought back.
    Destructive,
}

/// When a person is asked about a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalRule {
    /// As the permission mode says.
    Mode,
    /// Never.
    Direct,
    /// Each time, in every mode.
    Always,
    /// The tool is not offered at all.
    Off,
}

/// What a profile does with tools that change something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionMode {
    /// A person is asked.
    #[default]
    Ask,
    /// They run.
    Auto,
    /// They are not offered.
    ReadOnly,
}

/// What is known of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Facts {
    /// What it does to the world.
    pub effect: Effect,
    /// When a person is asked.
    pub approval: ApprovalRule,
    /// Whether it can only be run as a task.
    pub task_only: bool,
}

impl Facts {
    /// What the annotations say, unless the profile's rule knows better.
    ///
    /// `readOnlyHint` wins over `destructiveHint`, because the latter means something only for
    /// tools that are not read-only (and frameworks send its default along).
    pub fn of(
        annotations: mcp::Annotations,
        task_support: mcp::TaskSupport,
        rule: Option<&ToolRule>,
    ) -> Self {
        let stated = if annotations.read_only == Some(true) {
            Effect::Read
        } else if annotations.destructive == Some(true) {
            Effect::Destructive
        } else {
            Effect::Write
        };
        let effect = rule.and_then(|rule| rule.effect).unwrap_or(stated);
        let approval = match (effect, rule.and_then(|rule| rule.approval)) {
            (_, Some(ApprovalRule::Off)) => ApprovalRule::Off,
            (Effect::Destructive, _) => ApprovalRule::Always,
            (_, Some(approval)) => approval,
            (Effect::Read, None) => ApprovalRule::Direct,
            (Effect::Write, None) => ApprovalRule::Mode,
        };
        Self { effect, approval, task_only: task_support == mcp::TaskSupport::Required }
    }

    /// Whether a profile of this mode offers the tool at all.
    pub fn offered(self, mode: PermissionMode) -> bool {
        self.approval != ApprovalRule::Off
            && !(mode == PermissionMode::ReadOnly && self.effect != Effect::Read)
    }

    /// Whether scripts of a profile of this mode can call it (listed, if it writes).
    pub fn in_scripts(self, mode: PermissionMode) -> bool {
        self.offered(mode) && !self.task_only && self.approval != ApprovalRule::Always
    }
}

/// From where a tool is called, as far as the table cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum From {
    /// By a model, a chat or the command line.
    Direct,
    /// By a script.
    Script {
        /// The tool stands in the script's `tools`.
        listed: bool,
        /// Starting the script covered this very definition of the tool.
        granted: bool,
    },
}

/// What the table is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    /// Of the profile.
    pub mode: PermissionMode,
    /// Of the tool.
    pub facts: Facts,
    /// Where the call comes from.
    pub from: From,
    /// "This session" was answered for this very definition of the tool.
    pub session_allows: bool,
}

/// What the table answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// It runs.
    Allow,
    /// A person is asked.
    Ask {
        /// "This session" is among the choices.
        session: bool,
    },
    /// It is refused, and why.
    Deny(Reason),
}

/// Why the table refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Off, or a write in read-only mode: as if it did not exist.
    NotOffered,
    /// A script cannot call what has to be confirmed each time.
    Destructive,
    /// A script cannot run tasks.
    TaskOnly,
    /// A write that the script did not list.
    NotListed,
    /// A listed write that nobody approved in this form.
    NotGranted,
}

/// The permission table of `contract.md`.
pub fn decide(question: Question) -> Decision {
    let Question { mode, facts, from, session_allows } = question;
    if !facts.offered(mode) {
        return Decision::Deny(Reason::NotOffered);
    }
    match from {
        From::Direct => match (facts.approval, mode) {
            (ApprovalRule::Always, _) => Decision::Ask { session: false },
            (ApprovalRule::Mode, PermissionMode::Ask)
                if facts.effect != Effect::Read && !session_allows =>
            {
                Decision::Ask { session: true }
            }
            _ => Decision::Allow,
        },
        From::Script { listed, granted } => {
            if facts.task_only {
                Decision::Deny(Reason::TaskOnly)
            } else if facts.approval == ApprovalRule::Always {
                Decision::Deny(Reason::Destructive)
            } else if facts.effect == Effect::Read {
                Decision::Allow
            } else if !listed {
                Decision::Deny(Reason::NotListed)
            } else if facts.approval == ApprovalRule::Mode
                && mode == PermissionMode::Ask
                && !granted
                && !session_allows
            {
                Decision::Deny(Reason::NotGranted)
            } else {
                Decision::Allow
            }
        }
    }
}

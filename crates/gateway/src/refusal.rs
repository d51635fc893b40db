//! What a refusal says: what is wrong, and what would be right.

use crate::call::{Call, Caller};
use crate::catalog::Known;
use crate::gateway::Gateway;
use crate::policy::{PermissionMode, Reason};
use crate::request::Failure;
use crate::sources::run_script::Reach;
use crate::sources::{Source, State, own};
use crate::{json, names};

/// No such tool, or not for this session.
pub(crate) fn unknown(gateway: &Gateway, call: &Call, from_script: bool) -> Failure {
    let shown = json::cut(&call.tool, 200);
    if from_script && let Some(own) = own::find(&call.tool) {
        let what = if own.tool.is_script() { "start another one" } else { "call this tool" };
        return call.failure(
            script::Kind::UnknownTool,
            format!("a script cannot {what}; only servers' tools can be called from a script"),
        );
    }
    // A server that has not yet said what it offers is not the caller's mistake.
    for source in gateway.catalog.sources() {
        let snapshot = source.snapshot();
        let named = call.session.profile.servers.iter().any(|name| name == source.name());
        let belongs = gateway.catalog.naming.belongs(&call.tool, source.name());
        let is_known = source.confirmed() && !snapshot.tools.is_empty();
        if !named || is_known || !belongs {
            continue;
        }
        if snapshot.state != State::Ready {
            return unconfirmed(call, &**source);
        }
    }
    let mode = call.session.profile.permission_mode;
    let meant = match &call.caller {
        Caller::Script(script) if !script.may_look_up() => Vec::new(),
        _ => {
            let offered = gateway.tools(&call.session);
            let usable = offered.iter().filter(|tool| !from_script || tool.in_scripts);
            names::similar(&call.tool, usable.map(|tool| tool.name.as_str()))
        }
    };
    let hidden = gateway.catalog.table().get(&call.tool).is_some_and(|known| {
        call.session.profile.servers.iter().any(|name| name == known.source.name())
    });
    let message = if hidden && mode == PermissionMode::ReadOnly {
        format!("{shown:?} is not offered: the profile is read-only")
    } else {
        format!("there is no tool {shown:?}{}", names::did_you_mean(&meant))
    };
    call.failure(script::Kind::UnknownTool, message)
}

/// A server that has not yet said in this process what it offers.
pub(crate) fn unconfirmed(call: &Call, source: &dyn Source) -> Failure {
    let how = match &source.snapshot().state {
        State::Starting | State::Ready => "is still starting".to_owned(),
        State::Down { reason } => format!("is down: {reason}"),
    };
    let shown = json::cut(&call.tool, 200);
    let message = format!("{shown:?} cannot be called: its server {:?} {how}", source.name());
    Failure { retryable: true, ..call.failure(script::Kind::Upstream, message) }
}

/// What the table's refusals say to the caller.
pub(crate) fn denied(call: &Call, known: Option<&Known>, reason: Reason) -> Failure {
    let name = &call.tool;
    let (kind, message) = match reason {
        Reason::NotOffered => (script::Kind::UnknownTool, format!("there is no tool {name:?}")),
        Reason::Destructive => (
            script::Kind::Destructive,
            format!(
                "{name} has to be confirmed each time, so a script cannot call it; call it \
                 directly"
            ),
        ),
        Reason::TaskOnly => (
            script::Kind::TaskOnly,
            format!("{name} can only be run as a task, so a script cannot call it"),
        ),
        Reason::NotListed => {
            let reading =
                matches!(&call.caller, Caller::Script(script) if script.reach == Reach::Read);
            let message = if reading {
                format!(
                    "{name} changes something, which run_script_readonly cannot: give the script \
                     to run_script and list {name} in its `tools`"
                )
            } else {
                format!(
                    "{name} changes something and is not listed: add it to `tools` of run_script"
                )
            };
            (script::Kind::NotListed, message)
        }
        Reason::NotGranted => (script::Kind::Denied, not_granted(call, known)),
    };
    call.failure(kind, message)
}

fn not_granted(call: &Call, known: Option<&Known>) -> String {
    let changed = match (&call.caller, known) {
        (Caller::Script(script), Some(known)) => script.was_covered(&known.name),
        _ => false,
    };
    if changed {
        format!(
            "the definition of {} has changed since the script was approved, so the approval is \
             void for it; run the script again to be asked about the new definition",
            call.tool
        )
    } else {
        format!("{} was not approved for this script; run the script again", call.tool)
    }
}

/// Something that has to be kept first could not be.
pub(crate) fn unstored(call: &Call, error: &dyn std::fmt::Display) -> Failure {
    let message = format!("nothing was sent: {error}");
    Failure { retryable: true, ..call.failure(script::Kind::Upstream, message) }
}

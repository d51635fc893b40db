//! Our own tools, one line each in [`ALL`].
//!
//! They take the same road as servers' tools: this says which there are, what is known of each and
//! how it answers. Scripts cannot call them.

use std::sync::{Arc, LazyLock};

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::background;
use super::lookup::{DescribeTools, ListTools};
use super::run_script::{Reach, RunScript};
use crate::call::{Call, Ended, Grant};
use crate::config::ToolRule;
use crate::gateway::{Gateway, Listed, OWN};
use crate::json;
use crate::policy::{ApprovalRule, Facts};
use crate::schema::Schema;
use crate::session::Session;

/// All of them.
static ALL: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    vec![
        Entry::new(RunScript(Reach::All)),
        Entry::new(RunScript(Reach::Read)),
        Entry::new(ListTools),
        Entry::new(DescribeTools),
        Entry::new(background::Tool::List),
        Entry::new(background::Tool::Result),
        Entry::new(background::Tool::Cancel),
    ]
});

/// One of our own tools.
#[async_trait::async_trait]
pub(crate) trait Own: Send + Sync + std::fmt::Debug + 'static {
    /// Its name, which no server's tool can have.
    fn name(&self) -> &'static str;

    /// What is known of it; `rule` is the profile's, of which `off` is seen to elsewhere.
    fn facts(&self, rule: Option<&ToolRule>) -> Facts;

    /// Why it is not offered to this session, if it is not.
    fn missing(&self, gateway: &Gateway, session: &Session) -> Option<String>;

    /// JSON Schema of its arguments.
    fn input_schema(&self) -> Value;

    /// The whole definition, with [`Own::input_schema`] and all four annotations in it.
    fn definition(&self, gateway: &Gateway, session: &Session) -> Arc<RawValue>;

    /// Whether what it runs is a script, which is looked at and asked about as such; then
    /// [`Own::run`] is not used.
    fn is_script(&self) -> bool {
        false
    }

    /// Answers a call whose arguments fit the schema. It is not asked about: what it does to the
    /// world is not more than the session may do anyway.
    async fn run(&self, grant: Grant, gateway: &Arc<Gateway>, call: &Call) -> Ended;
}

/// One of our own tools, with what is made once.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) tool: Box<dyn Own>,
    schema: Schema,
}

impl Entry {
    fn new(tool: impl Own) -> Self {
        let schema = Schema::compile(tool.name(), &json::raw(&tool.input_schema()));
        Self { tool: Box::new(tool), schema }
    }

    /// Compiled.
    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// What is known of it in this session.
    fn facts(&self, session: &Session) -> Facts {
        let rule = session.profile.tools.get(self.tool.name());
        let facts = self.tool.facts(rule);
        match rule.and_then(|rule| rule.approval) {
            Some(ApprovalRule::Off) => Facts { approval: ApprovalRule::Off, ..facts },
            _ => facts,
        }
    }

    /// Why it is not offered to this session, if it is not.
    pub(crate) fn withheld(&self, gateway: &Gateway, session: &Session) -> Option<String> {
        if self.facts(session).approval == ApprovalRule::Off {
            return Some("the profile has switched it off".to_owned());
        }
        self.tool.missing(gateway, session)
    }

    fn listed(&self, gateway: &Gateway, session: &Session) -> Listed {
        let facts = self.facts(session);
        Listed {
            name: self.tool.name().to_owned(),
            source: OWN.to_owned(),
            effect: facts.effect,
            approval: facts.approval,
            task_only: facts.task_only,
            in_scripts: false,
            is_remembered: false,
            definition: self.tool.definition(gateway, session),
        }
    }
}

/// The tool of this name.
pub(crate) fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.tool.name() == name)
}

/// Those that are offered to the session.
pub(crate) fn listed<'a>(
    gateway: &'a Gateway,
    session: &'a Session,
) -> impl Iterator<Item = Listed> + 'a {
    ALL.iter()
        .filter(|entry| entry.withheld(gateway, session).is_none())
        .map(|entry| entry.listed(gateway, session))
}

/// An answer of text and nothing else: clients that get structured content, too, show the model
/// only that.
pub(crate) fn text(text: String, is_error: bool) -> mcp::CallResult {
    let content = json!([{"type": "text", "text": text}]);
    let raw = json!({"content": content, "isError": is_error});
    mcp::CallResult {
        text,
        structured: None,
        content: Arc::from(json::raw(&content)),
        has_media: false,
        is_error,
        raw: Arc::from(json::raw(&raw)),
    }
}

/// Whether a profile may have this rule about the tool, or what it may have instead.
pub(crate) fn check_rule(entry: &Entry, rule: &ToolRule) -> Result<(), &'static str> {
    let approvals: &[ApprovalRule] = if entry.tool.is_script() {
        &[ApprovalRule::Off, ApprovalRule::Always, ApprovalRule::Mode]
    } else {
        &[ApprovalRule::Off]
    };
    match rule {
        ToolRule { effect: None, approval: Some(approval) } if approvals.contains(approval) => {
            Ok(())
        }
        _ if approvals.len() == 1 => Err("it can only have approval = \"off\""),
        _ => Err("it can have approval = \"off\", \"always\" or \"mode\" and no other rule"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_server_can_have_the_name_of_one_of_our_own_tools() {
        for entry in ALL.iter() {
            assert!(!entry.tool.name().contains("__"), "{}", entry.tool.name());
        }
    }
}

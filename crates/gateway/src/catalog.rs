//! Every tool of every source, under its full name.
//!
//! The table is built from the sources' snapshots and built anew when one of them says that it has
//! changed. What is expensive to know of a tool (its compiled schema) is kept as long as its
//! definition stays the same.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::watch;

use crate::json;
use crate::names::Naming;
use crate::schema::Schema;
use crate::sources::{Source, own};

/// A tool of a source.
#[derive(Debug)]
pub(crate) struct Known {
    /// Full name.
    pub(crate) name: String,
    /// Whose.
    pub(crate) source: Arc<dyn Source>,
    /// What the source says of it.
    pub(crate) tool: Arc<mcp::Tool>,
    /// Hash of its definition.
    pub(crate) definition: String,
    schema: OnceLock<Schema>,
    renamed: OnceLock<Arc<RawValue>>,
}

impl Known {
    fn new(
        name: String,
        source: Arc<dyn Source>,
        tool: Arc<mcp::Tool>,
        definition: String,
    ) -> Self {
        Self { name, source, tool, definition, schema: OnceLock::new(), renamed: OnceLock::new() }
    }

    /// Its schema, compiled on first use.
    pub(crate) fn schema(&self) -> &Schema {
        self.schema.get_or_init(|| Schema::compile(&self.name, &self.tool.input_schema))
    }

    /// Its definition as it is offered: with the full name in it.
    pub(crate) fn renamed(&self) -> Arc<RawValue> {
        let make = || {
            let renamed = json::with_member(&self.tool.raw, "name", &self.name);
            let renamed = renamed.unwrap_or_else(|_| self.tool.raw.clone());
            if self.tool.task_support != mcp::TaskSupport::Required {
                return Arc::from(renamed);
            }
            Arc::from(with_optional_task(&renamed).unwrap_or(renamed))
        };
        self.renamed.get_or_init(make).clone()
    }
}

/// A plain call of what can only be a task is possible here: it is answered with where the result
/// will be.
fn with_optional_task(definition: &RawValue) -> Result<Box<RawValue>, String> {
    #[derive(Deserialize)]
    struct Definition<'a> {
        #[serde(borrow)]
        execution: &'a RawValue,
    }
    let found: Definition<'_> =
        serde_json::from_str(definition.get()).map_err(|error| error.to_string())?;
    let execution = json::with_member(found.execution, "taskSupport", "optional")?;
    json::with_value(definition, "execution", execution.get())
}

/// All tools at one time.
#[derive(Debug, Default)]
pub(crate) struct Table {
    tools: HashMap<String, Arc<Known>>,
    versions: Vec<u64>,
    /// By server, what is not offered and why.
    left_out: Vec<(String, String)>,
}

impl Table {
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Known>> {
        self.tools.get(name)
    }

    /// By server, what is not offered and why.
    pub(crate) fn left_out(&self) -> &[(String, String)] {
        &self.left_out
    }

    /// In no order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Known>> {
        self.tools.values()
    }
}

/// The sources and the table of their tools.
#[derive(Debug)]
pub(crate) struct Catalog {
    pub(crate) naming: Naming,
    sources: Vec<(Arc<dyn Source>, watch::Receiver<u64>)>,
    table: RwLock<Arc<Table>>,
}

impl Catalog {
    pub(crate) fn new(sources: Vec<Arc<dyn Source>>, naming: Naming) -> Self {
        let sources = sources.into_iter().map(|source| {
            let changes = source.changes();
            (source, changes)
        });
        Self { naming, sources: sources.collect(), table: RwLock::default() }
    }

    pub(crate) fn sources(&self) -> impl Iterator<Item = &Arc<dyn Source>> {
        self.sources.iter().map(|(source, _)| source)
    }

    /// The table as of now.
    pub(crate) fn table(&self) -> Arc<Table> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner).clone();
        let current = table.versions.len() == self.sources.len()
            && self
                .sources
                .iter()
                .zip(&table.versions)
                .all(|((_, now), was)| *now.borrow() == *was);
        if current {
            return table;
        }
        let mut slot = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let built = Arc::new(self.build(&slot));
        *slot = built.clone();
        built
    }

    fn build(&self, before: &Table) -> Table {
        // The version is read before the snapshot: a change in between leads to one more build.
        let versions = self.sources.iter().map(|(_, changes)| *changes.borrow()).collect();
        let mut tools: HashMap<String, Arc<Known>> = HashMap::new();
        let mut claimed_twice: Vec<(String, String)> = Vec::new();
        let mut left_out = Vec::new();
        for (source, _) in &self.sources {
            let mut seen = HashSet::new();
            for tool in &source.snapshot().tools {
                if !seen.insert(tool.name.clone()) {
                    tracing::warn!(
                        server = source.name(),
                        tool = json::one_line(&tool.name, 100),
                        "the server lists a tool twice: the first is taken"
                    );
                    let why = format!("tool `{}`: it stands there twice", tool.name);
                    left_out.push((source.name().to_owned(), why));
                    continue;
                }
                let name = self.naming.full(source.name(), &tool.name);
                if self.naming.is_bare(source.name()) && name != tool.name {
                    let why = if own::find(&tool.name).is_some() {
                        "pinfold has a tool of this name itself"
                    } else {
                        "its own name is not one that every client takes, or could be another \
                         server's"
                    };
                    tracing::warn!(
                        server = source.name(),
                        tool = json::one_line(&tool.name, 100),
                        "a tool of a server without prefix is named {name} all the same: {why}"
                    );
                }
                let known = known(before, name.clone(), source, tool);
                if let Some(other) = tools.insert(name.clone(), known) {
                    claimed_twice.push((name.clone(), other.source.name().to_owned()));
                    claimed_twice.push((name, source.name().to_owned()));
                }
            }
        }
        for (name, server) in claimed_twice {
            tracing::error!(name, server, "two tools have the same full name: neither is offered");
            tools.remove(&name);
            let why =
                format!("tool `{name}`: another one has the same full name: neither is offered");
            left_out.push((server, why));
        }
        Table { tools, versions, left_out }
    }
}

fn known(
    before: &Table,
    name: String,
    source: &Arc<dyn Source>,
    tool: &Arc<mcp::Tool>,
) -> Arc<Known> {
    let old = before.get(&name);
    if let Some(old) = old.filter(|old| Arc::ptr_eq(&old.tool, tool)) {
        return old.clone();
    }
    let text = json::canonical(&tool.raw).unwrap_or_else(|_| tool.raw.get().to_owned());
    let definition = json::hash([text.as_str()]);
    match old.filter(|old| old.definition == definition && Arc::ptr_eq(&old.source, source)) {
        Some(old) => old.clone(),
        None => Arc::new(Known::new(name, source.clone(), tool.clone(), definition)),
    }
}

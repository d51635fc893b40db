//! What a profile offers of its servers' tools, worked out once for each state of the catalogue:
//! with thousands of tools it would be felt in every list and every refusal.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde_json::value::RawValue;

use crate::catalog::{Known, Table};
use crate::gateway::{Gateway, Listed, visible};
use crate::policy::{Effect, Facts};
use crate::search::{Entry, Index};
use crate::session::Session;
use crate::{json, signature};

/// A tool that the profile offers.
#[derive(Debug)]
pub(crate) struct Offered {
    pub(crate) known: Arc<Known>,
    pub(crate) facts: Facts,
    pub(crate) in_scripts: bool,
}

impl Offered {
    /// Whether it only reads and a script can call it.
    pub(crate) fn is_read_by_scripts(&self) -> bool {
        self.in_scripts && self.facts.effect == Effect::Read
    }
}

/// What a profile offers of the tools of one table.
#[derive(Debug)]
pub(crate) struct View {
    table: Arc<Table>,
    /// Sorted by name.
    pub(crate) tools: Vec<Offered>,
    listed: Vec<Listed>,
    /// Which of them name a user interface.
    interfaces: Vec<usize>,
    index: OnceLock<Index>,
    /// Definitions of our own tools that speak of the servers' tools, by name.
    definitions: Mutex<HashMap<&'static str, Arc<RawValue>>>,
}

impl View {
    fn new(session: &Session, table: Arc<Table>) -> Self {
        let mode = session.profile.permission_mode;
        let offered = |known: &Arc<Known>| {
            let facts = visible(session, known)?;
            Some(Offered { known: known.clone(), facts, in_scripts: facts.in_scripts(mode) })
        };
        let mut tools: Vec<Offered> = table.all().filter_map(offered).collect();
        tools.sort_by(|a, b| a.known.name.cmp(&b.known.name));
        let listed: Vec<Listed> = tools
            .iter()
            .map(|tool| Listed {
                name: tool.known.name.clone(),
                source: tool.known.source.name().to_owned(),
                effect: tool.facts.effect,
                approval: tool.facts.approval,
                task_only: tool.facts.task_only,
                in_scripts: tool.in_scripts,
                is_remembered: !tool.known.source.confirmed(),
                definition: tool.known.renamed(),
            })
            .collect();
        let named = listed.iter().enumerate();
        let interfaces = named
            .filter(|(_, tool)| tool.definition.get().contains("ui://"))
            .map(|(place, _)| place)
            .collect();
        Self {
            table,
            tools,
            listed,
            interfaces,
            index: OnceLock::new(),
            definitions: Mutex::default(),
        }
    }

    /// As they are listed, without our own.
    pub(crate) fn listed(&self) -> &[Listed] {
        &self.listed
    }

    /// Places of those that name a user interface.
    pub(crate) fn interfaces(&self) -> &[usize] {
        &self.interfaces
    }

    /// Those that fit a query, best first.
    pub(crate) fn search(&self, query: &str) -> Vec<&Offered> {
        let index = self.index.get_or_init(|| {
            let parameters: Vec<Vec<String>> =
                self.tools.iter().map(|tool| signature::parameter_names(&tool.known)).collect();
            let titles: Vec<String> = self.tools.iter().map(|tool| title(&tool.known)).collect();
            let texts = parameters.iter().zip(&titles);
            Index::new(self.tools.iter().zip(texts).map(|(tool, (parameters, title))| Entry {
                name: &tool.known.name,
                title,
                description: tool.known.tool.description.as_deref().unwrap_or_default(),
                parameters,
            }))
        });
        index.search(query).into_iter().filter_map(|place| self.tools.get(place)).collect()
    }

    /// A definition of one of our own tools, made once.
    pub(crate) fn definition(
        &self,
        name: &'static str,
        make: impl FnOnce() -> Box<RawValue>,
    ) -> Arc<RawValue> {
        let mut definitions = self.definitions.lock().unwrap_or_else(PoisonError::into_inner);
        definitions.entry(name).or_insert_with(|| Arc::from(make())).clone()
    }
}

fn title(known: &Known) -> String {
    #[derive(serde::Deserialize)]
    struct Titled {
        #[serde(default)]
        title: Option<String>,
    }
    let titled: Option<Titled> = serde_json::from_str(known.tool.raw.get()).ok();
    let title = titled.and_then(|titled| titled.title).unwrap_or_default();
    json::cut(&title, 300)
}

/// The views there are, by profile.
#[derive(Debug, Default)]
pub(crate) struct Views(Mutex<HashMap<String, Arc<View>>>);

impl Gateway {
    /// What the session's profile offers now.
    pub(crate) fn view(&self, session: &Session) -> Arc<View> {
        let table = self.catalog.table();
        let mut views = self.views.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(view) = views.get(&session.profile_name)
            && Arc::ptr_eq(&view.table, &table)
        {
            return view.clone();
        }
        let view = Arc::new(View::new(session, table));
        views.insert(session.profile_name.clone(), view.clone());
        view
    }
}

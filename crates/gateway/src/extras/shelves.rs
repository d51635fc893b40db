//! What the servers of a profile offer, as its clients see it; built anew when one of them changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::addresses::Addresses;
use super::links::{self, Links};
use crate::catalog::Known;
use crate::gateway::{Gateway, Listed};
use crate::names::Naming;
use crate::session::Session;
use crate::sources::Source;

/// What the servers of the profiles claim, as it was looked at last.
#[derive(Debug, Default)]
pub(crate) struct Shelves(Mutex<HashMap<String, Latest>>);

#[derive(Debug)]
struct Latest {
    /// Of each server, how often it had changed.
    versions: Vec<u64>,
    shelf: Arc<Shelf>,
}

/// Of one profile.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    pub(super) addresses: Addresses,
    /// Server and own name of each prompt; nothing where two have the same full name.
    pub(super) prompts: HashMap<String, Option<(usize, usize)>>,
}

impl Gateway {
    /// A tool's result with its links as they are outside.
    pub(crate) fn outside(
        &self,
        session: &Session,
        known: &Known,
        result: mcp::CallResult,
    ) -> mcp::CallResult {
        if !result.has_media {
            return result;
        }
        let shelf = self.shelf(session);
        match shelf.server(&*known.source) {
            Some(server) => links::outside(&Links { addresses: &shelf.addresses, server }, result),
            None => result,
        }
    }

    /// Has tools' definitions name the user interfaces as those are called outside.
    pub(crate) fn name_interfaces(&self, session: &Session, tools: &mut [Listed]) {
        let view = self.view(session);
        if view.interfaces().is_empty() {
            return;
        }
        let shelf = self.shelf(session);
        for place in view.interfaces() {
            let Some(tool) = tools.get_mut(*place) else { continue };
            let mut servers = shelf.addresses.servers.iter();
            let Some(server) = servers.position(|server| server.source.name() == tool.source)
            else {
                continue;
            };
            let links = Links { addresses: &shelf.addresses, server };
            if let Some(changed) = links.of_definition(&tool.definition) {
                tool.definition = Arc::from(changed);
            }
        }
    }

    /// The server of the session's whose tool this is.
    pub fn server_of(&self, session: &Session, tool: &str) -> Option<String> {
        let table = self.catalog.table();
        let name = table.get(tool)?.source.name();
        session.profile.servers.iter().find(|server| *server == name).cloned()
    }

    /// The server of the session's whose prompt this is.
    pub fn server_of_prompt(&self, session: &Session, prompt: &str) -> Option<String> {
        let shelf = self.shelf(session);
        let (number, _) = shelf.prompt(prompt)?;
        Some(shelf.addresses.servers[number].source.name().to_owned())
    }

    pub(super) fn shelf(&self, session: &Session) -> Arc<Shelf> {
        let mut shelves = self.shelves.0.lock().unwrap_or_else(PoisonError::into_inner);
        let servers: Vec<&Arc<dyn Source>> = session
            .profile
            .servers
            .iter()
            .filter_map(|name| self.catalog.sources().find(|source| source.name() == name))
            .collect();
        // Read before what they offer: a change in between leads to one more look.
        let versions: Vec<u64> = servers.iter().map(|source| *source.changes().borrow()).collect();
        if let Some(latest) = shelves.get(&session.profile_name)
            && latest.versions == versions
        {
            return latest.shelf.clone();
        }
        let shelf = Arc::new(Shelf::new(servers.into_iter().cloned(), &self.catalog.naming));
        let latest = Latest { versions, shelf: shelf.clone() };
        shelves.insert(session.profile_name.clone(), latest);
        shelf
    }
}

impl Shelf {
    fn new(sources: impl Iterator<Item = Arc<dyn Source>>, naming: &Naming) -> Self {
        let addresses = Addresses::new(sources);
        let mut prompts = HashMap::new();
        for (number, server) in addresses.servers.iter().enumerate() {
            for (place, item) in server.extras.prompts.iter().enumerate() {
                let name = naming.full(server.source.name(), &item.key);
                prompts
                    .entry(name)
                    .and_modify(|known| *known = None)
                    .or_insert(Some((number, place)));
            }
        }
        Self { addresses, prompts }
    }

    /// Server and own name of a prompt.
    pub(super) fn prompt(&self, name: &str) -> Option<(usize, String)> {
        let (number, place) = (*self.prompts.get(name)?)?;
        Some((number, self.addresses.servers[number].extras.prompts[place].key.clone()))
    }

    fn server(&self, source: &dyn Source) -> Option<usize> {
        self.addresses.servers.iter().position(|server| server.source.name() == source.name())
    }
}

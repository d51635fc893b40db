//! To which server of a profile a URI belongs.
//!
//! A URI passes as it is while it can only mean one server's resource. Where two servers claim it,
//! each of them has it with the server's name in front, and the plain form is refused rather than
//! guessed. A URI with a name in front can be read at any time, so what was given out stays true.

use std::collections::HashMap;
use std::sync::Arc;

use super::template::Template;
use crate::json;
use crate::sources::{Extras, Source};

/// In front of a URI: `pinfold://SERVER/URI`.
const SCHEME: &str = "pinfold://";

/// User interfaces are recognised by their scheme, so it stays: `ui://SERVER.pinfold/REST`.
const UI: &str = "ui://";
const UI_HOST: &str = ".pinfold";

/// Servers that are named in a message.
const NAMED: usize = 5;

/// What the servers of one profile claim at one time.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    pub(crate) servers: Vec<Server>,
    listed: HashMap<String, Vec<usize>>,
    templates: HashMap<String, Vec<usize>>,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) extras: Arc<Extras>,
    templates: Vec<Template>,
}

/// Whose a URI is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// This server's, which knows it by this name.
    One(usize, String),
    /// It could be any of these servers'.
    Several(Vec<usize>),
    /// No server has listed it.
    Nobody,
    /// It names a server that is not there.
    Elsewhere,
}

impl Addresses {
    /// Of servers in the profile's order.
    pub(crate) fn new(sources: impl IntoIterator<Item = Arc<dyn Source>>) -> Self {
        let mut addresses = Self::default();
        for source in sources {
            let extras = source.extras();
            let number = addresses.servers.len();
            for item in &extras.resources {
                addresses.listed.entry(item.key.clone()).or_default().push(number);
            }
            for item in &extras.templates {
                addresses.templates.entry(item.key.clone()).or_default().push(number);
            }
            let templates =
                extras.templates.iter().filter_map(|item| Template::read(&item.key)).collect();
            addresses.servers.push(Server { source, extras, templates });
        }
        addresses
    }

    /// Whose a URI is, as a client gives it.
    pub(crate) fn owner(&self, uri: &str) -> Owner {
        if let Some((name, own)) = split(uri) {
            return match self.servers.iter().position(|server| server.source.name() == name) {
                Some(number) => Owner::One(number, own),
                None => Owner::Elsewhere,
            };
        }
        let one_or_several = |owners: Vec<usize>| match owners.as_slice() {
            [] => Owner::Nobody,
            [number] => Owner::One(*number, uri.to_owned()),
            _ => Owner::Several(owners),
        };
        if let Some(owners) = self.listed.get(uri) {
            return one_or_several(owners.clone());
        }
        let matching =
            self.servers.iter().enumerate().filter(|(_, server)| {
                server.templates.iter().any(|template| template.matches(uri))
            });
        one_or_several(matching.map(|(number, _)| number).collect())
    }

    /// Whose a template is, as a client gives it.
    pub(crate) fn owner_of_template(&self, template: &str) -> Owner {
        if split(template).is_none()
            && let Some(owners) = self.templates.get(template)
        {
            return match owners.as_slice() {
                [number] => Owner::One(*number, template.to_owned()),
                _ => Owner::Several(owners.clone()),
            };
        }
        self.owner(template)
    }

    /// What a resource that this server lists is called outside.
    pub(crate) fn outside(&self, number: usize, uri: &str) -> String {
        let is_plain = split(uri).is_none()
            && self.listed.get(uri).is_some_and(|owners| owners.as_slice() == [number]);
        if is_plain { uri.to_owned() } else { self.named(number, uri) }
    }

    /// What a template of this server's is called outside.
    pub(crate) fn template_outside(&self, number: usize, template: &str) -> String {
        let is_plain = split(template).is_none()
            && self.templates.get(template).is_some_and(|owners| owners.as_slice() == [number]);
        if is_plain { template.to_owned() } else { self.named(number, template) }
    }

    /// What a URI in something that this server said is called outside; `None` if it may stay.
    pub(crate) fn link_outside(&self, number: usize, uri: &str) -> Option<String> {
        if split(uri).is_some() {
            return Some(self.named(number, uri));
        }
        match self.owner(uri) {
            Owner::One(owner, _) if owner == number => None,
            Owner::One(..) | Owner::Several(_) => Some(self.named(number, uri)),
            // What anybody can fetch is fetched, and where nothing else can be read nothing can be
            // mistaken.
            // Such a URI has a name in front, which was seen to above.
            Owner::Nobody | Owner::Elsewhere => {
                let web = uri.starts_with("https://") || uri.starts_with("http://");
                let readable = |server: &Server| server.extras.abilities.resources;
                let others = self.servers.iter().enumerate();
                let mut others = others.filter(|(other, _)| *other != number);
                let ambiguous =
                    readable(&self.servers[number]) && others.any(|(_, server)| readable(server));
                (ambiguous && !web).then(|| self.named(number, uri))
            }
        }
    }

    fn named(&self, number: usize, uri: &str) -> String {
        named(self.servers[number].source.name(), uri)
    }

    /// What to say about a URI that several servers have.
    pub(crate) fn choice(&self, owners: &[usize], uri: &str) -> String {
        let uri = json::cut(uri, 200);
        let uri = uri.as_str();
        let forms: Vec<String> =
            owners.iter().take(NAMED).map(|number| self.named(*number, uri)).collect();
        format!("several servers have {uri}; say which by one of: {}", forms.join(" , "))
    }
}

/// The URI with its server's name in front.
fn named(server: &str, uri: &str) -> String {
    let server = encode(server);
    match uri.strip_prefix(UI) {
        Some(rest) => format!("{UI}{server}{UI_HOST}/{rest}"),
        None => format!("{SCHEME}{server}/{uri}"),
    }
}

/// Server and own URI of one with a name in front.
fn split(uri: &str) -> Option<(String, String)> {
    if let Some(rest) = uri.strip_prefix(SCHEME) {
        let (server, own) = rest.split_once('/')?;
        return Some((decode(server)?, own.to_owned()));
    }
    let (host, rest) = uri.strip_prefix(UI)?.split_once('/')?;
    Some((decode(host.strip_suffix(UI_HOST)?)?, format!("{UI}{rest}")))
}

fn encode(server: &str) -> String {
    let mut out = String::new();
    for byte in server.bytes() {
        // No dots, so that the end of the name is plain to see.
        if byte.is_ascii_alphanumeric() || b"-_".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn decode(server: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = server.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[2..];
        } else {
            bytes.push(*byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sources::{Snapshot, SourceCall, SourceError};

    #[derive(Debug)]
    struct Fixed(&'static str, Arc<Extras>);

    #[async_trait::async_trait]
    impl Source for Fixed {
        fn name(&self) -> &str {
            self.0
        }

        fn snapshot(&self) -> Arc<Snapshot> {
            Arc::default()
        }

        fn changes(&self) -> tokio::sync::watch::Receiver<u64> {
            tokio::sync::watch::channel(0).1
        }

        fn extras(&self) -> Arc<Extras> {
            self.1.clone()
        }

        async fn call(&self, _call: SourceCall) -> Result<mcp::CallResult, SourceError> {
            Err(SourceError::Cancelled)
        }
    }

    fn source(name: &'static str, resources: &[&str], templates: &[&str]) -> Arc<dyn Source> {
        let items = |keys: &[&str]| {
            keys.iter()
                .map(|key| mcp::Item { key: (*key).to_owned(), raw: "{}".into() })
                .collect::<Vec<_>>()
        };
        let abilities = mcp::Abilities { resources: true, ..mcp::Abilities::default() };
        let extras = Extras {
            resources: items(resources),
            templates: items(templates),
            abilities,
            ..Extras::default()
        };
        Arc::new(Fixed(name, Arc::new(extras)))
    }

    #[test]
    fn a_uri_passes_as_it_is_while_it_is_one_servers() {
        let both = Addresses::new([
            source("a", &["file:///x", "ui://w/m", "file:///only-a"], &["t://{id}", "p://{n}"]),
            source("b", &["file:///x", "ui://w/m"], &["t://{id}"]),
        ]);
        assert_eq!(both.outside(0, "file:///only-a"), "file:///only-a");
        assert_eq!(both.owner("file:///only-a"), Owner::One(0, "file:///only-a".into()));
        for (uri, expected) in
            [("file:///x", "pinfold://b/file:///x"), ("ui://w/m", "ui://b.pinfold/w/m")]
        {
            assert_eq!(both.owner(uri), Owner::Several(vec![0, 1]));
            assert_eq!(both.outside(1, uri), expected);
            assert_eq!(both.link_outside(1, uri).as_deref(), Some(expected));
            assert_eq!(both.owner(expected), Owner::One(1, uri.into()));
        }
        assert_eq!(both.owner("t://7"), Owner::Several(vec![0, 1]));
        assert_eq!(both.template_outside(1, "t://{id}"), "pinfold://b/t://{id}");
        assert_eq!(
            both.owner_of_template("pinfold://b/t://{id}"),
            Owner::One(1, "t://{id}".into())
        );
        assert_eq!(both.owner_of_template("p://{n}"), Owner::One(0, "p://{n}".into()));
        assert_eq!(both.link_outside(0, "p://7"), None);
        assert_eq!(both.link_outside(1, "p://7").as_deref(), Some("pinfold://b/p://7"));
        assert_eq!(both.owner("x://unknown"), Owner::Nobody);
        assert_eq!(both.link_outside(0, "https://example.com/"), None);
        assert_eq!(both.owner("pinfold://c/file:///x"), Owner::Elsewhere);
        let alone = Addresses::new([source("a", &[], &[])]);
        assert_eq!(alone.link_outside(0, "x://unknown"), None);
    }

    #[test]
    fn no_server_can_speak_in_anothers_name() {
        let both = Addresses::new([
            source("a", &["pinfold://b/file:///x", "ui://b.pinfold/w"], &["pinfold://b/{x}"]),
            source("b", &["file:///x"], &[]),
        ]);
        for forged in ["pinfold://b/file:///x", "ui://b.pinfold/w"] {
            let outside = both.outside(0, forged);
            assert_eq!(both.owner(&outside), Owner::One(0, forged.into()), "{outside}");
            assert_eq!(both.link_outside(0, forged), Some(outside));
        }
        assert_eq!(both.template_outside(0, "pinfold://b/{x}"), "pinfold://a/pinfold://b/{x}");
        assert_eq!(both.owner("pinfold://b/file:///x"), Owner::One(1, "file:///x".into()));
    }

    proptest! {
        #[test]
        fn a_name_in_front_can_be_taken_away(server in ".{1,20}", uri in "(ui://)?.{1,40}") {
            prop_assert_eq!(split(&named(&server, &uri)), Some((server, uri)));
        }

        #[test]
        fn any_uri_is_read(uri in ".{0,60}") {
            let _ = split(&uri);
        }
    }
}

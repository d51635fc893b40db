//! The configuration: found, trusted, read, checked.
//!
//! Order: `find` says which file and why it may be used, `file` what can stand in it, `overrides`
//! what the environment changes, `import` what another client's file adds, `secrets` how values
//! come in at the last moment, `diagnose` how a fault is told. It decides nothing about tools.

pub(crate) mod find;

pub(crate) mod file;

mod overrides;

mod import;

mod login;

mod secrets;

mod workspaces;

mod diagnose;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, anyhow, bail};
use gateway::config::{Backend, Profile, Server};
use serde::Deserialize;

use diagnose::Document;
pub(crate) use diagnose::did_you_mean;
use file::{File, Role};
use find::Chosen;

/// The commented file with every default, as `pinfold --print-default-config` shows it.
pub(crate) const DEFAULT: &str = include_str!("default.toml");

/// Largest file that is read; a configuration has a few kilobytes.
const MOST_BYTES: u64 = 4 << 20;

/// A configuration that was found, read and checked. Paths in it are absolute.
#[derive(Debug)]
pub(crate) struct Config {
    /// What stands in it, overrides included, `${…}` not yet expanded.
    pub(crate) file: File,
    /// The address of the database, expanded.
    pub(crate) database: String,
    /// As it was named by the person, for commands to be typed.
    given: Option<PathBuf>,
    /// What nothing may show; one for the whole process, since it grows.
    secrets: OnceLock<mcp::Secrets>,
    /// Values that came by `PINFOLD_*` variables to where a secret may stand.
    overridden: Overridden,
    /// For messages.
    documents: Documents,
}

/// Values of variables; its `Debug` shows none.
#[derive(Clone, Default)]
struct Overridden(Vec<String>);

impl std::fmt::Debug for Overridden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Overridden({})", self.0.len())
    }
}

struct Documents {
    own: Document,
    imported: Option<Document>,
    /// Names of the servers that came from `imported`.
    imported_servers: Vec<String>,
    /// A line about each server of `imported` that is not used.
    left_out: Vec<String>,
}

impl Documents {
    /// Where the server called `name` stands: the document and the table in it.
    fn of_server(&self, name: &str) -> (&Document, &'static str) {
        match &self.imported {
            Some(document) if self.imported_servers.iter().any(|server| server == name) => {
                (document, "mcpServers")
            }
            _ => (&self.own, "servers"),
        }
    }
}

impl std::fmt::Debug for Documents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Documents").field("own", &self.own.path).finish_non_exhaustive()
    }
}

/// Finds and reads the configuration; there must be one.
pub(crate) fn load(given: Option<&Path>) -> anyhow::Result<Config> {
    let Some((path, chosen)) = find::find(given)? else {
        bail!(
            "there is no configuration: give --config FILE, or write ~/.config/pinfold/pinfold.toml \
             (pinfold --print-default-config shows what can stand in it)"
        );
    };
    Ok(Config { given: given.map(Path::to_owned), ..read(&path, chosen)? })
}

/// Like [`load`], with nothing where there is no file, or none that the person trusts: the second
/// value then says so.
pub(crate) fn load_or_none(
    given: Option<&Path>,
) -> anyhow::Result<(Option<Config>, Option<String>)> {
    let Some((path, chosen)) = find::find(given)? else { return Ok((None, None)) };
    match read(&path, chosen) {
        Ok(config) => Ok((Some(Config { given: given.map(Path::to_owned), ..config }), None)),
        Err(error) if error.is::<find::Untrusted>() => Ok((None, Some(error.to_string()))),
        Err(error) => Err(error),
    }
}

fn read(path: &Path, chosen: Chosen) -> anyhow::Result<Config> {
    let text = read_text(path)?;
    let path = std::path::absolute(path)?;
    let directory = path.parent().context("the configuration has no directory")?.to_owned();
    let own = Document::new(&path, text);
    let as_written: File = toml::from_str(&own.text).map_err(|error| own.explain(&error))?;

    let mcp_config = std::env::var_os("PINFOLD_MCP_CONFIG")
        .map(PathBuf::from)
        .or_else(|| as_written.mcp_config.clone())
        .map(|import| directory.join(import));
    let imported = match &mcp_config {
        Some(import) => {
            let text = read_text(import).map_err(|error| own.error(&["mcp_config"], error))?;
            Some(Document::new(import, text))
        }
        None => None,
    };

    let mut used = secrets::names(&own.text);
    used.extend(imported.iter().flat_map(|document| secrets::names(&document.text)));
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let overrides = overrides::collect(variables, &used);
    let table = own.text.parse::<toml::Table>().map_err(|error| own.explain(&error))?;
    let table = overrides::apply(table, &overrides, &|table| {
        File::deserialize(table.clone()).map(|_: File| ())
    })?;
    let mut file =
        File::deserialize(table).map_err(|error| anyhow!("{}: {error}", path.display()))?;

    let (mut imported_servers, mut left_out) = (Vec::new(), Vec::new());
    if let Some(document) = &imported {
        let (servers, lines) = import::servers(&document.text)
            .map_err(|error| anyhow!("{}: {error}", document.path.display()))?;
        left_out = lines;
        for line in &left_out {
            tracing::warn!("{}: {line}; left out", document.path.display());
        }
        for (name, server) in servers {
            // The own file knows better than the imported one.
            if let Entry::Vacant(place) = file.servers.entry(name) {
                imported_servers.push(place.key().clone());
                place.insert(server);
            }
        }
    }

    login::check_written(&as_written, &own)?;
    let overridden = Overridden(overrides::secrets(&overrides));
    let documents = Documents { own, imported, imported_servers, left_out };
    let config = Config { overridden, ..finish(file, &directory, documents)? };
    config.require_trust(chosen)?;
    Ok(config)
}

/// Makes paths absolute, fills in what follows from other keys, and checks the rest.
fn finish(mut file: File, directory: &Path, documents: Documents) -> anyhow::Result<Config> {
    let own = &documents.own;
    file.data_dir = directory.join(&file.data_dir);
    file.mcp_config = file.mcp_config.map(|path| directory.join(path));
    if file.profiles.is_empty() {
        let servers = file.servers.keys().cloned().collect();
        file.profiles.insert("default".to_owned(), Profile { servers, ..Profile::default() });
    }
    for profile in file.profiles.values_mut() {
        profile.workspace.path = profile.workspace.path.take().map(|path| directory.join(path));
    }
    if Path::new(&file.execute.python).components().count() > 1 {
        let python = directory.join(&file.execute.python);
        file.execute.python = python
            .into_os_string()
            .into_string()
            .map_err(|_| own.error(&["execute", "python"], "is not UTF-8"))?;
    }
    check(&file, &documents)?;
    let database = match &file.database {
        Some(url) => {
            let url = secrets::expand(url, &secrets::environment)
                .map_err(|failure| own.error(&["database"], failure))?;
            absolute_database(&url, directory)
        }
        None => format!("sqlite://{}/pinfold.db", file.data_dir.display()),
    };
    workspaces::check(&file, &database, &documents, &workspaces::Host::this())?;
    let (given, secrets, overridden) = (None, OnceLock::new(), Overridden::default());
    Ok(Config { file, database, given, secrets, overridden, documents })
}

fn check(file: &File, documents: &Documents) -> anyhow::Result<()> {
    let own = &documents.own;
    file.scripts.validate().map_err(|fault| own.fault(&[], &fault))?;
    file.approvals.validate().map_err(|fault| own.fault(&[], &fault))?;
    file.background_calls.validate().map_err(|fault| own.fault(&[], &fault))?;
    login::check(file, documents)?;
    let servers: Vec<&String> = file.servers.keys().collect();
    let profiles: Vec<&String> = file.profiles.keys().collect();
    for (name, profile) in &file.profiles {
        let place = ["profiles", name.as_str()];
        profile.validate().map_err(|fault| own.fault(&place, &fault))?;
        for server in &profile.servers {
            if !file.servers.contains_key(server) {
                let named = format!("server \"{server}\" ");
                let reason = documents.left_out.iter().find_map(|line| line.strip_prefix(&named));
                let guess = match reason {
                    Some(reason) => format!(": in the imported file it {reason}"),
                    None => did_you_mean(server, &servers),
                };
                return Err(own.error(
                    &["profiles", name, "servers"],
                    format!("names the server \"{server}\", which is not configured{guess}"),
                ));
            }
        }
    }
    let tokens = file.auth.as_ref().map_or(&[][..], |auth| &auth.tokens);
    for token in tokens {
        let hexadecimal = token.sha256.chars().all(|c| c.is_ascii_hexdigit());
        if token.sha256.len() != 64 || !hexadecimal {
            return Err(own.error(
                &["auth", "tokens"],
                format!("sha256 of \"{}\" is not 64 hexadecimal digits", token.name),
            ));
        }
        if token.roles.is_empty() {
            return Err(own.error(
                &["auth", "tokens"],
                format!("\"{}\" has no role: give agent, approver or admin", token.name),
            ));
        }
        let has = |role| token.roles.contains(&role);
        if has(Role::Agent) && has(Role::Approver) {
            return Err(own.error(
                &["auth", "tokens"],
                format!(
                    "\"{}\" is agent and approver: it would answer for itself; make two tokens",
                    token.name
                ),
            ));
        }
        if !file.profiles.contains_key(&token.profile) {
            let guess = did_you_mean(&token.profile, &profiles);
            return Err(own.error(
                &["auth", "tokens"],
                format!(
                    "\"{}\" has the profile \"{}\", which does not exist{guess}",
                    token.name, token.profile
                ),
            ));
        }
    }
    if file.public_url.as_ref().is_some_and(|url| !is_address(url)) {
        return Err(own.error(
            &["public_url"],
            "is not the address of a host: write \"https://pinfold.example\", without a path",
        ));
    }
    if !file.listen.ip().is_loopback() && tokens.is_empty() {
        return Err(own.error(
            &["listen"],
            "is not a loopback address and there are no tokens: add [auth] tokens",
        ));
    }
    Ok(())
}

/// Whether it is `http://host`, `https://host` or one of them with a port.
fn is_address(url: &str) -> bool {
    let authority = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    let authority = authority.map(|rest| rest.strip_suffix('/').unwrap_or(rest));
    authority.is_some_and(|host| !host.is_empty() && host.chars().all(plain))
}

impl Config {
    /// Returns if the person has chosen this very content. Being given by name is enough, unless a
    /// script could have changed the file since.
    fn require_trust(&self, chosen: Chosen) -> anyhow::Result<()> {
        let Documents { own, imported, .. } = &self.documents;
        let files = std::iter::once(own).chain(imported);
        let (named, instead) = match chosen {
            Chosen::ByPlace => (own, format!("give --config {}", own.path.display())),
            Chosen::ByPerson => match workspaces::first_writable(&self.file, files) {
                Some(document) => (
                    document,
                    "move it out of the workspace, where scripts can change it".to_owned(),
                ),
                None => return Ok(()),
            },
        };
        let imported = imported.as_ref().map_or("", |document| document.text.as_str());
        let parts =
            [own.path.as_os_str().as_encoded_bytes(), own.text.as_bytes(), imported.as_bytes()];
        let fingerprint = find::fingerprint(&parts);
        find::require_trust(&named.path, &fingerprint, &programs(&self.file), &instead)
    }

    /// The profile called `name`.
    pub(crate) fn profile(&self, name: &str) -> anyhow::Result<&Profile> {
        let known: Vec<&String> = self.file.profiles.keys().collect();
        let profile = self.file.profiles.get(name).with_context(|| {
            format!(
                "{} has no profile \"{name}\"{}",
                self.documents.own.path.display(),
                did_you_mean(name, &known)
            )
        })?;
        if profile.workspace.backend != Backend::Sandbox {
            return Err(self.documents.own.error(
                &["profiles", name, "workspace"],
                "names a backend that is not in this version; \"sandbox\" is",
            ));
        }
        Ok(profile)
    }

    /// Where the server called `name` is, with every `${…}` expanded.
    pub(crate) fn endpoint(&self, name: &str) -> anyhow::Result<mcp::Endpoint> {
        let (document, table) = self.documents.of_server(name);
        let server = self.file.servers.get(name).context("no such server")?;
        let directory = document.path.parent().unwrap_or(Path::new("/"));
        let mut endpoint = expanded(server, directory)
            .and_then(|server| server.endpoint())
            .map_err(|fault| document.error(&[table, name], fault))?;
        let (mcp::Endpoint::Stdio { secrets, .. } | mcp::Endpoint::Http { secrets, .. }) =
            &mut endpoint;
        *secrets = self.secrets();
        Ok(endpoint)
    }

    /// Which of these servers has no prefix. Two of them could have tools of one name, and whose it
    /// was would depend on which came first.
    pub(crate) fn bare<'a>(
        &self,
        servers: impl IntoIterator<Item = &'a str>,
    ) -> anyhow::Result<Option<&'a str>> {
        let is_bare = |name: &&str| self.file.servers.get(*name).is_some_and(Server::is_bare);
        let mut bare = servers.into_iter().filter(is_bare);
        match (bare.next(), bare.next()) {
            (Some(first), Some(second)) => Err(self.documents.own.error(
                &["servers", second, "prefix"],
                format!("is \"\" as for the server \"{first}\": only one of those used can be"),
            )),
            (first, _) => Ok(first),
        }
    }

    /// What came by `${…}` for any server or for the database, whichever are used: one server may
    /// repeat what was meant for another.
    fn secrets(&self) -> mcp::Secrets {
        self.secrets.get_or_init(|| self.found_secrets()).clone()
    }

    fn found_secrets(&self) -> mcp::Secrets {
        let servers = self.file.servers.values().flat_map(|server| {
            let values = server.env.values().chain(server.headers.values()).chain(&server.args);
            let oauth = server.oauth.iter().flat_map(login::texts);
            values.chain(&server.command).chain(&server.url).chain(oauth)
        });
        let key = self.file.credentials_key.iter().map(|key| &key.0);
        let mut found: Vec<String> = servers
            .chain(&self.file.database)
            .chain(key)
            .flat_map(|text| secrets::values(text, &secrets::environment))
            .collect();
        found.extend(self.overridden.0.iter().cloned());
        mcp::Secrets::new(found.iter().map(String::as_str))
    }
}

fn expanded(server: &Server, directory: &Path) -> Result<Server, String> {
    let expand = |text: &str| {
        secrets::expand(text, &secrets::environment).map_err(|failure| failure.to_string())
    };
    let all = |map: &BTreeMap<String, String>| -> Result<BTreeMap<String, String>, String> {
        map.iter().map(|(key, value)| Ok((key.clone(), expand(value)?))).collect()
    };
    let command = server.command.as_deref().map(expand).transpose()?.map(|command| {
        // A bare name is looked up in PATH; one with a slash means a file.
        if command.contains('/') {
            directory.join(&command).to_string_lossy().into_owned()
        } else {
            command
        }
    });
    Ok(Server {
        command,
        args: server.args.iter().map(|arg| expand(arg)).collect::<Result<_, _>>()?,
        env: all(&server.env)?,
        cwd: server.cwd.as_ref().map(|cwd| directory.join(cwd)),
        runs_from_workspace: server.runs_from_workspace,
        url: server.url.as_deref().map(expand).transpose()?,
        headers: all(&server.headers)?,
        prefix: server.prefix.clone(),
        oauth: server.oauth.as_ref().map(|oauth| login::expanded(oauth, &expand)).transpose()?,
    })
}

/// What a configuration would start or reach, as written. Of variables and headers the names only:
/// they can change what a program does, and their values can be secrets.
fn programs(file: &File) -> Vec<String> {
    let mut found = Vec::new();
    for (name, server) in &file.servers {
        let mut line = match (&server.command, &server.url) {
            (Some(command), _) => format!("{name}: {command} {}", server.args.join(" ")),
            (None, Some(url)) => format!("{name}: reaches {url}"),
            (None, None) => format!("{name}: nothing"),
        };
        if let Some(issuer) = server.oauth.as_ref().and_then(|oauth| oauth.issuer.as_ref()) {
            line.push_str(&format!(" (logs in at {issuer})"));
        }
        if let Some(cwd) = &server.cwd {
            line.push_str(&format!(" (in {})", cwd.display()));
        }
        if server.runs_from_workspace {
            line.push_str(" (scripts may change what it runs)");
        }
        let set: Vec<&str> =
            server.env.keys().chain(server.headers.keys()).map(|k| k.as_str()).collect();
        if !set.is_empty() {
            line.push_str(&format!(" (sets {})", set.join(", ")));
        }
        found.push(line);
    }
    if file.execute.python != "auto" {
        found.push(format!("for scripts: {}", file.execute.python));
    }
    found
}

fn absolute_database(url: &str, directory: &Path) -> String {
    match url.strip_prefix("sqlite://") {
        Some(path) if !path.is_empty() && !path.starts_with(['/', ':', '?']) => {
            format!("sqlite://{}", directory.join(path).display())
        }
        _ => url.to_owned(),
    }
}

fn read_text(path: &Path) -> anyhow::Result<String> {
    use std::io::Read;

    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes))
        .with_context(|| format!("cannot read {}", path.display()))?;
    if bytes.len() as u64 > MOST_BYTES {
        bail!("{} is larger than a configuration can be", path.display());
    }
    String::from_utf8(bytes).map_err(|_| anyhow!("{} is not UTF-8", path.display()))
}

//! The configuration file as it is written: every table and key, with its default.
//!
//! Settings of a part stand in the crate of that part; here are those of the binary itself and of
//! parts that are not in this version yet. The latter are read and checked all the same, so that
//! one file serves every version, and a command that would need them says what is missing.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use gateway::config::{Approvals, BackgroundCalls, Profile, Scripts, Server};
use serde::Deserialize;

/// The whole file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct File {
    /// Where `pinfold serve` listens.
    pub(crate) listen: SocketAddr,
    /// How others reach `pinfold serve`, where that is not by `listen`: `https://host`.
    pub(crate) public_url: Option<String>,
    /// Everything pinfold writes.
    pub(crate) data_dir: PathBuf,
    /// `sqlite://…` or `postgres://…`; `pinfold.db` in `data_dir` if absent.
    pub(crate) database: Option<String>,
    /// What the logins at servers are sealed with, 32 bytes; a file in `data_dir` if absent.
    pub(crate) credentials_key: Option<Secret>,
    /// An `mcpServers` file of another client, to be imported.
    pub(crate) mcp_config: Option<PathBuf>,
    /// Who may use the HTTP API; absent: loopback only.
    pub(crate) auth: Option<Auth>,
    /// Bounds of what `pinfold serve` takes.
    pub(crate) limits: Limits,
    /// Bounds of `run_script`.
    pub(crate) scripts: Scripts,
    /// The execution service.
    pub(crate) execute: Execute,
    /// Long calls.
    pub(crate) background_calls: BackgroundCalls,
    /// How approvals behave.
    pub(crate) approvals: Approvals,
    /// The user's MCP servers.
    pub(crate) servers: BTreeMap<String, Server>,
    /// By name; if there is none at all, `default` has every server.
    pub(crate) profiles: BTreeMap<String, Profile>,
}

impl Default for File {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8000)),
            public_url: None,
            data_dir: PathBuf::from("data"),
            database: None,
            credentials_key: None,
            mcp_config: None,
            auth: None,
            limits: Limits::default(),
            scripts: Scripts::default(),
            execute: Execute::default(),
            background_calls: BackgroundCalls::default(),
            approvals: Approvals::default(),
            servers: BTreeMap::new(),
            profiles: BTreeMap::new(),
        }
    }
}

/// A text that is not shown.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret(pub(crate) String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// Who may use the HTTP API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Auth {
    /// One per client.
    pub(crate) tokens: Vec<Token>,
}

/// A bearer token, known by its digest only.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Token {
    /// For records.
    pub(crate) name: String,
    /// SHA-256 of the token, 64 hexadecimal digits.
    pub(crate) sha256: String,
    /// What it may do.
    pub(crate) roles: Vec<Role>,
    /// Which profile it uses.
    #[serde(default = "default_profile")]
    pub(crate) profile: String,
}

fn default_profile() -> String {
    "default".to_owned()
}

/// What a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// Call tools.
    Agent,
    /// Answer approvals.
    Approver,
    /// Everything.
    Admin,
}

/// What `pinfold serve` takes; 0 is no bound.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Limits {
    /// Requests of one token in a second, over a longer time.
    pub(crate) requests_per_sec: u32,
    /// Requests of one token at once.
    pub(crate) burst: u32,
    /// Open connections; more wait until one is closed.
    pub(crate) connections: u32,
    /// Listeners to events at once.
    pub(crate) listeners: u32,
    /// Seconds until the headers of a request have to be there.
    pub(crate) header_sec: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests_per_sec: 500,
            burst: 1_000,
            connections: 4_000,
            listeners: 2_000,
            header_sec: 30,
        }
    }
}

/// `POST /execute` and `execute_script`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Execute {
    /// `auto` or the path of an interpreter; scripts use the same one.
    pub(crate) python: String,
    /// Interpreters that may wait for the next script of a server.
    pub(crate) warm_python: u32,
    /// Node processes that wait ready.
    pub(crate) warm_node: u32,
    /// Runs at once.
    pub(crate) max_parallel: u32,
    /// Python modules imported once, before the fork.
    pub(crate) preload: Vec<String>,
    /// Installed at the first start.
    pub(crate) default_packages: DefaultPackages,
    /// What runs may reach.
    pub(crate) network: Network,
    /// Another machine's `/execute` instead of this one's.
    pub(crate) url: String,
}

impl Default for Execute {
    fn default() -> Self {
        Self {
            python: "auto".to_owned(),
            warm_python: 4,
            warm_node: 2,
            max_parallel: 64,
            preload: words(&["json", "math"]),
            default_packages: DefaultPackages::default(),
            network: Network::default(),
            url: String::new(),
        }
    }
}

/// Packages that are installed at the first start.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DefaultPackages {
    /// From npm.
    pub(crate) node: Vec<String>,
    /// From PyPI.
    pub(crate) python: Vec<String>,
}

impl Default for DefaultPackages {
    fn default() -> Self {
        Self {
            node: words(&["lodash", "axios", "dayjs"]),
            python: words(&["numpy", "pandas", "matplotlib", "requests"]),
        }
    }
}

/// Hosts that runs may reach.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Network {
    /// Host names; none by default.
    pub(crate) allow: Vec<String>,
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

//! The settings of this crate, as they stand in the configuration file.
//!
//! Unknown keys are errors and every default stands here. Nothing is read from files or the
//! environment in this module: whoever has the text expands `${ENV}` and gives the values in.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::policy::{ApprovalRule, Effect, PermissionMode};

/// Tools that a rule under `permissions` can be about.
const BUILT_IN: [&str; 6] = ["Bash", "Read", "Write", "Edit", "Grep", "Glob"];

/// One of the user's MCP servers: a program (`command`) or an address (`url`).
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    /// Program that speaks MCP over its standard input and output.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables added to its small environment; may hold secrets.
    pub env: BTreeMap<String, String>,
    /// Its current directory.
    pub cwd: Option<PathBuf>,
    /// Whether what it runs may lie where scripts can change it; false by default.
    pub runs_from_workspace: bool,
    /// Address of a streamable HTTP server.
    pub url: Option<String>,
    /// Headers sent with every request; may hold secrets.
    pub headers: BTreeMap<String, String>,
    /// `""` lets its tools keep their own names; `server__tool` by default.
    pub prefix: Option<String>,
    /// How to log in there, where it wants a login and that cannot be found out from it alone.
    pub oauth: Option<mcp::auth::Settings>,
}

impl Server {
    /// Where the server is, or what is wrong with its entry.
    pub fn endpoint(&self) -> Result<mcp::Endpoint, String> {
        if self.prefix.as_ref().is_some_and(|prefix| !prefix.is_empty()) {
            return Err(
                "`prefix` can only be \"\": without it tools are named after the server, so \
                        rename the server instead"
                    .to_owned(),
            );
        }
        match (&self.command, &self.url) {
            (Some(_), Some(_)) => Err("give either `command` or `url`, not both".to_owned()),
            (None, None) => Err("give `command` (a program) or `url` (an address)".to_owned()),
            (Some(command), None) if command.trim().is_empty() => {
                Err("`command` is empty: give the program to start".to_owned())
            }
            (Some(command), None) => {
                if !self.headers.is_empty() {
                    return Err("`headers` go with `url`; for a program use `env`".to_owned());
                }
                if self.oauth.is_some() {
                    return Err("`oauth` goes with `url`, not with `command`".to_owned());
                }
                Ok(mcp::Endpoint::Stdio {
                    command: command.clone(),
                    args: self.args.clone(),
                    env: self.env.clone(),
                    cwd: self.cwd.clone(),
                    secrets: mcp::Secrets::default(),
                })
            }
            (None, Some(url)) => {
                if self.runs_from_workspace {
                    return Err("`runs_from_workspace` goes with `command`, not with `url`".into());
                }
                if !self.args.is_empty() || !self.env.is_empty() || self.cwd.is_some() {
                    return Err("`args`, `env` and `cwd` go with `command`, not with `url`".into());
                }
                if !url.starts_with("http://") && !url.starts_with("https://") {
                    return Err("`url` must start with http:// or https://".to_owned());
                }
                let has_token =
                    self.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
                if self.oauth.is_some() && has_token {
                    return Err("give either `oauth` or the header `Authorization`".to_owned());
                }
                Ok(mcp::Endpoint::Http {
                    url: url.clone(),
                    headers: self.headers.clone(),
                    login: None,
                    secrets: mcp::Secrets::default(),
                })
            }
        }
    }
}

impl Server {
    /// Whether its tools keep their own names.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        self.prefix.as_deref() == Some("")
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("command", &self.command)
            .field("url", &self.url.as_ref().map(|_| "…"))
            .finish_non_exhaustive()
    }
}

/// What one kind of user gets: which servers, under which rules, in which workspace.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Profile {
    /// Names of the servers whose tools are offered; none by default.
    pub servers: Vec<String>,
    /// What happens to tools that change something; `ask` by default.
    pub permission_mode: PermissionMode,
    /// Where scripts and commands work.
    pub workspace: Workspace,
    /// Whether the six workspace tools are offered; true by default.
    pub built_in_tools: bool,
    /// Switches.
    pub features: Features,
    /// What is known of single tools better than their servers say, by the tool's full name.
    pub tools: BTreeMap<String, ToolRule>,
    /// Rules about the arguments of built-in tools.
    pub permissions: Permissions,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            permission_mode: PermissionMode::Ask,
            workspace: Workspace::default(),
            built_in_tools: true,
            features: Features::default(),
            tools: BTreeMap::new(),
            permissions: Permissions::default(),
        }
    }
}

impl Profile {
    /// Says what in the profile would silently have no effect, or what contradicts itself.
    pub fn validate(&self) -> Result<(), String> {
        for (list, rules) in [
            ("deny", &self.permissions.deny),
            ("ask", &self.permissions.ask),
            ("allow", &self.permissions.allow),
        ] {
            for rule in rules {
                let tool = rule.split('(').next().unwrap_or_default();
                if !BUILT_IN.contains(&tool) {
                    return Err(format!(
                        "permissions.{list}: {rule:?} is not about a built-in tool ({}); for a \
                         server's tool write tools.\"{tool}\" = {{ approval = \"off\" }}",
                        BUILT_IN.join(", ")
                    ));
                }
            }
        }
        for (name, rule) in &self.tools {
            if rule.effect.is_none() && rule.approval.is_none() {
                return Err(format!("tools.{name:?}: give `effect` or `approval`, or both"));
            }
            if rule.effect == Some(Effect::Destructive)
                && matches!(rule.approval, Some(ApprovalRule::Direct | ApprovalRule::Mode))
            {
                return Err(format!(
                    "tools.{name:?}: a destructive tool is always asked about; to have it run \
                     without a question say effect = \"write\""
                ));
            }
        }
        Ok(())
    }
}

/// Where scripts and commands of a profile work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Workspace {
    /// Which backend; `sandbox` by default.
    pub backend: Backend,
    /// An existing folder to work in; without it each session has its own below `data_dir`.
    pub path: Option<PathBuf>,
}

/// A kind of workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// Files of this host, worked on from inside the sandbox.
    #[default]
    Sandbox,
    /// Files of this host, worked on directly.
    Local,
    /// A Docker container.
    Docker,
    /// An E2B sandbox.
    E2b,
    /// A Daytona sandbox.
    Daytona,
}

/// Switches of a profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Features {
    /// Whether `execute_script` is offered; false by default.
    pub enable_script_execution: bool,
}

/// What is known of one tool better than its server says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ToolRule {
    /// What it does to the world; from the annotations if absent.
    pub effect: Option<Effect>,
    /// When a person is asked; follows from the effect if absent.
    pub approval: Option<ApprovalRule>,
}

/// Rules about the arguments of built-in tools, such as `Read(/secret/**)`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Permissions {
    /// Refused.
    pub deny: Vec<String>,
    /// Asked about.
    pub ask: Vec<String>,
    /// Run without a question.
    pub allow: Vec<String>,
}

/// Bounds of `run_script`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scripts {
    /// Calls of one script that reach a tool; 2000 by default.
    pub max_calls: u64,
    /// Calls of one script at once, 1 to 64; 4 by default.
    pub concurrency: usize,
    /// Longest run of one script in seconds; 1800 by default.
    pub timeout_sec: u64,
    /// Characters of a script's output that go back to the model; 20000 by default.
    pub output_chars: usize,
    /// Memory of one script in MB, on top of the interpreter's own; 512 by default.
    pub memory_mb: u64,
    /// Longest single call of a tool in seconds, also of a direct one; 600 by default.
    pub call_timeout_sec: u64,
}

impl Default for Scripts {
    fn default() -> Self {
        Self {
            max_calls: 2000,
            concurrency: 4,
            timeout_sec: 1800,
            output_chars: 20_000,
            memory_mb: 512,
            call_timeout_sec: 600,
        }
    }
}

impl Scripts {
    /// Says which value is out of bounds and what would do.
    pub fn validate(&self) -> Result<(), String> {
        let within = |name: &str, value: u64, low: u64, high: u64| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                Err(format!("scripts.{name} = {value} is out of bounds: give {low} to {high}"))
            }
        };
        within("max_calls", self.max_calls, 1, 1_000_000)?;
        within("concurrency", self.concurrency as u64, 1, 64)?;
        within("timeout_sec", self.timeout_sec, 1, 7 * 24 * 3600)?;
        within("output_chars", self.output_chars as u64, 200, 2_000_000)?;
        within("memory_mb", self.memory_mb, 16, 1 << 20)?;
        within("call_timeout_sec", self.call_timeout_sec, 1, 24 * 3600)
    }
}

/// How approvals behave.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Approvals {
    /// Seconds after which an open question, or an answer that nobody used, is void; 600 by default.
    pub expire_sec: u64,
}

impl Default for Approvals {
    fn default() -> Self {
        Self { expire_sec: 600 }
    }
}

impl Approvals {
    /// Says which value is out of bounds and what would do.
    pub fn validate(&self) -> Result<(), String> {
        if (1..=7 * 24 * 3600).contains(&self.expire_sec) {
            Ok(())
        } else {
            Err(format!(
                "approvals.expire_sec = {} is out of bounds: give 1 to 604800",
                self.expire_sec
            ))
        }
    }
}

/// Calls that take long.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BackgroundCalls {
    /// Seconds after which a call of a model or a chat goes on in the background; 45 by default,
    /// 0 for never: then there are no background calls, and no tools that can only be run there.
    pub auto_after_sec: u64,
}

impl Default for BackgroundCalls {
    fn default() -> Self {
        Self { auto_after_sec: 45 }
    }
}

impl BackgroundCalls {
    /// Says which value is out of bounds and what would do.
    pub fn validate(&self) -> Result<(), String> {
        if self.auto_after_sec <= 24 * 3600 {
            Ok(())
        } else {
            Err(format!(
                "background_calls.auto_after_sec = {} is out of bounds: give 1 to 86400, or 0 for \
                 never",
                self.auto_after_sec
            ))
        }
    }

    pub(crate) fn after(&self) -> Option<Duration> {
        (self.auto_after_sec > 0).then(|| Duration::from_secs(self.auto_after_sec))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn profile(value: serde_json::Value) -> Result<Profile, String> {
        let profile: Profile = serde_json::from_value(value).map_err(|error| error.to_string())?;
        profile.validate().map(|()| profile)
    }

    #[test]
    fn what_is_absent_has_the_documented_default() {
        let found = profile(json!({})).unwrap();
        assert_eq!(found, Profile::default());
        assert_eq!(found.permission_mode, PermissionMode::Ask);
        assert!(found.built_in_tools && !found.features.enable_script_execution);
        let scripts: Scripts = serde_json::from_value(json!({"max_calls": 5})).unwrap();
        assert_eq!(scripts, Scripts { max_calls: 5, ..Scripts::default() });
        assert_eq!((scripts.concurrency, scripts.timeout_sec), (4, 1800));
        assert_eq!((scripts.output_chars, scripts.memory_mb), (20_000, 512));
        assert_eq!(Approvals::default().expire_sec, 600);
    }

    #[test]
    fn unknown_keys_and_values_are_errors() {
        for (value, expected) in [
            (json!({"server": []}), "unknown field `server`"),
            (json!({"permission_mode": "yolo"}), "unknown variant `yolo`"),
            (json!({"workspace": {"backed": "local"}}), "unknown field `backed`"),
            (json!({"tools": {"a__b": {"aproval": "off"}}}), "unknown field `aproval`"),
            (json!({"features": {"x": true}}), "unknown field `x`"),
            (json!({"tools": {"a__b": {}}}), "give `effect` or `approval`"),
            (
                json!({"tools": {"a__b": {"effect": "destructive", "approval": "direct"}}}),
                "a destructive tool is always asked about",
            ),
            (
                json!({"permissions": {"deny": ["fleet__reboot"]}}),
                "write tools.\"fleet__reboot\" = { approval = \"off\" }",
            ),
        ] {
            let error = profile(value.clone()).unwrap_err();
            assert!(error.contains(expected), "{value}: {error}");
        }
        let rules = json!({"permissions": {"deny": ["Read(/secret/**)"], "allow": ["Bash"]}});
        assert!(profile(rules).is_ok());
    }

    #[test]
    fn a_server_is_a_program_or_an_address() {
        let endpoint = |value: serde_json::Value| {
            let server: Server = serde_json::from_value(value).unwrap();
            assert!(!format!("{server:?}").contains("s3cret"), "{server:?}");
            server.endpoint()
        };
        let program = json!({"command": "fleet", "args": ["-v"], "env": {"TOKEN": "s3cret"}});
        assert!(matches!(endpoint(program), Ok(mcp::Endpoint::Stdio { .. })));
        let address = json!({"url": "https://x/mcp?key=s3cret", "headers": {"A": "s3cret"}});
        assert!(matches!(endpoint(address), Ok(mcp::Endpoint::Http { .. })));
        for (value, expected) in [
            (json!({}), "give `command` (a program) or `url`"),
            (json!({"command": " "}), "`command` is empty"),
            (json!({"command": "x", "url": "http://x"}), "either `command` or `url`"),
            (json!({"command": "x", "headers": {"A": "s3cret"}}), "`headers` go with `url`"),
            (json!({"url": "http://x", "args": ["a"]}), "go with `command`"),
            (json!({"url": "ftp://x"}), "must start with http"),
            (json!({"url": "http://x", "prefix": "y"}), "`prefix` can only be"),
            (json!({"command": "x", "oauth": {}}), "`oauth` goes with `url`"),
            (
                json!({"url": "https://x", "oauth": {}, "headers": {"authorization": "s3cret"}}),
                "either `oauth` or the header",
            ),
        ] {
            let error = endpoint(value.clone()).unwrap_err();
            assert!(error.contains(expected) && !error.contains("s3cret"), "{value}: {error}");
        }
    }

    #[test]
    fn bounds_are_named() {
        for (name, scripts) in [
            ("max_calls", Scripts { max_calls: 0, ..Scripts::default() }),
            ("concurrency", Scripts { concurrency: 0, ..Scripts::default() }),
            ("concurrency", Scripts { concurrency: 65, ..Scripts::default() }),
            ("timeout_sec", Scripts { timeout_sec: 0, ..Scripts::default() }),
            ("output_chars", Scripts { output_chars: 0, ..Scripts::default() }),
            ("memory_mb", Scripts { memory_mb: 1, ..Scripts::default() }),
            ("call_timeout_sec", Scripts { call_timeout_sec: 0, ..Scripts::default() }),
        ] {
            assert!(scripts.validate().unwrap_err().contains(&format!("scripts.{name}")), "{name}");
        }
        assert!(Scripts::default().validate().is_ok());
        assert!(Approvals { expire_sec: 0 }.validate().is_err());
        let after = |auto_after_sec| BackgroundCalls { auto_after_sec };
        assert!(after(100_000).validate().unwrap_err().contains("give 1 to 86400"));
        assert_eq!((after(0).after(), after(1).after()), (None, Some(Duration::from_secs(1))));
    }
}

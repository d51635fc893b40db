//! Imports the `mcpServers` block that other clients keep (`.mcp.json`, `claude_desktop_config.json`).
//!
//! Keys that only mean something to those clients are passed over; an entry that no transport here
//! can serve is left out with a warning, because one odd server must not hide the others.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use gateway::config::Server;
use serde::Deserialize;

#[derive(Deserialize)]
struct Imported {
    #[serde(rename = "mcpServers")]
    servers: Option<BTreeMap<String, Entry>>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    transport: Option<String>,
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<PathBuf>,
    #[serde(alias = "serverUrl")]
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    disabled: bool,
}

/// The servers in `text`, and a line about each entry that was left out.
pub(crate) fn servers(text: &str) -> anyhow::Result<(BTreeMap<String, Server>, Vec<String>)> {
    // serde_json's own message can quote a value, which may be a secret: only the place is told.
    let imported: Imported = serde_json::from_str(text).map_err(|error| {
        let what = match error.classify() {
            serde_json::error::Category::Data => {
                "does not have the form {\"mcpServers\": {name: {command, args, env} or {url, headers}}}"
            }
            _ => "is not JSON",
        };
        anyhow!("line {}: {what}", error.line())
    })?;
    let entries = imported.servers.context("has no \"mcpServers\"")?;
    let (mut servers, mut left_out) = (BTreeMap::new(), Vec::new());
    for (name, entry) in entries {
        let fault = match entry.transport.as_deref() {
            _ if entry.disabled => Some("is disabled there"),
            Some("sse") => Some("uses the old SSE transport, which pinfold does not speak"),
            Some("stdio" | "http" | "streamable-http" | "streamableHttp") | None => None,
            Some(_) => Some("has a type that pinfold does not know"),
        };
        if let Some(fault) = fault {
            left_out.push(format!("server \"{name}\" {fault}"));
            continue;
        }
        let Entry { command, args, env, cwd, url, headers, .. } = entry;
        servers.insert(name, Server { command, args, env, cwd, url, headers, ..Server::default() });
    }
    Ok((servers, left_out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_three_clients_are_read() {
        let (servers, left_out) = servers(
            r#"{"mcpServers": {
                "a": {"command": "npx", "args": ["-y", "x"], "env": {"K": "${K}"}, "autoApprove": []},
                "b": {"type": "http", "url": "https://b.example/mcp", "headers": {"A": "${B:-c}"}},
                "c": {"type": "stdio", "command": "./c.py", "cwd": "sub"},
                "d": {"type": "sse", "url": "https://d.example/sse"},
                "e": {"command": "e", "disabled": true}
            }, "other": 1}"#,
        )
        .unwrap();
        assert_eq!(servers.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(servers["a"].args, ["-y", "x"]);
        assert_eq!(servers["b"].headers["A"], "${B:-c}");
        assert_eq!(left_out.len(), 2, "{left_out:?}");
    }

    #[test]
    fn faults_say_the_line_and_no_value() {
        let error =
            servers("{\"mcpServers\": {\n\"a\": {\"env\": {\"TOKEN\": 123456789}}}}").unwrap_err();
        assert!(error.to_string().starts_with("line 2: does not have the form"), "{error}");
        assert!(!error.to_string().contains("123456789"), "{error}");
        assert!(servers("{").unwrap_err().to_string().contains("is not JSON"));
        assert!(servers("{}").unwrap_err().to_string().contains("mcpServers"));
    }
}

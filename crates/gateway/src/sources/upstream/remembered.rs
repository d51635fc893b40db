//! The tools that a server had last, kept in a file: after a cold start they can be listed at once,
//! before a slow server has said anything.
//!
//! What is read here is a hint. Nothing is called by it: a call waits for the server and is decided
//! on what that says. A list without tools is never kept, so one failed start forgets nothing.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::json;

/// Where the files are, below `data_dir`.
const FOLDER: &str = "tools";

/// The form of the files; others are not read.
const FORM: u32 = 1;

/// Largest file that is read or written, in bytes.
const LARGEST: u64 = 64 << 20;

/// Most tools that are left out by name.
const MOST_LEFT_OUT: usize = 100;

/// Where the tools of one server are kept.
#[derive(Clone, Debug)]
pub struct Memory {
    folder: PathBuf,
    /// The same for every configuration of the server.
    server: String,
    /// Another one for another configuration.
    name: String,
}

/// What was kept.
#[derive(Debug, Default)]
pub struct Kept {
    /// The tools, as the server listed them.
    pub tools: Vec<mcp::Tool>,
    /// What of the server's list could not be used, and why.
    pub left_out: Vec<String>,
}

#[derive(Serialize)]
struct Written<'a> {
    form: u32,
    left_out: &'a [String],
    tools: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Found {
    form: u32,
    #[serde(default)]
    left_out: Vec<String>,
    tools: Vec<Box<RawValue>>,
}

impl Memory {
    /// Of a server as it is configured: with another `configuration` it is another server.
    pub fn new(data_dir: &Path, server: &str, configuration: &str) -> Self {
        let of = json::hash([server]);
        let whole = json::hash([server, configuration]);
        let server = format!("{}-", &of[..16]);
        let name = format!("{server}{}.json", &whole[..32]);
        Self { folder: data_dir.join(FOLDER), server, name }
    }

    /// What was kept; nothing where there is no file, or none that can be trusted.
    pub fn read(&self) -> Option<Kept> {
        match self.try_read() {
            Ok(kept) => kept,
            Err(reason) => {
                let path = self.folder.join(&self.name);
                tracing::warn!(path = %path.display(), reason, "the last tools are not used");
                None
            }
        }
    }

    fn try_read(&self) -> Result<Option<Kept>, String> {
        let path = self.folder.join(&self.name);
        let no_link = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let flags = i32::try_from(no_link.bits()).unwrap_or_default();
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let about = file.metadata().map_err(|error| error.to_string())?;
        let ours = about.uid() == rustix::process::geteuid().as_raw();
        if !about.is_file() || !ours || about.mode() & 0o077 != 0 {
            return Err("it is not a file of this user alone".to_owned());
        }
        let mut text = String::new();
        let read = file.take(LARGEST + 1).read_to_string(&mut text);
        read.map_err(|error| error.to_string())?;
        if text.len() as u64 > LARGEST {
            return Err("it is too large".to_owned());
        }
        let found: Found = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        if found.form != FORM {
            return Err(format!("its form is {} and not {FORM}", found.form));
        }
        let tools = found.tools.iter().map(|raw| mcp::Tool::read(raw));
        let tools: Vec<mcp::Tool> = tools.collect::<Result<_, _>>()?;
        let left_out = found.left_out.iter().map(|why| json::one_line(why, 500));
        let left_out = left_out.take(MOST_LEFT_OUT).collect();
        Ok((!tools.is_empty()).then_some(Kept { tools, left_out }))
    }

    /// Keeps a list in the place of the one before. An empty one is not kept.
    pub(super) fn keep(
        &self,
        tools: &[Arc<mcp::Tool>],
        left_out: &[String],
    ) -> std::io::Result<()> {
        if tools.is_empty() {
            return Ok(());
        }
        let left_out = &left_out[..left_out.len().min(MOST_LEFT_OUT)];
        let tools = tools.iter().map(|tool| &*tool.raw).collect();
        let text = serde_json::to_vec(&Written { form: FORM, left_out, tools })?;
        if text.len() as u64 > LARGEST {
            return Ok(());
        }
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let aside = self.folder.join(format!("{}.{}", self.name, uuid::Uuid::now_v7()));
        let written = write(&aside, &text)
            .and_then(|()| std::fs::rename(&aside, self.folder.join(&self.name)));
        if written.is_err() {
            let _ = std::fs::remove_file(&aside);
            return written;
        }
        self.forget_others()
    }

    /// Removes what was kept of the same server under other configurations.
    fn forget_others(&self) -> std::io::Result<()> {
        for entry in std::fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let other = name.to_str().filter(|name| {
                name.starts_with(&self.server) && name.ends_with(".json") && *name != self.name
            });
            if other.is_some() {
                std::fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

fn write(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn tool(name: &str) -> Arc<mcp::Tool> {
        let raw = format!(r#"{{"name":"{name}","inputSchema":{{"z":1,"a":2}},"x":[1]}}"#);
        Arc::new(mcp::Tool::read(&RawValue::from_string(raw).unwrap()).unwrap())
    }

    #[test]
    fn what_was_kept_comes_back_as_it_was() {
        let data = tempfile::tempdir().unwrap();
        let memory = Memory::new(data.path(), "fleet", "{\"command\":\"x\"}");
        assert!(memory.read().is_none());
        memory.keep(&[tool("b"), tool("a")], &["tool `c`: why".to_owned()]).unwrap();
        let kept = memory.read().unwrap();
        let raw: Vec<&str> = kept.tools.iter().map(|tool| tool.raw.get()).collect();
        assert_eq!(raw, [tool("b").raw.get(), tool("a").raw.get()]);
        assert_eq!(kept.left_out, ["tool `c`: why"]);
        let path = data.path().join(FOLDER).join(&memory.name);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        // Nothing comes in the place of something.
        memory.keep(&[], &[]).unwrap();
        assert_eq!(memory.read().unwrap().tools.len(), 2);
    }

    #[test]
    fn another_configuration_is_another_server() {
        let data = tempfile::tempdir().unwrap();
        let of = |server, configuration| Memory::new(data.path(), server, configuration);
        of("fleet", "1").keep(&[tool("a")], &[]).unwrap();
        of("other", "1").keep(&[tool("b")], &[]).unwrap();
        assert!(of("fleet", "2").read().is_none());
        of("fleet", "2").keep(&[tool("c")], &[]).unwrap();
        assert!(of("fleet", "1").read().is_none(), "what nobody needs any more is still there");
        assert_eq!(of("other", "1").read().unwrap().tools[0].name, "b");
    }

    #[test]
    fn what_cannot_be_trusted_is_not_used() {
        let data = tempfile::tempdir().unwrap();
        let memory = Memory::new(data.path(), "fleet", "1");
        memory.keep(&[tool("a")], &[]).unwrap();
        let path = data.path().join(FOLDER).join(&memory.name);
        let good = std::fs::read_to_string(&path).unwrap();
        for wrong in [
            "",
            "{",
            "null",
            &good.replace("\"form\":1", "\"form\":2"),
            &good.replace("inputSchema", "schema"),
            &good[..good.len() - 3],
        ] {
            std::fs::write(&path, wrong).unwrap();
            assert!(memory.read().is_none(), "{wrong}");
        }
        std::fs::write(&path, &good).unwrap();
        assert!(memory.read().is_some());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(memory.read().is_none(), "others could have written it");
        std::fs::remove_file(&path).unwrap();
        let elsewhere = data.path().join("elsewhere");
        std::fs::write(&elsewhere, &good).unwrap();
        std::fs::set_permissions(&elsewhere, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(memory.read().is_none(), "a link was followed");
    }
}

//! What the tests share: a session on each backend, files put behind its back, and calls.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use workspace::backends::{Local, Memory, Place};
use workspace::tools::{Answer, Content, Tool};
use workspace::{Backend, Session};

use crate::bare::Bare;

/// A session and the files under it.
pub(crate) struct Ground {
    pub(crate) session: Session,
    pub(crate) root: String,
    files: Files,
}

enum Files {
    Memory(Memory),
    Host(tempfile::TempDir),
}

impl Ground {
    pub(crate) fn memory() -> Self {
        let memory = Memory::default();
        let session = Session::new(Place::Memory(memory.clone()));
        Self { session, root: "/workspace".to_owned(), files: Files::Memory(memory) }
    }

    pub(crate) fn local() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        let session = Session::new(Place::Local { folder: path.clone() });
        Self { session, root: path.to_str().unwrap().to_owned(), files: Files::Host(folder) }
    }

    /// The least that a backend has to do.
    pub(crate) fn bare() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        let bare: Arc<dyn Backend> = Arc::new(Bare { local: Local::open(&path).unwrap() });
        let session = Session::new(Place::Open(bare));
        Self { session, root: path.to_str().unwrap().to_owned(), files: Files::Host(folder) }
    }

    /// None, aloud, where nothing can be confined.
    pub(crate) async fn sandbox() -> Option<Self> {
        let sandbox = match sandbox::Sandbox::start(sandbox::Options::default()).await {
            Ok(sandbox) => sandbox,
            Err(error) => {
                skip(&error.to_string());
                return None;
            }
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("files");
        std::fs::create_dir(&path).unwrap();
        let programs = folder.path().join("programs");
        let limits = sandbox::Limits::default();
        let session = Session::new(Place::Sandbox { sandbox, folder: path, programs, limits });
        Some(Self { session, root: "/workspace".to_owned(), files: Files::Host(folder) })
    }

    /// A path below the root, as the agent writes it.
    pub(crate) fn path(&self, below: &str) -> String {
        format!("{}/{below}", self.root)
    }

    /// The same on this host, where it is on this host.
    pub(crate) fn host(&self, below: &str) -> PathBuf {
        match &self.files {
            Files::Memory(_) => panic!("not on this host"),
            Files::Host(folder) if self.root == "/workspace" => {
                folder.path().join("files").join(below)
            }
            Files::Host(folder) => folder.path().join(below),
        }
    }

    /// Puts a file as somebody else would.
    pub(crate) fn put(&self, below: &str, bytes: impl AsRef<[u8]>) {
        match &self.files {
            Files::Memory(memory) => memory.file(&self.path(below), bytes.as_ref()),
            Files::Host(_) => {
                let path = self.host(below);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, bytes).unwrap();
            }
        }
    }

    pub(crate) fn link(&self, below: &str, target: &str) {
        match &self.files {
            Files::Memory(memory) => memory.link(&self.path(below), target),
            Files::Host(_) => std::os::unix::fs::symlink(target, self.host(below)).unwrap(),
        }
    }

    pub(crate) fn pipe(&self, below: &str) {
        match &self.files {
            Files::Memory(memory) => memory.other(&self.path(below), inside::Kind::Pipe),
            Files::Host(_) => {
                let mode = rustix::fs::Mode::from_raw_mode(0o666);
                let kind = rustix::fs::FileType::Fifo;
                let path = self.host(below);
                rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
            }
        }
    }

    pub(crate) fn bytes(&self, below: &str) -> Vec<u8> {
        match &self.files {
            Files::Memory(memory) => memory.bytes(&self.path(below)).unwrap(),
            Files::Host(_) => std::fs::read(self.host(below)).unwrap(),
        }
    }

    pub(crate) fn is_there(&self, below: &str) -> bool {
        match &self.files {
            Files::Memory(memory) => memory.bytes(&self.path(below)).is_some(),
            Files::Host(_) => Path::exists(&self.host(below)),
        }
    }

    /// Calls a tool; `~/` at the beginning of any text stands for the root.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Answer {
        let tool = Tool::named(tool).unwrap();
        tool.run(&self.session, rooted(arguments, &self.root)).await
    }

    /// The text of an answer that is no error, `~` for the root.
    pub(crate) async fn ok(&self, tool: &str, arguments: Value) -> String {
        let shown = format!("{tool} {arguments}");
        let answer = self.call(tool, arguments).await;
        let text = self.short(&answer.all_text());
        assert!(!answer.is_error, "{shown}: {text}");
        text
    }

    /// The text of an answer that is an error.
    pub(crate) async fn fails(&self, tool: &str, arguments: Value) -> String {
        let shown = format!("{tool} {arguments}");
        let answer = self.call(tool, arguments).await;
        let text = self.short(&answer.all_text());
        assert!(answer.is_error, "{shown}: {text}");
        text
    }

    pub(crate) fn short(&self, text: &str) -> String {
        text.replace(&self.root, "~")
    }
}

fn rooted(value: Value, root: &str) -> Value {
    match value {
        Value::String(text) => match text.strip_prefix("~/") {
            Some(rest) => Value::String(format!("{root}/{rest}")),
            None if text == "~" => Value::String(root.to_owned()),
            None => Value::String(text),
        },
        Value::Object(map) => {
            map.into_iter().map(|(key, value)| (key, rooted(value, root))).collect()
        }
        other => other,
    }
}

/// The only image of an answer.
pub(crate) fn image(answer: &Answer) -> (String, Vec<u8>) {
    let mut images = answer.content.iter().filter_map(|piece| match piece {
        Content::Image { mime, bytes } => Some((mime.clone(), bytes.clone())),
        Content::Text(_) => None,
    });
    images.next().unwrap()
}

/// Says aloud that a test cannot run here; fails where everything is required to.
pub(crate) fn skip(why: &str) {
    assert!(
        std::env::var_os("PINFOLD_TEST_REQUIRE").is_none_or(|value| value != "all"),
        "a test that is required cannot run: {why}"
    );
    let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("SKIPPED: {why}\n"));
}

/// Runs each on every backend.
macro_rules! everywhere {
    ($($name:ident),* $(,)?) => {
        mod in_memory {
            $(#[tokio::test] async fn $name() {
                super::$name(&crate::ground::Ground::memory()).await;
            })*
        }
        crate::ground::with_programs!($($name),*);
    };
}

/// Runs each on every backend that can run programs.
macro_rules! with_programs {
    ($($name:ident),* $(,)?) => {
        mod on_local {
            $(#[tokio::test] async fn $name() {
                super::$name(&crate::ground::Ground::local()).await;
            })*
        }
        mod on_bare {
            $(#[tokio::test] async fn $name() {
                super::$name(&crate::ground::Ground::bare()).await;
            })*
        }
        mod in_sandbox {
            $(#[tokio::test] async fn $name() {
                if let Some(ground) = crate::ground::Ground::sandbox().await {
                    super::$name(&ground).await;
                }
            })*
        }
    };
}

pub(crate) use {everywhere, with_programs};

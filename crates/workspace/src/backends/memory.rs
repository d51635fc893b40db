//! In memory, for tests: the same requests on a tree that is nowhere. It runs no program, unless a
//! test says what one does.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Cursor, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use inside::{Content, Folder, Kind, Meta, Reply, Request, Root};

use super::local::{fetched, store, stored};
use crate::backend::{Asked, Backend, Fault, Outcome, Output, Program};

/// Where the tree is said to be.
pub(super) const ROOT: &str = "/workspace";

/// What programs do, in a test.
pub type Programs = Arc<dyn Fn(&Program) -> Result<Outcome, Fault> + Send + Sync>;

/// A tree in memory. Clones are the same tree.
#[derive(Clone, Default)]
pub struct Memory {
    tree: Arc<Mutex<Tree>>,
    programs: Option<Programs>,
    /// One at a time, as under the lock of a folder on a disk.
    turn: Arc<tokio::sync::Mutex<()>>,
    acts: Arc<AtomicU64>,
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Memory")
    }
}

#[derive(Default)]
struct Tree {
    nodes: BTreeMap<PathBuf, Node>,
    clock: i128,
}

#[derive(Clone)]
struct Node {
    what: What,
    modified: i128,
    number: u64,
}

#[derive(Clone)]
enum What {
    File(Arc<Vec<u8>>),
    Folder,
    Link(PathBuf),
    Other(Kind),
}

impl Memory {
    /// An empty tree whose programs do what `programs` says.
    pub fn with_programs(programs: Programs) -> Self {
        Self { programs: Some(programs), ..Self::default() }
    }

    /// Puts a file, with the folders above it.
    pub fn file(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.put(path, What::File(Arc::new(bytes.into())));
    }

    /// Puts a link.
    pub fn link(&self, path: &str, target: &str) {
        self.put(path, What::Link(PathBuf::from(target)));
    }

    /// Puts something that is neither file, folder nor link.
    pub fn other(&self, path: &str, kind: Kind) {
        self.put(path, What::Other(kind));
    }

    /// Removes what is there and below.
    pub fn remove(&self, path: &str) {
        self.lock().nodes.retain(|found, _| !found.starts_with(path));
    }

    /// The bytes of a file, without asking the backend.
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        match &self.lock().nodes.get(Path::new(path))?.what {
            What::File(bytes) => Some(bytes.to_vec()),
            _ => None,
        }
    }

    /// How often it was asked for anything.
    pub fn exchanges(&self) -> u64 {
        self.acts.load(Ordering::Relaxed)
    }

    fn put(&self, path: &str, what: What) {
        let mut tree = self.lock();
        let path = PathBuf::from(path);
        let above = path.ancestors().skip(1).filter(|above| above.starts_with(ROOT));
        for folder in above {
            tree.nodes.entry(folder.to_owned()).or_insert_with(|| node(What::Folder, 0));
        }
        tree.put(path, what);
    }

    fn lock(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn root_folder(&self) -> Root {
        let path = PathBuf::from(ROOT);
        self.lock().nodes.entry(path.clone()).or_insert_with(|| node(What::Folder, 0));
        Root::new(Arc::new(Place { tree: Arc::clone(&self.tree), path }), ROOT)
    }
}

fn node(what: What, modified: i128) -> Node {
    static MADE: AtomicU64 = AtomicU64::new(1);
    Node { what, modified, number: MADE.fetch_add(1, Ordering::Relaxed) }
}

impl Tree {
    fn put(&mut self, path: PathBuf, what: What) {
        self.clock += 1_000_000_000;
        let mut new = node(what, self.clock);
        if let Some(old) = self.nodes.get(&path) {
            new.number = old.number;
        }
        self.nodes.insert(path, new);
    }
}

#[async_trait::async_trait]
impl Backend for Memory {
    fn root(&self) -> &str {
        ROOT
    }

    async fn exec(&self, program: Program) -> Result<Outcome, Fault> {
        self.acts.fetch_add(1, Ordering::Relaxed);
        match &self.programs {
            Some(programs) => programs(&program),
            None => Ok(Outcome::Exited { code: 127, output: Output::default() }),
        }
    }

    async fn read(&self, path: &str, from: u64, length: u64) -> Result<Asked<Vec<u8>>, Fault> {
        fetched(self.act(Request::Fetch { path: path.to_owned(), from, length }).await?)
    }

    async fn write(&self, path: &str, content: Vec<u8>) -> Result<Asked<()>, Fault> {
        stored(self.act(store(path, content)).await?)
    }

    async fn act(&self, request: Request) -> Result<Reply, Fault> {
        if let Request::Run(run) = request {
            let program = Program {
                command: run.command,
                environment: run.environment,
                input: run.input,
                keep: run.keep,
                ..Program::new(&run.cwd)
            };
            return self.exec(program).await.map(ran);
        }
        let _turn = self.turn.lock().await;
        self.acts.fetch_add(1, Ordering::Relaxed);
        let root = self.root_folder();
        let served = tokio::task::spawn_blocking(move || inside::serve(&root, &request));
        served.await.map_err(|error| Fault::Lost(error.to_string()))
    }
}

fn ran(outcome: Outcome) -> Reply {
    use inside::Ending;
    let (ending, output) = match outcome {
        Outcome::Exited { code, output } => (Ending::Exited(code), output),
        Outcome::Signaled { signal, output } => (Ending::Signaled(signal), output),
        Outcome::TimedOut { partial } => (Ending::TimedOut, partial),
    };
    Reply::Ran(inside::Ran {
        ending,
        stdout: output.stdout,
        stderr: output.stderr,
        wall_ms: 0,
        report: Vec::new(),
        left: 0,
        whole: None,
    })
}

/// A folder of the tree.
struct Place {
    tree: Arc<Mutex<Tree>>,
    path: PathBuf,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.path.display())
    }
}

impl Place {
    fn lock(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn node(&self, name: &OsStr) -> io::Result<Node> {
        let found = self.lock().nodes.get(&self.path.join(name)).cloned();
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Folder for Place {
    fn list(&self) -> io::Result<Vec<(OsString, Kind)>> {
        let tree = self.lock();
        let here = tree.nodes.iter().filter(|(path, _)| path.parent() == Some(&self.path));
        let entry =
            |(path, node): (&PathBuf, &Node)| Some((path.file_name()?.to_owned(), meta(node).kind));
        Ok(here.filter_map(entry).collect())
    }

    fn look(&self, name: &OsStr) -> io::Result<Meta> {
        self.node(name).map(|node| meta(&node))
    }

    fn link(&self, name: &OsStr) -> io::Result<PathBuf> {
        match self.node(name)?.what {
            What::Link(target) => Ok(target),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn enter(&self, name: &OsStr) -> io::Result<Arc<dyn Folder>> {
        match self.node(name)?.what {
            What::Folder => {
                Ok(Arc::new(Self { tree: Arc::clone(&self.tree), path: self.path.join(name) }))
            }
            _ => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn make(&self, name: &OsStr) -> io::Result<Arc<dyn Folder>> {
        let path = self.path.join(name);
        self.lock().nodes.entry(path).or_insert_with(|| node(What::Folder, 0));
        self.enter(name)
    }

    fn open(&self, name: &OsStr) -> io::Result<(Meta, Box<dyn Content>)> {
        let node = self.node(name)?;
        match &node.what {
            What::File(bytes) => Ok((meta(&node), Box::new(Cursor::new(Shared(bytes.clone()))))),
            _ => Err(io::Error::other("it is no file")),
        }
    }

    fn put(&self, name: &OsStr, was: Option<&Meta>, bytes: &[u8]) -> io::Result<Meta> {
        let path = self.path.join(name);
        let mut tree = self.lock();
        let now = tree.nodes.get(&path).map(meta);
        match (was, now) {
            (None, Some(_)) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Some(_), None) => return Err(io::ErrorKind::NotFound.into()),
            _ => {}
        }
        tree.put(path.clone(), What::File(Arc::new(bytes.to_vec())));
        tree.nodes.get(&path).map(meta).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn begin(&self, _: &OsStr) -> io::Result<Box<dyn Write + Send>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn lock(&self) -> io::Result<Box<dyn Send>> {
        Ok(Box::new(()))
    }
}

struct Shared(Arc<Vec<u8>>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

fn meta(node: &Node) -> Meta {
    let (kind, size) = match &node.what {
        What::File(bytes) => (Kind::File, bytes.len() as u64),
        What::Folder => (Kind::Folder, 0),
        What::Link(_) => (Kind::Link, 0),
        What::Other(kind) => (*kind, 0),
    };
    Meta {
        kind,
        size,
        modified: node.modified,
        changed: node.modified,
        identity: (1, node.number),
        names: 1,
        mode: 0o644,
        owner: (0, 0),
    }
}

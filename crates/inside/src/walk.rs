//! Walks a tree with several threads, folder by folder, through open descriptors.
//!
//! Links are counted, not followed. What is found comes in no order; who asked has to sort.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::folder::{Folder, Kind};
use crate::ignored::{Barred, KEPT_ASIDE, Rules};
use crate::request::{Fault, Hidden, Refusal};
use crate::root::{Found, Root, explain};

/// Threads at most; more than a few only wait for the same disk.
const MOST_THREADS: usize = 8;
/// Files handed to a thread at once.
const BATCH: usize = 128;
/// Deeper is taken for a trap.
const DEEPEST: usize = 256;
/// Paths of hidden things that are named.
const EXAMPLES: usize = 3;

/// How to walk.
pub(crate) struct Walk<'a> {
    /// What ignore rules hide, too.
    pub(crate) ignored: bool,
    /// What is never looked at.
    pub(crate) barred: &'a Barred,
    /// When to stop.
    pub(crate) until: Instant,
}

/// A file that was come upon.
pub(crate) struct Met<'a> {
    pub(crate) folder: &'a Arc<dyn Folder>,
    pub(crate) name: &'a OsString,
    /// Its whole path, as the agent sees it.
    pub(crate) path: &'a Path,
}

/// What a thread does with each file.
pub(crate) type Visit<'a> = Box<dyn FnMut(&Met<'_>) + 'a>;

enum Task {
    Folder {
        parent: Arc<dyn Folder>,
        name: OsString,
        path: PathBuf,
        rules: Arc<Rules>,
        depth: usize,
    },
    Opened {
        folder: Arc<dyn Folder>,
        path: PathBuf,
        rules: Arc<Rules>,
        depth: usize,
    },
    Files {
        folder: Arc<dyn Folder>,
        path: Arc<PathBuf>,
        names: Vec<OsString>,
    },
}

struct Shared<'a> {
    walk: &'a Walk<'a>,
    tasks: Mutex<Tasks>,
    more: Condvar,
    threads: usize,
    stopped: AtomicBool,
    links: AtomicU64,
    unreadable: AtomicU64,
    barred: AtomicU64,
    ignored: Mutex<Ignored>,
}

#[derive(Default)]
struct Tasks {
    waiting: Vec<Task>,
    /// Tasks that are being done and may bring more.
    busy: usize,
}

#[derive(Default)]
struct Ignored {
    folders: u64,
    files: u64,
    examples: BTreeSet<PathBuf>,
}

/// Visits every file below a folder.
pub(crate) fn walk<'a>(
    root: &Root,
    base: &Found,
    walk: &Walk<'_>,
    visitor: &(dyn Fn() -> Visit<'a> + Sync),
) -> Result<Hidden, Refusal> {
    let start = opened(root, base)?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = cores.min(MOST_THREADS);
    let shared = Shared {
        walk,
        tasks: Mutex::new(Tasks { waiting: vec![start], busy: 0 }),
        more: Condvar::new(),
        threads,
        stopped: AtomicBool::new(false),
        links: AtomicU64::new(0),
        unreadable: AtomicU64::new(0),
        barred: AtomicU64::new(0),
        ignored: Mutex::default(),
    };
    std::thread::scope(|scope| {
        let work = || work(&shared, visitor());
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let ignored = shared.ignored.into_inner().unwrap_or_else(PoisonError::into_inner);
    let shown = |path: &PathBuf| path.to_string_lossy().into_owned();
    Ok(Hidden {
        ignored: (ignored.folders, ignored.files),
        examples: ignored.examples.iter().map(shown).collect(),
        links: shared.links.into_inner(),
        unreadable: shared.unreadable.into_inner(),
        barred: shared.barred.into_inner(),
        binary: 0,
        out_of_time: shared.stopped.into_inner(),
    })
}

/// The first task: the base with the rules of every folder above it.
fn opened(root: &Root, base: &Found) -> Result<Task, Refusal> {
    let mut rules = Rules::none();
    let mut at = root.find(&root.shown().to_string_lossy())?.folder;
    let mut path = root.shown().to_owned();
    let rest = Path::new(&base.real).strip_prefix(root.shown()).unwrap_or(Path::new(""));
    for name in rest {
        // A folder that cannot be listed can be passed through all the same.
        let listed = at.list().unwrap_or_default();
        rules = rules.with(at.as_ref(), &path, &listed);
        path.push(name);
        at = at.enter(name).map_err(|error| explain(&base.real, &error))?;
    }
    if at.list().is_err() {
        let message = format!("{} cannot be listed: not permitted by the system", base.real);
        return Err(Refusal::new(Fault::Denied, message).at(&base.real));
    }
    Ok(Task::Opened { folder: at, path, rules, depth: 0 })
}

fn work(shared: &Shared<'_>, mut visit: Visit<'_>) {
    while let Some(task) = next(shared) {
        if !shared.stopped.load(Ordering::Relaxed) {
            if Instant::now() > shared.walk.until {
                shared.stopped.store(true, Ordering::Relaxed);
            }
            run(shared, task, &mut visit);
        }
        let mut tasks = lock(&shared.tasks);
        tasks.busy -= 1;
        if tasks.busy == 0 && tasks.waiting.is_empty() {
            shared.more.notify_all();
        }
    }
}

/// Waits for a task; none when everything is done.
fn next(shared: &Shared<'_>) -> Option<Task> {
    let mut tasks = lock(&shared.tasks);
    loop {
        if let Some(task) = tasks.waiting.pop() {
            tasks.busy += 1;
            return Some(task);
        }
        if tasks.busy == 0 {
            return None;
        }
        tasks = shared.more.wait(tasks).unwrap_or_else(PoisonError::into_inner);
    }
}

fn run(shared: &Shared<'_>, task: Task, visit: &mut Visit<'_>) {
    match task {
        Task::Files { folder, path, names } => files(shared, &folder, &path, &names, visit),
        Task::Folder { parent, name, path, rules, depth } => match parent.enter(&name) {
            Ok(folder) => list(shared, folder, path, &rules, depth, visit),
            Err(_) => {
                shared.unreadable.fetch_add(1, Ordering::Relaxed);
            }
        },
        Task::Opened { folder, path, rules, depth } => {
            list(shared, folder, path, &rules, depth, visit);
        }
    }
}

fn list(
    shared: &Shared<'_>,
    folder: Arc<dyn Folder>,
    path: PathBuf,
    rules: &Arc<Rules>,
    depth: usize,
    visit: &mut Visit<'_>,
) {
    let listed = match folder.list() {
        Ok(listed) if depth <= DEEPEST => listed,
        _ => {
            shared.unreadable.fetch_add(1, Ordering::Relaxed);
            return;
        }
    };
    let rules = rules.with(folder.as_ref(), &path, &listed);
    let mut below = Vec::new();
    let mut names = Vec::new();
    for (name, kind) in listed {
        match kind {
            Kind::Folder if KEPT_ASIDE.iter().any(|aside| name == *aside) => continue,
            Kind::Folder | Kind::File => {}
            Kind::Link => {
                shared.links.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            _ => continue,
        }
        let path = path.join(&name);
        if shared.walk.barred.holds(&path, kind == Kind::Folder) {
            shared.barred.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        if !shared.walk.ignored && rules.hides(&path, kind == Kind::Folder) {
            let mut ignored = lock(&shared.ignored);
            if kind == Kind::Folder {
                ignored.folders += 1;
            } else {
                ignored.files += 1;
            }
            ignored.examples.insert(path);
            if ignored.examples.len() > EXAMPLES {
                ignored.examples.pop_last();
            }
            continue;
        }
        if kind == Kind::Folder {
            let (parent, rules) = (Arc::clone(&folder), Arc::clone(&rules));
            below.push(Task::Folder { parent, name, path, rules, depth: depth + 1 });
        } else {
            names.push(name);
        }
    }
    let path = Arc::new(path);
    // Most of the files stay here; the rest is for threads that have nothing to do.
    while shared.threads > 1 && names.len() > BATCH {
        let names = names.split_off(names.len() - BATCH);
        below.push(Task::Files { folder: Arc::clone(&folder), path: Arc::clone(&path), names });
    }
    if !below.is_empty() {
        lock(&shared.tasks).waiting.append(&mut below);
        shared.more.notify_all();
    }
    files(shared, &folder, &path, &names, visit);
}

fn files(
    shared: &Shared<'_>,
    folder: &Arc<dyn Folder>,
    path: &Path,
    names: &[OsString],
    visit: &mut Visit<'_>,
) {
    let mut whole = path.to_owned();
    for name in names {
        whole.push(name);
        visit(&Met { folder, name, path: &whole });
        whole.pop();
        if shared.stopped.load(Ordering::Relaxed) {
            return;
        }
        if Instant::now() > shared.walk.until {
            shared.stopped.store(true, Ordering::Relaxed);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

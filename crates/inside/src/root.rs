//! Paths: from what the agent writes to an open folder and a name, without ever leaving the root.
//!
//! Links are followed here, one component at a time, so the same rules hold on every kernel and in
//! every sandbox: a link may lead anywhere below the root, absolute or not, and nowhere else.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::folder::{Content, Folder, Kind, Meta};
use crate::request::{Fault, Refusal};

/// Links followed before a chain counts as endless.
const MOST_LINKS: usize = 40;
/// Longest path that is looked at.
const LONGEST: usize = 4096;

/// The folder that everything stays in.
#[derive(Clone, Debug)]
pub struct Root {
    folder: Arc<dyn Folder>,
    shown: PathBuf,
}

/// What a path leads to.
#[derive(Debug)]
pub(crate) struct Found {
    /// The folder it is in; for the root itself, the root.
    pub(crate) folder: Arc<dyn Folder>,
    /// Its name there; empty for the root itself.
    pub(crate) name: OsString,
    /// Its path without links.
    pub(crate) real: String,
    /// What it is; `None`: nothing is there.
    pub(crate) meta: Option<Meta>,
    /// Folders that are not there either, below `folder` and above `name`.
    pub(crate) missing: Vec<OsString>,
}

impl Root {
    /// `shown` is the absolute path under which the agent knows the folder.
    pub fn new(folder: Arc<dyn Folder>, shown: impl Into<PathBuf>) -> Self {
        Self { folder, shown: shown.into() }
    }

    /// The path under which the agent knows the folder.
    pub fn shown(&self) -> &Path {
        &self.shown
    }

    /// Follows a path to its end, links included. What is missing at its end is no error.
    pub(crate) fn find(&self, path: &str) -> Result<Found, Refusal> {
        let shown = self.shown.display();
        if path.len() > LONGEST || path.contains('\0') {
            return Err(Refusal::new(
                Fault::Request,
                format!("the path has a NUL byte or more than {LONGEST} bytes; give a real one"),
            ));
        }
        if !path.starts_with('/') {
            let guess = self.shown.join(path);
            return Err(Refusal::new(
                Fault::Outside,
                format!("{path:?} is not an absolute path; give it from /, as {}", guess.display()),
            ));
        }
        let mut todo = self.below(Path::new(path)).ok_or_else(|| {
            Refusal::new(
                Fault::Outside,
                format!("{path} is outside of the workspace; use paths below {shown}"),
            )
        })?;
        todo.reverse();
        let mut stack: Vec<(Arc<dyn Folder>, OsString)> = Vec::new();
        let mut links = 0;
        loop {
            let folder = stack.last().map_or(&self.folder, |(folder, _)| folder);
            let Some(name) = todo.pop() else {
                let Some((_, name)) = stack.pop() else {
                    return Ok(self.root_itself());
                };
                let folder = stack.last().map_or(&self.folder, |(folder, _)| folder).clone();
                let real = self.real(&stack, &name);
                let meta = folder.look(&name).map_err(|error| explain(&real, &error))?;
                return Ok(Found { folder, name, real, meta: Some(meta), missing: Vec::new() });
            };
            if name == ".." {
                if stack.pop().is_none() {
                    return Err(Refusal::new(
                        Fault::Outside,
                        format!("{path} leads out of the workspace; use paths below {shown}"),
                    ));
                }
                continue;
            }
            let real = self.real(&stack, &name);
            let meta = match folder.look(&name) {
                Ok(meta) => meta,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return self.missing(path, stack, name, todo);
                }
                Err(error) => return Err(explain(&real, &error)),
            };
            match meta.kind {
                Kind::Folder => {
                    let entered = folder.enter(&name).map_err(|error| explain(&real, &error))?;
                    stack.push((entered, name));
                }
                Kind::Link => {
                    links += 1;
                    if links > MOST_LINKS {
                        return Err(Refusal::new(
                            Fault::Failed,
                            format!("{path} goes through too many links; name the file itself"),
                        ));
                    }
                    let target = folder.link(&name).map_err(|error| explain(&real, &error))?;
                    let outside = || {
                        Refusal::new(
                            Fault::Outside,
                            format!(
                                "{real} is a link to {}, which is outside of the workspace; use \
                                 paths below {shown}",
                                target.display()
                            ),
                        )
                    };
                    let mut parts = if target.is_absolute() {
                        stack.clear();
                        self.below(&target).ok_or_else(outside)?
                    } else {
                        parts(&target)
                    };
                    parts.reverse();
                    todo.extend(parts);
                }
                _ if todo.is_empty() => {
                    let folder = folder.clone();
                    return Ok(Found { folder, name, real, meta: Some(meta), missing: Vec::new() });
                }
                other => {
                    return Err(Refusal::new(
                        Fault::Kind,
                        format!("{real} is {}, not a folder; check the path", other.words()),
                    ));
                }
            }
        }
    }

    /// The same for a file that must be there.
    pub(crate) fn file(&self, path: &str) -> Result<(Found, Meta), Refusal> {
        let found = self.find(path)?;
        let Some(meta) = found.meta.clone() else {
            return Err(self.absent(path, &found));
        };
        let what = match meta.kind {
            Kind::File => return Ok((found, meta)),
            Kind::Folder => {
                "a folder, not a file; use Glob with the pattern \"*\" to see what is in it"
            }
            Kind::Pipe => "a named pipe, not a file; it cannot be read or written with this tool",
            Kind::Socket => "a socket, not a file; it cannot be read or written with this tool",
            Kind::Device => "a device, not a file; it cannot be read or written with this tool",
            Kind::Link => "a link that was put there just now; try again",
        };
        let real = found.real;
        Err(Refusal::new(Fault::Kind, format!("{real} is {what}")).at(&real))
    }

    /// Says that nothing is there, and what may have been meant.
    pub(crate) fn absent(&self, path: &str, found: &Found) -> Refusal {
        let listed = if found.missing.is_empty() { found.folder.list().ok() } else { None };
        let wanted = found.name.to_string_lossy();
        let near = listed.into_iter().flatten().filter_map(|(name, _)| {
            let name = name.to_string_lossy().into_owned();
            let distance =
                strsim::damerau_levenshtein(&name.to_lowercase(), &wanted.to_lowercase());
            (distance <= 2.max(wanted.len() / 4)).then_some((distance, name))
        });
        let hint = match near.min() {
            Some((_, name)) => {
                let parent = Path::new(&found.real).parent().unwrap_or(&self.shown);
                format!("did you mean {}?", parent.join(name).display())
            }
            None => "use Glob to find it".to_owned(),
        };
        let led = if found.real == path { String::new() } else { format!(" ({})", found.real) };
        Refusal::new(Fault::Absent, format!("there is no {path}{led}; {hint}")).at(&found.real)
    }

    /// Opens a file that was found, and says so if it cannot be.
    pub(crate) fn open(&self, found: &Found) -> Result<(Meta, Box<dyn Content>), Refusal> {
        found.folder.open(&found.name).map_err(|error| explain(&found.real, &error))
    }

    fn root_itself(&self) -> Found {
        Found {
            folder: self.folder.clone(),
            name: OsString::new(),
            real: self.shown.to_string_lossy().into_owned(),
            meta: Some(Meta {
                kind: Kind::Folder,
                size: 0,
                modified: 0,
                changed: 0,
                identity: (0, 0),
                names: 1,
                mode: 0,
                owner: (0, 0),
            }),
            missing: Vec::new(),
        }
    }

    fn missing(
        &self,
        path: &str,
        stack: Vec<(Arc<dyn Folder>, OsString)>,
        name: OsString,
        mut todo: Vec<OsString>,
    ) -> Result<Found, Refusal> {
        todo.reverse();
        let mut names = vec![name];
        names.extend(todo);
        if names.iter().any(|name| name == "..") {
            return Err(Refusal::new(
                Fault::Absent,
                format!("{path} goes through a folder that is not there; check the path"),
            ));
        }
        let mut real = self.real(&stack, OsStr::new(""));
        for name in &names {
            real = format!("{}/{}", real.trim_end_matches('/'), name.to_string_lossy());
        }
        let name = names.pop().unwrap_or_default();
        let folder = stack.last().map_or(&self.folder, |(folder, _)| folder).clone();
        Ok(Found { folder, name, real, meta: None, missing: names })
    }

    /// The components of an absolute path below the root, if it is there.
    fn below(&self, path: &Path) -> Option<Vec<OsString>> {
        if let Ok(rest) = path.strip_prefix(&self.shown) {
            return Some(parts(rest));
        }
        // As `/workspace/../workspace/x`.
        let mut plain = PathBuf::from("/");
        for part in parts(path) {
            if part == ".." {
                plain.pop();
            } else {
                plain.push(part);
            }
        }
        plain.strip_prefix(&self.shown).ok().map(parts)
    }

    fn real(&self, stack: &[(Arc<dyn Folder>, OsString)], name: &OsStr) -> String {
        let mut path = self.shown.clone();
        path.extend(stack.iter().map(|(_, name)| name));
        if !name.is_empty() {
            path.push(name);
        }
        path.to_string_lossy().into_owned()
    }
}

fn parts(path: &Path) -> Vec<OsString> {
    let part = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        _ => None,
    };
    path.components().filter_map(part).collect()
}

/// An error of the system about a path, in words.
pub(crate) fn explain(path: &str, error: &io::Error) -> Refusal {
    let (fault, why) = match error.kind() {
        io::ErrorKind::NotFound => (Fault::Absent, "it is not there any more; try again"),
        io::ErrorKind::PermissionDenied => (
            Fault::Denied,
            "the system does not permit it; look at the owner and mode with `ls -l`",
        ),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            (Fault::Failed, "no space is left; remove something")
        }
        io::ErrorKind::FileTooLarge => (Fault::Failed, "the file would be too large"),
        io::ErrorKind::ReadOnlyFilesystem => {
            (Fault::Denied, "it can only be read here; write somewhere else")
        }
        io::ErrorKind::AlreadyExists => {
            (Fault::Changed, "it was made by somebody else meanwhile; Read it first")
        }
        io::ErrorKind::InvalidFilename => {
            (Fault::Request, "the name is too long; give a shorter one")
        }
        _ => {
            return Refusal::new(Fault::Failed, format!("{path} cannot be used: {error}")).at(path);
        }
    };
    Refusal::new(fault, format!("{path} cannot be used: {why}")).at(path)
}

//! Paths in commands: what they name, from where the command runs.

use super::script::{Simple, Word};
use super::{One, Scene, danger, names_in, unwrap};

/// Where paths are looked up from.
pub(super) struct Paths<'a> {
    scene: &'a Scene<'a>,
}

impl<'a> Paths<'a> {
    pub(super) fn new(scene: &'a Scene<'a>) -> Self {
        Self { scene }
    }

    /// A path from the current directory, without dots and steps up.
    pub(super) fn plain(&self, path: &str) -> String {
        self.from(path, Some(self.scene.cwd)).unwrap_or_else(|| path.to_owned())
    }

    /// As written, and where it really leads.
    pub(super) fn both(&self, path: &str) -> Vec<String> {
        let plain = self.plain(path);
        let real = (self.scene.real)(&plain).filter(|real| *real != plain);
        [plain].into_iter().chain(real).collect()
    }

    fn from(&self, path: &str, cwd: Option<&str>) -> Option<String> {
        let whole = if path.starts_with('/') {
            path.to_owned()
        } else if path == "~" || path.starts_with("~/") {
            format!("{}{}", self.scene.home.unwrap_or("/~"), &path[1..])
        } else {
            format!("{}/{path}", cwd?)
        };
        let mut parts: Vec<&str> = Vec::new();
        for part in whole.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()),
                other => parts.push(other),
            }
        }
        Some(format!("/{}", parts.join("/")))
    }

    /// Where a command that changes the directory leads; `Some(None)`: nobody knows.
    pub(super) fn moved(&self, simple: &Simple, cwd: Option<&str>) -> Option<Option<String>> {
        match unwrap::name(simple)? {
            "pushd" | "popd" => Some(None),
            "cd" => {
                let target =
                    simple.words[1..].iter().find(|word| word.open || !word.text.starts_with('-'));
                let dash = simple.words[1..].iter().any(|word| word.text == "-");
                match target {
                    _ if dash => Some(None),
                    Some(word) => Some(word.whole().and_then(|path| {
                        let plain = self.from(path, cwd)?;
                        Some((self.scene.real)(&plain).unwrap_or(plain))
                    })),
                    None => Some(self.scene.home.map(str::to_owned)),
                }
            }
            _ => None,
        }
    }

    /// A command with the files that it touches.
    pub(super) fn one(&self, simple: Simple, inner: bool, cwd: Option<String>) -> One {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        let from = cwd.as_deref();
        for word in simple.words.iter().skip(1) {
            for name in names_in(word) {
                self.add(name, word, from, &mut reads);
            }
        }
        let (operands, mut known) = danger::writes(&simple);
        for word in operands {
            self.add(&word.text, word, from, &mut writes);
        }
        for (is_write, word) in &simple.redirects {
            known &= !(*is_write && (word.open || from.is_none() && !word.text.starts_with('/')));
            let list = if *is_write { &mut writes } else { &mut reads };
            self.add(&word.text, word, from, list);
        }
        let unknown_write = !known;
        One { simple, inner, reads, writes, unknown_write, cwd }
    }

    /// A word that stands for several files names at least the folder that they are in.
    fn add(&self, name: &str, word: &Word, cwd: Option<&str>, list: &mut Vec<String>) {
        let name = if word.pattern {
            let known = name.split(['*', '?', '[', '{']).next().unwrap_or_default();
            match known.rsplit_once('/') {
                Some(("", _)) => "/",
                Some((folder, _)) => folder,
                None => ".",
            }
        } else {
            name
        };
        if let Some(plain) = self.from(name, cwd) {
            if let Some(real) = (self.scene.real)(&plain).filter(|real| *real != plain) {
                list.push(real);
            }
            list.push(plain);
        }
    }
}

pub(super) fn is_below(path: &str, folder: &str) -> bool {
    std::path::Path::new(path).starts_with(folder)
}

/// Whether writing there changes nothing.
pub(super) fn is_nothing(path: &str) -> bool {
    ["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"].contains(&path)
}

/// Whether what is there is no secret of anybody's.
pub(super) fn is_everybodys(path: &str) -> bool {
    is_nothing(path)
        || ["/usr", "/bin", "/lib", "/lib64", "/tmp", "/dev/zero", "/dev/urandom"]
            .iter()
            .any(|folder| is_below(path, folder))
}

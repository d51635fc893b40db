//! Rules in the syntax of Claude Code: `Bash(npm run:*)`, `Read(/secret/**)`, `Edit`.
//!
//! What denies is taken widely and what allows narrowly, wherever a rule could mean two things.

use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::script::{self, Simple};
use crate::tools::BUILT_IN;

/// Stands for what is known only when a command runs: a `*` matches it and nothing else does.
const UNKNOWN: char = '\u{ffff}';

/// The rules of a profile.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    pub(super) deny: Vec<Rule>,
    pub(super) ask: Vec<Rule>,
    pub(super) allow: Vec<Rule>,
}

impl Rules {
    /// Reads the rules; complains about the first that is none.
    pub fn parse(deny: &[String], ask: &[String], allow: &[String]) -> Result<Self, String> {
        let parse = |rules: &[String]| -> Result<Vec<Rule>, String> {
            rules.iter().map(|rule| Rule::parse(rule)).collect()
        };
        Ok(Self { deny: parse(deny)?, ask: parse(ask)?, allow: parse(allow)? })
    }

    /// What of the workspace may not be read, as lines of an ignore file at its root; for leaving
    /// it out of what a search finds.
    pub fn unreadable(&self, root: &str) -> Vec<String> {
        let mut lines = Vec::new();
        for rule in self.deny.iter().filter(|rule| rule.tool == "Read") {
            let Some(Spec::Path(path)) = &rule.spec else { continue };
            lines.extend(path.at_root(root));
        }
        lines
    }
}

/// One rule.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) text: String,
    pub(super) tool: &'static str,
    pub(super) spec: Option<Spec>,
}

/// What a rule is about; without one, about every call of its tool.
#[derive(Clone, Debug)]
pub(super) enum Spec {
    Command(Command),
    Path(PathRule),
}

#[derive(Clone, Debug)]
pub(super) enum Command {
    /// The first words.
    Prefix(Vec<String>),
    /// The whole with `*` for anything.
    Wild(String),
    /// The whole, as it was written.
    Exact(String),
}

/// A pattern of an ignore file, and where it is anchored.
#[derive(Clone, Debug)]
pub(super) struct PathRule {
    anchor: Anchor,
    pattern: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Anchor {
    System,
    Home,
    Root,
}

impl Rule {
    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (name, spec) = match text.split_once('(') {
            Some((name, rest)) => {
                let spec = rest.strip_suffix(')');
                (name, Some(spec.ok_or_else(|| format!("the rule {text:?} lacks its closing )"))?))
            }
            None => (text, None),
        };
        let tool = BUILT_IN.iter().map(|tool| tool.name).find(|tool| *tool == name);
        let Some(tool) = tool else {
            let names: Vec<&str> = BUILT_IN.iter().map(|tool| tool.name).collect();
            return Err(format!("the rule {text:?} names no tool; there are {}", names.join(", ")));
        };
        let spec = spec.map(str::trim).filter(|spec| !["", "*", "**", ":*"].contains(spec));
        let spec = spec.map(|spec| match tool {
            "Bash" => Spec::Command(command(spec)),
            _ => Spec::Path(PathRule::parse(spec)),
        });
        Ok(Self { text: text.to_owned(), tool, spec })
    }

    /// Whether it is about this command. `wide`: also by the name behind a path.
    pub(super) fn is_about_command(&self, simple: &Simple, wide: bool) -> bool {
        let Some(Spec::Command(command)) = &self.spec else { return self.spec.is_none() };
        let mut words: Vec<String> = simple
            .words
            .iter()
            .map(|word| {
                let mut text = word.text.clone();
                if word.open {
                    text.push(UNKNOWN);
                }
                text
            })
            .collect();
        if matches(command, &words) {
            return true;
        }
        let behind = words.first().and_then(|name| name.rsplit('/').next()).map(str::to_owned);
        match (wide, behind) {
            (true, Some(name)) => {
                words[0] = name;
                matches(command, &words)
            }
            _ => false,
        }
    }

    /// Whether it is about this very text.
    pub(super) fn is_about_text(&self, text: &str) -> bool {
        matches!(&self.spec, Some(Spec::Command(Command::Exact(exact))) if exact == text.trim())
    }

    /// Whether it is about this file. `wide`: also where its pattern could mean that.
    pub(super) fn is_about_path(&self, path: &str, ground: &Ground<'_>, wide: bool) -> bool {
        match &self.spec {
            None => true,
            Some(Spec::Path(rule)) => rule.takes(path, ground, wide),
            Some(Spec::Command(_)) => false,
        }
    }

    /// Whether something below this folder could be meant.
    pub(super) fn reaches_below(&self, folder: &str, ground: &Ground<'_>) -> bool {
        match &self.spec {
            None => true,
            Some(Spec::Path(rule)) => rule.reaches_below(folder, ground),
            Some(Spec::Command(_)) => false,
        }
    }
}

fn command(spec: &str) -> Command {
    if let Some(prefix) = spec.strip_suffix(":*") {
        let script = script::parse(prefix);
        let words = script
            .commands
            .first()
            .map(|simple| simple.words.iter().map(|word| word.text.clone()).collect::<Vec<_>>());
        let plain = || prefix.split_whitespace().map(str::to_owned).collect();
        return Command::Prefix(words.filter(|words| !words.is_empty()).unwrap_or_else(plain));
    }
    if spec.contains('*') {
        Command::Wild(spec.to_owned())
    } else {
        Command::Exact(spec.to_owned())
    }
}

fn matches(command: &Command, words: &[String]) -> bool {
    match command {
        Command::Prefix(prefix) => words.starts_with(prefix),
        Command::Wild(pattern) => {
            let text = words.join(" ");
            let blank_before = pattern.strip_suffix(" *");
            wild(pattern, &text) || blank_before.is_some_and(|rest| wild(rest, &text))
        }
        Command::Exact(exact) => {
            let script = script::parse(exact);
            let [only] = script.commands.as_slice() else { return false };
            only.words.len() == words.len()
                && only.words.iter().zip(words).all(|(own, word)| !own.open && own.text == *word)
        }
    }
}

fn wild(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

/// Where patterns are anchored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ground<'a> {
    pub(super) root: &'a str,
    pub(super) home: Option<&'a str>,
}

impl PathRule {
    fn parse(spec: &str) -> Self {
        let (anchor, pattern) = if let Some(rest) = spec.strip_prefix("//") {
            (Anchor::System, format!("/{rest}"))
        } else if let Some(rest) = spec.strip_prefix("~/") {
            (Anchor::Home, format!("/{rest}"))
        } else {
            (
                Anchor::Root,
                spec.strip_prefix("./").map_or(spec.to_owned(), |rest| format!("/{rest}")),
            )
        };
        Self { anchor, pattern }
    }

    /// The folders at which it may be anchored.
    fn bases<'a>(&self, ground: &Ground<'a>, wide: bool) -> Vec<&'a str> {
        match self.anchor {
            Anchor::System => vec!["/"],
            Anchor::Home => ground.home.into_iter().chain(["~"]).collect(),
            Anchor::Root if self.pattern.starts_with('/') => {
                // Of `/secret/**` nobody knows whether the workspace's or the system's is meant.
                let below = Path::new(&self.pattern).starts_with(ground.root);
                if wide {
                    vec![ground.root, "/"]
                } else if below {
                    vec!["/"]
                } else {
                    vec![ground.root]
                }
            }
            Anchor::Root if wide => vec![ground.root, "/"],
            Anchor::Root => vec![ground.root],
        }
    }

    fn takes(&self, path: &str, ground: &Ground<'_>, wide: bool) -> bool {
        self.bases(ground, wide).into_iter().any(|base| {
            let Ok(below) = Path::new(path).strip_prefix(base) else { return false };
            let Some(pattern) = self.compile() else { return wide };
            let taken = |path: &Path| pattern.matched_path_or_any_parents(path, false).is_ignore();
            // The folder of which all that is in it is meant.
            taken(below) || (wide && taken(&below.join("\u{1}")))
        })
    }

    fn reaches_below(&self, folder: &str, ground: &Ground<'_>) -> bool {
        let known = self.pattern.split(['*', '?', '[']).next().unwrap_or_default();
        let fixed = known.rsplit_once('/').map_or("", |(folder, _)| folder);
        let anchored = self.pattern.trim_end_matches('/').contains('/');
        self.bases(ground, true).into_iter().any(|base| {
            if !anchored {
                return true;
            }
            let place = format!("{}/{}", base.trim_end_matches('/'), fixed.trim_start_matches('/'));
            Path::new(place.trim_end_matches('/')).starts_with(folder)
        })
    }

    fn compile(&self) -> Option<Gitignore> {
        let mut builder = GitignoreBuilder::new("");
        builder.add_line(None, &self.pattern).ok()?;
        builder.build().ok()
    }

    /// The same as lines of an ignore file at the root.
    fn at_root(&self, root: &str) -> Vec<String> {
        let inside = |pattern: &str| {
            let rest = pattern.strip_prefix(root)?;
            (rest.starts_with('/') || root == "/")
                .then(|| format!("/{}", rest.trim_start_matches('/')))
        };
        match self.anchor {
            Anchor::Root => {
                let mut lines = vec![self.pattern.clone()];
                lines.extend(inside(&self.pattern));
                lines
            }
            Anchor::System => inside(&self.pattern).into_iter().collect(),
            Anchor::Home => Vec::new(),
        }
    }
}

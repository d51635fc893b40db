//! Whether a call of one of the six tools may run: a pure function over the rules, the mode and
//! what is known of the place.
//!
//! The order is: what is denied, what is asked about, what changes nothing, what is dangerous, what
//! is allowed, and then the mode. It decides nothing by itself: the gateway asks it, on the one road
//! that every call takes.

mod danger;
mod harmless;
mod paths;
mod rules;
mod script;
mod unwrap;

#[cfg(test)]
mod tests;

use serde_json::Value;

pub use rules::Rules;

use paths::Paths;
use rules::{Ground, Rule};
use script::{Script, Simple, Word};

/// What becomes of calls about which no rule speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A person is asked about whatever changes something.
    Ask,
    /// Changes of files below the root run; a person is asked about the rest.
    AcceptEdits,
    /// They run, unless they are dangerous.
    Auto,
    /// Only what changes nothing runs.
    ReadOnly,
}

/// What is to become of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may run.
    Allow,
    /// A person is asked, and told why.
    Ask(String),
    /// It may not run; why, and what would.
    Deny(String),
}

/// What is known of the place in which a call would run.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    /// The workspace's path.
    pub root: &'a str,
    /// Where commands run now.
    pub cwd: &'a str,
    /// The home of the user who runs commands.
    pub home: Option<&'a str>,
    /// Whether commands can reach nothing but the workspace and the system's own files.
    pub confined: bool,
    /// Where a path really leads, as far as that was looked up where the files are.
    pub real: &'a dyn Fn(&str) -> Option<String>,
}

impl std::fmt::Debug for Scene<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scene").field("root", &self.root).field("cwd", &self.cwd).finish()
    }
}

/// Decides about a call.
pub fn decide(
    tool: &str,
    arguments: &Value,
    rules: &Rules,
    mode: Mode,
    scene: &Scene<'_>,
) -> Verdict {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    match tool {
        "Bash" => match (text("command"), text("job")) {
            (Some(command), _) => bash(command, rules, mode, scene),
            // Of its own job an agent may know and decide, unless it may use the tool not at all.
            (None, Some(_)) => {
                match rules.deny.iter().find(|r| r.tool == "Bash" && r.spec.is_none()) {
                    Some(rule) => denied(rule),
                    None => Verdict::Allow,
                }
            }
            (None, None) => Verdict::Ask("it says neither command nor job".to_owned()),
        },
        "Read" | "Grep" | "Glob" => {
            let path = text("file_path").or(text("path")).unwrap_or(scene.root);
            file(tool, path, false, rules, mode, scene)
        }
        "Edit" | "Write" => {
            file(tool, text("file_path").unwrap_or_default(), true, rules, mode, scene)
        }
        other => Verdict::Deny(format!("there is no tool {other:?}")),
    }
}

/// Paths of which [`Scene::real`] should know where they lead, before a call is decided about.
pub fn paths(tool: &str, arguments: &Value, scene: &Scene<'_>) -> Vec<String> {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    let known = Paths::new(scene);
    if tool != "Bash" {
        let path = text("file_path").or(text("path")).unwrap_or(scene.root);
        return vec![known.plain(path)];
    }
    let judged = Judged::of(text("command").unwrap_or_default(), scene);
    let mut found: Vec<String> = judged
        .commands
        .iter()
        .flat_map(|one| one.reads.iter().chain(&one.writes).cloned())
        .collect();
    found.sort();
    found.dedup();
    found
}

fn denied(rule: &Rule) -> Verdict {
    Verdict::Deny(format!("the rule {} denies it", rule.text))
}

fn asked(rule: &Rule) -> Verdict {
    Verdict::Ask(format!("the rule {} asks", rule.text))
}

/// Tools whose rules hold for reading, and for changing a file.
const READING: [&str; 3] = ["Read", "Grep", "Glob"];
const CHANGING: [&str; 2] = ["Edit", "Write"];

fn file(
    tool: &str,
    path: &str,
    changes: bool,
    rules: &Rules,
    mode: Mode,
    scene: &Scene<'_>,
) -> Verdict {
    let ground = Ground { root: scene.root, home: scene.home };
    let paths = Paths::new(scene).both(path);
    let holds = |rule: &&Rule| {
        if changes {
            CHANGING.contains(&rule.tool)
        } else {
            rule.tool == "Read" || rule.tool == tool
        }
    };
    let any = |rule: &&Rule| paths.iter().any(|path| rule.is_about_path(path, &ground, true));
    // What may not be read may not be changed either: an answer shows what stood there.
    let denies = |rule: &&Rule| holds(rule) || (changes && rule.tool == "Read");
    if let Some(rule) = rules.deny.iter().find(|rule| denies(rule) && any(rule)) {
        return denied(rule);
    }
    if let Some(rule) = rules.ask.iter().find(|rule| holds(rule) && any(rule)) {
        return asked(rule);
    }
    if !changes {
        let secret = paths.iter().find_map(|path| danger::read(path));
        let named = |rule: &Rule| {
            rule.spec.is_some() && paths.iter().all(|path| rule.is_about_path(path, &ground, false))
        };
        return match secret {
            Some(reason) if !rules.allow.iter().any(|r| READING.contains(&r.tool) && named(r)) => {
                Verdict::Ask(reason)
            }
            _ => Verdict::Allow,
        };
    }
    if mode == Mode::ReadOnly {
        return Verdict::Deny("the profile permits reading only".to_owned());
    }
    if let Some(reason) = paths.iter().find_map(|path| danger::written(path)) {
        return Verdict::Ask(reason);
    }
    let all = |rule: &Rule| paths.iter().all(|path| rule.is_about_path(path, &ground, false));
    if rules.allow.iter().any(|rule| CHANGING.contains(&rule.tool) && all(rule)) {
        return Verdict::Allow;
    }
    let inside = paths.iter().all(|path| paths::is_below(path, scene.root));
    match mode {
        Mode::Auto | Mode::AcceptEdits if inside => Verdict::Allow,
        _ => Verdict::Ask("it changes a file".to_owned()),
    }
}

/// A script with what its commands do, as far as that can be told.
struct Judged {
    script: Script,
    commands: Vec<One>,
}

/// A command and the files that it touches.
struct One {
    simple: Simple,
    /// Of the commands that another runs.
    inner: bool,
    reads: Vec<String>,
    writes: Vec<String>,
    /// Whether a file that it writes is known only when it runs.
    unknown_write: bool,
    /// Where it runs, if that is known.
    cwd: Option<String>,
}

impl Judged {
    fn of(text: &str, scene: &Scene<'_>) -> Self {
        let mut script = script::parse(text);
        let known = Paths::new(scene);
        let mut cwd = Some(known.plain(scene.cwd));
        let mut commands = Vec::new();
        for simple in script.commands.clone() {
            let inner = unwrap::inner(&simple);
            script.doubts.extend(inner.doubts);
            script.assigned.extend(inner.assigned);
            let before = cwd.clone();
            if let Some(moved) = known.moved(&simple, before.as_deref()) {
                cwd = moved;
            }
            commands.push(known.one(simple, false, before.clone()));
            let mut within = before;
            for simple in inner.commands {
                if let Some(moved) = known.moved(&simple, within.as_deref()) {
                    within = moved.clone();
                    cwd = moved;
                }
                commands.push(known.one(simple, true, within.clone()));
            }
        }
        Self { script, commands }
    }
}

/// Commands that show no content of files.
const NOT_READING: [&str; 12] =
    ["ls", "cd", "pwd", "echo", "printf", "mkdir", "touch", "true", "false", "test", "[", "which"];

fn bash(text: &str, rules: &Rules, mode: Mode, scene: &Scene<'_>) -> Verdict {
    let ground = Ground { root: scene.root, home: scene.home };
    let judged = Judged::of(text, scene);
    for (list, verdict) in
        [(&rules.deny, denied as fn(&Rule) -> Verdict), (&rules.ask, asked as fn(&Rule) -> Verdict)]
    {
        for rule in list {
            if about(rule, text, &judged, &ground) {
                return verdict(rule);
            }
        }
    }
    // A folder of which a part may not be read: what a program reads there cannot be held back.
    let reaches = rules.deny.iter().filter(|rule| rule.tool == "Read").find(|rule| {
        judged.commands.iter().any(|one| {
            let reads = unwrap::name(&one.simple).is_none_or(|name| !NOT_READING.contains(&name));
            let folders = one.reads.iter().chain(&one.cwd);
            reads && folders.into_iter().any(|folder| rule.reaches_below(folder, &ground))
        })
    });
    let doubt = doubt(&judged, scene);
    let harmless = harmless_altogether(&judged);
    if harmless && reaches.is_none() && doubt.is_none() {
        return Verdict::Allow;
    }
    if mode == Mode::ReadOnly {
        return Verdict::Deny(
            "the profile permits reading only, and this command may change something".to_owned(),
        );
    }
    // A person has seen this very text before.
    if rules.allow.iter().any(|rule| rule.tool == "Bash" && rule.is_about_text(text)) {
        return Verdict::Allow;
    }
    if let Some(reason) = doubt {
        return Verdict::Ask(reason);
    }
    if let Some(rule) = reaches {
        let rule = &rule.text;
        return Verdict::Ask(format!("it may read what the rule {rule} keeps from being read"));
    }
    if allowed(&judged, rules, &ground) {
        return Verdict::Allow;
    }
    match mode {
        Mode::Auto => Verdict::Allow,
        Mode::AcceptEdits if only_edits(&judged) => Verdict::Allow,
        _ => Verdict::Ask("it may change something".to_owned()),
    }
}

/// Whether a rule that denies or asks is about a script.
fn about(rule: &Rule, text: &str, judged: &Judged, ground: &Ground<'_>) -> bool {
    if rule.tool == "Bash" {
        return rule.is_about_text(text)
            || judged.commands.iter().any(|one| rule.is_about_command(&one.simple, true))
            || rule.spec.is_none();
    }
    if rule.spec.is_none() {
        return false;
    }
    judged.commands.iter().any(|one| {
        let touched = match rule.tool {
            "Read" => &one.reads,
            "Edit" | "Write" => &one.writes,
            _ => return false,
        };
        touched.iter().any(|path| rule.is_about_path(path, ground, true))
    })
}

/// Why a person should see a script in every mode.
fn doubt(judged: &Judged, scene: &Scene<'_>) -> Option<String> {
    if let Some(doubt) = judged.script.doubts.first() {
        return Some(format!("it cannot be judged: {doubt}"));
    }
    if let Some(reason) = danger::script(&judged.script) {
        return Some(reason);
    }
    for one in &judged.commands {
        if let Some(reason) = danger::command(&one.simple) {
            return Some(reason);
        }
        if one.unknown_write {
            return Some("what it writes to is known only when it runs".to_owned());
        }
        for path in &one.writes {
            if paths::is_nothing(path) {
                continue;
            }
            if let Some(reason) = danger::written(path) {
                return Some(reason);
            }
            if !paths::is_below(path, scene.root) && !paths::is_below(path, "/tmp") {
                return Some(format!("it writes to {path}, outside of the workspace"));
            }
        }
        for path in &one.reads {
            if let Some(reason) = danger::read(path) {
                return Some(reason);
            }
            let outside = !paths::is_below(path, scene.root) && !paths::is_everybodys(path);
            let reads = unwrap::name(&one.simple).is_none_or(|n| n != "echo" && n != "printf");
            if outside && reads && !scene.confined && harmless::is(&one.simple) {
                return Some(format!("it reads {path}, outside of the workspace"));
            }
        }
    }
    None
}

fn harmless_altogether(judged: &Judged) -> bool {
    let plain = |name: &String| {
        harmless::plain_variable(name) || name.chars().all(|c| !c.is_ascii_uppercase())
    };
    judged.script.assigned.iter().all(plain)
        && judged.commands.iter().filter(|one| !one.inner).all(|one| {
            harmless::is(&one.simple) && one.writes.iter().all(|path| paths::is_nothing(path))
        })
}

/// Whether every command is allowed by some rule, or changes nothing.
fn allowed(judged: &Judged, rules: &Rules, ground: &Ground<'_>) -> bool {
    let writes = |path: &String| {
        paths::is_nothing(path)
            || rules.allow.iter().any(|rule| {
                CHANGING.contains(&rule.tool) && rule.is_about_path(path, ground, false)
            })
    };
    let redirects = |one: &One| {
        let files = one.simple.redirects.iter().filter(|(writes, _)| *writes).count();
        files == 0 || one.writes.iter().all(writes)
    };
    let mut commands = judged.commands.iter().peekable();
    while let Some(one) = commands.next() {
        let mut inner = Vec::new();
        while let Some(next) = commands.next_if(|next| next.inner) {
            inner.push(next);
        }
        let by_itself = |one: &One| {
            (by_rule(&one.simple, rules) || harmless::is(&one.simple)) && redirects(one)
        };
        // A wrapper is allowed by what it runs.
        let by_inner =
            !inner.is_empty() && inner.iter().all(|one| by_itself(one)) && redirects(one);
        if !by_itself(one) && !by_inner {
            return false;
        }
    }
    judged.script.assigned.iter().all(|name| !danger::variable(name))
}

fn by_rule(simple: &Simple, rules: &Rules) -> bool {
    let plain = simple.assigned.iter().all(|name| harmless::plain_variable(name));
    let about = |rule: &Rule| rule.tool == "Bash" && rule.is_about_command(simple, false);
    plain && rules.allow.iter().any(about)
}

/// Whether only files below the root are changed, which was looked at before.
fn only_edits(judged: &Judged) -> bool {
    judged.commands.iter().all(|one| {
        let nothing = one.simple.words.is_empty();
        !one.inner && (nothing || danger::only_files(&one.simple) || harmless::is(&one.simple))
    })
}

/// All of a word's text that could name a file: itself, and what stands behind a `=`.
fn names_in(word: &Word) -> Vec<&str> {
    let text = word.text.as_str();
    let value = text.split_once('=').map(|(_, value)| value);
    let own = (!text.starts_with('-')).then_some(text);
    own.into_iter().chain(value).filter(|text| !text.is_empty()).collect()
}

//! Refuses to run on the host what a script can write: servers' programs and the interpreter.
//!
//! It sees where files lie, not what a program does with its arguments: a server that loads code
//! from a folder it is given as data is not found out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gateway::config::Server;

use super::super::{Documents, File, expanded};
use super::host::Host;
use super::paths::{below, way};
use super::{Root, writable};

/// Variables from which programs take code.
const LOADERS: [&str; 17] = [
    "BASH_ENV",
    "CLASSPATH",
    "ENV",
    "GEM_HOME",
    "GEM_PATH",
    "HOME",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "NODE_PATH",
    "PERL5LIB",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "PYTHONUSERBASE",
    "RUBYLIB",
    "UV_PROJECT",
    "VIRTUAL_ENV",
];

/// Options that say in which folder a program finds what it runs.
const RUN_IN: [&str; 9] = [
    "--cwd",
    "--dir",
    "--directory",
    "--prefix",
    "--project",
    "--with-editable",
    "-C",
    "--from",
    "--package",
];

/// Programs whose first argument is what they run, a folder, too.
const INTERPRETERS: [&str; 7] = ["python", "node", "bun", "deno", "ruby", "php", "tsx"];

/// What of a server lies where scripts write.
struct Found<'a> {
    what: String,
    root: &'a Root,
    /// What to do instead.
    remedy: &'static str,
}

/// Refuses the first server or interpreter that scripts could change.
pub(super) fn check(file: &File, documents: &Documents, host: &Host) -> anyhow::Result<()> {
    let roots = writable(file);
    interpreter(file, documents, host, &roots)?;
    let used: BTreeSet<&String> =
        file.profiles.values().flat_map(|profile| &profile.servers).collect();
    for name in used {
        let Some(server) = file.servers.get(name).filter(|one| !one.runs_from_workspace) else {
            continue;
        };
        let (document, table) = documents.of_server(name);
        let directory = document.path.parent().unwrap_or(Path::new("/"));
        // Whatever cannot be expanded cannot be started either.
        let Ok(server) = expanded(server, directory) else { continue };
        let Some(Found { what, root, remedy }) = examine(&server, host, &roots) else { continue };
        let key = if table == "servers" {
            format!("add `runs_from_workspace = true` to [servers.{name}]")
        } else {
            format!(
                "copy the entry to [servers.{name}] of {} and add `runs_from_workspace = true`",
                documents.own.path.display()
            )
        };
        return Err(document.error(
            &[table, name],
            format!(
                "{what} in {}, where scripts of the profile \"{}\" can change it, but the server \
                 runs on this host, as you; {remedy}, or, if you want that scripts decide what \
                 runs there, {key}",
                root.folder.display(),
                root.profile
            ),
        ));
    }
    Ok(())
}

fn examine<'a>(server: &Server, host: &Host, roots: &'a [Root]) -> Option<Found<'a>> {
    let command = server.command.as_deref()?;
    let inside = |path: &Path| inside(path, roots);
    let directory = match &server.cwd {
        Some(cwd) => cwd.clone(),
        None => host.directory.clone(),
    };
    let found =
        |what: String, root: &'a Root, remedy: &'static str| Some(Found { what, root, remedy });
    const OUTSIDE: &str = "put it outside that folder";

    if command.contains('/')
        && let Some(root) = inside(&directory.join(command))
    {
        return found(format!("has its program ({command})"), root, OUTSIDE);
    }
    for (index, argument) in server.args.iter().enumerate() {
        let before = index.checked_sub(1).map(|index| server.args[index].as_str());
        let runs = |path: &Path| {
            path.is_file()
                || path.is_dir()
                    && (before.is_some_and(|flag| RUN_IN.contains(&flag))
                        || RUN_IN.iter().any(|flag| argument.starts_with(&format!("{flag}=")))
                        || (interprets(command) && first_plain(&server.args) == Some(index)))
        };
        for name in readings(argument) {
            let path = directory.join(name);
            if let (true, Some(root)) = (runs(&path), inside(&path)) {
                let what =
                    format!("has the file of its argument {} ({})", index + 1, path.display());
                return found(what, root, OUTSIDE);
            }
        }
    }
    for (name, value) in server.env.iter().filter(|(name, _)| *name != "PATH") {
        for piece in value.split(':').filter(|piece| piece.contains('/')) {
            let path = directory.join(piece);
            let counts = LOADERS.contains(&name.as_str()) || path.is_file();
            if let (true, Some(root)) = (counts, inside(&path)) {
                return found(format!("takes from its variable {name} what lies"), root, OUTSIDE);
            }
        }
    }
    let path = server.env.get("PATH").map_or(host.path.as_os_str(), |path| path.as_ref());
    for entry in std::env::split_paths(path) {
        if let Some(root) = inside(&directory.join(&entry)) {
            return found(
                format!("finds programs by PATH ({})", entry.display()),
                root,
                "take that out of PATH (leave the virtual environment) or give it an `env` with \
                 another PATH",
            );
        }
    }
    if let Some(root) = inside(&directory) {
        let whose = if server.cwd.is_some() { "`cwd`" } else { "pinfold's own, without `cwd`" };
        return found(
            format!("starts ({whose})"),
            root,
            "give it a `cwd` outside that folder (`cwd = \"/\"` does where it needs none)",
        );
    }
    None
}

/// The root in which `path`, or a link on its way, lies.
fn inside<'a>(path: &Path, roots: &'a [Root]) -> Option<&'a Root> {
    let way = way(path);
    roots.iter().find(|root| way.iter().any(|place| below(place, &root.folder)))
}

/// What in an argument could be a path: all of it, the value of an option, the words of a line.
fn readings(argument: &str) -> Vec<&str> {
    let mut readings = vec![argument];
    readings.extend(argument.split_once('=').map(|(_, value)| value));
    if argument.contains(char::is_whitespace) {
        let ends = |c: char| c.is_whitespace() || "\"';&|()<>=".contains(c);
        readings.extend(argument.split(ends));
    }
    readings.retain(|reading| !reading.is_empty());
    readings
}

fn interprets(command: &str) -> bool {
    let name = command.rsplit('/').next().unwrap_or_default();
    INTERPRETERS.iter().any(|one| name.starts_with(one))
}

fn first_plain(arguments: &[String]) -> Option<usize> {
    arguments.iter().position(|argument| !argument.starts_with('-'))
}

/// The interpreter is asked on the host who it is, and what it names as its base is shown inside.
fn interpreter(
    file: &File,
    documents: &Documents,
    host: &Host,
    roots: &[Root],
) -> anyhow::Result<()> {
    let python = Path::new(&file.execute.python);
    let refuse = |what: &str, path: &Path, root: &Root, remedy: &str| {
        Err(documents.own.error(
            &["execute", "python"],
            format!(
                "{what} {}, in {}, where scripts of the profile \"{}\" can change it; {remedy}",
                path.display(),
                root.folder.display(),
                root.profile
            ),
        ))
    };
    if python.components().count() > 1 {
        for path in environment(python) {
            if let Some(root) = inside(&path, roots) {
                let remedy = "make the environment outside the workspace";
                return refuse("depends on", &path, root, remedy);
            }
        }
        return Ok(());
    }
    let path = std::env::split_paths(&host.path).filter(|entry| entry.is_absolute());
    let places = path.map(|entry| ("PATH", entry)).chain(host.interpreters.iter().cloned());
    for (variable, place) in places {
        if let Some(root) = inside(&place, roots) {
            let what = format!("is looked for by {variable} in");
            let remedy = format!(
                "take that out of {variable} (leave the virtual environment), or name an \
                 interpreter outside the workspace with its path"
            );
            return refuse(&what, &place, root, &remedy);
        }
    }
    Ok(())
}

/// What decides about an interpreter: itself, its environment, and that one's base.
fn environment(python: &Path) -> Vec<PathBuf> {
    let mut places = vec![python.to_owned()];
    for executable in way(python).iter().chain([&python.to_owned()]) {
        let Some(prefix) = executable.parent().and_then(Path::parent) else { continue };
        let settings = prefix.join("pyvenv.cfg");
        places.extend(["bin", "lib", "lib64"].map(|part| prefix.join(part)));
        let text = std::fs::read_to_string(&settings).unwrap_or_default();
        places.push(settings);
        let bases = text.lines().filter_map(|line| {
            let (key, value) = line.split_once('=')?;
            let names = ["home", "executable", "base-prefix", "base-executable"];
            names.contains(&key.trim().to_lowercase().as_str()).then(|| value.trim())
        });
        places.extend(bases.filter(|base| base.starts_with('/')).map(PathBuf::from));
    }
    places
}

//! Finds the interpreter that scripts run with, and what of the host it needs to see.
//!
//! Interpreters of the operator's own choosing (on `PATH`, in a version manager's folder,
//! configured) are run here once, unconfined, to ask them who they are. Nothing else is run here.

mod candidates;
mod probe;
mod view;

use std::path::{Path, PathBuf};

use crate::Error;
use probe::Answer;

/// The oldest Python that scripts may expect.
const OLDEST: (u32, u32) = (3, 10);

/// An interpreter that was found and asked for its version, prefixes and search path.
#[derive(Clone, Debug)]
pub struct Python {
    /// The real path of the executable, never a version manager's shim. In a virtual environment
    /// it is the environment's own `bin/python`, which is how Python knows of the environment.
    pub executable: PathBuf,
    /// (major, minor, micro)
    pub version: (u32, u32, u32),
    /// What of the host must be seen inside, read-only, besides the system directories.
    pub prefixes: Vec<PathBuf>,
    /// Memory in bytes that the interpreter has taken before it runs a script.
    pub own_memory: u64,
}

impl Python {
    /// Finds the interpreter: `"auto"` takes the newest CPython ≥ 3.10, anything else is a path
    /// (a virtual environment's `bin/python` keeps its packages) or a name to look for on `PATH`.
    pub async fn find(setting: &str) -> Result<Self, Error> {
        if setting == "auto" {
            return newest(candidates::all()).await;
        }
        let path = candidates::named(setting).ok_or_else(|| {
            Error::NoPython(format!(
                "there is no python interpreter at {setting:?}; give the path of a CPython {}.{} or \
                 newer, or \"auto\"",
                OLDEST.0, OLDEST.1
            ))
        })?;
        let answer = probe::ask(&path).await.map_err(|reason| refused(&path, &reason))?;
        usable(&answer).map_err(|reason| refused(&path, &reason))?;
        from_answer(answer)
    }
}

fn refused(path: &Path, reason: &str) -> Error {
    Error::NoPython(format!(
        "{} cannot run scripts: {reason}; scripts need CPython {}.{} or newer",
        path.display(),
        OLDEST.0,
        OLDEST.1
    ))
}

fn usable(answer: &Answer) -> Result<(), String> {
    let (major, minor, micro) = answer.version;
    if answer.implementation != "cpython" {
        return Err(format!("it is {}", answer.implementation));
    }
    if (major, minor) < OLDEST {
        return Err(format!("it is Python {major}.{minor}.{micro}"));
    }
    Ok(())
}

/// Asks candidates of the highest version first, and stops at the first version of which one can
/// be used. Among equals the order of the candidates decides.
async fn newest(candidates: Vec<candidates::Candidate>) -> Result<Python, Error> {
    let mut reasons = Vec::new();
    let mut found: Option<Answer> = None;
    for candidate in candidates {
        let beaten = |answer: &Answer| {
            candidate.version.is_some_and(|version| version < (answer.version.0, answer.version.1))
        };
        if found.as_ref().is_some_and(beaten) {
            continue;
        }
        let asked = probe::ask(&candidate.path).await;
        match asked.and_then(|answer| usable(&answer).map(|()| answer)) {
            Ok(answer) => {
                let rank = |answer: &Answer| (answer.is_final, answer.version);
                if found.as_ref().is_none_or(|best| rank(&answer) > rank(best)) {
                    found = Some(answer);
                }
            }
            Err(reason) => reasons.push(format!("{} ({reason})", candidate.path.display())),
        }
    }
    if let Some(answer) = found {
        return from_answer(answer);
    }
    let tried = if reasons.is_empty() {
        String::new()
    } else {
        format!("; what was found cannot be used: {}", reasons.join(", "))
    };
    Err(Error::NoPython(format!(
        "no CPython {}.{} or newer is on PATH, in /usr/bin, in /usr/local/bin or among the versions \
         of pyenv and uv{tried}; install one, or name it with the setting `python`",
        OLDEST.0, OLDEST.1
    )))
}

fn from_answer(answer: Answer) -> Result<Python, Error> {
    let executable = executable(&answer).map_err(|error| {
        Error::io(format_args!("resolve {}", answer.executable.display()), error)
    })?;
    let prefixes = view::prefixes(&executable).map_err(|reason| refused(&executable, &reason))?;
    Ok(Python {
        executable,
        version: answer.version,
        prefixes,
        own_memory: answer.memory_kb.saturating_mul(1024),
    })
}

fn executable(answer: &Answer) -> std::io::Result<PathBuf> {
    if answer.prefix == answer.base_prefix {
        return answer.executable.canonicalize();
    }
    let (Some(directory), Some(name)) = (answer.executable.parent(), answer.executable.file_name())
    else {
        return answer.executable.canonicalize();
    };
    Ok(directory.canonicalize()?.join(name))
}

#[cfg(test)]
mod tests;

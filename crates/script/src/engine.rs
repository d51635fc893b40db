//! Runs a script: the sandbox around the interpreter, the channel beside it, and the verdict.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sandbox::{Access, Mount, Sandbox, Source, Spec};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::ahead::Ahead;
use crate::channel::{EndReport, serve};
use crate::check::{Checked, Checker, too_much};
use crate::host::Host;
use crate::interpreter::{Directories, Ends, Interpreter, Shape};
use crate::job::{Ending, Finished, Job};
use crate::language::{Language, PYTHON};
use crate::python::Python;
use crate::{Error, runtime};

/// A script is text that somebody may have to approve.
pub(crate) const LONGEST_CODE: usize = 1 << 20;
/// How long an interpreter that was started ahead waits for a script.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// The engine: a sandbox, an interpreter, and the runtime files written below the data directory.
#[derive(Clone, Debug)]
pub struct Engine {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    sandbox: Sandbox,
    python: Python,
    language: &'static Language,
    /// On the host.
    runtime: PathBuf,
    /// Interpreters that wait for a script, by the cell they are in.
    runners: Ahead<Shape, Interpreter>,
    /// The same for a script to be checked, which is always in the same cell.
    checkers: Ahead<(), Checker>,
}

impl Engine {
    /// Writes `<data_dir>/script-runtime/` and keeps what runs need.
    pub fn new(sandbox: Sandbox, python: Python, data_dir: &Path) -> Result<Self, Error> {
        Self::starting_ahead(sandbox, python, data_dir, 0)
    }

    /// The same for a long life: after a script another interpreter is started in a cell just like
    /// it, and waits a few minutes for the next. At most `most` wait, and one for checks.
    pub fn starting_ahead(
        sandbox: Sandbox,
        python: Python,
        data_dir: &Path,
        most: usize,
    ) -> Result<Self, Error> {
        let language = &PYTHON;
        let runtime = runtime::write(data_dir, language)?;
        let (runners, checkers) = (Ahead::new(most), Ahead::new(most.min(1)));
        let shared = Shared { sandbox, python, language, runtime, runners, checkers };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// How many interpreters wait for a script, and how many for one to be checked.
    pub fn waiting(&self) -> (usize, usize) {
        (self.shared.runners.count(), self.shared.checkers.count())
    }

    /// Parses `code` with the very interpreter that would run it, confined. Names the first syntax
    /// error, or every call with a literal tool name. Takes at most five seconds.
    pub async fn check(&self, code: &str) -> Result<Checked, Error> {
        if code.len() > LONGEST_CODE {
            let megabytes = LONGEST_CODE >> 20;
            return Ok(too_much(&format!("the script is longer than {megabytes} MB")));
        }
        let checker = match self.shared.checkers.take(&()) {
            Some(waiting) => waiting,
            None => self.shared.checker(None).await?,
        };
        let checked = checker.check(code).await;
        self.start_checker();
        checked
    }

    /// In the background, if none waits.
    fn start_checker(&self) {
        let shared = Arc::downgrade(&self.shared);
        if !self.shared.checkers.lacks(&()) {
            return;
        }
        tokio::spawn(async move {
            // It should take nothing from the script that was checked and is about to start.
            tokio::time::sleep(Duration::from_millis(100)).await;
            let Some(shared) = shared.upgrade() else { return };
            match shared.checker(Some(LONGEST_WAIT)).await {
                Ok(checker) if shared.checkers.lacks(&()) => shared.checkers.put((), checker),
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, "no interpreter can be started ahead"),
            }
        });
    }

    /// In the background, if none waits in such a cell.
    fn start_runner(&self, shape: Shape, directories: Directories) {
        let shared = Arc::downgrade(&self.shared);
        tokio::spawn(async move {
            let Some(shared) = shared.upgrade() else { return };
            if !shared.runners.lacks(&shape) {
                return;
            }
            match shared.interpreter(&shape, directories, Some(LONGEST_WAIT)).await {
                Ok(interpreter) => shared.runners.put(shape, interpreter),
                Err(error) => tracing::debug!(%error, "no interpreter can be started ahead"),
            }
        });
    }

    /// Runs `job` to its end. `cancel` kills the whole tree, and so does dropping the future.
    pub async fn run(
        &self,
        job: Job,
        host: Arc<dyn Host>,
        cancel: CancellationToken,
    ) -> Result<Finished, Error> {
        job.limits.check()?;
        if job.code.len() > LONGEST_CODE {
            return Err(Error::BadJob(format!(
                "the script is longer than {} MB; keep data in a file of the workspace",
                LONGEST_CODE >> 20
            )));
        }
        let bounds = (job.limits.max_calls, job.limits.concurrency);
        let directories = Directories { workspace: job.workspace, records: job.records };
        let shape = Shape::of(&directories, job.access, &job.limits)?;
        let again = directories.again();
        let interpreter = match self.shared.runners.take(&shape) {
            Some(waiting) => waiting,
            None => self.shared.interpreter(&shape, directories, None).await?,
        };
        let (mut running, Ends { requests, replies }) = interpreter.begin(job.stdout, job.stderr);
        let over = async move {
            tokio::select! {
                ended = running.wait() => return ended,
                () = cancel.cancelled() => running.kill(),
            }
            running.wait().await
        };
        // A task of its own: what is polled outside the runtime's threads is woken through one of
        // them, which costs half as much again as the whole round trip of a call.
        let served = serve(requests, replies, job.code, host, bounds, over);
        let (ended, served) = AbortOnDropHandle::new(tokio::spawn(served))
            .await
            .map_err(|error| Error::Lost(format!("serving the script broke off: {error}")))?;
        if let Ok(again) = again {
            self.start_runner(shape, again);
        }
        let (ending, exit_code, traceback) = verdict(ended.ending, served.end);
        Ok(Finished {
            ending,
            calls: served.counts.reached,
            failed: served.counts.failed,
            refused: served.counts.refused,
            exit_code,
            traceback,
            complaint: served.complaint,
            usage: ended.usage,
        })
    }
}

impl Shared {
    async fn checker(&self, waits: Option<Duration>) -> Result<Checker, Error> {
        let spec = self.spec(self.language.checker);
        Checker::start(&self.sandbox, spec, self.python.own_memory, waits).await
    }

    async fn interpreter(
        &self,
        shape: &Shape,
        directories: Directories,
        waits: Option<Duration>,
    ) -> Result<Interpreter, Error> {
        let (spec, own_memory) = (self.spec(self.language.runner), self.python.own_memory);
        Interpreter::start(&self.sandbox, spec, (shape, directories), own_memory, waits).await
    }

    /// The interpreter with one of its runtime files, and nothing else yet.
    fn spec(&self, file: &str) -> Spec {
        let Self { python, language, runtime, .. } = self;
        let mut spec = Spec::new(&python.executable);
        spec.args = language.arguments.iter().map(OsString::from).collect();
        spec.args.push(Path::new(runtime::INSIDE).join(file).into());
        spec.env = environment(language, &python.executable);
        spec.mounts = python
            .prefixes
            .iter()
            .map(|prefix| (prefix.clone(), prefix.clone()))
            .chain([(runtime.clone(), PathBuf::from(runtime::INSIDE))])
            .map(|(source, target)| Mount {
                source: Source::Path(source),
                target,
                access: Access::ReadOnly,
            })
            .collect();
        spec
    }
}

pub(crate) fn environment(language: &Language, executable: &Path) -> Vec<(OsString, OsString)> {
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get().min(4));
    let mut path = OsString::new();
    if let Some(directory) = executable.parent() {
        path.push(directory);
        path.push(":");
    }
    path.push("/usr/local/bin:/usr/bin:/bin");
    let fixed = [("HOME", "/tmp"), ("TMPDIR", "/tmp"), ("LANG", "C.UTF-8")];
    fixed
        .iter()
        .map(|(name, value)| (OsString::from(name), OsString::from(value)))
        .chain([("PATH".into(), path)])
        .chain(language.environment.iter().map(|(name, value)| {
            (name.into(), value.replace("{threads}", &threads.to_string()).into())
        }))
        .collect()
}

/// How the script ended, its exit code, and its last frames.
fn verdict(ending: sandbox::Ending, end: Option<EndReport>) -> (Ending, Option<i32>, String) {
    let EndReport { traceback, memory } = end.clone().unwrap_or_default();
    let (verdict, exit_code) = match ending {
        sandbox::Ending::Exited(code) if memory => (Ending::MemoryLimit, Some(code)),
        // An exception that nobody caught is a failure whatever an exit handler made of the code.
        sandbox::Ending::Exited(code) if code != 0 || end.is_some() => {
            (Ending::Failed { traceback: traceback.clone() }, Some(code))
        }
        sandbox::Ending::Exited(code) => (Ending::Completed, Some(code)),
        sandbox::Ending::Signaled(signal) => (Ending::Signaled(signal), None),
        sandbox::Ending::TimedOut => (Ending::TimedOut, None),
        sandbox::Ending::Cancelled => (Ending::Cancelled, None),
        sandbox::Ending::MemoryLimit => (Ending::MemoryLimit, None),
        sandbox::Ending::ProcessLimit => (Ending::ProcessLimit, None),
    };
    (verdict, exit_code, traceback)
}

#[cfg(test)]
mod tests {
    use sandbox::Ending as Ended;

    use super::*;

    #[test]
    fn a_script_can_only_speak_ill_of_itself() {
        let end =
            |traceback: &str, memory| Some(EndReport { traceback: traceback.to_owned(), memory });
        let failed = |traceback: &str| Ending::Failed { traceback: traceback.to_owned() };
        let table = [
            (Ended::Exited(0), None, Ending::Completed, Some(0)),
            (Ended::Exited(3), None, failed(""), Some(3)),
            (Ended::Exited(1), end("T", false), failed("T"), Some(1)),
            (Ended::Exited(0), end("T", false), failed("T"), Some(0)),
            (Ended::Exited(1), end("T", true), Ending::MemoryLimit, Some(1)),
            (Ended::TimedOut, end("T", false), Ending::TimedOut, None),
            (Ended::MemoryLimit, end("T", false), Ending::MemoryLimit, None),
            (Ended::ProcessLimit, end("T", false), Ending::ProcessLimit, None),
            (Ended::Cancelled, None, Ending::Cancelled, None),
            (Ended::Signaled(11), None, Ending::Signaled(11), None),
        ];
        for (ended, end, ending, exit_code) in table {
            let shown = format!("{ended:?} {end:?}");
            let (found, code, _) = verdict(ended, end);
            assert_eq!((found, code), (ending, exit_code), "{shown}");
        }
    }
}

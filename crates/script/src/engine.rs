//! Runs a script: the sandbox around the interpreter, the channel beside it, and the verdict.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandbox::{Access, Mount, Output, Sandbox, Source, Spec};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::channel::{EndReport, Pipes, serve};
use crate::check::Checked;
use crate::host::Host;
use crate::job::{Ending, Finished, Job};
use crate::language::{Language, PYTHON};
use crate::python::Python;
use crate::{Error, check, runtime};

/// Where a script sees its workspace.
const WORKSPACE: &str = "/workspace";
/// A script is text that somebody may have to approve.
pub(crate) const LONGEST_CODE: usize = 1 << 20;
/// What is handed on of each output stream.
const LONGEST_OUTPUT: u64 = 1 << 30;

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
}

impl Engine {
    /// Writes `<data_dir>/script-runtime/` and keeps what runs need.
    pub fn new(sandbox: Sandbox, python: Python, data_dir: &Path) -> Result<Self, Error> {
        let language = &PYTHON;
        let runtime = runtime::write(data_dir, language)?;
        Ok(Self { shared: Arc::new(Shared { sandbox, python, language, runtime }) })
    }

    /// Parses `code` with the very interpreter that would run it, confined. Names the first syntax
    /// error, or every call with a literal tool name. Takes at most five seconds.
    pub async fn check(&self, code: &str) -> Result<Checked, Error> {
        let spec = self.spec(self.shared.language.checker);
        check::check(&self.shared.sandbox, spec, self.shared.python.own_memory, code).await
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
        let Pipes { requests, replies, script_requests, script_replies } = Pipes::new()?;
        let mut spec = self.spec(self.shared.language.runner);
        spec.cwd = PathBuf::from(WORKSPACE);
        spec.mounts.extend(workspace(job.workspace, job.access, job.records));
        spec.limits.wall = job.limits.timeout;
        spec.limits.memory = (job.limits.memory_mb << 20) + self.shared.python.own_memory;
        spec.limits.tmp_size = job.limits.memory_mb << 20;
        spec.fds = vec![(3, script_requests), (4, script_replies)];
        spec.stdout = Output::Sink { sink: job.stdout, limit: LONGEST_OUTPUT };
        spec.stderr = Output::Sink { sink: job.stderr, limit: LONGEST_OUTPUT };

        let mut running = self.shared.sandbox.spawn(spec).await?;
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

    /// The interpreter with one of its runtime files, and nothing else yet.
    fn spec(&self, file: &str) -> Spec {
        let Shared { python, language, runtime, .. } = &*self.shared;
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

fn workspace(workspace: OwnedFd, access: Access, records: Option<OwnedFd>) -> Vec<Mount> {
    let target = PathBuf::from(WORKSPACE);
    let records = records.map(|records| Mount {
        source: Source::Fd(records),
        target: target.join(".agent"),
        access: Access::ReadOnly,
    });
    let workspace = Mount { source: Source::Fd(workspace), target, access };
    [workspace].into_iter().chain(records).collect()
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

//! Runs functions, each in a fresh interpreter in a sandbox of its own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandbox::{Access, Captured, Mount, Output, Sandbox, Source, Spec};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

use super::answer::{self, Heard};
use super::job::{Evaluated, FunctionJob, FunctionLanguage};
use super::node::Node;
use crate::channel::is_deeper_than;
use crate::language::{FUNCTION_NODE, FUNCTION_PYTHON, Language};
use crate::python::Python;
use crate::{Error, runtime};

/// Longest code, in bytes.
pub(super) const LONGEST_CODE: usize = 8 << 20;

/// How deep arguments may be nested. Readers of JSON in both languages manage that much.
const DEEPEST: usize = 500;

/// What runs functions.
#[derive(Clone, Debug)]
pub struct Executor {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    sandbox: Sandbox,
    python: Result<Python, String>,
    node: Result<Node, String>,
    /// On the host.
    runtime: PathBuf,
}

/// An interpreter, as far as a run has to know it.
struct Interpreter<'a> {
    executable: &'a Path,
    prefixes: &'a [PathBuf],
    own_memory: u64,
    language: &'static Language,
}

impl Executor {
    /// Writes `<data_dir>/script-runtime/` and keeps what runs need. A language whose interpreter
    /// is missing is refused with the reason.
    pub fn new(
        sandbox: Sandbox,
        python: Result<Python, String>,
        node: Result<Node, String>,
        data_dir: &Path,
    ) -> Result<Self, Error> {
        let runtime = runtime::write(data_dir, &FUNCTION_PYTHON)?;
        runtime::write(data_dir, &FUNCTION_NODE)?;
        Ok(Self { shared: Arc::new(Shared { sandbox, python, node, runtime }) })
    }

    /// Runs `job` to its end. `cancel` kills the whole tree, and so does dropping the future.
    pub async fn evaluate(
        &self,
        job: FunctionJob,
        cancel: CancellationToken,
    ) -> Result<Evaluated, Error> {
        check(&job)?;
        let interpreter = self.interpreter(job.language)?;
        let (their_request, request) = pipe_ends()?;
        let (answer, their_answer) = pipe_ends()?;
        let failed = |error| Error::io("use the pipe of a function", error);
        let mut request = pipe::Sender::from_owned_fd(request).map_err(failed)?;
        let mut answer = pipe::Receiver::from_owned_fd(answer).map_err(failed)?;
        let half = job.output_bytes.div_ceil(2);
        let output = || Output::Capture { head: half, tail: half };
        let mut spec = self.spec(&interpreter, job.memory_mb);
        spec.limits.wall = job.timeout;
        let limit = (job.memory_mb << 20) + interpreter.own_memory;
        spec.limits.memory = limit;
        spec.limits.tmp_size = job.memory_mb << 20;
        spec.fds = vec![(3, their_request), (4, their_answer)];
        spec.stdout = output();
        spec.stderr = output();

        let mut running = self.shared.sandbox.spawn(spec).await?;
        let body = body(&job);
        let send = async move {
            // Code that ends before it was read says why by its ending.
            let _ = request.write_all(&body).await;
        };
        let hear = async move {
            let mut heard = Heard::default();
            let mut limited = (&mut answer).take(answer::LONGEST as u64 + 1);
            let _ = limited.read_to_end(&mut heard.bytes).await;
            heard.too_long = heard.bytes.len() > answer::LONGEST;
            if heard.too_long {
                heard.bytes.clear();
                // Read on, or the process would wait for room until its time is over.
                let _ = tokio::io::copy(&mut answer, &mut tokio::io::sink()).await;
            }
            heard
        };
        let over = async {
            tokio::select! {
                ended = running.wait() => return ended,
                () = cancel.cancelled() => {}
            }
            running.kill();
            running.wait().await
        };
        let ((), heard, ended) = tokio::join!(send, hear, over);
        let (stdout, stdout_cut) = text(&ended.stdout);
        let (stderr, stderr_cut) = text(&ended.stderr);
        let memory_was_full = job.language == FunctionLanguage::JavaScript
            && ended.usage.peak_memory >= limit / 4 * 3;
        let verdict = answer::verdict(&job, ended.ending, &heard, &stderr, memory_was_full);
        let (data, fault) = match verdict.result {
            Ok(data) => (Some(data), None),
            Err(fault) => (None, Some(fault)),
        };
        Ok(Evaluated {
            data,
            fault,
            stdout,
            stderr,
            truncated: stdout_cut || stderr_cut,
            restored: verdict.restored,
            images: verdict.images,
            usage: ended.usage,
        })
    }

    fn interpreter(&self, language: FunctionLanguage) -> Result<Interpreter<'_>, Error> {
        let Shared { python, node, .. } = &*self.shared;
        Ok(match language {
            FunctionLanguage::Python => {
                let python = python.as_ref().map_err(|reason| Error::NoPython(reason.clone()))?;
                Interpreter {
                    executable: &python.executable,
                    prefixes: &python.prefixes,
                    own_memory: python.own_memory,
                    language: &FUNCTION_PYTHON,
                }
            }
            FunctionLanguage::JavaScript => {
                let node = node.as_ref().map_err(|reason| Error::NoNode(reason.clone()))?;
                Interpreter {
                    executable: &node.executable,
                    prefixes: &node.prefixes,
                    own_memory: node.own_memory,
                    language: &FUNCTION_NODE,
                }
            }
        })
    }

    fn spec(&self, interpreter: &Interpreter<'_>, memory_mb: u64) -> Spec {
        let Interpreter { executable, prefixes, language, .. } = interpreter;
        let mut spec = Spec::new(*executable);
        spec.args = language
            .arguments
            .iter()
            .map(|argument| argument.replace("{memory_mb}", &memory_mb.to_string()).into())
            .collect::<Vec<OsString>>();
        spec.args.push(Path::new(runtime::INSIDE).join(language.runner).into());
        spec.env = crate::engine::environment(language, executable);
        let runtime = (self.shared.runtime.clone(), PathBuf::from(runtime::INSIDE));
        let own = prefixes.iter().map(|prefix| (prefix.clone(), prefix.clone()));
        spec.mounts = own
            .chain([runtime])
            .map(|(source, target)| Mount {
                source: Source::Path(source),
                target,
                access: Access::ReadOnly,
            })
            .collect();
        spec
    }
}

fn check(job: &FunctionJob) -> Result<(), Error> {
    if job.code.len() > LONGEST_CODE {
        return Err(Error::BadJob(format!(
            "the code is longer than {} MB; keep data in a file",
            LONGEST_CODE >> 20
        )));
    }
    if !job.args.get().starts_with('[') {
        return Err(Error::BadJob("args must be an array".to_owned()));
    }
    if is_deeper_than(DEEPEST, job.args.get()) {
        return Err(Error::BadJob(format!("args are nested more than {DEEPEST} deep")));
    }
    if job.timeout.is_zero() || !(16..=1 << 20).contains(&job.memory_mb) {
        return Err(Error::BadJob(
            "the time limit must be longer than 0, and memory between 16 and 1048576 MB".to_owned(),
        ));
    }
    Ok(())
}

fn body(job: &FunctionJob) -> Vec<u8> {
    let code = serde_json::Value::String(job.code.clone());
    let entry = job.entry.clone().map_or(serde_json::Value::Null, serde_json::Value::String);
    format!(r#"{{"code":{code},"args":{},"entry":{entry}}}"#, job.args.get()).into_bytes()
}

/// A pipe: (the end to read from, the end to write to).
fn pipe_ends() -> Result<(std::os::fd::OwnedFd, std::os::fd::OwnedFd), Error> {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|error| Error::io("make the pipe of a function", error))
}

/// What was kept of a stream, and whether that is not all.
fn text(captured: &Captured) -> (String, bool) {
    let kept = captured.head.len() + captured.tail.len();
    let left_out = captured.total.saturating_sub(kept as u64);
    let head = String::from_utf8_lossy(&captured.head);
    if left_out == 0 {
        let mut whole = captured.head.clone();
        whole.extend_from_slice(&captured.tail);
        return (String::from_utf8_lossy(&whole).into_owned(), false);
    }
    let tail = String::from_utf8_lossy(&captured.tail);
    (format!("{head}\n[{left_out} bytes left out]\n{tail}"), true)
}

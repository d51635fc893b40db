//! What a place for files and programs has to do: run, read, write. Everything else is made of it.

use std::fmt::Debug;
use std::time::Duration;

use inside::{Captured, Ending, Reply, Request, Run};

use crate::embedded;

/// How long a request about files may take, beyond its own limit.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connected place. There is no other: who has none cannot act anywhere.
#[async_trait::async_trait]
pub trait Backend: Send + Sync + Debug + 'static {
    /// The absolute path under which the agent knows the workspace.
    fn root(&self) -> &str;

    /// Runs a program to its end. Dropping the future ends everything that it started.
    async fn exec(&self, program: Program) -> Result<Outcome, Fault>;

    /// Reads bytes of a file; fewer than asked for only at its end.
    async fn read(&self, path: &str, from: u64, length: u64) -> Result<Asked<Vec<u8>>, Fault>;

    /// Puts bytes in the place of a file, whatever it was, or makes it.
    async fn write(&self, path: &str, content: Vec<u8>) -> Result<Asked<()>, Fault>;

    /// Carries out a request where the files are, in one exchange.
    async fn act(&self, request: Request) -> Result<Reply, Fault> {
        let limit = PATIENCE + own_limit(&request);
        let command = embedded::put(self).await?;
        let input = inside::encode_request(&request).map_err(Fault::Lost)?;
        let program = Program {
            command,
            input,
            limit: Some(limit),
            keep: embedded::LONGEST_ANSWER,
            ..Program::new(self.root())
        };
        match self.exec(program).await? {
            Outcome::Exited { code: 0, output } => {
                inside::decode_reply(&output.stdout.head).map_err(Fault::Lost)
            }
            other => Err(Fault::Lost(format!("the request broke off: {other}"))),
        }
    }

    /// Whether the place is still there, for one that was not used for a while.
    async fn check(&self) -> Result<(), Fault> {
        let path = self.root().to_owned();
        match self.act(Request::Look { path }).await? {
            Reply::Place { folder: Some(true), .. } => Ok(()),
            Reply::Refused(refusal) => Err(Fault::Gone(refusal.message)),
            other => Err(Fault::Gone(format!("it does not answer as it should: {other:?}"))),
        }
    }

    /// The environment of commands.
    fn environment(&self) -> Vec<(String, String)> {
        let fixed = [
            ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
            ("HOME", "/tmp"),
            ("LANG", "C.UTF-8"),
            ("TERM", "dumb"),
        ];
        fixed.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
    }
}

/// What a place says about a file: the answer, or why there is none.
pub type Asked<T> = Result<T, inside::Refusal>;

/// A program to run.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program, found by `PATH` unless it is a path, and its arguments.
    pub command: Vec<String>,
    /// Current directory.
    pub cwd: String,
    /// The whole environment.
    pub environment: Vec<(String, String)>,
    /// Its standard input.
    pub input: Vec<u8>,
    /// Time after which the whole tree is ended.
    pub limit: Option<Duration>,
    /// Bytes kept of the beginning and of the end of each stream.
    pub keep: (u64, u64),
}

impl Program {
    /// Nothing to run yet, in `cwd`, with no environment and no input.
    pub fn new(cwd: &str) -> Self {
        Self {
            command: Vec::new(),
            cwd: cwd.to_owned(),
            environment: Vec::new(),
            input: Vec::new(),
            limit: None,
            keep: (64 << 10, 64 << 10),
        }
    }

    /// The same as a request for where it is to run.
    pub(crate) fn request(self) -> Request {
        Request::Run(Run {
            command: self.command,
            cwd: self.cwd,
            environment: self.environment,
            input: self.input,
            limit_ms: self.limit.map(|limit| limit.as_millis() as u64),
            keep: self.keep,
            whole: None,
            reports: false,
        })
    }
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// By itself; 127: there is no such program.
    Exited {
        /// Its code.
        code: i32,
        /// What it printed.
        output: Output,
    },
    /// By a signal.
    Signaled {
        /// The signal's number.
        signal: i32,
        /// What it printed.
        output: Output,
    },
    /// At its limit; the whole tree was ended.
    TimedOut {
        /// What it had printed.
        partial: Output,
    },
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (how, output) = match self {
            Self::Exited { code, output } => (format!("exit code {code}"), output),
            Self::Signaled { signal, output } => (format!("signal {signal}"), output),
            Self::TimedOut { partial } => ("its time was up".to_owned(), partial),
        };
        let words = String::from_utf8_lossy(&output.stderr.head);
        let words: String = words.trim().chars().take(300).collect();
        if words.is_empty() { f.write_str(&how) } else { write!(f, "{how}: {words}") }
    }
}

/// What a program printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Standard output.
    pub stdout: Captured,
    /// Standard error.
    pub stderr: Captured,
}

/// The place itself fails. Never an answer about a file: what could not be asked is not absent.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Fault {
    /// It cannot be had; nothing was done.
    #[error("the workspace cannot be used: {0}")]
    Unavailable(String),
    /// It was there and is no more; it may be started again.
    #[error("the workspace is gone: {0}")]
    Gone(String),
    /// The exchange broke off: what was asked may have been done or not.
    #[error("the workspace did not answer, and whether anything was done is unknown: {0}")]
    Lost(String),
}

/// What came of running a program, as an outcome.
pub(crate) fn outcome(reply: Reply) -> Result<Outcome, Fault> {
    match reply {
        Reply::Ran(ran) => {
            let output = Output { stdout: ran.stdout, stderr: ran.stderr };
            match ran.ending {
                Ending::Exited(code) => Ok(Outcome::Exited { code, output }),
                Ending::Signaled(signal) => Ok(Outcome::Signaled { signal, output }),
                Ending::TimedOut => Ok(Outcome::TimedOut { partial: output }),
                Ending::Cancelled => Err(Fault::Lost("it was cancelled".to_owned())),
            }
        }
        Reply::Refused(refusal) if refusal.fault == inside::Fault::NoProgram => {
            let words = refusal.message.into_bytes();
            let stderr = Captured { total: words.len() as u64, head: words, tail: Vec::new() };
            let output = Output { stderr, ..Output::default() };
            Ok(Outcome::Exited { code: 127, output })
        }
        Reply::Refused(refusal) => Err(Fault::Unavailable(refusal.message)),
        other => Err(Fault::Lost(format!("an answer to something else came: {other:?}"))),
    }
}

/// The limit that a request names itself.
pub(crate) fn own_limit(request: &Request) -> Duration {
    Duration::from_millis(match request {
        Request::Glob { limit_ms, .. } => *limit_ms,
        Request::Grep(search) => search.limit_ms,
        Request::Run(run) => run.limit_ms.unwrap_or(0),
        _ => 0,
    })
}

//! `Bash`: a command, with the directory in which the one before ended; or a look at one that runs
//! in the background.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use inside::{Captured, Ending, Fault, Ran, Reply, Request, Run};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{About, Answer, Tool, arguments, bounded, fault, plural, size, unexpected};
use crate::backend::Backend;
use crate::jobs::{Job, Over};
use crate::session::Session;

/// Time of a command, in milliseconds.
const USUAL_MS: u64 = 120_000;
const LONGEST_MS: u64 = 600_000;
/// Bytes shown of the beginning and of the end of each stream.
const KEEP: (u64, u64) = (8_000, 8_000);
/// Bytes of a job's output shown at once.
const PIECE: u64 = 16_000;
/// Longest command; more belongs into a file.
const LONGEST: usize = 100_000;

/// Standard input is where it says in which directory it ended; the command's own is empty.
const WRAPPER: &str =
    "exec 63>&0 </dev/null; trap 'builtin pwd -P >&63 2>/dev/null' EXIT; eval \"shift
$1\"";

pub(super) const TOOL: Tool = Tool {
    name: "Bash",
    title: "Run a command",
    read_only: false,
    destructive: true,
    description,
    schema,
    run,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    command: Option<String>,
    #[expect(dead_code, reason = "for the person who is asked, not for us")]
    description: Option<String>,
    timeout: Option<u64>,
    #[serde(default)]
    run_in_background: bool,
    job: Option<String>,
    #[serde(default)]
    kill: bool,
}

fn description(about: &About) -> String {
    format!(
        "Runs a command with bash, at first in {root}. {place} The working directory is kept \
between calls; variables and functions are not. Standard input is empty. The answer says how the \
command ended and shows standard output and standard error; of long output the beginning and the \
end, and where the whole is. timeout is in milliseconds (default {USUAL_MS}, at most {LONGEST_MS}); \
when it is up, everything the command started is ended. What a command leaves running is ended with \
it; to let it go on, set run_in_background: the answer names a job. Then call Bash with job instead \
of command to see its new output and whether it still runs, and with kill as well to end it. To read, \
search and change files use Read, Grep, Glob, Edit and Write rather than cat, grep, find and sed.",
        root = about.root,
        place = about.place
    )
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "command": {"type": "string", "minLength": 1, "maxLength": LONGEST,
                "description": "The command."},
            "description": {"type": "string", "maxLength": 1000,
                "description": "What it does, in a few words, for the person who may be asked."},
            "timeout": {"type": "integer", "minimum": 1, "maximum": LONGEST_MS,
                "description": "Time limit in milliseconds."},
            "run_in_background": {"type": "boolean",
                "description": "Do not wait for the end. Default false."},
            "job": {"type": "string", "maxLength": 64,
                "description": "Instead of command: a job that runs in the background."},
            "kill": {"type": "boolean", "description": "With job: end it. Default false."},
        },
        "additionalProperties": false,
    })
}

fn run(session: &Session, given: Value) -> BoxFuture<'_, Result<Answer, Answer>> {
    async move {
        let given: Arguments = arguments("Bash", given)?;
        let (command, job) = match (given.command, given.job) {
            (Some(command), None) => (command, None),
            (None, Some(job)) => (String::new(), Some(job)),
            _ => return Err(Answer::error("give either command, or job")),
        };
        if given.kill && job.is_none() {
            return Err(Answer::error(
                "kill goes with job; to end a command give the job it became",
            ));
        }
        let backend = match session.backend().await {
            Ok(backend) => backend,
            Err(reason) => return Err(fault(session, reason).await),
        };
        if let Some(job) = job {
            let job = session.jobs.find(&job).map_err(Answer::error)?;
            return look(session, backend.as_ref(), &job, given.kill).await;
        }
        if command.len() > LONGEST || command.contains('\0') {
            return Err(Answer::error(format!(
                "the command has a NUL byte or more than {LONGEST} bytes; Write it to a file and \
                 run that"
            )));
        }
        let limit = bounded("timeout", given.timeout, 1, LONGEST_MS, USUAL_MS)?;
        let number = session.jobs.number();
        let cwd = session.memory().cwd.clone();
        let root = backend.root().to_owned();
        let whole = format!("{}/.agent/output/{}-{number}.txt", root, uniquely(session));
        let request = Request::Run(Run {
            command: ["bash", "--noprofile", "--norc", "-c", WRAPPER, "bash", &command]
                .map(str::to_owned)
                .to_vec(),
            cwd: cwd.clone().unwrap_or_else(|| root.clone()),
            environment: backend.environment(),
            input: Vec::new(),
            limit_ms: (!given.run_in_background).then_some(limit),
            keep: KEEP,
            whole: Some((whole.clone(), given.run_in_background)),
            reports: true,
        });
        if given.run_in_background {
            let work = async move { backend.act(request).await };
            let job = session.jobs.start(number, whole.clone(), work).map_err(Answer::error)?;
            return Ok(Answer::text(format!(
                "runs in the background as {name}; its output goes to {whole}. Call Bash with \
                 {{\"job\": \"{name}\"}} to see what is new and whether it still runs",
                name = job.name
            )));
        }
        let reply = match backend.act(request).await {
            Ok(reply) => reply,
            Err(reason) => return Err(fault(session, reason).await),
        };
        let ran = ran(session, reply, cwd.as_deref(), &root)?;
        let moved = moved(session, &ran, cwd.as_deref(), &root);
        Ok(shown(&ran, limit, moved.as_deref()))
    }
    .boxed()
}

/// Names of files of output are not to meet those of other sessions in the same workspace.
fn uniquely(session: &Session) -> String {
    format!("bash-{}", session.tag())
}

/// What ran, or why nothing did.
fn ran(session: &Session, reply: Reply, cwd: Option<&str>, root: &str) -> Result<Ran, Answer> {
    match reply {
        Reply::Ran(ran) => Ok(ran),
        Reply::Refused(refusal) if refusal.fault == Fault::Absent && cwd.is_some() => {
            session.memory().cwd = None;
            Err(Answer::error(format!(
                "nothing was run: {}; the working directory is {root} again. Call Bash again if \
                 the command is right there",
                refusal.message
            )))
        }
        other => Err(unexpected(&other)),
    }
}

/// Where the next command runs, if that is somewhere else now.
fn moved(session: &Session, ran: &Ran, before: Option<&str>, root: &str) -> Option<String> {
    let said = String::from_utf8_lossy(&ran.report);
    let now = said.trim_end_matches('\n').rsplit('\n').next().unwrap_or_default();
    if !now.starts_with('/') || now.len() > 4096 || now == before.unwrap_or(root) {
        return None;
    }
    session.memory().cwd = Some(now.to_owned());
    Some(now.to_owned())
}

fn shown(ran: &Ran, limit_ms: u64, moved: Option<&str>) -> Answer {
    let seconds = ran.wall_ms as f64 / 1000.0;
    let (mut first, is_error) = match ran.ending {
        Ending::Exited(code) => (format!("exit code {code} · {seconds:.1} s"), false),
        Ending::Signaled(signal) => (format!("ended by {} · {seconds:.1} s", name(signal)), true),
        Ending::TimedOut => (
            format!(
                "ended at its time limit of {} s, with everything it had started; this is what it \
                 had printed. Give a longer timeout, or set run_in_background",
                Duration::from_millis(limit_ms).as_secs_f64()
            ),
            true,
        ),
        Ending::Cancelled => ("cancelled".to_owned(), true),
    };
    if let Some(moved) = moved {
        first.push_str(&format!(" · the working directory is now {moved}"));
    }
    if ran.left > 0 {
        first.push_str(&format!(
            " · {} it had left running ended with it; to keep such running use run_in_background",
            plural(u64::from(ran.left), "process").replace("processs", "processes")
        ));
    }
    let mut text = first + "\n";
    let nothing = ran.stdout.total + ran.stderr.total == 0;
    if nothing {
        text.push_str("[no output]\n");
    }
    let place = match &ran.whole {
        Some(Ok((path, _))) => format!("the whole is in {path}; Read it or Grep in it"),
        Some(Err(reason)) => format!("the whole was not kept: {reason}"),
        None => "the whole was not kept".to_owned(),
    };
    push(&mut text, &ran.stdout, &place);
    if ran.stderr.total > 0 {
        text.push_str("[standard error]\n");
        push(&mut text, &ran.stderr, &place);
    }
    Answer { is_error, ..Answer::text(text) }
}

fn push(text: &mut String, captured: &Captured, place: &str) {
    push_piece(text, &captured.head);
    let kept = (captured.head.len() + captured.tail.len()) as u64;
    if captured.total > kept {
        text.push_str(&format!("[… {} left out here; {place} …]\n", size(captured.total - kept)));
    }
    push_piece(text, &captured.tail);
}

fn push_piece(text: &mut String, bytes: &[u8]) {
    text.push_str(&String::from_utf8_lossy(bytes));
    if !bytes.is_empty() && !bytes.ends_with(b"\n") {
        text.push('\n');
    }
}

fn name(signal: i32) -> String {
    let known = [
        (1, "HUP"),
        (2, "INT"),
        (6, "ABRT"),
        (9, "KILL"),
        (11, "SEGV"),
        (13, "PIPE"),
        (15, "TERM"),
    ];
    let name = known.iter().find(|(number, _)| *number == signal);
    let hint = if signal == 9 { " (perhaps for want of memory)" } else { "" };
    match name {
        Some((_, name)) => format!("signal {signal} ({name}){hint}"),
        None => format!("signal {signal}"),
    }
}

/// What is new of a job.
async fn look(
    session: &Session,
    backend: &dyn Backend,
    job: &Job,
    kill: bool,
) -> Result<Answer, Answer> {
    let killed = kill && job.kill().await;
    let ended = job.ended();
    let mut shown = job.shown.lock().await;
    let bytes = match backend.read(&job.path, *shown, PIECE).await {
        Ok(Ok(bytes)) => bytes,
        // It may not have begun to write, or somebody removed the file.
        Ok(Err(refusal)) if refusal.fault == Fault::Absent => Vec::new(),
        Ok(Err(refusal)) => return Err(super::refused(&refusal)),
        Err(reason) => return Err(fault(session, reason).await),
    };
    *shown += bytes.len() as u64;
    let seconds = job.started.elapsed().as_secs();
    let (state, is_error) = match &ended {
        None => (format!("runs since {seconds} s"), false),
        Some(Over::Killed) if killed => ("was ended".to_owned(), false),
        Some(Over::Killed) => ("was ended before".to_owned(), false),
        Some(Over::Ended(result)) => match result.as_ref() {
            Ok(Reply::Ran(ran)) => match ran.ending {
                Ending::Exited(code) => {
                    (format!("exit code {code} · {:.1} s", ran.wall_ms as f64 / 1000.0), false)
                }
                Ending::Signaled(signal) => (format!("ended by {}", name(signal)), true),
                Ending::TimedOut | Ending::Cancelled => ("was ended".to_owned(), true),
            },
            Ok(other) => (unexpected(other).all_text(), true),
            Err(reason) => (reason.to_string(), true),
        },
    };
    let mut text = format!("{} · {state}\n", job.name);
    if bytes.is_empty() {
        text.push_str("[no new output]\n");
    }
    push_piece(&mut text, &bytes);
    if bytes.len() as u64 == PIECE {
        text.push_str(&format!("[there may be more: call again, or Read {}]\n", job.path));
    }
    Ok(Answer { is_error, ..Answer::text(text) })
}

//! Runs a program to its end or its limit, with both its streams, and leaves nothing running.
//!
//! Only in a process of its own: it adopts orphans and ends whatever descends from it.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, WaitOptions};

use crate::capture::{Keep, Whole};
use crate::kill;
use crate::request::{Ending, Fault, Ran, Refusal, Reply, Run};
use crate::root::Root;

/// How long a program may take to end after it was asked to.
const GRACE: Duration = Duration::from_millis(300);
/// How long its last words are waited for once everything was ended.
const DRAIN: Duration = Duration::from_secs(1);
/// Longest report of where a program ended up.
const LONGEST_REPORT: u64 = 16 << 10;

/// `lifeline`: when its other end is closed, nobody waits any more and everything is ended.
pub(crate) fn run(
    root: &Root,
    run: &Run,
    lifeline: Option<BorrowedFd<'_>>,
) -> Result<Reply, Refusal> {
    kill::adopt_orphans();
    let began = Instant::now();
    let failed = |error: std::io::Error| {
        Refusal::new(Fault::Failed, format!("the program cannot be run: {error}"))
    };
    let (report, mut child) = start(run)?;
    let leader = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let leader = leader.ok_or_else(|| Refusal::new(Fault::Failed, "the program has no number"))?;
    let mut streams = Vec::new();
    let free = (run.keep.0 + run.keep.1) as usize;
    let whole = run.whole.as_ref();
    let mut whole =
        whole.map(|(path, always)| Whole::new(root, path, if *always { 0 } else { free }));
    for pipe in [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)] {
        streams
            .push(Stream { pipe: nonblocking(pipe).map_err(failed)?, keep: Keep::new(run.keep) });
    }
    let process = rustix::process::pidfd_open(leader, PidfdFlags::empty());
    let process = process.map_err(|error| failed(error.into()))?;
    let limit = run.limit_ms.map(|limit| began + Duration::from_millis(limit));
    let stopped = loop {
        match wait(&streams, process.as_fd(), lifeline, limit) {
            Woken::Time => break Some(Ending::TimedOut),
            Woken::Alone => break Some(Ending::Cancelled),
            Woken::Ended => break None,
            Woken::Output => drain(&mut streams, &mut whole),
        }
    };
    if stopped.is_some() {
        kill::ask(leader);
        let until = Instant::now() + GRACE;
        while Instant::now() < until
            && !(has_ended(process.as_fd()) && kill::descendants().is_empty())
        {
            drain(&mut streams, &mut whole);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let ended_itself = stopped.is_none();
    let left = if ended_itself { kill::descendants().len() as u32 } else { 0 };
    kill::end(leader);
    let status = rustix::process::waitpid(Some(leader), WaitOptions::empty());
    let until = Instant::now() + DRAIN;
    while streams.iter().any(|stream| stream.pipe.is_some()) && Instant::now() < until {
        drain(&mut streams, &mut whole);
        std::thread::sleep(Duration::from_millis(1));
    }
    let ending = match (stopped, status) {
        (Some(stopped), _) => stopped,
        (None, Ok(Some((_, status)))) => {
            match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => Ending::Exited(code),
                (None, Some(signal)) => Ending::Signaled(signal),
                (None, None) => Ending::Signaled(9),
            }
        }
        (None, _) => Ending::Signaled(9),
    };
    let mut kept = streams.into_iter().map(|stream| stream.keep.finish());
    Ok(Reply::Ran(Ran {
        ending,
        stdout: kept.next().unwrap_or_default(),
        stderr: kept.next().unwrap_or_default(),
        wall_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        report: report.map(said).unwrap_or_default(),
        left,
        whole: whole.and_then(Whole::finish),
    }))
}

/// Starts the program in a group of its own.
fn start(run: &Run) -> Result<(Option<OwnedFd>, std::process::Child), Refusal> {
    let Some((program, arguments)) = run.command.split_first() else {
        return Err(Refusal::new(Fault::Request, "there is no program to run; name one"));
    };
    match std::fs::metadata(&run.cwd) {
        Ok(found) if found.is_dir() => {}
        _ => {
            let message = format!("the current directory {} is not there (any more)", run.cwd);
            return Err(Refusal::new(Fault::Absent, message));
        }
    }
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(run.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(&run.cwd)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let failed = |error: std::io::Error| {
        Refusal::new(Fault::Failed, format!("the program's input cannot be kept: {error}"))
    };
    if !run.input.is_empty() {
        command.stdin(Stdio::from(input(&run.input).map_err(failed)?));
    }
    let mut report = None;
    if run.reports {
        let flags = rustix::pipe::PipeFlags::CLOEXEC;
        let (reader, writer) = rustix::pipe::pipe_with(flags)
            .map_err(|error| Refusal::new(Fault::Failed, format!("no pipe can be had: {error}")))?;
        command.stdin(Stdio::from(writer));
        report = Some(reader);
    }
    let child = command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Refusal::new(Fault::NoProgram, format!("there is no program {program}; install it"))
        }
        std::io::ErrorKind::ArgumentListTooLong => {
            Refusal::new(Fault::Request, "the command is too long; put it into a file and run that")
        }
        _ => Refusal::new(Fault::Failed, format!("{program} cannot be started: {error}")),
    })?;
    Ok((report, child))
}

/// A file without a name that holds the input: whoever reads it never has to be waited for.
fn input(bytes: &[u8]) -> std::io::Result<File> {
    let number = std::process::id();
    let path = std::env::temp_dir().join(format!(".pinfold-input-{number}"));
    let mut options = File::options();
    options.read(true).write(true).create_new(true).mode(0o600);
    let mut file = options.open(&path)?;
    std::fs::remove_file(&path)?;
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

struct Stream {
    /// Until its end.
    pipe: Option<OwnedFd>,
    keep: Keep,
}

enum Woken {
    Output,
    Ended,
    Time,
    Alone,
}

fn wait(
    streams: &[Stream],
    process: BorrowedFd<'_>,
    lifeline: Option<BorrowedFd<'_>>,
    limit: Option<Instant>,
) -> Woken {
    let left = limit.map(|limit| limit.saturating_duration_since(Instant::now()));
    if left.is_some_and(|left| left.is_zero()) {
        return Woken::Time;
    }
    let mut polled = vec![PollFd::from_borrowed_fd(process, PollFlags::IN)];
    if let Some(lifeline) = lifeline {
        polled.push(PollFd::from_borrowed_fd(lifeline, PollFlags::IN));
    }
    let open = streams.iter().filter_map(|stream| stream.pipe.as_ref());
    polled.extend(open.map(|pipe| PollFd::new(pipe, PollFlags::IN)));
    let timeout = left.and_then(|left| rustix::event::Timespec::try_from(left).ok());
    match rustix::event::poll(&mut polled, timeout.as_ref()) {
        Ok(0) => return Woken::Time,
        Err(_) => return Woken::Output,
        Ok(_) => {}
    }
    let is_set = |index: usize| polled.get(index).is_some_and(|one| !one.revents().is_empty());
    if is_set(0) {
        Woken::Ended
    } else if lifeline.is_some() && is_set(1) {
        Woken::Alone
    } else {
        Woken::Output
    }
}

/// Takes what is there.
fn drain(streams: &mut [Stream], whole: &mut Option<Whole<'_>>) {
    let mut buffer = [0u8; 64 << 10];
    for stream in streams {
        let Some(pipe) = &stream.pipe else { continue };
        match rustix::io::read(pipe, &mut buffer) {
            Ok(0) => stream.pipe = None,
            Ok(length) => {
                stream.keep.take(&buffer[..length]);
                if let Some(whole) = whole {
                    whole.take(&buffer[..length]);
                }
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(_) => stream.pipe = None,
        }
    }
}

fn has_ended(process: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(process, PollFlags::IN)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(rustix::event::poll(&mut polled, Some(&now)), Ok(1))
}

fn nonblocking(pipe: Option<OwnedFd>) -> std::io::Result<Option<OwnedFd>> {
    if let Some(pipe) = &pipe {
        let flags = rustix::fs::fcntl_getfl(pipe)?;
        rustix::fs::fcntl_setfl(pipe, flags | rustix::fs::OFlags::NONBLOCK)?;
    }
    Ok(pipe)
}

/// Everyone who could write is gone.
fn said(report: OwnedFd) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(Some(report)) = nonblocking(Some(report)) {
        let _ = File::from(report).take(LONGEST_REPORT).read_to_end(&mut bytes);
    }
    bytes
}

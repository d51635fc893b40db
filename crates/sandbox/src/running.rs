//! A program that runs, from the server's side: its news, its timer, its end.
//!
//! One task per run owns everything, so a dropped `wait` loses nothing, and a kill needs nobody's
//! cooperation: it goes to the cell's first process by pidfd.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinHandle;

use crate::cgroup;
use crate::error::Error;
use crate::keeper::wire::{Failure, Overuse, Report, Stage};
use crate::keeper::{self};
use crate::limits::{Captured, Ended, Ending, Usage};
use crate::output;
use crate::plan::compile::{Compiled, Names};
use crate::plan::{Skip, skips};
use crate::sys;

/// How long a killed cell may take to be gone before the run is answered anyway.
const GRACE: Duration = Duration::from_secs(10);

/// How long a cell may take to be made.
const START_TIME: Duration = Duration::from_secs(30);

/// A program that runs. Dropping it kills the whole tree.
#[derive(Debug)]
pub struct Running {
    handle: Arc<Handle>,
    ended: watch::Receiver<Option<Ended>>,
}

/// What a kill needs, shared with the task.
#[derive(Debug, Default)]
struct Handle {
    process: OnceLock<OwnedFd>,
    cancel: Notify,
    cancelled: Mutex<bool>,
    begin: Notify,
}

impl Handle {
    fn cancel(&self) {
        *self.cancelled.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.kill();
        self.cancel.notify_one();
    }

    fn is_cancelled(&self) -> bool {
        *self.cancelled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kill(&self) {
        if let Some(process) = self.process.get() {
            sys::signal_process(process.as_fd(), libc::SIGKILL);
        }
    }
}

impl Running {
    /// What the program waited for is about to be sent: its time begins now. Nothing to one that
    /// does not wait ([`Spec::waits`](crate::Spec::waits)).
    pub fn begin(&self) {
        self.handle.begin.notify_one();
    }

    /// Whether it has ended, or is no longer followed because its runtime is gone.
    pub fn is_over(&self) -> bool {
        self.ended.borrow().is_some() || self.ended.has_changed().is_err()
    }

    /// Kills the whole tree; `wait` then says [`Ending::Cancelled`].
    pub fn kill(&self) {
        if self.ended.borrow().is_none() {
            self.handle.cancel();
        }
    }

    /// Waits for the end. Cancel-safe.
    pub async fn wait(&mut self) -> Ended {
        match self.ended.wait_for(Option::is_some).await {
            Ok(ended) => ended.clone().unwrap_or_else(lost),
            Err(_) => lost(),
        }
    }
}

/// The task was ended with its runtime.
fn lost() -> Ended {
    let nothing = Captured::default;
    Ended {
        ending: Ending::Cancelled,
        stdout: nothing(),
        stderr: nothing(),
        usage: Usage::default(),
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Follows a run whose plan was sent. Answers when the program runs or could not be started.
pub(crate) async fn follow(compiled: Compiled, report: OwnedFd) -> Result<Running, Error> {
    let report = sys::watch(report)
        .map_err(|error| Error::KeeperLost(format!("a run cannot be followed: {error}")))?;
    let handle = Arc::new(Handle::default());
    let (over, is_over) = watch::channel(false);
    let capped = !skips(compiled.plan.left_out, Skip::OutputCap);
    let drain = |(reader, output): (Option<OwnedFd>, _)| {
        reader.map(|reader| tokio::spawn(output::drain(reader, output, capped, is_over.clone())))
    };
    let (outputs, wall) = ([drain(compiled.stdout), drain(compiled.stderr)], compiled.limits.wall);
    let (started, has_started) = oneshot::channel();
    let (answer, ended) = watch::channel(None);
    let running = Running { handle: Arc::clone(&handle), ended };
    let run = Run {
        report,
        handle,
        names: compiled.names,
        group: compiled.group,
        process: None,
        wall: (!skips(compiled.plan.left_out, Skip::Wall)).then_some(wall),
        waits: compiled.waits,
        started: Some(started),
        outputs,
        over,
        story: Story::default(),
    };
    tokio::spawn(async move {
        let (ended, group) = run.follow_to_the_end().await;
        let _ = answer.send(Some(ended));
        drop(group);
    });
    match has_started.await {
        Ok(Ok(())) => Ok(running),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(Error::KeeperLost("a run ended before it began".to_owned())),
    }
}

/// What is known of a run so far.
#[derive(Default)]
struct Story {
    exited: Option<i32>,
    overused: Option<Overuse>,
    timed_out: bool,
    /// CPU time and highest memory as the cell's init saw them.
    cpu: Duration,
    peak: u64,
}

struct Run {
    report: AsyncFd<OwnedFd>,
    handle: Arc<Handle>,
    names: Names,
    group: Option<cgroup::Group>,
    /// The cell's first process.
    process: Option<AsyncFd<OwnedFd>>,
    wall: Option<Duration>,
    /// How long it may wait, as long as it does.
    waits: Option<Duration>,
    started: Option<oneshot::Sender<Result<(), Error>>>,
    outputs: [Option<JoinHandle<Captured>>; 2],
    over: watch::Sender<bool>,
    story: Story,
}

impl Run {
    /// Answers the group too: it is put away when the answer is out.
    async fn follow_to_the_end(mut self) -> (Ended, Option<cgroup::Group>) {
        let mut began = Instant::now();
        let mut deadline = None;
        let mut patience = Some(from_now(START_TIME));
        loop {
            let wall = sleep_until(deadline.filter(|_| !self.story.timed_out));
            tokio::select! {
                news = keeper::receive::<Report>(&self.report) => match news {
                    Ok(Some((Report::Over { cpu_microseconds, peak_kilobytes }, _))) => {
                        self.story.cpu = self.story.cpu.max(Duration::from_micros(cpu_microseconds));
                        self.story.peak = self.story.peak.max(peak_kilobytes * 1024);
                        break;
                    }
                    Ok(Some((news, fds))) => {
                        let starts = matches!(news, Report::Started);
                        self.hear(news, fds);
                        if starts {
                            deadline = self.waits.or(self.wall).map(from_now);
                            patience = patience.filter(|_| self.handle.is_cancelled());
                        }
                    }
                    // The keeper is gone, and with it the cell.
                    Ok(None) | Err(_) => break,
                },
                // With its first process the whole cell is gone. The keeper says so too, but later.
                () = ended(self.process.as_ref()), if self.story.exited.is_some() => break,
                () = self.handle.begin.notified(), if self.waits.is_some() => {
                    self.waits = None;
                    began = Instant::now();
                    deadline = self.wall.map(from_now);
                }
                () = wall => {
                    self.story.timed_out = true;
                    self.kill();
                    patience = Some(from_now(GRACE));
                }
                () = self.handle.cancel.notified() => {
                    self.kill();
                    patience = Some(from_now(GRACE));
                }
                () = sleep_until(patience) => {
                    tracing::error!("a cell does not answer, or is not gone after it was killed");
                    self.kill();
                    break;
                }
            }
        }
        self.say_started(Err(Error::KeeperLost("it did not make the cell".to_owned())));
        let wall = began.elapsed();
        let _ = self.over.send(true);
        let mut captured = [Captured::default(), Captured::default()];
        for (captured, task) in captured.iter_mut().zip(self.outputs) {
            if let Some(task) = task {
                *captured = task.await.unwrap_or_default();
            }
        }
        let [stdout, stderr] = captured;
        let verdict = self.group.as_mut().map(cgroup::Group::verdict).unwrap_or_default();
        let (cpu, peak_memory) = (self.story.cpu, verdict.peak_memory.unwrap_or(self.story.peak));
        let ended = Ended {
            ending: ending(&self.story, self.handle.is_cancelled(), verdict),
            stdout,
            stderr,
            usage: Usage { wall, cpu, peak_memory },
        };
        (ended, self.group)
    }

    fn hear(&mut self, news: Report, fds: Vec<OwnedFd>) {
        match news {
            Report::Made => {
                if let Some(process) = fds.into_iter().next() {
                    self.process = process.try_clone().and_then(sys::watch).ok();
                    let _ = self.handle.process.set(process);
                }
                if self.handle.is_cancelled() {
                    self.handle.kill();
                }
            }
            Report::Failed(failure) => {
                let error = explain(failure, &self.names);
                self.say_started(Err(error));
                self.handle.kill();
            }
            Report::Refused(what) => {
                self.say_started(Err(Error::Unavailable { what, hint: crate::level::hint() }))
            }
            Report::Started => self.say_started(Ok(())),
            Report::Exited { status, cpu_microseconds, peak } => {
                self.story.exited = Some(status);
                self.story.cpu = Duration::from_micros(cpu_microseconds);
                self.story.peak = peak;
            }
            Report::Overused(overuse) => self.story.overused = Some(overuse),
            Report::Probed(_) | Report::Over { .. } => {}
        }
    }

    fn kill(&self) {
        self.handle.kill();
        if let Some(group) = &self.group {
            group.kill();
        }
    }

    fn say_started(&mut self, said: Result<(), Error>) {
        if let Some(started) = self.started.take() {
            let _ = started.send(said);
        }
    }
}

/// Waits for the end of a process.
async fn ended(process: Option<&AsyncFd<OwnedFd>>) {
    match process {
        Some(process) => {
            let _ = process.readable().await;
        }
        None => std::future::pending().await,
    }
}

fn from_now(time: Duration) -> tokio::time::Instant {
    tokio::time::Instant::now() + time
}

async fn sleep_until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// A limit that was met counts only if the run failed: what a program copes with is no failure.
fn ending(story: &Story, cancelled: bool, verdict: cgroup::Verdict) -> Ending {
    let failed = story.exited != Some(0);
    let by_watch = |overuse| story.overused == Some(overuse);
    if story.exited.is_none() && story.timed_out {
        return Ending::TimedOut;
    }
    if story.exited.is_none() && cancelled {
        return Ending::Cancelled;
    }
    if failed && (verdict.memory_met || by_watch(Overuse::Memory)) {
        return Ending::MemoryLimit;
    }
    if failed && (verdict.processes_met || by_watch(Overuse::Processes)) {
        return Ending::ProcessLimit;
    }
    match story.exited {
        Some(status) if libc::WIFEXITED(status) => Ending::Exited(libc::WEXITSTATUS(status)),
        Some(status) => Ending::Signaled(libc::WTERMSIG(status)),
        None => Ending::Signaled(libc::SIGKILL),
    }
}

/// A failed step in words that say what to do.
fn explain(failure: Failure, names: &Names) -> Error {
    let Failure { stage, index, errno } = failure;
    let bind = names.binds.get(index as usize).cloned().unwrap_or_default();
    match stage {
        Stage::Execute => Error::BadSpec(format!(
            "{} cannot be executed in the sandbox: {errno}; it must be in a system directory or a mount",
            names.program
        )),
        Stage::Directory => Error::BadSpec(format!(
            "the current directory {} cannot be entered in the sandbox: {errno}; mount it or choose another",
            names.cwd
        )),
        Stage::MountSource if errno.0 == libc::ESTALE => Error::BadSpec(format!(
            "mount source {} is not what was opened: it was replaced meanwhile (try again), or its file \
             system was mounted after pinfold started (start pinfold again)",
            bind.0
        )),
        Stage::MountSource => {
            Error::BadSpec(format!("mount source {} cannot be mounted: {errno}", bind.0))
        }
        Stage::MountOwners => Error::BadSpec(format!(
            "{} lies on a file system that cannot map owners ({errno}); move it to one that can \
             (ext4, xfs, btrfs, tmpfs) or run pinfold as the user who owns it",
            bind.0
        )),
        Stage::MountTarget => Error::BadSpec(format!(
            "mount target {} cannot be used: {errno}; it must exist without links where it lies in another mount",
            bind.1
        )),
        other => Error::Unavailable {
            what: format!("making a cell failed at {other:?} ({index}): {errno}"),
            hint: "run `pinfold doctor` to see what this host gives".to_owned(),
        },
    }
}

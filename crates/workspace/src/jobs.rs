//! Commands that go on in the background. They end with the session that started them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use inside::Reply;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::backend::Fault;

/// Jobs that run at once.
const MOST_RUNNING: usize = 16;
/// Jobs that are remembered.
const MOST: usize = 256;

/// The jobs of a session.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    count: u64,
    jobs: BTreeMap<u64, Arc<Job>>,
}

/// One job.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) started: Instant,
    /// File with its output.
    pub(crate) path: String,
    /// What came of it, once it is over.
    pub(crate) over: watch::Receiver<Option<Over>>,
    /// How much of its output was shown.
    pub(crate) shown: tokio::sync::Mutex<u64>,
    task: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// How a job ended.
#[derive(Clone, Debug)]
pub(crate) enum Over {
    /// By itself, or not at all.
    Ended(Box<Result<Reply, Fault>>),
    /// By `kill`.
    Killed,
}

impl Jobs {
    /// A number for something new, and its name.
    pub(crate) fn number(&self) -> u64 {
        let mut all = self.lock();
        all.count += 1;
        all.count
    }

    /// Starts a job whose work is `work`.
    pub(crate) fn start(
        &self,
        number: u64,
        path: String,
        work: impl Future<Output = Result<Reply, Fault>> + Send + 'static,
    ) -> Result<Arc<Job>, String> {
        let mut all = self.lock();
        let running = all.jobs.values().filter(|job| job.over.borrow().is_none()).count();
        if running >= MOST_RUNNING {
            return Err(format!(
                "{running} commands run in the background already; end one with job and kill first"
            ));
        }
        let (say, over) = watch::channel(None);
        let task = tokio::spawn(async move {
            let ended = work.await;
            let _ = say.send(Some(Over::Ended(Box::new(ended))));
        });
        let job = Arc::new(Job {
            name: format!("job-{number}"),
            started: Instant::now(),
            path,
            over,
            shown: tokio::sync::Mutex::new(0),
            task: Mutex::new(Some(AbortOnDropHandle::new(task))),
        });
        all.jobs.insert(number, Arc::clone(&job));
        let over = all.jobs.iter().find(|(_, job)| job.over.borrow().is_some());
        if let Some(oldest) = over.map(|(number, _)| *number).filter(|_| all.jobs.len() > MOST) {
            all.jobs.remove(&oldest);
        }
        Ok(job)
    }

    /// The job of this name, or which there are.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<Job>, String> {
        let all = self.lock();
        let number = name.strip_prefix("job-").and_then(|number| number.parse::<u64>().ok());
        if let Some(job) = number.and_then(|number| all.jobs.get(&number)) {
            return Ok(Arc::clone(job));
        }
        let names: Vec<&str> = all.jobs.values().map(|job| job.name.as_str()).collect();
        Err(if names.is_empty() {
            format!("there is no job {name:?}: no command was started in the background")
        } else {
            format!("there is no job {name:?}; there are {}", names.join(", "))
        })
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Job {
    /// Ends it; whether it was running.
    pub(crate) async fn kill(&self) -> bool {
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(task) = task else { return false };
        let was_running = self.over.borrow().is_none();
        task.abort();
        let _ = task.await;
        was_running
    }

    /// What came of it, if it is over.
    pub(crate) fn ended(&self) -> Option<Over> {
        let said = self.over.borrow().clone();
        // Without its task it can say nothing any more.
        said.or_else(|| self.over.has_changed().is_err().then_some(Over::Killed))
    }
}

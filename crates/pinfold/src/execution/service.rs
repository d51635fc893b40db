//! The service: an executor, and the lines before it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use script::{Executor, FunctionJob};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::answer::Answer;
use super::lines::Lines;
use crate::config::file::Execute;

/// So many may wait for each place, of each who asks.
const WAITING_PER_PLACE: usize = 4;

/// Runs functions for whoever asks.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    executor: Result<Executor, String>,
    lines: Lines,
}

/// Why a request was not carried out.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Too many wait already; try again after so long.
    Full(Duration),
    /// The request is wrong; says what would do.
    Wrong(String),
    /// This host cannot run it; says what is missing.
    Unable(String),
}

impl Service {
    /// A service that runs here. Where nothing can be confined, nothing is run, and each request
    /// is told why.
    pub(crate) async fn start(execute: &Execute, data_dir: &Path) -> Self {
        let places = execute.max_parallel.max(1) as usize;
        let lines = Lines::new(places, places * WAITING_PER_PLACE);
        Self { executor: executor(execute, data_dir).await, lines }
    }

    /// Runs `job` when it is its turn. Dropping the future ends the run.
    pub(crate) async fn run(&self, who: &str, job: FunctionJob) -> Result<Answer, Refused> {
        let executor = self.executor.as_ref().map_err(|reason| Refused::Unable(reason.clone()))?;
        let came = Instant::now();
        let entered = self.lines.enter(who).await;
        let _place = entered.map_err(|_| Refused::Full(Duration::from_secs(1)))?;
        let queued = came.elapsed();
        match executor.evaluate(job, CancellationToken::new()).await {
            Ok(found) => Ok(Answer::of(found, queued)),
            Err(script::Error::BadJob(reason)) => Err(Refused::Wrong(reason)),
            Err(error) => Err(Refused::Unable(error.to_string())),
        }
    }
}

/// A service that starts with its first request: most servers never get one.
#[derive(Debug)]
pub(crate) struct OnDemand {
    execute: Execute,
    data_dir: PathBuf,
    service: OnceCell<Service>,
}

impl OnDemand {
    pub(crate) fn new(execute: Execute, data_dir: PathBuf) -> Self {
        Self { execute, data_dir, service: OnceCell::new() }
    }

    /// See [`Service::run`].
    pub(crate) async fn run(&self, who: &str, job: FunctionJob) -> Result<Answer, Refused> {
        let service = self.service.get_or_init(|| Service::start(&self.execute, &self.data_dir));
        service.await.run(who, job).await
    }
}

async fn executor(execute: &Execute, data_dir: &Path) -> Result<Executor, String> {
    let options = sandbox::Options::default();
    let sandbox = sandbox::Sandbox::start(options).await.map_err(|error| error.to_string())?;
    let python = script::Python::find(&execute.python).await.map_err(|error| error.to_string());
    let node = script::Node::find("auto").await.map_err(|error| error.to_string());
    Executor::new(sandbox, python, node, data_dir).map_err(|error| error.to_string())
}

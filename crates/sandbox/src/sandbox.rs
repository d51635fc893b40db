//! The way to run programs confined: one keeper, started again when it is lost.

use std::os::fd::AsFd;
use std::sync::Arc;

use tokio::sync::Mutex;

use crate::cgroup::{self, Cgroups};
use crate::error::Error;
use crate::keeper::{self, Keeper, entry};
use crate::level::Level;
use crate::plan::compile;
use crate::running::{self, Running};
use crate::spec::Spec;

/// How a [`Sandbox`] is started. The default takes the best way this host gives.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Take one way rather than find the best one (for tests and for `doctor`).
    pub way: Option<Way>,
    /// Use no cgroups even where they could be had: limits are then held by watching the tree.
    pub without_cgroups: bool,
}

/// The way namespaces are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum Way {
    /// By real root, outside the user namespace of the cell.
    Root,
    /// By an ordinary user (or a root without `CAP_SYS_ADMIN`) in a user namespace of its own.
    Ordinary,
    /// Through `/usr/bin/bwrap`.
    Bubblewrap,
}

/// The way to run programs confined. Cheap to clone; the keeper ends with the last clone.
#[derive(Clone, Debug)]
pub struct Sandbox {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    way: Way,
    level: Level,
    cgroups: Arc<Cgroups>,
    keeper: Mutex<Option<Arc<Keeper>>>,
}

impl Sandbox {
    /// Starts the keeper and runs the self-test.
    pub async fn start(options: Options) -> Result<Self, Error> {
        if !entry::is_linked() {
            return Err(Error::Unavailable {
                what: "this executable was linked without the sandbox's constructor".to_owned(),
                hint: "build it with glibc and without stripping .init_array".to_owned(),
            });
        }
        let way = options.way.unwrap_or_else(|| {
            if rustix::process::geteuid().is_root() { Way::Root } else { Way::Ordinary }
        });
        let keeper = Keeper::start(way).await?;
        cgroup::remove_leftovers();
        let cgroups = Arc::new(Cgroups::discover(options.without_cgroups));
        let level = Level { name: "full".to_owned(), layers: cgroups.layers().to_vec() };
        let keeper = Mutex::new(Some(Arc::new(keeper)));
        Ok(Self { shared: Arc::new(Shared { way, level, cgroups, keeper }) })
    }

    /// What this host gives.
    pub fn level(&self) -> &Level {
        &self.shared.level
    }

    /// Starts `spec` in a fresh cell. When this returns, the program runs (or failed to be executed).
    pub async fn spawn(&self, spec: Spec) -> Result<Running, Error> {
        let mut compiled = compile::compile(spec)?;
        compiled.bound(&self.shared.cgroups)?;
        let lost = |what: String| Error::KeeperLost(what);
        let (ours, theirs) = keeper::pair().map_err(|error| lost(error.to_string()))?;
        let fds = std::mem::take(&mut compiled.fds);
        let keeper = self.keeper().await?;
        let mut sent = vec![theirs.as_fd()];
        sent.extend(fds.iter().map(AsFd::as_fd));
        if let Err(errno) = keeper.send(&compiled.plan, &sent).await {
            // The next spawn starts another one.
            let mut current = self.shared.keeper.lock().await;
            if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, &keeper)) {
                *current = None;
            }
            return Err(lost(errno.to_string()));
        }
        drop((theirs, fds));
        running::follow(compiled, ours).await
    }

    async fn keeper(&self) -> Result<Arc<Keeper>, Error> {
        let mut current = self.shared.keeper.lock().await;
        if let Some(keeper) = &*current {
            return Ok(Arc::clone(keeper));
        }
        let keeper = Arc::new(Keeper::start(self.shared.way).await?);
        *current = Some(Arc::clone(&keeper));
        Ok(keeper)
    }
}

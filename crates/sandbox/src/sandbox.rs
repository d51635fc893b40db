//! The way to run programs confined: one keeper, started again when it is lost.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use tokio::sync::Mutex;

use crate::bwrap;
use crate::cgroup::{self, Cgroups};
use crate::error::Error;
use crate::keeper::{self, Keeper, entry};
use crate::level::{self, Level};
use crate::plan::compile::{self, Compiled};
use crate::running::{self, Running};
use crate::self_test;
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

/// The way to run programs confined. Cheap to clone; the keeper, and with it every program that
/// still runs, ends with the last clone.
#[derive(Clone, Debug)]
pub struct Sandbox {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    way: Way,
    level: Level,
    cgroups: Arc<Cgroups>,
    /// None while it is lost, and where bubblewrap makes the cells.
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
        cgroup::remove_leftovers();
        let cgroups = Arc::new(Cgroups::discover(options.without_cgroups));
        let ways = options.way.map_or_else(possible_ways, |way| vec![way]);
        let mut reasons = Vec::new();
        for way in ways {
            match Self::start_with(way, Arc::clone(&cgroups)).await {
                Ok(sandbox) => return Ok(sandbox),
                Err(Error::Unavailable { what, .. } | Error::KeeperLost(what)) => {
                    reasons.push(format!("{way:?}: {what}"));
                }
                Err(other) => return Err(other),
            }
        }
        Err(Error::Unavailable { what: reasons.join("; "), hint: level::hint() })
    }

    async fn start_with(way: Way, cgroups: Arc<Cgroups>) -> Result<Self, Error> {
        let keeper = match way {
            Way::Bubblewrap => None,
            Way::Root | Way::Ordinary => Some(Arc::new(Keeper::start(way).await?)),
        };
        let maps_owners = keeper.as_ref().is_some_and(|keeper| keeper.maps_owners);
        let level = Level { name: String::new(), layers: Vec::new() };
        let mut shared = Shared { way, level, cgroups, keeper: Mutex::new(keeper) };
        let mut probe = self_test::probe()?;
        let report = shared.send(&mut probe).await?;
        let tested = self_test::judge(report).await?;
        shared.level = Level::in_force(way, maps_owners, tested, shared.cgroups.layers());
        Ok(Self { shared: Arc::new(shared) })
    }

    /// What this host gives.
    pub fn level(&self) -> &Level {
        &self.shared.level
    }

    /// Starts `spec` in a fresh cell. When this returns, the program runs (or failed to be executed).
    pub async fn spawn(&self, spec: Spec) -> Result<Running, Error> {
        let mut compiled = compile::compile(spec)?;
        let report = self.shared.send(&mut compiled).await?;
        running::follow(compiled, report).await
    }
}

impl Shared {
    /// Sends a run to the keeper; answers the socket on which its news come.
    async fn send(&self, compiled: &mut Compiled) -> Result<OwnedFd, Error> {
        compiled.bound(&self.cgroups, self.way)?;
        if self.way == Way::Bubblewrap {
            return bwrap::send(compiled).await;
        }
        let lost = |what: String| Error::KeeperLost(what);
        let (ours, theirs) = keeper::pair().map_err(|error| lost(error.to_string()))?;
        // Closed here once they are sent: who reads the other ends must see the program's end.
        let fds = std::mem::take(&mut compiled.fds);
        let keeper = self.keeper().await?;
        let mut sent = vec![theirs.as_fd()];
        sent.extend(fds.iter().map(AsFd::as_fd));
        if let Err(errno) = keeper.send(&compiled.plan, &sent).await {
            // The next spawn starts another one.
            let mut current = self.keeper.lock().await;
            if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, &keeper)) {
                *current = None;
            }
            return Err(lost(errno.to_string()));
        }
        Ok(ours)
    }

    async fn keeper(&self) -> Result<Arc<Keeper>, Error> {
        let mut current = self.keeper.lock().await;
        if let Some(keeper) = &*current {
            return Ok(Arc::clone(keeper));
        }
        let keeper = Arc::new(Keeper::start(self.way).await?);
        *current = Some(Arc::clone(&keeper));
        Ok(keeper)
    }
}

/// The ways worth trying, best first.
fn possible_ways() -> Vec<Way> {
    if rustix::process::geteuid().is_root() {
        // A root without rights (in a container) is an ordinary user.
        vec![Way::Root, Way::Ordinary]
    } else {
        vec![Way::Ordinary, Way::Bubblewrap]
    }
}

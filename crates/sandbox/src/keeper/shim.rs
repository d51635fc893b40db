//! Our part inside a cell that bubblewrap made: this executable as its first process.
//!
//! It takes the same plan by the same wire, makes sure that bubblewrap mounted what was meant, and
//! goes on as any cell's init: the seal is the same code.

use std::os::fd::{AsFd, OwnedFd};

use super::cell::{self, Ground};
use super::wire::{self, Failure, Report, Stage};
use crate::Way;
use crate::plan::Plan;
use crate::sys::{self, Errno};

/// Never returns.
pub(crate) fn run(report: &OwnedFd) -> ! {
    let failure = match wire::receive::<Plan>(report.as_fd()) {
        Ok(Some((plan, fds))) => start(&plan, &fds, report),
        Ok(None) => sys::end(1),
        Err(errno) => Stage::Plan.failed(errno),
    };
    let _ = wire::send(report.as_fd(), &Report::Failed(failure), &[]);
    sys::end(1)
}

fn start(plan: &Plan, fds: &[OwnedFd], report: &OwnedFd) -> Failure {
    let ground = Ground {
        way: Way::Bubblewrap,
        outside_id: 0,
        user_namespace: None,
        landlock: sys::landlock_version().unwrap_or(0),
        network: None,
        fds,
        report,
    };
    // A kill then goes to this process, with which the cell ends.
    if let Ok(own) = sys::own_process() {
        let _ = wire::send(report.as_fd(), &Report::Made, &[own.as_fd()]);
    }
    if let Err(failure) = cell::join_groups(plan, &ground).and_then(|()| verify(plan, &ground)) {
        return failure;
    }
    super::init::run(plan, &ground)
}

/// Bubblewrap mounts by path. What it found must be what the server opened, at the place that was
/// meant, with no link on the way.
fn verify(plan: &Plan, ground: &Ground<'_>) -> Result<(), Failure> {
    for (position, bind) in plan.binds.iter().enumerate() {
        let failed = |errno| Stage::MountTarget.failed_at(position, errno);
        let meant = sys::identity(ground.fd(bind.fd)?).map_err(failed)?;
        let path = sys::c_string(&bind.target).map_err(failed)?;
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        let place = sys::open(sys::AT_CWD, &path, flags, sys::RESOLVE_NO_LINKS).map_err(failed)?;
        if !sys::identity(place.as_fd()).map_err(failed)?.same_file(&meant) {
            return Err(Stage::MountSource.failed_at(position, Errno(libc::ESTALE)));
        }
    }
    Ok(())
}

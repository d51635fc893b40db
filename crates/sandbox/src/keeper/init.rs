//! The first process of a cell: starts the program, reaps, ends when the program has ended.
//!
//! The program is never the first process itself: as such it would ignore its own signals. When
//! this process ends, the kernel ends everything else in the cell.

use std::os::fd::{AsFd, AsRawFd};

use super::cell::Ground;
use super::identity::INIT_ID;
use super::seal;
use super::wire::{self, Failure, Report, Stage};
use crate::Way;
use crate::plan::Plan;
use crate::sys::{self, Forked};

/// Runs the plan's program. Answers only when it could not be started.
pub(crate) fn run(plan: &Plan, ground: &Ground<'_>) -> Failure {
    // Nothing of this process can be read or traced from inside, whatever its ids.
    let _ = sys::control(libc::PR_SET_DUMPABLE, 0);
    // The parent goes on when the child has executed or ended, so that "started" is true.
    let program = match sys::fork(libc::CLONE_VFORK as u64, None) {
        Err(errno) => return Stage::Fork.failed(errno),
        Ok(Forked::Child) => seal::enter(plan, ground),
        Ok(Forked::Parent { pid, pidfd: _ }) => pid,
    };
    if let Err(failure) = step_back(plan, ground) {
        return failure;
    }
    let report = ground.report.as_fd();
    let _ = wire::send(report, &Report::Started, &[]);
    loop {
        match sys::reap(-1, 0) {
            Ok(Some(reaped)) if reaped.pid == program => {
                let _ = wire::send(report, &Report::Exited(reaped.status), &[]);
                sys::end(0)
            }
            Ok(_) => {}
            Err(_) => sys::end(1),
        }
    }
}

/// Gives up what the making of the cell needed.
fn step_back(plan: &Plan, ground: &Ground<'_>) -> Result<(), Failure> {
    let report = ground.report.as_raw_fd() as u32;
    let closed = sys::close_range(0, report - 1)
        .and_then(|()| sys::close_range(report + 1, u32::MAX));
    closed.map_err(|errno| Stage::Descriptors.failed(errno))?;
    let failed = |errno| Stage::Identity.failed(errno);
    seal::drop_bounding_set().map_err(failed)?;
    if ground.context.way == Way::Root && !plan.skips(crate::plan::Skip::Capabilities) {
        sys::drop_groups().map_err(failed)?;
        sys::set_ids(INIT_ID, INIT_ID).map_err(failed)?;
    }
    sys::drop_capabilities().map_err(failed)?;
    sys::control(libc::PR_SET_NO_NEW_PRIVS, 1).map_err(failed)
}

//! The first process of a cell: starts the program, reaps, ends when the program has ended.
//!
//! The program is never the first process itself: as such it would ignore its own signals. When
//! this process ends, the kernel ends everything else in the cell.

use std::os::fd::{AsFd, AsRawFd};

use super::cell::Ground;
use super::identity::INIT_ID;
use super::seal;
use super::watch::Watcher;
use super::wire::{self, Failure, Overuse, Report, Stage};
use crate::Way;
use crate::plan::Plan;
use crate::sys::{self, Forked};

/// `CAP_SYS_PTRACE`.
const SEE_PROCESSES: u32 = 19;

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
    // Nobody listens: nobody would end the program in time.
    if wire::send(report, &Report::Started, &[]).is_err() {
        sys::end(1);
    }
    let mut watcher = plan.watch.map(Watcher::new);
    let (mut cpu_microseconds, mut largest) = (0, 0);
    loop {
        let flags = if watcher.is_some() { libc::WNOHANG } else { 0 };
        let reaped = sys::reap(-1, flags);
        if let Ok(Some(reaped)) = &reaped {
            cpu_microseconds += reaped.cpu_microseconds();
            largest = largest.max(reaped.usage.ru_maxrss as u64 * 1024);
        }
        match reaped {
            Ok(Some(reaped)) if reaped.pid == program => {
                if let Some(watcher) = &mut watcher
                    && reaped.status != 0
                {
                    watcher.look_back();
                }
                let peak = watcher.as_ref().map_or(0, |watcher| watcher.peak).max(largest);
                if watcher.is_some_and(|watcher| watcher.was_full) {
                    let _ = wire::send(report, &Report::Overused(Overuse::Processes), &[]);
                }
                let exited = Report::Exited { status: reaped.status, cpu_microseconds, peak };
                let _ = wire::send(report, &exited, &[]);
                sys::end(0)
            }
            Ok(Some(_)) => {}
            Ok(None) => {
                let Some(watcher) = &mut watcher else { continue };
                if let Some(overuse) = watcher.look() {
                    let _ = wire::send(report, &Report::Overused(overuse), &[]);
                    // The end of this process is the end of the cell.
                    sys::end(1)
                }
                sys::wait_for_child(watcher.pause());
            }
            Err(_) => sys::end(1),
        }
    }
}

/// Gives up what the making of the cell needed.
fn step_back(plan: &Plan, ground: &Ground<'_>) -> Result<(), Failure> {
    let report = ground.report.as_raw_fd() as u32;
    let closed =
        sys::close_range(0, report - 1).and_then(|()| sys::close_range(report + 1, u32::MAX));
    closed.map_err(|errno| Stage::Descriptors.failed(errno))?;
    let failed = |errno| Stage::Identity.failed(errno);
    if ground.way == Way::Bubblewrap {
        return sys::control(libc::PR_SET_NO_NEW_PRIVS, 1).map_err(failed);
    }
    seal::drop_bounding_set().map_err(failed)?;
    // To watch, it must see the processes that `/proc` hides from strangers; in its pid namespace
    // are none but the cell's.
    let kept = if plan.watch.is_some() { 1 << SEE_PROCESSES } else { 0 };
    if ground.way == Way::Root && !plan.skips(crate::plan::Skip::Capabilities) {
        sys::drop_groups().map_err(failed)?;
        sys::control(libc::PR_SET_KEEPCAPS, 1).map_err(failed)?;
        sys::set_ids(INIT_ID, INIT_ID).map_err(failed)?;
    }
    sys::keep_capabilities(kept).map_err(failed)?;
    sys::control(libc::PR_SET_NO_NEW_PRIVS, 1).map_err(failed)
}

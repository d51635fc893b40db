//! Enters a cell for good: gives up every right, in an order in which each step still can be
//! made, and executes.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::cell::Ground;
use super::wire::{self, Failure, Report, Stage};
use crate::Way;
use crate::landlock;
use crate::plan::{Act, Plan, Skip};
use crate::sys::{self, Errno};
use crate::view::INSIDE_ID;

/// Never returns: executes, or reports what failed (nothing of the program has run then).
pub(crate) fn enter(plan: &Plan, ground: &Ground<'_>) -> ! {
    let held = match Held::new(plan, ground) {
        Ok(held) => held,
        Err(failure) => give_up(ground.report, failure),
    };
    let prepared = prepare(plan, ground, &held)
        .and_then(|program| drop_rights(plan, ground, &held).map(|()| program));
    match prepared {
        Err(failure) => give_up(&held.report, failure),
        Ok(_) if matches!(plan.act, Act::Probe) => {
            super::probe::run(plan, ground.landlock, &held.report)
        }
        Ok((program, arguments, environment)) => {
            let errno = sys::execute(&program, &arguments, &environment);
            give_up(&held.report, Stage::Execute.failed(errno))
        }
    }
}

fn give_up(report: &OwnedFd, failure: Failure) -> ! {
    let _ = wire::send(report.as_fd(), &Report::Failed(failure), &[]);
    sys::end(127)
}

/// Copies of what is needed until the very end, at numbers above those the program is given.
struct Held {
    report: OwnedFd,
    user_namespace: Option<OwnedFd>,
    above: i32,
}

impl Held {
    fn new(plan: &Plan, ground: &Ground<'_>) -> Result<Self, Failure> {
        let failed = |errno| Stage::Descriptors.failed(errno);
        let above = plan.fds.iter().map(|(number, _)| *number).max().unwrap_or(2).max(2) + 1;
        let copy = |fd| sys::duplicate_above(fd, above).map_err(failed);
        Ok(Self {
            report: copy(ground.report.as_fd())?,
            user_namespace: ground.user_namespace.map(copy).transpose()?,
            above,
        })
    }
}

type Program = (CString, Vec<CString>, Vec<CString>);

/// What still needs rights or descriptors.
fn prepare(plan: &Plan, ground: &Ground<'_>, held: &Held) -> Result<Program, Failure> {
    let program = strings(&plan.act).map_err(|errno| Stage::Plan.failed(errno))?;
    // Bubblewrap has made one.
    if !plan.skips(Skip::Setsid) && ground.way != Way::Bubblewrap {
        sys::new_session().map_err(|errno| Stage::Session.failed(errno))?;
    }
    sys::reset_signals();
    descriptors(plan, ground, held)?;
    if !plan.skips(Skip::Rlimits) {
        for (position, (resource, soft, hard)) in plan.rlimits.iter().enumerate() {
            sys::limit(*resource, *soft, *hard)
                .map_err(|errno| Stage::Limits.failed_at(position, errno))?;
        }
    }
    Ok(program)
}

fn strings(act: &Act) -> Result<Program, Errno> {
    let Act::Execute { program, arguments, environment } = act else {
        return Ok((CString::default(), Vec::new(), Vec::new()));
    };
    let all = |list: &[Vec<u8>]| -> Result<Vec<CString>, Errno> {
        list.iter().map(|item| sys::c_string(item)).collect()
    };
    Ok((sys::c_string(program)?, all(arguments)?, all(environment)?))
}

/// Puts the named descriptors at their numbers and closes all others but the two that are held.
fn descriptors(plan: &Plan, ground: &Ground<'_>, held: &Held) -> Result<(), Failure> {
    let failed = |errno| Stage::Descriptors.failed(errno);
    let copy = |fd: BorrowedFd<'_>| sys::duplicate_above(fd, held.above).map_err(failed);
    let null = sys::open(sys::AT_CWD, c"/dev/null", libc::O_RDONLY, 0).map_err(failed)?;
    let mut wanted = vec![
        (0, copy(null.as_fd())?),
        (1, copy(ground.fd(plan.stdout)?)?),
        (2, copy(ground.fd(plan.stderr)?)?),
    ];
    for (number, position) in &plan.fds {
        wanted.push((*number, copy(ground.fd(*position)?)?));
    }
    for (number, fd) in &wanted {
        sys::place(fd.as_raw_fd(), *number).map_err(failed)?;
    }
    if plan.skips(Skip::CloseFds) {
        // They would be closed by the execution.
        for number in 3..held.above + 64 {
            sys::keep_over_exec(number);
        }
        wanted.into_iter().for_each(|(_, fd)| std::mem::forget(fd));
        return Ok(());
    }
    let mut stay: Vec<u32> = wanted.iter().map(|(number, _)| *number as u32).collect();
    let kept = [Some(&held.report), held.user_namespace.as_ref()];
    stay.extend(kept.into_iter().flatten().map(|fd| fd.as_raw_fd() as u32));
    stay.sort_unstable();
    // The copies and everything else the fork brought along are closed by number.
    wanted.into_iter().for_each(|(_, fd)| std::mem::forget(fd));
    std::mem::forget(null);
    let mut next = 0;
    for number in stay {
        if number > next {
            sys::close_range(next, number - 1).map_err(failed)?;
        }
        next = number + 1;
    }
    sys::close_range(next, u32::MAX).map_err(failed)
}

/// Everything that is given up, up to the last moment before the program.
fn drop_rights(plan: &Plan, ground: &Ground<'_>, held: &Held) -> Result<(), Failure> {
    let failed = |errno| Stage::Identity.failed(errno);
    let enters = !plan.skips(Skip::UserNamespace) && !plan.skips(Skip::Capabilities);
    if let Some(namespace) = held.user_namespace.as_ref().filter(|_| enters) {
        sys::enter_namespace(namespace.as_fd(), libc::CLONE_NEWUSER).map_err(failed)?;
    }
    if plan.skips(Skip::NoNewPrivs) {
        // Without it the rules below need the rights that are given up next.
        restrict(plan, ground)?;
    }
    identity(plan, ground).map_err(failed)?;
    let cwd = sys::c_string(&plan.cwd).map_err(|errno| Stage::Plan.failed(errno))?;
    sys::change_directory(&cwd).map_err(|errno| Stage::Directory.failed(errno))?;
    if !plan.skips(Skip::NoNewPrivs) {
        sys::control(libc::PR_SET_NO_NEW_PRIVS, 1).map_err(failed)?;
        restrict(plan, ground)?;
    }
    Ok(())
}

/// Landlock, then seccomp, which denies nothing that Landlock needs but comes last all the same.
fn restrict(plan: &Plan, ground: &Ground<'_>) -> Result<(), Failure> {
    if !plan.skips(Skip::Landlock) {
        landlock::enter(plan, ground.landlock).map_err(|errno| Stage::Landlock.failed(errno))?;
    }
    if !plan.skips(Skip::Seccomp) {
        let program: Vec<_> = plan
            .seccomp
            .iter()
            .map(|&(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k })
            .collect();
        sys::seccomp(&program).map_err(|errno| Stage::Seccomp.failed(errno))?;
    }
    Ok(())
}

/// Gives up capabilities, groups and ids.
fn identity(plan: &Plan, ground: &Ground<'_>) -> Result<(), Errno> {
    if plan.skips(Skip::Capabilities) {
        return Ok(());
    }
    if ground.way == Way::Bubblewrap {
        // It dropped everything and left no right to drop it again.
        return sys::keep_capabilities(0);
    }
    let own = !plan.skips(Skip::UserNamespace);
    let id = if own { INSIDE_ID } else { ground.outside_id };
    drop_bounding_set()?;
    // All locked: no later set-user-id or exec gives a capability back.
    let locked = 0xEF;
    sys::control(libc::PR_SET_SECUREBITS, locked)?;
    if ground.way == Way::Root {
        sys::drop_groups()?;
    }
    sys::set_ids(id, id)?;
    sys::keep_capabilities(0)
}

/// Takes every capability out of the bounding set and of the ambient one.
pub(crate) fn drop_bounding_set() -> Result<(), Errno> {
    for capability in 0..64 {
        match sys::control(libc::PR_CAPBSET_DROP, capability) {
            Ok(()) => {}
            // Past the last one this kernel knows.
            Err(Errno(libc::EINVAL)) => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

//! The program, run by a small interpreter: every number, and arguments that matter.

use super::*;

struct Call {
    architecture: u32,
    number: u32,
    arguments: [u64; 6],
}

fn run(call: &Call, watched: bool) -> u32 {
    let word = |offset: u32| match offset {
        0 => call.number,
        4 => call.architecture,
        offset => (call.arguments[(offset as usize - 16) / 8] >> (offset % 8 * 8)) as u32,
    };
    let program = program(watched);
    let (mut at, mut loaded) = (0usize, 0u32);
    loop {
        let (code, jt, jf, k) = program[at];
        at += 1;
        let code = u32::from(code);
        let jump = |holds: bool| usize::from(if holds { jt } else { jf });
        match code & 0x07 {
            BPF_LD => loaded = word(k),
            BPF_ALU => loaded &= k,
            BPF_RET => return k,
            _ => match code & 0xf0 {
                BPF_JA => at += k as usize,
                BPF_JEQ => at += jump(loaded == k),
                BPF_JGE => at += jump(loaded >= k),
                _ => at += jump(loaded & k != 0),
            },
        }
    }
}

fn answer_to(number: libc::c_long, arguments: &[u64]) -> u32 {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    run(&Call { architecture: ARCHITECTURE, number: number as u32, arguments: all }, false)
}

#[test]
fn every_number_is_answered_as_the_lists_say() {
    for number in 0..1000 {
        let expected = if DENIED.contains(&number) || DENIED_HERE.contains(&number) {
            NOT_PERMITTED
        } else if ABSENT.contains(&number) {
            NO_CALL
        } else if number == libc::SYS_socket || number == libc::SYS_socketpair {
            NO_FAMILY
        } else {
            ALLOW
        };
        assert_eq!(answer_to(number, &[]), expected, "{number}");
    }
}

#[test]
fn foreign_entries_do_not_pass() {
    let call = |architecture, number| run(&Call { architecture, number, arguments: [0; 6] }, false);
    // i386, whose numbers mean other calls.
    assert_eq!(call(0x4000_0003, 11), KILL);
    assert_eq!(call(ARCHITECTURE, 0x4000_0000 | libc::SYS_ptrace as u32), NO_CALL);
    assert_eq!(call(ARCHITECTURE, u32::MAX), NO_CALL);
}

#[test]
fn arguments_decide_and_high_halves_do_not() {
    let high = 7 << 32;
    let rows = [
        (libc::SYS_clone, vec![libc::SIGCHLD as u64], ALLOW),
        (libc::SYS_clone, vec![libc::CLONE_NEWUSER as u64 | high], NOT_PERMITTED),
        (libc::SYS_socket, vec![libc::AF_UNIX as u64 | high], ALLOW),
        (libc::SYS_socket, vec![libc::AF_VSOCK as u64], NO_FAMILY),
        (libc::SYS_socket, vec![libc::AF_INET as u64], NO_FAMILY),
        (libc::SYS_ioctl, vec![0, libc::TIOCSTI | high], NOT_PERMITTED),
        (libc::SYS_ioctl, vec![0, 0xAE01], NOT_PERMITTED),
        (libc::SYS_ioctl, vec![0, libc::FIONBIO], ALLOW),
        (libc::SYS_prctl, vec![libc::PR_SET_SECCOMP as u64], NOT_PERMITTED),
        (libc::SYS_prctl, vec![libc::PR_SET_NAME as u64], ALLOW),
        (libc::SYS_fchmodat, vec![0, 0, 0o4755], NOT_PERMITTED),
        (libc::SYS_fchmodat, vec![0, 0, 0o755], ALLOW),
        (FCHMODAT2, vec![0, 0, 0o2755], NOT_PERMITTED),
        (libc::SYS_openat, vec![0, 0, libc::O_CREAT as u64, 0o4755], NOT_PERMITTED),
        (libc::SYS_openat, vec![0, 0, libc::O_TMPFILE as u64, 0o4755], NOT_PERMITTED),
        (libc::SYS_openat, vec![0, 0, libc::O_DIRECTORY as u64, 0o4755], ALLOW),
        (libc::SYS_openat, vec![0, 0, libc::O_CREAT as u64, 0o644], ALLOW),
    ];
    for (number, arguments, expected) in rows {
        assert_eq!(answer_to(number, &arguments), expected, "{number} {arguments:?}");
    }
}

#[test]
fn a_watched_run_cannot_hide_memory() {
    let call = Call {
        architecture: ARCHITECTURE,
        number: libc::SYS_memfd_create as u32,
        arguments: [0; 6],
    };
    assert_eq!(run(&call, true), NO_CALL);
    assert_eq!(run(&call, false), ALLOW);
}

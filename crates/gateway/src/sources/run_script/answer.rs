//! What the model is told of a script: the account first, because clients cut the rest.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use script::{Ending, Finished};

use super::host::Count;
use crate::config::Scripts;
use crate::json;
use crate::records::output::Shown;
use crate::sources::own;

/// Longest part of a traceback that is shown; its end says what went wrong.
const TRACEBACK_CHARACTERS: usize = 6000;

/// What is known of a script that is over, besides how it ended.
pub(crate) struct Account<'a> {
    pub(crate) took: Duration,
    pub(crate) counts: &'a BTreeMap<String, Count>,
    pub(crate) directory: &'a str,
    pub(crate) shown: &'a Shown,
    /// End of standard error, and its length.
    pub(crate) errors: &'a (String, u64),
    /// What of the records is not there, and why.
    pub(crate) lost: &'a [String],
    pub(crate) notes: &'a [String],
    pub(crate) limits: &'a Scripts,
}

/// The answer for a script that ran.
pub(crate) fn finished(finished: &Finished, account: &Account<'_>) -> mcp::CallResult {
    let Scripts { timeout_sec, memory_mb, .. } = account.limits;
    let state = match &finished.ending {
        Ending::Completed => "ok".to_owned(),
        Ending::Failed { traceback } => match finished.exit_code {
            Some(code) if traceback.is_empty() => format!("failed (exit code {code})"),
            _ => "failed".to_owned(),
        },
        Ending::TimedOut => format!("stopped: it ran longer than {timeout_sec} s"),
        Ending::MemoryLimit => format!("stopped: it needed more than {memory_mb} MB of memory"),
        Ending::ProcessLimit => "stopped: it started too many processes".to_owned(),
        Ending::Cancelled => "cancelled".to_owned(),
        Ending::Signaled(signal) => format!("stopped by signal {signal}"),
    };
    let good = finished.ending == Ending::Completed;
    own::text(text(&state, good, &finished.traceback, account), !good)
}

/// The answer for a script whose run broke off because of a fault of ours.
pub(crate) fn broke_off(reason: &str, account: &Account<'_>) -> mcp::CallResult {
    let state = format!("broke off: {}", json::one_line(reason, 500));
    own::text(text(&state, false, "", account), true)
}

fn text(state: &str, good: bool, traceback: &str, account: &Account<'_>) -> String {
    let Count { calls, failed, refused } = Count::total(account.counts);
    let seconds = account.took.as_secs_f64();
    let plural = if calls == 1 { "call" } else { "calls" };
    let mut text = format!("{state} · {calls} {plural}, {failed} failed");
    if refused > 0 {
        let _ = write!(text, ", {refused} refused");
    }
    let _ = write!(text, " · {seconds:.1} s · {}/calls.jsonl", account.directory);
    if !account.lost.is_empty() {
        let _ = write!(
            text,
            " (incomplete)\nnote: the records are incomplete: {}",
            account.lost.join("; ")
        );
    }
    for note in account.notes {
        let _ = write!(text, "\nnote: {note}");
    }
    if !good && wanted_network(traceback, &account.errors.0) {
        text.push_str(NO_NETWORK);
    }
    if !good && !account.counts.is_empty() {
        let _ = write!(text, "\ncalled until then: {}", tools(account.counts));
    }
    match account.shown {
        Shown::Nothing => text.push_str("\n(the script printed nothing)"),
        Shown::Elsewhere => {}
        Shown::All(all) => {
            text.push('\n');
            text.push_str(all.trim_end_matches('\n'));
        }
        Shown::Cut { head, tail, total } => {
            let _ = write!(
                text,
                "\n{head}\n[… cut here: {total} bytes in all, see {}/output.txt …]\n{}",
                account.directory,
                tail.trim_end_matches('\n')
            );
        }
    }
    if !traceback.is_empty() {
        let skip = traceback.chars().count().saturating_sub(TRACEBACK_CHARACTERS);
        let mark = if skip > 0 { "…" } else { "" };
        let end: String = traceback.chars().skip(skip).collect();
        let _ = write!(text, "\n{mark}{}", end.trim_end());
    } else if account.errors.1 > 0 && !good {
        let _ = write!(text, "\non standard error:\n{}", account.errors.0.trim_end());
    } else if account.errors.1 > 0 && *account.shown == Shown::Nothing {
        let _ = write!(
            text,
            "\n({} bytes on standard error are in {}/output.txt)",
            account.errors.1, account.directory
        );
    }
    text
}

/// What a script sees of a network that is not there.
const NETWORK_ERRORS: [&str; 16] = [
    "socket.gaierror",
    "getaddrinfo",
    "Name or service not known",
    "Temporary failure in name resolution",
    "Network is unreachable",
    "ConnectionRefusedError",
    "Connection refused",
    "Address family not supported",
    "urllib.error.URLError",
    "urllib3.exceptions",
    "requests.exceptions",
    "httpx.Connect",
    "httpcore.Connect",
    "aiohttp.client_exceptions",
    "Could not resolve host",
    "curl: (",
];

const NO_NETWORK: &str = "\nhint: there is no network in the sandbox, so whatever the script needs from \
     outside it gets by calling a tool; a file can be given in the workspace";

/// Whether a script failed for want of a network. What a tool's server met is not the script's.
fn wanted_network(traceback: &str, errors: &str) -> bool {
    let told = if traceback.is_empty() { errors } else { traceback };
    let raised = told.lines().rev().find(|line| {
        let name = line.split(':').next().unwrap_or_default();
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.".contains(c))
    });
    let by_a_tool = raised
        .is_some_and(|line| line.split(':').next().is_some_and(|name| name.ends_with("ToolError")));
    !by_a_tool && NETWORK_ERRORS.iter().any(|error| told.contains(error))
}

/// `a 3, b 500 (2 failed)`, the most called first.
fn tools(counts: &BTreeMap<String, Count>) -> String {
    const SHOWN: usize = 12;
    let mut counts: Vec<(&String, &Count)> = counts.iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(count.calls + count.refused));
    let mut parts: Vec<String> = counts
        .iter()
        .take(SHOWN)
        .map(|(name, count)| {
            let mut part = format!("{name} {}", count.calls);
            let faults = [(count.failed, "failed"), (count.refused, "refused")];
            let faults: Vec<String> = faults
                .iter()
                .filter(|(number, _)| *number > 0)
                .map(|(number, what)| format!("{number} {what}"))
                .collect();
            if !faults.is_empty() {
                let _ = write!(part, " ({})", faults.join(", "));
            }
            part
        })
        .collect();
    if counts.len() > SHOWN {
        parts.push(format!("{} more tools", counts.len() - SHOWN));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(
        ending: Ending,
        exit_code: Option<i32>,
        shown: &Shown,
        errors: &str,
        lost: &[String],
    ) -> String {
        let traceback = match &ending {
            Ending::Failed { traceback } => traceback.clone(),
            _ => String::new(),
        };
        let good = ending == Ending::Completed;
        let mut counts: BTreeMap<String, Count> =
            [("fleet__get".to_owned(), Count { calls: 500, failed: 2, refused: 0 })].into();
        if !good {
            counts.insert("fleet__reboot".to_owned(), Count { refused: 3, ..Count::default() });
        }
        let finished_ = Finished {
            ending,
            calls: 500,
            failed: 2,
            refused: 0,
            exit_code,
            traceback,
            complaint: None,
            usage: sandbox::Usage::default(),
        };
        let result = finished(
            &finished_,
            &Account {
                took: Duration::from_millis(3440),
                counts: &counts,
                directory: ".agent/scripts/x",
                shown,
                errors: &(errors.to_owned(), errors.len() as u64),
                lost,
                notes: &[],
                limits: &Scripts::default(),
            },
        );
        assert_eq!((result.is_error, result.structured.is_none()), (!good, true));
        let raw: serde_json::Value = serde_json::from_str(result.raw.get()).unwrap();
        assert_eq!(raw["content"][0]["text"], result.text);
        assert_eq!(raw["isError"], !good);
        result.text
    }

    #[test]
    fn the_account_comes_first() {
        let all = Shown::All("one\ntwo\n".into());
        let done = || Ending::Completed;
        insta::assert_snapshot!(answer(done(), Some(0), &all, "", &[]), @r"
        ok · 500 calls, 2 failed · 3.4 s · .agent/scripts/x/calls.jsonl
        one
        two
        ");
        insta::assert_snapshot!(answer(done(), Some(0), &Shown::Nothing, "warn", &[]), @r"
        ok · 500 calls, 2 failed · 3.4 s · .agent/scripts/x/calls.jsonl
        (the script printed nothing)
        (4 bytes on standard error are in .agent/scripts/x/output.txt)
        ");
        let cut = Shown::Cut { head: "start".into(), tail: "end\n".into(), total: 100_000_000 };
        let lost = ["output.txt", "the audit row"].map(|what| format!("{what}: no space left"));
        insta::assert_snapshot!(answer(done(), Some(0), &cut, "", &lost), @r"
        ok · 500 calls, 2 failed · 3.4 s · .agent/scripts/x/calls.jsonl (incomplete)
        note: the records are incomplete: output.txt: no space left; the audit row: no space left
        start
        [… cut here: 100000000 bytes in all, see .agent/scripts/x/output.txt …]
        end
        ");
        let failed =
            Ending::Failed { traceback: "  File \"script.py\", line 3\nKeyError: 'x'\n".into() };
        insta::assert_snapshot!(answer(failed, Some(1), &Shown::Nothing, "noise", &[]), @r#"
        failed · 500 calls, 2 failed, 3 refused · 3.4 s · .agent/scripts/x/calls.jsonl
        called until then: fleet__get 500 (2 failed), fleet__reboot 0 (3 refused)
        (the script printed nothing)
          File "script.py", line 3
        KeyError: 'x'
        "#);
        let exit = Ending::Failed { traceback: String::new() };
        insta::assert_snapshot!(answer(exit, Some(3), &all, "bad input\n", &[]), @r"
        failed (exit code 3) · 500 calls, 2 failed, 3 refused · 3.4 s · .agent/scripts/x/calls.jsonl
        called until then: fleet__get 500 (2 failed), fleet__reboot 0 (3 refused)
        one
        two
        on standard error:
        bad input
        ");
        insta::assert_snapshot!(answer(Ending::TimedOut, None, &all, "", &[]), @r"
        stopped: it ran longer than 1800 s · 500 calls, 2 failed, 3 refused · 3.4 s · .agent/scripts/x/calls.jsonl
        called until then: fleet__get 500 (2 failed), fleet__reboot 0 (3 refused)
        one
        two
        ");
        for (traceback, hint) in [
            ("Traceback:\n  x\nurllib.error.URLError: <urlopen error [Errno -3] x>", true),
            ("  x\nsocket.gaierror: [Errno -2] Name or service not known", true),
            ("  x\nOSError: [Errno 97] Address family not supported by protocol", true),
            ("  x\nagent_tools.ToolError: t__x: Connection refused (upstream)", false),
            ("  x\nKeyError: 'network'", false),
        ] {
            let failed = Ending::Failed { traceback: traceback.into() };
            let text = answer(failed, Some(1), &Shown::Nothing, "", &[]);
            let second = text.lines().nth(1).unwrap_or_default();
            assert_eq!(second.starts_with("hint: there is no network"), hint, "{text}");
        }
        for (ending, start) in [
            (Ending::MemoryLimit, "stopped: it needed more than 512 MB of memory · "),
            (Ending::ProcessLimit, "stopped: it started too many processes · "),
            (Ending::Cancelled, "cancelled · "),
            (Ending::Signaled(11), "stopped by signal 11 · "),
        ] {
            let text = answer(ending, None, &all, "", &[]);
            assert!(text.starts_with(start), "{text}");
        }
    }
}

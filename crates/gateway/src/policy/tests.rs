use super::*;

use ApprovalRule::{Always, Direct, Mode, Off};
use Decision::{Allow, Ask as Question_, Deny};
use Effect::{Destructive, Read, Write};
use PermissionMode::{Ask, Auto, ReadOnly};

const ONCE: Decision = Question_ { session: false };
const ONCE_OR_SESSION: Decision = Question_ { session: true };
const HIDDEN: Decision = Deny(Reason::NotOffered);

const DIRECT: From = From::Direct;
const UNLISTED: From = From::Script { listed: false, granted: false };
const LISTED: From = From::Script { listed: true, granted: false };
const GRANTED: From = From::Script { listed: true, granted: true };

/// The rows of `contract.md`, for each mode: a direct call, then a script that did not list the
/// tool, that listed it, and whose start covered it.
#[test]
fn the_permission_table() {
    let table: [(Effect, ApprovalRule, bool, PermissionMode, [Decision; 4]); 33] = [
        (Read, Direct, false, Ask, [Allow, Allow, Allow, Allow]),
        (Read, Direct, false, Auto, [Allow, Allow, Allow, Allow]),
        (Read, Direct, false, ReadOnly, [Allow, Allow, Allow, Allow]),
        (Read, Mode, false, Ask, [Allow, Allow, Allow, Allow]),
        (Read, Mode, false, Auto, [Allow, Allow, Allow, Allow]),
        (Read, Mode, false, ReadOnly, [Allow, Allow, Allow, Allow]),
        (Read, Always, false, Ask, [ONCE, destructive(), destructive(), destructive()]),
        (Read, Always, false, Auto, [ONCE, destructive(), destructive(), destructive()]),
        (Read, Always, false, ReadOnly, [ONCE, destructive(), destructive(), destructive()]),
        (Write, Mode, false, Ask, [ONCE_OR_SESSION, not_listed(), not_granted(), Allow]),
        (Write, Mode, false, Auto, [Allow, not_listed(), Allow, Allow]),
        (Write, Mode, false, ReadOnly, [HIDDEN; 4]),
        (Write, Direct, false, Ask, [Allow, not_listed(), Allow, Allow]),
        (Write, Direct, false, Auto, [Allow, not_listed(), Allow, Allow]),
        (Write, Direct, false, ReadOnly, [HIDDEN; 4]),
        (Write, Always, false, Ask, [ONCE, destructive(), destructive(), destructive()]),
        (Write, Always, false, Auto, [ONCE, destructive(), destructive(), destructive()]),
        (Write, Always, false, ReadOnly, [HIDDEN; 4]),
        (Destructive, Always, false, Ask, [ONCE, destructive(), destructive(), destructive()]),
        (Destructive, Always, false, Auto, [ONCE, destructive(), destructive(), destructive()]),
        (Destructive, Always, false, ReadOnly, [HIDDEN; 4]),
        (Read, Direct, true, Ask, [Allow, task(), task(), task()]),
        (Read, Direct, true, Auto, [Allow, task(), task(), task()]),
        (Read, Direct, true, ReadOnly, [Allow, task(), task(), task()]),
        (Write, Mode, true, Ask, [ONCE_OR_SESSION, task(), task(), task()]),
        (Write, Mode, true, Auto, [Allow, task(), task(), task()]),
        (Write, Mode, true, ReadOnly, [HIDDEN; 4]),
        (Read, Off, false, Ask, [HIDDEN; 4]),
        (Read, Off, false, Auto, [HIDDEN; 4]),
        (Read, Off, false, ReadOnly, [HIDDEN; 4]),
        (Write, Off, false, Ask, [HIDDEN; 4]),
        (Write, Off, false, Auto, [HIDDEN; 4]),
        (Destructive, Off, true, Ask, [HIDDEN; 4]),
    ];
    for (effect, approval, task_only, mode, expected) in table {
        let facts = Facts { effect, approval, task_only };
        for (from, expected) in [DIRECT, UNLISTED, LISTED, GRANTED].into_iter().zip(expected) {
            let question = Question { mode, facts, from, session_allows: false };
            assert_eq!(decide(question), expected, "{question:?}");
        }
    }
}

fn destructive() -> Decision {
    Deny(Reason::Destructive)
}

fn not_listed() -> Decision {
    Deny(Reason::NotListed)
}

fn not_granted() -> Decision {
    Deny(Reason::NotGranted)
}

fn task() -> Decision {
    Deny(Reason::TaskOnly)
}

/// "This session" answers only the question it was given to.
#[test]
fn this_session_covers_writes_that_follow_the_mode() {
    for (effect, approval, mode, from, expected) in [
        (Write, Mode, Ask, DIRECT, Allow),
        (Write, Mode, Ask, LISTED, Allow),
        (Write, Mode, Ask, UNLISTED, not_listed()),
        (Write, Mode, ReadOnly, DIRECT, HIDDEN),
        (Write, Always, Ask, DIRECT, ONCE),
        (Write, Always, Auto, DIRECT, ONCE),
        (Destructive, Always, Ask, DIRECT, ONCE),
        (Destructive, Always, Ask, LISTED, destructive()),
        (Write, Off, Ask, DIRECT, HIDDEN),
    ] {
        let facts = Facts { effect, approval, task_only: false };
        let question = Question { mode, facts, from, session_allows: true };
        assert_eq!(decide(question), expected, "{question:?}");
    }
}

/// What a script may do, it may do with no question; what is asked directly is never free in it.
#[test]
fn a_script_is_never_asked_and_never_freer() {
    for effect in [Read, Write, Destructive] {
        for approval in [Mode, Direct, Always, Off] {
            for task_only in [false, true] {
                for mode in [Ask, Auto, ReadOnly] {
                    let facts = Facts { effect, approval, task_only };
                    let ask = |from| decide(Question { mode, facts, from, session_allows: false });
                    for from in [UNLISTED, LISTED, GRANTED] {
                        assert!(!matches!(ask(from), Question_ { .. }));
                    }
                    if ask(LISTED) == Allow {
                        assert_eq!(ask(DIRECT), Allow);
                    }
                    assert_eq!(facts.in_scripts(mode), ask(GRANTED) == Allow);
                    assert_eq!(facts.offered(mode), ask(DIRECT) != HIDDEN);
                }
            }
        }
    }
}

#[test]
fn facts_come_from_annotations_unless_the_profile_knows_better() {
    let none = mcp::Annotations::default();
    let reads = mcp::Annotations { read_only: Some(true), ..none };
    let writes = mcp::Annotations { read_only: Some(false), destructive: Some(false), ..none };
    let destroys = mcp::Annotations { destructive: Some(true), ..none };
    let both = mcp::Annotations { read_only: Some(true), destructive: Some(true), ..none };
    let rule = |effect, approval| Some(ToolRule { effect, approval });
    for (annotations, rule, effect, approval) in [
        (none, None, Write, Mode),
        (reads, None, Read, Direct),
        (writes, None, Write, Mode),
        (destroys, None, Destructive, Always),
        (both, None, Read, Direct),
        (none, rule(Some(Read), None), Read, Direct),
        (reads, rule(Some(Write), None), Write, Mode),
        (reads, rule(Some(Destructive), None), Destructive, Always),
        (reads, rule(None, Some(Always)), Read, Always),
        (none, rule(None, Some(Direct)), Write, Direct),
        (none, rule(None, Some(Off)), Write, Off),
        (destroys, rule(Some(Write), None), Write, Mode),
        (destroys, rule(Some(Write), Some(Direct)), Write, Direct),
        (destroys, rule(None, Some(Direct)), Destructive, Always),
        (destroys, rule(None, Some(Off)), Destructive, Off),
    ] {
        let facts = Facts::of(annotations, mcp::TaskSupport::Optional, rule.as_ref());
        assert_eq!(facts, Facts { effect, approval, task_only: false }, "{annotations:?} {rule:?}");
    }
    assert!(Facts::of(reads, mcp::TaskSupport::Required, None).task_only);
    assert!(!Facts::of(reads, mcp::TaskSupport::Forbidden, None).task_only);
}

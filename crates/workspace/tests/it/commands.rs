//! `Bash`: how commands end, what they say, and that nothing of them is left.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::ground::{Ground, with_programs};

with_programs!(
    the_answer_says_how_it_ended_and_both_streams,
    the_working_directory_is_kept_and_nothing_else,
    standard_input_is_empty,
    at_the_limit_the_whole_tree_is_ended_and_what_was_printed_is_shown,
    what_is_left_running_is_ended_and_said,
    long_output_is_shown_by_its_ends_and_kept_whole,
    a_job_goes_on_and_shows_what_is_new,
    a_job_is_ended_with_everything_it_started,
    a_call_that_is_dropped_ends_what_it_started,
    wrong_calls_are_explained,
    a_place_that_is_gone_is_not_silently_the_root,
);

async fn bash(ground: &Ground, command: &str) -> String {
    ground.ok("Bash", json!({"command": command})).await
}

/// The answer without its first line.
fn body(text: &str) -> &str {
    text.split_once('\n').unwrap().1
}

async fn the_answer_says_how_it_ended_and_both_streams(ground: &Ground) {
    let text = bash(ground, "echo out; echo err >&2; exit 3").await;
    assert!(text.starts_with("exit code 3 · "), "{text}");
    assert_eq!(body(&text), "out\n[standard error]\nerr\n");
    ground.put("f", "a\n");
    let text = bash(ground, "grep nothing f").await;
    assert!(text.starts_with("exit code 1 · ") && body(&text) == "[no output]\n", "{text}");
    let text = bash(ground, "[[ x == x ]] && a=(1 2) && echo ${#a[@]}").await;
    assert_eq!(body(&text), "2\n");
    let text = bash(ground, "no-such-program-at-all").await;
    assert!(text.starts_with("exit code 127"), "{text}");
    let text = bash(ground, "if then").await;
    assert!(text.contains("syntax error"), "{text}");
    let text = ground.fails("Bash", json!({"command": "kill -KILL $$"})).await;
    assert!(text.starts_with("ended by signal 9 (KILL)"), "{text}");
    let text = bash(ground, "printf '\\xff\\xfe'; echo \"$# $0\"; # a comment").await;
    assert!(body(&text).contains("\u{fffd}") && text.contains("0 bash"), "{text}");
}

async fn the_working_directory_is_kept_and_nothing_else(ground: &Ground) {
    let text = bash(ground, "pwd").await;
    assert_eq!(body(&text), "~\n");
    let text = bash(ground, "mkdir -p sub/deep && cd sub/deep && export KEPT=1").await;
    assert!(text.contains("the working directory is now ~/sub/deep"), "{text}");
    assert_eq!(body(&bash(ground, "pwd; echo \"[$KEPT]\"").await), "~/sub/deep\n[]\n");
    bash(ground, "cd .. ; exit 4").await;
    assert_eq!(body(&bash(ground, "(cd /; true); pwd").await), "~/sub\n");
    // A program in its place says nothing of where it is.
    bash(ground, "cd /; exec true").await;
    assert_eq!(body(&bash(ground, "pwd").await), "~/sub\n");
    bash(ground, "cd ~-nothing 2>/dev/null; cd \"$OLDPWD/..\" 2>/dev/null || cd ..").await;
    bash(ground, "mkdir -p $'new\\nline'; cd $'new\\nline'").await;
    bash(ground, "pwd").await;
}

async fn standard_input_is_empty(ground: &Ground) {
    let begun = Instant::now();
    let text = bash(
        ground,
        "cat; read x; echo \"[$x]\"; python3 -c 'print(repr(input()))' 2>&1 | tail -1",
    )
    .await;
    assert!(text.contains("[]"), "{text}");
    assert!(begun.elapsed() < Duration::from_secs(60));
}

async fn at_the_limit_the_whole_tree_is_ended_and_what_was_printed_is_shown(ground: &Ground) {
    let command = "echo before; (trap '' TERM; sleep 7641) & setsid sleep 7641 & \
                   setsid bash -c 'trap \"\" TERM; sleep 7641; sleep 7641' & sleep 7641; echo after";
    let text = ground.fails("Bash", json!({"command": command, "timeout": 1500})).await;
    assert!(text.starts_with("ended at its time limit of 1.5 s"), "{text}");
    assert_eq!(body(&text), "before\n");
    gone("sleep\u{0}7641").await;
}

async fn what_is_left_running_is_ended_and_said(ground: &Ground) {
    let begun = Instant::now();
    let text = bash(ground, "sleep 7642 & setsid sleep 7642 & echo hi").await;
    assert!(begun.elapsed() < Duration::from_secs(600));
    assert!(text.contains("it had left running ended with it"), "{text}");
    assert_eq!(body(&text), "hi\n");
    gone("sleep\u{0}7642").await;
}

async fn long_output_is_shown_by_its_ends_and_kept_whole(ground: &Ground) {
    let text = bash(ground, "seq 100000; echo end >&2").await;
    assert!(text.len() < 20_000, "{}", text.len());
    assert!(text.contains("\n1\n2\n") && text.contains("\n99999\n100000\n"), "{text}");
    let path = text.split("the whole is in ").nth(1).unwrap().split(';').next().unwrap();
    assert!(path.starts_with("~/.agent/output/"), "{path}");
    let found = ground.ok("Grep", json!({"path": path, "pattern": "^77777$"})).await;
    assert!(found.contains(path), "{found}");
    let page = ground.ok("Read", json!({"file_path": path, "offset": 100_000})).await;
    assert!(page.contains("100000"), "{page}");
    // Not among what is found when nobody asks for it.
    let found = ground.ok("Grep", json!({"pattern": "^77777$"})).await;
    assert!(found.starts_with("no match"), "{found}");
}

async fn a_job_goes_on_and_shows_what_is_new(ground: &Ground) {
    let start = json!({"command": "echo one; while [ ! -e go ]; do sleep 0.05; done; echo two; exit 5", "run_in_background": true});
    let text = ground.ok("Bash", start).await;
    assert!(text.contains("as job-1"), "{text}");
    let look = json!({"job": "job-1"});
    let mut seen = String::new();
    let until = Instant::now() + Duration::from_secs(60);
    while !seen.contains("one\n") && Instant::now() < until {
        seen.push_str(&ground.ok("Bash", look.clone()).await);
    }
    assert!(seen.contains("job-1 · runs since") && seen.contains("one\n"), "{seen}");
    ground.put("go", "");
    let mut seen = String::new();
    while !seen.contains("exit code 5") && Instant::now() < until {
        seen.push_str(&ground.ok("Bash", look.clone()).await);
    }
    seen.push_str(&ground.ok("Bash", look.clone()).await);
    assert!(
        seen.contains("exit code 5") && seen.contains("two\n") && !seen.contains("one\n"),
        "{seen}"
    );
    assert!(ground.ok("Bash", look).await.contains("[no new output]"));
}

async fn a_job_is_ended_with_everything_it_started(ground: &Ground) {
    let start =
        json!({"command": "setsid sleep 7643 & echo up; sleep 7643", "run_in_background": true});
    ground.ok("Bash", start).await;
    let until = Instant::now() + Duration::from_secs(60);
    while !ground.ok("Bash", json!({"job": "job-1"})).await.contains("up\n")
        && Instant::now() < until
    {}
    let text = ground.ok("Bash", json!({"job": "job-1", "kill": true})).await;
    assert!(text.starts_with("job-1 · was ended\n"), "{text}");
    gone("sleep\u{0}7643").await;
    let text = ground.ok("Bash", json!({"job": "job-1"})).await;
    assert!(text.contains("was ended before"), "{text}");
}

async fn a_call_that_is_dropped_ends_what_it_started(ground: &Ground) {
    let call =
        ground.call("Bash", json!({"command": "touch started; setsid sleep 7644 & sleep 7644"}));
    let started = async {
        while !ground.is_there("started") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        answer = call => panic!("{}", answer.all_text()),
        () = started => {}
        () = tokio::time::sleep(Duration::from_secs(60)) => panic!("it never started"),
    }
    gone("sleep\u{0}7644").await;
}

async fn wrong_calls_are_explained(ground: &Ground) {
    let table = [
        (json!({}), "give either command, or job"),
        (json!({"command": "x", "job": "job-1"}), "give either command, or job"),
        (json!({"job": "job-9"}), "no command was started in the background"),
        (json!({"command": "x", "kill": true}), "kill goes with job"),
        (json!({"command": "x", "timeout": 0}), "between 1 and 600000"),
        (json!({"command": "x", "timeout": 600_001}), "between 1 and 600000"),
        (json!({"command": "a\0b"}), "NUL"),
        (json!({"command": "x".repeat(100_001)}), "Write it to a file"),
    ];
    for (arguments, expected) in table {
        let text = ground.fails("Bash", arguments).await;
        assert!(text.contains(expected), "{text}");
    }
}

async fn a_place_that_is_gone_is_not_silently_the_root(ground: &Ground) {
    bash(ground, "mkdir gone && cd gone").await;
    std::fs::remove_dir(ground.host("gone")).unwrap();
    let text = ground.fails("Bash", json!({"command": "touch here"})).await;
    assert!(text.contains("nothing was run") && text.contains("is ~ again"), "{text}");
    assert!(!ground.is_there("here"));
    bash(ground, "touch here").await;
    assert!(ground.is_there("here"));
}

/// Waits until no process has this in its command line.
async fn gone(words: &str) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let alive = std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).starts_with(words)
        });
        if !alive {
            return;
        }
        assert!(Instant::now() < until, "{words:?} is still running");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

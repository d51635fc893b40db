//! Every file of `cases/`: a script whose last comment lines say what is to come of it.
//!
//! ```text
//! # ends: completed | failed | memory limit | signal 11      required
//! # prints: …                                                one for each line of standard output
//! # says: …                                                  one for each line of the traceback
//! # exit: 3
//! # calls: 3 reached, 1 failed, 0 refused
//! # needs: 3.11                                              the oldest Python it is meant for
//! ```

use std::fmt::Write;
use std::path::{Path, PathBuf};

use script::Ending;

use crate::ground::{Ground, Ran, interpreters};

#[derive(Debug, Default)]
struct Expected {
    ends: String,
    prints: Vec<String>,
    says: Vec<String>,
    exit: Option<String>,
    calls: Option<String>,
    needs: Option<(u32, u32)>,
}

impl Expected {
    fn of(code: &str) -> Self {
        let mut expected = Self::default();
        let comments = code.lines().rev().take_while(|line| line.starts_with("# "));
        for line in comments.collect::<Vec<_>>().into_iter().rev() {
            let line = &line[2..];
            let (key, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
            match key {
                "ends" => expected.ends = value,
                "prints" => expected.prints.push(value),
                "says" => expected.says.push(value),
                "exit" => expected.exit = Some(value),
                "calls" => expected.calls = Some(value),
                "needs" => {
                    let (major, minor) = value.split_once('.').unwrap();
                    expected.needs = Some((major.parse().unwrap(), minor.parse().unwrap()));
                }
                key => panic!("unknown expectation {key:?}"),
            }
        }
        assert!(!expected.ends.is_empty(), "the case does not say how it ends");
        expected
    }

    /// What differs, or nothing.
    fn differs(&self, ran: &Ran) -> String {
        let finished = &ran.finished;
        let (ends, traceback) = match &finished.ending {
            Ending::Completed => ("completed".to_owned(), ""),
            Ending::Failed { traceback } => ("failed".to_owned(), traceback.as_str()),
            Ending::MemoryLimit => ("memory limit".to_owned(), finished.traceback.as_str()),
            Ending::Signaled(signal) => (format!("signal {signal}"), ""),
            ending => (format!("{ending:?}"), ""),
        };
        let mut differences = String::new();
        let mut compare = |what: &str, expected: &str, found: &str| {
            if expected != found {
                let _ = writeln!(differences, "{what}:\n{expected}\n— but\n{found}");
            }
        };
        compare("ends", &self.ends, &ends);
        compare("prints", &self.prints.join("\n"), ran.stdout.trim_end_matches('\n'));
        if !self.says.is_empty() || ends == "failed" {
            compare("says", &self.says.join("\n"), &without_carets(traceback));
        }
        if let Some(exit) = &self.exit {
            compare("exit", exit, &format!("{}", finished.exit_code.unwrap_or(-1)));
        }
        if let Some(calls) = &self.calls {
            let (reached, failed, refused) = (finished.calls, finished.failed, finished.refused);
            let found = format!("{reached} reached, {failed} failed, {refused} refused");
            compare("calls", calls, &found);
        }
        differences
    }
}

/// Versions of Python underline different things.
fn without_carets(traceback: &str) -> String {
    let is_carets = |line: &str| line.contains('^') && line.chars().all(|c| " ^~".contains(c));
    traceback.lines().filter(|line| !is_carets(line)).collect::<Vec<_>>().join("\n")
}

pub(crate) fn directory() -> PathBuf {
    std::env::var_os(crate::ordinary::MARK)
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/cases"), PathBuf::from)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_case_ends_as_it_says() {
    let mut cases: Vec<_> = std::fs::read_dir(directory())
        .expect("the cases are where they were built")
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "py"))
        .collect();
    cases.sort();
    assert!(cases.len() >= 10, "only {} cases", cases.len());
    let mut failures = String::new();
    for python in interpreters().await {
        let (major, minor, _) = python.version;
        let ground = Ground::with(python.clone()).await;
        let ahead = Ground::ahead(python, 1).await;
        ahead.run("").await;
        for case in &cases {
            let code = std::fs::read_to_string(case).unwrap();
            let expected = Expected::of(&code);
            if expected.needs.is_some_and(|needed| (major, minor) < needed) {
                continue;
            }
            ahead.waiting((1, 0)).await;
            for (way, ground) in [("", &ground), (", started ahead", &ahead)] {
                let ran = ground.run(&code).await;
                let differences = expected.differs(&ran);
                if !differences.is_empty() {
                    let name = case.file_name().unwrap().to_string_lossy();
                    let shown = ran.shown();
                    let _ = writeln!(
                        failures,
                        "=== {name}, Python {major}.{minor}{way}\n{differences}\n{shown}\n"
                    );
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

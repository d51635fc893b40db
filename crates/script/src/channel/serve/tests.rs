//! The channel against a script's side that is played here, honest and hostile.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::*;
use crate::host::{Call, Kind, Progress, Reply, ToolError};

/// Answers by the tool's name, and remembers what it saw.
#[derive(Default)]
struct Played {
    numbers: Mutex<Vec<u64>>,
    now: AtomicUsize,
    most_at_once: AtomicUsize,
    cancelled: AtomicUsize,
    progress: Mutex<Vec<Progress>>,
}

#[async_trait::async_trait]
impl Host for Played {
    async fn call(&self, call: Call) -> Result<Reply, ToolError> {
        self.numbers.lock().unwrap().push(call.number);
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(now, Ordering::SeqCst);
        let outcome = match call.tool.as_str() {
            "echo" => Ok(reply(call.args.get(), false)),
            "slow" => {
                tokio::time::sleep(Duration::from_millis(5)).await;
                Ok(reply(call.args.get(), false))
            }
            "big" => Ok(reply(&format!("\"{}\"", "x".repeat(5 << 20)), false)),
            "fails" => Ok(reply("{}", true)),
            "denied" => Err(ToolError::lasting(Kind::Denied, "no")),
            "panics" => panic!("as asked"),
            "never" => {
                call.cancel.cancelled().await;
                self.cancelled.fetch_add(1, Ordering::SeqCst);
                Err(ToolError::lasting(Kind::Cancelled, "over"))
            }
            "deaf" => std::future::pending().await,
            tool => Err(ToolError::lasting(Kind::UnknownTool, tool)),
        };
        self.now.fetch_sub(1, Ordering::SeqCst);
        outcome
    }

    fn progress(&self, progress: Progress) {
        self.progress.lock().unwrap().push(progress);
    }
}

fn reply(structured: &str, is_error: bool) -> Reply {
    let structured = RawValue::from_string(structured.to_owned()).unwrap();
    Reply { text: String::new(), structured: Some(structured.into()), content: None, is_error }
}

/// The script's side: where it writes requests and reads replies.
struct Script {
    requests: File,
    replies: BufReader<File>,
}

impl Script {
    fn send(&mut self, line: &str) {
        self.requests.write_all(line.as_bytes()).unwrap();
        self.requests.write_all(b"\n").unwrap();
    }

    fn call(&mut self, id: u64, tool: &str, args: Value) {
        self.send(&json!({"id": id, "tool": tool, "args": args}).to_string());
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.replies.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or(Value::Null)
    }
}

/// Runs `play` as the script; the program ends when it returns. Bounded in time.
fn played<T: Send + 'static>(
    max_calls: u64,
    concurrency: usize,
    play: impl FnOnce(&mut Script) -> T + Send + 'static,
) -> (T, Served, Arc<Played>) {
    let host = Arc::new(Played::default());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let seen = host.clone();
    let run = async move {
        let Pipes { requests, replies, script_requests, script_replies } = Pipes::new().unwrap();
        let over = tokio::task::spawn_blocking(move || {
            let mut script = Script {
                requests: File::from(script_requests),
                replies: BufReader::new(File::from(script_replies)),
            };
            assert_eq!(script.receive(), json!({"code": "the\ncode"}));
            play(&mut script)
        });
        let over = async { over.await.unwrap() };
        serve(requests, replies, "the\ncode".to_owned(), host, (max_calls, concurrency), over).await
    };
    let (value, served) = runtime
        .block_on(async { tokio::time::timeout(Duration::from_secs(20), run).await })
        .expect("ends in time");
    (value, served, seen)
}

#[test]
fn calls_are_numbered_and_answered_under_the_ids_they_came_with() {
    let (replies, served, host) = played(10, 4, |script| {
        for (id, tool) in [(9, "echo"), (9, "denied"), (0, "fails"), (3, "nope")] {
            script.call(id, tool, json!({"a": 1}));
        }
        (0..4).map(|_| script.receive()).collect::<Vec<_>>()
    });
    assert_eq!(replies[0], json!({"id": 9, "structured": {"a": 1}}));
    assert_eq!(replies[1]["error"]["kind"], "denied");
    assert_eq!(replies[2], json!({"id": 0, "text": "", "structured": {}, "is_error": true}));
    assert_eq!(replies[3]["error"]["kind"], "unknown_tool");
    assert_eq!(served.counts, Counts { reached: 2, failed: 3, refused: 2 });
    assert_eq!(*host.numbers.lock().unwrap(), [1, 2, 3, 4]);
}

#[test]
fn no_more_calls_run_at_once_than_allowed_and_no_fewer() {
    let (_, served, host) = played(1000, 3, |script| {
        (0..100).for_each(|id| script.call(id, "slow", json!({})));
        (0..100).for_each(|_| drop(script.receive()));
    });
    assert_eq!(served.counts.reached, 100);
    assert_eq!(host.most_at_once.load(Ordering::SeqCst), 3);
}

#[test]
fn a_refused_call_gives_its_share_of_the_budget_back() {
    let (kinds, served, _) = played(3, 2, |script| {
        for (id, tool) in
            ["denied", "echo", "nope", "slow", "denied", "echo", "echo"].into_iter().enumerate()
        {
            script.call(id as u64, tool, json!({}));
        }
        let mut kinds = vec![String::new(); 7];
        for _ in 0..7 {
            let reply = script.receive();
            let id = usize::try_from(reply["id"].as_u64().unwrap()).unwrap();
            kinds[id] = reply["error"]["kind"].as_str().unwrap_or("fine").to_owned();
        }
        kinds
    });
    let expected = ["denied", "fine", "unknown_tool", "fine", "denied", "fine", "limit"];
    assert_eq!(kinds, expected);
    assert_eq!(served.counts, Counts { reached: 3, failed: 4, refused: 4 });
}

#[test]
fn five_megabytes_arrive_whole() {
    let (length, _, _) = played(1, 1, |script| {
        script.call(1, "big", json!({}));
        script.receive()["structured"].as_str().unwrap().len()
    });
    assert_eq!(length, 5 << 20);
}

#[test]
fn a_host_that_panics_fails_that_call_only() {
    let (replies, served, _) = played(5, 2, |script| {
        script.call(1, "panics", json!({}));
        script.call(2, "echo", json!({}));
        [script.receive(), script.receive()]
    });
    let failed = replies.iter().find(|reply| reply["id"] == 1).unwrap();
    assert_eq!(failed["error"]["kind"], "upstream");
    assert_eq!(served.counts.failed, 1);
}

#[test]
fn calls_that_run_when_the_script_ends_are_cancelled_and_counted() {
    let (_, served, host) = played(5, 4, |script| {
        (0..3).for_each(|id| script.call(id, "never", json!({})));
        script.call(4, "echo", json!({}));
        script.receive();
    });
    assert_eq!(host.cancelled.load(Ordering::SeqCst), 3);
    assert_eq!(served.counts, Counts { reached: 4, failed: 3, refused: 0 });
}

#[test]
fn a_call_that_does_not_notice_its_cancellation_is_left_after_a_grace() {
    let start = Instant::now();
    let (_, served, _) = played(5, 4, |script| {
        script.call(1, "deaf", json!({}));
        script.call(2, "echo", json!({}));
        script.receive();
    });
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(served.counts, Counts { reached: 2, failed: 1, refused: 0 });
}

#[test]
fn garbage_is_passed_over_and_then_no_longer_heard() {
    let (answered, served, _) = played(5, 1, |script| {
        for _ in 0..50 {
            script.send("garbage");
        }
        script.call(1, "echo", json!({}));
        let answered = script.receive();
        let flood = "\u{0}garbage\n".repeat(10_000);
        let mut refused = false;
        for _ in 0..1000 {
            refused = refused || script.requests.write_all(flood.as_bytes()).is_err();
        }
        (answered, refused)
    });
    assert_eq!(answered, (json!({"id": 1, "structured": {}}), true));
    assert_eq!(served.counts.reached, 1);
}

#[test]
fn a_line_without_an_end_is_not_kept_and_answered_when_it_ends() {
    let (reply, _, _) = played(5, 1, |script| {
        script.requests.write_all(br#"{"id":5,"tool":"echo","args":{"a":""#).unwrap();
        for _ in 0..70 {
            script.requests.write_all(&vec![b'x'; 1 << 20]).unwrap();
        }
        script.send("\"}}");
        script.receive()
    });
    assert_eq!(reply["id"], 5);
    assert_eq!(reply["error"]["kind"], "invalid_arguments");
}

#[test]
fn requests_are_not_read_while_replies_are_not_taken() {
    let (sent, served, host) = played(1_000_000, 4, |script| {
        let line = json!({"id": 1, "tool": "echo", "args": {"a": "x".repeat(1000)}}).to_string();
        rustix::io::ioctl_fionbio(&script.requests, true).unwrap();
        let start = Instant::now();
        let mut sent = 0_usize;
        while start.elapsed() < Duration::from_secs(2) {
            match script.requests.write(format!("{line}\n").as_bytes()) {
                Ok(length) => sent += length,
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        sent
    });
    assert!(sent < 4 << 20, "{sent} bytes were taken");
    assert!(served.counts.reached < 4000, "{:?}", served.counts);
    assert!(host.numbers.lock().unwrap().len() < 4000);
}

#[test]
fn both_descriptors_may_be_closed_and_the_end_is_still_waited_for() {
    let start = Instant::now();
    let (_, served, host) = played(5, 4, |script| {
        script.call(1, "echo", json!({}));
        script.receive();
        let null = || File::options().read(true).write(true).open("/dev/null").unwrap();
        script.replies = BufReader::new(null());
        script.call(2, "echo", json!({}));
        std::thread::sleep(Duration::from_millis(50));
        script.call(3, "echo", json!({}));
        script.call(4, "echo", json!({}));
        script.send(&json!({"end": {"traceback": "T"}}).to_string());
        script.requests = null();
        std::thread::sleep(Duration::from_millis(200));
    });
    assert!(start.elapsed() >= Duration::from_millis(250));
    assert_eq!(served.end.unwrap().traceback, "T");
    assert!(host.numbers.lock().unwrap().len() <= 3, "no reply can be given: not called");
}

#[test]
fn a_million_reports_become_a_few_and_the_last_is_told() {
    let (_, _, host) = played(5, 4, |script| {
        for step in 0..1_000_u64 {
            let lines: String = (0..1_000)
                .map(|n| format!("{{\"progress\":{{\"done\":{}}}}}\n", step * 1000 + n))
                .collect();
            script.requests.write_all(lines.as_bytes()).unwrap();
        }
        script.send(
            &json!({"progress": {"done": 1, "total": 2, "message": "\u{1b}[2J\n".to_owned() + &"é".repeat(900)}}).to_string(),
        );
    });
    let told = host.progress.lock().unwrap();
    assert!((1..=150).contains(&told.len()), "told {} times", told.len());
    let last = told.last().unwrap();
    assert_eq!((last.done, last.total), (Some(1.0), Some(2.0)));
    let message = last.message.as_ref().unwrap();
    assert_eq!(message.chars().count(), 500);
    assert!(message.starts_with(" [2J é"), "{message}");
}

#[test]
fn what_the_script_left_in_the_pipe_is_read_but_not_called() {
    let (_, served, host) = played(5, 1, |script| {
        script.call(1, "never", json!({}));
        script.call(2, "echo", json!({}));
        script.send(&json!({"end": {"traceback": "last words", "memory": true}}).to_string());
    });
    let end = served.end.unwrap();
    assert_eq!((end.traceback.as_str(), end.memory), ("last words", true));
    assert!(host.numbers.lock().unwrap().len() <= 1);
}

#[test]
fn replies_end_when_the_script_is_over() {
    let (mut replies, _, _) = played(5, 1, |script| {
        let null = BufReader::new(File::open("/dev/null").unwrap());
        std::mem::replace(&mut script.replies, null)
    });
    assert_eq!(replies.read(&mut [0; 10]).unwrap(), 0);
}

#[test]
fn what_is_given_up_is_cancelled_or_never_started_and_makes_room() {
    let (kinds, served, host) = played(5, 2, |script| {
        script.call(1, "never", json!({}));
        script.call(0, "echo", json!({}));
        script.receive();
        // The first one runs by now, since they start in their order.
        script.call(5, "never", json!({}));
        script.call(2, "echo", json!({}));
        script.call(3, "echo", json!({}));
        script.send(r#"{"give_up":[1,2,77]}"#);
        let mut replies = [script.receive(), script.receive(), script.receive()];
        replies.sort_by_key(|reply| reply["id"].as_u64());
        replies.map(|reply| reply["error"]["kind"].as_str().unwrap_or("fine").to_owned())
    });
    assert_eq!(kinds, ["cancelled", "cancelled", "fine"]);
    let Counts { reached, failed, refused } = served.counts;
    assert_eq!(reached + refused, 5);
    assert_eq!(failed, 3);
    assert_eq!(host.cancelled.load(Ordering::SeqCst), 2);
}

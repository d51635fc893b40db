//! How scripts end that do not end by themselves, what they print until then, and the view they
//! have of the workspace.

use std::time::{Duration, Instant};

use sandbox::Access;
use script::Ending;
use tokio_util::sync::CancellationToken;

use crate::ground::{Ground, open};

fn seconds(limit: f64) -> impl FnOnce(&mut script::Job) {
    move |job| job.limits.timeout = Duration::from_secs_f64(limit)
}

#[tokio::test]
async fn an_endless_loop_is_stopped_and_what_it_printed_is_there() {
    let ground = Ground::new().await;
    let ran = ground.run_with("print('so far')\nwhile True: pass", seconds(1.5)).await;
    assert_eq!(ran.finished.ending, Ending::TimedOut, "{}", ran.shown());
    assert_eq!(ran.stdout, "so far\n");
}

#[tokio::test]
async fn a_thread_or_a_child_that_goes_on_is_stopped() {
    let ground = Ground::new().await;
    let thread = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()";
    let ran = ground.run_with(thread, seconds(1.5)).await;
    assert_eq!(ran.finished.ending, Ending::TimedOut, "{}", ran.shown());

    let start = Instant::now();
    let child =
        "import subprocess\nsubprocess.Popen(['sleep', '60'], close_fds=False, pass_fds=(3, 4))";
    let ran = ground.run(child).await;
    assert_eq!(ran.finished.ending, Ending::Completed, "{}", ran.shown());
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_cancelled_script_is_gone_and_its_calls_are_cancelled() {
    let ground = Ground::new().await;
    let cancel = CancellationToken::new();
    let later = cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(700)).await;
        later.cancel();
    });
    let code = "from agent_tools import call\nprint('calling')\ncall('never')";
    let ran = ground.run_until(code, |_| {}, cancel).await;
    assert_eq!(ran.finished.ending, Ending::Cancelled, "{}", ran.shown());
    assert_eq!(ran.stdout, "calling\n");
    assert_eq!(ran.host.cancelled.load(std::sync::atomic::Ordering::SeqCst), 1);
    assert_eq!((ran.finished.calls, ran.finished.failed), (1, 1));
}

#[tokio::test]
async fn memory_that_is_really_used_is_bounded() {
    let ground = Ground::new().await;
    let code = "rows = []\nwhile True: rows.append(bytearray(1 << 20))";
    let ran = ground.run_with(code, |job| job.limits.memory_mb = 64).await;
    assert_eq!(ran.finished.ending, Ending::MemoryLimit, "{}", ran.shown());

    let code = "rows = bytearray(300 << 20)\nprint(len(rows))";
    let ran = ground.run(code).await;
    assert_eq!(ran.finished.ending, Ending::Completed, "{}", ran.shown());
}

#[tokio::test]
async fn a_hundred_megabytes_are_printed_in_seconds() {
    let ground = Ground::new().await;
    let start = Instant::now();
    let lines = "line = 'x' * 99\nfor _ in range(100_000): print(line)";
    let at_once = "print('x' * (100 << 20))";
    for (code, length) in [(lines, 10_000_000), (at_once, (100 << 20) + 1)] {
        let ran = ground.run(code).await;
        assert_eq!(ran.finished.ending, Ending::Completed, "{}", ran.shown());
        assert_eq!(ran.stdout.len(), length);
    }
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

#[tokio::test]
async fn nothing_printed_and_nothing_done_is_fine() {
    let ground = Ground::new().await;
    for code in ["", "\n\n# nothing\n", "x = 1"] {
        let ran = ground.run(code).await;
        assert_eq!(ran.finished.ending, Ending::Completed, "{}", ran.shown());
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
        assert_eq!(ran.finished.exit_code, Some(0));
    }
}

#[tokio::test]
async fn byte_order_marks_and_other_line_ends_do_not_matter() {
    let ground = Ground::new().await;
    let ran = ground.run("\u{feff}print('one')\r\nif True:\r\n    1/0\r\n").await;
    let Ending::Failed { traceback } = &ran.finished.ending else { panic!("{}", ran.shown()) };
    assert!(traceback.contains("File \"script.py\", line 3, in <module>\n    1/0"), "{traceback}");
    assert_eq!(ran.stdout, "one\n");
}

#[tokio::test]
async fn a_long_traceback_keeps_its_last_frames() {
    let ground = Ground::new().await;
    let mut code = String::from("def f0(): raise ValueError('x' * 100_000)\n");
    for n in 1..200 {
        code += &format!("def f{n}(): f{}()\n", n - 1);
    }
    code += "f199()\n";
    let ran = ground.run(&code).await;
    let Ending::Failed { traceback } = &ran.finished.ending else { panic!("{}", ran.shown()) };
    assert!(traceback.chars().count() < 4200, "{}", traceback.len());
    assert!(traceback.starts_with("[earlier frames left out]"), "{traceback}");
    assert!(traceback.contains("line 1, in f0"), "{traceback}");
    assert!(traceback.contains("characters left out"), "{traceback}");
}

#[tokio::test]
async fn the_workspace_can_be_read_only_and_records_always_are() {
    let ground = Ground::new().await;
    let place = ground.workspace.path().join(".agent");
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("calls.jsonl"), "{}").unwrap();
    let code = "
import pathlib
for name in ('.agent/calls.jsonl', '.agent/new', 'new.txt'):
    try:
        pathlib.Path(name).write_text('x'); print(name, 'written')
    except OSError as error:
        print(name, error.strerror)
for change in (lambda: pathlib.Path('.agent').rename('moved'), lambda: __import__('shutil').rmtree('.agent')):
    try: change(); print('changed')
    except OSError as error: print('kept')
";
    let ran = ground
        .run_with(code, |job| {
            job.records = Some(open(&place));
        })
        .await;
    let refused = "Read-only file system";
    let kept = "kept\nkept\n";
    assert_eq!(
        ran.stdout,
        format!(".agent/calls.jsonl {refused}\n.agent/new {refused}\nnew.txt written\n{kept}"),
        "{}",
        ran.shown()
    );
    assert_eq!(std::fs::read_to_string(place.join("calls.jsonl")).unwrap(), "{}");

    let ran = ground.run_with("open('other.txt', 'w')", |job| job.access = Access::ReadOnly).await;
    let Ending::Failed { traceback } = &ran.finished.ending else { panic!("{}", ran.shown()) };
    assert!(traceback.contains(refused), "{traceback}");
}

#[tokio::test]
async fn two_scripts_at_once_do_not_see_each_other() {
    let ground = Ground::new().await;
    let code = |mark: &str| {
        format!(
            "
import os, tempfile, time
from agent_tools import call, call_many
open('/tmp/mine', 'w').write('{mark}')
rows = call_many('slow', [{{'mark': '{mark}', 'i': i}} for i in range(100)])
assert all(row['mark'] == '{mark}' for row in rows)
print(open('/tmp/mine').read(), len([p for p in os.listdir('/proc') if p.isdigit()]) < 5)
"
        )
    };
    let (code_a, code_b) = (code("a"), code("b"));
    let (a, b) = tokio::join!(ground.run(&code_a), ground.run(&code_b));
    assert_eq!((a.stdout.as_str(), b.stdout.as_str()), ("a True\n", "b True\n"), "{}", a.shown());
    assert_eq!((a.finished.calls, b.finished.calls), (100, 100));
}

#[tokio::test]
async fn bounds_that_make_no_sense_are_refused() {
    let ground = Ground::new().await;
    let null = || Box::new(|_: &[u8]| {}) as script::Sink;
    let job = |concurrency, code: String| script::Job {
        code,
        workspace: open(ground.workspace.path()),
        access: Access::ReadWrite,
        records: None,
        limits: script::Limits {
            max_calls: 1,
            concurrency,
            timeout: Duration::from_secs(5),
            memory_mb: 512,
        },
        stdout: null(),
        stderr: null(),
    };
    for (job, expected) in [
        (job(0, String::new()), "concurrency must be between 1 and 64"),
        (job(65, String::new()), "concurrency must be between 1 and 64"),
        (job(1, "#".repeat(2 << 20)), "longer than 1 MB"),
    ] {
        let host = std::sync::Arc::new(script::NoTools);
        let error = ground.engine.run(job, host, CancellationToken::new()).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn coroutines_that_await_calls_overlap_and_can_give_up() {
    let ground = Ground::new().await;
    let code = "
import asyncio
from agent_tools import call

async def one(n):
    return (await call('slow', {'n': n}))['n']

async def main():
    print(sum(await asyncio.gather(*[one(n) for n in range(300)])))
    for _ in range(6):
        try:
            await asyncio.wait_for(call('never'), 0.1)
        except asyncio.TimeoutError:
            print('gave up', end=' ')

asyncio.run(main())
print(call('text'))
";
    let start = Instant::now();
    let ran = ground.run(code).await;
    assert_eq!(ran.finished.ending, Ending::Completed, "{}", ran.shown());
    assert_eq!(ran.stdout, format!("44850\n{}hello\n", "gave up ".repeat(6)), "{}", ran.shown());
    assert_eq!(ran.host.most_at_once.load(std::sync::atomic::Ordering::SeqCst), 4);
    assert_eq!(ran.host.cancelled.load(std::sync::atomic::Ordering::SeqCst), 6);
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
}

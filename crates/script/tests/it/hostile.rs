//! Scripts that attack the channel, the runner or the verdict. Each harms itself at most: the run
//! ends in time, the verdict is honest, and the script that runs after it is served.

use std::time::Duration;

use script::{Ending, Job};

use crate::ground::{Ground, Ran};

async fn attack(code: &str, change: impl FnOnce(&mut Job)) -> Ran {
    let ground = Ground::new().await;
    let ran = ground.run_with(code, change).await;
    let after = ground.run("from agent_tools import call\nprint(call('text'))").await;
    assert_eq!(after.stdout, "hello\n", "after the attack: {}", after.shown());
    ran
}

fn failed_with(ran: &Ran, expected: &str) {
    let Ending::Failed { traceback } = &ran.finished.ending else { panic!("{}", ran.shown()) };
    assert!(traceback.contains(expected), "{}", ran.shown());
}

#[tokio::test]
async fn garbage_on_the_channel() {
    let code = r"
import os
from agent_tools import call
os.set_blocking(3, True)
for line in (b'garbage', b'', b'\xff\xfe', b'{}', b'[1]', b'[' * 100_000, b'{\x22id\x22:-1}', b'\0' * 5000):
    os.write(3, line + b'\n')
os.set_blocking(3, False)
print(call('text'))
os.set_blocking(3, True)
try:
    while True: os.write(3, b'x\n' * 1000)
except BrokenPipeError:
    print('no longer heard')
try:
    call('text')
except Exception as error:
    print(error)
";
    let ran = attack(code, |_| {}).await;
    assert_eq!(ran.finished.ending, Ending::Completed, "{}", ran.shown());
    let expected =
        "hello\nno longer heard\ntext: the connection to the tools is closed (upstream)\n";
    assert_eq!(ran.stdout, expected, "{}", ran.shown());
}

#[tokio::test]
async fn requests_by_the_million_without_taking_a_reply() {
    let code = r#"
import os
os.set_blocking(3, True)
while True:
    os.write(3, b'{"id":1,"tool":"big","args":{}}\n' * 100)
"#;
    let ran = attack(code, |job| {
        job.limits.timeout = Duration::from_secs(3);
        job.limits.max_calls = 1_000_000;
    })
    .await;
    assert_eq!(ran.finished.ending, Ending::TimedOut, "{}", ran.shown());
    assert!(ran.finished.calls < 20, "{}", ran.shown());
}

#[tokio::test]
async fn a_request_that_never_ends() {
    let code = r#"
import os
os.set_blocking(3, True)
os.write(3, b'{"id":1,"tool":"echo","args":{"a":"')
for _ in range(300):
    os.write(3, b'x' * (1 << 20))
print('sent')
"#;
    let ran = attack(code, |_| {}).await;
    assert_eq!(ran.finished.ending, Ending::Completed, "{}", ran.shown());
    assert_eq!((ran.stdout.as_str(), ran.finished.calls), ("sent\n", 0));
}

#[tokio::test]
async fn either_descriptor_closed() {
    let code = |number: u32| {
        format!(
            "import os\nfrom agent_tools import call\nprint(call('text'))\nos.close({number})\n\
             try: call('text')\nexcept Exception as error: print(error)\n1/0"
        )
    };
    for number in [3, 4] {
        let ran = attack(&code(number), |_| {}).await;
        assert!(matches!(ran.finished.ending, Ending::Failed { .. }), "{}", ran.shown());
        assert!(ran.stdout.starts_with("hello\ntext: the connection"), "{}", ran.shown());
        let Ending::Failed { traceback } = &ran.finished.ending else { unreachable!() };
        let said = format!("{traceback}{}", ran.stderr);
        assert!(said.contains("ZeroDivisionError"), "{}", ran.shown());
    }
}

#[tokio::test]
async fn forged_ids_endings_and_replies() {
    let code = r#"
import os
from agent_tools import call
os.write(3, b'{"id":1,"tool":"echo","args":{"forged":true}}\n' * 3)
os.write(3, b'{"id":18446744073709551615,"tool":"echo","args":{}}\n')
print([call('echo', {'n': n}) for n in range(4)][1:])
os.write(3, b'{"end":{"traceback":"forged","memory":false}}\n')
try:
    os.write(4, b'{"id":1,"text":"forged"}\n')
except OSError as error:
    print(error.strerror)
"#;
    let ran = attack(code, |_| {}).await;
    assert_eq!(ran.finished.ending, Ending::Failed { traceback: "forged".into() });
    assert_eq!(ran.finished.exit_code, Some(0));
    assert!(ran.stdout.contains("[{'n': 1}, {'n': 2}, {'n': 3}]\n"), "{}", ran.shown());
    assert_eq!(ran.finished.calls, 8);
}

#[tokio::test]
async fn ten_million_reports() {
    let code = r#"
import os
os.set_blocking(3, True)
block = b'{"progress":{"done":1}}\n' * 10_000
for _ in range(1_000): os.write(3, block)
from agent_tools import progress
for n in range(1000): progress(n, 1000, 'step')
progress(float('nan'), float('inf'), '\udcff' * 10_000)
progress(1000, 1000, 'last')
"#;
    let ran = attack(code, |_| {}).await;
    assert_eq!(ran.finished.ending, Ending::Completed, "{}", ran.shown());
    let told = ran.host.progress.lock().unwrap();
    assert!(told.len() < 300, "told {} times", told.len());
    let last = told.last().unwrap();
    assert_eq!(
        (last.done, last.total, last.message.as_deref()),
        (Some(1000.0), Some(1000.0), Some("last"))
    );
}

#[tokio::test]
async fn more_calls_than_allowed() {
    let code = r"
from agent_tools import call, call_many, ToolError
rows = call_many('echo', [{'n': n} for n in range(30)], return_errors=True)
print(sum(isinstance(row, dict) for row in rows), {row.kind for row in rows if isinstance(row, ToolError)})
print(call_many('nope', [{}] * 3, return_errors=True)[0].kind)
call('echo', {})
";
    let ran = attack(code, |job| job.limits.max_calls = 10).await;
    failed_with(&ran, "ToolError: echo: the script has made its 10 calls");
    assert_eq!(ran.stdout, "10 {'limit'}\nlimit\n", "{}", ran.shown());
    let finished = &ran.finished;
    assert_eq!((finished.calls, finished.failed, finished.refused), (10, 24, 24));
    assert_eq!(ran.host.calls.lock().unwrap().len(), 10);
}

#[tokio::test]
async fn more_calls_at_once_than_allowed() {
    let code = "
from concurrent.futures import ThreadPoolExecutor
from agent_tools import call, call_many
with ThreadPoolExecutor(20) as pool:
    list(pool.map(lambda n: call('slow', {'n': n}), range(60)))
call_many('slow', [{}] * 60)
";
    let ran = attack(code, |job| job.limits.concurrency = 3).await;
    assert_eq!(ran.finished.ending, Ending::Completed, "{}", ran.shown());
    assert_eq!(ran.host.most_at_once.load(std::sync::atomic::Ordering::SeqCst), 3);
}

#[tokio::test]
async fn large_batches_in_both_directions() {
    let code = "
from agent_tools import call_many
rows = call_many('echo', ({'n': n, 's': 'x' * 500_000} for n in range(80)))
print([row['n'] for row in rows] == list(range(80)), len(rows[79]['s']))
";
    let ran = attack(code, |_| {}).await;
    assert_eq!(ran.stdout, "True 500000\n", "{}", ran.shown());
}

#[tokio::test]
async fn the_runner_taken_apart() {
    let table = [
        ("import sys\nsys.modules.clear()\nprint('still')", "still\n"),
        ("import sys\nsys.stdout = sys.stderr = None", ""),
        ("import sys\nsys.stdout.close()", ""),
        (
            "import builtins\nkept = vars(builtins)\nfor name in list(kept):\n    if name != 'print': del kept[name]\nprint('bare')",
            "bare\n",
        ),
        (
            "import script_channel\nscript_channel.send = script_channel.end = None\nprint('x')",
            "x\n",
        ),
        ("import os\nfor n in range(1000):\n    try: os.close(n)\n    except OSError: pass", ""),
    ];
    for (code, printed) in table {
        let ran = attack(code, |job| job.limits.timeout = Duration::from_secs(10)).await;
        assert_eq!(ran.stdout, printed, "{code}\n{}", ran.shown());
        let fine = matches!(ran.finished.ending, Ending::Completed | Ending::Failed { .. });
        assert!(fine, "{code}\n{}", ran.shown());
    }
}

#[tokio::test]
async fn a_fork_bomb() {
    let code = "
import os
while True:
    try: os.fork()
    except OSError: pass
";
    let ran = attack(code, |job| job.limits.timeout = Duration::from_secs(3)).await;
    // Where the tree is watched for want of control groups, its processes can meet the memory limit.
    let limits = [Ending::TimedOut, Ending::ProcessLimit, Ending::MemoryLimit];
    let ended = limits.contains(&ran.finished.ending);
    assert!(ended, "{}", ran.shown());
}

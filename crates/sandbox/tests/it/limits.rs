//! Each limit bites, on the tree as a whole, and the answer says which it was. With control groups
//! where there are some, and without.

use std::time::Duration;

use sandbox::{Ending, Options, Sandbox, Spec};

use crate::ground::{python, run, shell, text};

async fn sandboxes() -> Vec<(&'static str, Sandbox)> {
    let watched = Options { without_cgroups: true, ..Options::default() };
    vec![
        ("groups", Sandbox::start(Options::default()).await.unwrap()),
        ("watched", Sandbox::start(watched).await.unwrap()),
    ]
}

async fn check(make: impl Fn() -> Spec, expected: Ending) {
    for (name, sandbox) in sandboxes().await {
        let ended = run(&sandbox, make()).await;
        let said = text(&ended.stdout.head) + &text(&ended.stderr.head);
        assert_eq!(ended.ending, expected, "{name}: {said} {:?}", ended.usage);
    }
}

fn small(mut spec: Spec) -> Spec {
    spec.limits.memory = 96 << 20;
    spec
}

#[tokio::test]
async fn memory_of_one_process() {
    for (name, sandbox) in sandboxes().await {
        let by_group = sandbox.level().layers.iter().any(|l| l.name == "cgroup memory" && l.works);
        let grow = "x = []\nwhile True: x.append(bytearray(1 << 20))";
        let ended = run(&sandbox, small(python(grow))).await;
        // Without a group the process itself meets its data limit first and says MemoryError.
        let error = text(&ended.stderr.head);
        let met = ended.ending == Ending::MemoryLimit
            || (!by_group && ended.ending == Ending::Exited(1) && error.contains("MemoryError"));
        assert!(met, "{name}: {:?} {error}", ended.ending);
    }
}

#[tokio::test]
async fn memory_shared_between_processes() {
    let script = "import mmap, time\nm = mmap.mmap(-1, 300 << 20)\nfor i in range(0, 300 << 20, 4096): m[i] = 1\ntime.sleep(5)";
    check(|| small(python(script)), Ending::MemoryLimit).await;
}

#[tokio::test]
async fn memory_of_many_processes_together() {
    let script = "import os, time\nfor i in range(8):\n if os.fork() == 0:\n  x = bytearray(40 << 20)\n  for j in range(0, len(x), 4096): x[j] = 1\n  time.sleep(9); os._exit(0)\nfor i in range(8):\n if os.wait()[1]: raise SystemExit(3)";
    check(|| small(python(script)), Ending::MemoryLimit).await;
}

#[tokio::test]
async fn memory_in_temporary_files() {
    let script = "import time\nf = open('/dev/shm/x', 'wb')\nfor i in range(150): f.write(bytes(1 << 20)); f.flush()\ntime.sleep(5)";
    check(|| small(python(script)), Ending::MemoryLimit).await;
}

#[tokio::test]
async fn forked_copies_count_once() {
    let script = "import os, time\nx = bytearray(50 << 20)\nfor j in range(0, len(x), 4096): x[j] = 1\nfor i in range(6):\n if os.fork() == 0:\n  time.sleep(0.5); os._exit(0)\nfor i in range(6): os.wait()\nprint('fine')";
    check(|| small(python(script)), Ending::Exited(0)).await;
}

#[tokio::test]
async fn processes() {
    let script = "import os, time\ntry:\n while True:\n  if os.fork() == 0: time.sleep(30); os._exit(0)\nexcept OSError as error: print(error.errno); raise SystemExit(4)";
    check(
        || {
            let mut spec = python(script);
            spec.limits.processes = 20;
            spec
        },
        Ending::ProcessLimit,
    )
    .await;
}

#[tokio::test]
async fn a_fork_bomb_is_gone_at_the_timeout() {
    check(
        || {
            let mut spec = python("import os\nwhile True:\n try: os.fork()\n except OSError: pass");
            spec.limits.wall = Duration::from_millis(700);
            spec
        },
        Ending::TimedOut,
    )
    .await;
}

#[tokio::test]
async fn file_size() {
    let mut spec =
        shell("ulimit -f; head -c 3000000 /dev/zero > /tmp/x; ls -l /tmp/x | cut -d' ' -f5");
    spec.limits.file_size = 1 << 20;
    let sandbox = Sandbox::start(Options::default()).await.unwrap();
    let said = text(&run(&sandbox, spec).await.stdout.head);
    assert!(said.ends_with("1048576\n"), "{said}");
}

#[tokio::test]
async fn a_share_of_cpu() {
    let sandbox = Sandbox::start(Options::default()).await.unwrap();
    if !sandbox.level().layers.iter().any(|layer| layer.name == "cgroup cpu" && layer.works) {
        return;
    }
    let mut spec = python("while True: pass");
    spec.limits.cpu_percent = Some(20);
    spec.limits.wall = Duration::from_millis(1500);
    let ended = run(&sandbox, spec).await;
    assert_eq!(ended.ending, Ending::TimedOut);
    assert!(ended.usage.cpu < Duration::from_millis(600), "{:?}", ended.usage);
}

#[tokio::test]
async fn time_begins_when_what_waits_is_told_to_begin() {
    for (name, sandbox) in sandboxes().await {
        let mut spec = shell("read line <&3; sleep 60");
        let (stdin, _kept) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        spec.fds = vec![(3, stdin)];
        spec.limits.wall = Duration::from_millis(200);
        spec.waits = Some(Duration::from_secs(300));
        let mut running = sandbox.spawn(spec).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert!(!running.is_over(), "{name}: it was ended by a time that had not begun");
        running.begin();
        let ended = tokio::time::timeout(Duration::from_secs(60), running.wait()).await.unwrap();
        assert_eq!(ended.ending, Ending::TimedOut, "{name}");
        assert!(ended.usage.wall < Duration::from_millis(1500), "{name}: {:?}", ended.usage);
        assert!(running.is_over(), "{name}");
    }
}

#[tokio::test]
async fn what_waits_too_long_is_ended() {
    for (name, sandbox) in sandboxes().await {
        let mut spec = shell("sleep 60");
        spec.waits = Some(Duration::from_millis(200));
        let ended = run(&sandbox, spec).await;
        assert_eq!(ended.ending, Ending::TimedOut, "{name}");
    }
}

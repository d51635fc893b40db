//! A program starts, says something and ends; each ending is told apart.

use std::time::{Duration, Instant};

use sandbox::{Ending, Error, Output};

use crate::ground::{program, python, run, sandbox, shell, text};

#[tokio::test]
async fn says_what_it_prints_and_how_it_ended() {
    let sandbox = sandbox().await;
    let ended = run(&sandbox, shell("echo out; echo oops >&2; exit 7")).await;
    assert_eq!(
        (ended.ending, text(&ended.stdout.head), text(&ended.stderr.head)),
        (Ending::Exited(7), "out\n".to_owned(), "oops\n".to_owned())
    );
    let ended = run(&sandbox, shell("kill -SEGV $$")).await;
    assert_eq!(ended.ending, Ending::Signaled(11));
    let ended = run(&sandbox, python("import os; os.abort()")).await;
    assert_eq!(ended.ending, Ending::Signaled(6));
}

#[tokio::test]
async fn is_a_stranger_on_a_neutral_machine() {
    let sandbox = sandbox().await;
    let ended =
        run(&sandbox, shell("id -u; id -g; hostname; echo $$; ls /; cat /etc/passwd")).await;
    let said = text(&ended.stdout.head);
    assert!(said.starts_with("1000\n1000\nsandbox\n2\n"), "{said}{}", text(&ended.stderr.head));
    assert!(!said.contains("home\n") && !said.contains("root\n"), "{said}");
    assert_eq!(said.matches(":x:").count(), 3, "{said}");
}

#[tokio::test]
async fn a_timeout_ends_what_ignores_signals() {
    let sandbox = sandbox().await;
    let mut spec = shell("trap '' TERM INT HUP XCPU; echo begun; while :; do sleep 1; done");
    spec.limits.wall = Duration::from_millis(400);
    let began = Instant::now();
    let ended = run(&sandbox, spec).await;
    assert_eq!((ended.ending, text(&ended.stdout.head)), (Ending::TimedOut, "begun\n".to_owned()));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_daemon_that_holds_the_output_open_ends_with_the_program() {
    let sandbox = sandbox().await;
    let began = Instant::now();
    let ended = run(
        &sandbox,
        python(
            "import os\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n  import time\n  time.sleep(60)\n os._exit(0)\nprint('main ends')",
        ),
    )
    .await;
    assert_eq!(
        (ended.ending, text(&ended.stdout.head)),
        (Ending::Exited(0), "main ends\n".to_owned())
    );
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_flood_is_counted_and_cut() {
    let sandbox = sandbox().await;
    let mut spec = shell("head -c 100000000 /dev/zero; echo end");
    spec.stdout = Output::Capture { head: 1000, tail: 4 };
    let ended = run(&sandbox, spec).await;
    assert_eq!(ended.ending, Ending::Exited(0));
    assert_eq!(ended.stdout.total, 100_000_004);
    assert_eq!((ended.stdout.head.len(), text(&ended.stdout.tail)), (1000, "end\n".to_owned()));
}

#[tokio::test]
async fn a_kill_says_cancelled_and_a_drop_kills() {
    let sandbox = sandbox().await;
    let mut running = sandbox.spawn(shell("sleep 60")).await.unwrap();
    running.kill();
    assert_eq!(running.wait().await.ending, Ending::Cancelled);

    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let mut spec = shell("echo begun >&5; sleep 60");
    spec.fds = vec![(5, writer)];
    let running = sandbox.spawn(spec).await.unwrap();
    let mut buffer = [0; 16];
    assert_eq!(rustix::io::read(&reader, &mut buffer).unwrap(), 6);
    drop(running);
    // The end of the pipe: nobody holds the other end any more.
    let end = tokio::task::spawn_blocking(move || rustix::io::read(&reader, &mut [0; 16]).unwrap());
    assert_eq!(tokio::time::timeout(Duration::from_secs(5), end).await.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn what_cannot_be_executed_is_named() {
    let sandbox = sandbox().await;
    let error = sandbox.spawn(program("/usr/bin/no-such-program", &[])).await.unwrap_err();
    let Error::BadSpec(message) = error else { panic!("{error:?}") };
    assert!(message.contains("/usr/bin/no-such-program cannot be executed"), "{message}");
    let error = sandbox.spawn(program("bin/sh", &[])).await.unwrap_err();
    assert!(error.to_string().contains("absolute"), "{error}");
}

//! A program starts, says something and ends; each ending is told apart.

use sandbox::Ending;

use crate::ground::{python, run, sandbox, shell, text};

#[tokio::test]
async fn says_what_it_prints_and_how_it_ended() {
    let sandbox = sandbox().await;
    let ended = run(&sandbox, shell("id; ls /; ls /dev /etc; cat /proc/self/status; ls /proc; cat /proc/mounts; echo oops >&2; exit 7")).await;
    eprintln!("{}\n{}", text(&ended.stdout.head), text(&ended.stderr.head));
    assert_eq!(ended.ending, Ending::Exited(7));
    let ended = run(&sandbox, python("import os; print(os.getpid(), os.uname().nodename); os.kill(os.getpid(), 15)")).await;
    eprintln!("{}\n{}", text(&ended.stdout.head), text(&ended.stderr.head));
    assert_eq!(ended.ending, Ending::Signaled(15));
    eprintln!("{ended:?}");
}

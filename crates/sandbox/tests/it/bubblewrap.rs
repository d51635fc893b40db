//! The way through bubblewrap, forced: the same specs, the same answers.

use std::time::Duration;

use sandbox::{Access, Ending, Mount, Options, Sandbox, Source, Way};

use crate::ground::{program, python, run, shell, skip, text};

async fn bubblewrap() -> Option<Sandbox> {
    if !std::path::Path::new("/usr/bin/bwrap").exists() {
        skip("bubblewrap is not installed");
        return None;
    }
    let options = Options { way: Some(Way::Bubblewrap), ..Options::default() };
    Some(Sandbox::start(options).await.unwrap())
}

#[tokio::test]
async fn runs_the_same_specs() {
    let Some(sandbox) = bubblewrap().await else { return };
    assert_eq!(sandbox.level().name, "weaker");
    let ended = run(&sandbox, shell("id -u; hostname; echo $$; ls /; exit 7")).await;
    let said = text(&ended.stdout.head);
    assert_eq!(ended.ending, Ending::Exited(7), "{said}");
    assert!(said.starts_with("1000\nsandbox\n2\n") && !said.contains("home\n"), "{said}");
    assert_eq!(run(&sandbox, shell("kill -SEGV $$")).await.ending, Ending::Signaled(11));
    let error = sandbox.spawn(program("/usr/bin/no-such-program", &[])).await.unwrap_err();
    assert!(error.to_string().contains("cannot be executed"), "{error}");
}

#[tokio::test]
async fn mounts_what_was_meant() {
    let Some(sandbox) = bubblewrap().await else { return };
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join(".agent")).unwrap();
    let mount = |source: std::path::PathBuf, target: &str, access| Mount {
        source: Source::Path(source),
        target: target.into(),
        access,
    };
    let mut spec = shell("echo new > file; (echo x > .agent/x) 2>&1; (echo x > /usr/x) 2>&1; pwd");
    spec.cwd = "/workspace".into();
    spec.mounts = vec![
        mount(place.path().to_owned(), "/workspace", Access::ReadWrite),
        mount(place.path().join(".agent"), "/workspace/.agent", Access::ReadOnly),
    ];
    let ended = run(&sandbox, spec).await;
    let said = text(&ended.stdout.head) + &text(&ended.stderr.head);
    assert!(said.ends_with("/workspace\n"), "{said}");
    assert_eq!(std::fs::read_to_string(place.path().join("file")).unwrap(), "new\n");
    assert!(!place.path().join(".agent/x").exists());

    let other = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/etc", place.path().join("link")).unwrap();
    let mut spec = shell("true");
    spec.mounts = vec![
        mount(place.path().to_owned(), "/workspace", Access::ReadWrite),
        mount(other.path().to_owned(), "/workspace/link", Access::ReadOnly),
    ];
    let error = sandbox.spawn(spec).await.unwrap_err().to_string();
    assert!(error.contains("/workspace/link"), "{error}");
}

#[tokio::test]
async fn ends_everything_in_time() {
    let Some(sandbox) = bubblewrap().await else { return };
    let mut spec = shell("trap '' TERM; (sleep 60 &) ; sleep 60");
    spec.limits.wall = Duration::from_millis(300);
    assert_eq!(run(&sandbox, spec).await.ending, Ending::TimedOut);
    let mut running = sandbox.spawn(shell("sleep 60")).await.unwrap();
    running.kill();
    assert_eq!(running.wait().await.ending, Ending::Cancelled);
}

#[tokio::test]
async fn holds_limits_and_gives_only_named_descriptors() {
    let Some(sandbox) = bubblewrap().await else { return };
    let mut spec = python(
        "import mmap\nm = mmap.mmap(-1, 300 << 20)\nfor i in range(0, 300 << 20, 4096): m[i] = 1\nimport time; time.sleep(5)",
    );
    spec.limits.memory = 96 << 20;
    assert_eq!(run(&sandbox, spec).await.ending, Ending::MemoryLimit);
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let mut spec = python("import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd')))");
    spec.fds = vec![(6, reader)];
    assert_eq!(text(&run(&sandbox, spec).await.stdout.head), "[0, 1, 2, 3, 6]\n");
    drop(writer);
}

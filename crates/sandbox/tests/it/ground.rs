//! What the tests share: a sandbox, specs of small programs, and the way to run them.

use std::time::Duration;

use sandbox::{Ended, Options, Output, Sandbox, Spec};

/// A spec of a program with captured outputs and small limits.
pub(crate) fn program(path: &str, args: &[&str]) -> Spec {
    let mut spec = Spec::new(path);
    spec.args = args.iter().map(Into::into).collect();
    spec.env = vec![("PATH".into(), "/usr/bin:/bin".into())];
    spec.stdout = Output::Capture { head: 1 << 20, tail: 1 << 10 };
    spec.stderr = Output::Capture { head: 1 << 20, tail: 1 << 10 };
    spec.limits.wall = Duration::from_secs(20);
    spec
}

pub(crate) fn shell(script: &str) -> Spec {
    program("/bin/sh", &["-c", script])
}

pub(crate) fn python(script: &str) -> Spec {
    program("/usr/bin/python3", &["-I", "-c", script])
}

pub(crate) async fn sandbox() -> Sandbox {
    Sandbox::start(Options::default()).await.unwrap()
}

pub(crate) async fn run(sandbox: &Sandbox, spec: Spec) -> Ended {
    let mut running = sandbox.spawn(spec).await.unwrap();
    tokio::time::timeout(Duration::from_secs(40), running.wait())
        .await
        .expect("the run ends in time")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Says aloud that a test cannot run here; fails where everything is required to.
pub(crate) fn skip(why: &str) {
    assert!(
        std::env::var_os("PINFOLD_TEST_REQUIRE").is_none_or(|value| value != "all"),
        "a test that is required cannot run: {why}"
    );
    let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("SKIPPED: {why}\n"));
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

//! What the host gives is said, and the ways that can be forced are taken.

use sandbox::{Level, Options, Sandbox};

#[tokio::test]
async fn the_level_names_every_layer() {
    let sandbox = Sandbox::start(Options::default()).await.unwrap();
    let level = sandbox.level();
    eprintln!("{}", serde_json::to_string_pretty(level).unwrap());
    for name in [
        "namespaces",
        "kernel",
        "seccomp",
        "landlock",
        "cgroup memory",
        "cgroup processes",
        "cgroup cpu",
        "self-test",
    ] {
        assert!(level.layers.iter().any(|layer| layer.name == name), "{name}: {level:?}");
    }
    let bounded = level.layers.iter().all(|layer| layer.works || layer.hint.is_some());
    assert!(bounded, "{level:?}");
    assert!(!Level::of_host().layers.is_empty());
}

#[tokio::test]
async fn without_control_groups_the_level_is_weaker() {
    let options = Options { without_cgroups: true, ..Options::default() };
    let sandbox = Sandbox::start(options).await.unwrap();
    assert_eq!(sandbox.level().name, "weaker");
}

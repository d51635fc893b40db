//! Each layer can be left out alone, and then really is.

use sandbox::LeftOut::{self, *};
use sandbox::{Ending, Output};

use crate::ground::{is_root, program, run, sandbox, shell, text};

const ALL: &[LeftOut] = &[
    Seccomp,
    Landlock,
    Capabilities,
    NoNewPrivs,
    UserNamespace,
    PidNamespace,
    MountView,
    ReadOnly,
    NetNamespace,
    IpcNamespace,
    UtsNamespace,
    CgroupNamespace,
    CgroupMemory,
    CgroupPids,
    Rlimits,
    ProcMasks,
    MinimalDev,
    CloseFds,
    CleanEnvironment,
    Nosuid,
    Setsid,
    Wall,
    OutputCap,
    TmpLimits,
    Watch,
];

#[tokio::test]
async fn each_layer_can_be_left_out() {
    let sandbox = sandbox().await;
    for layer in ALL {
        let mut spec = program("/bin/true", &[]);
        spec.leave_out = vec![*layer];
        let ended = run(&sandbox, spec).await;
        assert_eq!(ended.ending, Ending::Exited(0), "{layer:?}");
    }
}

#[tokio::test]
async fn a_layer_left_out_is_gone() {
    let sandbox = sandbox().await;
    let host = text(&std::fs::read("/proc/sys/kernel/hostname").unwrap());
    let link = |name: &str| {
        std::fs::read_link(format!("/proc/self/ns/{name}")).unwrap().display().to_string() + "\n"
    };
    type Row = (LeftOut, &'static str, Box<dyn Fn(&str) -> bool>);
    let rows: Vec<Row> = vec![
        (Seccomp, "grep Seccomp: /proc/self/status", Box::new(|s| s.contains("\t0"))),
        (NoNewPrivs, "grep NoNewPrivs /proc/self/status", Box::new(|s| s.contains("\t0"))),
        (
            Capabilities,
            "grep CapEff /proc/self/status; id -u",
            Box::new(|s| s.contains("ffff") && s.ends_with("\n0\n")),
        ),
        (MountView, "ls /", Box::new(|s| s.contains("home\n"))),
        (UtsNamespace, "cat /proc/sys/kernel/hostname", Box::new(move |s| s == host)),
        (NetNamespace, "readlink /proc/self/ns/net", {
            let link = link("net");
            Box::new(move |s| s == link)
        }),
        (IpcNamespace, "readlink /proc/self/ns/ipc", {
            let link = link("ipc");
            Box::new(move |s| s == link)
        }),
        (CgroupNamespace, "readlink /proc/self/ns/cgroup", {
            let link = link("cgroup");
            Box::new(move |s| s == link)
        }),
        (ProcMasks, "cat /proc/cmdline", Box::new(|s| !s.is_empty())),
        (MinimalDev, "ls /dev | wc -l", Box::new(|s| s.trim().parse::<u32>().unwrap() > 20)),
        (CleanEnvironment, "env", {
            let given = shell("").env;
            let ours =
                std::env::vars_os().find(|own| !given.iter().any(|(name, _)| *name == own.0));
            let name = ours.expect("this process has an environment").0.into_string().unwrap();
            Box::new(move |s| s.lines().any(|line| line.starts_with(&format!("{name}="))))
        }),
        (CloseFds, "ls /proc/self/fd | wc -l", Box::new(|s| s.trim().parse::<u32>().unwrap() > 5)),
        (Rlimits, "ulimit -c; ulimit -Hc", Box::new(|s| s != "0\n0\n")),
        (TmpLimits, "df /tmp | tail -1", Box::new(|s| !s.contains("262144"))),
        (PidNamespace, "echo $$; ls /proc | grep -c '^[0-9]'", Box::new(|s| !s.starts_with("2\n"))),
    ];
    for (layer, script, holds) in rows {
        let mut spec = shell(script);
        let with = text(&run(&sandbox, shell(script)).await.stdout.head);
        assert!(!holds(&with), "{layer:?} in force, yet: {with}");
        spec.leave_out = vec![layer];
        let ended = run(&sandbox, spec).await;
        let said = text(&ended.stdout.head);
        assert!(
            holds(&said),
            "{layer:?} as root {}: {said}{}",
            is_root(),
            text(&ended.stderr.head)
        );
    }
    let mut spec = shell("head -c 3000 /dev/zero");
    spec.stdout = Output::Capture { head: 10, tail: 0 };
    spec.leave_out = vec![OutputCap];
    assert_eq!(run(&sandbox, spec).await.stdout.head.len(), 3000);
}

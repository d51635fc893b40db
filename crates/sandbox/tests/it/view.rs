//! What of the host is seen, how it can be written, and which descriptors are open.

use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use sandbox::{Access, Ending, Mount, Source};

use crate::ground::{is_root, program, python, run, sandbox, shell, skip, text};

fn mount(source: &Path, target: &str, access: Access) -> Mount {
    Mount { source: Source::Path(source.to_owned()), target: target.into(), access }
}

#[tokio::test]
async fn a_workspace_keeps_its_owner() {
    let sandbox = sandbox().await;
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("private"), "secret").unwrap();
    std::fs::set_permissions(place.path().join("private"), PermissionsExt::from_mode(0o600))
        .unwrap();
    let mut spec =
        shell("cat private; echo more >> private; mkdir d; echo new > d/new; stat -c %u private d");
    spec.mounts = vec![mount(place.path(), "/workspace", Access::ReadWrite)];
    spec.cwd = "/workspace".into();
    let ended = run(&sandbox, spec).await;
    assert_eq!(
        (ended.ending, text(&ended.stdout.head), text(&ended.stderr.head)),
        (Ending::Exited(0), "secret1000\n1000\n".to_owned(), String::new())
    );
    let owner = std::fs::metadata(place.path()).unwrap().uid();
    assert_eq!(std::fs::metadata(place.path().join("d/new")).unwrap().uid(), owner);
    assert_eq!(std::fs::read_to_string(place.path().join("private")).unwrap(), "secretmore\n");
}

#[tokio::test]
async fn read_only_means_read_only_also_below() {
    let sandbox = sandbox().await;
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join(".agent")).unwrap();
    std::fs::write(place.path().join(".agent/record"), "kept").unwrap();
    let mut spec = shell(
        "echo x > file && echo w1; (echo x > .agent/record) 2>/dev/null || echo r1; (rm -f .agent/record) 2>/dev/null || echo r2; mv .agent other 2>/dev/null || echo r3",
    );
    spec.mounts = vec![
        mount(place.path(), "/workspace", Access::ReadWrite),
        mount(&place.path().join(".agent"), "/workspace/.agent", Access::ReadOnly),
    ];
    spec.cwd = "/workspace".into();
    let ended = run(&sandbox, spec).await;
    assert_eq!(text(&ended.stdout.head), "w1\nr1\nr2\nr3\n", "{}", text(&ended.stderr.head));
    assert_eq!(std::fs::read_to_string(place.path().join(".agent/record")).unwrap(), "kept");

    let mut spec = shell("cat file; (echo y > file) 2>/dev/null || echo refused");
    spec.mounts = vec![mount(place.path(), "/workspace", Access::ReadOnly)];
    spec.cwd = "/workspace".into();
    assert_eq!(text(&run(&sandbox, spec).await.stdout.head), "x\nrefused\n");
}

#[tokio::test]
async fn a_link_planted_as_a_mount_target_is_not_followed() {
    let sandbox = sandbox().await;
    let place = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/etc", place.path().join(".agent")).unwrap();
    let other = tempfile::tempdir().unwrap();
    let mut spec = shell("true");
    spec.mounts = vec![
        mount(place.path(), "/workspace", Access::ReadWrite),
        mount(other.path(), "/workspace/.agent", Access::ReadOnly),
    ];
    let error = sandbox.spawn(spec).await.unwrap_err().to_string();
    assert!(error.contains("/workspace/.agent"), "{error}");
}

#[tokio::test]
async fn a_source_by_descriptor_is_that_very_file() {
    let sandbox = sandbox().await;
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("real")).unwrap();
    std::fs::write(place.path().join("real/it"), "right").unwrap();
    std::os::unix::fs::symlink("real", place.path().join("link")).unwrap();
    let open = || -> OwnedFd {
        std::fs::OpenOptions::new()
            .read(true)
            .custom_flags(libc_o_path())
            .open(place.path().join("link"))
            .unwrap()
            .into()
    };
    let mut spec = shell("cat /w/it");
    spec.mounts =
        vec![Mount { source: Source::Fd(open()), target: "/w".into(), access: Access::ReadOnly }];
    assert_eq!(text(&run(&sandbox, spec).await.stdout.head), "right");

    let fd = open();
    std::fs::rename(place.path().join("real"), place.path().join("moved")).unwrap();
    std::fs::create_dir(place.path().join("real")).unwrap();
    std::fs::write(place.path().join("real/it"), "wrong").unwrap();
    let mut spec = shell("cat /w/it");
    spec.mounts =
        vec![Mount { source: Source::Fd(fd), target: "/w".into(), access: Access::ReadOnly }];
    assert_eq!(text(&run(&sandbox, spec).await.stdout.head), "right");
}

fn libc_o_path() -> i32 {
    rustix::fs::OFlags::PATH.bits() as i32
}

#[tokio::test]
async fn only_the_named_descriptors_are_open() {
    let sandbox = sandbox().await;
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let mut spec = python(
        "import os\nprint(sorted(int(n) for n in os.listdir('/proc/self/fd')))\nprint(os.readlink('/proc/self/fd/0'))\nos.write(7, os.read(3, 4))",
    );
    let (back, there) = rustix::pipe::pipe().unwrap();
    spec.fds = vec![(7, there), (3, reader)];
    rustix::io::write(&writer, b"ping").unwrap();
    let ended = run(&sandbox, spec).await;
    // 4 is the listing itself.
    assert_eq!(
        text(&ended.stdout.head),
        "[0, 1, 2, 3, 4, 7]\n/dev/null\n",
        "{}",
        text(&ended.stderr.head)
    );
    let mut buffer = [0; 8];
    assert_eq!(rustix::io::read(&back, &mut buffer).unwrap(), 4);
}

#[tokio::test]
async fn the_environment_is_exactly_what_was_given() {
    let sandbox = sandbox().await;
    let mut spec = program("/usr/bin/env", &[]);
    spec.env = vec![("A".into(), "1 2\n3".into()), ("EMPTY".into(), "".into())];
    assert_eq!(text(&run(&sandbox, spec).await.stdout.head), "A=1 2\n3\nEMPTY=\n");
}

#[tokio::test]
async fn arguments_and_environment_may_be_large() {
    let sandbox = sandbox().await;
    let large = "x".repeat(120_000);
    let mut spec = program("/bin/sh", &["-c", "echo ${#1} ${#BIG}", "sh", &large]);
    spec.env = vec![("BIG".into(), large.clone().into())];
    assert_eq!(text(&run(&sandbox, spec).await.stdout.head), "120000 120000\n");
}

#[tokio::test]
async fn temporary_files_are_private_and_bounded() {
    let sandbox = sandbox().await;
    let mut spec = shell(
        "echo a > /tmp/a; echo b > /dev/shm/b; ls /tmp /dev/shm/; head -c 9000000 /dev/zero > /dev/shm/big; ls -s /dev/shm/big; (echo x > /usr/x) 2>&1; (echo x > /x) 2>&1",
    );
    spec.limits.tmp_size = 4 << 20;
    let ended = run(&sandbox, spec).await;
    let said = text(&ended.stdout.head);
    assert!(said.starts_with("/dev/shm/:\na\nb\n\n/tmp:\na\nb\n"), "{said}");
    assert!(text(&ended.stderr.head).contains("No space left"), "{}", text(&ended.stderr.head));
    assert_eq!(
        said.matches("ead-only file system").count() + said.matches("ermission denied").count(),
        2,
        "{said}"
    );
    assert_eq!(
        text(&run(&sandbox, shell("ls /tmp /dev/shm/")).await.stdout.head),
        "/dev/shm/:\n\n/tmp:\n"
    );
}

/// Undoes a mount at the end of a test, however it ends.
struct Mounted(std::path::PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = std::process::Command::new("/bin/umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test]
async fn a_file_system_that_cannot_map_owners_is_refused_for_writing_only() {
    if !is_root() {
        return; // An ordinary user's cells need no mapping.
    }
    let place = tempfile::tempdir().unwrap();
    for name in ["lower", "upper", "work", "merged"] {
        std::fs::create_dir(place.path().join(name)).unwrap();
    }
    let at = place.path().display();
    let options = format!("lowerdir={at}/lower,upperdir={at}/upper,workdir={at}/work");
    let merged = place.path().join("merged");
    let mut command = std::process::Command::new("/bin/mount");
    command.args(["-t", "overlay", "overlay", "-o", &options]).arg(&merged);
    if !command.status().is_ok_and(|status| status.success()) {
        return skip("overlay cannot be mounted");
    }
    let _mounted = Mounted(merged.clone());
    std::fs::write(merged.join("file"), "read").unwrap();
    let sandbox = sandbox().await;
    let mut spec = shell("true");
    spec.mounts = vec![mount(&merged, "/workspace", Access::ReadWrite)];
    let error = sandbox.spawn(spec).await.unwrap_err().to_string();
    assert!(error.contains("cannot map owners") && error.contains("move it"), "{error}");
    let mut spec = shell("cat /workspace/file");
    spec.mounts = vec![mount(&merged, "/workspace", Access::ReadOnly)];
    assert_eq!(text(&run(&sandbox, spec).await.stdout.head), "read");
}

//! Files on a disk: what about them stays when they are changed, and what is left.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use serde_json::json;

use crate::ground::{Ground, with_programs};

with_programs!(
    mode_names_and_attributes_stay,
    nothing_is_left_beside_a_file_that_was_changed,
    a_file_that_may_not_be_written_is_not_replaced,
    a_large_file_is_read_by_pages_and_known_by_its_stamp,
    the_search_does_not_wait_for_a_pipe_or_leave_by_a_link,
);

async fn change(ground: &Ground, name: &str) {
    let path = format!("~/{name}");
    ground.ok("Read", json!({"file_path": path})).await;
    let edit = json!({"file_path": path, "old_string": "one", "new_string": "two"});
    ground.ok("Edit", edit).await;
    ground.ok("Write", json!({"file_path": path, "content": "three\n"})).await;
    assert_eq!(ground.bytes(name), b"three\n");
}

async fn mode_names_and_attributes_stay(ground: &Ground) {
    ground.put("run.sh", "one\n");
    let path = ground.host("run.sh");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o751)).unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    let noted = rustix::fs::setxattr(&path, "user.note", b"kept", flags).is_ok();
    let owner = std::fs::metadata(&path).unwrap().uid();
    change(ground, "run.sh").await;
    let after = std::fs::metadata(&path).unwrap();
    assert_eq!((after.mode() & 0o7777, after.uid()), (0o751, owner));
    if noted {
        let mut value = [0; 16];
        let length = rustix::fs::getxattr(&path, "user.note", &mut value[..]).unwrap();
        assert_eq!(&value[..length], b"kept");
    }
    ground.put("name", "one\n");
    std::fs::hard_link(ground.host("name"), ground.host("other-name")).unwrap();
    change(ground, "name").await;
    assert_eq!(ground.bytes("other-name"), b"three\n");
    ground.put("target", "one\n");
    ground.link("link", "target");
    change(ground, "link").await;
    assert!(std::fs::symlink_metadata(ground.host("link")).unwrap().is_symlink());
    assert_eq!(ground.bytes("target"), b"three\n");
}

async fn nothing_is_left_beside_a_file_that_was_changed(ground: &Ground) {
    ground.put("d/a", "one\n");
    change(ground, "d/a").await;
    ground.ok("Write", json!({"file_path": "~/d/b", "content": ""})).await;
    let mut names: Vec<_> = std::fs::read_dir(ground.host("d"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["a", "b"]);
}

async fn a_file_that_may_not_be_written_is_not_replaced(ground: &Ground) {
    if rustix::process::geteuid().is_root() && ground.root != "/workspace" {
        // Root may write everything.
        return;
    }
    ground.put("a", "one\n");
    let path = ground.host("a");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).unwrap();
    ground.ok("Read", json!({"file_path": "~/a"})).await;
    let edit = json!({"file_path": "~/a", "old_string": "one", "new_string": "two"});
    let text = ground.fails("Edit", edit).await;
    assert!(text.contains("does not permit it"), "{text}");
    assert_eq!(ground.bytes("a"), b"one\n");
}

async fn a_large_file_is_read_by_pages_and_known_by_its_stamp(ground: &Ground) {
    let line = format!("{}\n", "x".repeat(99));
    let path = ground.host("large");
    ground.put("large", line.repeat(700_000));
    let text = ground.ok("Read", json!({"file_path": "~/large", "limit": 2})).await;
    assert!(
        text.contains("lines 1 to 2 of a file of 66.8 MB (its lines were not counted)"),
        "{text}"
    );
    let text = ground.ok("Read", json!({"file_path": "~/large", "offset": 700_000})).await;
    assert!(text.starts_with("700000→xxx"), "{text}");
    let text = ground.ok("Read", json!({"file_path": "~/large", "offset": 700_001})).await;
    assert!(text.contains("past the end: ~/large has 700000 lines"), "{text}");
    let refused = json!({"file_path": "~/large", "content": ""});
    let text = ground.fails("Write", refused).await;
    assert!(text.contains("only lines"), "{text}");
    let time = std::time::SystemTime::UNIX_EPOCH;
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    let edit = json!({"file_path": "~/large", "old_string": "y", "new_string": "z"});
    let text = ground.fails("Edit", edit).await;
    assert!(text.contains("has changed"), "{text}");
}

async fn the_search_does_not_wait_for_a_pipe_or_leave_by_a_link(ground: &Ground) {
    ground.put("d/a", "needle\n");
    ground.pipe("d/pipe");
    ground.link("d/out", "/etc");
    ground.link("d/up", "..");
    let found = ground.ok("Grep", json!({"pattern": "needle|root:"})).await;
    assert_eq!(found, "~/d/a\n[1 file]\n[2 links not followed]");
    let found = ground.ok("Glob", json!({"pattern": "**/*"})).await;
    assert_eq!(found, "~/d/a\n[2 links not followed]");
}

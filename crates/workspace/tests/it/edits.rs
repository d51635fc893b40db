//! `Write` and `Edit`: what must have been read, what is compared, and what stays as it is.

use serde_json::json;

use crate::ground::{Ground, everywhere};

everywhere!(
    a_file_is_edited_after_it_was_read_and_not_before,
    edits_and_writes_of_ones_own_need_no_new_read,
    a_file_that_somebody_else_changed_is_read_again,
    a_file_that_was_only_touched_is_edited,
    lines_that_were_not_read_are_not_changed,
    a_file_is_replaced_only_after_all_of_it_was_read,
    line_ends_encodings_and_marks_stay,
    what_does_not_match_is_explained,
    a_new_file_is_made_with_its_folders,
    a_link_is_written_through,
    edits_at_the_same_time_are_all_kept,
    a_file_read_under_another_name_is_known,
    a_file_that_was_removed_and_one_that_became_a_folder,
    bytes_that_are_no_text_are_left_alone,
);

fn edit(path: &str, old: &str, new: &str) -> serde_json::Value {
    json!({"file_path": path, "old_string": old, "new_string": new})
}

async fn read(ground: &Ground, path: &str) {
    ground.ok("Read", json!({"file_path": path})).await;
}

async fn a_file_is_edited_after_it_was_read_and_not_before(ground: &Ground) {
    ground.put("a", "one\ntwo\n");
    let text = ground.fails("Edit", edit("~/a", "one", "1")).await;
    assert!(
        text.contains("~/a was not read with Read in this session")
            && text.contains("Read it first"),
        "{text}"
    );
    read(ground, "~/a").await;
    let text = ground.ok("Edit", edit("~/a", "one", "1")).await;
    assert_eq!(
        text,
        "edited ~/a: 1 place (line 1); the file has 2 lines now\n     1→1\n     2→two\n"
    );
    assert_eq!(ground.bytes("a"), b"1\ntwo\n");
    let text = ground.fails("Edit", edit("~/absent", "a", "b")).await;
    assert!(text.contains("there is no ~/absent"), "{text}");
}

async fn edits_and_writes_of_ones_own_need_no_new_read(ground: &Ground) {
    ground.put("a", "a b c\n");
    read(ground, "~/a").await;
    for (old, new) in [("a", "1"), ("b", "2"), ("c", "3")] {
        ground.ok("Edit", edit("~/a", old, new)).await;
    }
    assert_eq!(ground.bytes("a"), b"1 2 3\n");
    ground.ok("Write", json!({"file_path": "~/a", "content": "x\n"})).await;
    ground.ok("Edit", edit("~/a", "x", "y")).await;
    ground.ok("Write", json!({"file_path": "~/a", "content": "z\n"})).await;
    ground.ok("Write", json!({"file_path": "~/new", "content": "1\n"})).await;
    ground.ok("Edit", edit("~/new", "1", "2")).await;
    assert_eq!((ground.bytes("a"), ground.bytes("new")), (b"z\n".to_vec(), b"2\n".to_vec()));
}

async fn a_file_that_somebody_else_changed_is_read_again(ground: &Ground) {
    ground.put("a", "one\n");
    read(ground, "~/a").await;
    ground.put("a", "uno\n");
    for (tool, arguments) in
        [("Edit", edit("~/a", "uno", "1")), ("Write", json!({"file_path": "~/a", "content": "1"}))]
    {
        let text = ground.fails(tool, arguments).await;
        assert!(
            text.contains("has changed since it was read") && text.contains("Read it again"),
            "{text}"
        );
    }
    assert_eq!(ground.bytes("a"), b"uno\n");
    read(ground, "~/a").await;
    ground.ok("Edit", edit("~/a", "uno", "1")).await;
}

async fn a_file_that_was_only_touched_is_edited(ground: &Ground) {
    ground.put("a", "one\n");
    read(ground, "~/a").await;
    ground.put("a", "other\n");
    ground.put("a", "one\n");
    ground.ok("Edit", edit("~/a", "one", "two")).await;
}

async fn lines_that_were_not_read_are_not_changed(ground: &Ground) {
    let text: String = (1..=100).map(|line| format!("line {line};\n")).collect();
    ground.put("a", &text);
    ground.ok("Read", json!({"file_path": "~/a", "offset": 10, "limit": 10})).await;
    let refused = ground.fails("Edit", edit("~/a", "line 50;", "x")).await;
    assert!(
        refused.contains("lines 50 to 50 of ~/a were not read; Read them (offset 50)"),
        "{refused}"
    );
    let refused = ground.fails("Edit", edit("~/a", "line 19;\nline 20;", "x")).await;
    assert!(refused.contains("lines 19 to 20"), "{refused}");
    ground.ok("Edit", edit("~/a", "line 12;", "one\ntwo\nthree")).await;
    ground.ok("Edit", edit("~/a", "line 19;\n", "")).await;
    let refused = ground.fails("Edit", edit("~/a", "line 20;", "x")).await;
    assert!(refused.contains("lines 21 to 21"), "{refused}");
    let all =
        json!({"file_path": "~/a", "old_string": "line", "new_string": "l", "replace_all": true});
    let refused = ground.fails("Edit", all).await;
    assert!(refused.contains("were not read"), "{refused}");
}

async fn a_file_is_replaced_only_after_all_of_it_was_read(ground: &Ground) {
    ground.put("a", "line\n".repeat(30));
    let write = json!({"file_path": "~/a", "content": "new"});
    let text = ground.fails("Write", write.clone()).await;
    assert!(text.contains("~/a is there already and was not read"), "{text}");
    ground.ok("Read", json!({"file_path": "~/a", "limit": 10})).await;
    let text = ground.fails("Write", write.clone()).await;
    assert!(text.contains("only lines 1 to 10 were read"), "{text}");
    ground.ok("Read", json!({"file_path": "~/a", "offset": 11})).await;
    let text = ground.ok("Write", write).await;
    assert_eq!(text, "replaced ~/a (1 line)");
    assert_eq!(ground.bytes("a"), b"new");
}

async fn line_ends_encodings_and_marks_stay(ground: &Ground) {
    let table: [(&[u8], &str, &str, &[u8]); 5] = [
        (b"a\r\nb\r\nc\r\n", "a\nb", "a\nB", b"a\r\nB\r\nc\r\n"),
        (b"a\r\nb\nc\r\n", "b\nc", "x\nc", b"a\r\nx\nc\r\n"),
        (b"caf\xe9\nb\n", "b", "c", b"caf\xe9\nc\n"),
        (b"\xef\xbb\xbfa\n", "a", "b", b"\xef\xbb\xbfb\n"),
        (b"\tx\n", "\tx", "\ty", b"\ty\n"),
    ];
    for (index, (before, old, new, after)) in table.iter().enumerate() {
        let name = format!("f{index}");
        ground.put(&name, before);
        read(ground, &format!("~/{name}")).await;
        ground.ok("Edit", edit(&format!("~/{name}"), old, new)).await;
        assert_eq!(ground.bytes(&name), *after, "{old:?}");
    }
}

async fn what_does_not_match_is_explained(ground: &Ground) {
    ground.put("a", "let\u{a0}x = 1;\nsame\nsame\n\ttab\n");
    read(ground, "~/a").await;
    let table = [
        ("let x = 1;", "y", "the file has a no-break space (U+00A0), old_string has a blank"),
        ("    tab", "y", "nearest is line 4"),
        ("same\\nsame", "y", "give a real one"),
        (
            "same",
            "y",
            "2 times in ~/a (lines 2, 3); give more of the text around it, or set replace_all",
        ),
        ("", "y", "old_string is empty"),
        ("same", "same", "are the same"),
        ("nothing like it", "y", "old_string is not in ~/a"),
    ];
    let before = ground.bytes("a");
    for (old, new, expected) in table {
        let text = ground.fails("Edit", edit("~/a", old, new)).await;
        assert!(text.contains(expected), "{old:?}: {text}");
    }
    assert_eq!(ground.bytes("a"), before);
    let all =
        json!({"file_path": "~/a", "old_string": "same", "new_string": "x", "replace_all": true});
    let text = ground.ok("Edit", all).await;
    assert!(text.starts_with("edited ~/a: 2 places (line 2, 3)"), "{text}");
    ground.put("empty", "");
    read(ground, "~/empty").await;
    ground.ok("Edit", edit("~/empty", "", "x")).await;
    assert_eq!(ground.bytes("empty"), b"x");
}

async fn a_new_file_is_made_with_its_folders(ground: &Ground) {
    let text = ground.ok("Write", json!({"file_path": "~/a/b/c.txt", "content": "1\n2\n"})).await;
    assert_eq!(text, "made ~/a/b/c.txt (2 lines)");
    assert_eq!(ground.bytes("a/b/c.txt"), b"1\n2\n");
    let wrong = [
        ("~/a/b", "a folder"),
        ("~/a/b/c.txt/d", "not a folder"),
        ("/somewhere/else", "outside of the workspace"),
        ("~/../x", "out"),
        ("~/new/../../../x", "folder that is not there"),
        ("relative", "not an absolute path"),
    ];
    for (path, expected) in wrong {
        let text = ground.fails("Write", json!({"file_path": path, "content": ""})).await;
        assert!(text.contains(expected), "{path}: {text}");
    }
}

async fn a_link_is_written_through(ground: &Ground) {
    ground.put("real", "one\n");
    ground.link("link", "real");
    read(ground, "~/link").await;
    ground.ok("Edit", edit("~/link", "one", "two")).await;
    ground.ok("Edit", edit("~/real", "two", "three")).await;
    ground.ok("Write", json!({"file_path": "~/link", "content": "four\n"})).await;
    assert_eq!(ground.bytes("real"), b"four\n");
    ground.link("dangling", "made");
    ground.ok("Write", json!({"file_path": "~/dangling", "content": "x"})).await;
    assert_eq!(ground.bytes("made"), b"x");
}

async fn edits_at_the_same_time_are_all_kept(ground: &Ground) {
    let text: String = (0..12).map(|line| format!("<{line}>\n")).collect();
    ground.put("a", text);
    read(ground, "~/a").await;
    let edits = (0..12)
        .map(|line| ground.ok("Edit", edit("~/a", &format!("<{line}>"), &format!("({line})"))));
    futures_util::future::join_all(edits).await;
    let expected: String = (0..12).map(|line| format!("({line})\n")).collect();
    assert_eq!(String::from_utf8(ground.bytes("a")).unwrap(), expected);
}

async fn a_file_read_under_another_name_is_known(ground: &Ground) {
    ground.put("folder/a", "one\n");
    ground.link("link", "folder");
    read(ground, "~/folder//./a").await;
    ground.ok("Edit", edit("~/link/a", "one", "two")).await;
    ground.ok("Write", json!({"file_path": "~/link/../folder/a", "content": "x"})).await;
    assert_eq!(ground.bytes("folder/a"), b"x");
}

async fn a_file_that_was_removed_and_one_that_became_a_folder(ground: &Ground) {
    ground.put("a", "one\n");
    read(ground, "~/a").await;
    ground.put("b/c", "");
    let text = ground.fails("Edit", edit("~/b", "one", "two")).await;
    assert!(text.contains("a folder"), "{text}");
    ground.put("x", "one\n");
    read(ground, "~/x").await;
    assert!(ground.is_there("x") && !ground.is_there("y"));
}

async fn bytes_that_are_no_text_are_left_alone(ground: &Ground) {
    let table: [(&[u8], &str); 3] = [
        (b"abc\0def", "it is binary"),
        (b"\xff\xfeh\0i\0", "it is UTF-16"),
        (b"caf\xe9 au lait", "is not UTF-8"),
    ];
    for (index, (bytes, expected)) in table.iter().enumerate() {
        let name = format!("f{index}");
        ground.put(&name, bytes);
        read(ground, &format!("~/{name}")).await;
        let old = if index == 2 { "au lait" } else { "a" };
        let text = ground.fails("Edit", edit(&format!("~/{name}"), old, "é")).await;
        assert!(text.contains(expected), "{text}");
        assert_eq!(ground.bytes(&name), *bytes);
    }
}

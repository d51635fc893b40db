//! `Read`: pages, long lines, what is no text, and what must not be opened.

use serde_json::json;

use crate::ground::{Ground, everywhere, image};

everywhere!(
    a_page_says_where_it_ends_and_how_to_go_on,
    an_empty_file_and_an_offset_past_the_end_are_told_apart,
    long_lines_and_long_pages_are_cut_and_said_to_be,
    only_line_feeds_end_lines,
    images_are_shown_by_what_they_are,
    what_is_no_text_is_described,
    notebooks_are_shown_by_cells,
    other_encodings_are_said,
    paths_that_lead_nowhere_good_are_refused,
    links_are_followed_inside_and_never_outside,
    a_named_pipe_is_refused_at_once,
    wrong_arguments_are_named,
);

fn numbered(lines: u64) -> String {
    (1..=lines).map(|line| format!("line {line}\n")).collect()
}

async fn a_page_says_where_it_ends_and_how_to_go_on(ground: &Ground) {
    ground.put("a.txt", numbered(5000));
    let page = ground.ok("Read", json!({"file_path": "~/a.txt"})).await;
    assert!(page.starts_with("     1→line 1\n     2→line 2\n"), "{page}");
    let end = "  2000→line 2000\n[this is a part: lines 1 to 2000 of 5000; go on with offset 2001]";
    assert!(page.ends_with(end), "{page}");
    let page = ground.ok("Read", json!({"file_path": "~/a.txt", "offset": 10, "limit": 2})).await;
    assert_eq!(
        page,
        "    10→line 10\n    11→line 11\n[this is a part: lines 10 to 11 of 5000; go on with offset 12]"
    );
    let page = ground.ok("Read", json!({"file_path": "~/a.txt", "offset": 5000})).await;
    assert_eq!(page, "  5000→line 5000\n[lines 5000 to 5000, the end of the file]");
    ground.put("b.txt", "\tone\ntwo");
    let whole = ground.ok("Read", json!({"file_path": "~/b.txt"})).await;
    assert_eq!(whole, "     1→\tone\n     2→two\n");
}

async fn an_empty_file_and_an_offset_past_the_end_are_told_apart(ground: &Ground) {
    ground.put("empty", "");
    ground.put("short", "x\n");
    assert_eq!(ground.ok("Read", json!({"file_path": "~/empty"})).await, "[the file is empty]");
    let past = ground.ok("Read", json!({"file_path": "~/short", "offset": 9})).await;
    assert_eq!(past, "[offset 9 is past the end: ~/short has 1 lines]");
}

async fn long_lines_and_long_pages_are_cut_and_said_to_be(ground: &Ground) {
    ground.put("long", format!("{}\nshort\n", "é".repeat(3000)));
    let page = ground.ok("Read", json!({"file_path": "~/long"})).await;
    assert!(page.contains(&format!("{}… [cut: the line has 6000 bytes]\n", "é".repeat(2000))));
    assert!(page.contains("     2→short\n[1 line is longer than 2000 characters, cut"), "{page}");
    ground.put("exact", format!("{}\n", "x".repeat(2000)));
    let page = ground.ok("Read", json!({"file_path": "~/exact"})).await;
    assert!(!page.contains("cut"), "{page}");
    ground.put("wide", format!("{}\n", "y".repeat(1000)).repeat(1000));
    let page = ground.ok("Read", json!({"file_path": "~/wide"})).await;
    assert!(page.len() < 130_000, "{}", page.len());
    assert!(page.contains("of 1000; go on with offset"), "{}", &page[page.len() - 200..]);
}

async fn only_line_feeds_end_lines(ground: &Ground) {
    ground.put("odd", "a\u{b}b\u{c}c\u{85}d\u{2028}e\rf\r\ng");
    let page = ground.ok("Read", json!({"file_path": "~/odd"})).await;
    let shown = "     1→a\u{b}b\u{c}c\u{85}d\u{2028}e\rf\n     2→g\n[some lines end with CRLF; Edit keeps that]";
    assert_eq!(page, shown);
}

async fn images_are_shown_by_what_they_are(ground: &Ground) {
    let png = b"\x89PNG\r\n\x1a\n and more";
    ground.put("picture.txt", png);
    let answer = ground.call("Read", json!({"file_path": "~/picture.txt"})).await;
    assert!(!answer.is_error);
    assert_eq!(image(&answer), ("image/png".to_owned(), png.to_vec()));
    ground.put("no-picture.png", "text\n");
    let text = ground.ok("Read", json!({"file_path": "~/no-picture.png"})).await;
    assert_eq!(text, "     1→text\n");
    let mut large = png.to_vec();
    large.resize(6 << 20, 0);
    ground.put("large.png", large);
    let text = ground.ok("Read", json!({"file_path": "~/large.png"})).await;
    assert!(text.contains("larger than the 5 MB"), "{text}");
}

async fn what_is_no_text_is_described(ground: &Ground) {
    let table: [(&str, &[u8], &str); 4] = [
        ("zip", b"PK\x03\x04\0\0", "ZIP archive"),
        ("pdf", b"%PDF-1.7\nbinary", "pdftotext"),
        ("db", b"SQLite format 3\0....", "SQLite"),
        ("data", b"abc\0def", "binary data"),
    ];
    for (name, bytes, expected) in table {
        ground.put(name, bytes);
        let text = ground.ok("Read", json!({"file_path": format!("~/{name}")})).await;
        assert!(text.contains(expected) && text.starts_with('['), "{text}");
    }
}

async fn notebooks_are_shown_by_cells(ground: &Ground) {
    let notebook = json!({"cells": [{"cell_type": "code", "source": ["x = 1\n", "x"],
        "outputs": [{"output_type": "execute_result", "data": {"text/plain": "1"}}]}]});
    ground.put("n.ipynb", notebook.to_string());
    let text = ground.ok("Read", json!({"file_path": "~/n.ipynb"})).await;
    assert!(text.contains("1→[cell 1 · code]\n     2→x = 1\n     3→x\n"), "{text}");
    assert!(text.contains("[a notebook"), "{text}");
    ground.put("broken.ipynb", "{");
    assert_eq!(ground.ok("Read", json!({"file_path": "~/broken.ipynb"})).await, "     1→{\n");
}

async fn other_encodings_are_said(ground: &Ground) {
    ground.put("latin", b"caf\xe9\n");
    let text = ground.ok("Read", json!({"file_path": "~/latin"})).await;
    assert!(text.contains("caf\u{fffd}\n[some bytes are not UTF-8"), "{text}");
    ground.put("bom", b"\xef\xbb\xbfx\n");
    assert_eq!(ground.ok("Read", json!({"file_path": "~/bom"})).await, "     1→x\n");
    ground.put("wide", b"\xff\xfeh\0i\0\n\0");
    let text = ground.ok("Read", json!({"file_path": "~/wide"})).await;
    assert!(text.contains("1→hi\n[the file is UTF-16"), "{text}");
}

async fn paths_that_lead_nowhere_good_are_refused(ground: &Ground) {
    ground.put("folder/main.rs", "x\n");
    let table = [
        ("main.rs", "not an absolute path"),
        ("/etc/passwd", "/etc/passwd is outside of the workspace; use paths below ~"),
        ("~/../../etc/passwd", "out of the workspace"),
        ("~/folder", "a folder, not a file; use Glob"),
        ("~", "a folder, not a file"),
        ("~/folder/mian.rs", "there is no ~/folder/mian.rs; did you mean ~/folder/main.rs?"),
        ("~/nothing/like/it", "there is no ~/nothing/like/it; use Glob"),
        ("~/folder/main.rs/x", "~/folder/main.rs is a file, not a folder"),
        ("~/a\0b", "NUL"),
    ];
    for (path, expected) in table {
        let text = ground.fails("Read", json!({"file_path": path})).await;
        assert!(text.contains(expected), "{path:?}: {text}");
    }
    let long = format!("~/{}", "x".repeat(300));
    let text = ground.call("Read", json!({"file_path": long})).await;
    assert!(text.is_error, "{}", text.all_text());
    let roundabout = ["~/folder/../folder/./main.rs", "~//folder//main.rs"];
    for path in roundabout {
        assert_eq!(ground.ok("Read", json!({"file_path": path})).await, "     1→x\n", "{path}");
    }
    let around = format!("/x/..{}/folder/main.rs", ground.root);
    assert_eq!(ground.ok("Read", json!({"file_path": around})).await, "     1→x\n");
}

async fn links_are_followed_inside_and_never_outside(ground: &Ground) {
    ground.put("real/a.txt", "inside\n");
    ground.link("relative", "real/a.txt");
    ground.link("folder", "real");
    ground.link("absolute", &ground.path("real/a.txt"));
    ground.link("real/up", "../relative");
    for path in ["~/relative", "~/folder/a.txt", "~/absolute", "~/folder/up", "~/real/../relative"]
    {
        assert_eq!(
            ground.ok("Read", json!({"file_path": path})).await,
            "     1→inside\n",
            "{path}"
        );
    }
    let outside = [
        ("passwd", "/etc/passwd"),
        ("etc", "/etc"),
        ("up", "../../../../../../../etc/passwd"),
        ("proc", "/proc/self/root/etc/passwd"),
        ("sly", "real/../../x"),
    ];
    for (name, target) in outside {
        ground.link(name, target);
        let path = if name == "etc" { "~/etc/passwd".to_owned() } else { format!("~/{name}") };
        for (tool, more) in [
            ("Read", json!({"file_path": path})),
            ("Write", json!({"file_path": path, "content": "x"})),
            ("Edit", json!({"file_path": path, "old_string": "a", "new_string": "b"})),
            ("Grep", json!({"path": path, "pattern": "root"})),
        ] {
            let text = ground.fails(tool, more).await;
            assert!(
                text.contains("outside of the workspace") || text.contains("out of the"),
                "{text}"
            );
        }
    }
    ground.link("round", "round");
    let text = ground.fails("Read", json!({"file_path": "~/round"})).await;
    assert!(text.contains("too many links"), "{text}");
    ground.link("dangling", "nowhere");
    let text = ground.fails("Read", json!({"file_path": "~/dangling"})).await;
    assert!(text.contains("there is no ~/dangling (~/nowhere)"), "{text}");
}

async fn a_named_pipe_is_refused_at_once(ground: &Ground) {
    ground.put("x", "");
    ground.pipe("pipe");
    for (tool, arguments) in [
        ("Read", json!({"file_path": "~/pipe"})),
        ("Write", json!({"file_path": "~/pipe", "content": ""})),
        ("Edit", json!({"file_path": "~/pipe", "old_string": "a", "new_string": "b"})),
        ("Grep", json!({"path": "~/pipe", "pattern": "x"})),
    ] {
        let text = ground.fails(tool, arguments).await;
        assert!(text.contains("a named pipe"), "{text}");
    }
    ground.ok("Grep", json!({"pattern": "x"})).await;
}

async fn wrong_arguments_are_named(ground: &Ground) {
    let table = [
        ("Read", json!({}), "missing field `file_path`"),
        ("Read", json!({"file_path": "~/x", "lines": 1}), "unknown field `lines`"),
        ("Read", json!({"file_path": "~/x", "limit": 0}), "between 1 and 2000"),
        ("Read", json!({"file_path": "~/x", "offset": -1}), "invalid value"),
        ("Grep", json!({"pattern": "x", "head_limit": -1}), "invalid value"),
        ("Grep", json!({"pattern": "x", "output_mode": "all"}), "unknown variant `all`"),
        ("Glob", json!({"pattern": "x", "limit": 5000}), "between 1 and 2000"),
        ("Write", json!("x"), "invalid type"),
    ];
    for (tool, arguments, expected) in table {
        let text = ground.fails(tool, arguments).await;
        assert!(text.contains(expected), "{text}");
    }
}

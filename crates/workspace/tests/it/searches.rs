//! `Grep` and `Glob`: what is found, in which order, and what is said about the rest.

use serde_json::json;

use crate::ground::{Ground, everywhere};

everywhere!(
    globs_have_their_whole_syntax,
    files_come_newest_first_and_are_counted,
    what_is_hidden_is_said_and_can_be_asked_for,
    globs_that_cannot_be_are_refused,
    a_search_shows_paths_lines_or_counts,
    a_search_chooses_files,
    a_search_goes_over_lines_only_when_told,
    a_search_pages_and_tells_the_end_from_nothing,
    long_lines_and_binary_files_are_not_lost_in_silence,
    searches_that_cannot_be_are_refused,
    the_order_is_always_the_same,
);

fn lines(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with('[')).collect()
}

async fn globs_have_their_whole_syntax(ground: &Ground) {
    for name in ["a.rs", "b.ts", "c.tsx", ".hidden", "src/a.rs", "src/deep/x.rs", "src/q1.rs"] {
        ground.put(name, "");
    }
    let table: [(&str, &[&str]); 13] = [
        ("*.rs", &["~/a.rs"]),
        ("**/*.rs", &["~/a.rs", "~/src/a.rs", "~/src/deep/x.rs", "~/src/q1.rs"]),
        ("*.{ts,tsx}", &["~/b.ts", "~/c.tsx"]),
        ("src/[aq]*.rs", &["~/src/a.rs", "~/src/q1.rs"]),
        ("src/q?.rs", &["~/src/q1.rs"]),
        ("src/**", &["~/src/a.rs", "~/src/deep/x.rs", "~/src/q1.rs"]),
        ("src/", &["~/src/a.rs", "~/src/deep/x.rs", "~/src/q1.rs"]),
        ("./src/*.rs", &["~/src/a.rs", "~/src/q1.rs"]),
        ("~/src/a.rs", &["~/src/a.rs"]),
        ("**/deep/**", &["~/src/deep/x.rs"]),
        (".*", &["~/.hidden"]),
        ("[!a].ts", &["~/b.ts"]),
        ("nothing", &["no file matches nothing"]),
    ];
    for (pattern, expected) in table {
        let found = ground.ok("Glob", json!({"pattern": pattern})).await;
        let mut found = lines(&found);
        found.sort_unstable();
        assert_eq!(found, expected, "{pattern}");
    }
    let found = ground.ok("Glob", json!({"pattern": "*.rs", "path": "~/src"})).await;
    assert!(
        found.contains("~/src/a.rs\n") && found.contains("[1 file in folders below match **/*.rs]"),
        "{found}"
    );
}

async fn files_come_newest_first_and_are_counted(ground: &Ground) {
    for index in 0..130 {
        ground.put(&format!("many/f{index:03}"), "");
    }
    let found = ground.ok("Glob", json!({"pattern": "many/*"})).await;
    assert_eq!(lines(&found).len(), 100);
    assert!(
        found.contains("[the newest 100 of 130 files; give a narrower pattern or a higher limit]"),
        "{found}"
    );
    let found = ground.ok("Glob", json!({"pattern": "many/*", "limit": 2000})).await;
    assert_eq!(lines(&found).len(), 130);
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    ground.put("many/f050", "newer");
    let found = ground.ok("Glob", json!({"pattern": "many/*", "limit": 1})).await;
    assert_eq!(lines(&found), ["~/many/f050"]);
}

async fn what_is_hidden_is_said_and_can_be_asked_for(ground: &Ground) {
    ground.put(".gitignore", "node_modules/\n*.log\n!keep.log\n");
    ground.put("sub/.gitignore", "/only-here\n");
    for name in [
        "node_modules/p/i.js",
        "a.log",
        "keep.log",
        "only-here",
        "sub/only-here",
        ".git/config",
        "x.js",
    ] {
        ground.put(name, "needle\n");
    }
    ground.link("link.js", "x.js");
    let found = ground.ok("Glob", json!({"pattern": "**"})).await;
    let mut paths = lines(&found);
    paths.sort_unstable();
    assert_eq!(paths, ["~/.gitignore", "~/keep.log", "~/only-here", "~/sub/.gitignore", "~/x.js"]);
    let said = "[1 folder and 2 files hidden by ignore rules (~/a.log, ~/node_modules, ~/sub/only-here); set include_ignored to look at them; 1 link not followed]";
    assert!(found.contains(said), "{found}");
    let found = ground.ok("Grep", json!({"pattern": "needle"})).await;
    assert!(found.contains("1 folder and 2 files hidden by ignore rules"), "{found}");
    let all = json!({"pattern": "needle", "include_ignored": true});
    let found = ground.ok("Grep", all).await;
    assert!(found.contains("~/node_modules/p/i.js") && !found.contains(".git/config"), "{found}");
    // What is named is looked at, and the rules above it hold there too.
    let found = ground.ok("Grep", json!({"pattern": "needle", "path": "~/.git"})).await;
    assert!(found.contains("~/.git/config"), "{found}");
    let found = ground.ok("Grep", json!({"pattern": "needle", "path": "~/sub"})).await;
    assert!(found.starts_with("no match in"), "{found}");
    let found = ground.ok("Grep", json!({"pattern": "needle", "path": "~/a.log"})).await;
    assert!(found.starts_with("~/a.log"), "{found}");
}

async fn globs_that_cannot_be_are_refused(ground: &Ground) {
    ground.put("a/b", "");
    let table = [
        (json!({"pattern": "../*"}), "give the folder as path instead"),
        (json!({"pattern": "a{b"}), "is no glob"),
        (json!({"pattern": "/etc/*"}), "is not below"),
        (json!({"pattern": "*", "path": "~/a/b"}), "a file, not a folder"),
        (json!({"pattern": "*", "path": "~/c"}), "there is no ~/c"),
        (json!({"pattern": "*", "path": "/etc"}), "outside of the workspace"),
        (json!({"pattern": ""}), "the pattern is empty"),
    ];
    for (arguments, expected) in table {
        let text = ground.fails("Glob", arguments).await;
        assert!(text.contains(expected), "{text}");
    }
}

async fn a_search_shows_paths_lines_or_counts(ground: &Ground) {
    ground.put("a.txt", "one\nneedle two\nthree\nfour\nneedle five\n");
    ground.put("b/c.txt", "Needle\n");
    let found = ground.ok("Grep", json!({"pattern": "needle"})).await;
    assert_eq!(found, "~/a.txt\n[1 file]\n");
    let count = json!({"pattern": "needle", "output_mode": "count", "-i": true});
    let found = ground.ok("Grep", count).await;
    assert_eq!(found, "~/a.txt:2\n~/b/c.txt:1\n[3 matching lines in 2 files]\n");
    let content = json!({"pattern": "needle", "output_mode": "content"});
    let found = ground.ok("Grep", content).await;
    assert_eq!(
        found,
        "~/a.txt:2:needle two\n~/a.txt:5:needle five\n[2 matching lines in 1 file]\n"
    );
    let context = json!({"pattern": "two", "output_mode": "content", "-A": 1, "-B": 1});
    let found = ground.ok("Grep", context).await;
    assert!(found.starts_with("~/a.txt-1-one\n~/a.txt:2:needle two\n~/a.txt-3-three\n"), "{found}");
    let bare = json!({"pattern": "two", "output_mode": "content", "-n": false, "path": "~/a.txt"});
    assert!(ground.ok("Grep", bare).await.starts_with("~/a.txt:needle two\n"));
    ground.put("dash", "--flag\n");
    let found = ground.ok("Grep", json!({"pattern": "--flag"})).await;
    assert!(found.starts_with("~/dash\n"), "{found}");
}

async fn a_search_chooses_files(ground: &Ground) {
    for name in ["a.rs", "b.py", "dist/c.rs", "src/d.rs", "e.tsx"] {
        ground.put(name, "needle\n");
    }
    let table = [
        (json!({"type": "rust"}), vec!["~/a.rs", "~/dist/c.rs", "~/src/d.rs"]),
        (json!({"glob": "*.rs !dist/**"}), vec!["~/a.rs", "~/src/d.rs"]),
        (json!({"glob": "!dist"}), vec!["~/a.rs", "~/b.py", "~/e.tsx", "~/src/d.rs"]),
        (json!({"glob": "*.{ts,tsx},*.py"}), vec!["~/b.py", "~/e.tsx"]),
        (json!({"path": "~/src"}), vec!["~/src/d.rs"]),
        (json!({"path": "~/src/d.rs"}), vec!["~/src/d.rs"]),
    ];
    for (mut arguments, expected) in table {
        arguments["pattern"] = json!("needle");
        arguments["output_mode"] = json!("count");
        let found = ground.ok("Grep", arguments.clone()).await;
        let found: Vec<&str> =
            lines(&found).iter().map(|line| line.trim_end_matches(":1")).collect();
        assert_eq!(found, expected, "{arguments}");
    }
}

async fn a_search_goes_over_lines_only_when_told(ground: &Ground) {
    ground.put("a", "start\nend\n");
    ground.put("crlf", "word\r\n");
    let over = json!({"pattern": "start.*end", "multiline": true, "output_mode": "content"});
    let found = ground.ok("Grep", over).await;
    assert!(found.starts_with("~/a:1:start\n~/a:2:end\n"), "{found}");
    let found = ground.ok("Grep", json!({"pattern": "start.*end"})).await;
    assert!(found.starts_with("no match in 2 files"), "{found}");
    let text = ground.fails("Grep", json!({"pattern": "start\\nend"})).await;
    assert!(text.contains("set multiline"), "{text}");
    let found = ground.ok("Grep", json!({"pattern": "word$"})).await;
    assert!(found.starts_with("~/crlf"), "{found}");
}

async fn a_search_pages_and_tells_the_end_from_nothing(ground: &Ground) {
    let text: String = (1..=600).map(|line| format!("needle {line}\n")).collect();
    ground.put("a", text);
    ground.put("b", "needle last\n");
    let page = |offset: u64, limit: Option<u64>| {
        let mut arguments =
            json!({"pattern": "needle", "output_mode": "content", "offset": offset});
        if let Some(limit) = limit {
            arguments["head_limit"] = json!(limit);
        }
        arguments
    };
    let found = ground.ok("Grep", page(0, None)).await;
    assert_eq!(lines(&found).len(), 250);
    let said =
        "[601 matching lines in 2 files; lines 1 to 250 of 601 shown; go on with offset 250]";
    assert!(found.contains(said), "{found}");
    let found = ground.ok("Grep", page(599, Some(1))).await;
    assert!(found.starts_with("~/a:600:needle 600\n[601"), "{found}");
    let found = ground.ok("Grep", page(600, Some(5))).await;
    assert!(found.starts_with("~/b:1:needle last\n"), "{found}");
    let found = ground.ok("Grep", page(700, None)).await;
    assert_eq!(found, "offset 700 is past the end: there are 601 lines\n");
    let found = ground.ok("Grep", page(0, Some(0))).await;
    assert_eq!(lines(&found).len(), 601);
    let found = ground.ok("Grep", json!({"pattern": "nothing here"})).await;
    assert_eq!(found, "no match in 2 files\n");
}

async fn long_lines_and_binary_files_are_not_lost_in_silence(ground: &Ground) {
    ground.put("min.js", format!("{}needle{}\n", "x".repeat(9000), "y".repeat(9000)));
    ground.put("binary", format!("needle\n{}\0{}", "x\n".repeat(100), "needle\n"));
    let found = ground.ok("Grep", json!({"pattern": "needle", "output_mode": "content"})).await;
    assert!(
        found.contains("needle") && found.contains("[part of a line of 18006 bytes]"),
        "{found}"
    );
    assert!(found.contains("1 binary file not searched"), "{found}");
    assert!(!found.contains("~/binary:"), "{found}");
    let named = json!({"pattern": "needle", "output_mode": "content", "path": "~/binary"});
    let found = ground.ok("Grep", named).await;
    assert!(
        found.starts_with("~/binary:1:needle\n") && found.contains("2 matching lines"),
        "{found}"
    );
}

async fn searches_that_cannot_be_are_refused(ground: &Ground) {
    ground.put("a", "");
    let table = [
        (json!({"pattern": "("}), "is no regular expression"),
        (json!({"pattern": "x{99999}{99999}"}), "is no regular expression"),
        (json!({"pattern": "x", "glob": "{a"}), "is no glob"),
        (json!({"pattern": "x", "type": "rustt"}), "did you mean \"rust\"?"),
        (json!({"pattern": "x", "path": "~/b"}), "there is no ~/b"),
        (json!({"pattern": "x", "path": "b"}), "not an absolute path"),
        (json!({"pattern": "x", "-C": 1000}), "between 0 and 100"),
    ];
    for (arguments, expected) in table {
        let text = ground.fails("Grep", arguments.clone()).await;
        assert!(text.contains(expected), "{arguments}: {text}");
    }
}

async fn the_order_is_always_the_same(ground: &Ground) {
    for index in 0..300 {
        ground.put(&format!("d{}/f{index}", index % 7), "needle\n");
    }
    let search =
        json!({"pattern": "needle", "output_mode": "content", "head_limit": 200, "offset": 50});
    let first = ground.ok("Grep", search.clone()).await;
    for _ in 0..3 {
        assert_eq!(ground.ok("Grep", search.clone()).await, first);
    }
}

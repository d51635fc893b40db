//! Which commands change nothing: decided by their flags, not by their names.
//!
//! A command that is not listed, or has an argument that could be a flag nobody knows, is not
//! harmless; that is no accusation, only the end of what is certain.

use super::script::{Simple, Word};
use super::unwrap;

/// Whatever their arguments.
const ALWAYS: [&str; 62] = [
    "ls",
    "cat",
    "head",
    "tail",
    "wc",
    "stat",
    "pwd",
    "which",
    "whereis",
    "type",
    "true",
    "false",
    "echo",
    "printf",
    "test",
    "[",
    ":",
    "cd",
    "basename",
    "dirname",
    "realpath",
    "readlink",
    "uname",
    "id",
    "whoami",
    "groups",
    "cut",
    "tr",
    "grep",
    "egrep",
    "fgrep",
    "zgrep",
    "diff",
    "cmp",
    "comm",
    "nl",
    "tac",
    "rev",
    "fold",
    "column",
    "paste",
    "join",
    "seq",
    "sleep",
    "md5sum",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "du",
    "df",
    "od",
    "hexdump",
    "strings",
    "jq",
    "ps",
    "free",
    "nproc",
    "uptime",
    "break",
    "continue",
    "return",
    "exit",
];

/// Unless one of these begins a word, as an option with or without a value.
const UNLESS: [(&str, &[&str]); 12] = [
    ("sort", &["-o", "--output", "--compress-program", "-T", "--temporary-directory"]),
    ("rg", &["--pre", "--hostname-bin", "-z", "--search-zip"]),
    ("tree", &["-o", "--output", "-R"]),
    ("file", &["-C", "--compile", "-z", "-Z", "-S"]),
    ("date", &["-s", "--set"]),
    (
        "find",
        &[
            "-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprint0", "-fprintf",
            "-fls",
        ],
    ),
    ("fd", &["-x", "-X", "--exec", "--exec-batch"]),
    ("ag", &["--pager"]),
    ("ack", &["--pager"]),
    ("less", &["-", "+"]),
    ("more", &["-", "+"]),
    ("hostname", &[""]),
];

/// Second arguments of these are written to.
const ONE_FILE: [&str; 2] = ["uniq", "xxd"];

/// Variables that change nothing but what is printed.
const PLAIN: [&str; 12] = [
    "LANG",
    "LANGUAGE",
    "TZ",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "COLUMNS",
    "LINES",
    "TERM",
    "CI",
    "RUST_BACKTRACE",
    "NODE_ENV",
];

/// Whether setting a variable cannot change what a program is or does beyond its words.
pub(super) fn plain_variable(name: &str) -> bool {
    PLAIN.contains(&name) || name.starts_with("LC_")
}

/// Whether a command by itself changes nothing; what it is connected with is judged elsewhere.
pub(super) fn is(simple: &Simple) -> bool {
    if !simple.assigned.iter().all(|name| plain_variable(name)) {
        return false;
    }
    let Some(first) = simple.words.first() else { return true };
    // Not `./ls`: by which file a name is meant is known for plain names only.
    let Some(name) = first.whole().filter(|name| !name.contains('/')) else { return false };
    let rest = &simple.words[1..];
    if ALWAYS.contains(&name) {
        // `printf -v` sets a variable, of which the index is evaluated.
        return name != "printf" || rest.first().is_none_or(|word| word.whole() != Some("-v"));
    }
    let none = |flags: &[&str]| rest.iter().all(|word| !may_begin(word, flags));
    if let Some((_, flags)) = UNLESS.iter().find(|(other, _)| *other == name) {
        return none(flags);
    }
    let words: Option<Vec<&str>> = rest.iter().map(Word::whole).collect();
    if ONE_FILE.contains(&name) {
        let Some(words) = words else { return false };
        let files = words.iter().filter(|word| !word.starts_with('-')).count();
        return files <= 1 && !words.iter().any(|word| word.starts_with("-r"));
    }
    let Some(words) = words else { return false };
    match name {
        "git" => git(&words),
        "command" => matches!(words.first(), Some(&"-v" | &"-V")),
        "sed" => sed(&words),
        "docker" => matches!(
            words.first(),
            Some(&"ps" | &"images" | &"inspect" | &"logs" | &"version" | &"info")
        ),
        "gh" => gh(&words),
        "npm" => matches!(words.first(), Some(&"list" | &"ls" | &"view")) || version(&words),
        "pip" | "pip3" => {
            matches!(words.first(), Some(&"list" | &"show" | &"freeze")) || version(&words)
        }
        "cargo" => {
            matches!(words.first(), Some(&"tree" | &"metadata")) && words.len() == 1
                || version(&words)
        }
        "python" | "python3" | "node" | "rustc" | "go" | "ruby" | "java" | "gcc" | "make"
        | "bash" => version(&words),
        // These are judged by what they run.
        "xargs" | "timeout" | "time" | "nice" | "nohup" | "env" => {
            let inner = unwrap::inner(simple);
            !inner.commands.is_empty() && inner.doubts.is_empty() && inner.commands.iter().all(is)
        }
        _ => false,
    }
}

/// Whether a word is one of these options, or could be.
fn may_begin(word: &Word, flags: &[&str]) -> bool {
    if word.open && (word.text.is_empty() || word.text.starts_with('-')) {
        return true;
    }
    flags.iter().any(|flag| {
        let long = flag.starts_with("--");
        let short = flag.len() == 2 && flag.starts_with('-') && !long;
        if *flag == "-" || *flag == "+" || flag.is_empty() {
            return word.text.starts_with(flag);
        }
        if long {
            // An option may be cut short, and have its value after a `=`.
            let name = word.text.split('=').next().unwrap_or_default();
            return name.len() > 2 && flag.starts_with(name) && name.starts_with("--");
        }
        if short {
            // In a bundle, too.
            let letters = word.text.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
            return letters.is_some_and(|letters| letters.contains(&flag[1..]));
        }
        word.text == *flag
    })
}

fn version(words: &[&str]) -> bool {
    matches!(words, ["--version" | "-V" | "-v" | "version"])
}

/// Printing numbered lines, which is what it is mostly used for.
fn sed(words: &[&str]) -> bool {
    let ["-n", script, files @ ..] = words else { return false };
    let Some(lines) = script.strip_suffix('p') else { return false };
    let plain = lines.chars().all(|c| c.is_ascii_digit() || c == ',' || c == '$');
    plain && files.iter().all(|file| !file.starts_with('-'))
}

fn gh(words: &[&str]) -> bool {
    let looks = matches!(
        words,
        ["pr", "view" | "list" | "status" | "diff" | "checks", ..]
            | ["issue", "view" | "list" | "status", ..]
            | ["repo", "view" | "list", ..]
            | ["run", "view" | "list", ..]
    );
    looks && !words.iter().any(|word| word.starts_with("-w") || word.starts_with("--w"))
}

fn git(words: &[&str]) -> bool {
    let mut words = words;
    while let ["-C", _, rest @ ..] | ["--no-pager" | "--no-optional-locks", rest @ ..] = words {
        words = rest;
    }
    let [verb, rest @ ..] = words else { return false };
    // These name a file to write or a program to run, whatever the verb.
    let dangerous = ["--output", "--ext-diff", "--open-files-in-pager", "--upload-pack", "--exec"];
    let writes = rest.iter().any(|word| {
        let name = word.split('=').next().unwrap_or_default();
        name.len() > 3 && dangerous.iter().any(|flag| flag.starts_with(name))
            || (*verb == "grep" && word.starts_with("-O"))
    });
    if writes {
        return false;
    }
    let only = |flags: &[&str]| {
        rest.iter().all(|word| flags.contains(&word.split('=').next().unwrap_or_default()))
    };
    match *verb {
        "status" | "log" | "diff" | "show" | "ls-files" | "ls-tree" | "cat-file" | "rev-parse"
        | "rev-list" | "describe" | "shortlog" | "blame" | "grep" | "merge-base" | "name-rev"
        | "count-objects" | "diff-tree" | "for-each-ref" | "show-ref" => true,
        "branch" => only(&[
            "-a",
            "-r",
            "-v",
            "-vv",
            "--all",
            "--remotes",
            "--list",
            "--show-current",
            "--sort",
            "--format",
            "--no-color",
            "--column",
        ]),
        "tag" => {
            rest.is_empty()
                || matches!(rest, ["-l" | "--list", patterns @ ..] if patterns.iter().all(|p| !p.starts_with('-')))
        }
        "remote" => matches!(rest, [] | ["-v" | "--verbose"] | ["get-url", _]),
        "config" => matches!(rest, ["--get" | "--get-all", _] | ["--list" | "-l"]),
        "stash" => matches!(rest, ["list"]),
        "reflog" => matches!(rest, [] | ["show", ..]),
        "worktree" => matches!(rest, ["list"]),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::script::parse;
    use super::*;

    #[test]
    fn flags_decide() {
        let harmless = [
            "ls -la",
            "cat a b",
            "grep -rn x .",
            "rg -n x src",
            "find . -name '*.rs' -type f",
            "git status",
            "git diff HEAD~1",
            "git log --format=%H",
            "git -C sub log --oneline",
            "git branch -a",
            "git tag -l 'v*'",
            "git remote -v",
            "sort -u a",
            "uniq -c",
            "sed -n '1,20p' a",
            "LANG=C sort a",
            "python3 --version",
            "git config --get user.name",
            "command -v rg",
            "wc -l $x",
            "ls $x",
            "echo $x",
            "timeout 5 ls",
            "xargs -n 1 grep x",
            "npm ls",
            "gh pr view 1",
            "docker ps -a",
            "jq .a b.json",
            "git stash list",
            "tree -L 2",
        ];
        for text in harmless {
            let script = parse(text);
            assert!(script.commands.iter().all(is), "{text}");
        }
        let not = [
            "git branch -D main",
            "git branch new",
            "git tag -d v1",
            "git tag v1",
            "git remote add o u",
            "git diff --output=f",
            "git log --outp f",
            "find . -delete",
            "find . \"-delete\"",
            "find . -exec rm {} ;",
            "find . $x",
            "rg --pre ./x.sh p",
            "rg --pre=./x p",
            "rg $x",
            "sort -o a b",
            "sort -uo a b",
            "sort --outp=a b",
            "LD_PRELOAD=./x.so ls",
            "PATH=/tmp/p ls",
            "./ls",
            "/tmp/ls",
            "tee a",
            "sed -i s/a/b/ c",
            "sed -n 'w f' a",
            "uniq a b",
            "xxd -r a",
            "date -s now",
            "printf -v a b",
            "python format.py",
            "npm run x",
            "git -c core.pager=x log",
            "git grep -Ovi x",
            "git push",
            "git stash",
            "xargs rm",
            "env rm",
            "awk x",
            "hostname x",
            "less +!ls a",
            "fd -x rm",
            "$x",
            "git $x",
            "git config user.name x",
            "gh pr view --web",
            "time tee x",
            "bash -c ls",
            "xargs",
        ];
        for text in not {
            let script = parse(text);
            assert!(!script.commands.iter().all(is), "{text}");
        }
    }
}

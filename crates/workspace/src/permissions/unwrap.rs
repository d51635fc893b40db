//! Programs that run programs: what `sudo`, `env`, `xargs`, `find -exec`, `sh -c` and the like run
//! is judged as if it stood alone.

use super::script::{self, Script, Simple, Word};

/// Options that take the next word, for each wrapper.
const WITH_VALUE: [(&str, &[&str]); 12] = [
    ("sudo", &["-u", "-g", "-h", "-p", "-C", "-r", "-t", "-T", "-U", "-D", "-R"]),
    ("doas", &["-u", "-C"]),
    ("env", &["-u", "--unset", "-C", "--chdir"]),
    ("nice", &["-n", "--adjustment"]),
    ("ionice", &["-c", "-n", "-p"]),
    ("stdbuf", &["-i", "-o", "-e"]),
    ("timeout", &["-k", "-s", "--kill-after", "--signal"]),
    ("time", &["-f", "-o", "--format", "--output"]),
    (
        "xargs",
        &[
            "-I",
            "-n",
            "-P",
            "-L",
            "-d",
            "-a",
            "-E",
            "-s",
            "--max-args",
            "--max-procs",
            "--delimiter",
            "--arg-file",
            "--replace",
        ],
    ),
    ("exec", &["-a"]),
    ("nohup", &[]),
    ("setsid", &[]),
];

const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "ksh", "ash"];

/// The commands that a command runs besides being run itself, with what is doubtful about them.
pub(super) fn inner(simple: &Simple) -> Script {
    let mut found = Script::default();
    collect(simple, &mut found, 0);
    found
}

fn collect(simple: &Simple, found: &mut Script, depth: usize) {
    if depth > 8 {
        found.doubts.push("it is too deeply nested".to_owned());
        return;
    }
    let Some(name) = name(simple) else { return };
    let rest = &simple.words[1..];
    let before = found.commands.len();
    match name {
        "find" => of_find(rest, found),
        "eval" => {
            let text: Option<Vec<&str>> = rest.iter().map(Word::whole).collect();
            match text {
                Some(words) => script::parse_into(&words.join(" "), found, depth + 1),
                None => found.doubts.push("it evaluates text known only when it runs".to_owned()),
            }
        }
        "command" | "builtin" | "busybox" | "toybox" => {
            let asks =
                rest.first().and_then(Word::whole).is_some_and(|o| ["-v", "-V"].contains(&o));
            if !asks {
                let skipped = rest.iter().skip_while(|word| word.whole() == Some("-p"));
                push(skipped.cloned().collect(), simple, found);
            }
        }
        "env" => of_env(rest, simple, found),
        shell if SHELLS.contains(&shell) => of_shell(rest, found, depth),
        wrapper => {
            let Some((_, with_value)) = WITH_VALUE.iter().find(|(name, _)| *name == wrapper) else {
                return;
            };
            let mut words = after_options(rest, with_value);
            if wrapper == "timeout" && !words.is_empty() {
                words.remove(0);
            }
            if wrapper == "xargs" {
                if words.is_empty() {
                    return;
                }
                words.push(Word { open: true, ..Word::default() });
            }
            push(words, simple, found);
        }
    }
    for index in before..found.commands.len() {
        let inner = found.commands[index].clone();
        collect(&inner, found, depth + 1);
    }
}

/// The name of a program, without the folder it is in.
pub(super) fn name(simple: &Simple) -> Option<&str> {
    let name = simple.words.first()?.whole()?;
    name.rsplit('/').next()
}

fn push(words: Vec<Word>, outer: &Simple, found: &mut Script) {
    if !words.is_empty() {
        let Simple { assigned, redirects, piped, .. } = outer.clone();
        found.commands.push(Simple { words, assigned, redirects, piped });
    }
}

fn after_options(words: &[Word], with_value: &[&str]) -> Vec<Word> {
    let mut words = words.iter();
    while let Some(word) = words.clone().next() {
        let Some(text) = word.whole().filter(|text| text.starts_with('-') && text.len() > 1) else {
            break;
        };
        words.next();
        if text == "--" {
            break;
        }
        if with_value.contains(&text) {
            words.next();
        }
    }
    words.cloned().collect()
}

fn of_env(rest: &[Word], simple: &Simple, found: &mut Script) {
    let splits = rest.iter().filter_map(Word::whole);
    if splits.clone().any(|word| word.starts_with("-S") || word.starts_with("--split-string")) {
        found.doubts.push("it has env split a text into words".to_owned());
    }
    let mut words = after_options(rest, WITH_VALUE[2].1);
    let mut outer = simple.clone();
    while let Some((name, _)) = words.first().and_then(|word| word.text.split_once('=')) {
        outer.assigned.push(name.to_owned());
        words.remove(0);
    }
    push(words, &outer, found);
}

fn of_shell(rest: &[Word], found: &mut Script, depth: usize) {
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        let Some(text) = word.whole() else {
            found.doubts.push("it runs a shell with what is known only when it runs".to_owned());
            return;
        };
        let short = text.starts_with('-') && !text.starts_with("--");
        if short && text.contains('c') {
            match words.next().and_then(Word::whole) {
                Some(text) => script::parse_into(text, found, depth + 1),
                None => found.doubts.push("it runs text known only when it runs".to_owned()),
            }
            return;
        }
        if !text.starts_with('-') {
            return;
        }
    }
}

/// What `-exec` and its like run, with the files that it finds.
fn of_find(rest: &[Word], found: &mut Script) {
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        if !matches!(word.whole(), Some("-exec" | "-execdir" | "-ok" | "-okdir")) {
            continue;
        }
        let mut inner = Vec::new();
        for word in words.by_ref() {
            match word.whole() {
                Some(";" | "+") => break,
                _ if word.text.contains("{}") => inner.push(Word { open: true, ..Word::default() }),
                _ => inner.push(word.clone()),
            }
        }
        if !inner.is_empty() {
            found.commands.push(Simple { words: inner, ..Simple::default() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_inside_is_found() {
        let table: &[(&str, &[&str])] = &[
            ("sudo -u x rm y", &["rm y"]),
            ("env A=1 -i rm", &["-i rm"]),
            ("env -u B A=1 nohup rm", &["nohup rm", "rm"]),
            ("timeout -k 1 5 rm x", &["rm x"]),
            ("xargs -0 -n 1 rm", &["rm "]),
            ("bash -lc 'ls; rm x'", &["ls", "rm x"]),
            ("sh -c \"sh -c 'rm x'\"", &["sh -c rm x", "rm x"]),
            ("eval rm x", &["rm x"]),
            ("find . -name x -exec rm {} ;", &["rm "]),
            ("find . -exec sh -c 'rm x' ';' -print", &["sh -c rm x", "rm x"]),
            ("command rm", &["rm"]),
            ("command -v rm", &[]),
            ("bash script.sh", &[]),
            ("/usr/bin/nice -n 5 rm", &["rm"]),
        ];
        for (text, expected) in table {
            let script = script::parse(text);
            let found = inner(&script.commands[0]);
            let shown: Vec<String> = found
                .commands
                .iter()
                .map(|c| c.words.iter().map(|w| w.text.clone()).collect::<Vec<_>>().join(" "))
                .collect();
            assert_eq!(shown, *expected, "{text:?}");
        }
        for text in ["eval $x", "bash -c $x", "env -S 'rm x'", "sh $x"] {
            let script = script::parse(text);
            assert!(!inner(&script.commands[0]).doubts.is_empty(), "{text}");
        }
    }
}

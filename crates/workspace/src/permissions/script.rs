//! A shell script as the simple commands in it, wherever they stand: in loops, functions,
//! substitutions, here-documents. What cannot be understood is a doubt, never left out.

use tree_sitter::{Node, Parser};

/// Deepest nesting, of syntax and of scripts in scripts.
const DEEPEST: usize = 60;
/// Longest script that is looked at.
const LONGEST: usize = 100_000;

/// What is in a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Script {
    pub(super) commands: Vec<Simple>,
    /// Why it is not wholly understood.
    pub(super) doubts: Vec<String>,
    /// Variables that are set anywhere in it.
    pub(super) assigned: Vec<String>,
}

/// A program with its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Simple {
    /// The name and the arguments; empty for a redirection alone.
    pub(super) words: Vec<Word>,
    /// Variables set for it.
    pub(super) assigned: Vec<String>,
    /// Files it is connected with: whether they are written, and which.
    pub(super) redirects: Vec<(bool, Word)>,
    /// Whether it gets the output of another.
    pub(super) piped: bool,
}

/// One word, without its quotes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Word {
    /// What is known of its beginning; all of it, unless `open`.
    pub(super) text: String,
    /// Whether it goes on with something that is known only when it runs.
    pub(super) open: bool,
    /// Whether it may stand for several files.
    pub(super) pattern: bool,
}

impl Word {
    pub(super) fn known(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    /// All of it, if that is known.
    pub(super) fn whole(&self) -> Option<&str> {
        (!self.open && !self.pattern).then_some(self.text.as_str())
    }
}

/// Parses a script.
pub(super) fn parse(text: &str) -> Script {
    let mut script = Script::default();
    parse_into(text, &mut script, 0);
    script
}

/// Parses a script that stands in another.
pub(super) fn parse_into(text: &str, script: &mut Script, depth: usize) {
    if text.len() > LONGEST || depth > 8 {
        script.doubts.push("it is too long or too deeply nested".to_owned());
        return;
    }
    // Bash reads them as parts of words, the parser as blanks or not at all.
    if let Some(odd) = text.chars().find(|c| c.is_control() && !"\n\t".contains(*c)) {
        script.doubts.push(format!("it has the control character {odd:?}"));
        return;
    }
    let mut parser = Parser::new();
    let parsed = parser
        .set_language(&tree_sitter_bash::LANGUAGE.into())
        .ok()
        .and_then(|()| parser.parse(text, None));
    let Some(tree) = parsed else {
        script.doubts.push("it cannot be parsed".to_owned());
        return;
    };
    let root = tree.root_node();
    if root.has_error() {
        script.doubts.push("it is no complete bash".to_owned());
    }
    Reader { text: text.as_bytes(), script }.statement(root, false, 0);
}

struct Reader<'a> {
    text: &'a [u8],
    script: &'a mut Script,
}

impl Reader<'_> {
    fn doubt(&mut self, what: impl Into<String>) {
        self.script.doubts.push(what.into());
    }

    fn source(&self, node: Node<'_>) -> &str {
        node.utf8_text(self.text).unwrap_or_default()
    }

    fn statement(&mut self, node: Node<'_>, piped: bool, depth: usize) {
        if depth > DEEPEST {
            return self.doubt("it is too deeply nested");
        }
        match node.kind() {
            "comment" => {}
            "program"
            | "list"
            | "subshell"
            | "compound_statement"
            | "do_group"
            | "else_clause"
            | "elif_clause"
            | "if_statement"
            | "while_statement"
            | "case_statement"
            | "negated_command"
            | "command_substitution"
            | "process_substitution"
            | "function_definition" => self.children(node, piped, depth),
            "pipeline" => {
                for index in 0..node.named_child_count() as u32 {
                    if let Some(child) = node.named_child(index) {
                        self.statement(child, piped || index > 0, depth + 1);
                    }
                }
            }
            "redirected_statement" => self.redirected(node, piped, depth),
            "command" | "declaration_command" | "unset_command" => {
                let mut simple = Simple { piped, ..Simple::default() };
                self.command(node, &mut simple, depth);
                self.script.commands.push(simple);
            }
            "variable_assignment" | "variable_assignments" => {
                let mut simple = Simple::default();
                self.assignment(node, &mut simple, depth);
                self.script.assigned.append(&mut simple.assigned);
            }
            "for_statement" => {
                // The variable takes values that are not looked at, so it is unknown where used.
                if let Some(name) = node.child_by_field_name("variable") {
                    let name = self.source(name).to_owned();
                    self.script.assigned.push(name);
                }
                self.children(node, piped, depth);
            }
            "case_item" => self.children(node, piped, depth),
            "test_command" | "c_style_for_statement" => self.expression(node, depth),
            "word"
            | "string"
            | "raw_string"
            | "ansi_c_string"
            | "translated_string"
            | "concatenation"
            | "number"
            | "simple_expansion"
            | "expansion"
            | "variable_name"
            | "extglob_pattern"
            | "regex"
            | "arithmetic_expansion"
            | "brace_expression" => {
                // A value of a loop or a case.
                self.word(node, depth);
            }
            "file_redirect" | "heredoc_redirect" | "herestring_redirect" => {
                let mut simple = Simple { piped, ..Simple::default() };
                self.redirect(node, &mut simple, depth);
                self.script.commands.push(simple);
            }
            other => self.doubt(format!("it has syntax that is not judged ({other})")),
        }
    }

    fn children(&mut self, node: Node<'_>, piped: bool, depth: usize) {
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor) {
            self.statement(child, piped, depth + 1);
        }
    }

    fn redirected(&mut self, node: Node<'_>, piped: bool, depth: usize) {
        let body = node.child_by_field_name("body");
        let mut simple = Simple { piped, ..Simple::default() };
        let mut cursor = node.walk();
        let mut apart = None;
        match body {
            Some(body) if body.kind() == "command" => self.command(body, &mut simple, depth + 1),
            other => apart = other,
        }
        let redirects: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        for child in redirects.into_iter().filter(|child| Some(*child) != body) {
            self.redirect(child, &mut simple, depth + 1);
        }
        if let Some(body) = apart {
            self.statement(body, piped, depth + 1);
        }
        self.script.commands.push(simple);
    }

    fn command(&mut self, node: Node<'_>, simple: &mut Simple, depth: usize) {
        if node.kind() != "command" {
            let keyword = node.child(0).map(|child| self.source(child).to_owned());
            simple.words.push(Word::known(&keyword.unwrap_or_default()));
        }
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor) {
            match child.kind() {
                "variable_assignment" if simple.words.is_empty() => {
                    self.assignment(child, simple, depth + 1);
                }
                // As an argument, of export or the like.
                "variable_assignment" => {
                    let before = simple.assigned.len();
                    self.assignment(child, simple, depth + 1);
                    let names = simple.assigned.split_off(before);
                    self.script.assigned.extend(names);
                }
                "variable_name" => simple.words.push(Word::known(self.source(child))),
                "file_redirect" | "heredoc_redirect" | "herestring_redirect" => {
                    self.redirect(child, simple, depth + 1);
                }
                "command_name" => match child.named_child(0) {
                    Some(name) => {
                        let word = self.word(name, depth + 1);
                        simple.words.push(word);
                    }
                    None => {
                        let name = self.source(child).to_owned();
                        simple.words.push(Word::known(&name));
                    }
                },
                "subshell" => self.doubt("it has syntax that is not judged (subshell)"),
                _ => {
                    let word = self.word(child, depth + 1);
                    simple.words.push(word);
                }
            }
        }
        // Words without a name are not named children: `==`, regular expressions of tests.
        if simple.words.is_empty() && simple.assigned.is_empty() && simple.redirects.is_empty() {
            self.doubt("it has a command without a name");
        }
    }

    fn assignment(&mut self, node: Node<'_>, simple: &mut Simple, depth: usize) {
        if node.kind() == "variable_assignments" {
            let mut cursor = node.walk();
            for child in node.named_children(&mut cursor) {
                self.assignment(child, simple, depth + 1);
            }
            return;
        }
        let Some(name) = node.child_by_field_name("name") else {
            return self.doubt("it sets a variable in a way that is not judged");
        };
        if name.kind() == "subscript" {
            self.expression(name, depth + 1);
        }
        let name = self.source(name).to_owned();
        simple.assigned.push(name.split('[').next().unwrap_or_default().to_owned());
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor).skip(1) {
            self.word(child, depth + 1);
        }
    }

    fn redirect(&mut self, node: Node<'_>, simple: &mut Simple, depth: usize) {
        match node.kind() {
            "file_redirect" => {
                let mut cursor = node.walk();
                let operators = ["<", ">", ">>", "&>", "&>>", ">|", "<&", ">&", "<&-", ">&-", "<>"];
                let operator = node
                    .children(&mut cursor)
                    .map(|child| child.kind())
                    .find(|kind| operators.contains(kind))
                    .unwrap_or_default();
                let mut cursor = node.walk();
                let targets: Vec<Node<'_>> =
                    node.children_by_field_name("destination", &mut cursor).collect();
                if operator.is_empty() {
                    return self.doubt("it has a redirection that is not judged");
                }
                for (index, target) in targets.into_iter().enumerate() {
                    let word = self.word(target, depth + 1);
                    if index > 0 {
                        // The grammar takes words after the first for more of them; they are
                        // arguments.
                        simple.words.push(word);
                        continue;
                    }
                    let number = word.whole().is_some_and(|text| {
                        text == "-"
                            || (!text.is_empty() && text.chars().all(|c| c.is_ascii_digit()))
                    });
                    if operator.contains('&') && !operator.starts_with('&') && number {
                        continue;
                    }
                    simple.redirects.push((operator != "<" && operator != "<&", word));
                }
            }
            "herestring_redirect" => {
                let mut cursor = node.walk();
                for child in node.named_children(&mut cursor) {
                    self.word(child, depth + 1);
                }
            }
            "heredoc_redirect" => {
                let mut cursor = node.walk();
                for child in node.named_children(&mut cursor) {
                    match child.kind() {
                        "heredoc_start" | "heredoc_end" | "file_descriptor" => {}
                        "heredoc_body" => self.expression(child, depth + 1),
                        "file_redirect" | "herestring_redirect" => {
                            self.redirect(child, simple, depth + 1);
                        }
                        "pipeline" | "command" | "list" | "redirected_statement" => {
                            self.statement(child, true, depth + 1);
                        }
                        _ => {
                            let word = self.word(child, depth + 1);
                            simple.words.push(word);
                        }
                    }
                }
            }
            other => self.doubt(format!("it has syntax that is not judged ({other})")),
        }
    }

    /// Only what runs in it matters.
    fn expression(&mut self, node: Node<'_>, depth: usize) {
        if depth > DEEPEST {
            return self.doubt("it is too deeply nested");
        }
        match node.kind() {
            "command_substitution"
            | "process_substitution"
            | "do_group"
            | "compound_statement"
            | "redirected_statement" => self.statement(node, false, depth + 1),
            "variable_assignment" => {
                let mut simple = Simple::default();
                self.assignment(node, &mut simple, depth + 1);
                self.script.assigned.append(&mut simple.assigned);
            }
            // Of an index, of which bash evaluates what a variable holds.
            "subscript" => self.doubt("it has an index that is evaluated when it runs"),
            _ => {
                let mut cursor = node.walk();
                for child in node.named_children(&mut cursor) {
                    self.expression(child, depth + 1);
                }
            }
        }
    }

    fn word(&mut self, node: Node<'_>, depth: usize) -> Word {
        let mut word = Word::default();
        self.piece(node, &mut word, depth);
        word
    }

    fn piece(&mut self, node: Node<'_>, word: &mut Word, depth: usize) {
        if depth > DEEPEST {
            return self.doubt("it is too deeply nested");
        }
        let source = self.source(node).to_owned();
        match node.kind() {
            "word" | "number" if node.named_child_count() == 0 => push_plain(&source, word),
            "raw_string" => push(source.trim_matches('\''), word),
            "ansi_c_string" => {
                let inner = source.strip_prefix("$'").and_then(|rest| rest.strip_suffix('\''));
                match inner {
                    Some(inner) if !inner.contains('\\') => push(inner, word),
                    _ => word.open = true,
                }
            }
            "string" => self.string(node, word, depth),
            "concatenation" => {
                // Brackets and braces between its parts are no parts of their own.
                let mut end = node.start_byte();
                let mut cursor = node.walk();
                let parts: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
                for part in parts {
                    self.between(end, part.start_byte(), word);
                    self.piece(part, word, depth + 1);
                    end = part.end_byte();
                }
                self.between(end, node.end_byte(), word);
            }
            "simple_expansion" if source == "$HOME" => push("~", word),
            "expansion" if source == "${HOME}" => push("~", word),
            _ => {
                word.open = true;
                self.expression(node, depth + 1);
                if node.kind() == "expansion" && source.starts_with("${!") {
                    self.doubt("it has a name that is known only when it runs");
                }
            }
        }
    }

    fn string(&mut self, node: Node<'_>, word: &mut Word, depth: usize) {
        let mut cursor = node.walk();
        let parts: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        let mut at = node.start_byte() + 1;
        let end = node.end_byte().saturating_sub(1).max(at);
        for part in parts {
            if part.kind() == "string_content" {
                continue;
            }
            push_quoted(&String::from_utf8_lossy(&self.text[at..part.start_byte().max(at)]), word);
            self.piece(part, word, depth + 1);
            at = part.end_byte();
        }
        push_quoted(&String::from_utf8_lossy(&self.text[at.min(end)..end]), word);
    }

    fn between(&self, from: usize, to: usize, word: &mut Word) {
        if to > from {
            push_plain(&String::from_utf8_lossy(&self.text[from..to]), word);
        }
    }
}

fn push(text: &str, word: &mut Word) {
    if !word.open {
        word.text.push_str(text);
    }
}

/// Text without quotes: a backslash keeps the next character.
fn push_plain(text: &str, word: &mut Word) {
    let mut characters = text.chars();
    let mut plain = String::new();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('\n') | None => {}
                Some(next) => plain.push(next),
            },
            '*' | '?' | '[' | ']' | '{' | '}' => {
                word.pattern = true;
                plain.push(character);
            }
            other => plain.push(other),
        }
    }
    push(&plain, word);
}

/// Text in double quotes: a backslash keeps some characters only.
fn push_quoted(text: &str, word: &mut Word) {
    let mut characters = text.chars().peekable();
    let mut plain = String::new();
    while let Some(character) = characters.next() {
        match (character, characters.peek()) {
            ('\\', Some('\n')) => {
                characters.next();
            }
            ('\\', Some('"' | '\\' | '$' | '`')) => plain.extend(characters.next()),
            (other, _) => plain.push(other),
        }
    }
    push(&plain, word);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let script = parse(text);
        assert!(script.doubts.is_empty(), "{text:?}: {:?}", script.doubts);
        let shown = |simple: &Simple| {
            let words = simple.words.iter().map(|word| {
                let mark = if word.open {
                    "…"
                } else if word.pattern {
                    "*"
                } else {
                    ""
                };
                format!("{}{mark}", word.text)
            });
            let redirects = simple.redirects.iter().map(|(writes, word)| {
                format!(
                    "{}{}{}",
                    if *writes { ">" } else { "<" },
                    word.text,
                    if word.open { "…" } else { "" }
                )
            });
            words.chain(redirects).collect::<Vec<_>>().join(" ")
        };
        script.commands.iter().map(shown).collect()
    }

    #[test]
    fn every_command_is_found_wherever_it_stands() {
        let table: &[(&str, &[&str])] = &[
            ("ls & rm -rf x", &["ls", "rm -rf x"]),
            ("ls\nrm x", &["ls", "rm x"]),
            ("a | b && c || d; e", &["a", "b", "c", "d", "e"]),
            ("echo $(rm x)", &["rm x", "echo …"]),
            ("echo \"a `rm x` b\"", &["rm x", "echo a …"]),
            ("diff <(a) <(b)", &["a", "b", "diff … …"]),
            ("if a; then b; elif c; then d; else e; fi", &["a", "b", "c", "d", "e"]),
            ("for f in $(a); do b \"$f\"; done > out", &["a", "b …", ">out"]),
            ("while a; do b; done < in", &["a", "b", "<in"]),
            ("case $(a) in x) b;; *) c;; esac", &["a", "b", "c"]),
            ("f() { rm x; }; f", &["rm x", "f"]),
            ("(a; b)", &["a", "b"]),
            ("{ a; } 2>&1", &["a", ""]),
            ("[[ -n $(a) ]] && b", &["a", "b"]),
            ("cat <<EOF\n$(a)\nEOF\nb", &["a", "cat", "b"]),
            ("cat <<EOF | sh\nx\nEOF", &["sh", "cat"]),
            ("! a", &["a"]),
        ];
        for (text, expected) in table {
            let mut found = words(text);
            let mut expected: Vec<String> =
                expected.iter().map(|word| (*word).to_owned()).collect();
            found.retain(|command| !command.is_empty());
            expected.retain(|command| !command.is_empty());
            found.sort();
            expected.sort();
            assert_eq!(found, expected, "{text:?}");
        }
    }

    #[test]
    fn words_lose_their_quotes() {
        let table: &[(&str, &str)] = &[
            ("\\rm 'a b' \"c\\\"d\" e\\ f", "rm a b c\"d e f"),
            ("r'm' x\"y\"z", "rm xyz"),
            ("echo \"$HOME/.bashrc\" ${HOME}/x", "echo ~/.bashrc ~/x"),
            ("a > \"$HOME/.x\"", "a >~/.x"),
            ("a 2>/dev/null >&2 &>> b", "a >/dev/null >b"),
            ("a $x/y", "a …"),
            ("a x*.rs {b,c}", "a x*.rs* {b,c}*"),
            ("find . \"-delete\"", "find . -delete"),
            ("a >out b", "a b >out"),
        ];
        for (text, expected) in table {
            assert_eq!(words(text), [*expected], "{text:?}");
        }
    }

    #[test]
    fn what_is_not_understood_is_a_doubt() {
        for text in ["if", "a 'b", "a <<EOF", "a\u{1}b", "a\rb", "((", "echo ${!x}"] {
            assert!(!parse(text).doubts.is_empty(), "{text:?}: {:?}", parse(text));
        }
    }

    #[test]
    fn variables_that_are_set_are_told() {
        let script = parse("A=1 B=$(x) cmd; C=2; export D=3; declare -x E=4");
        assert_eq!(
            script.commands.iter().find(|c| c.assigned == ["A", "B"]).unwrap().words[0].text,
            "cmd"
        );
        assert_eq!(script.assigned, ["C", "D", "E"]);
    }
}

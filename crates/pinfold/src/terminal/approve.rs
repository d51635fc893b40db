//! Asks a person about one call: shows what would run, so that it cannot look like something else.

use std::fmt::Write as _;
use std::io::BufRead;

use gateway::{Answer, Approval, Choice, Listed};

use crate::show::{self, Shown};

/// Rows of a script that are shown before the person asks for all of it.
const ROWS: usize = 60;

/// Asks and returns the answer; `None` where the terminal was closed.
pub(crate) async fn ask(approval: Approval, tools: Vec<Listed>) -> Option<Answer> {
    // Reading a terminal cannot be cancelled, so it has a thread of its own.
    let asked = tokio::task::spawn_blocking(move || {
        super::forget_typed();
        let mut input = std::io::stdin().lock();
        let mut output = std::io::stderr();
        dialogue(&approval, &tools, &mut input, &mut output).ok().flatten()
    });
    asked.await.ok().flatten()
}

fn dialogue(
    approval: &Approval,
    tools: &[Listed],
    input: &mut dyn BufRead,
    output: &mut dyn std::io::Write,
) -> std::io::Result<Option<Answer>> {
    write!(output, "{}", question(approval, tools, ROWS))?;
    let session = approval.choices.contains(&Choice::Session);
    let long =
        approval.code.as_deref().is_some_and(|code| show::script(code, usize::MAX).len() > ROWS);
    loop {
        write!(
            output,
            "[o] allow once   {}[d] deny{} > ",
            if session { "[s] allow for this session   " } else { "" },
            if long { "   [v] view the whole script" } else { "" }
        )?;
        output.flush()?;
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim();
        match line.split_once(char::is_whitespace).unwrap_or((line, "")) {
            ("o" | "once", "") => return Ok(Some(Answer::Once)),
            ("s" | "session", "") if session => return Ok(Some(Answer::Session)),
            ("d" | "deny", reason) => {
                let mut reason = reason.trim().to_owned();
                if reason.is_empty() {
                    write!(output, "reason (may be empty) > ")?;
                    output.flush()?;
                    input.read_line(&mut reason)?;
                }
                return Ok(Some(Answer::Deny { reason: reason.trim().to_owned() }));
            }
            ("v" | "view", "") if long => {
                let code = approval.code.as_deref().unwrap_or_default();
                for row in show::script(code, usize::MAX) {
                    writeln!(output, "{row}")?;
                }
            }
            _ => {}
        }
    }
}

/// Everything a person needs to decide. An effect that `tools` does not tell is left out.
pub(crate) fn question(approval: &Approval, tools: &[Listed], rows: usize) -> String {
    let mut text = String::new();
    let effect = |name: &str| {
        let tool = tools.iter().find(|tool| tool.name == name);
        tool.map_or(String::new(), |tool| format!(" ({})", word(tool.effect)))
    };
    // Writing into a String cannot fail.
    let _ = match &approval.code {
        Some(_) => writeln!(text, "\nA script asks to change something."),
        None => writeln!(
            text,
            "\n{}{} asks to run.",
            Shown::line(&approval.tool),
            effect(&approval.tool)
        ),
    };
    if let Some(description) = &approval.description {
        let _ = writeln!(text, "  what it says it does: {}", Shown::line(description));
    }
    for listed in &approval.listed {
        let note = if listed.asked { "" } else { ", which needs no approval" };
        let _ = writeln!(
            text,
            "  may call {}{}{note}",
            Shown::line(&listed.name),
            effect(&listed.name)
        );
    }
    for (name, line) in &approval.unlisted {
        let _ = writeln!(
            text,
            "  names {} in line {line} without listing it: that call will be refused",
            Shown::line(name)
        );
    }
    let _ = match &approval.code {
        Some(code) => {
            let shown = show::script(code, rows);
            writeln!(text, "\n{}\n", shown.join("\n"))
        }
        None => writeln!(text, "  with {}\n", Shown::whole(approval.arguments.get())),
    };
    text
}

/// An effect or approval rule as it is written everywhere else.
pub(crate) fn word(value: impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn approval(code: &str) -> Approval {
        Approval {
            id: "a".to_owned(),
            state: gateway::ApprovalState::Open,
            principal: "local".to_owned(),
            profile: "default".to_owned(),
            session: "s".to_owned(),
            tool: "run_script".to_owned(),
            description: Some("restarts\u{1b}[8m everything".to_owned()),
            code: Some(code.to_owned()),
            arguments: Arc::from(
                serde_json::value::RawValue::from_string("{}".to_owned()).unwrap(),
            ),
            listed: vec![gateway::ListedTool { name: "fleet__restart".to_owned(), asked: true }],
            unlisted: vec![("fleet__wipe".to_owned(), 7)],
            choices: vec![Choice::Once, Choice::Deny],
            asked_ms: 0,
            expires_ms: 0,
            answer: None,
        }
    }

    fn answered(approval: &Approval, typed: &str) -> (Option<Answer>, String) {
        let mut output = Vec::new();
        let answer = dialogue(approval, &[], &mut typed.as_bytes(), &mut output).unwrap();
        (answer, String::from_utf8(output).unwrap())
    }

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        let approval = approval("x = 1\n");
        assert_eq!(answered(&approval, "o\n").0, Some(Answer::Once));
        for typed in ["", "\n", "y\n", "yes\n", "O\n", "s\n", "session\n", "v\n", "o o\n"] {
            assert_eq!(answered(&approval, typed).0, None, "{typed:?}");
        }
        let deny = |reason: &str| Some(Answer::Deny { reason: reason.to_owned() });
        assert_eq!(answered(&approval, "d\nnot now\n").0, deny("not now"));
        assert_eq!(answered(&approval, "?\nd too many\n").0, deny("too many"));
        assert_eq!(answered(&approval, "d\n").0, deny(""));
    }

    #[test]
    fn the_question_shows_everything_and_hides_nothing() {
        let (_, shown) = answered(&approval("ok()\r\u{202e}wipe()\n"), "d\n\n");
        assert!(!shown.contains('\u{1b}') && !shown.contains('\u{202e}'), "{shown}");
        for part in [
            r"restarts\u{1b}[8m everything",
            "may call fleet__restart\n",
            "names fleet__wipe in line 7 without listing it",
            r"    1 │ ok()\u{d}\u{202e}wipe()",
        ] {
            assert!(shown.contains(part), "{part} is not in {shown}");
        }
    }

    #[test]
    fn a_long_script_can_be_seen_whole_before_answering() {
        let code: String = (1..=200).map(|n| format!("line_{n}()\n")).collect();
        let (answer, shown) = answered(&approval(&code), "v\no\n");
        assert_eq!(answer, Some(Answer::Once));
        assert!(shown.contains("140 rows are not shown here"), "{shown}");
        assert!(shown.contains("  100 │ line_100()"));
    }
}

//! What a person sees and is asked in a terminal.

pub(crate) mod approve;

pub(crate) mod progress;

use std::io::{IsTerminal, Write};

use crate::show::Shown;

/// Prints on standard output. A reader that has gone away (`| head`) is no error.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Prints what a script or a tool wrote. On a terminal it cannot do more than print lines; into a
/// pipe or a file it goes as it is.
pub(crate) fn print_foreign(text: &str) {
    if !std::io::stdout().is_terminal() {
        return print(text);
    }
    let lines: Vec<String> = text.split('\n').map(neutralised).collect();
    print(&lines.join("\n"));
}

/// A message on standard error. It may quote a script, a server or a file name, so whatever is in
/// it, it is only lines.
pub(crate) fn say(message: &str) {
    let lines: Vec<String> = message.split('\n').map(neutralised).collect();
    let _ = writeln!(std::io::stderr().lock(), "{}", lines.join("\n"));
}

/// Whether there is a person to ask: somebody who sees the question and can answer it.
pub(crate) fn has_person() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

fn neutralised(line: &str) -> String {
    let line = line.replace('\t', "    ");
    Shown::whole(&line).to_string()
}

//! What models are told of `run_script` and its twin: the essentials first, all of it short, and
//! the same from call to call as long as the tools are the same, so that it can be cached.

use super::Reach;
use crate::config::Scripts;
use crate::policy::Effect;
use crate::signature;
use crate::sources::lookup;
use crate::view::{Offered, View};

/// Longest description in bytes: some clients cut what is longer than 2048.
pub(crate) const LIMIT: usize = 2_000;

/// The description.
pub(crate) fn description(scripts: &Scripts, reach: Reach, view: &View) -> String {
    let mut text = fixed(scripts, reach);
    let room = LIMIT.saturating_sub(text.len());
    text.push_str(&Menu::of(view, reach, room).told(view, reach, room));
    text
}

/// Whether all tools that scripts can call stand in the description with their signatures. Where
/// they do not, `list_tools` and `describe_tools` are offered.
pub(crate) fn holds_all(scripts: &Scripts, view: &View) -> bool {
    let room = LIMIT.saturating_sub(fixed(scripts, Reach::All).len());
    matches!(Menu::of(view, Reach::All, room), Menu::Signatures(_))
}

/// What is said of the tools, as much as there is room for.
enum Menu {
    Signatures(String),
    Names(String),
    Search,
}

const SIGNATURES: &str = "\n\nTools (`args` is a dict of these arguments):";
const NAMES: &str = "\n\nTools, whose arguments describe_tools tells:";

impl Menu {
    fn of(view: &View, reach: Reach, room: usize) -> Self {
        let fitting = |start: &str, line: fn(&Offered) -> String| {
            let mut text = start.to_owned();
            for tool in tools(view, reach) {
                text.push('\n');
                text.push_str(&line(tool));
                if tool.facts.effect != Effect::Read {
                    text.push_str("  # write");
                }
                if text.len() > room {
                    return None;
                }
            }
            Some(text)
        };
        if let Some(text) = fitting(SIGNATURES, |tool| signature::of(&tool.known)) {
            return Self::Signatures(text);
        }
        match fitting(NAMES, |tool| tool.known.name.clone()) {
            Some(text) => Self::Names(text),
            None => Self::Search,
        }
    }

    fn told(self, view: &View, reach: Reach, room: usize) -> String {
        match self {
            Self::Signatures(text) | Self::Names(text) => text,
            Self::Search => search(view, reach, room),
        }
    }
}

/// The tools that a script of this reach can call, sorted by name.
fn tools(view: &View, reach: Reach) -> impl Iterator<Item = &Offered> {
    view.tools.iter().filter(move |tool| match reach {
        Reach::All => tool.in_scripts,
        Reach::Read => tool.is_read_by_scripts(),
    })
}

/// Where there are too many tools even for their names: how to find them, and of which servers.
fn search(view: &View, reach: Reach, room: usize) -> String {
    let mut servers: Vec<(&str, usize)> = Vec::new();
    for tool in tools(view, reach) {
        let name = tool.known.source.name();
        match servers.iter_mut().find(|(server, _)| *server == name) {
            Some((_, count)) => *count += 1,
            None => servers.push((name, 1)),
        }
    }
    servers.sort_unstable();
    let all: usize = servers.iter().map(|(_, count)| count).sum();
    let mut text = format!(
        "\n\n{all} tools: find them with {}(query), and how to call them with {}(names). Servers:",
        lookup::LIST,
        lookup::DESCRIBE
    );
    for (place, (server, count)) in servers.iter().enumerate() {
        let more = format!(" {server} ({count}),");
        let rest = format!(" and {} more", servers.len() - place);
        if text.len() + more.len() + rest.len() > room {
            text.push_str(&rest);
            return text;
        }
        text.push_str(&more);
    }
    text.truncate(text.len() - usize::from(text.ends_with(',')));
    text
}

fn fixed(scripts: &Scripts, reach: Reach) -> String {
    let Scripts { max_calls, concurrency, timeout_sec, output_chars, .. } = scripts;
    let what = match reach {
        Reach::All => {
            "Runs a Python script that calls the servers' tools, in a sandbox. Use it for many \
calls, or where results have to be filtered, joined or summed up: only what the script prints comes \
back, so print, in short form, what you need to see."
        }
        Reach::Read => {
            "Like run_script, for scripts that only read: runs a Python script that calls the \
servers' read-only tools, in a sandbox, and changes nothing. Nobody has to approve it. Only what it \
prints comes back, so print, in short form, what you need to see."
        }
    };
    let rules = match reach {
        Reach::All => {
            "List in `tools` every tool you call that changes something; the user may be asked \
once for the whole script. Tools that destroy or are confirmed each time, and those that run as \
tasks, cannot be called here: call them directly. Files written to the current directory, the \
workspace, stay."
        }
        Reach::Read => {
            "Tools that change something cannot be called here: use run_script. The workspace, \
the current directory, is read-only; write to /tmp."
        }
    };
    format!(
        "{what}

from agent_tools import call, call_many, call_raw, progress, ToolError
rows = call_many(\"server__tool\", [{{\"id\": n}} for n in range(500)])
print(sum(1 for row in rows if row[\"ok\"]))

Rules: no network in the sandbox, only tools lead out. {rules} At most {max_calls} calls, \
{concurrency} at once, {timeout_sec} s; output past {output_chars} characters is cut.

call(tool, args) gives the structured result (dict) or else text; raises ToolError (kind, message, \
retryable)
call_many(tool, args_list, return_errors=False) gives results in order, or ToolErrors in their \
places
call_raw(tool, args) gives {{text, structured, is_error}} and does not raise for the tool's own error
progress(done, total, message) is shown to the user"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_tools_whatever_the_bounds_are() {
        let longest = Scripts {
            max_calls: 1_000_000,
            concurrency: 64,
            timeout_sec: 604_800,
            output_chars: 2_000_000,
            ..Scripts::default()
        };
        for reach in [Reach::All, Reach::Read] {
            let text = fixed(&longest, reach);
            assert!(text.len() + 400 < LIMIT, "{reach:?}: {}", text.len());
            assert!(text.contains("[{\"id\": n} for n in range(500)]"), "{text}");
            let essentials = text.find("no network in the sandbox").unwrap();
            assert!(essentials < 700, "{essentials}");
        }
    }
}

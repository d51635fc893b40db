//! The page as text. Everything that somebody else wrote is neutralised as on a terminal, and then
//! escaped.

use gateway::{Approval, ApprovalState, Choice};

use crate::routes::approvals::Shown as Whole;
use crate::show::{self, Shown};
use crate::terminal::approve::word;

/// A text for a page.
fn text(text: &str) -> String {
    escape(&Shown::whole(text).to_string())
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

fn page(title: &str, head: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title}</title><link rel=\"stylesheet\" href=\"/approvals/style.css\">{head}\
         </head><body><main>{body}</main></body></html>\n"
    )
}

/// Whether a path is one of these pages.
pub(super) fn is_ours(path: &str) -> bool {
    path == "/approvals"
        || path.strip_prefix("/approvals/").is_some_and(|id| {
            !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        })
}

/// Where the key is asked for.
pub(super) fn enter(how: &str, to: &str, note: Option<&str>) -> String {
    let to = if is_ours(to) { to } else { "/approvals" };
    let note = note.map_or_else(String::new, alert);
    let body = format!(
        "<h1>Pinfold: approvals</h1>{note}<p>{}</p>\
         <form method=\"post\" action=\"/approvals/enter\">\
         <input type=\"hidden\" name=\"to\" value=\"{}\">\
         <label>Key or token <input type=\"password\" name=\"code\" autocomplete=\"off\" \
         required autofocus></label> <button>Enter</button></form>",
        text(how),
        text(to)
    );
    page("Pinfold: enter", "", &body)
}

/// Why something cannot be shown.
pub(super) fn no(why: &str) -> String {
    let body = format!("<h1>Pinfold: approvals</h1>{}{BACK}", alert(why));
    page("Pinfold: approvals", "", &body)
}

const BACK: &str = "<p><a href=\"/approvals\">All approvals</a></p>";

fn alert(why: &str) -> String {
    format!("<p role=\"alert\">{}</p>", text(why))
}

/// The open questions and the latest others.
pub(super) fn list(open: &[Approval], recent: &[Approval]) -> String {
    let mut body = "<h1>Approvals</h1>".to_owned();
    if open.is_empty() {
        body.push_str("<p>Nothing waits for an answer.</p>");
    } else {
        let rows = open.iter().map(|approval| {
            format!(
                "<li><a href=\"/approvals/{}\">{}</a> asked by {} at {}, expires at {}</li>",
                text(&approval.id),
                text(&title(approval)),
                text(&approval.principal),
                time(approval.asked_ms),
                time(approval.expires_ms)
            )
        });
        body.push_str(&format!("<ul class=\"open\">{}</ul>", rows.collect::<String>()));
    }
    if !recent.is_empty() {
        let rows = recent.iter().map(|approval| {
            format!(
                "<li><a href=\"/approvals/{}\">{}</a> {}</li>",
                text(&approval.id),
                text(&title(approval)),
                became(approval)
            )
        });
        body.push_str(&format!("<h2>Before</h2><ul>{}</ul>", rows.collect::<String>()));
    }
    page("Pinfold: approvals", "<meta http-equiv=\"refresh\" content=\"10\">", &body)
}

fn title(approval: &Approval) -> String {
    match &approval.description {
        Some(description) => format!("{}: {}", approval.tool, Shown::line(description)),
        None => approval.tool.clone(),
    }
}

/// One question, whole.
pub(super) fn one(
    whole: &Whole,
    form_key: &str,
    may_not: Option<&str>,
    note: Option<&str>,
) -> String {
    let approval = &whole.approval;
    let mut body = String::new();
    let effect = |name: &str| {
        let effect = whole.effects.get(name).map(|effect| word(*effect));
        effect.map_or_else(String::new, |effect| {
            format!(" <span class=\"effect {effect}\">{effect}</span>")
        })
    };
    body.push_str(&match &approval.code {
        Some(_) => "<h1>A script asks to change something</h1>".to_owned(),
        None => format!("<h1>{}{} asks to run</h1>", text(&approval.tool), effect(&approval.tool)),
    });
    if let Some(note) = note {
        body.push_str(&alert(note));
    }
    if let Some(description) = &approval.description {
        body.push_str(&format!("<p>What it says it does: <q>{}</q></p>", text(description)));
    }
    body.push_str(&format!(
        "<p>Asked by {} under the profile {} at {}.</p>",
        text(&approval.principal),
        text(&approval.profile),
        time(approval.asked_ms)
    ));
    let listed = approval.listed.iter().map(|tool| {
        let note = if tool.asked { "" } else { ", which needs no approval" };
        format!("<li>may call <b>{}</b>{}{note}</li>", text(&tool.name), effect(&tool.name))
    });
    let unlisted = approval.unlisted.iter().map(|(name, line)| {
        let name = text(name);
        format!(
            "<li>names {name} in line {line} without listing it: that call will be refused</li>"
        )
    });
    let tools: String = listed.chain(unlisted).collect();
    if !tools.is_empty() {
        body.push_str(&format!("<ul>{tools}</ul>"));
    }
    let shown = match &approval.code {
        Some(code) => escape(&show::script(code, usize::MAX).join("\n")),
        None => text(approval.arguments.get()),
    };
    body.push_str(&format!("<pre tabindex=\"0\">{shown}</pre>"));
    if approval.state == ApprovalState::Open {
        body.push_str(&match may_not {
            Some(why) => alert(why),
            None => forms(approval, form_key),
        });
        body.push_str(&format!("<p>Expires at {}.</p>", time(approval.expires_ms)));
    } else {
        body.push_str(&format!(
            "<p class=\"over\" role=\"status\">This is {}</p>",
            became(approval)
        ));
    }
    body.push_str(BACK);
    let head = if approval.state == ApprovalState::Open {
        "<script src=\"/approvals/live.js\" defer></script>"
    } else {
        ""
    };
    page("Pinfold: approval", head, &body)
}

/// Two forms, so that Enter in the reason cannot allow anything.
fn forms(approval: &Approval, form_key: &str) -> String {
    let id = text(&approval.id);
    let hidden = format!("<input type=\"hidden\" name=\"key\" value=\"{}\">", text(form_key));
    let form = format!("<form method=\"post\" action=\"/approvals/{id}\">{hidden}");
    let button = |choice: &Choice| match choice {
        Choice::Once => "<button name=\"decision\" value=\"once\">Allow once</button> ",
        Choice::Session => {
            "<button name=\"decision\" value=\"session\">Allow for this session</button> "
        }
        Choice::Deny => "",
    };
    let allow: String = approval.choices.iter().map(button).collect();
    format!(
        "{form}{allow}</form>{form}<label>Reason, which the model sees \
         <input name=\"reason\" maxlength=\"1000\" autocomplete=\"off\"></label> \
         <button name=\"decision\" value=\"deny\">Deny</button></form>"
    )
}

/// What came of a question, as the end of a sentence.
fn became(approval: &Approval) -> String {
    let used = match approval.state {
        ApprovalState::Used => "The call was made.",
        _ => "The same call made again finds the answer.",
    };
    match (&approval.answer, approval.state) {
        (_, ApprovalState::Void) => {
            "void: what it was about has changed since. The call has to be made again.".to_owned()
        }
        (None, ApprovalState::Open) => "open.".to_owned(),
        (None, _) => "expired: nobody answered. The call has to be made again.".to_owned(),
        (Some(given), state) => {
            let what = match given.decision {
                Choice::Once => "allowed once",
                Choice::Session => "allowed for the session",
                Choice::Deny => "denied",
            };
            let reason = if given.reason.is_empty() {
                String::new()
            } else {
                format!(" (<q>{}</q>)", text(&given.reason))
            };
            let then = match (given.decision, state) {
                (_, ApprovalState::Expired) => "The call was not made again in time.",
                (Choice::Deny, ApprovalState::Used) => "The model was told.",
                _ => used,
            };
            format!("{what} by {} at {}{reason}. {then}", text(&given.by), time(given.at_ms))
        }
    }
}

fn time(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms)
        .map_or_else(|_| "?".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_cannot_become_markup() {
        let attack = "<script>alert(1)</script>\"'&\u{202e}";
        let shown = text(attack);
        assert_eq!(shown, r"&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;\u{202e}");
    }

    #[test]
    fn a_way_on_leads_to_our_own_pages_only() {
        assert!(is_ours("/approvals") && is_ours("/approvals/018f-ab"));
        for wrong in
            ["", "/", "//evil.example", "/approvals/", "/approvals/../x", "/approvals//evil", "/a"]
        {
            assert!(!is_ours(wrong), "{wrong}");
        }
    }
}

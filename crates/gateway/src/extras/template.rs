//! Whether a URI could have come from a URI template (RFC 6570), as far as that tells servers
//! apart.
//!
//! What a variable stands for is not taken out: the server does that. The time is bounded by the
//! product of both lengths, whatever they hold.

/// Most parts of a template that is looked at.
const MOST_PARTS: usize = 64;

/// A template, ready to be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// Exactly this.
    Text(String),
    /// Anything within one segment of a path.
    Segment,
    /// Anything.
    Any,
}

impl Template {
    /// Reads a template; one that is broken matches nothing.
    pub(crate) fn read(template: &str) -> Option<Self> {
        let mut parts = Vec::new();
        let mut rest = template;
        while let Some(open) = rest.find('{') {
            let close = rest[open..].find('}')? + open;
            if open > 0 {
                parts.push(Part::Text(rest[..open].to_owned()));
            }
            // An explosion or one of these operators can put slashes in, or leave the whole out.
            let expression = &rest[open + 1..close];
            let wide = expression.starts_with(['+', '#', '/', '?', '&', ';', '.'])
                || expression.contains('*');
            parts.push(if wide { Part::Any } else { Part::Segment });
            if parts.len() > MOST_PARTS {
                return None;
            }
            rest = &rest[close + 1..];
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Some(Self(parts))
    }

    /// Whether some values of its variables give this URI.
    pub(crate) fn matches(&self, uri: &str) -> bool {
        let bytes = uri.as_bytes();
        if let Some(Part::Text(start)) = self.0.first()
            && !uri.starts_with(start.as_str())
        {
            return false;
        }
        // The places at which what is left of the template may begin.
        let mut places = vec![false; bytes.len() + 1];
        places[0] = true;
        for part in &self.0 {
            let mut next = vec![false; bytes.len() + 1];
            match part {
                Part::Text(text) => {
                    for at in (0..=bytes.len()).filter(|at| places[*at]) {
                        if bytes[at..].starts_with(text.as_bytes()) {
                            next[at + text.len()] = true;
                        }
                    }
                }
                Part::Segment | Part::Any => {
                    let mut reached = false;
                    for at in 0..=bytes.len() {
                        if at > 0 && *part == Part::Segment && bytes[at - 1] == b'/' {
                            reached = false;
                        }
                        reached |= places[at];
                        next[at] = reached;
                    }
                }
            }
            places = next;
        }
        places[bytes.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_template_could_have_given_matches() {
        for (template, uri, matches) in [
            ("file:///{name}", "file:///a", true),
            ("file:///{name}", "file:///a/b", false),
            ("file:///{+path}", "file:///a/b", true),
            ("file:///{path*}", "file:///a/b", true),
            ("demo://text/{id}", "demo://text/7", true),
            ("demo://text/{id}", "demo://blob/7", false),
            ("db://{table}/rows{?limit}", "db://t/rows", true),
            ("db://{table}/rows{?limit}", "db://t/rows?limit=2", true),
            ("db://{table}/rows/{id}/x", "db://t/rows/7", false),
            ("plain://x", "plain://x", true),
            ("plain://x", "plain://xy", false),
            ("a{b}a{c}a", "aaa", true),
            ("a{b}a{c}a", "aa", false),
        ] {
            let read = Template::read(template).unwrap();
            assert_eq!(read.matches(uri), matches, "{template} {uri}");
        }
        assert_eq!(Template::read("file:///{name"), None);
    }

    #[test]
    fn no_template_takes_for_ever() {
        let greedy = Template::read(&"{+a}x".repeat(32)).unwrap();
        assert!(!greedy.matches(&"x".repeat(31)));
        assert!(greedy.matches(&"x".repeat(4_000)));
        assert_eq!(Template::read(&"{+a}x".repeat(100)), None);
    }
}

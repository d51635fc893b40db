//! Protocol revisions: which are spoken, and which to choose.

/// Which protocol revision was agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision(pub String);

/// Revisions without a handshake, newest first.
pub(crate) const MODERN: [&str; 1] = ["2026-07-28"];

/// Revisions that begin with `initialize`, newest first.
pub(crate) const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

impl Revision {
    /// Whether each request stands alone (2026-07-28), rather than following an `initialize`.
    #[must_use]
    pub fn is_modern(&self) -> bool {
        MODERN.contains(&self.0.as_str())
    }

    /// The newest of ours that the other side offers.
    pub(crate) fn choose<'a>(offered: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let offered: Vec<&str> = offered.into_iter().collect();
        MODERN
            .iter()
            .chain(&LEGACY)
            .find(|ours| offered.contains(ours))
            .map(|ours| Self((*ours).to_owned()))
    }

    /// All that are spoken here, for error texts.
    pub(crate) fn spoken() -> String {
        MODERN.iter().chain(&LEGACY).copied().collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_common_revision_is_chosen() {
        let choose = |offered: &[&str]| Revision::choose(offered.iter().copied()).map(|r| r.0);
        assert_eq!(choose(&["2025-03-26", "2025-06-18"]).as_deref(), Some("2025-06-18"));
        assert_eq!(choose(&["2027-01-01", "2026-07-28"]).as_deref(), Some("2026-07-28"));
        assert_eq!(choose(&["1900-01-01"]), None);
    }
}

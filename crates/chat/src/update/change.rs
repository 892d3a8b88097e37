//! Statements that something is no longer so.

use std::collections::BTreeSet;

use super::word::Word;

/// Minimum number of terms that the statement must share with the one that it supersedes.
const LEAST_SHARED: usize = 2;
/// Number of words, from the sign of a change, that describe what has changed.
const REACH: usize = 8;

/// A state that a statement says is over or different.
#[derive(Clone, Debug)]
pub(super) struct Change {
    /// Terms of what has changed.
    about: BTreeSet<String>,
}

/// Returns the change that a statement expresses, if there is one.
pub(super) fn change(words: &[Word<'_>]) -> Option<Change> {
    (0..words.len()).find_map(|at| {
        let lower = |at: usize| words.get(at).map_or("", |word| word.lower.as_str());
        let (word, next) = (lower(at), lower(at + 1));
        let before = at.checked_sub(1).map_or("", lower);
        // Matches "I used to", "I've recently stopped", but not "I'm used to".
        let is_subject = || {
            let mut back = words[..at].iter().rev();
            let subject = back.find(|word| {
                !matches!(word.lower.as_str(), "just" | "recently" | "have" | "has" | "finally")
            });
            subject.is_some_and(|word| {
                matches!(word.lower.as_str(), "i" | "we")
                    && word.ending != "m"
                    && word.ending != "re"
            })
        };
        let range = match (word, next) {
            ("no", "longer") => at + 2..at + 2 + REACH,
            ("used", "to") if is_subject() => at + 2..at + 2 + REACH,
            ("stopped" | "quit", _) if is_subject() => at + 1..at + 1 + REACH,
            ("anymore", _) => at.saturating_sub(REACH)..at,
            // The words after "to" describe the new state, not the former one.
            ("switched" | "changed", "from") if is_subject() || before == "and" => {
                let after = words.get(at + 2..).unwrap_or_default().iter();
                let from = after.take(REACH).take_while(|word| word.lower != "to");
                at + 2..at + 2 + from.count()
            }
            _ => return None,
        };
        let near = words.get(range.start..range.end.min(words.len())).unwrap_or_default();
        let about = clause(near, at < range.start);
        (about.len() >= LEAST_SHARED).then_some(Change { about })
    })
}

impl Change {
    pub(super) fn is_of(&self, terms: &BTreeSet<String>) -> bool {
        let shared = self.about.intersection(terms).count();
        shared >= LEAST_SHARED && 3 * shared >= 2 * self.about.len()
    }
}

/// Returns the terms of the clause that begins with `near`, or ends with it.
fn clause(near: &[Word<'_>], is_after: bool) -> BTreeSet<String> {
    let ends = |word: &Word<'_>| {
        matches!(word.lower.as_str(), "and" | "but" | "so" | "because" | "since" | "when" | "which")
    };
    let words: Vec<&Word<'_>> = match is_after {
        true => near.iter().take_while(|word| word.is_beside() && !ends(word)).collect(),
        false => {
            let from = near.iter().rposition(|word| !word.is_beside() || ends(word)).unwrap_or(0);
            near[from..].iter().collect()
        }
    };
    words.into_iter().filter_map(|word| word.term.clone()).collect()
}

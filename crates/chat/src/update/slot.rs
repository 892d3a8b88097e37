//! Attributes with one value at a time, recognised by the words around it: home, employer,
//! position, favourite and latest things.

use std::collections::BTreeSet;

use super::word::{Word, is_planned};

/// Number of words after the verb in which a name may begin: "moved back to the city of Lyon".
const REACH: usize = 4;
/// Number of words before the verb in which its subject may be.
const SUBJECT_WORDS: usize = 4;
/// Maximum number of words of the kind of a favourite thing, and of a position.
const MAX_WORDS: usize = 4;

/// Kind of attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The place where someone lives.
    Home,
    /// The employer.
    Employer,
    /// The position at work.
    Position,
    /// The favourite thing of the kind that these terms describe.
    Favourite(BTreeSet<String>),
    /// The latest or current thing of the kind that these terms describe.
    Latest(BTreeSet<String>),
}

/// An attribute with its value.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) kind: Kind,
    pub(super) value: BTreeSet<String>,
}

/// Returns the attributes to which a statement gives values.
pub(super) fn slots(words: &[Word<'_>]) -> Vec<Slot> {
    (0..words.len()).filter_map(|at| slot(words, at)).collect()
}

fn slot(words: &[Word<'_>], at: usize) -> Option<Slot> {
    let lower = |at: usize| words.get(at).map_or("", |word| word.lower.as_str());
    let before = |back: usize| at.checked_sub(back).map_or("", lower);
    let is_mine = |word: &str| matches!(word, "my" | "our");
    let (kind, value) = match (lower(at), lower(at + 1)) {
        ("live" | "living" | "based", "in") | ("moved" | "relocated", "to") | ("moved", "back")
            if is_own(words, at) =>
        {
            (Kind::Home, name(words, at + 2))
        }
        ("work" | "working", "at" | "for") | ("job" | "position", "at") if is_own(words, at) => {
            (Kind::Employer, name(words, at + 2))
        }
        ("work" | "working" | "role" | "position" | "job", "as") | ("promoted", "to")
            if is_own(words, at) =>
        {
            (Kind::Position, phrase(words, at + 2).0)
        }
        ("favorite" | "favourite", _) if is_mine(before(1)) => {
            let (topic, value) = named(words, at + 1)?;
            (Kind::Favourite(topic), value)
        }
        ("recent" | "latest" | "current", _)
            if is_mine(before(1)) || before(1) == "most" && is_mine(before(2)) =>
        {
            let (topic, value) = named(words, at + 1)?;
            (Kind::Latest(topic), value)
        }
        _ => return None,
    };
    (!value.is_empty()).then_some(Slot { kind, value })
}

/// Returns whether the words before `at` say that it holds for the speaker, and now: not for
/// others, formerly or as a wish ("used to live in", "want to work at").
fn is_own(words: &[Word<'_>], at: usize) -> bool {
    let mut subject = words[..at].iter().rev().take(SUBJECT_WORDS);
    let mut near = subject.clone().take_while(|word| word.is_followed);
    let is_bare = subject.next().is_some_and(|word| word.lower == "to");
    let is_past = |word: &Word<'_>| {
        matches!(word.lower.as_str(), "ago" | "when" | "before" | "originally" | "once")
            || word.is_year()
    };
    near.any(|word| matches!(word.lower.as_str(), "i" | "we" | "my"))
        && !is_bare
        && !is_planned(&words[..at])
        && !words.iter().any(is_past)
}

/// Returns the terms of the name that begins soon after `from`.
fn name(words: &[Word<'_>], from: usize) -> BTreeSet<String> {
    let rest = words.get(from..).unwrap_or_default();
    let before = rest.iter().take(REACH).take_while(|word| !word.is_name);
    // No other clause may be in between.
    let skipped = before.clone().count();
    if before.clone().skip(1).any(|word| !word.is_beside()) {
        return BTreeSet::new();
    }
    let name = rest.iter().skip(skipped).enumerate();
    let name = name.take_while(|(at, word)| word.is_name && (*at == 0 || word.is_beside()));
    name.filter_map(|(_, word)| word.term.clone()).collect()
}

/// Returns the terms of a thing and of its name: "hive is Heather Moon", "hive, Heather Moon",
/// "trip to Lyon".
fn named(words: &[Word<'_>], from: usize) -> Option<(BTreeSet<String>, BTreeSet<String>)> {
    let (topic, after) = phrase(words, from);
    let word = words.get(after)?;
    let is_told =
        word.gap.contains([',', ':']) || matches!(word.lower.as_str(), "is" | "are" | "to" | "in");
    (is_told && !topic.is_empty()).then(|| (topic, name(words, after)))
}

/// Returns the terms from `from` up to a word of grammar, a name or a sign, and the position of
/// that.
fn phrase(words: &[Word<'_>], from: usize) -> (BTreeSet<String>, usize) {
    let mut at = from + usize::from(words.get(from).is_some_and(|word| word.is_article()));
    let mut terms = BTreeSet::new();
    while terms.len() < MAX_WORDS
        && let Some(word) = words.get(at)
        && let Some(term) = word.term.clone().filter(|_| word.is_beside() && !word.is_name)
    {
        terms.insert(term);
        at += 1;
    }
    (terms, at)
}

impl Slot {
    pub(super) fn supersedes(&self, older: &Self) -> bool {
        self.kind == older.kind && self.value.is_disjoint(&older.value)
    }
}

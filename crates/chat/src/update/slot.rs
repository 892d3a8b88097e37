//! Attributes that have one value at a time, told by the words around it: where someone lives, where and as what they
//! work, what they like best.

use std::collections::BTreeSet;

use super::word::Word;

/// Words after the verb among which a name begins: "moved back to the city of Lyon".
const REACH: usize = 4;
/// Most words of what something is the favourite of, and of a position.
const MAX_WORDS: usize = 4;

/// What a value is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Where someone lives.
    Home,
    /// Whom someone works for.
    Employer,
    /// What someone works as.
    Position,
    /// What is liked best among what these terms say.
    Favourite(BTreeSet<String>),
    /// Which of what these terms say is the latest, or the one that there is now.
    Latest(BTreeSet<String>),
}

/// An attribute with its value.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) kind: Kind,
    pub(super) value: BTreeSet<String>,
}

/// The attributes that a statement gives values.
pub(super) fn slots(words: &[Word<'_>]) -> Vec<Slot> {
    (0..words.len()).filter_map(|at| slot(words, at)).collect()
}

fn slot(words: &[Word<'_>], at: usize) -> Option<Slot> {
    let lower = |at: usize| words.get(at).map_or("", |word| word.lower.as_str());
    // Other people's, and what is only planned.
    let is_own = || {
        let before = words[..at].iter().rev().take(4);
        let mut subject = before.take_while(|word| word.is_beside_next());
        subject.any(|word| matches!(word.lower.as_str(), "i" | "we"))
    };
    let next = lower(at + 1);
    let (kind, value) = match (lower(at), next) {
        ("live" | "living", "in") | ("moved" | "relocated", "to") | ("moved", "back")
            if is_own() =>
        {
            (Kind::Home, name(words, at + 2))
        }
        ("based", "in") if is_own() => (Kind::Home, name(words, at + 2)),
        ("work" | "working", "at" | "for") | ("job", "at") | ("position", "at") if is_own() => {
            (Kind::Employer, name(words, at + 2))
        }
        ("joined", _) if is_own() => (Kind::Employer, BTreeSet::new()),
        ("promoted", "to") | ("work" | "working", "as") | ("role" | "position" | "job", "as")
            if is_own() =>
        {
            (Kind::Position, phrase(words, at + 2))
        }
        ("favorite" | "favourite", _) if at > 0 && lower(at - 1) == "my" => {
            let (topic, value) = named(words, at + 1);
            (Kind::Favourite(topic), value)
        }
        ("recent" | "latest" | "current", _)
            if at > 0 && matches!(lower(at - 1), "my" | "our" | "most") =>
        {
            let (topic, value) = named(words, at + 1);
            (Kind::Latest(topic), value)
        }
        _ => return None,
    };
    (!value.is_empty()).then_some(Slot { kind, value })
}

/// The terms of the name that begins soon after `from`.
fn name(words: &[Word<'_>], from: usize) -> BTreeSet<String> {
    let rest = words.get(from..).unwrap_or_default();
    let before = rest.iter().take(REACH).take_while(|word| !word.is_name);
    // No other clause in between.
    let skipped = before.clone().count();
    if before.clone().skip(1).any(|word| !word.is_beside()) {
        return BTreeSet::new();
    }
    let name = rest.iter().skip(skipped).enumerate();
    let name = name.take_while(|(at, word)| word.is_name && (*at == 0 || word.is_beside()));
    name.filter_map(|(_, word)| word.term.clone()).collect()
}

/// The terms of a thing and the name that it is given: "hives are in Lyon", "hive, Lyon", "trip to Lyon".
fn named(words: &[Word<'_>], from: usize) -> (BTreeSet<String>, BTreeSet<String>) {
    let topic = phrase(words, from);
    let after = from + topic.len();
    let is_told = words.get(after).is_some_and(|word| {
        word.gap.contains([',', ':']) || matches!(word.lower.as_str(), "is" | "are" | "to" | "in")
    });
    let value = if is_told { name(words, after) } else { BTreeSet::new() };
    (topic, value)
}

/// The terms of the words from `from` on, up to one of grammar or a sign.
fn phrase(words: &[Word<'_>], from: usize) -> BTreeSet<String> {
    let rest = words.get(from..).unwrap_or_default().iter();
    let rest = rest.skip_while(|word| matches!(word.lower.as_str(), "a" | "an" | "the"));
    let rest = rest.take(MAX_WORDS).take_while(|word| word.is_beside());
    rest.map_while(|word| word.term.clone().filter(|_| !word.is_name)).collect()
}

impl Slot {
    pub(super) fn supersedes(&self, older: &Self) -> bool {
        self.kind == older.kind && self.value.is_disjoint(&older.value)
    }
}

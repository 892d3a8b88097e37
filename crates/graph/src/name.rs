//! Names: runs of capitalised words, and the kind of thing that they name.

use clew_core::{EntityKind, Span};
use clew_text::{is_common_verb, is_grammar_word};

use crate::Found;
use crate::word::{Word, Words};

/// Lower-case words that join the parts of a name.
const CONNECTORS: [&str; 16] = [
    "al", "bin", "da", "de", "del", "della", "den", "der", "di", "du", "ibn", "la", "of", "van",
    "von", "y",
];
/// Maximum number of connectors in a row, as in "of the", "van der".
const MAX_CONNECTORS: usize = 2;
/// Maximum number of words in a name; more is a heading or a list without commas.
const MAX_NAME_WORDS: usize = 8;
/// Words before a person's name. They are part of it, so that Mr. and Mrs. Bennet stay apart within
/// a passage.
const HONORIFICS: [&str; 24] = [
    "capt",
    "captain",
    "colonel",
    "count",
    "countess",
    "dr",
    "duchess",
    "duke",
    "king",
    "lady",
    "lord",
    "miss",
    "monsieur",
    "mr",
    "mrs",
    "ms",
    "prince",
    "princess",
    "prof",
    "professor",
    "queen",
    "saint",
    "sir",
    "st",
];
/// Words that begin sentences and are not names, in addition to grammar words.
const OPENERS: [&str; 62] = [
    "above",
    "according",
    "again",
    "almost",
    "although",
    "always",
    "another",
    "because",
    "below",
    "besides",
    "chapter",
    "dear",
    "despite",
    "each",
    "either",
    "even",
    "every",
    "everybody",
    "everyone",
    "everything",
    "few",
    "finally",
    "first",
    "hence",
    "here",
    "however",
    "indeed",
    "instead",
    "later",
    "maybe",
    "meanwhile",
    "moreover",
    "nearly",
    "neither",
    "never",
    "nobody",
    "none",
    "nothing",
    "now",
    "often",
    "oh",
    "once",
    "only",
    "otherwise",
    "perhaps",
    "poor",
    "quite",
    "section",
    "several",
    "still",
    "suddenly",
    "therefore",
    "those",
    "though",
    "thus",
    "today",
    "tomorrow",
    "usually",
    "well",
    "without",
    "yes",
    "yesterday",
];
/// Verbs of speaking and thinking, which only people do.
const SPEECH: [&str; 12] = [
    "answered", "asked", "cried", "laughed", "replied", "said", "says", "shouted", "smiled",
    "spoke", "thought", "told",
];
const OF_ORGANISATIONS: [&str; 36] = [
    "academy",
    "agency",
    "army",
    "association",
    "bank",
    "church",
    "club",
    "co",
    "college",
    "commission",
    "committee",
    "company",
    "corp",
    "corporation",
    "council",
    "court",
    "department",
    "foundation",
    "gmbh",
    "group",
    "inc",
    "institute",
    "laboratories",
    "laboratory",
    "ltd",
    "ministry",
    "museum",
    "navy",
    "office",
    "parliament",
    "party",
    "press",
    "school",
    "society",
    "union",
    "university",
];
const OF_PLACES: [&str; 33] = [
    "avenue",
    "bay",
    "beach",
    "bridge",
    "cape",
    "castle",
    "city",
    "coast",
    "county",
    "desert",
    "forest",
    "gulf",
    "hill",
    "hills",
    "house",
    "island",
    "islands",
    "kingdom",
    "lake",
    "mount",
    "mountain",
    "mountains",
    "ocean",
    "palace",
    "park",
    "republic",
    "river",
    "road",
    "sea",
    "square",
    "street",
    "town",
    "valley",
];
/// Words before a place.
const BEFORE_PLACES: [&str; 5] = ["at", "in", "inside", "near", "outside"];
/// Languages, which also follow "in".
const LANGUAGES: [&str; 12] = [
    "arabic",
    "chinese",
    "english",
    "french",
    "german",
    "greek",
    "italian",
    "japanese",
    "latin",
    "portuguese",
    "russian",
    "spanish",
];

/// Adds the names of a passage, except where something was found already.
pub(crate) fn names(words: &Words<'_>, found: &mut Vec<Found>) {
    let mut is_free = vec![true; words.words.len()];
    for Found { span, .. } in found.iter() {
        let first = words.words.partition_point(|word| word.span.start < span.start);
        let within = words.words[first..].iter().take_while(|word| word.span.start < span.end);
        let count = within.count();
        is_free[first..first + count].fill(false);
    }
    let mut at = 0;
    while at < words.words.len() {
        if !is_free[at] || !begins_name(words, at) {
            at += 1;
            continue;
        }
        let last = end_of_name(words, at, &is_free);
        let span = Span::new(words.words[at].span.start, words.words[last].span.end);
        found.push(Found::new(span, kind_of(words, at, last)));
        at = last + 1;
    }
}

/// Returns whether a name begins with the word at `at`.
fn begins_name(words: &Words<'_>, at: usize) -> bool {
    let word = &words.words[at];
    if !is_part_of_names(word) {
        return false;
    }
    let (within, initial) = words.seen_capital(&word.lower);
    if words.sentences[word.sentence].shouts {
        return within > 0;
    }
    if !word.is_initial || word.is_acronym() || is_honorific(word) {
        return true;
    }
    if words.is_seen_lower(&word.lower) || OPENERS.binary_search(&word.lower.as_str()).is_ok() {
        return false;
    }
    let next = words.next(at);
    let continues = next.is_some_and(|next| {
        joins(words, at) && is_part_of_names(next) && !words.is_seen_lower(&next.lower)
    });
    let acts = next.is_some_and(|next| {
        words.gap(at, at + 1) == " " && !next.is_capitalised() && is_verb(&next.lower)
    });
    let is_subject = next.is_some_and(|next| is_auxiliary(&next.lower)) && initial > 1;
    let lists = next.is_some_and(|next| {
        next.lower == "and" && words.next(at + 1).is_some_and(|after| is_part_of_names(after))
    });
    within > 0 || continues || acts || lists || is_subject || word.is_possessive
}

/// Returns the last word of the name that begins with the word at `first`.
fn end_of_name(words: &Words<'_>, first: usize, is_free: &[bool]) -> usize {
    let mut last = first;
    loop {
        let connectors = (0..MAX_CONNECTORS)
            .take_while(|count| is_connector(words, last + 1 + count, *count))
            .count();
        let continues = (0..=connectors).rev().map(|count| last + 1 + count).find(|&next| {
            let is_same = words.words.get(next).is_some_and(|word| {
                word.sentence == words.words[first].sentence
                    && is_free[next]
                    && (is_part_of_names(word) || (word.is_number(3) && next == last + 1))
            });
            is_same && (last..next).all(|at| joins(words, at))
        });
        match continues {
            Some(next) if next < first + MAX_NAME_WORDS && !words.words[last].is_possessive => {
                last = next;
            }
            _ => return last,
        }
    }
}

/// Returns whether the `count`-th word after a part of a name may join it to the next part.
fn is_connector(words: &Words<'_>, at: usize, count: usize) -> bool {
    words.words.get(at).is_some_and(|word| {
        let lower = word.text;
        CONNECTORS.binary_search(&lower).is_ok() || (lower == "the" && count > 0)
    })
}

/// Returns whether nothing separates a word from the next. White space within a line or its
/// wrapping, a hyphen, `&`, and the full stop of an initial or an honorific do not separate.
fn joins(words: &Words<'_>, at: usize) -> bool {
    let gap = words.gap(at, at + 1);
    let word = &words.words[at];
    let is_short_for =
        word.text.chars().nth(1).is_none() || is_honorific(word) || { word.text.contains('.') };
    match gap.trim() {
        "" => !gap.is_empty() && gap.matches('\n').count() < 2,
        "-" | "&" => true,
        "." => is_short_for && gap.starts_with('.'),
        _ => false,
    }
}

fn is_part_of_names(word: &Word<'_>) -> bool {
    let is_pronoun = || {
        let subject = word.lower.split(['\'', '’']).next().unwrap_or_default();
        is_grammar_word(subject)
    };
    word.is_capitalised() && (word.is_acronym() || (!is_grammar_word(&word.lower) && !is_pronoun()))
}

fn is_honorific(word: &Word<'_>) -> bool {
    HONORIFICS.binary_search(&word.lower.as_str()).is_ok()
}

fn is_verb(lower: &str) -> bool {
    is_common_verb(lower) || (lower.len() > 4 && lower.ends_with("ed"))
}

fn is_auxiliary(lower: &str) -> bool {
    const AUXILIARIES: [&str; 16] = [
        "can", "could", "did", "does", "had", "has", "is", "may", "might", "must", "never",
        "should", "was", "were", "will", "would",
    ];
    AUXILIARIES.binary_search(&lower).is_ok()
}

/// Returns the kind of thing that the words `first..=last` name.
fn kind_of(words: &Words<'_>, first: usize, last: usize) -> EntityKind {
    let parts = &words.words[first..=last];
    let holds = |list: &[&str]| {
        parts.len() > 1 && parts.iter().any(|part| list.binary_search(&part.lower.as_str()).is_ok())
    };
    let previous = words.previous(first);
    let speaks = |word: Option<&Word<'_>>| {
        word.is_some_and(|word| SPEECH.binary_search(&word.lower.as_str()).is_ok())
    };
    if parts.len() > 1 && is_honorific(&parts[0]) {
        EntityKind::Person
    } else if holds(&OF_ORGANISATIONS) {
        EntityKind::Organisation
    } else if holds(&OF_PLACES) {
        EntityKind::Place
    } else if speaks(words.next(last)) || speaks(previous) {
        EntityKind::Person
    } else if previous.is_some_and(|word| BEFORE_PLACES.binary_search(&word.text).is_ok())
        && words.gap(first.saturating_sub(1), first) == " "
        && LANGUAGES.binary_search(&parts[0].lower.as_str()).is_err()
    {
        EntityKind::Place
    } else {
        EntityKind::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted() {
        let lists: [&[&str]; 8] = [
            &CONNECTORS,
            &HONORIFICS,
            &OPENERS,
            &SPEECH,
            &OF_ORGANISATIONS,
            &OF_PLACES,
            &BEFORE_PLACES,
            &LANGUAGES,
        ];
        assert!(lists.iter().all(|list| list.is_sorted()));
    }
}

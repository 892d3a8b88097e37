//! What is known of words that end in a full stop without ending a sentence.

/// What the full stop after a word tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Abbreviation {
    /// Something always follows: `Mr.`, `e.g.`, `Fig.`.
    Open,
    /// A number follows, or it was a word: `no. 5`, `May 5`.
    BeforeNumber,
    /// May end a sentence: `Inc.`, `U.S.`, an initial.
    MayClose,
}

/// What `word`, given without its last full stop, is short for; `None` for an ordinary word.
pub(super) fn of(word: &str) -> Option<Abbreviation> {
    if is_dotted_letters(word) {
        let is_open = ["e.g", "i.e"].iter().any(|known| word.eq_ignore_ascii_case(known));
        return Some(if is_open { Abbreviation::Open } else { Abbreviation::MayClose });
    }
    let has = |list: &[&str]| list.iter().any(|known| word.eq_ignore_ascii_case(known));
    if has(OPEN) {
        Some(Abbreviation::Open)
    } else if has(BEFORE_NUMBER) {
        Some(Abbreviation::BeforeNumber)
    } else if has(MAY_CLOSE) {
        Some(Abbreviation::MayClose)
    } else {
        None
    }
}

/// Whether a sentence often begins with `word`, so that the full stop before it closed one.
pub(super) fn often_begins_sentence(word: &str) -> bool {
    STARTERS.contains(&word)
}

/// `J`, `U.S`, `p.m`: single letters with full stops between them.
fn is_dotted_letters(word: &str) -> bool {
    let is_letter = |part: &str| {
        let mut chars = part.chars();
        chars.next().is_some_and(char::is_alphabetic) && chars.next().is_none()
    };
    let is_initial = !word.contains('.') && word.chars().all(char::is_uppercase);
    word.split('.').all(is_letter) && (is_initial || word.contains('.'))
}

const OPEN: &[&str] = &[
    "adm", "approx", "assoc", "brig", "capt", "cf", "cmdr", "col", "dept", "dr", "ed", "eds", "eq",
    "eqs", "est", "fig", "figs", "fr", "ft", "gen", "gov", "hon", "lt", "maj", "messrs", "mr",
    "mrs", "ms", "mt", "pres", "prof", "ref", "refs", "rep", "rev", "sec", "sect", "sen", "sgt",
    "st", "supt", "univ", "viz", "vs",
];

const BEFORE_NUMBER: &[&str] = &[
    "apr", "art", "aug", "ch", "chap", "dec", "feb", "jan", "jul", "jun", "mar", "no", "nos",
    "nov", "oct", "p", "para", "pp", "sep", "sept", "tab", "v", "ver", "vol", "vols",
];

const MAY_CLOSE: &[&str] =
    &["al", "ave", "blvd", "bros", "co", "corp", "inc", "jr", "llc", "ltd", "ph.d", "rd", "sr"];

const STARTERS: &[&str] = &[
    "A", "After", "Also", "An", "And", "As", "At", "Before", "But", "For", "From", "He", "Her",
    "Here", "His", "How", "However", "I", "If", "In", "It", "Its", "My", "No", "On", "Our", "She",
    "So", "Some", "That", "The", "Their", "Then", "There", "These", "They", "This", "Those",
    "Thus", "To", "We", "What", "When", "Where", "While", "Who", "Why", "With", "Yes", "You",
    "Your",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initials_and_known_words_are_abbreviations() {
        assert_eq!(of("Mr"), Some(Abbreviation::Open));
        assert_eq!(of("i.e"), Some(Abbreviation::Open));
        assert_eq!(of("No"), Some(Abbreviation::BeforeNumber));
        assert_eq!(of("J"), Some(Abbreviation::MayClose));
        assert_eq!(of("U.S"), Some(Abbreviation::MayClose));
        assert_eq!(of("house"), None);
        assert_eq!(of("a"), None);
        assert_eq!(of(""), None);
    }
}

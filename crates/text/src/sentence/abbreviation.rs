//! Abbreviations: words that end in a full stop without always ending a sentence.

/// Meaning of the full stop after an abbreviation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Abbreviation {
    /// Never ends a sentence: `Mr.`, `e.g.`, `Fig.`.
    Open,
    /// An abbreviation only if a number follows: `no. 5`, `Jan. 5`. Otherwise it ends a sentence.
    BeforeNumber,
    /// Ends a sentence if the next word often begins one: `Inc.`, `U.S.`, an initial.
    MayClose,
}

/// Classifies `word`, given without its last full stop. Returns `None` for an ordinary word.
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

/// Returns whether `word` often begins a sentence, so that the full stop before it ended one.
pub(super) fn often_begins_sentence(word: &str) -> bool {
    STARTERS.contains(&word)
}

/// Returns whether `word` is single letters joined by full stops, such as `U.S` or `p.m`, or a
/// capital initial such as `J`.
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

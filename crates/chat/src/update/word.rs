//! Words of a statement.

use clew_text::{is_grammar_word, terms, words};

/// A word of a statement.
#[derive(Clone, Debug)]
pub(super) struct Word<'a> {
    /// Characters between it and the word before, without white space.
    pub(super) gap: &'a str,
    /// The word in lower case, without the part after an apostrophe.
    pub(super) lower: String,
    /// The part after an apostrophe: `ll` of "I'll".
    pub(super) ending: &'a str,
    /// Whether another word follows with only white space or a hyphen in between.
    pub(super) is_followed: bool,
    /// Its term, if the word has content.
    pub(super) term: Option<String>,
    /// Whether it is written like a name, within a sentence.
    pub(super) is_name: bool,
}

impl Word<'_> {
    pub(super) fn is_digits(&self) -> bool {
        self.lower.starts_with(|c: char| c.is_ascii_digit())
    }

    pub(super) fn is_article(&self) -> bool {
        matches!(self.lower.as_str(), "a" | "an" | "the")
    }

    /// Returns whether it is a year of this or the last century in digits.
    pub(super) fn is_year(&self) -> bool {
        self.lower.len() == 4
            && matches!(self.lower.get(..2), Some("19" | "20"))
            && self.lower.bytes().all(|byte| byte.is_ascii_digit())
    }

    pub(super) fn is_negation(&self) -> bool {
        matches!(self.lower.as_str(), "not" | "never") || self.ending == "t"
    }

    /// Returns whether only white space or a hyphen separates it from the word before.
    pub(super) fn is_beside(&self) -> bool {
        matches!(self.gap, "" | "-")
    }
}

/// Splits a statement of `speaker`, whose name replaces "I" in it ([`crate::facts`]), into words.
pub(super) fn of_statement<'a>(text: &'a str, speaker: &str) -> Vec<Word<'a>> {
    let speaker = speaker.to_lowercase();
    let mut end = 0;
    let read = words(text).map(|span| {
        let written = span.of(text).unwrap_or_default();
        let gap = text.get(end..span.start).unwrap_or_default().trim();
        let is_first = end == 0 || gap.ends_with(['"', '“']);
        end = span.end;
        let (base, ending) = written.split_once(['\'', '’']).unwrap_or((written, ""));
        let mut lower = base.to_lowercase();
        if speaker.split_whitespace().any(|name| name == lower) {
            lower = if ending == "s" { "my" } else { "i" }.to_owned();
        }
        let tells = !is_grammar_word(&lower) && !is_filler(&lower);
        let term = match tells {
            true => terms(base).next().map(|term| term.as_str().to_owned()),
            false => None,
        };
        let is_capital = base.chars().next().is_some_and(char::is_uppercase);
        let is_name = is_capital && !is_first && term.is_some();
        Word { gap, lower, ending, is_followed: false, term, is_name }
    });
    let mut read: Vec<Word<'a>> = read.collect();
    for at in 1..read.len() {
        read[at - 1].is_followed = read[at].is_beside();
    }
    read
}

/// Returns whether something after these words, within their clause, is wanted or supposed.
pub(super) fn is_planned(before: &[Word<'_>]) -> bool {
    for word in before.iter().rev() {
        if matches!(word.ending, "ll" | "d") || PLANS.contains(&&*word.lower) {
            return true;
        }
        if !word.gap.is_empty() && word.gap != "-" || CONJUNCTIONS.contains(&&*word.lower) {
            return false;
        }
    }
    false
}

const PLANS: [&str; 25] = [
    "aim",
    "aimed",
    "aiming",
    "considering",
    "could",
    "goal",
    "hope",
    "hoping",
    "if",
    "may",
    "might",
    "need",
    "plan",
    "planned",
    "planning",
    "should",
    "suppose",
    "target",
    "think",
    "thinking",
    "want",
    "wanted",
    "will",
    "wish",
    "would",
];
const CONJUNCTIONS: [&str; 8] = ["and", "because", "but", "since", "so", "that", "when", "which"];

/// Returns whether a word only says how something is said, so that statements share it whatever
/// they are about.
fn is_filler(word: &str) -> bool {
    FILLERS.binary_search(&word).is_ok()
}

/// Sorted.
const FILLERS: [&str; 120] = [
    "actually",
    "again",
    "ago",
    "almost",
    "already",
    "also",
    "always",
    "another",
    "around",
    "back",
    "basically",
    "bit",
    "close",
    "coming",
    "couple",
    "currently",
    "definitely",
    "enjoyed",
    "enjoying",
    "especially",
    "even",
    "far",
    "feel",
    "feeling",
    "feels",
    "finally",
    "fine",
    "forward",
    "get",
    "gets",
    "getting",
    "glad",
    "go",
    "goes",
    "going",
    "gone",
    "good",
    "got",
    "great",
    "guess",
    "happy",
    "help",
    "helped",
    "helpful",
    "helping",
    "helps",
    "hey",
    "honestly",
    "hope",
    "hoping",
    "idea",
    "interested",
    "keep",
    "keeping",
    "kind",
    "know",
    "lately",
    "like",
    "little",
    "long",
    "look",
    "looking",
    "lot",
    "lots",
    "love",
    "loving",
    "maybe",
    "mean",
    "meanwhile",
    "need",
    "needs",
    "never",
    "nice",
    "now",
    "oh",
    "ok",
    "okay",
    "only",
    "perfect",
    "plan",
    "planning",
    "plus",
    "pretty",
    "probably",
    "quite",
    "realized",
    "really",
    "recently",
    "right",
    "said",
    "see",
    "seeing",
    "soon",
    "sounds",
    "speaking",
    "still",
    "stuff",
    "sure",
    "surprised",
    "thank",
    "thanks",
    "thing",
    "things",
    "think",
    "thinking",
    "thought",
    "track",
    "tried",
    "try",
    "trying",
    "usually",
    "want",
    "wanted",
    "wants",
    "way",
    "well",
    "went",
    "wondering",
    "yeah",
    "yes",
];

//! Tense of clauses, judged by their verbs.

use super::word::Word;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tense {
    Unknown,
    Past,
    Future,
}

/// Returns the tense of each word's clause. "On Monday I will" is future, and the Monday in "I was
/// there on Monday and will go again" is past.
pub(super) fn tenses(words: &[Word]) -> Vec<Tense> {
    let mut tenses = vec![Tense::Unknown; words.len()];
    let mut tense = Tense::Unknown;
    let mut clause = 0;
    for (at, word) in words.iter().enumerate() {
        let lower = word.lower.as_str();
        if word.begins_sentence() || matches!(lower, "and" | "but" | "so" | "because" | "which") {
            (tense, clause) = (Tense::Unknown, at);
        }
        let next = words.get(at + 1).map_or("", |word| word.lower.as_str());
        let told = match (is_past(lower), is_future(lower, next)) {
            (true, _) => Some(Tense::Past),
            (_, true) => Some(Tense::Future),
            _ => None,
        };
        if let Some(told) = told {
            if tense == Tense::Unknown {
                tenses[clause..at].fill(told);
            }
            tense = told;
        } else if lower == "by" && next != "the" && tense == Tense::Unknown {
            // Something due by Friday is not done yet.
            tense = Tense::Future;
        }
        tenses[at] = tense;
    }
    tenses
}

fn is_future(lower: &str, next: &str) -> bool {
    match lower {
        "will" | "shall" | "gonna" | "might" | "tomorrow" | "upcoming" | "plan" | "plans"
        | "planning" | "considering" | "hope" | "hoping" | "thinking" | "want" | "need" | "due"
        | "deadline" => true,
        "going" => next == "to",
        "coming" => next == "up",
        "looking" => next == "forward",
        _ if lower.ends_with("'ll") => true,
        // The form "I'm meeting her on Monday".
        _ => (lower.ends_with("'m") || lower.ends_with("'re")) && next.ends_with("ing"),
    }
}

/// Returns whether a word is a past form: the most frequent ones, and words in "-ed" except
/// participles of plans.
fn is_past(lower: &str) -> bool {
    match lower {
        "planned" | "scheduled" | "excited" | "supposed" | "need" | "needed" => false,
        "was" | "were" | "had" | "did" | "been" | "born" | "spent" | "read" => true,
        _ => clew_text::is_common_verb(lower) || lower.len() > 4 && lower.ends_with("ed"),
    }
}

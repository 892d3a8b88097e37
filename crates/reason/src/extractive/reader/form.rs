//! Recognises what form of answer a question wants, by its words. English only.

use crate::extractive::phrase::{after_start, bare, holds_any, items, split, split_any};

/// Form of the answer that a question wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// One answer.
    One,
    /// Several answers, as far as there are several.
    Several,
    /// Yes or no.
    YesOrNo,
    /// A reason or a way of doing something, which takes a sentence.
    Explained,
    /// One of these, two or more, as the asker writes them. The rest of the question is without
    /// them.
    Choice { options: Vec<String>, rest: String },
}

/// Words that begin a question which yes or no answers.
pub(super) const AUXILIARIES: [&str; 20] = [
    "is", "are", "am", "was", "were", "do", "does", "did", "has", "have", "had", "can", "could",
    "will", "would", "should", "may", "might", "must", "shall",
];
/// Beginnings of questions for a reason or a way.
const EXPLAINING: [&str; 13] = [
    "why",
    "how is",
    "how are",
    "how was",
    "how were",
    "how do",
    "how does",
    "how did",
    "how can",
    "how could",
    "how should",
    "how would",
    "how to",
];
/// Words that ask for something else than yes or no.
const ASKING: [&str; 9] = ["who", "whom", "whose", "what", "when", "where", "which", "how", "why"];
/// Expressions that ask for several things.
const SEVERAL: [&str; 15] = [
    "who are",
    "who were",
    "what are",
    "what were",
    "which are",
    "which were",
    "name all",
    "name the",
    "name two",
    "name three",
    "list",
    "list all",
    "what all",
    "who all",
    "which ones",
];
/// Words that end like plurals and are none.
const NO_PLURALS: [&str; 4] = ["its", "news", "series", "species"];
/// Words that follow a verb rather than a noun.
const AFTER_VERB: [&str; 6] = ["a", "an", "if", "the", "to", "when"];
/// Expressions before options that "and" joins.
const AMONG: [&str; 3] = ["out of", "between", "among"];
/// Words within a name that are not capitalised.
const JOINING: [&str; 9] = ["of", "the", "and", "de", "la", "von", "van", "in", "for"];
/// Maximum number of words of a kind of things: "old mills".
const MOST_KIND_WORDS: usize = 3;
/// Maximum number of options.
const MOST_OPTIONS: usize = 6;

impl Form {
    /// Returns the form of the answer to `question`.
    pub(super) fn of(question: &str) -> Self {
        if let Some((options, rest)) = choice(question) {
            return Self::Choice { options, rest };
        }
        if asks_yes_or_no(question) {
            return Self::YesOrNo;
        }
        if after_start(question.trim(), &EXPLAINING).is_some() {
            return Self::Explained;
        }
        if after_start(question, &SEVERAL).is_some() || asks_for_plural(question) {
            Self::Several
        } else {
            Self::One
        }
    }
}

fn asks_yes_or_no(question: &str) -> bool {
    let Some(rest) = after_start(question.trim(), &AUXILIARIES) else { return false };
    // "Can you tell me who leads Atlas?"
    let is_request = after_start(rest, &["you"]).is_some() && holds_any(rest, &ASKING);
    !is_request
}

/// Returns whether the question asks which of a kind, in the plural: "Which old mills did she
/// build?" The kind ends before an auxiliary, or else it is the first word, because "owns" in
/// "Which firm owns it?" looks like a plural too.
fn asks_for_plural(question: &str) -> bool {
    let Some((_, rest)) = split_any(question, &["which", "what"]) else { return false };
    let lower = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let words: Vec<String> = rest.split_whitespace().take(1 + MOST_KIND_WORDS).map(lower).collect();
    // "What happens to it?", "What makes the noise?"
    if words.get(1).is_some_and(|second| AFTER_VERB.contains(&second.as_str())) {
        return false;
    }
    let end = words.iter().position(|word| AUXILIARIES.contains(&word.as_str()));
    let kind = words[..end.unwrap_or(words.len().min(1))].last();
    kind.is_some_and(|word| {
        word.ends_with('s')
            && !["ss", "us", "is"].iter().any(|end| word.ends_with(end))
            && !NO_PLURALS.contains(&word.as_str())
    })
}

/// Returns the options that a question names, and the question without them.
fn choice(question: &str) -> Option<(Vec<String>, String)> {
    let question = bare(question);
    let is_asking = |text: &str| holds_any(text, &ASKING);
    let many = |items: Vec<&str>| -> Option<Vec<String>> {
        let items: Vec<String> = items.into_iter().map(str::to_owned).collect();
        (2..=MOST_OPTIONS).contains(&items.len()).then_some(items)
    };
    if let Some((before, list)) = split_any(question, &AMONG)
        && is_asking(before)
        && let Some(options) = many(items(list, joint(list)))
    {
        return Some((options, before.to_owned()));
    }
    split(question, "or")?;
    for (comma, _) in question.match_indices([',', ':']) {
        let (before, list) = (&question[..comma], &question[comma + 1..]);
        if is_asking(before)
            && !is_asking(list)
            && split(list, "or").is_some()
            && let Some(options) = many(items(list.trim(), "or"))
        {
            return Some((options, before.to_owned()));
        }
    }
    around_or(question)
}

fn joint(list: &str) -> &'static str {
    if split(list, "or").is_some() { "or" } else { "and" }
}

/// Returns the names, or the words, on both sides of "or".
fn around_or(question: &str) -> Option<(Vec<String>, String)> {
    let (before, after) = split(question, "or")?;
    let left = name_at_end(before).or_else(|| last_word(before))?;
    let is_one_word = !after.contains(char::is_whitespace) && !after.is_empty();
    let right = name_at_start(after).or_else(|| is_one_word.then_some(after))?;
    let is_name = |text: &str| text.contains(char::is_uppercase);
    if is_name(left) != is_name(right) {
        return None;
    }
    let start = before.len() - left.len();
    let rest = format!("{} {}", before[..start].trim(), after[right.len()..].trim());
    Some((vec![left.to_owned(), right.to_owned()], rest.trim().to_owned()))
}

fn last_word(text: &str) -> Option<&str> {
    let word = text.rsplit(char::is_whitespace).next()?;
    let is_first = word.len() == text.len();
    (!is_first && !word.is_empty()).then_some(word)
}

/// Returns the name that `text` begins with: capitalised words with what joins them.
pub(super) fn name_at_start(text: &str) -> Option<&str> {
    let mut end = 0;
    for word in text.split(' ') {
        let at = word.as_ptr() as usize - text.as_ptr() as usize;
        if begins_name(word) {
            end = at + word.len();
        } else if !JOINING.contains(&word) {
            break;
        }
    }
    let name = text[..end].trim_end_matches([',', '?']);
    (!name.is_empty()).then_some(name)
}

/// Returns the name that `text` ends with, without the first word of the question.
fn name_at_end(text: &str) -> Option<&str> {
    let mut start = text.len();
    for word in text.rsplit(' ') {
        let at = word.as_ptr() as usize - text.as_ptr() as usize;
        if at == 0 {
            break;
        } else if begins_name(word) {
            start = at;
        } else if !JOINING.contains(&word) {
            break;
        }
    }
    (start < text.len()).then(|| &text[start..])
}

fn begins_name(word: &str) -> bool {
    word.trim_start_matches(['"', '“', '(', '\''])
        .starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn options(question: &str) -> Vec<String> {
        match Form::of(question) {
            Form::Choice { options, .. } => options,
            _ => Vec::new(),
        }
    }

    #[test]
    fn options_are_taken_from_the_question() {
        for (question, expected) in [
            ("Which is older, the mill or the forge?", vec!["the mill", "the forge"]),
            ("Who built it, Ada, Bob or Cid?", vec!["Ada", "Bob", "Cid"]),
            (
                "Was Jorge Ledezma or Yuliya Baraley born first?",
                vec!["Jorge Ledezma", "Yuliya Baraley"],
            ),
            (
                "Which band was formed first The Exies or Circus Diablo?",
                vec!["The Exies", "Circus Diablo"],
            ),
            (
                "Who was born first out of Ada Lovelace and Andy Summers?",
                vec!["Ada Lovelace", "Andy Summers"],
            ),
            ("Was the door red or blue?", vec!["red", "blue"]),
            ("Did Maria or Jonas approve it?", vec!["Maria", "Jonas"]),
            ("Who leads Atlas?", vec![]),
            ("Is Ada or her sister here?", vec![]),
            ("or?", vec![]),
        ] {
            assert_eq!(options(question), expected, "{question}");
        }
        let form = Form::of("Was Jorge Ledezma or Yuliya Baraley born first?");
        assert!(matches!(form, Form::Choice { rest, .. } if rest == "Was born first"));
    }

    #[test]
    fn forms_are_told_by_their_words() {
        for (question, expected) in [
            ("Is Maria the lead?", Form::YesOrNo),
            ("Did Ada build the mill?", Form::YesOrNo),
            ("Why did Ada build the mill?", Form::Explained),
            ("How is flour made?", Form::Explained),
            ("How long is the road?", Form::One),
            ("How many mills are there?", Form::One),
            ("Can you tell me who leads Atlas?", Form::One),
            ("Who leads Atlas?", Form::One),
            ("Who are the founders of Atlas?", Form::Several),
            ("Which mills did Ada build?", Form::Several),
            ("What old mills were burnt?", Form::Several),
            ("List all mills of Tara.", Form::Several),
            ("What is Texas known for?", Form::One),
            ("What class does Ada teach?", Form::One),
            ("Which firm owns Atlas?", Form::One),
            ("What happens to a task when it is dropped?", Form::One),
            ("Which series did Ada write?", Form::One),
        ] {
            assert_eq!(Form::of(question), expected, "{question}");
        }
    }

    proptest! {
        #[test]
        fn any_question_has_a_form(
            question in "(Which |is |Ada |or |and |, |between |é|\\? ){0,14}|\\PC{0,60}",
        ) {
            if let Form::Choice { options, .. } = Form::of(&question) {
                prop_assert!(options.len() >= 2);
                prop_assert!(options.iter().all(|option| !option.trim().is_empty()));
            }
        }
    }
}

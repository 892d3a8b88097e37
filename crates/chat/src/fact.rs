//! Facts: what speakers state of themselves.

use clew_core::{Span, SpeakerRole, Turn};
use clew_text::{Shape, one_line, sentences, words};

/// Words by which speakers refer to themselves.
const FIRST_PERSON: [&str; 9] = ["i", "me", "my", "mine", "myself", "we", "us", "our", "ours"];

/// Returns the sentences of a turn in which its speaker states something of themselves, in order,
/// each once. They replace LongMemEval's user facts (section 5.3 and appendix D) without a language
/// model.
///
/// For one of several people, the name replaces "I", because questions use names as well. A user's
/// facts keep "I", because the user asks the questions. An assistant has no facts. Only English is
/// supported. "It" may remain unexplained, statements about a speaker without "I" are missed, and
/// the verb keeps its person.
pub fn facts(turn: &Turn) -> Vec<String> {
    facts_in(turn.role, &turn.speaker, &turn.text)
}

/// Returns the [`facts`] of a text that a speaker says.
pub fn facts_in(role: SpeakerRole, speaker: &str, text: &str) -> Vec<String> {
    let mut facts: Vec<String> = Vec::new();
    for (_, fact) in told(role, speaker, text) {
        if !facts.contains(&fact) {
            facts.push(fact);
        }
    }
    facts
}

/// Returns a sentence of a turn as it appears in a key: on one line, and with the name of one of
/// several people.
pub(crate) fn reported(role: SpeakerRole, speaker: &str, sentence: &str) -> String {
    match role {
        SpeakerRole::Other if !speaker.is_empty() => in_third_person(sentence, speaker),
        SpeakerRole::User | SpeakerRole::Assistant | SpeakerRole::Other => one_line(sentence),
    }
}

/// Returns the facts that a speaker states, each with its sentence in the text. Repeated facts are
/// repeated here.
pub(crate) fn told<'t>(
    role: SpeakerRole,
    speaker: &'t str,
    text: &'t str,
) -> impl Iterator<Item = (Span, String)> + 't {
    let text = if role == SpeakerRole::Assistant { "" } else { text };
    sentences(text).into_iter().filter_map(move |span| {
        let sentence = span.of(text).unwrap_or_default().trim();
        if Shape::of(sentence) != Shape::Statement || !is_in_first_person(sentence) {
            return None;
        }
        Some((span, reported(role, speaker, sentence)))
    })
}

/// Splits a word at its apostrophe: "I've" becomes `("I", "ve")`.
fn split(word: &str) -> (&str, &str) {
    word.split_once(['\'', '’']).unwrap_or((word, ""))
}

/// Returns whether a sentence says what its speaker does or has. "Give me three" does not.
pub(crate) fn is_of_own(sentence: &str) -> bool {
    words(sentence).any(|word| {
        let word = sentence[word.start..word.end].to_lowercase();
        matches!(split(&word).0, "i" | "my" | "mine" | "we" | "our" | "ours")
    })
}

/// Returns whether a sentence contains a word by which speakers refer to themselves, alone or with
/// others.
pub fn is_in_first_person(sentence: &str) -> bool {
    words(sentence).any(|word| {
        let word = sentence[word.start..word.end].to_lowercase();
        FIRST_PERSON.contains(&split(&word).0)
    })
}

/// Returns a sentence on one line, with the speaker's name for "I". "We" stays, because it is
/// unknown who else is meant.
fn in_third_person(sentence: &str, name: &str) -> String {
    let mut fact = String::with_capacity(sentence.len());
    let mut end = 0;
    for word in words(sentence) {
        let written = &sentence[word.start..word.end];
        let (subject, rest) = split(written);
        let spoken = match (subject.to_lowercase().as_str(), rest) {
            ("i" | "me" | "myself", "") => name.to_owned(),
            ("i", "m") => format!("{name} is"),
            ("i", "ve") => format!("{name} has"),
            ("i", "d") => format!("{name} would"),
            ("i", "ll") => format!("{name} will"),
            ("my" | "mine", "") => format!("{name}'s"),
            _ => continue,
        };
        fact.push_str(&sentence[end..word.start]);
        fact.push_str(&spoken);
        end = word.end;
    }
    fact.push_str(&sentence[end..]);
    one_line(&fact)
}

#[cfg(test)]
mod tests {
    use clew_core::{Attributes, TurnId};
    use proptest::prelude::*;

    use super::*;

    fn facts_of(role: SpeakerRole, text: &str) -> Vec<String> {
        facts(&Turn {
            id: TurnId { session: "s".parse().unwrap(), number: 1 },
            speaker: "Ada".to_owned(),
            role,
            text: text.to_owned(),
            time: None,
            attributes: Attributes::new(),
        })
    }

    #[test]
    fn facts_are_statements_in_the_first_person() {
        let text = "Great weather! I'm keeping bees now.\nDo I like honey? My hives stand at home. \
            We moved them twice. My hives stand at home.";
        assert_eq!(
            facts_of(SpeakerRole::User, text),
            ["I'm keeping bees now.", "My hives stand at home.", "We moved them twice."]
        );
        assert_eq!(
            facts_of(SpeakerRole::Other, text),
            ["Ada is keeping bees now.", "Ada's hives stand at home.", "We moved them twice."]
        );
        assert!(facts_of(SpeakerRole::Assistant, text).is_empty());
    }

    #[test]
    fn names_stand_for_whole_words_only() {
        for (said, expected) in [
            ("I’ve seen it, and I'd go again.", "Ada has seen it, and Ada would go again."),
            ("Give me the Mimi I lost myself in.", "Give Ada the Mimi Ada lost Ada in."),
            ("That hive is mine  and mineral.", "That hive is Ada's and mineral."),
            ("Sir, I'll ask Ian's mine's owner.", "Sir, Ada will ask Ian's mine's owner."),
        ] {
            assert_eq!(facts_of(SpeakerRole::Other, said), [expected]);
        }
    }

    proptest! {
        #[test]
        fn a_users_facts_are_sentences_of_the_text(
            text in "([a-zé.!?\n'’ ]|I |my ){0,80}|\\PC{0,80}"
        ) {
            let said = one_line(&text);
            for fact in facts_of(SpeakerRole::User, &text) {
                prop_assert!(said.contains(&fact) && !fact.is_empty());
            }
            prop_assert_eq!(facts_of(SpeakerRole::Other, &text).is_empty(), facts_of(SpeakerRole::User, &text).is_empty());
        }
    }
}

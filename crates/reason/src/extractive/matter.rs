//! Recognises the kind of reading that a question asks for, by its words. English only; a question
//! that is not recognised asks for a fact.

use super::counting::Counting;
use super::phrase::{holds_any, split, split_any};
use super::reckoning::Reckoning;

/// Expressions that ask for advice. What the asker likes and owns bears on the answer.
const ADVICE: [&str; 20] = [
    "can you recommend",
    "can you suggest",
    "could you recommend",
    "could you suggest",
    "recommend me",
    "suggest me",
    "any recommendations",
    "any suggestions",
    "any tips",
    "any ideas",
    "any advice",
    "any helpful tips",
    "what should i",
    "should i",
    "what do you think",
    "do you think i",
    "do you think it would be",
    "recommendations for",
    "do you recommend",
    "do you suggest",
];
/// Pairs of expressions around the subject of a request for advice.
const ADVICE_AROUND: [(&str, &str); 3] =
    [("any", "recommendations"), ("any", "suggestions"), ("any", "tips")];
/// Expressions that ask for something that the assistant said.
const RECOLLECTION: [&str; 27] = [
    "remind me",
    "you recommended",
    "you suggested",
    "you mentioned",
    "you told me",
    "you said",
    "you provided",
    "you gave me",
    "you wrote",
    "you created",
    "you listed",
    "you described",
    "you explained",
    "you were referring to",
    "did you say",
    "did you tell me",
    "did you recommend",
    "did you suggest",
    "did you mention",
    "did you write",
    "our previous conversation",
    "our previous chat",
    "our last conversation",
    "our last chat",
    "we discussed",
    "we talked about",
    "our conversation about",
];
/// Expressions that introduce the topic of such a question and are not part of it.
const PREFACES: [&str; 12] = [
    "i was looking back at",
    "i'm looking back at",
    "i wanted to follow up on",
    "i was going through",
    "i'm going back to",
    "i'm checking",
    "i was thinking about",
    "i was wondering if you could",
    "and i was wondering",
    "i wanted to confirm",
    "can you",
    "could you",
];
/// Expressions that only say that advice is wanted.
const ASKING: [&str; 16] = [
    "can you recommend",
    "can you suggest",
    "could you recommend",
    "could you suggest",
    "some",
    "recommendations",
    "recommendation",
    "suggestions",
    "suggestion",
    "tips",
    "advice",
    "helpful",
    "interesting",
    "any",
    "ideas",
    "what do you think",
];

/// Maximum number of phrases removed from a topic.
const MAX_CUTS: usize = 16;

/// Kind of reading that a question asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Matter {
    /// A length of time, an order or a day.
    Reckoning(Reckoning),
    /// A number of things or a sum of money.
    Counting(Counting),
    /// Advice: the memory contains what the asker likes and owns.
    Advice,
    /// Something that the assistant said.
    Recollection,
    /// Anything else.
    Fact,
}

impl Matter {
    /// Returns the kind of reading that `question` asks for.
    pub(crate) fn of(question: &str) -> Self {
        if holds_any(question, &RECOLLECTION) {
            return Self::Recollection;
        }
        let is_around = |&(before, after): &(&str, &str)| {
            split(question, before).and_then(|(_, rest)| split(rest, after)).is_some_and(
                // As in "any documentary recommendations".
                |(between, _)| between.split_whitespace().count() <= 2,
            )
        };
        if holds_any(question, &ADVICE) || ADVICE_AROUND.iter().any(is_around) {
            return Self::Advice;
        }
        if let Some(reckoning) = Reckoning::of(question) {
            return Self::Reckoning(reckoning);
        }
        Counting::of(question).map_or(Self::Fact, Self::Counting)
    }

    /// Returns the question without expressions that only show its kind, for comparison with what
    /// was said.
    pub(crate) fn topic(&self, question: &str) -> String {
        let leave_out = |phrases: &[&str]| {
            let mut text = question.to_owned();
            for _ in 0..MAX_CUTS {
                let Some((before, after)) = split_any(&text, phrases) else { break };
                text = format!("{before} {after}");
            }
            text.trim().to_owned()
        };
        let topic = match self {
            Self::Reckoning(_) | Self::Counting(_) | Self::Fact => return question.to_owned(),
            Self::Advice => leave_out(&ASKING),
            Self::Recollection => {
                let topic = leave_out(&[&RECOLLECTION[..], &PREFACES[..]].concat());
                // An ordinal such as "7th" occurs only at the item of the list.
                topic
                    .split_whitespace()
                    .filter(|word| !is_place(word))
                    .collect::<Vec<_>>()
                    .join(" ")
            }
        };
        let says_something = topic.chars().any(char::is_alphanumeric);
        if says_something { topic } else { question.to_owned() }
    }
}

/// Returns whether a word is an ordinal such as "7th" or "22nd".
fn is_place(word: &str) -> bool {
    let rest = word.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < word.len() && ["st", "nd", "rd", "th"].contains(&rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn matters_are_told_by_their_words() {
        for (question, expected) in [
            ("Can you recommend a harp for me?", "Advice"),
            ("I am off to Rome. Any museum tips?", "Advice"),
            ("What should I cook tonight?", "Advice"),
            ("Which harp did you recommend?", "Recollection"),
            ("Remind me of the name of the harp maker.", "Recollection"),
            ("In our previous conversation about harps, what came first?", "Recollection"),
            ("When did I buy the harp?", "Reckoning"),
            ("How many harps did I buy?", "Counting"),
            ("Which harp did my sister recommend?", "Fact"),
            ("Who made the harp?", "Fact"),
        ] {
            let matter = format!("{:?}", Matter::of(question));
            assert!(matter.starts_with(expected), "{question}: {matter}");
        }
    }

    #[test]
    fn the_topic_is_what_is_left_of_the_question() {
        let topic = |question: &str| Matter::of(question).topic(question);
        assert_eq!(topic("Can you suggest some strings for my harp?"), "strings for my harp?");
        assert_eq!(topic("Could you remind me which harp we discussed?"), "which harp ?");
        assert_eq!(topic("Remind me of the 7th harp you listed."), "of the harp .");
        assert_eq!(topic("Any tips?"), "Any tips?");
        assert_eq!(topic("Who made it?"), "Who made it?");
    }

    proptest! {
        #[test]
        fn any_text_has_a_matter_and_a_topic(text in "(any |tips |can you |you said |how many |did i |é|[a-z]{1,4} ){0,20}|\\PC{0,60}") {
            prop_assert_eq!(Matter::of(&text).topic(&text).is_empty(), text.is_empty());
        }
    }
}

//! Answers yes or no where a sentence says it in the question's own words.
//!
//! "Does Maria lead the team?" is answered by "Maria leads the team." and by "Maria doesn't lead
//! the team." Everything else, however likely it seems, is left to a quotation: words alone do not
//! show what follows from "Maria helps to lead the team", "Maria led the team until May" or "Jonas
//! says that Maria leads the team".

use clew_core::Span;
use clew_text::{Shape, words};

use super::form::AUXILIARIES;
use crate::extractive::phrase::{after_start, bare};
use crate::extractive::plain::{plain, plain_terms};
use crate::extractive::verb::{in_past, is_past};

/// Words that change nothing in what is said.
const ARTICLES: [&str; 3] = ["a", "an", "the"];
/// Words for no.
const NEGATIONS: [&str; 2] = ["not", "never"];
/// Words that may follow the last word of the question: what they begin adds to the statement, and
/// takes nothing back.
const ADDING: [&str; 5] = ["and", "because", "by", "since", "together"];
/// Auxiliaries that stand for each other.
const GROUPS: [&[&str]; 4] =
    [&["is", "are", "am"], &["was", "were"], &["has", "have"], &["do", "does"]];

/// A question that yes or no answers.
pub(super) struct Asked {
    auxiliary: String,
    /// Its other words, in their order: as they are, and with verbs in the past.
    forms: [Vec<String>; 2],
}

/// A word of a sentence, in the forms in which it is compared.
struct Token<'t> {
    word: &'t str,
    lower: String,
    keys: Vec<String>,
    /// Text between it and the word before it.
    gap: &'t str,
}

impl Asked {
    /// Reads a question; returns `None` if it does not begin with an auxiliary, says too little, or
    /// asks whether something is not so: yes to that means both.
    pub(super) fn of(question: &str) -> Option<Self> {
        let question = bare(question);
        let rest = after_start(question, &AUXILIARIES)?;
        let auxiliary = question[..question.len() - rest.len()].trim().to_lowercase();
        let keys =
            |text: &str| tokens(&plain(text)).into_iter().flat_map(|token| token.keys).collect();
        let forms: [Vec<String>; 2] = [keys(rest), keys(&in_past(rest))];
        let is_negative = forms[0].iter().any(|word| NEGATIONS.contains(&word.as_str()));
        (forms[0].len() >= 2 && !is_negative).then_some(Self { auxiliary, forms })
    }

    /// Returns what `sentence` answers, if it answers in the question's words.
    pub(super) fn answer(&self, sentence: &str) -> Option<bool> {
        if Shape::of(sentence.trim()) == Shape::Asking {
            return None;
        }
        let plain = plain(sentence);
        let tokens = tokens(&plain);
        self.forms.iter().find_map(|form| self.answer_by(form, &tokens))
    }

    /// Compares the words of the question, in one of their forms, with those of a sentence from its
    /// beginning on.
    fn answer_by(&self, form: &[String], tokens: &[Token<'_>]) -> Option<bool> {
        let (mut open, mut between, mut is_told_in_past) = (form, Vec::new(), false);
        let mut tokens = tokens.iter().enumerate();
        while !open.is_empty() {
            let (place, token) = tokens.next()?;
            if place > 0 && !token.gap.trim().is_empty() {
                return None;
            }
            if !token.keys.is_empty() && open.starts_with(&token.keys) {
                open = &open[token.keys.len()..];
                is_told_in_past |= token.is_past();
                if open.is_empty() && token.is_owner() {
                    return None;
                }
            } else if !token.keys.is_empty() || AUXILIARIES.contains(&token.lower.as_str()) {
                between.push(token.lower.as_str());
            }
        }
        let adds = |token: &Token<'_>| {
            let is_next = token.gap.trim().is_empty() && ADDING.contains(&token.lower.as_str());
            is_next || token.gap.contains(['.', ';'])
        };
        let may_end = tokens.next().is_none_or(|(_, token)| adds(token));
        if may_end { self.polarity(&between, is_told_in_past) } else { None }
    }

    /// Returns whether the words between those of the question say yes or no. `is_told_in_past`
    /// tells whether one of the words in common is a verb in the past.
    fn polarity(&self, between: &[&str], is_told_in_past: bool) -> Option<bool> {
        let (mut auxiliaries, mut negations) = (Vec::new(), 0);
        for word in between {
            if let Some(positive) = word.strip_suffix("n't").or(word.strip_suffix("n’t")) {
                auxiliaries.push(positive);
                negations += 1;
            } else if NEGATIONS.contains(word) {
                negations += 1;
            } else if AUXILIARIES.contains(word) {
                auxiliaries.push(word);
            } else {
                return None;
            }
        }
        let asked = self.auxiliary.as_str();
        let is_same = match auxiliaries[..] {
            [] => match asked {
                "do" | "does" => !is_told_in_past,
                "did" => is_told_in_past,
                _ => false,
            },
            [one] => {
                let stand = |group: &&[&str]| group.contains(&one) && group.contains(&asked);
                one == asked || GROUPS.iter().any(stand)
            }
            _ => false,
        };
        (is_same && negations < 2).then_some(negations == 0)
    }
}

impl Token<'_> {
    fn is_past(&self) -> bool {
        // A name may end like a verb: "Ahmed".
        !self.word.starts_with(char::is_uppercase) && is_past(&self.lower)
    }

    fn is_owner(&self) -> bool {
        self.lower.ends_with("'s") || self.lower.ends_with("’s")
    }
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut end = 0;
    let token = |span: Span| {
        let (word, gap) = (&text[span.start..span.end], &text[end..span.start]);
        end = span.end;
        let lower = word.to_lowercase();
        let mut keys: Vec<String> =
            plain_terms(word).iter().map(|term| term.as_str().to_owned()).collect();
        let says_nothing = ARTICLES.contains(&lower.as_str()) || AUXILIARIES.contains(&&*lower);
        if says_nothing {
            keys.clear();
        } else if keys.is_empty() {
            keys.push(lower.clone());
        }
        Token { word, lower, keys, gap }
    };
    words(text).map(token).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn answer(question: &str, sentence: &str) -> Option<bool> {
        Asked::of(question).and_then(|asked| asked.answer(sentence))
    }

    #[test]
    fn what_a_sentence_says_in_the_same_words_is_answered() {
        for (question, sentence, expected) in [
            ("Is Maria the lead of the team?", "Maria is the lead of the team.", true),
            ("Is Maria the lead of the team?", "Maria is not the lead of the team.", false),
            ("Is Maria the lead of the team?", "Maria isn’t the lead of the team.", false),
            ("Does Maria lead the team?", "Maria leads the team.", true),
            ("Does Maria lead the team?", "Maria doesn't lead the team.", false),
            ("Did Maria hire Jonas?", "Maria hired Jonas.", true),
            ("Did Maria write the plan?", "Maria wrote the plan by hand.", true),
            ("Did Maria write the plan?", "Maria did not write the plan.", false),
            ("Did Maria write the plan?", "Maria never wrote the plan; Jonas did.", false),
            ("Was the mill built by Ada?", "The mill was built by Ada.", true),
            ("Has Maria approved it?", "Maria has never approved it.", false),
            (
                "Do purchases over 5000 euros need approval?",
                "Purchases over €5,000 need approval by Jonas.",
                true,
            ),
            ("Do I own a harp?", "I own a harp.", true),
        ] {
            assert_eq!(answer(question, sentence), Some(expected), "{question} {sentence}");
        }
    }

    #[test]
    fn what_only_resembles_it_is_not() {
        for (question, sentence) in [
            ("Is the key under the mat?", "The key is on the mat."),
            ("Is the key under the mat?", "Is the key under the mat?"),
            (
                "Is the office open on Sunday?",
                "The office is open from Monday, and closed on Sunday.",
            ),
            ("Is Maria the lead of the team?", "Maria was the lead of the team."),
            ("Is Maria the lead of the team?", "Maria is the lead of the team's budget."),
            ("Is Maria the lead of the team?", "Maria is only the lead of the team."),
            ("Does Maria lead the team?", "Maria led the team."),
            ("Does Maria lead the team?", "Maria leads the team until May."),
            ("Does Maria lead the team?", "Maria leads the team, says Jonas."),
            ("Does Maria lead the team?", "Jonas says that Maria leads the team."),
            ("Does Maria lead the team?", "Maria will lead the team."),
            ("Does Maria lead the team?", "Maria and Jonas lead the team."),
            ("Did Maria hire Jonas?", "Jonas was hired by Maria."),
            ("Did Jonas hire Maria?", "Maria hired Jonas."),
            ("Did Ahmed hire Jonas?", "Ahmed hires Jonas."),
            ("Did Maria approve the plan?", "The deputy of Maria approved the plan."),
            ("Did Maria approve the plan?", "Maria refused to approve the plan."),
            ("Did Maria approve the budget?", "Maria approved the budget cut."),
            ("Did Maria write it?", "Maria did not never write it."),
            ("Can Maria approve it?", "Maria can't approve it."),
            ("Is it?", "It is."),
            ("Is Maria not the lead?", "Maria is not the lead."),
            ("Who is it?", "It is Maria."),
        ] {
            assert_eq!(answer(question, sentence), None, "{question} {sentence}");
        }
    }

    proptest! {
        #[test]
        fn any_sentence_answers_or_not(
            question in "(Is |Did |Maria |lead |not |the |5,000 |é)*",
            sentence in "(Maria |is |not |leads |the |, |5000 |é|. )*|\\PC{0,40}",
        ) {
            let _ = answer(&question, &sentence);
        }
    }
}

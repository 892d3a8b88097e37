//! Reads passages after what leads to them. "Where was the director of Titanic born?" is answered
//! by a passage about James Cameron only for those who have read, in another one, that he directed
//! it: so the reader gets that sentence before the passage. English only.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use clew_core::{Error, Span};
use clew_text::{is_grammar_word, one_line, words};

use super::candidate::Candidate;
use super::session::Session;
use super::shown::{Framed, Lead, Shown, lower_words};
use crate::extractive::question::{Question, WordSet};

/// Maximum number of passages that are read once more.
const MOST_JOINED: usize = 8;
/// Words within a name that are not capitalised.
const JOINING: [&str; 9] = ["of", "the", "de", "la", "von", "van", "der", "du", "di"];

impl Session<'_, '_> {
    /// Asks as [`Self::answers`] does about all passages. Reads some of them once more, each after
    /// a sentence that leads to it, unless a single passage answers with the probability `sure`.
    pub(super) async fn joined_answers(&mut self, sure: f32) -> Result<Vec<Candidate>, Error> {
        let question = self.question;
        let mut seen = self.look(question, &Framed::alone(&self.all())).await?;
        let found = self.found(question, &seen);
        if found.first().is_some_and(|best| best.probability >= sure) {
            return Ok(found);
        }
        let joined = joined(&Question::new(question), &self.shown);
        if joined.is_empty() {
            return Ok(found);
        }
        seen.extend(self.look(question, &joined).await?);
        Ok(self.found(question, &seen))
    }
}

/// A sentence that leads to a passage, and how well it does.
struct Link {
    lead: Lead,
    /// Names of the question that the passage lacks and the sentence has, then other words of it.
    /// Links by the passage's title are better than other links.
    rank: (u32, bool, u32),
}

/// Returns the passages to read after a sentence of another one, best first. The sentence, or the
/// title above it, has words of the question that the passage lacks, and names the passage: by its
/// title, or by a name of several words that is in both.
fn joined(question: &Question, shown: &[Shown<'_>]) -> Vec<Framed> {
    let passages: Vec<Linked> = shown.iter().map(|shown| Linked::new(question, shown)).collect();
    let mut links: Vec<(usize, Link)> = Vec::new();
    for (index, passage) in passages.iter().enumerate() {
        let mut best: Option<Link> = None;
        for (other, leading) in passages.iter().enumerate() {
            if other == index || leading.title == passage.title && !passage.title.is_empty() {
                continue;
            }
            for sentence in &leading.sentences {
                let gained = sentence.asked.without(passage.asked);
                if gained == WordSet::default() {
                    continue;
                }
                let by_title = sentence.names(&passage.title);
                if !by_title && !sentence.spoken.iter().any(|name| passage.holds(name)) {
                    continue;
                }
                let is_name = |place: &usize| question.words()[*place].is_name;
                let names =
                    (0..question.words().len()).filter(|at| gained.holds(*at) && is_name(at));
                let rank = (names.count() as u32, by_title, gained.len());
                if best.as_ref().is_none_or(|best| rank > best.rank) {
                    best =
                        Some(Link { lead: Lead { passage: other, sentence: sentence.span }, rank });
                }
            }
        }
        links.extend(best.map(|best| (index, best)));
    }
    links.sort_by_key(|(_, link)| Reverse(link.rank));
    let framed = |(passage, link): (usize, Link)| Framed { passage, lead: Some(link.lead) };
    links.into_iter().take(MOST_JOINED).map(framed).collect()
}

/// A passage with what may link it to others.
struct Linked {
    /// Words of the title, without what distinguishes it from equal titles: "Argo (film)".
    title: Vec<String>,
    /// Pairs of neighbouring words.
    pairs: BTreeSet<(String, String)>,
    /// Words of the question in the title and the text.
    asked: WordSet,
    sentences: Vec<LinkedSentence>,
}

struct LinkedSentence {
    span: Span,
    words: Vec<String>,
    /// Names of several words in it.
    spoken: Vec<Vec<String>>,
    /// Words of the question in it, and in the title above it.
    asked: WordSet,
}

impl Linked {
    fn new(question: &Question, shown: &Shown<'_>) -> Self {
        let title = one_line(&shown.evidence.title);
        let title = lower_words(title.split(" (").next().unwrap_or_default());
        let of_title = question.words_in(&shown.evidence.title);
        let of_sentence = |&span: &Span| {
            let text = shown.text(span);
            LinkedSentence {
                span,
                words: lower_words(text),
                spoken: names(text),
                asked: question.words_in(text) | of_title,
            }
        };
        let sentences: Vec<LinkedSentence> = shown.sentences.iter().map(of_sentence).collect();
        let asked = sentences.iter().fold(of_title, |all, sentence| all | sentence.asked);
        let pairs = sentences.iter().map(|sentence| &sentence.words).chain([&title]);
        let pairs = pairs.flat_map(|words| words.iter().zip(words.iter().skip(1)));
        let pairs = pairs.map(|(a, b)| (a.clone(), b.clone())).collect();
        Self { title, pairs, asked, sentences }
    }

    /// Returns whether the passage has the words of a name next to each other, as far as pairs of
    /// them tell.
    fn holds(&self, name: &[String]) -> bool {
        let mut pairs = name.iter().zip(name.iter().skip(1));
        pairs.all(|(a, b)| self.pairs.contains(&(a.clone(), b.clone())))
    }
}

impl LinkedSentence {
    /// Returns whether the sentence has the words of `title` next to each other. A title of one
    /// short word is no name.
    fn names(&self, title: &[String]) -> bool {
        let is_name = title.len() > 1 || title.iter().any(|word| word.chars().count() > 3);
        is_name && self.words.windows(title.len()).any(|run| run == title)
    }
}

/// Returns the names of several words in a text, in lower case.
fn names(text: &str) -> Vec<Vec<String>> {
    let mut names = Vec::new();
    let mut name: Vec<String> = Vec::new();
    let mut end_of_last = 0;
    for span in words(text) {
        let Some(word) = span.of(text) else { continue };
        let is_apart = text[end_of_last..span.start].contains([',', ';', ':', '(', ')', '"']);
        end_of_last = span.end;
        let begins = word.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit());
        let goes_on = begins || !name.is_empty() && JOINING.contains(&word);
        if is_apart || !goes_on {
            take_name(&mut name, &mut names);
        }
        let lower = word.to_lowercase();
        if goes_on && !(name.is_empty() && (!begins || is_grammar_word(&lower))) {
            name.push(lower);
        }
    }
    take_name(&mut name, &mut names);
    names
}

/// Moves a name to the others if it has several words. Words that only join are not its end.
fn take_name(name: &mut Vec<String>, names: &mut Vec<Vec<String>>) {
    while name.last().is_some_and(|word| JOINING.contains(&word.as_str())) {
        name.pop();
    }
    let name = std::mem::take(name);
    if name.len() > 1 {
        names.push(name);
    }
}

#[cfg(test)]
mod tests {
    use clew_core::Evidence;

    use super::super::shown::shown;
    use super::*;
    use crate::extractive::fixtures::passage;

    fn titled(title: &str, text: &str, score: f32) -> Evidence {
        Evidence { title: title.to_owned(), ..passage(&title.replace(' ', "-"), 0, text, score) }
    }

    /// Returns the titles of the passages that are read again, each with what stands before it.
    fn framed(question: &str, evidence: &[Evidence]) -> Vec<(String, String)> {
        let shown = shown(evidence);
        let told = |framed: Framed| {
            let read = framed.to_read(&shown);
            let leading = framed.lead.unwrap().text(&shown);
            let before = read.text[..Framed::before(&leading)].trim_end().to_owned();
            (shown[framed.passage].evidence.title.clone(), before)
        };
        joined(&Question::new(question), &shown).into_iter().map(told).collect()
    }

    #[test]
    fn a_passage_is_read_after_the_sentence_that_leads_to_it() {
        let evidence = [
            titled("Titanic (film)", "It is long. James Cameron directed it.", 0.9),
            titled("James Cameron", "He was born in Kapuskasing.", 0.8),
            titled("The Harp", "A harp has strings.", 0.7),
        ];
        let lead = "Titanic (film): James Cameron directed it.";
        let expected = [("James Cameron".to_owned(), lead.to_owned())];
        assert_eq!(framed("Where was the director of Titanic born?", &evidence), expected);
        // The sentence adds nothing that is asked for.
        assert!(framed("Where was the maker of harps born?", &evidence).is_empty());
    }

    #[test]
    fn a_name_of_several_words_in_both_leads_to_a_passage() {
        let evidence = [
            titled("Letters", "Ada wrote of the Old Mill of Tara in May.", 0.9),
            titled("Notes", "Rolf bought the Old Mill of Tara.", 0.8),
        ];
        let expected =
            ("Notes".to_owned(), "Letters: Ada wrote of the Old Mill of Tara in May.".to_owned());
        assert_eq!(framed("Who bought what Ada wrote of?", &evidence)[0], expected);
    }

    #[test]
    fn names_are_runs_of_capitalised_words() {
        let text =
            "In Paris, The House of the Sun and Ada Byron met Mr. Rolf of Tara, of 12 Main Street";
        let found: Vec<String> = names(text).into_iter().map(|name| name.join(" ")).collect();
        assert_eq!(found, ["house of the sun", "ada byron", "mr rolf of tara", "12 main street"]);
        assert!(
            names("").is_empty() && names("of the").is_empty() && names("Ada, Rolf").is_empty()
        );
    }
}

//! Scores how well sentences fit a question.

use clew_text::Shape;

use super::leaning::Leaning;
use super::question::{Question, WordSet};
use super::sentence::{MAX_PASSAGES, Material, Sentence};

/// Maximum number of sentences embedded for one question, in all and of one passage: about a
/// thousand tokens in total.
const MAX_SENTENCES: usize = 48;
const MAX_SENTENCES_OF_PASSAGE: usize = 24;

/// Factor for the weight of names and numbers.
const NAME_FACTOR: f32 = 2.0;

/// Weights of the parts of a score, beside a cosine similarity of weight 1.
struct Mix {
    /// Weight of the share of the question's words, by weight, that the sentence contains.
    overlap: f32,
    /// Weight of belonging to the best passage; lower for worse passages.
    first_passage: f32,
    /// Weight of stating something, rather than asking or being a fragment.
    statement: f32,
}

/// Weights for choosing the sentences to embed, before cosines are known.
const PROMISE: Mix = Mix { overlap: 1.0, first_passage: 0.3, statement: 0.3 };
/// Weights for choosing the sentences of the answer. Measured by how often the best sentences
/// contained a known answer, half to twice each weight does equally well, within the precision of
/// 160 questions.
const FIT: Mix = Mix { overlap: 0.2, first_passage: 0.05, statement: 0.15 };

/// Weights of a question's words.
///
/// The weight of a word is the inverse document frequency of BM25, ln(1 + (N − n + ½) / (n + ½)),
/// with the N sentences read as the documents, n of which contain the word. Names and numbers count
/// twice. The frequencies of the corpus are not known here, and would not help: a word that all
/// results repeat does not tell their sentences apart, however rare it is elsewhere.
#[derive(Debug)]
pub(crate) struct Weights {
    of_words: Vec<f32>,
}

impl Weights {
    /// Computes the weights of `question`'s words among `sentences`.
    pub(crate) fn new(question: &Question, sentences: &[Sentence<'_>]) -> Self {
        let held: Vec<WordSet> = sentences.iter().map(|sentence| sentence.words).collect();
        Self::among(question, &held)
    }

    /// Computes the weights of `question`'s words among sentences that contain the words `held`.
    pub(crate) fn among(question: &Question, held: &[WordSet]) -> Self {
        let all = held.len() as f32;
        let of_words = question.words().iter().enumerate().map(|(place, word)| {
            let holding = held.iter().filter(|words| words.holds(place)).count() as f32;
            let rarity = (1.0 + (all - holding + 0.5) / (holding + 0.5)).ln();
            if word.is_name { NAME_FACTOR * rarity } else { rarity }
        });
        Self { of_words: of_words.collect() }
    }

    /// Returns the share of the total weight that `words` have, 0 to 1; 0 for a question without
    /// words.
    pub(crate) fn share(&self, words: WordSet) -> f32 {
        let total: f32 = self.of_words.iter().sum();
        let held = self.of_words.iter().enumerate().filter(|(place, _)| words.holds(*place));
        if total > 0.0 { held.map(|(_, weight)| weight).sum::<f32>() / total } else { 0.0 }
    }
}

/// Returns the sentences worth embedding, best first: those that contain more of the question's
/// words, belong to a better passage and state something.
pub(crate) fn promising<'m, 'a>(
    material: &'m Material<'a>,
    weights: &Weights,
    leaning: &Leaning,
) -> Vec<&'m Sentence<'a>> {
    let mut of_passage = [0; MAX_PASSAGES];
    let promise = |s| score(material, weights, s, &PROMISE) + leaning.score(material, s);
    by_score(material.sentences.iter().map(|s| (s, promise(s))))
        .into_iter()
        .map(|(sentence, _)| sentence)
        .filter(|sentence| {
            of_passage[sentence.passage] += 1;
            of_passage[sentence.passage] <= MAX_SENTENCES_OF_PASSAGE
        })
        .take(MAX_SENTENCES)
        .collect()
}

/// Returns `sentences` with their scores, best first. `cosines` are their similarities to the
/// question.
pub(crate) fn ranked<'m, 'a>(
    material: &Material<'a>,
    weights: &Weights,
    sentences: &[&'m Sentence<'a>],
    cosines: &[f32],
    leaning: &Leaning,
) -> Vec<(&'m Sentence<'a>, f32)> {
    let scored = sentences.iter().zip(cosines);
    let fit = |s| score(material, weights, s, &FIT) + leaning.score(material, s);
    by_score(scored.map(|(&s, cosine)| (s, cosine + fit(s))))
}

fn score(material: &Material<'_>, weights: &Weights, sentence: &Sentence<'_>, mix: &Mix) -> f32 {
    let rank = material.passages[sentence.passage].rank as f32;
    let is_statement = sentence.shape == Shape::Statement;
    mix.overlap * weights.share(sentence.words)
        + mix.first_passage * (1.0 - rank / MAX_PASSAGES as f32)
        + mix.statement * f32::from(u8::from(is_statement))
}

/// Sorts best first, and equals by passage and place, so that the input order makes no difference.
fn by_score<'m, 'a>(
    scored: impl Iterator<Item = (&'m Sentence<'a>, f32)>,
) -> Vec<(&'m Sentence<'a>, f32)> {
    let mut scored: Vec<_> = scored.collect();
    scored.sort_by(|(a, a_score), (b, b_score)| {
        b_score.total_cmp(a_score).then_with(|| (a.passage, a.span).cmp(&(b.passage, b.span)))
    });
    scored
}

#[cfg(test)]
mod tests {
    use clew_core::Evidence;

    use super::*;
    use crate::extractive::fixtures::passage;

    fn order(question: &str, evidence: &[Evidence], cosines: Option<&[f32]>) -> Vec<String> {
        let question = Question::new(question);
        let material = Material::new(&question, evidence);
        let weights = Weights::new(&question, &material.sentences);
        let chosen = match cosines {
            None => promising(&material, &weights, &Leaning::default()),
            Some(cosines) => {
                let all: Vec<_> = material.sentences.iter().collect();
                let none = Leaning::default();
                let ranked = ranked(&material, &weights, &all, cosines, &none);
                ranked.into_iter().map(|(sentence, _)| sentence).collect()
            }
        };
        chosen.into_iter().map(|sentence| sentence.text.to_owned()).collect()
    }

    #[test]
    fn a_rare_word_counts_more_than_a_common_one_and_a_name_most() {
        let question = Question::new("Which harp did the harper of Tara play?");
        let text = "The harper sang. The harper slept. The harper ate. A harp hung at Tara.";
        let evidence = [passage("a", 0, text, 1.0)];
        let material = Material::new(&question, &evidence);
        let weights = Weights::new(&question, &material.sentences);
        let share = |text: &str| weights.share(question.words_in(text));
        assert!(share("harper") < share("harp"));
        assert!(share("harp") < share("Tara"));
        assert!((share("harp harper Tara play") - 1.0).abs() < 1e-6);
        assert_eq!(share("nothing of it"), 0.0);
    }

    #[test]
    fn equal_cosines_are_decided_by_words_then_passage_then_place() {
        let evidence = [
            passage("late", 0, "The sky was wide and blue.", 0.1),
            passage("early", 0, "The sea was wide and grey. The hill was steep and bare.", 0.9),
        ];
        let found = order("How steep is it?", &evidence, Some(&[0.5; 3]));
        assert_eq!(
            found,
            [
                "The hill was steep and bare.",
                "The sea was wide and grey.",
                "The sky was wide and blue."
            ]
        );
    }

    #[test]
    fn what_states_something_goes_before_a_question_and_a_heading() {
        let text = "# Where the harp hangs\nWhere does the harp hang?\nThe harp hangs in a hall.";
        let evidence = [passage("a", 0, text, 1.0)];
        let found = order("Where does the harp hang?", &evidence, Some(&[0.8; 3]));
        assert_eq!(found[0], "The harp hangs in a hall.");
    }

    #[test]
    fn no_passage_takes_all_places_and_no_more_are_taken_than_agreed() {
        let long = |name: &str| (0..40).map(|n| format!("{name} has string {n}. ")).collect();
        let texts: [String; 3] = ["Harp", "Lute", "Lyre"].map(long);
        let evidence: Vec<Evidence> = texts
            .iter()
            .enumerate()
            .map(|(n, text)| passage(&n.to_string(), 0, text, 1.0 / (1.0 + n as f32)))
            .collect();
        let found = order("Which string does the Harp have?", &evidence, None);
        assert_eq!(found.len(), MAX_SENTENCES);
        let of_harp = found.iter().filter(|text| text.starts_with("Harp")).count();
        assert_eq!(of_harp, MAX_SENTENCES_OF_PASSAGE);
    }
}

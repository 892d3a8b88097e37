//! Planning without a language model: takes new search terms from the question and the passages
//! found.

use std::collections::BTreeSet;
use std::time::Instant;

use async_trait::async_trait;
use clew_core::{
    Clues, Concerns, Cost, Error, Evidence, Findings, MemoryPoint, MergedPoint, Named, NewPoint,
    Planner, PointChanges, Rewording, UpdatedPoint,
};
use clew_text::{Term, is_grammar_word, key_phrases, one_line, sentences, terms, words};

use super::ExtractiveReasoner;
use super::step::{propose_clues, raise_concerns};

/// Number of best passages near a question whose phrases are used.
const NEAR: usize = 3;
/// Maximum number of sentences in an imagined passage.
const IMAGINED: usize = 3;
/// Number of relations taken in at once, which keeps a memory of a few steps readable.
const TAKEN_IN: usize = 6;
/// Maximum length, in bytes, of a point's text. What does not fit is left out.
const POINT_BYTES: usize = 600;
/// Maximum number of entities of a merged point.
const MERGED_ENTITIES: usize = 6;
/// Minimum share of the shorter point's words that both points contain, for merging them.
const COMMON_WORDS: f32 = 0.5;

#[async_trait]
impl Planner for ExtractiveReasoner {
    /// Returns phrases that occur beside words of the question (see [`propose_clues`]): from the
    /// outline, then from the passages near the question (pseudo-relevance feedback).
    async fn clues(
        &self,
        question: &str,
        outline: &str,
        near: &[Evidence],
        most: usize,
        _deadline: Instant,
    ) -> Result<(Clues, Cost), Error> {
        let mut found = propose_clues(question, outline, most);
        for passage in near.iter().take(NEAR) {
            let left = most.saturating_sub(found.clues.len());
            for clue in propose_clues(question, &passage.text, most).clues.into_iter().take(left) {
                if !found.clues.contains(&clue) {
                    found.clues.push(clue);
                }
            }
        }
        Ok((found, Cost::default()))
    }

    /// Returns key phrases of the outline.
    async fn key_points(
        &self,
        _task: &str,
        outline: &str,
        most: usize,
        _deadline: Instant,
    ) -> Result<Named, Error> {
        Ok(named(key_phrases(outline, most).into_iter().map(one_line).collect()))
    }

    /// Returns the sentences found that share most words with the question: what resembles them
    /// resembles an answer (pseudo-relevance feedback).
    async fn imagine(
        &self,
        question: &str,
        near: &[Evidence],
        _deadline: Instant,
    ) -> Result<Named, Error> {
        let asked: BTreeSet<Term> = terms(question).collect();
        let mut found: Vec<(usize, String)> = near
            .iter()
            .flat_map(|passage| {
                let sentences = sentences(&passage.text).into_iter();
                sentences.filter_map(|span| span.of(&passage.text))
            })
            .map(|sentence| (terms(sentence).filter(|t| asked.contains(t)).count(), sentence))
            .filter(|(shared, _)| *shared > 0)
            .map(|(shared, sentence)| (shared, one_line(sentence)))
            .collect();
        // The sort is stable: ties keep the order of the results.
        found.sort_by_key(|(shared, _)| usize::MAX - shared);
        let best: Vec<String> = found.into_iter().take(IMAGINED).map(|(_, text)| text).collect();
        Ok(named(if best.is_empty() { Vec::new() } else { vec![best.join(" ")] }))
    }

    /// Rewrites the question to its content words, or decomposes it into its clauses that have at
    /// least two content words. Words alone do not show its other meanings, so `Disambiguate`
    /// returns nothing.
    async fn reword(
        &self,
        question: &str,
        how: Rewording,
        most: usize,
        _deadline: Instant,
    ) -> Result<Named, Error> {
        let mut texts: Vec<String> = match how {
            Rewording::Rewrite => vec![content_words(question).join(" ")],
            Rewording::Decompose => clauses(question),
            Rewording::Disambiguate => Vec::new(),
        };
        texts.retain(|text| !text.is_empty() && text != question);
        texts.truncate(most);
        Ok(named(texts))
    }

    /// Holds the question resolved if the reader finds its answer in the points. Otherwise what is
    /// missing (see [`clew_core::Navigator::judge`]) is needed about the point that comes nearest
    /// to an answer, or is a subject of its own if no point does. If nothing is missing by name,
    /// and without a reader for the question, these are the words of the question that no point
    /// contains, see [`raise_concerns`].
    async fn concerns(
        &self,
        question: &str,
        points: &[MemoryPoint],
        most: usize,
        deadline: Instant,
    ) -> Result<(Concerns, Cost), Error> {
        let Some(read) = self.points_for(question, points, deadline).await? else {
            return Ok((raise_concerns(question, points, most), Cost::default()));
        };
        let missing: Vec<String> = read.missing.into_iter().take(most).collect();
        let concerns = match read.nearest {
            _ if read.is_answered => Concerns::Resolved,
            _ if missing.is_empty() => raise_concerns(question, points, most),
            Some(point) => Concerns::Local(missing.into_iter().map(|it| (point, it)).collect()),
            None => Concerns::Global(missing),
        };
        Ok((concerns, read.cost))
    }

    /// Returns the concern itself, which is a word or name of the question, a name that was found,
    /// or a question, unless it was asked before.
    async fn subquery(
        &self,
        _question: &str,
        _points: &[MemoryPoint],
        concern: &str,
        asked: &[String],
        _deadline: Instant,
    ) -> Result<Named, Error> {
        let is_new = !asked.iter().any(|query| query == concern);
        Ok(named(if is_new { vec![concern.to_owned()] } else { Vec::new() }))
    }

    /// Inserts a point for the two entities of each of the best relations, or adds to the point
    /// that they already have.
    async fn take_in(
        &self,
        _question: &str,
        points: &[MemoryPoint],
        findings: &Findings,
        _deadline: Instant,
    ) -> Result<(PointChanges, Cost), Error> {
        let mut changes = PointChanges::default();
        for [head, text, tail] in findings.relations.iter().take(TAKEN_IN) {
            let (said, pair) = (format!("{head} {text} {tail}"), [head.clone(), tail.clone()]);
            let is_of_pair = |entities: &[String]| same(entities, &pair);
            if let Some(at) = points.iter().position(|point| is_of_pair(&point.entities)) {
                let updated = changes.updated.iter_mut().find(|update| update.point == at);
                match updated {
                    Some(update) => add(&mut update.text, &said),
                    None => {
                        let mut text = points[at].text.clone();
                        if add(&mut text, &said) {
                            changes.updated.push(UpdatedPoint { point: at, text });
                        }
                        continue;
                    }
                };
            } else if let Some(new) =
                changes.inserted.iter_mut().find(|new| is_of_pair(&new.entities))
            {
                add(&mut new.text, &said);
            } else if head != tail {
                changes.inserted.push(NewPoint { entities: pair.to_vec(), text: said });
            }
        }
        Ok((changes, Cost::default()))
    }

    /// Merges points that share an entity and at least half of their words, by joining their texts.
    async fn merge(
        &self,
        _question: &str,
        points: &[MemoryPoint],
        _deadline: Instant,
    ) -> Result<(Vec<MergedPoint>, Cost), Error> {
        let mut merged: Vec<MergedPoint> = Vec::new();
        let mut is_taken = vec![false; points.len()];
        for (at, point) in points.iter().enumerate() {
            if is_taken[at] {
                continue;
            }
            let (mut of, mut text) = (vec![at], point.text.clone());
            let mut entities: BTreeSet<&String> = point.entities.iter().collect();
            for (other_at, other) in points.iter().enumerate().skip(at + 1) {
                let shares = other.entities.iter().any(|entity| entities.contains(entity));
                let united: BTreeSet<&String> =
                    entities.iter().copied().chain(&other.entities).collect();
                let fits = united.len() <= MERGED_ENTITIES && !is_taken[other_at];
                if shares && fits && common_words(&text, &other.text) >= COMMON_WORDS {
                    add(&mut text, &other.text);
                    entities = united;
                    is_taken[other_at] = true;
                    of.push(other_at);
                }
            }
            if of.len() > 1 {
                merged.push(MergedPoint { points: of, text });
            }
        }
        Ok((merged, Cost::default()))
    }
}

fn named(texts: Vec<String>) -> Named {
    Named { texts, cost: Cost::default() }
}

fn content_words(text: &str) -> Vec<&str> {
    let is_content = |word: &&str| !is_grammar_word(&word.to_lowercase());
    words(text).filter_map(|span| span.of(text)).filter(is_content).collect()
}

/// Splits a question at commas, semicolons and "and".
fn clauses(question: &str) -> Vec<String> {
    let parts = question.split([',', ';']).flat_map(|part| part.split(" and "));
    let parts: Vec<String> = parts
        .filter(|part| content_words(part).len() >= 2)
        .map(|part| one_line(part.trim_matches(|c: char| c.is_whitespace() || c == '?')))
        .collect();
    if parts.len() > 1 { parts } else { Vec::new() }
}

fn same(entities: &[String], pair: &[String; 2]) -> bool {
    entities.len() == 2 && pair.iter().all(|entity| entities.contains(entity))
}

/// Appends a statement to a text if it is new and there is room. Returns whether it was appended.
fn add(text: &mut String, said: &str) -> bool {
    let fits = text.len() + said.len() + 2 <= POINT_BYTES;
    if !fits || text.contains(said) {
        return false;
    }
    text.push_str("; ");
    text.push_str(said);
    true
}

/// Returns the share of the shorter text's words that the other text contains.
fn common_words(a: &str, b: &str) -> f32 {
    let (a, b): (BTreeSet<Term>, BTreeSet<Term>) = (terms(a).collect(), terms(b).collect());
    let shorter = a.len().min(b.len()).max(1);
    a.intersection(&b).count() as f32 / shorter as f32
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use clew_core::OneEncoder;

    use super::super::fixtures::{BagOfWords, passage};
    use super::*;

    fn planner() -> (ExtractiveReasoner, Instant) {
        let soon = Instant::now() + Duration::from_secs(60);
        (ExtractiveReasoner::new(Arc::new(OneEncoder(Arc::new(BagOfWords::new())))), soon)
    }

    fn point(entities: &[&str], text: &str) -> MemoryPoint {
        let entities = entities.iter().map(|entity| (*entity).to_owned()).collect();
        MemoryPoint { entities, text: text.to_owned() }
    }

    fn relation(head: &str, text: &str, tail: &str) -> [String; 3] {
        [head, text, tail].map(str::to_owned)
    }

    #[tokio::test]
    async fn a_question_is_put_in_its_own_words() {
        let (planner, soon) = planner();
        let question = "When did Theseus sail to Naxos, and who was left on the island?";
        let reword = async |how| planner.reword(question, how, 3, soon).await.unwrap().texts;
        assert_eq!(reword(Rewording::Rewrite).await, ["Theseus sail Naxos left island"]);
        let parts = ["When did Theseus sail to Naxos", "who was left on the island"];
        assert_eq!(reword(Rewording::Decompose).await, parts);
        assert!(reword(Rewording::Disambiguate).await.is_empty());
    }

    #[tokio::test]
    async fn what_is_imagined_is_made_of_what_was_found() {
        let (planner, soon) = planner();
        let near = [passage("d", 0, "It rained. Theseus sailed to Naxos in spring.", 0.9)];
        let imagined = planner.imagine("When did Theseus sail?", &near, soon).await.unwrap();
        assert_eq!(imagined.texts, ["Theseus sailed to Naxos in spring."]);
        assert!(planner.imagine("Who?", &near, soon).await.unwrap().texts.is_empty());
    }

    #[tokio::test]
    async fn relations_become_points_and_known_points_say_more() {
        let (planner, soon) = planner();
        let points = [point(&["Theseus", "Minotaur"], "Theseus killed Minotaur")];
        let relations = vec![
            relation("Theseus", "killed", "Minotaur"),
            relation("Minotaur", "feared", "Theseus"),
            relation("Ariadne", "loved", "Theseus"),
            relation("Ariadne", "helped", "Theseus"),
            relation("Minos", "told", "Minos"),
        ];
        let findings = Findings { relations, ..Findings::default() };
        let (changes, _) = planner.take_in("?", &points, &findings, soon).await.unwrap();
        let text = "Theseus killed Minotaur; Minotaur feared Theseus".to_owned();
        assert_eq!(changes.updated, [UpdatedPoint { point: 0, text }]);
        let entities = vec!["Ariadne".to_owned(), "Theseus".to_owned()];
        let text = "Ariadne loved Theseus; Ariadne helped Theseus".to_owned();
        assert_eq!(changes.inserted, [NewPoint { entities, text }]);
    }

    #[tokio::test]
    async fn points_that_share_an_entity_and_words_are_merged() {
        let (planner, soon) = planner();
        let points = [
            point(&["Xodar", "Issus"], "Issus degrades Xodar to a slave"),
            point(&["Carter", "Zodanga"], "Carter fought at Zodanga"),
            point(&["Xodar", "Carter"], "Xodar is a slave of Carter"),
        ];
        let (merged, _) = planner.merge("?", &points, soon).await.unwrap();
        let text = "Issus degrades Xodar to a slave; Xodar is a slave of Carter".to_owned();
        assert_eq!(merged, [MergedPoint { points: vec![0, 2], text }]);
    }

    #[tokio::test]
    async fn a_concern_is_asked_once() {
        let (planner, soon) = planner();
        let asked = ["Naxos".to_owned()];
        let query = async |concern| planner.subquery("?", &[], concern, &asked, soon).await;
        assert_eq!(query("Crete").await.unwrap().texts, ["Crete"]);
        assert!(query("Naxos").await.unwrap().texts.is_empty());
    }
}

//! How far the words that answer a question came on their way to the reader.

use clew_core::DocumentId;
use serde::{Deserialize, Serialize};

use crate::dataset::{EvalQuestion, Scoring, UnitDocument};

/// How far the evidence for a question came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvidenceReach {
    /// It was not even among the passages that a search finds.
    NotFound,
    /// A search finds it, but the answer was made without it.
    Found,
    /// The answer was made from it.
    Read,
}

/// Evidence for a question, as it is recognised in passages: by the words of a reference answer if
/// the units that hold the evidence have them, otherwise by these units.
pub struct Needle<'a> {
    question: &'a EvalQuestion,
    by: Mark,
}

enum Mark {
    /// One of the references, in parts each of which has to be there.
    Words(Vec<Vec<String>>),
    /// All units with evidence.
    Units,
}

/// Passage in which a [`Needle`] is looked for.
#[derive(Clone, Copy, Debug)]
pub struct PassageOfUnit<'a> {
    /// Unit that it comes from.
    pub unit: &'a DocumentId,
    /// Its text.
    pub text: &'a str,
}

/// References that may stand anywhere, and so mark nothing.
const COMMON: [&str; 4] = [" yes ", " no ", " true ", " false "];

impl<'a> Needle<'a> {
    /// Returns the evidence for `question` in `documents`. Returns `None` if it cannot be
    /// recognised: the answer was never said or is an option, a verdict or a summary, or it is not
    /// known which units hold it.
    pub fn of(question: &'a EvalQuestion, documents: &[UnitDocument]) -> Option<Self> {
        let marks_nothing = match &question.scoring {
            Scoring::Choice { .. } | Scoring::ClaimPair { .. } | Scoring::RougeL => true,
            Scoring::Squad | Scoring::Locomo | Scoring::LocomoSubAnswers | Scoring::Judged(_) => {
                question.is_abstention || question.gold.is_empty()
            }
        };
        if marks_nothing {
            return None;
        }
        let gold = documents.iter().filter(|of| question.gold.contains(&of.unit));
        let text = searchable(gold.map(|of| of.document.text.as_str()));
        let words = question.references.iter().map(|reference| parts(reference, question));
        let words: Vec<_> = words.filter(|parts| are_in(parts, &text)).collect();
        let by = if words.is_empty() { Mark::Units } else { Mark::Words(words) };
        Some(Self { question, by })
    }

    /// Returns whether `passages` together have the evidence.
    pub fn is_in<'p>(&self, passages: impl IntoIterator<Item = PassageOfUnit<'p>>) -> bool {
        let passages: Vec<_> = passages.into_iter().collect();
        match &self.by {
            Mark::Words(references) => {
                let text = searchable(passages.iter().map(|passage| passage.text));
                references.iter().any(|parts| are_in(parts, &text))
            }
            Mark::Units => {
                let is_there = |unit| passages.iter().any(|passage| passage.unit == unit);
                self.question.gold.iter().all(is_there)
            }
        }
    }
}

/// Returns the searchable parts of a reference.
fn parts(reference: &str, question: &EvalQuestion) -> Vec<String> {
    let parts: Vec<&str> = match question.scoring {
        Scoring::LocomoSubAnswers => reference.split(',').collect(),
        _ => vec![reference],
    };
    parts.into_iter().map(|part| searchable([part])).filter(|part| part.len() > 1).collect()
}

fn are_in(parts: &[String], text: &str) -> bool {
    let is_in = |part: &String| !COMMON.contains(&part.as_str()) && text.contains(part.as_str());
    !parts.is_empty() && parts.iter().all(is_in)
}

/// Returns the words of texts in lower case, without articles, each between blanks. Between two
/// texts stands more than a blank, so that nothing is found across their border.
fn searchable<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let mut words = String::from(" ");
    for text in texts {
        if words.len() > 1 {
            words.push_str("| ");
        }
        for word in text.split(|c: char| !c.is_alphanumeric()) {
            let word = word.to_lowercase();
            if !["", "a", "an", "the"].contains(&word.as_str()) {
                words.push_str(&word);
                words.push(' ');
            }
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use clew_core::{Document, GradingRule, Judging};

    use super::*;
    use crate::dataset::Unit;

    fn document(id: &str, text: &str) -> UnitDocument {
        let unit = Unit {
            id: id.parse().unwrap(),
            title: String::new(),
            text: text.to_owned(),
            event_time: None,
            said: Vec::new(),
        };
        UnitDocument { unit: unit.id.clone(), document: Document::from(unit) }
    }

    fn question(scoring: Scoring, references: &[&str], gold: &[&str]) -> EvalQuestion {
        EvalQuestion {
            id: "q".to_owned(),
            text: "?".to_owned(),
            kind: "kind".to_owned(),
            groups: Vec::new(),
            gold: gold.iter().map(|id| id.parse().unwrap()).collect(),
            asked_at: None,
            is_abstention: false,
            references: references.iter().map(|&text| text.to_owned()).collect(),
            scoring,
        }
    }

    fn documents() -> Vec<UnitDocument> {
        vec![
            document("a", "The ferry left Genoa's old port."),
            document("b", "Purchases over 5,000 EUR are rare. No ferry."),
            document("c", "Jonas swims and paints pots."),
        ]
    }

    /// Checks whether the needle of a question is recognised, and whether each document has it.
    fn check(question: &EvalQuestion, expected: Option<[bool; 3]>) {
        let documents = documents();
        let needle = Needle::of(question, &documents);
        let found = needle.map(|needle| {
            let found = documents.iter().map(|of| {
                needle.is_in([PassageOfUnit { unit: &of.unit, text: &of.document.text }])
            });
            found.collect::<Vec<_>>()
        });
        assert_eq!(found.as_deref(), expected.as_ref().map(|of| &of[..]), "{question:?}");
    }

    #[test]
    fn evidence_is_recognised_by_words_and_otherwise_by_units() {
        use Scoring::{Locomo, LocomoSubAnswers, Squad};
        check(&question(Squad, &["the Old Port"], &["a"]), Some([true, false, false]));
        check(&question(Locomo, &["5.000"], &["b"]), Some([false, true, false]));
        // Words that are not in the evidence mark nothing.
        check(&question(Squad, &["Paris", "Jonas"], &["a"]), Some([true, false, false]));
        check(&question(Squad, &["no"], &["c"]), Some([false, false, true]));
        check(&question(Squad, &["no"], &["a", "c"]), Some([false; 3]));
        check(&question(Squad, &["Paris"], &["b"]), Some([false, true, false]));
        check(&question(LocomoSubAnswers, &["pots, Jonas"], &["c"]), Some([false, false, true]));
        check(&question(LocomoSubAnswers, &["pots, dogs,"], &["a"]), Some([true, false, false]));
        let judged = Scoring::Judged(Judging::Grade(GradingRule::Complete));
        check(&question(judged, &["Genoa"], &["a"]), Some([true, false, false]));
    }

    #[test]
    fn what_marks_nothing_is_not_looked_for() {
        check(&question(Scoring::RougeL, &["Genoa"], &["a"]), None);
        check(&question(Scoring::Squad, &["Genoa"], &[]), None);
        let never_said =
            EvalQuestion { is_abstention: true, ..question(Scoring::Squad, &["Genoa"], &["a"]) };
        check(&never_said, None);
    }

    #[test]
    fn evidence_may_lie_in_several_passages_but_not_across_their_border() {
        let documents = documents();
        let passage = |at: usize| PassageOfUnit {
            unit: &documents[at].unit,
            text: &documents[at].document.text,
        };
        let parts = question(Scoring::LocomoSubAnswers, &["port, Jonas"], &["a", "c"]);
        let needle = Needle::of(&parts, &documents).unwrap();
        assert!(!needle.is_in([passage(0)]) && needle.is_in([passage(2), passage(0)]));
        // Words across the border mark nothing, so both units have to be there.
        let across = question(Scoring::Squad, &["port purchases"], &["a", "b"]);
        let needle = Needle::of(&across, &documents).unwrap();
        assert!(!needle.is_in([passage(0)]) && needle.is_in([passage(0), passage(1)]));
    }
}

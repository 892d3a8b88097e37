//! What a graph builder reads out of texts: summaries, which are the nodes of a summary tree, and
//! entities with the relations between them, which are the nodes and edges of a graph.
//!
//! The tree is that of MemWalker ("Walking Down the Memory Maze", section 3 and appendix A.1), the
//! graph that of QRMeM ("Unleash the Length Limitation through Question then Reflection Memory
//! Mechanism", section 2.1).

use serde::{Deserialize, Serialize};

use crate::{Cost, EntityVectors, Error, Limits, Span, Violations};

/// Which step of building a summary tree a summary is for; a model is asked differently for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SummaryLevel {
    /// A leaf: passages of a document, told in a fluent text that leaves out no topic.
    Leaf,
    /// A node above others: their summaries, each compressed, so that each remains recognisable.
    Inner,
}

/// Texts that are to become one summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryTask {
    /// What the texts are.
    pub level: SummaryLevel,
    /// The passages, or the summaries of the node's children, in the order of the document.
    pub parts: Vec<String>,
    /// Most bytes of the summary. Bytes, because a graph builder knows no corpus' tokenizer and who
    /// packs a prompt can hold it to a limit without one.
    pub max_bytes: usize,
}

/// A text that tells what others say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// The text; empty only if the parts hold nothing but white space.
    pub text: String,
    /// Where its sentences stand, in the order of the text, if it is made of sentences of the parts;
    /// empty for a summary in a model's own words.
    pub quotes: Vec<Quote>,
    /// What it cost.
    pub cost: Cost,
}

/// A sentence that a summary takes from what it summarises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote {
    /// Which of the parts it is from, from 0.
    pub part: usize,
    /// Byte range of that part.
    pub span: Span,
}

/// A passage whose entities and relations are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtractionTask {
    /// The passage.
    pub text: String,
    /// What the whole document is about: its title on a line of its own, and its summary. Background for a model, in
    /// which nothing is looked for. May be empty.
    pub background: String,
    /// The question in view of which the passage is read; empty for a graph that serves any question.
    pub question: String,
    /// Who says "I" in the passage, as in a turn of a conversation; empty where that is not known.
    pub speaker: String,
}

/// What kind of thing an entity is, as far as it can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntityKind {
    /// A person or character.
    Person,
    /// A company, institution or group.
    Organisation,
    /// A place.
    Place,
    /// A date or another point or stretch of time.
    Time,
    /// Anything else, and whatever cannot be told.
    Other,
}

impl EntityKind {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Organisation => "organisation",
            Self::Place => "place",
            Self::Time => "time",
            Self::Other => "other",
        }
    }
}

/// Something that a passage names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entity {
    /// Its fullest name in the passage; not empty.
    pub name: String,
    /// What kind of thing it is.
    pub kind: EntityKind,
    /// Where the passage names it: ascending byte ranges that do not overlap. May be empty where a
    /// model was not asked for places.
    pub mentions: Vec<Span>,
}

/// How two entities of a passage are related, in words: an open relation, whose kind is not one of a
/// fixed list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relation {
    /// What it starts from, as an index of the extraction's entities.
    pub head: usize,
    /// The relation in words, as in "gave a ball of thread to"; not empty.
    pub text: String,
    /// What it leads to, as an index of the extraction's entities.
    pub tail: usize,
    /// Byte range of the passage that states it.
    pub evidence: Span,
}

/// What was found in one passage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Extraction {
    /// The entities, in the order in which the passage first names them.
    pub entities: Vec<Entity>,
    /// The relations between them, in the order of the text.
    pub relations: Vec<Relation>,
    /// Short phrases that say what the passage is about, best first.
    pub key_phrases: Vec<String>,
    /// Vectors of the entities: added by who keeps an extraction, and never told over the wire. What was kept before
    /// there were any has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vectors: Option<EntityVectors>,
    /// What it cost.
    #[serde(skip)]
    pub cost: Cost,
}

impl SummaryTask {
    /// Bytes of text in it, by which work is measured.
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(String::len).sum()
    }

    /// Refuses a task beyond `limits`.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidInput`] naming every field at fault.
    pub fn check(&self, limits: &Limits) -> Result<(), Error> {
        let mut violations = Violations::default();
        let (parts, bytes) = (self.parts.len(), self.bytes());
        if !(1..=limits.summary_parts).contains(&parts) {
            let problem = format!("expected 1 to {} parts, got {parts}", limits.summary_parts);
            violations.push("parts", problem);
        }
        if bytes > limits.summary_task_bytes {
            let most = limits.summary_task_bytes;
            violations.push("parts", format!("expected at most {most} bytes in all, got {bytes}"));
        }
        if !(1..=limits.summary_bytes).contains(&self.max_bytes) {
            let problem = format!("expected 1 to {}, got {}", limits.summary_bytes, self.max_bytes);
            violations.push("max_bytes", problem);
        }
        violations.into_result()
    }
}

impl ExtractionTask {
    /// Bytes of text in it, by which work is measured.
    pub fn bytes(&self) -> usize {
        self.text.len() + self.background.len() + self.question.len() + self.speaker.len()
    }

    /// Refuses a task beyond `limits`.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidInput`] naming every field at fault.
    pub fn check(&self, limits: &Limits) -> Result<(), Error> {
        let mut violations = Violations::default();
        for (field, text, most) in [
            ("text", &self.text, limits.passage_bytes),
            ("background", &self.background, limits.passage_bytes),
            ("question", &self.question, limits.query_bytes),
            ("speaker", &self.speaker, limits.title_bytes),
        ] {
            if text.len() > most {
                let problem = format!("expected at most {most} bytes, got {}", text.len());
                violations.push(field, problem);
            }
        }
        violations.into_result()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(checked: Result<(), Error>) -> Vec<String> {
        let error = checked.unwrap_err();
        error.violations().iter().map(|violation| violation.field.clone()).collect()
    }

    #[test]
    fn an_extraction_of_before_there_were_vectors_is_read() {
        let stored = r#"{"entities":[],"relations":[],"key_phrases":["Ada"]}"#;
        let old: Extraction = serde_json::from_str(stored).unwrap();
        assert_eq!(old.vectors, None);
        // It is written as it was.
        assert_eq!(serde_json::to_string(&old).unwrap(), stored);
        let of = vec![(0, crate::Signs::of(&[0.5, -0.5]))];
        let vectors = EntityVectors { encoder: "0f".to_owned(), dimension: 2, of };
        let new = Extraction { vectors: Some(vectors), ..old };
        let text = serde_json::to_string(&new).unwrap();
        assert!(text.contains(r#""of":[[0,"0000000000000001"]]"#), "{text}");
        assert_eq!(serde_json::from_str::<Extraction>(&text).unwrap(), new);
    }

    #[test]
    fn tasks_are_held_to_the_limits_with_every_field_named() {
        let limits = Limits::default();
        let fits = SummaryTask {
            level: SummaryLevel::Leaf,
            parts: vec!["x".repeat(limits.summary_task_bytes)],
            max_bytes: limits.summary_bytes,
        };
        assert!(fits.check(&limits).is_ok());
        let parts = vec!["xx".repeat(limits.summary_parts); limits.summary_parts + 1];
        let too_much = SummaryTask { level: SummaryLevel::Inner, parts, max_bytes: 0 };
        assert_eq!(fields(too_much.check(&limits)), ["parts", "parts", "max_bytes"]);

        let text = "x".repeat(limits.passage_bytes);
        let fits = ExtractionTask { text, ..ExtractionTask::default() };
        assert!(fits.check(&limits).is_ok());
        let long = "x".repeat(limits.passage_bytes + 1);
        let too_much = ExtractionTask {
            text: long.clone(),
            background: long.clone(),
            question: long.clone(),
            speaker: long,
        };
        let all = ["text", "background", "question", "speaker"];
        assert_eq!(fields(too_much.check(&limits)), all);
    }
}

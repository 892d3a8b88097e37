//! Tasks and results of a graph builder: summaries, which are the nodes of a tree, and entities
//! with relations, which are the nodes and edges of a graph.
//!
//! The tree is that of MemWalker ("Walking Down the Memory Maze", section 3 and appendix A.1). The
//! graph is that of QRMeM ("Unleash the Length Limitation through Question then Reflection Memory
//! Mechanism", section 2.1).

use serde::{Deserialize, Serialize};

use crate::{Cost, EntityVectors, Error, Limits, Span, Violations};

/// Step of building a tree that a summary is for. A model is asked differently for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SummaryLevel {
    /// Leaf: passages of a document, retold in a fluent text that leaves out no topic.
    Leaf,
    /// Node above others: their summaries, each compressed so that it remains recognisable.
    Inner,
}

/// Texts to be summarised into one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryTask {
    /// Level of the summary, which tells what the texts are.
    pub level: SummaryLevel,
    /// Passages, or summaries of the node's children, in the order of the document.
    pub parts: Vec<String>,
    /// Maximum length of the summary, in bytes. Bytes, because a graph builder knows no corpus'
    /// tokenizer and a prompt can be held to this limit without one.
    pub max_bytes: usize,
}

/// Summary of several texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Text of the summary; empty only if the parts hold nothing but white space.
    pub text: String,
    /// Origins of its sentences, in the order of the text, if it consists of sentences of the
    /// parts. Empty for a summary in a model's own words.
    pub quotes: Vec<Quote>,
    /// Cost of the summary.
    pub cost: Cost,
}

/// Sentence that a summary takes from the texts that it summarises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote {
    /// Index of the part, from 0.
    pub part: usize,
    /// Byte range of that part.
    pub span: Span,
}

/// Passage from which entities and relations are to be extracted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtractionTask {
    /// Text of the passage.
    pub text: String,
    /// Background for a model: the document's title on a line of its own, and its summary. Nothing
    /// is extracted from it. May be empty.
    pub background: String,
    /// Question in view of which the passage is read; empty for a graph that serves any question.
    pub question: String,
    /// Speaker who says "I" in the passage, as in a turn of a conversation; empty if unknown.
    pub speaker: String,
}

/// Kind of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntityKind {
    /// A person or character.
    Person,
    /// A company, institution or group.
    Organisation,
    /// A place.
    Place,
    /// A date or another point or period of time.
    Time,
    /// Anything else, or an entity of unknown kind.
    Other,
}

impl EntityKind {
    /// Returns the name of the kind.
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

/// Entity that a passage names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entity {
    /// Its fullest name in the passage; not empty.
    pub name: String,
    /// Kind of the entity.
    pub kind: EntityKind,
    /// Mentions in the passage: ascending byte ranges that do not overlap. May be empty if a model
    /// was not asked for them.
    pub mentions: Vec<Span>,
}

/// Open relation between two entities of a passage: it is stated in words and its kind is not one
/// of a fixed list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relation {
    /// Entity from which it starts, as an index into the extraction's entities.
    pub head: usize,
    /// Relation in words, as in "gave a ball of thread to"; not empty.
    pub text: String,
    /// Entity to which it leads, as an index into the extraction's entities.
    pub tail: usize,
    /// Byte range of the passage that states it.
    pub evidence: Span,
}

/// Entities and relations of one passage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Extraction {
    /// Entities, in the order in which the passage first names them.
    pub entities: Vec<Entity>,
    /// Relations between them, in the order of the text.
    pub relations: Vec<Relation>,
    /// Short phrases that say what the passage is about, best first.
    pub key_phrases: Vec<String>,
    /// Vectors of the entities. Whoever stores the extraction adds them; they are never sent over
    /// the wire. Extractions stored before vectors existed have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vectors: Option<EntityVectors>,
    /// Cost of the extraction.
    #[serde(skip)]
    pub cost: Cost,
}

impl SummaryTask {
    /// Returns the number of bytes of text in the task, by which work is measured.
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(String::len).sum()
    }

    /// Checks the task against `limits`.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::InvalidInput`] naming every field at fault.
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
    /// Returns the number of bytes of text in the task, by which work is measured.
    pub fn bytes(&self) -> usize {
        self.text.len() + self.background.len() + self.question.len() + self.speaker.len()
    }

    /// Checks the task against `limits`.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::InvalidInput`] naming every field at fault.
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

    #[test]
    fn an_extraction_of_before_there_were_vectors_is_read() {
        let stored = r#"{"entities":[],"relations":[],"key_phrases":["Ada"]}"#;
        let old: Extraction = serde_json::from_str(stored).unwrap();
        assert_eq!(old.vectors, None);
        // It is written back in its old form.
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
        assert_eq!(
            too_much.check(&limits).unwrap_err().fields_at_fault(),
            ["parts", "parts", "max_bytes"]
        );

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
        assert_eq!(too_much.check(&limits).unwrap_err().fields_at_fault(), all);
    }
}

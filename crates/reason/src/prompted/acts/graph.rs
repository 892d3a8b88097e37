//! Acts that build a graph of entities and open relations (QRMeM, section 2.1, appendix D).

use clew_core::{EntityKind, ReplyFormat};

use super::super::material::{numbered, or_none};
use super::super::schema::{self, NUMBER, TEXT, list, object};
use super::super::{Act, Cut, PromptFile, Reply, ReplyShape, UnreadableReply};
use super::{LIST_TOKENS, MAX_ITEMS, first, prompt_file};

/// An act that names the entities of a passage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameEntities {
    /// The passage.
    pub text: String,
    /// Topic of the whole document; may be empty.
    pub background: String,
    /// Question in view of which the passage is read; may be empty.
    pub question: String,
    /// Name of the person who says "I" in the passage; may be empty.
    pub speaker: String,
}

/// An entity as a model names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedEntity {
    /// Name of the entity.
    pub name: String,
    /// Kind of the entity.
    pub kind: EntityKind,
}

impl Act for NameEntities {
    type Output = Vec<NamedEntity>;

    fn prompt(&self) -> PromptFile {
        prompt_file!("name_entities")
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        vec![
            ("text", self.text.clone()),
            ("background", or_none(self.background.clone())),
            ("question", or_none(self.question.clone())),
            ("speaker", or_none(self.speaker.clone())),
        ]
    }

    fn cuts(&mut self) -> Vec<Cut<'_>> {
        vec![Cut::Longest(vec![&mut self.background]), Cut::Longest(vec![&mut self.text])]
    }

    fn format(&self) -> ReplyFormat {
        let kind = r#"{"enum":["person","organisation","place","time","other"]}"#;
        let entity = object(&[("name", TEXT), ("kind", kind)]);
        schema::reply(object(&[("entities", &list(&entity, MAX_ITEMS))]))
    }

    fn max_tokens(&self) -> u32 {
        LIST_TOKENS
    }

    /// Parses the entities. An unknown kind counts as other.
    fn parse(&self, reply: Reply<'_>) -> Result<Vec<NamedEntity>, UnreadableReply> {
        let records = reply.records("a list of entities", "entities", &["name", "kind"])?;
        let mut entities: Vec<NamedEntity> = Vec::new();
        for record in records {
            let name = record.text("name")?;
            let kind = kind(&record.optional_text("kind")?.unwrap_or_default());
            if !entities.iter().any(|entity| entity.name == name) {
                entities.push(NamedEntity { name, kind });
            }
        }
        Ok(first(entities, MAX_ITEMS))
    }
}

fn kind(word: &str) -> EntityKind {
    match word.trim().to_lowercase().as_str() {
        "person" | "character" => EntityKind::Person,
        "organisation" | "organization" => EntityKind::Organisation,
        "place" | "location" => EntityKind::Place,
        "time" | "date" => EntityKind::Time,
        _ => EntityKind::Other,
    }
}

/// An act that describes how entities of a passage are related.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RelateEntities {
    /// The passage.
    pub text: String,
    /// Names of the entities.
    pub entities: Vec<String>,
    /// Topic of the whole document; may be empty.
    pub background: String,
    /// Question in view of which the passage is read; may be empty.
    pub question: String,
}

/// A relation as a model describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelatedEntities {
    /// Index of the entity that the relation starts from.
    pub head: usize,
    /// The relation in words.
    pub text: String,
    /// Index of the entity that the relation leads to.
    pub tail: usize,
    /// Words that state the relation, as the model quotes them; may be empty.
    pub quote: String,
}

impl Act for RelateEntities {
    type Output = Vec<RelatedEntities>;

    fn prompt(&self) -> PromptFile {
        prompt_file!("relate_entities")
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        vec![
            ("text", self.text.clone()),
            ("entities", numbered(self.entities.iter().map(String::as_str))),
            ("background", or_none(self.background.clone())),
            ("question", or_none(self.question.clone())),
        ]
    }

    fn cuts(&mut self) -> Vec<Cut<'_>> {
        vec![Cut::Longest(vec![&mut self.background]), Cut::Longest(vec![&mut self.text])]
    }

    fn format(&self) -> ReplyFormat {
        let relation =
            object(&[("head", NUMBER), ("relation", TEXT), ("tail", NUMBER), ("quote", TEXT)]);
        schema::reply(object(&[("relations", &list(&relation, MAX_ITEMS))]))
    }

    fn max_tokens(&self) -> u32 {
        2 * LIST_TOKENS
    }

    /// Parses the relations. The reply may give an entity by its number or its name. A relation of
    /// an entity to itself is left out.
    fn parse(&self, reply: Reply<'_>) -> Result<Vec<RelatedEntities>, UnreadableReply> {
        let keys = ["head", "relation", "tail"];
        let records = reply.records("a list of relations", "relations", &keys)?;
        let mut relations = Vec::new();
        for record in records {
            let head = record.index_of("head", &self.entities)?;
            let tail = record.index_of("tail", &self.entities)?;
            let text = record.text("relation")?;
            let quote = record.optional_text("quote")?.unwrap_or_default();
            if head != tail {
                relations.push(RelatedEntities { head, text, tail, quote });
            }
        }
        Ok(first(relations, MAX_ITEMS))
    }
}

/// An act that asks questions that a segment raises and its graph does not answer yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskQuestions {
    /// The segment.
    pub text: String,
    /// Topic of the whole document; may be empty.
    pub background: String,
    /// Relations known so far, in words.
    pub known: Vec<String>,
    /// Maximum number of questions, at least 1.
    pub most: usize,
}

impl Act for AskQuestions {
    type Output = Vec<String>;

    fn prompt(&self) -> PromptFile {
        prompt_file!("ask_questions")
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        vec![
            ("text", self.text.clone()),
            ("background", or_none(self.background.clone())),
            ("known", numbered(self.known.iter().map(String::as_str))),
            ("most", self.most.to_string()),
        ]
    }

    fn cuts(&mut self) -> Vec<Cut<'_>> {
        vec![
            Cut::Longest(vec![&mut self.background]),
            Cut::Oldest(&mut self.known),
            Cut::Longest(vec![&mut self.text]),
        ]
    }

    fn format(&self) -> ReplyFormat {
        schema::reply(object(&[("questions", &list(TEXT, self.most))]))
    }

    fn max_tokens(&self) -> u32 {
        LIST_TOKENS
    }

    fn parse(&self, reply: Reply<'_>) -> Result<Vec<String>, UnreadableReply> {
        Ok(first(reply.texts("a list of questions", "questions")?, self.most))
    }
}

/// An act that merges several descriptions of the same thing into one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergeDescriptions {
    /// Subject of the descriptions: the name of an entity, or two names and their relation.
    pub subject: String,
    /// Descriptions of the subject; at least one.
    pub descriptions: Vec<String>,
    /// Question in view of which they are merged; may be empty.
    pub question: String,
}

impl Act for MergeDescriptions {
    type Output = String;

    fn prompt(&self) -> PromptFile {
        prompt_file!("merge_descriptions")
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        vec![
            ("subject", self.subject.clone()),
            ("descriptions", numbered(self.descriptions.iter().map(String::as_str))),
            ("question", or_none(self.question.clone())),
        ]
    }

    fn cuts(&mut self) -> Vec<Cut<'_>> {
        vec![Cut::Longest(self.descriptions.iter_mut().collect())]
    }

    fn format(&self) -> ReplyFormat {
        ReplyFormat::Text
    }

    fn max_tokens(&self) -> u32 {
        LIST_TOKENS
    }

    fn parse(&self, reply: Reply<'_>) -> Result<String, UnreadableReply> {
        let text = reply.prose("a description", "description")?;
        // A word for nothing is not a description.
        let refused = UnreadableReply { expected: "a description", found: ReplyShape::Nothing };
        if super::super::reply::is_nothing(&text) { Err(refused) } else { Ok(text) }
    }
}

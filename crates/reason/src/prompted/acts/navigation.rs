//! Acts that walk a graph of entities and relations (QRMeM, section 2.2).

use clew_core::ReplyFormat;

use super::super::material::{numbered, or_none};
use super::super::reply::is_nothing;
use super::super::schema::{self, NUMBER, TEXT, list, object};
use super::super::{Act, Cut, PromptFile, Reply, UnreadableReply};
use super::{DECISION_TOKENS, LIST_TOKENS, first, prompt_file};

/// An act that chooses the entities whose passages are read next, because those read so far do not
/// suffice.
///
/// In QRMeM, the model names the new set of entities freely (entity trial). Here it chooses among
/// numbered candidates, so that each choice leads somewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChooseEntities {
    /// The question.
    pub question: String,
    /// Reason why the passages read so far do not suffice; may be empty.
    pub reason: String,
    /// Entities looked at so far, oldest first.
    pub known: Vec<String>,
    /// Entities that may be chosen; at least one.
    pub candidates: Vec<String>,
    /// Maximum number of entities, at least 1.
    pub most: usize,
}

impl Act for ChooseEntities {
    /// Indices of candidates, best first, each once.
    type Output = Vec<usize>;

    fn prompt(&self) -> PromptFile {
        prompt_file!("choose_entities")
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        vec![
            ("question", self.question.clone()),
            ("reason", or_none(self.reason.clone())),
            ("known", or_none(self.known.join("; "))),
            ("candidates", numbered(self.candidates.iter().map(String::as_str))),
            ("most", self.most.to_string()),
        ]
    }

    /// Keeps every candidate, because candidates are referred to by their numbers.
    fn cuts(&mut self) -> Vec<Cut<'_>> {
        vec![
            Cut::Oldest(&mut self.known),
            Cut::Longest(vec![&mut self.reason]),
            Cut::Longest(self.candidates.iter_mut().collect()),
        ]
    }

    fn format(&self) -> ReplyFormat {
        let entities = list(NUMBER, self.most);
        schema::reply(object(&[("reasoning", TEXT), ("entities", &entities)]))
    }

    fn max_tokens(&self) -> u32 {
        DECISION_TOKENS
    }

    /// Parses the choice. The reply may give a candidate by its number or its name, and may choose
    /// none.
    fn parse(&self, reply: Reply<'_>) -> Result<Vec<usize>, UnreadableReply> {
        if reply.says_none() {
            return Ok(Vec::new());
        }
        let record = reply.record("`entities`, a list of numbers", &["reasoning", "entities"])?;
        let mut chosen = Vec::new();
        for index in record.indices_of("entities", &self.candidates)? {
            if !chosen.contains(&index) {
                chosen.push(index);
            }
        }
        Ok(first(chosen, self.most))
    }
}

/// An act that asks the question in other words, with the relations that a graph has around it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElaborateQuery {
    /// The question.
    pub question: String,
    /// Relations in words, best first.
    pub relations: Vec<String>,
    /// Maximum number of queries, at least 1.
    pub most: usize,
}

impl Act for ElaborateQuery {
    /// Queries, best first, each once; none if the relations add nothing.
    type Output = Vec<String>;

    fn prompt(&self) -> PromptFile {
        prompt_file!("elaborate_query")
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        vec![
            ("question", self.question.clone()),
            ("relations", numbered(self.relations.iter().map(String::as_str))),
            ("most", self.most.to_string()),
        ]
    }

    fn cuts(&mut self) -> Vec<Cut<'_>> {
        vec![Cut::Last(&mut self.relations)]
    }

    fn format(&self) -> ReplyFormat {
        schema::reply(object(&[("queries", &list(TEXT, self.most))]))
    }

    fn max_tokens(&self) -> u32 {
        LIST_TOKENS
    }

    fn parse(&self, reply: Reply<'_>) -> Result<Vec<String>, UnreadableReply> {
        let mut queries: Vec<String> = Vec::new();
        for query in reply.texts("a list of queries", "queries")? {
            if !is_nothing(&query) && !queries.contains(&query) {
                queries.push(query);
            }
        }
        Ok(first(queries, self.most))
    }
}

//! Walking a graph of entities and relations (QRMeM, section 2.2).

use clew_core::ReplyFormat;

use super::super::material::{numbered, or_none};
use super::super::reply::is_nothing;
use super::super::schema::{self, NUMBER, TEXT, list, object};
use super::super::{Act, Cut, PromptFile, Reply, Unreadable};
use super::{DECISION_TOKENS, LIST_TOKENS, first, prompt_file};

/// Chooses the entities whose passages are read next, since those read so far do not suffice.
///
/// QRMeM has the model name the new set of entities outright (entity trial); here it chooses among numbered
/// ones, so that each choice leads somewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChooseEntities {
    /// The question.
    pub question: String,
    /// Why what was read so far does not suffice; may be empty.
    pub reason: String,
    /// The entities looked at so far, oldest first.
    pub known: Vec<String>,
    /// The entities that may be chosen. At least one.
    pub candidates: Vec<String>,
    /// Most entities, at least 1.
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

    /// No candidate goes, since they are told by their numbers.
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

    /// A candidate may be told by its number or its name, and none at all may be chosen.
    fn parse(&self, reply: Reply<'_>) -> Result<Vec<usize>, Unreadable> {
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

/// Asks the question in other words, with what a graph tells around it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElaborateQuery {
    /// The question.
    pub question: String,
    /// Relations in words, best first.
    pub relations: Vec<String>,
    /// Most queries, at least 1.
    pub most: usize,
}

impl Act for ElaborateQuery {
    /// Queries, best first, each once; none if the relations tell nothing.
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

    fn parse(&self, reply: Reply<'_>) -> Result<Vec<String>, Unreadable> {
        let mut queries: Vec<String> = Vec::new();
        for query in reply.texts("a list of queries", "queries")? {
            if !is_nothing(&query) && !queries.contains(&query) {
                queries.push(query);
            }
        }
        Ok(first(queries, self.most))
    }
}

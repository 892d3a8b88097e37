//! Acts that propose clues for retrieval (MemoRAG, sections 2.3 and 2.4).
//!
//! In the paper, a long-range model proposes clues from its compressed memory of the corpus. Here
//! any model can propose them from a text that represents the corpus, such as the top summaries of
//! a tree.

use clew_core::{Clues, ReplyFormat};

use super::super::material::or_none;
use super::super::schema::{self, TEXT, list, object};
use super::super::{Act, Cut, PromptFile, Reply, ReplyShape, UnreadableReply};
use super::{LIST_TOKENS, first, prompt_file};

/// An act that proposes what to search for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProposeClues {
    /// The question.
    pub question: String,
    /// Overview of the corpus; may be empty.
    pub memory: String,
    /// Maximum number of queries, and of clues; at least 1.
    pub most: usize,
}

impl Act for ProposeClues {
    type Output = Clues;

    fn prompt(&self) -> PromptFile {
        prompt_file!("propose_clues")
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        vec![
            ("question", self.question.clone()),
            ("memory", or_none(self.memory.clone())),
            ("most", self.most.to_string()),
        ]
    }

    fn cuts(&mut self) -> Vec<Cut<'_>> {
        vec![Cut::Longest(vec![&mut self.memory])]
    }

    fn format(&self) -> ReplyFormat {
        let texts = list(TEXT, self.most);
        schema::reply(object(&[("queries", &texts), ("clues", &texts)]))
    }

    fn max_tokens(&self) -> u32 {
        LIST_TOKENS
    }

    fn parse(&self, reply: Reply<'_>) -> Result<Clues, UnreadableReply> {
        let record = reply.record("`queries` and `clues`", &["queries", "clues"])?;
        // Lists without names cannot be told apart, but within a labelled part, lines are a list.
        let texts = |key| -> Result<Vec<String>, UnreadableReply> {
            match record.texts(key)?.as_slice() {
                [lines] if lines.contains('\n') => {
                    Reply { text: lines, is_whole: true }.texts("a list of texts", key)
                }
                texts => Ok(texts.to_vec()),
            }
        };
        let (queries, clues) = (texts("queries")?, texts("clues")?);
        if queries.is_empty() && clues.is_empty() {
            return Err(record.refused(ReplyShape::Missing("clues")));
        }
        let (queries, clues) = (first(queries, self.most), first(clues, self.most));
        Ok(Clues { queries, clues, ..Clues::default() })
    }
}

/// An act that lists what a task without a question, such as a summary, has to cover.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListKeyPoints {
    /// The task.
    pub task: String,
    /// Overview of the corpus.
    pub memory: String,
    /// Maximum number of points, at least 1.
    pub most: usize,
}

impl Act for ListKeyPoints {
    type Output = Vec<String>;

    fn prompt(&self) -> PromptFile {
        prompt_file!("list_key_points")
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        vec![
            ("task", self.task.clone()),
            ("memory", or_none(self.memory.clone())),
            ("most", self.most.to_string()),
        ]
    }

    fn cuts(&mut self) -> Vec<Cut<'_>> {
        vec![Cut::Longest(vec![&mut self.memory])]
    }

    fn format(&self) -> ReplyFormat {
        schema::reply(object(&[("points", &list(TEXT, self.most))]))
    }

    fn max_tokens(&self) -> u32 {
        LIST_TOKENS
    }

    fn parse(&self, reply: Reply<'_>) -> Result<Vec<String>, UnreadableReply> {
        Ok(first(reply.texts("a list of key points", "points")?, self.most))
    }
}

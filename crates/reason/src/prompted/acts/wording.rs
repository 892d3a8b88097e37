//! Acts that make a question easier to search for: put it in other words, and imagine a passage
//! that could answer it.

use clew_core::{ReplyFormat, Rewording};

use super::super::material::passages;
use super::super::reply::is_nothing;
use super::super::schema::{self, TEXT, list, object};
use super::super::{Act, Cut, Passage, PromptFile, Reply, ReplyShape, UnreadableReply};
use super::{DECISION_TOKENS, LIST_TOKENS, first, prompt_file};

/// An act that puts a question in other words (RQ-RAG: rewrite, decompose, disambiguate).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reword {
    /// The question.
    pub question: String,
    /// Way of rewording.
    pub how: Rewording,
    /// Maximum number of questions, at least 1.
    pub most: usize,
}

impl Act for Reword {
    /// Questions, best first, each once; none if there is no other way to say it.
    type Output = Vec<String>;

    fn prompt(&self) -> PromptFile {
        match self.how {
            Rewording::Rewrite => prompt_file!("rewrite_question"),
            Rewording::Decompose => prompt_file!("decompose_question"),
            Rewording::Disambiguate => prompt_file!("disambiguate_question"),
        }
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        vec![("question", self.question.clone()), ("most", self.most.to_string())]
    }

    fn cuts(&mut self) -> Vec<Cut<'_>> {
        Vec::new()
    }

    fn format(&self) -> ReplyFormat {
        schema::reply(object(&[("questions", &list(TEXT, self.most))]))
    }

    fn max_tokens(&self) -> u32 {
        DECISION_TOKENS
    }

    fn parse(&self, reply: Reply<'_>) -> Result<Vec<String>, UnreadableReply> {
        let mut questions: Vec<String> = Vec::new();
        for question in reply.texts("a list of questions", "questions")? {
            let is_new = question != self.question && !questions.contains(&question);
            if is_new && !is_nothing(&question) {
                questions.push(question);
            }
        }
        Ok(first(questions, self.most))
    }
}

/// An act that writes a passage that could answer the question (HyDE, section 3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImaginePassage {
    /// The question.
    pub question: String,
    /// Passages of the corpus, as examples of its tone and words; may be empty.
    pub near: Vec<Passage>,
}

impl Act for ImaginePassage {
    type Output = String;

    fn prompt(&self) -> PromptFile {
        prompt_file!("imagine_passage")
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        vec![("question", self.question.clone()), ("near", passages(&self.near))]
    }

    fn cuts(&mut self) -> Vec<Cut<'_>> {
        vec![Cut::Passages(&mut self.near)]
    }

    fn format(&self) -> ReplyFormat {
        schema::reply(object(&[("passage", TEXT)]))
    }

    fn max_tokens(&self) -> u32 {
        LIST_TOKENS
    }

    /// Parses the passage. A reply without a label is the passage, and one that was cut off is
    /// accepted.
    fn parse(&self, reply: Reply<'_>) -> Result<String, UnreadableReply> {
        let expected = "a passage";
        let passage = reply.prose(expected, "passage")?;
        match is_nothing(&passage) {
            true => Err(UnreadableReply { expected, found: ReplyShape::Nothing }),
            false => Ok(passage),
        }
    }
}

//! A question in other words, and a passage that could answer it: what a search understands better than the
//! question as it was asked.

use clew_core::{ReplyFormat, Rewording};

use super::super::material::passages;
use super::super::reply::is_nothing;
use super::super::schema::{self, TEXT, list, object};
use super::super::{Act, Cut, Found, Passage, PromptFile, Reply, Unreadable};
use super::{DECISION_TOKENS, LIST_TOKENS, first, prompt_file};

/// Puts a question in other words (RQ-RAG: rewrite, decompose, disambiguate).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reword {
    /// The question.
    pub question: String,
    /// How.
    pub how: Rewording,
    /// Most questions, at least 1.
    pub most: usize,
}

impl Act for Reword {
    /// The questions, best first, each once; none if there is nothing to say otherwise.
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

    fn parse(&self, reply: Reply<'_>) -> Result<Vec<String>, Unreadable> {
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

/// Writes a passage that could answer the question (HyDE, section 3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImaginePassage {
    /// The question.
    pub question: String,
    /// Passages of the corpus, for its tone and words; may be none.
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

    /// A reply without a label is the passage; where it was cut off, what there is serves.
    fn parse(&self, reply: Reply<'_>) -> Result<String, Unreadable> {
        let expected = "a passage";
        let passage = reply.prose(expected, "passage")?;
        match is_nothing(&passage) {
            true => Err(Unreadable { expected, found: Found::Nothing }),
            false => Ok(passage),
        }
    }
}

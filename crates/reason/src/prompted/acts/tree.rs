//! Building and walking a summary tree (MemWalker, section 3, appendix A.1).

use clew_core::{Cost, ReplyFormat, SummaryLevel, Triage, TriageStep};

use super::super::act::end_of_word;
use super::super::material::{numbered, or_none, passage};
use super::super::schema::{self, TEXT, object};
use super::super::{Act, Cut, Found, Passage, PromptFile, Reply, Unreadable};
use super::{DECISION_TOKENS, LIST_TOKENS, prompt_file};

/// Tells several texts in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summarise {
    /// Passages, or the summaries of children.
    pub level: SummaryLevel,
    /// The texts, in the order of the document.
    pub texts: Vec<String>,
    /// Most bytes of the summary, at least 1.
    pub max_bytes: usize,
}

impl Act for Summarise {
    type Output = String;

    fn prompt(&self) -> PromptFile {
        match self.level {
            SummaryLevel::Leaf => prompt_file!("summarise_leaf"),
            SummaryLevel::Inner => prompt_file!("summarise_inner"),
        }
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        let texts = match self.level {
            SummaryLevel::Leaf => self.texts.join("\n\n"),
            SummaryLevel::Inner => numbered(self.texts.iter().map(String::as_str)),
        };
        // An English word has five letters and a blank; the rest is for longer ones.
        let words = (self.max_bytes / 7).max(5);
        vec![("texts", texts), ("words", words.to_string())]
    }

    /// The longest texts are cut, so that each is told of.
    fn cuts(&mut self) -> Vec<Cut<'_>> {
        vec![Cut::Longest(self.texts.iter_mut().collect())]
    }

    fn format(&self) -> ReplyFormat {
        ReplyFormat::Text
    }

    fn max_tokens(&self) -> u32 {
        // Three bytes a token, for languages that take more tokens than English.
        u32::try_from(self.max_bytes / 3).unwrap_or(u32::MAX).saturating_add(128).min(8192)
    }

    /// The summary: of one that is too long, the sentences that fit, or else the words that do.
    fn parse(&self, reply: Reply<'_>) -> Result<String, Unreadable> {
        let text = reply.prose("a summary", "summary")?;
        if text.len() <= self.max_bytes {
            return Ok(text);
        }
        let sentences = clew_text::sentences(&text);
        let ends = sentences.iter().map(|span| text[..span.end].trim_end().len());
        let end = ends.take_while(|end| *end <= self.max_bytes).last();
        let end = end.filter(|end| *end > 0).unwrap_or_else(|| end_of_word(&text, self.max_bytes));
        Ok(text[..end].to_owned())
    }
}

/// At a node of a tree: chooses the child that most likely holds the answer, or turns back.
///
/// MemWalker always has a child chosen here and turns back from leaves only; that a node's other children
/// may all be wrong too is decided in its parent. Here the model may say so at once, where it may turn back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChooseChild {
    /// The question.
    pub question: String,
    /// What was read on the way here, oldest first: the working memory.
    pub memory: Vec<String>,
    /// The children's summaries. At least one.
    pub summaries: Vec<String>,
    /// Whether there is anywhere to turn back to.
    pub may_turn_back: bool,
}

impl Act for ChooseChild {
    type Output = Triage;

    fn prompt(&self) -> PromptFile {
        match self.may_turn_back {
            true => prompt_file!("choose_child_or_turn_back"),
            false => prompt_file!("choose_child"),
        }
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        vec![
            ("question", self.question.clone()),
            ("memory", or_none(self.memory.join("\n\n"))),
            ("summaries", numbered(self.summaries.iter().map(String::as_str))),
        ]
    }

    /// The oldest memories go before summaries are cut, and no summary goes.
    fn cuts(&mut self) -> Vec<Cut<'_>> {
        vec![Cut::Oldest(&mut self.memory), Cut::Longest(self.summaries.iter_mut().collect())]
    }

    fn format(&self) -> ReplyFormat {
        schema::reply(object(&[("reasoning", TEXT), ("action", TEXT)]))
    }

    fn max_tokens(&self) -> u32 {
        DECISION_TOKENS
    }

    /// What it cost is not known here.
    fn parse(&self, reply: Reply<'_>) -> Result<Triage, Unreadable> {
        let expected = "an `action`, the number of a summary or `back`";
        let record = reply.record(expected, &["reasoning", "action"])?;
        let reasoning = record.optional_text("reasoning")?.unwrap_or_default();
        let step = match is_back(&record.text("action")?) {
            true if self.may_turn_back => TriageStep::TurnBack,
            true => return Err(record.refused(Found::OutOfRange("action"))),
            false => TriageStep::Enter(record.index("action", self.summaries.len())?),
        };
        Ok(Triage { reasoning, step, cost: Cost::default() })
    }
}

/// At a leaf: answers from its text, or turns back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadLeaf {
    /// The question.
    pub question: String,
    /// What was read on the way here, oldest first: the working memory.
    pub memory: Vec<String>,
    /// The leaf. Its day tells what "yesterday" means in it.
    pub leaf: Passage,
}

/// What a model makes of a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafVerdict {
    /// Why.
    pub reasoning: String,
    /// What to do.
    pub step: LeafStep,
}

/// A step at a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeafStep {
    /// The leaf answers the question.
    Answer {
        /// The answer.
        text: String,
        /// The words of the leaf that say so, as the model quotes them: whether they stand there is not
        /// known. May be empty.
        quote: String,
    },
    /// It does not.
    TurnBack,
}

impl Act for ReadLeaf {
    type Output = LeafVerdict;

    fn prompt(&self) -> PromptFile {
        prompt_file!("read_leaf")
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        vec![
            ("question", self.question.clone()),
            ("memory", or_none(self.memory.join("\n\n"))),
            ("text", passage(&self.leaf)),
        ]
    }

    /// The oldest memories go before the end of the text does.
    fn cuts(&mut self) -> Vec<Cut<'_>> {
        vec![Cut::Oldest(&mut self.memory), Cut::Longest(vec![&mut self.leaf.text])]
    }

    fn format(&self) -> ReplyFormat {
        schema::reply(object(&[
            ("reasoning", TEXT),
            ("action", TEXT),
            ("answer", TEXT),
            ("quote", TEXT),
        ]))
    }

    fn max_tokens(&self) -> u32 {
        LIST_TOKENS
    }

    /// An answer may come without a quote: the one can be read without the other.
    fn parse(&self, reply: Reply<'_>) -> Result<LeafVerdict, Unreadable> {
        let expected = "an `action`, `answer` or `back`";
        let record = reply.record(expected, &["reasoning", "action", "answer", "quote"])?;
        let reasoning = record.optional_text("reasoning")?.unwrap_or_default();
        let action = record.text("action")?;
        let step = match word(&action).as_str() {
            "answer" => {
                let quote = record.optional_text("quote")?.unwrap_or_default();
                LeafStep::Answer { text: record.text("answer")?, quote }
            }
            _ if is_back(&action) => LeafStep::TurnBack,
            _ => return Err(record.refused(Found::Wrong("action"))),
        };
        Ok(LeafVerdict { reasoning, step })
    }
}

fn is_back(action: &str) -> bool {
    matches!(word(action).as_str(), "back" | "turn back" | "turn_back" | "-1")
}

/// An action without marks around it.
fn word(action: &str) -> String {
    action.trim_matches(|c: char| c.is_whitespace() || "*.\"'`".contains(c)).to_lowercase()
}

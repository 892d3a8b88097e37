//! Acts that build and walk a summary tree (MemWalker, section 3, appendix A.1).

use clew_core::{Cost, ReplyFormat, SummaryLevel, Triage, TriageStep};

use super::super::act::end_of_word;
use super::super::material::{numbered, or_none, passage};
use super::super::schema::{self, TEXT, object};
use super::super::{Act, Cut, Passage, PromptFile, Reply, ReplyShape, UnreadableReply};
use super::{DECISION_TOKENS, LIST_TOKENS, prompt_file};

/// An act that summarises several texts in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summarise {
    /// Level of the texts: passages, or the summaries of children.
    pub level: SummaryLevel,
    /// Texts, in the order of the document.
    pub texts: Vec<String>,
    /// Maximum length of the summary, in bytes; at least 1.
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
        // An English word has about five letters and a space; the seventh byte allows for longer
        // words.
        let words = (self.max_bytes / 7).max(5);
        vec![("texts", texts), ("words", words.to_string())]
    }

    /// Cuts the longest texts, so that the summary covers each.
    fn cuts(&mut self) -> Vec<Cut<'_>> {
        vec![Cut::Longest(self.texts.iter_mut().collect())]
    }

    fn format(&self) -> ReplyFormat {
        ReplyFormat::Text
    }

    fn max_tokens(&self) -> u32 {
        // Three bytes per token, for languages that take more tokens than English.
        u32::try_from(self.max_bytes / 3).unwrap_or(u32::MAX).saturating_add(128).min(8192)
    }

    /// Parses the summary. One that is too long is cut to the sentences that fit, or else to the
    /// words.
    fn parse(&self, reply: Reply<'_>) -> Result<String, UnreadableReply> {
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

/// An act that chooses, at a node of a tree, the child that most likely contains the answer, or
/// turns back.
///
/// MemWalker always chooses a child here and turns back from leaves only. If all children of a node
/// are wrong, the decision is made in its parent. Here the model may say so at once, if it may turn
/// back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChooseChild {
    /// The question.
    pub question: String,
    /// Working memory: texts read on the way here, oldest first.
    pub memory: Vec<String>,
    /// Summaries of the children; at least one.
    pub summaries: Vec<String>,
    /// Whether there is a node to turn back to.
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

    /// Drops the oldest memories before it cuts summaries, and drops no summary.
    fn cuts(&mut self) -> Vec<Cut<'_>> {
        vec![Cut::Oldest(&mut self.memory), Cut::Longest(self.summaries.iter_mut().collect())]
    }

    fn format(&self) -> ReplyFormat {
        schema::reply(object(&[("reasoning", TEXT), ("action", TEXT)]))
    }

    fn max_tokens(&self) -> u32 {
        DECISION_TOKENS
    }

    /// Parses the decision, without its cost, which is not known here.
    fn parse(&self, reply: Reply<'_>) -> Result<Triage, UnreadableReply> {
        let expected = "an `action`, the number of a summary or `back`";
        let record = reply.record(expected, &["reasoning", "action"])?;
        let reasoning = record.optional_text("reasoning")?.unwrap_or_default();
        let step = match is_back(&record.text("action")?) {
            true if self.may_turn_back => TriageStep::TurnBack,
            true => return Err(record.refused(ReplyShape::OutOfRange("action"))),
            false => TriageStep::Enter(record.index("action", self.summaries.len())?),
        };
        Ok(Triage { reasoning, step, cost: Cost::default() })
    }
}

/// An act that answers from the text of a leaf, or turns back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadLeaf {
    /// The question.
    pub question: String,
    /// Working memory: texts read on the way here, oldest first.
    pub memory: Vec<String>,
    /// The leaf. Its day explains what "yesterday" means in it.
    pub leaf: Passage,
}

/// A model's decision on a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafVerdict {
    /// Reasons for the decision.
    pub reasoning: String,
    /// Step to take.
    pub step: LeafStep,
}

/// A step at a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeafStep {
    /// The leaf answers the question.
    Answer {
        /// The answer.
        text: String,
        /// Words of the leaf that state the answer, as the model quotes them, not yet checked. May
        /// be empty.
        quote: String,
    },
    /// The leaf does not answer the question.
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

    /// Drops the oldest memories before it cuts the end of the text.
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

    /// Parses the decision. An answer may come without a quote.
    fn parse(&self, reply: Reply<'_>) -> Result<LeafVerdict, UnreadableReply> {
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
            _ => return Err(record.refused(ReplyShape::Wrong("action"))),
        };
        Ok(LeafVerdict { reasoning, step })
    }
}

fn is_back(action: &str) -> bool {
    matches!(word(action).as_str(), "back" | "turn back" | "turn_back" | "-1")
}

/// Returns an action in lower case and without marks around it.
fn word(action: &str) -> String {
    action.trim_matches(|c: char| c.is_whitespace() || "*.\"'`".contains(c)).to_lowercase()
}

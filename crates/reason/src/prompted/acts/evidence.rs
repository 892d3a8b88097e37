//! Acts that judge evidence and answer from it.

use clew_core::{
    Cost, MemoryPoint, Notes, PassageLayout, ReadingStrategy, Reflection, ReplyFormat, Task,
    Timestamp,
};

use super::super::material::{day, or_none, passages, points, records};
use super::super::schema::{self, FLAG, NUMBER, TEXT, list, object};
use super::super::{Act, Cut, Passage, PromptFile, Reply, ReplyShape, UnreadableReply};
use super::{DECISION_TOKENS, LIST_TOKENS, MAX_ITEMS, first, prompt_file};

/// An act that judges whether passages suffice to answer a question (QRMeM, section 2.2, appendix
/// D).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JudgeEvidence {
    /// The question.
    pub question: String,
    /// Passages, best first.
    pub passages: Vec<Passage>,
}

impl Act for JudgeEvidence {
    type Output = Reflection;

    fn prompt(&self) -> PromptFile {
        prompt_file!("judge_evidence")
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        vec![("question", self.question.clone()), ("passages", passages(&self.passages))]
    }

    fn cuts(&mut self) -> Vec<Cut<'_>> {
        vec![Cut::Passages(&mut self.passages)]
    }

    fn format(&self) -> ReplyFormat {
        schema::reply(object(&[("reasoning", TEXT), ("suffices", FLAG), ("missing", TEXT)]))
    }

    fn max_tokens(&self) -> u32 {
        DECISION_TOKENS
    }

    /// Parses the judgement, without its cost, which is not known here.
    fn parse(&self, reply: Reply<'_>) -> Result<Reflection, UnreadableReply> {
        let expected = "whether the evidence `suffices`";
        let record = reply.record(expected, &["reasoning", "suffices", "missing"])?;
        let suffices = record.flag("suffices")?;
        let missing = record.optional_text("missing")?.filter(|_| !suffices).unwrap_or_default();
        let reasoning = record.optional_text("reasoning")?.unwrap_or_default();
        Ok(Reflection { reasoning, suffices, missing, cost: Cost::default() })
    }
}

/// An act that reads passages one by one, notes what bears on the question, and answers from the
/// notes with citations (LongMemEval, section 5, figure 13: a variant of chain-of-note; in order of
/// time and as JSON, section 5.5). It summarises the passages in the same way if that is the task
/// (MemoRAG, section 2.4, table 3). It can also be set to answer without notes, and to show
/// passages as plain text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadEvidence {
    /// Kind of result that is wanted.
    pub task: Task,
    /// Question, or subject of the summary.
    pub question: String,
    /// Time when the question is asked, if known.
    pub asked_at: Option<Timestamp>,
    /// Points of a working memory, worked out before (HGMem, section 3.6).
    pub points: Vec<MemoryPoint>,
    /// Passages, best first, so that the worst are cut.
    pub passages: Vec<Passage>,
    /// Order in which the passages are shown, as indices of `passages`; those that it does not name
    /// come after. It is set for reading in order of time, and the passages are then shown as
    /// [`ReadingStrategy::layout`] says.
    pub order: Vec<usize>,
    /// Whether notes are taken for an answer, and how passages are shown. A summary always takes
    /// notes.
    pub reading: ReadingStrategy,
}

impl ReadEvidence {
    /// Returns the indices of all passages that are left, in the order in which they are shown.
    fn shown(&self) -> Vec<usize> {
        let mut shown: Vec<usize> = Vec::with_capacity(self.passages.len());
        for index in self.order.iter().copied().chain(0..self.passages.len()) {
            if index < self.passages.len() && !shown.contains(&index) {
                shown.push(index);
            }
        }
        shown
    }

    fn material(&self) -> String {
        if self.order.is_empty() {
            return passages(&self.passages);
        }
        let shown = self.shown().into_iter().map(|index| &self.passages[index]);
        match self.reading.layout {
            PassageLayout::Json => records(shown),
            PassageLayout::Text => passages(&shown.cloned().collect::<Vec<_>>()),
        }
    }

    fn takes_notes(&self) -> bool {
        self.task == Task::Summarise || self.reading.notes == Notes::Chain
    }
}

/// An answer with its notes and citations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotedAnswer {
    /// Notes, in the order of reading.
    pub notes: Vec<Note>,
    /// The answer, or `None` if the passages do not give one.
    pub answer: Option<String>,
    /// Origins of the answer: at least one for an answer, none without.
    pub citations: Vec<CitedQuote>,
}

/// A note on what a passage says about the question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Index of the passage.
    pub passage: usize,
    /// Text of the note.
    pub text: String,
}

/// Words of a passage as a model quotes them, not yet checked against the passage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CitedQuote {
    /// Index of the passage.
    pub passage: usize,
    /// The quoted words; empty for the whole passage.
    pub quote: String,
}

impl Act for ReadEvidence {
    type Output = NotedAnswer;

    fn prompt(&self) -> PromptFile {
        match self.task {
            Task::Answer if self.takes_notes() => prompt_file!("read_evidence"),
            Task::Answer => prompt_file!("read_evidence_direct"),
            Task::Summarise => prompt_file!("summarise_evidence"),
        }
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        vec![
            ("question", self.question.clone()),
            ("asked_at", or_none(self.asked_at.map(day).unwrap_or_default())),
            ("points", points(&self.points)),
            ("passages", self.material()),
        ]
    }

    fn cuts(&mut self) -> Vec<Cut<'_>> {
        let points = self.points.iter_mut().map(|point| &mut point.text).collect();
        vec![Cut::Longest(points), Cut::Passages(&mut self.passages)]
    }

    fn format(&self) -> ReplyFormat {
        let note = object(&[("passage", NUMBER), ("note", TEXT)]);
        let citation = object(&[("passage", NUMBER), ("quote", TEXT)]);
        let (notes, citations) = (list(&note, MAX_ITEMS), list(&citation, MAX_ITEMS));
        let noted = [("notes", notes.as_str())];
        let answered = [("suffices", FLAG), ("answer", TEXT), ("citations", citations.as_str())];
        let noted = noted.into_iter().filter(|_| self.takes_notes());
        schema::reply(object(&noted.chain(answered).collect::<Vec<_>>()))
    }

    fn max_tokens(&self) -> u32 {
        if self.takes_notes() { 2 * LIST_TOKENS } else { LIST_TOKENS }
    }

    /// Refuses an answer without a citation, and a citation of a passage that was not shown.
    /// Ignores an answer that comes with "does not suffice".
    fn parse(&self, reply: Reply<'_>) -> Result<NotedAnswer, UnreadableReply> {
        let expected = "`notes`, whether they suffice, an `answer` and its `citations`";
        let keys = ["notes", "suffices", "answer", "citations"];
        let record = reply.record(expected, &keys)?;
        let places = self.shown();
        let shown = places.len();
        let mut notes = Vec::new();
        // In a reply of lines, notes are one text, in which passages cannot be told apart.
        if record.has("notes") && record.text("notes").is_err() {
            for note in first(record.records("notes")?, MAX_ITEMS) {
                let passage = places[note.index("passage", shown)?];
                notes.extend(note.optional_text("note")?.map(|text| Note { passage, text }));
            }
        }
        if !record.flag("suffices")? {
            return Ok(NotedAnswer { notes, ..NotedAnswer::default() });
        }
        let answer = record.text("answer")?;
        let mut citations = Vec::new();
        if record.text("citations").is_ok() || record.indices("citations", shown).is_ok() {
            let whole = |passage| CitedQuote { passage, quote: String::new() };
            let cited = record.indices("citations", shown)?;
            citations.extend(cited.into_iter().map(|place| whole(places[place])));
        } else {
            for citation in first(record.records("citations")?, MAX_ITEMS) {
                let passage = places[citation.index("passage", shown)?];
                let quote = citation.optional_text("quote")?.unwrap_or_default();
                citations.push(CitedQuote { passage, quote });
            }
        }
        if citations.is_empty() {
            return Err(record.refused(ReplyShape::Missing("citations")));
        }
        Ok(NotedAnswer { notes, answer: Some(answer), citations })
    }
}

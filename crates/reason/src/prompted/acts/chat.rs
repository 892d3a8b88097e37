//! Acts for the memory of conversations (LongMemEval, section 5, appendix D).

use clew_core::{ReplyFormat, TimeRange, Timestamp};

use super::super::material::{day, numbered, period};
use super::super::schema::{self, TEXT, list, object};
use super::super::{Act, Cut, PromptFile, Reply, ReplyShape, UnreadableReply};
use super::{DECISION_TOKENS, LIST_TOKENS, MAX_ITEMS, first, prompt_file};

/// An act that lists what users state of themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtractFacts {
    /// Messages of the user, without the assistant's replies, oldest first.
    pub messages: Vec<String>,
}

impl Act for ExtractFacts {
    /// Sentences that can each be understood alone.
    type Output = Vec<String>;

    fn prompt(&self) -> PromptFile {
        prompt_file!("extract_facts")
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        vec![("messages", numbered(self.messages.iter().map(String::as_str)))]
    }

    fn cuts(&mut self) -> Vec<Cut<'_>> {
        vec![Cut::Longest(self.messages.iter_mut().collect())]
    }

    fn format(&self) -> ReplyFormat {
        schema::reply(object(&[("facts", &list(TEXT, MAX_ITEMS))]))
    }

    fn max_tokens(&self) -> u32 {
        LIST_TOKENS
    }

    fn parse(&self, reply: Reply<'_>) -> Result<Vec<String>, UnreadableReply> {
        Ok(first(reply.texts("a list of facts", "facts")?, MAX_ITEMS))
    }
}

/// An act that lists the events that users mention, with the times when they happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtractEvents {
    /// Messages of the user, without the assistant's replies, oldest first.
    pub messages: Vec<String>,
    /// Time when the messages were written.
    pub written_at: Timestamp,
}

/// An event in the past or the future.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatedEvent {
    /// Time of the event: a day, month or year (UTC). Both ends are set.
    pub time: TimeRange,
    /// Description of the event.
    pub event: String,
}

impl Act for ExtractEvents {
    type Output = Vec<DatedEvent>;

    fn prompt(&self) -> PromptFile {
        prompt_file!("extract_events")
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        vec![
            ("messages", numbered(self.messages.iter().map(String::as_str))),
            ("written_at", day(self.written_at)),
        ]
    }

    fn cuts(&mut self) -> Vec<Cut<'_>> {
        vec![Cut::Longest(self.messages.iter_mut().collect())]
    }

    fn format(&self) -> ReplyFormat {
        let event = object(&[("date", TEXT), ("event", TEXT)]);
        schema::reply(object(&[("events", &list(&event, MAX_ITEMS))]))
    }

    fn max_tokens(&self) -> u32 {
        LIST_TOKENS
    }

    /// Leaves out events without a date, as the prompt tells the model to do.
    fn parse(&self, reply: Reply<'_>) -> Result<Vec<DatedEvent>, UnreadableReply> {
        let records = reply.records("a list of dated events", "events", &["date", "event"])?;
        let mut events = Vec::new();
        for record in first(records, MAX_ITEMS) {
            let event = record.text("event")?;
            let Some(date) = record.optional_text("date")? else { continue };
            let dated = period(&date).map_err(|_| record.refused(ReplyShape::Wrong("date")))?;
            let time = TimeRange { from: Some(dated.0), until: Some(dated.1) };
            events.push(DatedEvent { time, event });
        }
        Ok(events)
    }
}

/// An act that infers the time that a question asks about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InferTimeRange {
    /// The question.
    pub question: String,
    /// Time when the question is asked.
    pub asked_at: Timestamp,
}

impl Act for InferTimeRange {
    /// The time range, or `None` if the question asks about no time.
    type Output = Option<TimeRange>;

    fn prompt(&self) -> PromptFile {
        prompt_file!("infer_time_range")
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        vec![("question", self.question.clone()), ("asked_at", day(self.asked_at))]
    }

    fn cuts(&mut self) -> Vec<Cut<'_>> {
        Vec::new()
    }

    fn format(&self) -> ReplyFormat {
        schema::reply(object(&[("reasoning", TEXT), ("start", TEXT), ("end", TEXT)]))
    }

    fn max_tokens(&self) -> u32 {
        DECISION_TOKENS
    }

    /// Parses the range, which ends after the day, month or year given as its end. One side may be
    /// missing. A range that ends before it begins is refused.
    fn parse(&self, reply: Reply<'_>) -> Result<Option<TimeRange>, UnreadableReply> {
        let expected = "the `start` and `end` of a time range";
        if reply.says_none() {
            return Ok(None);
        }
        let record = reply.record(expected, &["start", "end"])?;
        let side = |key| {
            let Some(date) = record.optional_text(key)? else { return Ok(None) };
            period(&date).map(Some).map_err(|_| record.refused(ReplyShape::Wrong(key)))
        };
        let from = side("start")?.map(|(from, _)| from);
        let until = side("end")?.map(|(_, until)| until);
        match (from, until) {
            (None, None) => Ok(None),
            (Some(from), Some(until)) if from >= until => {
                Err(record.refused(ReplyShape::Wrong("end")))
            }
            (from, until) => Ok(Some(TimeRange { from, until })),
        }
    }
}

//! Acts on a working memory of points, each about some entities (HGMem, sections 3.4 and 3.5,
//! figures 4 to 7).

use clew_core::{
    Concerns, MemoryPoint, MergedPoint, NewPoint, PointChanges, ReplyFormat, UpdatedPoint,
};

use super::super::material::{numbered, passages, points};
use super::super::reply::is_nothing;
use super::super::schema::{self, NUMBER, TEXT, list, object};
use super::super::{Act, Cut, Passage, PromptFile, Reply, ReplyShape, UnreadableReply};
use super::{DECISION_TOKENS, LIST_TOKENS, MAX_ITEMS, first, prompt_file};

/// Returns a cut that keeps every point, because points are referred to by their numbers.
fn texts_of(points: &mut [MemoryPoint]) -> Cut<'_> {
    Cut::Longest(points.iter_mut().map(|point| &mut point.text).collect())
}

/// An act that judges whether the memory resolves the question, and says what it lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RaiseConcerns {
    /// The question.
    pub question: String,
    /// Points of the memory.
    pub points: Vec<MemoryPoint>,
    /// Maximum number of concerns, at least 1.
    pub most: usize,
}

impl Act for RaiseConcerns {
    type Output = Concerns;

    fn prompt(&self) -> PromptFile {
        prompt_file!("raise_concerns")
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        vec![
            ("question", self.question.clone()),
            ("points", points(&self.points)),
            ("most", self.most.to_string()),
        ]
    }

    fn cuts(&mut self) -> Vec<Cut<'_>> {
        vec![texts_of(&mut self.points)]
    }

    fn format(&self) -> ReplyFormat {
        let judgement = r#"{"enum":["resolved","local","global"]}"#;
        let concern = object(&[("point", NUMBER), ("concern", TEXT)]);
        let concerns = list(&concern, self.most);
        schema::reply(object(&[("judgement", judgement), ("concerns", &concerns)]))
    }

    fn max_tokens(&self) -> u32 {
        DECISION_TOKENS
    }

    fn parse(&self, reply: Reply<'_>) -> Result<Concerns, UnreadableReply> {
        let expected = "a `judgement` and its `concerns`";
        let record = reply.record(expected, &["judgement", "concerns"])?;
        let judgement = record.text("judgement")?.to_lowercase();
        if judgement == "resolved" {
            return Ok(Concerns::Resolved);
        }
        let raised = first(record.records("concerns")?, self.most);
        if raised.is_empty() {
            return Err(record.refused(ReplyShape::Missing("concerns")));
        }
        match judgement.as_str() {
            "local" => {
                let local = raised.iter().map(|concern| {
                    Ok((concern.index("point", self.points.len())?, concern.text("concern")?))
                });
                Ok(Concerns::Local(local.collect::<Result<_, _>>()?))
            }
            "global" => {
                let global = raised.iter().map(|concern| concern.text("concern"));
                Ok(Concerns::Global(global.collect::<Result<_, _>>()?))
            }
            _ => Err(record.refused(ReplyShape::Wrong("judgement"))),
        }
    }
}

/// An act that turns a concern into a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskSubquery {
    /// The question.
    pub question: String,
    /// Points of the memory.
    pub points: Vec<MemoryPoint>,
    /// Concern to ask about.
    pub concern: String,
    /// Queries that were asked before, oldest first.
    pub asked: Vec<String>,
}

impl Act for AskSubquery {
    type Output = String;

    fn prompt(&self) -> PromptFile {
        prompt_file!("ask_subquery")
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        vec![
            ("question", self.question.clone()),
            ("points", points(&self.points)),
            ("concern", self.concern.clone()),
            ("asked", numbered(self.asked.iter().map(String::as_str))),
        ]
    }

    fn cuts(&mut self) -> Vec<Cut<'_>> {
        vec![Cut::Oldest(&mut self.asked), texts_of(&mut self.points)]
    }

    fn format(&self) -> ReplyFormat {
        schema::reply(object(&[("query", TEXT)]))
    }

    fn max_tokens(&self) -> u32 {
        DECISION_TOKENS
    }

    /// Parses the query. A single line without a label is the query itself.
    fn parse(&self, reply: Reply<'_>) -> Result<String, UnreadableReply> {
        let expected = "a query";
        let query = reply.prose(expected, "query")?;
        let found = match query.lines().count() {
            1 if !reply.is_whole => ReplyShape::CutOff,
            1 if is_nothing(&query) => ReplyShape::Nothing,
            1 => return Ok(query),
            _ => ReplyShape::Prose,
        };
        Err(UnreadableReply { expected, found })
    }
}

/// An act that takes findings into the memory: it updates points and inserts new ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpdatePoints {
    /// The question.
    pub question: String,
    /// Points of the memory.
    pub points: Vec<MemoryPoint>,
    /// Queries that were asked, oldest first.
    pub asked: Vec<String>,
    /// Descriptions of entities that were found and of their relations, best first.
    pub known: Vec<Passage>,
    /// Passages that were found, best first.
    pub found: Vec<Passage>,
}

impl Act for UpdatePoints {
    type Output = PointChanges;

    fn prompt(&self) -> PromptFile {
        prompt_file!("update_points")
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        vec![
            ("question", self.question.clone()),
            ("points", points(&self.points)),
            ("asked", numbered(self.asked.iter().map(String::as_str))),
            ("known", passages(&self.known)),
            ("found", passages(&self.found)),
        ]
    }

    fn cuts(&mut self) -> Vec<Cut<'_>> {
        vec![
            Cut::Oldest(&mut self.asked),
            Cut::Passages(&mut self.known),
            Cut::Passages(&mut self.found),
            texts_of(&mut self.points),
        ]
    }

    fn format(&self) -> ReplyFormat {
        let updated = object(&[("point", NUMBER), ("text", TEXT)]);
        let inserted = object(&[("entities", &list(TEXT, MAX_ITEMS)), ("text", TEXT)]);
        let (updated, inserted) = (list(&updated, MAX_ITEMS), list(&inserted, MAX_ITEMS));
        schema::reply(object(&[("updated", &updated), ("inserted", &inserted)]))
    }

    fn max_tokens(&self) -> u32 {
        2 * LIST_TOKENS
    }

    /// Parses the changes. Refuses two updates of one point, because it is not clear which one
    /// counts.
    fn parse(&self, reply: Reply<'_>) -> Result<PointChanges, UnreadableReply> {
        let expected = "`updated` and `inserted` memory points";
        let record = reply.record(expected, &["updated", "inserted"])?;
        let mut updated: Vec<UpdatedPoint> = Vec::new();
        for update in record.records("updated")? {
            let point = update.index("point", self.points.len())?;
            if updated.iter().any(|other| other.point == point) {
                return Err(record.refused(ReplyShape::Several));
            }
            updated.push(UpdatedPoint { point, text: update.text("text")? });
        }
        let mut inserted = Vec::new();
        for point in record.records("inserted")? {
            let entities = point.texts("entities")?;
            if entities.is_empty() {
                return Err(record.refused(ReplyShape::Missing("entities")));
            }
            inserted.push(NewPoint { entities, text: point.text("text")? });
        }
        Ok(PointChanges { updated, inserted: first(inserted, MAX_ITEMS) })
    }
}

/// An act that merges points that belong together into points of higher order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergePoints {
    /// The question.
    pub question: String,
    /// Points of the memory.
    pub points: Vec<MemoryPoint>,
}

impl Act for MergePoints {
    type Output = Vec<MergedPoint>;

    fn prompt(&self) -> PromptFile {
        prompt_file!("merge_points")
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        vec![("question", self.question.clone()), ("points", points(&self.points))]
    }

    fn cuts(&mut self) -> Vec<Cut<'_>> {
        vec![texts_of(&mut self.points)]
    }

    fn format(&self) -> ReplyFormat {
        let merged = object(&[("points", &list(NUMBER, MAX_ITEMS)), ("text", TEXT)]);
        schema::reply(object(&[("merged", &list(&merged, MAX_ITEMS))]))
    }

    fn max_tokens(&self) -> u32 {
        2 * LIST_TOKENS
    }

    fn parse(&self, reply: Reply<'_>) -> Result<Vec<MergedPoint>, UnreadableReply> {
        let records = reply.records("a list of merged points", "merged", &["points", "text"])?;
        let mut merged = Vec::new();
        for record in first(records, MAX_ITEMS) {
            let mut points = record.indices("points", self.points.len())?;
            points.sort_unstable();
            points.dedup();
            if points.len() < 2 {
                return Err(record.refused(ReplyShape::Wrong("points")));
            }
            merged.push(MergedPoint { points, text: record.text("text")? });
        }
        Ok(merged)
    }
}

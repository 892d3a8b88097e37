//! Answers with their outcome, citations, trace and cost.

use std::time::Duration;

use crate::{Cost, DocumentId, DocumentRange, SearchMode, SegmentId, ShardIndex, Span, Version};

/// Outcome of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer is supported by its citations.
    Answered,
    /// Nothing that was found supports an answer.
    NotInMemory,
    /// The answer is supported by its citations, but these shards could not be asked.
    AnsweredWithShardsMissing(Vec<ShardIndex>),
    /// Nothing that was found supports an answer, but these shards could not be asked.
    NotFoundWithShardsMissing(Vec<ShardIndex>),
}

/// Origin of a part of an answer: a quoted byte range of a stored document.
#[derive(Clone, Debug, PartialEq)]
pub struct Citation {
    /// Id of the document.
    pub document_id: DocumentId,
    /// Version of the document.
    pub version: Version,
    /// Title of the document; may be empty.
    pub title: String,
    /// Byte range of the document's text.
    pub span: Span,
    /// The text of that range.
    pub quote: String,
}

/// Step of answering a question, as the trace shows it.
#[derive(Clone, Debug, PartialEq)]
pub enum TraceEvent {
    /// Shards were searched.
    Searched {
        /// Text that was searched for.
        query: String,
        /// Search mode.
        mode: SearchMode,
        /// Number of items found.
        hits: usize,
        /// Cosine similarity of the best item, where embeddings were compared.
        best_dense_score: Option<f32>,
        /// Duration of the search.
        took: Duration,
    },
    /// A reader judged how well the evidence supports an answer.
    Judged {
        /// Support, 0 to 1.
        confidence: f32,
        /// Minimum support at which a question counts as answered.
        threshold: f32,
        /// Explanation of the judgement, for people.
        rationale: String,
    },
    /// A tree node was entered.
    Entered {
        /// Name of the node, for people.
        node: String,
        /// Node from which it was entered; empty at the top.
        parent: String,
        /// Summary of the node.
        summary: String,
        /// Reason for entering it.
        reason: String,
        /// Score of the node, where nodes were scored.
        score: Option<f32>,
    },
    /// The walk went back from a node because its text or children did not answer the question.
    TurnedBack {
        /// Node that was left.
        node: String,
        /// Reason for going back.
        reason: String,
    },
    /// The text of a segment was read at a leaf of the tree.
    LeafRead {
        /// Name of the segment's node, for people.
        node: String,
        /// Whether the segment answers the question.
        answers: bool,
        /// Reason for that judgement.
        reason: String,
    },
    /// The walk of a tree ended.
    Walked {
        /// Number of nodes entered, segments included.
        nodes: usize,
        /// Number of times that the walk went back.
        turns: usize,
        /// Bytes of segments and summaries that were read.
        bytes_read: u64,
        /// Bytes of all text that could have been read.
        bytes_total: u64,
        /// Reason for the end.
        ended: String,
    },
    /// Entities were chosen. From now on their segments are considered.
    EntitiesChosen {
        /// Names of the entities.
        entities: Vec<String>,
        /// Reason for the choice.
        reason: String,
    },
    /// An edge was followed: of the graph to an entity, or from a passage to another that it links
    /// to by naming an entity.
    EdgeFollowed {
        /// Name of the entity, or title of the passage, from which it starts.
        head: String,
        /// Relation in words.
        relation: String,
        /// Name of the entity to which it leads.
        tail: String,
        /// New end of the edge: the entity, or the title of the passage, that was reached.
        to: String,
        /// Score of the edge, from its similarity to what was looked for.
        score: f32,
        /// Text that was looked for, or another reason.
        reason: String,
    },
    /// Texts to search for were drafted from general knowledge of the corpus (MemoRAG, section
    /// 2.3).
    Drafted {
        /// Number of queries, clues and key points together.
        lines: usize,
        /// Answers that compressed memories gave by themselves.
        answers: Vec<String>,
        /// Duration of the drafting.
        took: Duration,
    },
    /// A working memory completed a step (HGMem, section 3.5).
    Evolved {
        /// Number of the step, from 0.
        step: u32,
        /// All points at the end of the step, in the order of their numbers.
        points: Vec<PointState>,
        /// Names of entities that points introduced in this step and that the corpus' graph does
        /// not know.
        brought: Vec<String>,
    },
    /// Segments were gathered as evidence.
    Gathered {
        /// Number of segments.
        segments: usize,
        /// Number of segments left out because the window was full.
        dropped: usize,
        /// Bytes of their texts.
        bytes: u64,
    },
    /// The gathered evidence was judged: sufficient for an answer or not.
    Reflected {
        /// Whether it suffices.
        suffices: bool,
        /// Reason for that judgement.
        reason: String,
        /// Description of what is missing.
        missing: String,
    },
    /// The answer was composed from passages.
    Read {
        /// Passages that were read, best first.
        passages: Vec<DocumentRange>,
        /// Number of sentences compared with the question.
        sentences: usize,
        /// Duration of the reading.
        took: Duration,
    },
}

/// State of a point of a working memory at the end of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointState {
    /// Number of the point, from 1; never reused within a question.
    pub number: u32,
    /// Effect of the step on the point.
    pub fate: PointFate,
    /// Names of the entities that it is about.
    pub entities: Vec<String>,
    /// Statement of the point.
    pub text: String,
    /// Numbers of the points from which it was merged.
    pub merged_from: Vec<u32>,
    /// Segments from which it comes.
    pub segments: Vec<SegmentId>,
}

/// Effect of a step on a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PointFate {
    /// The point is unchanged.
    #[default]
    Kept,
    /// The point has a new statement.
    Updated,
    /// The point is new.
    Inserted,
    /// The point was merged from others.
    Merged,
}

/// Breakdown of a request's time. Parts that run at the same time all count, so their sum may
/// exceed the total. Time in none of the parts went into judging, composing and converting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// Time since the request arrived.
    pub total: Duration,
    /// Time spent waiting for an encoder of this process.
    pub queue: Duration,
    /// Time spent embedding. For encoders on other machines it includes their queues and the
    /// network.
    pub compute: Duration,
    /// Time spent waiting for shards, their queues included.
    pub store: Duration,
}

/// Answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Outcome of the question.
    pub outcome: Outcome,
    /// Text of the answer; empty if the outcome is [`Outcome::NotInMemory`] or
    /// [`Outcome::NotFoundWithShardsMissing`].
    pub text: String,
    /// Origins of its parts, in the order of the text.
    pub citations: Vec<Citation>,
    /// Cost of answering.
    pub cost: Cost,
}

//! Answers that show their work: what was found, what was judged, what it cost.

use std::time::Duration;

use crate::{DocumentId, SearchMode, SegmentId, ShardIndex, Span, Version};

/// How a question ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer is supported by its citations.
    Answered,
    /// Nothing that was found supports an answer.
    NotInMemory,
    /// Answered, but these shards could not be asked.
    AnsweredWithShardsMissing(Vec<ShardIndex>),
    /// Nothing that was found supports an answer, but these shards could not be asked.
    NotFoundWithShardsMissing(Vec<ShardIndex>),
}

/// Where a part of an answer comes from: a quoted byte range of a stored document.
#[derive(Clone, Debug, PartialEq)]
pub struct Citation {
    /// The document.
    pub document_id: DocumentId,
    /// Its version.
    pub version: Version,
    /// Its title; may be empty.
    pub title: String,
    /// Byte range of the document's text.
    pub span: Span,
    /// The text of that range.
    pub quote: String,
}

/// A range of a stored document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The document.
    pub document_id: DocumentId,
    /// Its version.
    pub version: Version,
    /// Byte range of the document's text.
    pub span: Span,
}

/// One step of answering.
#[derive(Clone, Debug, PartialEq)]
pub enum TraceEvent {
    /// Shards were searched.
    Searched {
        /// The words searched for.
        query: String,
        /// How.
        mode: SearchMode,
        /// Items found.
        hits: usize,
        /// The best item's cosine similarity, where embeddings were compared.
        best_dense_score: Option<f32>,
        /// How long it took.
        took: Duration,
    },
    /// It was judged whether what was found supports an answer.
    Judged {
        /// Support, 0 to 1.
        confidence: f32,
        /// Least support at which a question counts as answered.
        threshold: f32,
        /// What the judgement rests on, for a person.
        rationale: String,
    },
    /// A node of the tree was entered.
    Entered {
        /// Which, for people.
        node: String,
        /// The node that it was entered from; empty at the top.
        parent: String,
        /// Its summary.
        summary: String,
        /// Why.
        reason: String,
        /// What its score was, where nodes were scored.
        score: Option<f32>,
    },
    /// It went back from a node, whose text or children did not answer.
    TurnedBack {
        /// From which.
        node: String,
        /// Why.
        reason: String,
    },
    /// The text of a segment was read at a leaf of the tree.
    LeafRead {
        /// Which.
        node: String,
        /// Whether it answers.
        answers: bool,
        /// Why.
        reason: String,
    },
    /// A tree was walked to an end.
    Walked {
        /// Nodes entered, segments included.
        nodes: usize,
        /// How often it went back.
        turns: usize,
        /// Bytes of segments and summaries that were read.
        bytes_read: u64,
        /// Bytes of all text that could have been read.
        bytes_total: u64,
        /// Why it ended.
        ended: String,
    },
    /// Entities were taken up, whose segments are looked at from now on.
    EntitiesChosen {
        /// Their names.
        entities: Vec<String>,
        /// Why.
        reason: String,
    },
    /// An edge of the graph was followed to an entity.
    EdgeFollowed {
        /// Name of the entity it starts from.
        head: String,
        /// The relation.
        relation: String,
        /// Name of the entity it leads to.
        tail: String,
        /// Which of both is new.
        to: String,
        /// How similar it is to what was looked for.
        score: f32,
        /// What was looked for.
        reason: String,
    },
    /// What to search for was drafted out of what is known of the corpus at large (MemoRAG, section 2.3).
    Drafted {
        /// Queries, clues and key points together.
        lines: usize,
        /// What memories answer by themselves.
        answers: Vec<String>,
        /// How long it took.
        took: Duration,
    },
    /// A working memory of points went through a step (HGMem, section 3.5).
    Evolved {
        /// The step, from 0.
        step: u32,
        /// All its points at the end of the step, by number.
        points: Vec<PointState>,
        /// Names of entities that the corpus' graph does not know and a point brought in this step.
        brought: Vec<String>,
    },
    /// Segments were gathered as evidence.
    Gathered {
        /// Their number.
        segments: usize,
        /// Those left out because the window was full.
        dropped: usize,
        /// Bytes of their texts.
        bytes: u64,
    },
    /// It was judged whether what was gathered suffices to answer.
    Reflected {
        /// Whether it does.
        suffices: bool,
        /// Why.
        reason: String,
        /// What is missing.
        missing: String,
    },
    /// The answer was composed from passages.
    Read {
        /// The passages looked at, best first.
        passages: Vec<Place>,
        /// Sentences compared with the question.
        sentences: usize,
        /// How long it took.
        took: Duration,
    },
}

/// A point of a working memory at the end of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointState {
    /// Its number, from 1; never used twice for one question.
    pub number: u32,
    /// What the step did to it.
    pub fate: PointFate,
    /// Names of the entities that it is about.
    pub entities: Vec<String>,
    /// What it says.
    pub text: String,
    /// Numbers of the points that it was made of.
    pub merged_from: Vec<u32>,
    /// The segments that it comes from.
    pub segments: Vec<SegmentId>,
}

/// What a step did to a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PointFate {
    /// Nothing.
    #[default]
    Kept,
    /// It says something else now.
    Updated,
    /// It is new.
    Inserted,
    /// It was made of others.
    Merged,
}

/// What answering cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Tokens that were embedded.
    pub embedded_tokens: u64,
    /// Tokens that a reranker read.
    pub reranked_tokens: u64,
    /// Calls of a language model.
    pub model_calls: u64,
    /// Tokens sent to language models.
    pub prompt_tokens: u64,
    /// Tokens received from language models.
    pub completion_tokens: u64,
    /// Shards that were asked.
    pub shards_searched: u64,
    /// Whether something was not done since a budget of calls, tokens or time was used up.
    pub is_out_of_budget: bool,
}

impl Cost {
    /// Tokens that models read and wrote.
    pub fn tokens(&self) -> u64 {
        let read = self.embedded_tokens.saturating_add(self.reranked_tokens);
        read.saturating_add(self.prompt_tokens).saturating_add(self.completion_tokens)
    }
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        // What endpoints tell is not to be trusted with a sum.
        for (sum, more) in [
            (&mut self.embedded_tokens, other.embedded_tokens),
            (&mut self.reranked_tokens, other.reranked_tokens),
            (&mut self.model_calls, other.model_calls),
            (&mut self.prompt_tokens, other.prompt_tokens),
            (&mut self.completion_tokens, other.completion_tokens),
            (&mut self.shards_searched, other.shards_searched),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.is_out_of_budget = self.is_out_of_budget || other.is_out_of_budget;
    }
}

/// Where the time of a request went. Parts that ran at the same time count each, so that they may be more
/// than the total; what no part has went into judging, composing and converting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// From the request's arrival.
    pub total: Duration,
    /// Waiting for an encoder of this process.
    pub queue: Duration,
    /// Embedding; of encoders on other machines, their queues and the way to them included.
    pub compute: Duration,
    /// Asking shards, their queues included.
    pub store: Duration,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// How it ended.
    pub outcome: Outcome,
    /// The answer's text; empty if the outcome is [`Outcome::NotInMemory`] or
    /// [`Outcome::NotFoundWithShardsMissing`].
    pub text: String,
    /// Where its parts come from, in the order of the text.
    pub citations: Vec<Citation>,
    /// What it cost.
    pub cost: Cost,
}

//! The state of an answer in progress, and the steps that strategies share. Each step reports
//! itself and adds its cost.

use std::collections::BTreeSet;
use std::time::Instant;

use clew_core::{
    Answer, Assignment, ChatSettings, ClueQuery, Clues, Cost, DocumentId, DraftTask, Error,
    ErrorKind, Evidence, Extraction, ExtractionTask, GraphQuery, Item, Limits, MemoryPoint,
    MemoryUse, Outcome, Partial, Priority, Query, Reading, Recall, Retrieved, SearchMode,
    SegmentId, ShardIndex, Subgraph, Task, TextKind, TraceEvent, TreeNode, TreeNodeId,
};

use tracing::{Instrument, info_span};

use crate::{AnswerObserver, Question, Seams};

/// Question in progress, with what it works on and its cost so far.
pub(crate) struct Work<'a> {
    pub(crate) question: &'a Question,
    pub(crate) seams: Seams<'a>,
    progress: &'a dyn AnswerObserver,
    cost: Cost,
    shards_missing: BTreeSet<ShardIndex>,
}

impl<'a> Work<'a> {
    pub(crate) fn new(
        question: &'a Question,
        seams: Seams<'a>,
        progress: &'a dyn AnswerObserver,
    ) -> Self {
        let (cost, shards_missing) = (Cost::default(), BTreeSet::new());
        Self { question, seams, progress, cost, shards_missing }
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.question.deadline
    }

    pub(crate) fn trace(&self, event: TraceEvent) {
        self.progress.trace(event);
    }

    pub(crate) fn spend(&mut self, cost: Cost) {
        self.cost += cost;
    }

    /// Fails if the deadline has passed. Ends a loop of many steps in time, even if each step is
    /// quick.
    pub(crate) fn check_time(&self, doing: &str) -> Result<(), Error> {
        if Instant::now() < self.deadline() { Ok(()) } else { Err(Error::deadline(doing)) }
    }

    /// Creates a hybrid search for `text` with the question's filter.
    pub(crate) fn query(&self, text: impl Into<String>, k: usize) -> Query {
        let mut query = Query::new(text, k);
        query.filter = self.question.filter.clone();
        query
    }

    pub(crate) async fn search(&mut self, query: Query) -> Result<Vec<Evidence>, Error> {
        let started = Instant::now();
        let searching = self.seams.retriever.retrieve(&query, self.deadline());
        let found = searching.instrument(info_span!("step.search")).await?;
        Ok(self.searched(query, found, started))
    }

    /// Searches for several queries at once. Returns what each finds, in their order.
    pub(crate) async fn search_all(
        &mut self,
        queries: Vec<Query>,
    ) -> Result<Vec<Vec<Evidence>>, Error> {
        let mut all = Vec::with_capacity(queries.len());
        for batch in queries.chunks(Limits::default().searches) {
            let started = Instant::now();
            let searching = self.seams.retriever.retrieve_all(batch, self.deadline());
            let span = info_span!("step.search", queries = batch.len());
            for (query, found) in batch.iter().zip(searching.instrument(span).await?) {
                all.push(self.searched(query.clone(), found, started));
            }
        }
        Ok(all)
    }

    /// Reports a search and adds its cost. Returns what it found.
    fn searched(&mut self, query: Query, found: Retrieved, started: Instant) -> Vec<Evidence> {
        self.cost += found.cost;
        self.shards_missing.extend(found.shards_missing);
        let best_dense_score =
            found.evidence.iter().filter_map(|item| item.dense_score).max_by(f32::total_cmp);
        self.trace(TraceEvent::Searched {
            query: query.text,
            mode: query.mode,
            hits: found.evidence.len(),
            best_dense_score,
            took: started.elapsed(),
        });
        found.evidence
    }

    /// Returns what was found, and records the shards that did not answer for the outcome.
    fn keep<T>(&mut self, partial: Partial<T>) -> T {
        self.shards_missing.extend(partial.shards_missing);
        partial.found
    }

    /// Returns the nodes at the top of the tree, with the vectors that are stored of their
    /// summaries.
    pub(crate) async fn tops(&mut self) -> Result<Vec<TreeNode>, Error> {
        let Question { text, filter, deadline, .. } = self.question;
        let encoder = self.seams.encoder.identity().fingerprint();
        let tops = self.seams.tree.tops(text, filter, Some(&encoder), *deadline).await?;
        Ok(self.keep(tops))
    }

    /// Returns the children of a tree node, with the vectors that are stored of their summaries.
    pub(crate) async fn children(&mut self, node: &TreeNodeId) -> Result<Vec<TreeNode>, Error> {
        let encoder = self.seams.encoder.identity().fingerprint();
        let children = self.seams.tree.children(node, Some(&encoder), self.deadline()).await?;
        Ok(self.keep(children))
    }

    /// Returns the vectors of the summaries of nodes, in order. Embeds the summaries that have no
    /// stored vector.
    pub(crate) async fn summary_vectors(
        &mut self,
        nodes: &[&TreeNode],
    ) -> Result<Vec<Vec<f32>>, Error> {
        let dimension = self.seams.encoder.identity().dimension as usize;
        let stored = |node: &TreeNode| {
            node.vector.clone().filter(|components| components.len() == dimension)
        };
        let stored: Vec<Option<Vec<f32>>> = nodes.iter().map(|node| stored(node)).collect();
        let lacking = nodes.iter().zip(&stored).filter(|(_, vector)| vector.is_none());
        let summaries = lacking.map(|(node, _)| node.summary.clone()).collect();
        let mut embedded = self.embed(summaries, TextKind::Passage).await?.into_iter();
        let vectors = stored.into_iter().map(|vector| vector.or_else(|| embedded.next()));
        let all: Option<Vec<Vec<f32>>> = vectors.collect();
        all.ok_or_else(|| Error::internal("the encoder returned fewer vectors than texts"))
    }

    /// Returns the text of a segment of the tree, if it exists.
    pub(crate) async fn segment(&mut self, node: &TreeNodeId) -> Result<Option<Evidence>, Error> {
        let segment = self.seams.tree.segment(node, self.deadline()).await?;
        Ok(self.keep(segment))
    }

    /// Returns the part of the graph around what `query` names.
    pub(crate) async fn subgraph(&mut self, query: &GraphQuery) -> Result<Subgraph, Error> {
        let graph = self.seams.graph.subgraph(query, self.deadline()).await?;
        Ok(self.keep(graph))
    }

    /// Returns the texts of those segments that exist.
    pub(crate) async fn segments(
        &mut self,
        ids: &[SegmentId],
    ) -> Result<Vec<(SegmentId, Evidence)>, Error> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let texts = self.seams.graph.segments(ids, self.deadline()).await?;
        Ok(self.keep(texts))
    }

    /// Returns what the memory of the whole corpus drafts for the question. `near` holds the
    /// results of a search for it.
    pub(crate) async fn clues(&mut self, near: &[Evidence], most: usize) -> Result<Clues, Error> {
        let started = Instant::now();
        let Question { text, task, filter, memory_use, deadline, .. } = self.question;
        let answers = *memory_use != MemoryUse::Clues && *task == Task::Answer;
        let draft = DraftTask { task: *task, question: text.clone(), answers };
        let query = ClueQuery { draft, filter: filter.clone() };
        let drafting = self.seams.memory.clues(&query, near, most, *deadline);
        let drafted = drafting.instrument(info_span!("step.draft")).await?;
        let (clues, cost) = self.keep(drafted);
        self.spend(cost);
        self.trace(TraceEvent::Drafted {
            lines: clues.queries.len() + clues.clues.len() + clues.key_points.len(),
            answers: clues.answers.clone(),
            took: started.elapsed(),
        });
        Ok(clues)
    }

    /// Returns the rounds of conversations that match the question best, best first, at most `k`.
    pub(crate) async fn recall(&mut self, k: usize) -> Result<Vec<Item>, Error> {
        let started = Instant::now();
        let ChatSettings { keys, merging, value, time, history, reading: _ } =
            self.question.chat.clone();
        let asked = Recall {
            question: self.question.text.clone(),
            asked_at: self.question.asked_at,
            filter: self.question.filter.clone(),
            k,
            keys,
            merging,
            value,
            time,
            range: self.question.range,
            history,
        };
        let Seams { retriever, documents, .. } = self.seams;
        let recalling = clew_chat::recall(retriever, documents, &asked, self.deadline());
        let recalled = recalling.instrument(info_span!("step.recall")).await?;
        self.cost += recalled.cost;
        self.shards_missing.extend(recalled.shards_missing);
        let dense = recalled.hits.iter().filter_map(|hit| hit.dense_score);
        self.trace(TraceEvent::Searched {
            query: asked.question,
            mode: SearchMode::default(),
            hits: recalled.hits.len(),
            best_dense_score: dense.max_by(f32::total_cmp),
            took: started.elapsed(),
        });
        Ok(recalled.items)
    }

    /// Returns the vectors of `texts`, in order.
    pub(crate) async fn embed(
        &mut self,
        texts: Vec<String>,
        kind: TextKind,
    ) -> Result<Vec<Vec<f32>>, Error> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let encoder = self.seams.encoder;
        let embedding = encoder.embed(texts, kind, Priority::Interactive, self.deadline());
        let embeddings = embedding.instrument(info_span!("step.embed")).await?;
        let tokens = embeddings.iter().map(|embedding| u64::from(embedding.tokens)).sum();
        self.cost += Cost { embedded_tokens: tokens, ..Cost::default() };
        Ok(embeddings.into_iter().map(|embedding| embedding.vector).collect())
    }

    /// Extracts the entities and relations of the tasks' passages, in order. Returns nothing if
    /// they cannot be extracted: the question is then answered from what is stored. A passed
    /// deadline is an error.
    pub(crate) async fn extract(
        &mut self,
        tasks: Vec<ExtractionTask>,
    ) -> Result<Vec<Extraction>, Error> {
        let count = tasks.len();
        let extracting = self.seams.graph_builder.extract(tasks, self.deadline());
        let found = match extracting.instrument(info_span!("step.extract", passages = count)).await
        {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::DeadlineExceeded => return Err(error),
            Err(_) => return Ok(Vec::new()),
        };
        for extraction in &found {
            self.cost += extraction.cost;
        }
        // With a different number, it is unknown which extraction belongs to which passage.
        Ok(if found.len() == count { found } else { Vec::new() })
    }

    /// Reads as much of `evidence`, best first, as the question's token limit allows.
    pub(crate) async fn read(&mut self, evidence: &[Evidence]) -> Result<Reading, Error> {
        let evidence = self.within_tokens(evidence);
        self.read_with(&[], evidence).await
    }

    /// Returns the first of `evidence` that fit the question's token limit, at least one.
    pub(crate) fn within_tokens<'e>(&self, evidence: &'e [Evidence]) -> &'e [Evidence] {
        let Some(most) = self.question.evidence_tokens else { return evidence };
        let mut tokens = 0;
        let fits = evidence.iter().take_while(|passage| {
            tokens += self.seams.encoder.token_spans(&passage.text).len();
            tokens <= most
        });
        &evidence[..fits.count().max(1).min(evidence.len())]
    }

    /// Reads evidence together with the points of a working memory.
    pub(crate) async fn read_with(
        &mut self,
        points: &[MemoryPoint],
        evidence: &[Evidence],
    ) -> Result<Reading, Error> {
        let started = Instant::now();
        let reasoner = self.seams.reasoner;
        let Question { text: question, task, asked_at, chat, .. } = self.question;
        let (task, asked_at, reading) = (*task, *asked_at, chat.reading);
        let assignment = Assignment { task, question, asked_at, points, evidence, reading };
        let span = info_span!("step.read", passages = evidence.len());
        let reading = reasoner.read(&assignment, self.deadline()).instrument(span).await?;
        self.cost += reading.cost;
        self.trace(TraceEvent::Read {
            passages: evidence.iter().map(Evidence::place).collect(),
            sentences: reading.sentences,
            took: started.elapsed(),
        });
        Ok(reading)
    }

    /// Returns the answer if `reading` supports it, otherwise the outcome that nothing does.
    pub(crate) fn conclude(self, reading: Reading) -> Answer {
        let is_supported = supports_an_answer(&reading);
        self.trace(TraceEvent::Judged {
            confidence: reading.confidence,
            threshold: reading.threshold,
            rationale: reading.rationale,
        });
        if !is_supported {
            return self.give_up();
        }
        let outcome = if self.shards_missing.is_empty() {
            Outcome::Answered
        } else {
            Outcome::AnsweredWithShardsMissing(self.shards_missing.into_iter().collect())
        };
        self.progress.text(&reading.text);
        Answer { outcome, text: reading.text, citations: reading.citations, cost: self.cost }
    }

    /// Returns the outcome that nothing supports an answer.
    pub(crate) fn give_up(self) -> Answer {
        let outcome = if self.shards_missing.is_empty() {
            Outcome::NotInMemory
        } else {
            Outcome::NotFoundWithShardsMissing(self.shards_missing.into_iter().collect())
        };
        Answer { outcome, text: String::new(), citations: Vec::new(), cost: self.cost }
    }
}

/// Returns whether a reading has an answer with enough support.
pub(crate) fn supports_an_answer(reading: &Reading) -> bool {
    reading.confidence >= reading.threshold && !reading.text.is_empty()
}

/// Returns the cosine of two unit vectors of `[dimension]`.
pub(crate) fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Returns the sort key for the order in the documents.
pub(crate) fn order(passage: &Evidence) -> (&DocumentId, usize) {
    (&passage.document_id, passage.span.start)
}

/// Returns whether two passages share text.
pub(crate) fn overlap(a: &Evidence, b: &Evidence) -> bool {
    let is_one_text = a.document_id == b.document_id && a.version == b.version;
    is_one_text && a.span.start < b.span.end && b.span.start < a.span.end
}

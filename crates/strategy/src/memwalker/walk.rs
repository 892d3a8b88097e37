//! The state that all orders of a walk share: the nodes visited, the segments read and the working
//! memory.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use clew_core::{
    Answer, ChildChoice, DocumentRange, Error, Evidence, Reading, TraceEvent, TreeNode, TreeNodeId,
    Triage,
};

use super::corpus::CorpusLevels;
use super::end::End;
use super::limits::{HINTS, MAX_STEPS};
use super::memory::Memory;
use super::score::{Score, Scorer};
use crate::admitted::Admitted;
use crate::work::{Work, supports_an_answer};

/// Reason for leaving a node that no longer exists.
const GONE: &str = "it is there no more";

/// Walk in progress.
pub(super) struct Walk<'a> {
    work: Work<'a>,
    admitted: Admitted,
    scorer: Scorer,
    memory: Memory,
    /// Nodes whose summaries were shown, so that none is counted as read twice.
    shown: HashSet<TreeNodeId>,
    steps: usize,
    /// Places of the segments that were read, first read first.
    read: Vec<DocumentRange>,
    /// Number of their tokens, counted only if the question limits it.
    tokens: usize,
    /// Time that reading took.
    reading: Duration,
    sentences: usize,
    nodes: usize,
    turns: usize,
    bytes_read: u64,
    bytes_total: u64,
}

/// Node to enter.
pub(super) struct Entry<'a> {
    pub(super) node: &'a TreeNode,
    /// Name of the node that it is entered from; empty at the top.
    pub(super) parent: String,
    pub(super) reason: String,
    pub(super) score: Option<Score>,
}

impl<'a> Walk<'a> {
    pub(super) async fn begin(mut work: Work<'a>) -> Result<Self, Error> {
        let hints = work.query(work.question.text.clone(), HINTS);
        let scorer = Scorer::new(work.search(hints).await?);
        let admitted = Admitted::find(&mut work).await?;
        Ok(Self {
            work,
            admitted,
            scorer,
            memory: Memory::default(),
            shown: HashSet::new(),
            steps: 0,
            read: Vec::new(),
            tokens: 0,
            reading: Duration::ZERO,
            sentences: 0,
            nodes: 0,
            turns: 0,
            bytes_read: 0,
            bytes_total: 0,
        })
    }

    /// Returns the children of the root of the corpus.
    pub(super) async fn tops(&mut self) -> Result<Vec<TreeNode>, Error> {
        let tops = self.work.tops().await?;
        let tops = self.admit(tops);
        self.bytes_total = tops.iter().map(|top| top.bytes).sum();
        let (levels, children) = CorpusLevels::over(tops);
        self.scorer.levels = levels;
        Ok(children)
    }

    /// Enters an inner node. Returns its children that the filter admits. If there are none, turns
    /// back.
    pub(super) async fn enter(&mut self, entry: Entry<'_>) -> Result<Vec<TreeNode>, Error> {
        self.work.check_time("walking the tree")?;
        self.trace_entered(&entry);
        self.memory.carry(&entry.node.summary);
        let children = match self.scorer.levels.children(&entry.node.id) {
            Some(children) => children,
            None => self.work.children(&entry.node.id).await?,
        };
        if children.is_empty() {
            self.turn_back(entry.node, GONE);
            return Ok(children);
        }
        let children = self.admit(children);
        if children.is_empty() {
            self.turn_back(entry.node, "the filter admits nothing below it");
        }
        Ok(children)
    }

    /// Reads a segment. Returns its answer, or turns back and returns `None`.
    pub(super) async fn read(&mut self, entry: Entry<'_>) -> Result<Option<Reading>, Error> {
        self.work.check_time("walking the tree")?;
        let node = entry.node;
        self.trace_entered(&entry);
        let Some(text) = self.work.segment(&node.id).await? else {
            self.turn_back(node, GONE);
            return Ok(None);
        };
        self.bytes_read += text.text.len() as u64;
        self.read_text(node, &text).await
    }

    async fn read_text(
        &mut self,
        node: &TreeNode,
        text: &Evidence,
    ) -> Result<Option<Reading>, Error> {
        self.steps += 1;
        self.read.push(text.place());
        let question = self.work.question;
        if question.evidence_tokens.is_some() {
            self.tokens += self.work.seams.encoder.token_spans(&text.text).len();
        }
        let started = Instant::now();
        let navigator = self.work.seams.navigator;
        let memory = self.memory.texts();
        let leaf = navigator.read_leaf(&question.text, memory, text, question.deadline).await?;
        self.work.spend(leaf.cost);
        self.reading += started.elapsed();
        self.sentences += leaf.answer.as_ref().map_or(0, |reading| reading.sentences);
        let answer = leaf.answer.filter(supports_an_answer);
        self.work.trace(TraceEvent::LeafRead {
            node: node.id.to_string(),
            answers: answer.is_some(),
            reason: leaf.reasoning.clone(),
        });
        if answer.is_none() {
            self.memory.carry(&text.text);
            self.turn_back(node, &leaf.reasoning);
        }
        Ok(answer)
    }

    /// Asks the navigator which of `shown` to enter.
    pub(super) async fn triage(
        &mut self,
        shown: &[&TreeNode],
        may_turn_back: bool,
    ) -> Result<Triage, Error> {
        self.work.check_time("walking the tree")?;
        self.show(shown.iter().copied());
        self.steps += 1;
        let tree = self.work.seams.tree;
        let choice = ChildChoice {
            question: self.work.question.text.clone(),
            memory: self.memory.texts().to_vec(),
            summaries: shown.iter().map(|node| node.summary.clone()).collect(),
            found: shown.iter().map(|node| self.scorer.found(tree, node)).collect(),
            may_turn_back,
        };
        let deadline = self.work.deadline();
        let triage = self.work.seams.navigator.choose_child(&choice, deadline).await?;
        self.work.spend(triage.cost);
        Ok(triage)
    }

    /// Returns the scores of `nodes`, in order.
    pub(super) async fn scores(&mut self, nodes: &[TreeNode]) -> Result<Vec<Score>, Error> {
        self.scorer.scores(&mut self.work, nodes).await
    }

    /// Counts the summaries of `nodes` as read.
    pub(super) fn show<'n>(&mut self, nodes: impl IntoIterator<Item = &'n TreeNode>) {
        for node in nodes {
            if self.shown.insert(node.id.clone()) {
                self.bytes_read += node.summary.len() as u64;
            }
        }
    }

    pub(super) fn turn_back(&mut self, node: &TreeNode, reason: &str) {
        self.turns += 1;
        let (node, reason) = (node.id.to_string(), reason.to_owned());
        self.work.trace(TraceEvent::TurnedBack { node, reason });
    }

    /// Returns the end of the walk if the navigator may not be asked again.
    pub(super) fn spent(&self) -> Option<End> {
        if self.steps >= MAX_STEPS {
            return Some(End::NoAnswer(format!("all {MAX_STEPS} steps are used up")));
        }
        let question = self.work.question;
        if let Some(most) = question.evidence_tokens.filter(|most| self.tokens >= *most) {
            return Some(End::NoAnswer(format!("all {most} tokens that may be read were read")));
        }
        let most = question.k?;
        let why = || End::NoAnswer(format!("all {most} segments that may be read were read"));
        (self.read.len() >= most).then(why)
    }

    pub(super) fn finish(mut self, end: End) -> Answer {
        // The segment read last is the one that answers.
        if matches!(end, End::Answer(_)) {
            self.read.rotate_right(1);
        }
        self.work.trace(TraceEvent::Read {
            passages: std::mem::take(&mut self.read),
            sentences: self.sentences,
            took: self.reading,
        });
        let ended = match &end {
            End::Answer(_) => "a segment answers".to_owned(),
            End::NoAnswer(why) => why.clone(),
        };
        self.work.trace(TraceEvent::Walked {
            nodes: self.nodes,
            turns: self.turns,
            bytes_read: self.bytes_read,
            bytes_total: self.bytes_total,
            ended,
        });
        match end {
            End::Answer(reading) => self.work.conclude(reading),
            End::NoAnswer(_) => self.work.give_up(),
        }
    }

    fn admit(&self, mut nodes: Vec<TreeNode>) -> Vec<TreeNode> {
        nodes.retain(|node| self.admitted.may_be_under(node));
        nodes
    }

    fn trace_entered(&mut self, entry: &Entry<'_>) {
        self.nodes += 1;
        self.work.trace(TraceEvent::Entered {
            node: entry.node.id.to_string(),
            parent: entry.parent.clone(),
            summary: entry.node.summary.clone(),
            reason: entry.reason.clone(),
            score: entry.score.map(|score| score.value),
        });
    }
}

/// Returns whether a node is a segment.
pub(super) fn is_leaf(node: &TreeNode) -> bool {
    node.children == 0
}

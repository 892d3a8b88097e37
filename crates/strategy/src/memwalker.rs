//! `memwalker`, `memwalker-best`, `memwalker-beam`: down a tree of summaries to a segment that
//! answers.

mod beam;
mod best_first;
mod corpus;
mod depth_first;
mod memory;
mod score;
#[cfg(test)]
mod tests;
mod walk;

use async_trait::async_trait;
use clew_core::{Answer, Error, Reading};

use crate::work::Work;
use crate::{Progress, Question, Seams, Strategy};
use walk::Walk;

pub use corpus::MAX_GROUPED;

/// Most calls of the navigator in a walk. Three levels of eight children reach a segment in four
/// calls, so that a walk may turn back several times.
pub const MAX_STEPS: usize = 24;

/// Most children that are shown at a node; of more, those with the best scores.
pub const MAX_SHOWN: usize = 16;

/// Most bytes of what was read on the way that are carried along: about 2,000 tokens, half of the
/// window of the model in the paper.
pub const MEMORY_BYTES: usize = 8000;

/// Nodes of a level that a beam goes through.
pub const BEAM_WIDTH: usize = 3;

/// Most nodes whose children a walk by scores looks at; it asks the navigator at segments only.
pub const MAX_EXPANDED: usize = 64;

/// Passages that a search finds for the question before the walk, as hints of where to go.
const HINTS: usize = 64;

/// The reason of an error that tells that the navigator's reply could not be read.
const UNREADABLE_REPLY: &str = "UNREADABLE_REPLY";

/// Walks a tree of summaries from the top ("Walking Down the Memory Maze", section 3, Navigation).
///
/// The paper's walk goes depth first. At an inner node the navigator sees the summaries of the
/// children not visited yet, and enters one or turns back; at a segment it answers or turns back.
/// Back at the parent, the child it comes from is visited. What was read on the way, summaries of
/// inner nodes and texts of segments in the order in which they were visited, is carried along as
/// working memory, up to [`MEMORY_BYTES`]. A reply that cannot be read three times in a row ends
/// the walk without an answer.
///
/// Two more orders ask the navigator at segments only, and go by a score: half the cosine of
/// question and summary, half how well the best passage that a node covers was found by a search.
/// *Best first* always goes on at the best node not visited yet. A *beam* takes the best
/// [`BEAM_WIDTH`] nodes of each level, and then reads the segments it met, best first.
///
/// Beyond the paper:
/// - One hybrid search for the question comes before the walk; how well what a child covers was
///   found is a hint for the navigator. An extractive navigator has little else to go by.
/// - A node without children that are not visited is left without asking: the paper's prompt has no
///   choice there.
/// - Each shard of a corpus has a tree, whose roots have one root above them; between it and more than [`MAX_GROUPED`]
///   of them there are levels that are made for the question, see `memwalker/corpus.rs`.
/// - [`MAX_STEPS`] bounds the calls of the navigator, and a question's `k` the segments that are
///   read.
/// - What the question's filter excludes is not shown. Of attributes and times the search knows
///   best: there the 200 documents that it finds first are walked.
/// - A node that is there no more counts as visited, without an answer.
#[derive(Clone, Copy, Debug)]
pub struct MemWalker {
    name: &'static str,
    order: Order,
}

#[derive(Clone, Copy, Debug)]
enum Order {
    DepthFirst,
    BestFirst,
    Beam,
}

impl MemWalker {
    /// The walk of the paper.
    pub const DEPTH_FIRST: Self = Self { name: "memwalker", order: Order::DepthFirst };
    /// Always on at the best node.
    pub const BEST_FIRST: Self = Self { name: "memwalker-best", order: Order::BestFirst };
    /// The best nodes of each level.
    pub const BEAM: Self = Self { name: "memwalker-beam", order: Order::Beam };
}

/// How a walk ended.
#[derive(Debug)]
enum End {
    /// At a segment that answers.
    Answer(Reading),
    /// Without an answer, and why.
    NoAnswer(String),
}

impl End {
    fn no_answer(why: impl Into<String>) -> Self {
        Self::NoAnswer(why.into())
    }
}

#[async_trait]
impl Strategy for MemWalker {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn answer(
        &self,
        question: &Question,
        seams: Seams<'_>,
        progress: &dyn Progress,
    ) -> Result<Answer, Error> {
        let mut walk = Walk::begin(Work::new(question, seams, progress)).await?;
        let end = match self.order {
            Order::DepthFirst => depth_first::walk(&mut walk).await,
            Order::BestFirst => best_first::walk(&mut walk).await,
            Order::Beam => beam::walk(&mut walk).await,
        };
        let end = match end {
            Err(error) if error.reason() == UNREADABLE_REPLY => {
                End::no_answer("the navigator's replies could not be read")
            }
            end => end?,
        };
        Ok(walk.finish(end))
    }
}

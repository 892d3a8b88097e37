//! `memwalker`, `memwalker-best`, `memwalker-beam`: walk down a tree of summaries to a segment that
//! answers.

mod beam;
mod best_first;
mod corpus;
mod depth_first;
mod end;
mod limits;
mod memory;
mod score;
#[cfg(test)]
mod tests;
mod walk;

use async_trait::async_trait;
use clew_core::{Answer, Error};

use crate::work::Work;
use crate::{AnswerObserver, Question, Seams, Strategy};
use end::End;
use walk::Walk;

pub use corpus::MAX_GROUPED;
pub use limits::{BEAM_WIDTH, MAX_EXPANDED, MAX_SHOWN, MAX_STEPS, MEMORY_BYTES};

/// Reason in the error for replies of the navigator that could not be read.
const UNREADABLE_REPLY: &str = "UNREADABLE_REPLY";

/// Strategy that walks a tree of summaries from the top ("Walking Down the Memory Maze", section 3,
/// Navigation).
///
/// The paper's walk goes depth first. At an inner node the navigator sees the summaries of the
/// children not visited yet, and enters one or turns back. At a segment it answers or turns back. A
/// child that the walk returns from counts as visited. The walk carries along a working memory of
/// what it has read, up to [`MEMORY_BYTES`]: summaries of inner nodes and texts of segments in the
/// order of visits. If a reply cannot be read three times in a row, the walk ends without an
/// answer.
///
/// Two more orders ask the navigator only at segments, and otherwise go by a score: half the cosine
/// of question and summary, half how well a search found the best passage that the node covers.
/// *Best first* always continues at the best node not visited yet. A *beam* takes the best
/// [`BEAM_WIDTH`] nodes of each level, and then reads the segments it met, best first.
///
/// Additions to the paper:
/// - One hybrid search for the question comes before the walk. How well it found what a child
///   covers is a hint for the navigator. An extractive navigator has little else to go by.
/// - A node without unvisited children is left without asking, since the paper's prompt offers no
///   choice there.
/// - Each shard of a corpus has a tree, and the roots of these trees have one root above them. If
///   there are more than [`MAX_GROUPED`] roots, levels in between are made for the question, see
///   `memwalker/corpus.rs`.
/// - [`MAX_STEPS`] bounds the calls of the navigator, and a question's `k` the segments that are
///   read.
/// - Nodes that the question's filter excludes are not shown. A filter by attributes or time admits
///   the 200 documents that the search finds first.
/// - A node that no longer exists counts as visited, without an answer.
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
    /// Walks as in the paper.
    pub const DEPTH_FIRST: Self = Self { name: "memwalker", order: Order::DepthFirst };
    /// Always continues at the best node.
    pub const BEST_FIRST: Self = Self { name: "memwalker-best", order: Order::BestFirst };
    /// Follows the best nodes of each level.
    pub const BEAM: Self = Self { name: "memwalker-beam", order: Order::Beam };
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
        progress: &dyn AnswerObserver,
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

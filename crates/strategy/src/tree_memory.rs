//! The top of the summary tree as what is known of a corpus at large.

use std::time::Instant;

use async_trait::async_trait;
use clew_core::{
    ClueQuery, Clues, Cost, DraftTask, Error, Evidence, Filter, Memory, Partial, Planner, Task,
    Tree, TreeNode,
};

/// Bytes of the summaries that are read: about 3,000 tokens.
const OUTLINE_BYTES: usize = 12_000;

/// Most queries, most clues, and most key points that are asked for at once: who sees an outline guesses, and guesses the
/// worse the more is asked for.
const MOST_PLANNED: usize = 4;

/// The summaries at the top of a tree, out of which a planner drafts: a model, or rules.
#[derive(Clone, Copy)]
pub struct TreeMemory<'a> {
    /// The tree.
    pub tree: &'a dyn Tree,
    /// Who drafts.
    pub planner: &'a dyn Planner,
}

#[async_trait]
impl Memory for TreeMemory<'_> {
    async fn clues(
        &self,
        query: &ClueQuery,
        near: &[Evidence],
        most: usize,
        deadline: Instant,
    ) -> Result<Partial<(Clues, Cost)>, Error> {
        let ClueQuery { draft: DraftTask { task, question, answers: _ }, filter } = query;
        let outlined = outline(self.tree, question, filter, deadline).await?;
        let Partial { found: outline, shards_missing } = outlined;
        let most = most.min(MOST_PLANNED);
        let found = match task {
            Task::Answer => self.planner.clues(question, &outline, near, most, deadline).await?,
            Task::Summarise => {
                let points = self.planner.key_points(question, &outline, most, deadline).await?;
                (Clues { key_points: points.texts, ..Clues::default() }, points.cost)
            }
        };
        Ok(Partial { found, shards_missing })
    }
}

/// The summaries at the top of the tree, as many as fit.
async fn outline(
    tree: &dyn Tree,
    question: &str,
    filter: &Filter,
    deadline: Instant,
) -> Result<Partial<String>, Error> {
    let tops = tree.tops(question, filter, deadline).await?;
    Ok(tops.map(lines))
}

/// The summaries of nodes, a line each, as many as fit.
fn lines(nodes: Vec<TreeNode>) -> String {
    let mut outline = String::new();
    for node in nodes {
        let line = match node.title.as_str() {
            "" => node.summary,
            title => format!("{title}: {}", node.summary),
        };
        if outline.len() + line.len() >= OUTLINE_BYTES {
            break;
        }
        outline.push_str(&line);
        outline.push('\n');
    }
    outline
}

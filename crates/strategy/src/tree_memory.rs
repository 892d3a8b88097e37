//! The top of the summary tree, used as general knowledge of a corpus.

use std::time::Instant;

use async_trait::async_trait;
use clew_core::{
    ClueQuery, Clues, Cost, DraftTask, Error, Evidence, Filter, Memory, Partial, Planner, Task,
    Tree, TreeNode,
};

/// Maximum number of bytes of the summaries that are read: about 3,000 tokens.
const OUTLINE_BYTES: usize = 12_000;

/// Maximum number of queries, of clues and of key points to ask for at once. A planner that sees
/// only an outline guesses, and guesses worse the more it is asked for.
const MOST_PLANNED: usize = 4;

/// Memory made of the summaries at the top of a tree, from which a planner (a model or rules)
/// drafts.
#[derive(Clone, Copy)]
pub struct TreeMemory<'a> {
    /// Tree with the summaries.
    pub tree: &'a dyn Tree,
    /// Planner that drafts.
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

/// Returns the summaries at the top of the tree, as many as fit.
async fn outline(
    tree: &dyn Tree,
    question: &str,
    filter: &Filter,
    deadline: Instant,
) -> Result<Partial<String>, Error> {
    let tops = tree.tops(question, filter, None, deadline).await?;
    Ok(tops.map(lines))
}

/// Joins the summaries of nodes, one per line, as many as fit.
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

//! The walk that always continues at the best node not visited yet.

use clew_core::{Error, TreeNode};

use super::end::End;
use super::limits::MAX_EXPANDED;
use super::score::Score;
use super::walk::{Entry, Walk, is_leaf};

/// Node that was seen.
pub(super) struct Seen {
    pub(super) node: TreeNode,
    pub(super) parent: String,
    pub(super) score: Score,
}

impl Seen {
    pub(super) fn entry(&self) -> Entry<'_> {
        Entry {
            node: &self.node,
            parent: self.parent.clone(),
            reason: self.score.reason(),
            score: Some(self.score),
        }
    }
}

/// Returns `nodes`, the children of `parent`, with their scores, in order.
pub(super) async fn see(
    walk: &mut Walk<'_>,
    parent: &str,
    nodes: Vec<TreeNode>,
) -> Result<Vec<Seen>, Error> {
    walk.show(&nodes);
    let scores = walk.scores(&nodes).await?;
    let seen = |(node, score)| Seen { node, parent: parent.to_owned(), score };
    Ok(nodes.into_iter().zip(scores).map(seen).collect())
}

/// Sorts the best first; of equal ones, the one seen first.
pub(super) fn sort(seen: &mut [Seen]) {
    seen.sort_by(|a, b| b.score.value.total_cmp(&a.score.value));
}

pub(super) async fn walk(walk: &mut Walk<'_>) -> Result<End, Error> {
    let tops = walk.tops().await?;
    if tops.is_empty() {
        return Ok(End::no_answer("there is nothing to walk"));
    }
    let mut frontier = see(walk, "", tops).await?;
    let mut expanded = 0;
    loop {
        sort(&mut frontier);
        if frontier.is_empty() {
            return Ok(End::no_answer("everything was looked at"));
        }
        let best = frontier.remove(0);
        if is_leaf(&best.node) {
            if let Some(end) = walk.spent() {
                return Ok(end);
            }
            if let Some(answer) = walk.read(best.entry()).await? {
                return Ok(End::Answer(answer));
            }
            continue;
        }
        if expanded == MAX_EXPANDED {
            return Ok(End::NoAnswer(format!("{MAX_EXPANDED} nodes were entered in vain")));
        }
        expanded += 1;
        let children = walk.enter(best.entry()).await?;
        let name = best.node.id.to_string();
        frontier.extend(see(walk, &name, children).await?);
    }
}

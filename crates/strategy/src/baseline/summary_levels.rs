//! `summary-levels`: rank the nodes of all levels of the tree together.

use std::collections::HashSet;

use async_trait::async_trait;
use clew_core::{Answer, Error, Evidence, TextKind, TraceEvent, TreeNode, TreeNodeId};

use super::DEFAULT_K;
use crate::work::{Work, cosine};
use crate::{AnswerObserver, Question, Seams, Strategy};

/// Maximum number of nodes that are loaded.
const MOST_NODES: usize = 512;
/// Maximum number of nodes of a level whose summaries are compared with the question. Where no
/// vector is stored, a comparison embeds a summary.
const MOST_COMPARED: usize = 32;
/// Number of passages that a search finds, to tell which nodes are worth comparing.
const HINTS: usize = 64;

/// Strategy in which nodes of every level compete by the similarity of summary and question.
///
/// It resembles the collapsed tree of RAPTOR ("RAPTOR: Recursive Abstractive Processing for
/// Tree-Organized Retrieval", section 3) but does less. A summary may have no stored vector, so it
/// does not compare all nodes. An answer cites what documents say, so no summary is read. Nodes are
/// loaded from the top, the most similar of a level first, until there are [`MOST_NODES`]. Of each
/// level, the nodes that cover the best passages of a search are compared. A node above segments
/// stands for the best segment below it.
#[derive(Clone, Copy, Debug)]
pub struct SummaryLevels;

#[async_trait]
impl Strategy for SummaryLevels {
    fn name(&self) -> &'static str {
        "summary-levels"
    }

    async fn answer(
        &self,
        question: &Question,
        seams: Seams<'_>,
        progress: &dyn AnswerObserver,
    ) -> Result<Answer, Error> {
        let mut work = Work::new(question, seams, progress);
        let k = question.k.unwrap_or(DEFAULT_K);
        let asked = work.embed(vec![question.text.clone()], TextKind::Query).await?.pop();
        let hints = work.search(work.query(question.text.clone(), HINTS)).await?;
        let asked = Asked { vector: asked.unwrap_or_default(), hints };
        let mut levels = vec![tops(&mut work, &asked).await?];
        let mut count = levels[0].len();
        loop {
            work.check_time("comparing the tree's nodes")?;
            let above = &levels[levels.len() - 1];
            let parents: Vec<Scored> =
                above.iter().filter(|n| n.node.children > 0).cloned().collect();
            let below = children(&mut work, &asked, &parents, MOST_NODES - count).await?;
            if below.is_empty() {
                break;
            }
            count += below.len();
            levels.push(below);
        }
        let evidence = segments(&mut work, levels.concat(), k).await?;
        let reading = work.read(&evidence).await?;
        Ok(work.conclude(reading))
    }
}

/// Question that nodes are compared with.
struct Asked {
    vector: Vec<f32>,
    /// Passages that a search found, best first.
    hints: Vec<Evidence>,
}

#[derive(Clone)]
struct Scored {
    node: TreeNode,
    parent: String,
    score: f32,
}

async fn tops(work: &mut Work<'_>, asked: &Asked) -> Result<Vec<Scored>, Error> {
    let mut tops = work.tops().await?;
    tops.truncate(MOST_NODES);
    scored(work, asked, tops.into_iter().map(|node| (node, String::new())).collect()).await
}

/// Returns the children of `parents`, best parents first, at most `most`.
async fn children(
    work: &mut Work<'_>,
    asked: &Asked,
    parents: &[Scored],
    most: usize,
) -> Result<Vec<Scored>, Error> {
    let mut found = Vec::new();
    for parent in parents {
        if found.len() >= most {
            break;
        }
        let below = work.children(&parent.node.id).await?;
        found.extend(below.into_iter().map(|node| (node, parent.node.id.to_string())));
    }
    found.truncate(most);
    scored(work, asked, found).await
}

/// Returns the nodes that are worth comparing with their similarity, best first.
async fn scored(
    work: &mut Work<'_>,
    asked: &Asked,
    mut nodes: Vec<(TreeNode, String)>,
) -> Result<Vec<Scored>, Error> {
    let tree = work.seams.tree;
    nodes.sort_by_cached_key(|(node, _)| {
        let best = asked.hints.iter().position(|hint| tree.covers(node, hint));
        best.unwrap_or(HINTS)
    });
    nodes.truncate(MOST_COMPARED);
    let summarised: Vec<&TreeNode> = nodes.iter().map(|(node, _)| node).collect();
    let vectors = work.summary_vectors(&summarised).await?;
    let mut scored: Vec<Scored> = nodes
        .into_iter()
        .zip(vectors)
        .map(|((node, parent), vector)| Scored {
            node,
            parent,
            score: cosine(&asked.vector, &vector),
        })
        .collect();
    scored.sort_by(|a, b| b.score.total_cmp(&a.score));
    Ok(scored)
}

/// Returns the segments that the best nodes stand for, at most `k`, best first.
async fn segments(
    work: &mut Work<'_>,
    mut nodes: Vec<Scored>,
    k: usize,
) -> Result<Vec<Evidence>, Error> {
    nodes.sort_by(|a, b| b.score.total_cmp(&a.score));
    let leaves: Vec<&Scored> = nodes.iter().filter(|node| node.node.children == 0).collect();
    let (mut evidence, mut taken) = (Vec::new(), HashSet::new());
    for best in &nodes {
        if evidence.len() == k {
            break;
        }
        let is_below = |leaf: &&&Scored| covers(&best.node, &leaf.node);
        let is_new = |leaf: &&&Scored| !taken.contains(&leaf.node.id);
        let Some(leaf) = leaves.iter().filter(is_below).find(is_new) else { continue };
        taken.insert(leaf.node.id.clone());
        let Some(text) = work.segment(&leaf.node.id).await? else { continue };
        work.trace(TraceEvent::Entered {
            node: best.node.id.to_string(),
            parent: best.parent.clone(),
            summary: best.node.summary.clone(),
            reason: "its summary is among the most similar of all levels".to_owned(),
            score: Some(best.score),
        });
        evidence.push(Evidence { score: best.score, ..text });
    }
    Ok(evidence)
}

/// Returns whether a node is the segment `leaf` or covers it.
fn covers(node: &TreeNode, leaf: &TreeNode) -> bool {
    if node.id == leaf.id {
        return true;
    }
    match (&node.id, &leaf.id) {
        (
            TreeNodeId::Document { document_id, version, .. },
            TreeNodeId::Document { document_id: of, version: of_version, .. },
        ) => {
            let holds = |span: clew_core::Span, part: clew_core::Span| {
                span.start <= part.start && part.end <= span.end
            };
            let is_inside = node.span.zip(leaf.span).is_some_and(|(span, part)| holds(span, part));
            document_id == of && version == of_version && is_inside && node.children > 0
        }
        (TreeNodeId::Upper { .. }, TreeNodeId::Document { document_id, .. }) => {
            let (first, last) = &node.documents;
            (first..=last).contains(&document_id)
        }
        (_, TreeNodeId::Upper { .. }) => false,
    }
}

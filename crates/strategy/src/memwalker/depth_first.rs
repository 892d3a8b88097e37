//! The walk of the paper: down into the child that the navigator chooses, and back.

use clew_core::{Error, TreeNode, TriageStep};

use super::end::End;
use super::limits::MAX_SHOWN;
use super::score::Score;
use super::walk::{Entry, Walk, is_leaf};

/// Node on the path with its children. The first place on the path stands above the tops.
struct Place {
    /// Node, or `None` above the tops.
    node: Option<TreeNode>,
    children: Vec<TreeNode>,
    /// Whether each child was visited.
    is_visited: Vec<bool>,
    /// Score of each child, if there were too many to show them all.
    scores: Option<Vec<Score>>,
}

/// Child to enter next, and the reason.
struct Step {
    child: usize,
    reason: String,
}

impl Place {
    fn new(node: Option<TreeNode>, children: Vec<TreeNode>) -> Self {
        let is_visited = vec![false; children.len()];
        Self { node, children, is_visited, scores: None }
    }

    fn unvisited(&self) -> Vec<usize> {
        (0..self.children.len()).filter(|&child| !self.is_visited[child]).collect()
    }

    fn name(&self) -> String {
        self.node.as_ref().map(|node| node.id.to_string()).unwrap_or_default()
    }
}

pub(super) async fn walk(walk: &mut Walk<'_>) -> Result<End, Error> {
    let tops = walk.tops().await?;
    if tops.is_empty() {
        return Ok(End::no_answer("there is nothing to walk"));
    }
    let mut path = vec![Place::new(None, tops)];
    while let Some(mut place) = path.pop() {
        let unvisited = place.unvisited();
        if unvisited.is_empty() {
            leave(walk, &place, "everything below it was looked at");
            continue;
        }
        let may_turn_back = path.iter().any(|above| !above.unvisited().is_empty());
        let step = if place.node.is_none() && place.children.len() == 1 {
            walk.show(&place.children);
            Step { child: 0, reason: "it covers everything".to_owned() }
        } else {
            if let Some(end) = walk.spent() {
                return Ok(end);
            }
            match choose(walk, &mut place, &unvisited, may_turn_back).await? {
                Ok(step) => step,
                Err(reason) => {
                    leave(walk, &place, &reason);
                    if !may_turn_back {
                        return Ok(End::NoAnswer(format!("turned back at the top: {reason}")));
                    }
                    continue;
                }
            }
        };
        place.is_visited[step.child] = true;
        let child = place.children[step.child].clone();
        let score = place.scores.as_ref().map(|scores| scores[step.child]);
        let entry = Entry { node: &child, parent: place.name(), reason: step.reason, score };
        path.push(place);
        if !is_leaf(&child) {
            let children = walk.enter(entry).await?;
            if !children.is_empty() {
                path.push(Place::new(Some(child), children));
            }
            continue;
        }
        if let Some(end) = walk.spent() {
            return Ok(end);
        }
        if let Some(answer) = walk.read(entry).await? {
            return Ok(End::Answer(answer));
        }
    }
    Ok(End::no_answer("everything was looked at"))
}

/// Asks where to continue among `unvisited` children. The inner error is the reason to turn back.
async fn choose(
    walk: &mut Walk<'_>,
    place: &mut Place,
    unvisited: &[usize],
    may_turn_back: bool,
) -> Result<Result<Step, String>, Error> {
    let shown = shown(walk, place, unvisited).await?;
    let nodes: Vec<&TreeNode> = shown.iter().map(|&child| &place.children[child]).collect();
    let triage = walk.triage(&nodes, may_turn_back).await?;
    let TriageStep::Enter(choice) = triage.step else { return Ok(Err(triage.reasoning)) };
    let child = *shown
        .get(choice)
        .ok_or_else(|| Error::internal("the navigator chose a child that was not shown to it"))?;
    Ok(Ok(Step { child, reason: triage.reasoning }))
}

/// Returns the children to show: all unvisited ones, or the best of them, in their order in the
/// text.
async fn shown(
    walk: &mut Walk<'_>,
    place: &mut Place,
    unvisited: &[usize],
) -> Result<Vec<usize>, Error> {
    let mut shown = unvisited.to_vec();
    if shown.len() <= MAX_SHOWN {
        return Ok(shown);
    }
    if place.scores.is_none() {
        place.scores = Some(walk.scores(&place.children).await?);
    }
    if let Some(scores) = &place.scores {
        shown.sort_by(|&a, &b| scores[b].value.total_cmp(&scores[a].value));
    }
    shown.truncate(MAX_SHOWN);
    shown.sort_unstable();
    Ok(shown)
}

fn leave(walk: &mut Walk<'_>, place: &Place, reason: &str) {
    if let Some(node) = &place.node {
        walk.turn_back(node, reason);
    }
}

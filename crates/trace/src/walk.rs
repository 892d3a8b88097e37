//! The part of a tree that a walk visited.

use std::collections::BTreeMap;

use crate::step::TraceStep;

/// A visit to a node.
#[derive(Debug, Default)]
pub(crate) struct Visit<'t> {
    /// Position in the order of entering, from 1. `None` if the trace does not contain the
    /// entering.
    pub(crate) order: Option<usize>,
    pub(crate) node: &'t str,
    pub(crate) summary: &'t str,
    /// Reason for entering it.
    pub(crate) reason: &'t str,
    pub(crate) score: Option<f32>,
    /// The visit from which it was entered, which is always an earlier one.
    pub(crate) parent: Option<usize>,
    pub(crate) children: Vec<usize>,
    /// Reason for turning back, if the walk did.
    pub(crate) back: Option<&'t str>,
    /// Whether its text answers, and the reason, if it was read.
    pub(crate) leaf: Option<(bool, &'t str)>,
    /// Whether it lies on a path to a leaf that answers.
    pub(crate) is_on_path: bool,
}

impl Visit<'_> {
    pub(crate) fn answers(&self) -> bool {
        matches!(self.leaf, Some((true, _)))
    }

    /// Returns the reason for turning back, unless it was already given where the leaf was read.
    pub(crate) fn back_reason(&self) -> Option<&str> {
        let told = self.leaf.map(|(_, reason)| reason);
        self.back.filter(|back| told != Some(back))
    }
}

/// Returns whether `step` is part of a walk.
pub(crate) fn is_of_walk(step: &TraceStep) -> bool {
    matches!(
        step,
        TraceStep::Entered { .. } | TraceStep::TurnedBack { .. } | TraceStep::LeafRead { .. }
    )
}

/// Returns the visits in the order in which they were made.
pub(crate) fn visits(steps: &[TraceStep]) -> Vec<Visit<'_>> {
    let mut visits: Vec<Visit<'_>> = Vec::new();
    let mut latest: BTreeMap<&str, usize> = BTreeMap::new();
    let mut entered = 0;
    for step in steps {
        match step {
            TraceStep::Entered { node, parent, summary, reason, score } => {
                entered += 1;
                let parent = latest.get(parent.as_str()).copied();
                if let Some(parent) = parent {
                    let child = visits.len();
                    visits[parent].children.push(child);
                }
                latest.insert(node, visits.len());
                let (order, score) = (Some(entered), *score);
                visits.push(Visit {
                    order,
                    node,
                    summary,
                    reason,
                    score,
                    parent,
                    ..Visit::default()
                });
            }
            TraceStep::TurnedBack { node, reason } => {
                let at = visit_to(node, &mut visits, &mut latest);
                visits[at].back = Some(reason);
            }
            TraceStep::LeafRead { node, answers, reason } => {
                let at = visit_to(node, &mut visits, &mut latest);
                visits[at].leaf = Some((*answers, reason));
            }
            _ => {}
        }
    }
    for at in (0..visits.len()).rev() {
        if visits[at].answers() {
            visits[at].is_on_path = true;
        }
        if let (true, Some(parent)) = (visits[at].is_on_path, visits[at].parent) {
            visits[parent].is_on_path = true;
        }
    }
    visits
}

fn visit_to<'t>(
    node: &'t str,
    visits: &mut Vec<Visit<'t>>,
    latest: &mut BTreeMap<&'t str, usize>,
) -> usize {
    *latest.entry(node).or_insert_with(|| {
        visits.push(Visit { node, ..Visit::default() });
        visits.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entered(node: &str, parent: &str) -> TraceStep {
        TraceStep::Entered {
            node: node.to_owned(),
            parent: parent.to_owned(),
            summary: String::new(),
            reason: String::new(),
            score: None,
        }
    }

    #[test]
    fn a_visit_hangs_below_the_latest_to_its_parent() {
        let steps = [entered("a", ""), entered("a", "a"), entered("b", "a"), entered("c", "x")];
        let visits = visits(&steps);
        let parents: Vec<_> = visits.iter().map(|visit| visit.parent).collect();
        assert_eq!(parents, [None, Some(0), Some(1), None]);
    }

    #[test]
    fn the_path_leads_to_the_leaf_that_answers() {
        let leaf =
            TraceStep::LeafRead { node: "c".to_owned(), answers: true, reason: String::new() };
        let steps = [entered("a", ""), entered("b", "a"), entered("c", "a"), leaf];
        let on_path: Vec<_> = visits(&steps).iter().map(|visit| visit.is_on_path).collect();
        assert_eq!(on_path, [true, false, true]);
    }

    #[test]
    fn a_node_whose_entering_was_not_told_is_shown() {
        let steps = [TraceStep::TurnedBack { node: "a".to_owned(), reason: "r".to_owned() }];
        let visits = visits(&steps);
        assert_eq!((visits[0].node, visits[0].order, visits[0].back), ("a", None, Some("r")));
    }
}

//! Route of a graph navigation: the entities that it reached and the edges that it followed.

use std::collections::BTreeMap;

use crate::step::TraceStep;

/// An entity on the route.
#[derive(Debug, PartialEq)]
pub(crate) struct Stop<'t> {
    pub(crate) name: &'t str,
    /// Whether it was taken up without an edge that leads to it.
    pub(crate) is_chosen: bool,
    /// Column in the figure, counted from the left: one after the stop it was reached from, or
    /// after all columns in use when it was taken up.
    pub(crate) column: usize,
    /// The hop that led to it, and the stop it came from.
    pub(crate) by: Option<(usize, usize)>,
    pub(crate) children: Vec<usize>,
}

/// An edge that was followed.
#[derive(Debug, PartialEq)]
pub(crate) struct Hop<'t> {
    /// The stops where it begins and ends.
    pub(crate) head: usize,
    pub(crate) tail: usize,
    pub(crate) relation: &'t str,
    pub(crate) score: f32,
    /// Subject that the navigation was looking for.
    pub(crate) reason: &'t str,
    /// Whether it led to an entity that was not on the route before.
    pub(crate) is_new: bool,
}

/// The stops and hops of a navigation, each in the order of the steps.
#[derive(Debug, Default)]
pub(crate) struct Route<'t> {
    pub(crate) stops: Vec<Stop<'t>>,
    pub(crate) hops: Vec<Hop<'t>>,
    at: BTreeMap<&'t str, usize>,
}

/// Returns whether `step` belongs to a navigation.
pub(crate) fn is_of_route(step: &TraceStep) -> bool {
    matches!(step, TraceStep::EntitiesChosen { .. } | TraceStep::EdgeFollowed { .. })
}

impl<'t> Route<'t> {
    pub(crate) fn of(steps: &'t [TraceStep]) -> Self {
        let mut route = Self::default();
        for step in steps {
            match step {
                TraceStep::EntitiesChosen { entities, .. } => {
                    let column = route.stops.iter().map(|stop| stop.column + 1).max();
                    for name in entities {
                        let at = route.stop(name, column.unwrap_or(0));
                        route.stops[at].is_chosen = true;
                    }
                }
                TraceStep::EdgeFollowed { head, relation, tail, to, score, reason } => {
                    let leads_to_head = to == head && to != tail;
                    let (from, to) = if leads_to_head { (tail, head) } else { (head, tail) };
                    let from = route.stop(from, 0);
                    let before = route.stops.len();
                    let to = route.stop(to, route.stops[from].column + 1);
                    let is_new = route.stops.len() > before;
                    if is_new {
                        route.stops[to].by = Some((route.hops.len(), from));
                        route.stops[from].children.push(to);
                    }
                    let (head, tail) = if leads_to_head { (to, from) } else { (from, to) };
                    route.hops.push(Hop { head, tail, relation, score: *score, reason, is_new });
                }
                _ => {}
            }
        }
        route
    }

    fn stop(&mut self, name: &'t str, column: usize) -> usize {
        if let Some(at) = self.at.get(name) {
            return *at;
        }
        self.at.insert(name, self.stops.len());
        let (is_chosen, by, children) = (false, None, Vec::new());
        self.stops.push(Stop { name, is_chosen, column, by, children });
        self.stops.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn followed(head: &str, tail: &str, to: &str) -> TraceStep {
        TraceStep::EdgeFollowed {
            head: head.to_owned(),
            relation: "r".to_owned(),
            tail: tail.to_owned(),
            to: to.to_owned(),
            score: 0.5,
            reason: String::new(),
        }
    }

    #[test]
    fn each_entity_stands_behind_the_one_it_was_reached_from() {
        let chosen =
            TraceStep::EntitiesChosen { entities: vec!["a".to_owned()], reason: String::new() };
        // The second edge is followed against its direction, the third leads to nothing new.
        let steps =
            [chosen, followed("a", "b", "b"), followed("c", "b", "c"), followed("a", "c", "c")];
        let route = Route::of(&steps);
        let stops: Vec<_> = route.stops.iter().map(|s| (s.name, s.column, s.by)).collect();
        assert_eq!(stops, [("a", 0, None), ("b", 1, Some((0, 0))), ("c", 2, Some((1, 1)))]);
        let hops: Vec<_> = route.hops.iter().map(|h| (h.head, h.tail, h.is_new)).collect();
        assert_eq!(hops, [(0, 1, true), (2, 1, true), (0, 2, false)]);
    }
}

//! Conversion of the working memory of a question to the form that its figure needs.

use std::collections::BTreeSet;

use clew_core::{EntityKey, SegmentId, Version};
use clew_hypergraph::{Changes, PointId, PointMerge, StepState, Vertex};

use crate::step::{TracePoint, TracePointFate, TraceStep};

/// Returns whether `step` belongs to a working memory.
pub(crate) fn is_of_memory(step: &TraceStep) -> bool {
    matches!(step, TraceStep::Evolved { .. })
}

/// Returns the memory at the end of each of its steps.
pub(crate) fn snapshots(steps: &[TraceStep]) -> Vec<StepState> {
    let mut snapshots: Vec<StepState> = Vec::new();
    let mut ever_brought = BTreeSet::new();
    for step in steps {
        let TraceStep::Evolved { number, points, brought } = step else { continue };
        ever_brought.extend(brought);
        let before = snapshots.last().map_or(0.0, |last| last.changes.entities_per_point);
        let mut snapshot = snapshot(*number, points, brought, before);
        for vertex in snapshot.vertices.values_mut() {
            vertex.is_inserted = ever_brought.contains(&vertex.name);
        }
        snapshots.push(snapshot);
    }
    snapshots
}

fn snapshot(step: u32, points: &[TracePoint], brought: &[String], before: f64) -> StepState {
    let numbers = |fate: TracePointFate| {
        let of_fate = points.iter().filter(move |point| point.fate == fate);
        of_fate.map(|point| PointId(point.number))
    };
    let merging = |point: &TracePoint| PointMerge {
        from: point.merged_from.iter().map(|number| PointId(*number)).collect(),
        into: PointId(point.number),
    };
    let entities: usize = points.iter().map(|point| point.entities.len()).sum();
    let changes = Changes {
        step,
        updated: numbers(TracePointFate::Updated).collect(),
        inserted: numbers(TracePointFate::Inserted).collect(),
        merged: points
            .iter()
            .filter(|point| point.fate == TracePointFate::Merged)
            .map(merging)
            .collect(),
        entities_inserted: brought.iter().map(|name| EntityKey(name.clone())).collect(),
        entities_per_point_before: before,
        entities_per_point: entities as f64 / points.len().max(1) as f64,
    };
    let names: BTreeSet<&String> = points.iter().flat_map(|point| &point.entities).collect();
    let vertex =
        |name: &String| Vertex { name: name.clone(), segments: Vec::new(), is_inserted: false };
    StepState {
        changes,
        points: points.iter().map(drawn).collect(),
        vertices: names.into_iter().map(|name| (EntityKey(name.clone()), vertex(name))).collect(),
    }
}

fn drawn(point: &TracePoint) -> clew_hypergraph::Point {
    clew_hypergraph::Point {
        id: PointId(point.number),
        description: point.text.clone(),
        entities: point.entities.iter().map(|name| EntityKey(name.clone())).collect(),
        segments: point.segments.iter().filter_map(|name| segment(name)).collect(),
        step: 0,
        merged_from: point.merged_from.iter().map(|number| PointId(*number)).collect(),
    }
}

/// Returns the segment with this name in traces, such as `book.txt#3`. Its version is unknown.
fn segment(name: &str) -> Option<SegmentId> {
    let (document, ordinal) = name.rsplit_once('#')?;
    let (document_id, ordinal) = (document.parse().ok()?, ordinal.parse().ok()?);
    Some(SegmentId { document_id, version: Version(0), ordinal })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_step_did_is_told_by_its_points() {
        let point = |number, fate, entities: &[&str]| TracePoint {
            number,
            fate,
            entities: entities.iter().map(|name| (*name).to_owned()).collect(),
            segments: vec!["a#b#3".to_owned(), "nonsense".to_owned()],
            ..TracePoint::default()
        };
        let first = TraceStep::Evolved {
            number: 0,
            points: vec![point(1, TracePointFate::Inserted, &["A", "B"])],
            brought: vec!["B".to_owned()],
        };
        let merged = TracePoint {
            merged_from: vec![1, 2],
            ..point(3, TracePointFate::Merged, &["A", "B", "C"])
        };
        let second = TraceStep::Evolved { number: 1, points: vec![merged], brought: Vec::new() };
        let [one, two] = &*snapshots(&[first, second]) else { panic!("two steps") };
        assert_eq!(one.changes.inserted.len(), 1);
        for memory in [one, two] {
            assert!(memory.vertices[&EntityKey("B".to_owned())].is_inserted);
            assert!(!memory.vertices[&EntityKey("A".to_owned())].is_inserted);
        }
        assert_eq!(one.points[0].segments.len(), 1);
        let per_point = (two.changes.entities_per_point_before, two.changes.entities_per_point);
        assert_eq!(per_point, (2.0, 3.0));
        assert_eq!(two.changes.merged[0].from, BTreeSet::from([PointId(1), PointId(2)]));
    }
}

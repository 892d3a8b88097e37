//! Memory of a question, and the operations on it.

use std::collections::{BTreeMap, BTreeSet};

use clew_core::{EntityKey, EntityNode, SegmentId, Subgraph};

use crate::changes::{Changes, PointMerge};
use crate::error::Error;
use crate::limit::Limit;
use crate::point::{Point, PointEntity, PointId};
use crate::view::{SeenGraph, neighbours_in};

/// Memory M of one question: points (hyperedges) over the entities (vertices) of the question's
/// view of the graph (equation 3).
///
/// ```
/// use clew_core::{EntityKey, SegmentId, Version};
/// use clew_hypergraph::{Hypergraph, PointEntity};
///
/// let named = |name: &str| PointEntity {
///     key: EntityKey(name.to_lowercase()),
///     name: name.to_owned(),
/// };
/// let segment = |ordinal| SegmentId {
///     document_id: "letters".parse().expect("a valid id"),
///     version: Version(1),
///     ordinal,
/// };
/// let mut memory = Hypergraph::default();
/// let met = memory.insert("Ada met Charles.", &[named("Ada"), named("Charles")], [segment(3)])?;
/// memory.next_step();
/// let built =
///     memory.insert("Charles built it.", &[named("Charles"), named("Engine")], [segment(8)])?;
/// let both = memory.merge(&[met, built], "Ada met Charles, who built the engine.")?;
/// assert_eq!(memory.point(both)?.segments.len(), 2);
/// let line = "P3 [Ada; Charles; Engine]: Ada met Charles, who built the engine.\n";
/// assert_eq!(memory.text(), line);
/// # Ok::<(), clew_hypergraph::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hypergraph {
    view: SeenGraph,
    points: BTreeMap<PointId, Point>,
    /// Points that were merged, each with the point that it became part of at that time.
    merged: BTreeMap<PointId, PointId>,
    changes: Changes,
}

impl Hypergraph {
    /// Begins the next step, which has no changes yet. The first step is 0 and begins by itself.
    pub fn next_step(&mut self) {
        let now = self.changes.entities_per_point;
        self.changes = Changes {
            step: self.changes.step.saturating_add(1),
            entities_per_point_before: now,
            entities_per_point: now,
            ..Changes::default()
        };
    }

    /// Returns the changes of the step so far.
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Returns the graph as the question knows it.
    pub fn view(&self) -> &SeenGraph {
        &self.view
    }

    /// Adds a retrieved part of the graph to the view.
    ///
    /// # Errors
    /// Returns [`Error::TooMany`] if the view would hold too many entities or relations.
    pub fn learn(&mut self, part: &Subgraph) -> Result<(), Error> {
        self.view.learn(part)
    }

    /// Returns the points, by number.
    pub fn points(&self) -> impl ExactSizeIterator<Item = &Point> {
        self.points.values()
    }

    /// Returns a point.
    ///
    /// # Errors
    /// Returns [`Error::UnknownPoint`] if the point never existed, and [`Error::Merged`] with the
    /// point that it is part of now if it was merged.
    pub fn point(&self, id: PointId) -> Result<&Point, Error> {
        let point = self.points.get(&id);
        point.ok_or_else(|| match self.current(id) {
            Some(into) => Error::Merged { point: id, into },
            None => Error::UnknownPoint(id),
        })
    }

    /// Returns the point itself, or the point that it is part of now, or `None` if it never
    /// existed.
    pub fn current(&self, id: PointId) -> Option<PointId> {
        let mut current = id;
        // Terminates, because points are merged into younger ones only.
        while let Some(into) = self.merged.get(&current) {
            current = *into;
        }
        self.points.contains_key(&current).then_some(current)
    }

    /// Returns the vertices: the entities of the points, by key.
    pub fn vertices(&self) -> impl Iterator<Item = &EntityNode> {
        let keys: BTreeSet<&EntityKey> =
            self.points.values().flat_map(|point| &point.entities).collect();
        keys.into_iter().filter_map(|key| self.view.entity(key))
    }

    /// Returns the segments of the points, and those of their entities. An answer is written from
    /// these and the descriptions (section 3.6).
    pub fn segments(&self) -> BTreeSet<SegmentId> {
        let of_points = self.points.values().flat_map(|point| &point.segments);
        let of_vertices = self.vertices().flat_map(|vertex| &vertex.segments);
        of_points.chain(of_vertices).cloned().collect()
    }

    /// Returns whether an entity is in C(M) of equation 7, the scope of global exploration: every
    /// entity that is not a vertex of the memory, in the view or not.
    pub fn is_outside(&self, entity: &EntityKey) -> bool {
        !self.points.values().any(|point| point.entities.contains(entity))
    }

    /// Returns N(V) of a point (equation 6), the scope of local investigation: the neighbours of
    /// any of its entities, by a common point in the memory or by a relation in the view.
    ///
    /// No entity is its own neighbour. But each entity of a point is a neighbour of the others, and
    /// there are at least two. So by the letter of the equation the anchors are always part of the
    /// result.
    ///
    /// # Errors
    /// Returns the errors of [`Self::point`].
    pub fn neighbourhood(&self, id: PointId) -> Result<BTreeSet<EntityKey>, Error> {
        let anchors = &self.point(id)?.entities;
        let mut neighbours = self.view.neighbours(anchors);
        neighbours.extend(self.neighbours(anchors));
        Ok(neighbours)
    }

    /// Returns N_M of equation 6: the entities that share a point with any of `entities`. An entity
    /// is not its own neighbour, but may be that of another of `entities`.
    pub fn neighbours(&self, entities: &BTreeSet<EntityKey>) -> BTreeSet<EntityKey> {
        let points = self.points.values();
        points.flat_map(|point| neighbours_in(&point.entities, entities)).collect()
    }

    /// Revises the description of a point; its entities stay as they are (section 3.5, "Update").
    /// `segments` are those of the revision, which are added to the point's; there may be none.
    ///
    /// # Errors
    /// Returns the errors of [`Self::point`], [`Error::NoDescription`] if the description is blank,
    /// and [`Error::TooMany`] if a limit is exceeded.
    pub fn update(
        &mut self,
        id: PointId,
        description: &str,
        segments: impl IntoIterator<Item = SegmentId>,
    ) -> Result<(), Error> {
        let point = self.point(id)?;
        let description = checked_description(description)?;
        let segments: BTreeSet<SegmentId> =
            point.segments.iter().cloned().chain(segments).collect();
        Limit::Segments.check(segments.len())?;
        let Some(point) = self.points.get_mut(&id) else { return Err(Error::UnknownPoint(id)) };
        if point.description != description || point.segments != segments {
            description.clone_into(&mut point.description);
            point.segments = segments;
            self.changes.updated.insert(id);
        }
        Ok(())
    }

    /// Adds a point (section 3.5, "Insertion"). An entity that the view does not know is inserted
    /// into it, tied to the others of the point (section 3.3, footnote 3). If the view knows the
    /// entity, its name here is ignored. `segments` are those that the description came from.
    ///
    /// # Errors
    /// Returns [`Error::TooFewEntities`] if there are fewer than two entities with different keys,
    /// [`Error::NoDescription`], [`Error::NoName`] or [`Error::NoSegments`] if something is blank
    /// or missing, and [`Error::TooMany`] if a limit is exceeded.
    pub fn insert(
        &mut self,
        description: &str,
        entities: &[PointEntity],
        segments: impl IntoIterator<Item = SegmentId>,
    ) -> Result<PointId, Error> {
        let description = checked_description(description)?;
        for (at, PointEntity { key, name }) in entities.iter().enumerate() {
            if key.0.trim().is_empty() || name.trim().is_empty() {
                return Err(Error::NoName { at });
            }
            Limit::NameBytes.check(name.len().max(key.0.len()))?;
        }
        // The first name of a key counts.
        let named: BTreeMap<&EntityKey, &PointEntity> =
            entities.iter().rev().map(|entity| (&entity.key, entity)).collect();
        if named.len() < 2 {
            return Err(Error::TooFewEntities { got: named.len() });
        }
        let segments: BTreeSet<SegmentId> = segments.into_iter().collect();
        if segments.is_empty() {
            return Err(Error::NoSegments);
        }
        let point = Point {
            id: self.next_id(),
            description: description.to_owned(),
            entities: named.keys().map(|key| (*key).clone()).collect(),
            segments,
            step: self.changes.step,
            merged_from: BTreeSet::new(),
        };
        self.check(&point)?;
        let brought = self.view.tell(&named, description, &point.segments)?;
        self.changes.entities_inserted.extend(brought);
        self.changes.inserted.insert(point.id);
        Ok(self.add(point))
    }

    /// Merges two or more points into a new one (section 3.5, "Merging"), which has all their
    /// entities (equation 8) and all their segments. The points themselves no longer exist.
    ///
    /// # Errors
    /// Returns [`Error::TooFewPoints`] if there are fewer than two different points, the errors of
    /// [`Self::point`], [`Error::NoDescription`] if the description is blank, and
    /// [`Error::TooMany`] if a limit is exceeded.
    pub fn merge(&mut self, ids: &[PointId], description: &str) -> Result<PointId, Error> {
        let description = checked_description(description)?;
        let from: BTreeSet<PointId> = ids.iter().copied().collect();
        if from.len() < 2 {
            return Err(Error::TooFewPoints { got: from.len() });
        }
        let (mut entities, mut segments) = (BTreeSet::new(), BTreeSet::new());
        for id in &from {
            let point = self.point(*id)?;
            entities.extend(point.entities.iter().cloned());
            segments.extend(point.segments.iter().cloned());
        }
        let point = Point {
            id: self.next_id(),
            description: description.to_owned(),
            entities,
            segments,
            step: self.changes.step,
            merged_from: from.clone(),
        };
        self.check(&point)?;
        for id in &from {
            self.points.remove(id);
            self.merged.insert(*id, point.id);
        }
        self.changes.merged.push(PointMerge { from, into: point.id });
        Ok(self.add(point))
    }

    /// Returns the number of points ever made.
    fn made(&self) -> usize {
        self.points.len() + self.merged.len()
    }

    fn next_id(&self) -> PointId {
        PointId(u32::try_from(self.made()).map_or(u32::MAX, |made| made.saturating_add(1)))
    }

    /// Refuses a new point that exceeds a limit.
    fn check(&self, point: &Point) -> Result<(), Error> {
        Limit::Entities.check(point.entities.len())?;
        Limit::Segments.check(point.segments.len())?;
        Limit::Points.check(self.points.len() + 1 - point.merged_from.len())?;
        Limit::PointsMade.check(self.made() + 1)
    }

    /// Adds a point that was checked.
    fn add(&mut self, point: Point) -> PointId {
        let id = point.id;
        self.points.insert(id, point);
        let entities: usize = self.points.values().map(|point| point.entities.len()).sum();
        self.changes.entities_per_point = entities as f64 / self.points.len() as f64;
        id
    }
}

/// Returns a description without the white space around it, or refuses it.
fn checked_description(description: &str) -> Result<&str, Error> {
    let description = description.trim();
    if description.is_empty() {
        return Err(Error::NoDescription);
    }
    Limit::DescriptionBytes.check(description.len())?;
    Ok(description)
}

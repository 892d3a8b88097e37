//! Ranks rows by the cosine similarity of their vectors.

use std::sync::Arc;

use arrow::datatypes::{Float32Type, UInt64Type};
use clew_vectors::Direction;
use futures::{TryFutureExt, TryStreamExt};
use lancedb::DistanceType;
use lancedb::datafusion::prelude::Expr;
use lancedb::query::{ExecutableQuery, QueryBase, Select};

use crate::error::{Error, Operation, Result};
use crate::read::resident::fragment::{Fragment, ResidentDirections};
use crate::read::resident::masks::Allowed;
use crate::read::resident::{parts, row_at};
use crate::read::search::{Ranked, Search};
use crate::read::table_view::vector_index::NearestIndex;
use crate::table::engine::{failed, in_background, run};
use crate::table::filter;
use crate::table::kind::TableKind;
use crate::table::rows::Rows;
use crate::table::rows::owned::ROW;
use crate::table::vectors::StoredVectors;
use crate::values::vector::is_direction;

/// Number of partitions of the vector index that a search reads if vectors are not in memory.
const PROBES: usize = 20;
/// Number of candidates that are compared by their full vectors, for each one wanted. The index
/// ranks so exactly that more of them find nothing new.
const REFINE: usize = 2;
/// Least number of such candidates. Among few, the index errs more.
const FEWEST_REFINED: usize = 50;

const DISTANCE: &str = "_distance";

pub(super) type ResidentRows = Vec<(Arc<Fragment>, Arc<ResidentDirections>)>;

/// Vector of a query.
#[derive(Clone, Debug)]
pub(super) struct Question {
    /// Scaled to length one.
    pub unit: Vec<f32>,
    pub direction: Direction,
}

impl Question {
    /// Returns `None` if the vector has no direction.
    pub(super) fn of(vector: &[f32]) -> Option<Self> {
        Some(Self { unit: unit(vector), direction: Direction::of(vector)? })
    }
}

impl<'a> Search<'a> {
    /// Ranks the rows that the query's vector is compared with.
    pub(super) async fn dense(&self) -> Result<Vec<Ranked<'a>>> {
        let Some(vectors) = self.snapshot.vectors.of(&self.query.encoder) else {
            return Err(Error::OtherVectors);
        };
        let dimension = vectors.dimension;
        let vector = match self.query.vector.as_deref() {
            Some(vector) if vector.len() == dimension && is_direction(vector) => vector,
            Some(vector) => {
                return Err(Error::invalid(
                    "query.vector",
                    format!(
                        "expected {dimension} finite numbers, not all zero, got {}",
                        vector.len()
                    ),
                ));
            }
            None => return Err(Error::invalid("query.vector", "expected one for this mode")),
        };
        match Question::of(vector) {
            Some(question) if !self.query.exact => self.nearest(vector, question, vectors).await,
            _ => self.nearest_in_files(vector, &vectors.name).await,
        }
    }

    async fn nearest(
        &self,
        vector: &[f32],
        question: Question,
        vectors: &StoredVectors,
    ) -> Result<Vec<Ranked<'a>>> {
        let table = &self.snapshot.chunk_rows;
        let (index, allowed) =
            tokio::try_join!(table.nearest(&vectors.name), self.allowed_chunks())?;
        let resident = match table.directions(&vectors.name).await? {
            Some(resident) => resident,
            None => {
                // Without an index all vectors are read anyway.
                let is_little = index.is_none()
                    || table.unread_rows(&vectors.name).await? <= self.snapshot.compared;
                if !(is_little && table.read_directions(vectors).await?) {
                    table.want_upkeep();
                    return self.nearest_in_files(vector, &vectors.name).await;
                }
                table.directions(&vectors.name).await?.unwrap_or_default()
            }
        };
        let resident = Arc::new(resident);
        let rows = self.fragments.rows();
        match index {
            Some(index) if allowed.count(rows) > self.snapshot.compared => {
                let probes = table.probes(&vectors.name, &index, &question.unit, rows);
                self.nearest_proposed(&index, &question, &resident, allowed, probes).await
            }
            _ => {
                let all = |_| true;
                let found = compare_all(&resident, &question.direction, allowed, all).await;
                Ok(self.best(found))
            }
        }
    }

    /// Ranks the rows that the index proposes from the nearest `probes` partitions, and all rows
    /// that it does not cover. Reads more partitions if too few of the rows are visible.
    pub(super) async fn nearest_proposed(
        &self,
        index: &Arc<NearestIndex>,
        Question { unit, direction }: &Question,
        resident: &Arc<ResidentRows>,
        allowed: &Allowed,
        mut probes: usize,
    ) -> Result<Vec<Ranked<'a>>> {
        let covering = Arc::clone(index);
        let fresh = compare_all(resident, direction, allowed, move |id| !covering.covers(id)).await;
        let mut limit = self.first_limit();
        loop {
            let wanted = limit.saturating_mul(REFINE).max(FEWEST_REFINED);
            let mut proposed = index.propose(unit, allowed, wanted, probes).await?;
            let is_exhausted = proposed.len() < wanted && probes >= index.partitions();
            // In the order of memory.
            proposed.sort_unstable();
            let mut found = fresh.clone();
            found.extend(proposed.into_iter().filter_map(|row| {
                let (fragment, place) = parts(row);
                if !index.covers(fragment) {
                    return None;
                }
                let at = resident.binary_search_by_key(&fragment, |(of, _)| of.id()).ok()?;
                let directions = &resident[at].1.directions;
                Some((row, directions.cosine(place as usize, direction)?))
            }));
            if let Some(kept) = self.enough(best_of(&mut found, limit), is_exhausted) {
                return Ok(kept);
            }
            limit = limit.saturating_mul(2);
            probes = probes.saturating_mul(2);
        }
    }

    /// Returns the best of all rows that count.
    pub(super) fn best(&self, mut found: Vec<(u64, f32)>) -> Vec<Ranked<'a>> {
        let mut limit = self.first_limit();
        loop {
            let is_all = limit >= found.len();
            if let Some(kept) = self.enough(best_of(&mut found, limit), is_all) {
                return kept;
            }
            limit = limit.saturating_mul(2);
        }
    }

    /// Ranks rows by the vectors in the table's files. For exact search, and for vectors that are
    /// not in memory.
    async fn nearest_in_files(&self, vector: &[f32], column: &str) -> Result<Vec<Ranked<'a>>> {
        let mut limit = self.first_limit();
        loop {
            let found = self.nearest_rows_in_files(vector, column, limit).await?;
            let is_exhausted = found.len() < limit;
            if let Some(kept) = self.enough(found, is_exhausted) {
                return Ok(kept);
            }
            limit = limit.saturating_mul(2);
        }
    }

    async fn nearest_rows_in_files(
        &self,
        vector: &[f32],
        column: &str,
        limit: usize,
    ) -> Result<Vec<(u64, f32)>> {
        let failed = || failed(TableKind::Chunks, Operation::Search);
        let select = Select::columns(&[DISTANCE]);
        let mut query = self.snapshot.chunks.query().select(select).limit(limit).with_row_id();
        let seen = filter::seen(self.snapshot.catalogue.label_sets(&self.seen.access));
        let condition = [filter::of_filter(&self.query.filter), seen].into_iter().flatten();
        if let Some(condition) = condition.reduce(Expr::and) {
            query = query.only_if_expr(condition);
        }
        let mut query = query
            .nearest_to(vector)
            .map_err(failed())?
            .column(column)
            .distance_type(DistanceType::Cosine);
        query = if self.query.exact {
            query.bypass_vector_index()
        } else {
            // Without a maximum, the engine reads more partitions until there are enough rows.
            query
                .minimum_nprobes(PROBES)
                .and_then(|query| query.maximum_nprobes(None))
                .map_err(failed())?
                .refine_factor(REFINE.max(FEWEST_REFINED.div_ceil(limit.max(1))) as u32)
        };
        let stream = run(TableKind::Chunks, Operation::Search, query.execute()).await?;
        let batches = stream.try_collect::<Vec<_>>().map_err(Into::into);
        let mut found = Vec::new();
        for batch in run(TableKind::Chunks, Operation::Search, batches).await? {
            let rows = Rows::new(TableKind::Chunks, &batch);
            let distances = rows.values::<Float32Type>(DISTANCE)?.into_iter();
            let numbers = rows.values::<UInt64Type>(ROW)?.into_iter();
            found.extend(numbers.zip(distances.map(|distance| 1.0 - distance)));
        }
        Ok(found)
    }
}

/// Compares the query's direction with those of all allowed rows of some fragments.
pub(super) async fn compare_all(
    resident: &Arc<ResidentRows>,
    direction: &Direction,
    allowed: &Allowed,
    of: impl Fn(u32) -> bool + Send + 'static,
) -> Vec<(u64, f32)> {
    let (resident, direction, allowed) = (Arc::clone(resident), direction.clone(), allowed.clone());
    in_background(move || {
        let mut found = Vec::new();
        for (fragment, ResidentDirections { directions, .. }) in
            resident.iter().map(|(fragment, directions)| (fragment, &**directions))
        {
            let id = fragment.id();
            if !of(id) {
                continue;
            }
            match allowed.places(id) {
                None => {
                    let all = directions.cosines(&direction).into_iter();
                    found.extend(all.map(|(place, cosine)| (row_at(id, place), cosine)));
                }
                Some(places) => found.extend(places.iter().filter_map(|place| {
                    Some((row_at(id, place), directions.cosine(place as usize, &direction)?))
                })),
            }
        }
        found
    })
    .await
}

/// Returns the best `limit` rows, and those that are as good as the last of them, in any order.
fn best_of(found: &mut [(u64, f32)], limit: usize) -> impl Iterator<Item = (u64, f32)> {
    let last = match limit < found.len() {
        true => {
            let place = limit.saturating_sub(1);
            found.select_nth_unstable_by(place, |(_, a), (_, b)| b.total_cmp(a)).1.1
        }
        false => f32::NEG_INFINITY,
    };
    found.iter().copied().filter(move |(_, score)| *score >= last)
}

/// Scales a vector to length one.
fn unit(vector: &[f32]) -> Vec<f32> {
    let length = vector.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    vector.iter().map(|x| (f64::from(*x) / length) as f32).collect()
}

//! The vector index of a column, which proposes rows whose vectors may be the nearest.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float32Array, UInt32Array};
use arrow::datatypes::UInt64Type;
use futures::TryStreamExt;
use futures::future::try_join_all;
use lance::Dataset;
use lance::index::DatasetIndexInternalExt;
use lance_index::metrics::NoOpMetricsCollector;
use lance_index::vector::{ApproxMode, Query, VectorIndex};
use lancedb::DistanceType;
use roaring::RoaringBitmap;

use crate::error::{Operation, Result};
use crate::read::resident::masks::Allowed;
use crate::read::table_view::segments::{masked, segments_and_coverage};
use crate::table::engine::run;
use crate::table::kind::TableKind;
use crate::table::rows::Rows;
use crate::table::rows::owned::ROW;
use crate::table::schema::IndexWanted;

/// Vector index of a column: its segments, in the order in which they were built.
#[derive(Debug)]
pub(crate) struct NearestIndex {
    kind: TableKind,
    column: String,
    segments: Vec<Arc<dyn VectorIndex>>,
    /// Fragments that the segments cover.
    covered: RoaringBitmap,
}

impl NearestIndex {
    /// Opens the vector index of a column, if it has one.
    pub(crate) async fn open(
        kind: TableKind,
        dataset: &Dataset,
        column: &str,
    ) -> Result<Option<Arc<Self>>> {
        let name = IndexWanted::of_vectors(column.to_owned()).name();
        let open = async {
            let (stored, covered) = segments_and_coverage(dataset, &name).await?;
            let mut segments = Vec::with_capacity(stored.len());
            for segment in &stored {
                let metrics = &NoOpMetricsCollector;
                segments.push(dataset.open_vector_index(column, &segment.uuid, metrics).await?);
            }
            Ok((segments, covered))
        };
        let (segments, covered) = run(kind, Operation::Search, open).await?;
        let column = column.to_owned();
        let index = Self { kind, column, segments, covered };
        Ok((!index.segments.is_empty()).then(|| Arc::new(index)))
    }

    /// Returns whether the index covers the rows of a fragment.
    pub(crate) fn covers(&self, fragment: u32) -> bool {
        self.covered.contains(fragment)
    }

    /// Returns the number of partitions of all segments.
    pub(crate) fn partitions(&self) -> usize {
        self.segments.iter().map(|segment| segment.total_partitions()).sum()
    }

    /// Returns about `limit` of the allowed rows whose vectors are among the nearest, in no
    /// particular order. Looks into the `probes` partitions nearest to the vector, whichever
    /// segments they are of. The vector has length one. Some rows may be of fragments that the
    /// index covers no more.
    pub(crate) async fn propose(
        &self,
        vector: &[f32],
        allowed: &Allowed,
        limit: usize,
        probes: usize,
    ) -> Result<Vec<u64>> {
        let query = Query {
            column: self.column.clone(),
            key: Arc::new(Float32Array::from(vector.to_vec())) as ArrayRef,
            k: limit,
            lower_bound: None,
            upper_bound: None,
            minimum_nprobes: probes,
            maximum_nprobes: Some(probes),
            search_effort: 0.5,
            ef: None,
            refine_factor: None,
            metric_type: Some(DistanceType::Cosine.into()),
            use_index: true,
            query_parallelism: 0,
            dist_q_c: 0.0,
            approx_mode: ApproxMode::Normal,
        };
        let search = async {
            let nearest = self.nearest_partitions(&query, probes)?;
            let searches = self.segments.iter().zip(nearest);
            let searches = searches.map(|(segment, (partitions, distances))| {
                let (index, filter) = (Arc::clone(segment), masked(allowed));
                let (query, end, metrics) =
                    (query.clone(), partitions.len(), Arc::new(NoOpMetricsCollector));
                let (partitions, distances) = (Arc::new(partitions), Arc::new(distances));
                async move {
                    let search = index.search_partitions(
                        query, partitions, distances, 0, end, filter, None, metrics,
                    );
                    search.await?.try_collect::<Vec<_>>().await
                }
            });
            Ok(try_join_all(searches).await?)
        };
        let mut proposed = Vec::new();
        for batch in run(self.kind, Operation::Search, search).await?.into_iter().flatten() {
            proposed.extend(Rows::new(self.kind, &batch).values::<UInt64Type>(ROW)?);
        }
        Ok(proposed)
    }

    /// Returns, for each segment, those of its partitions that are among the nearest `probes` of
    /// all, with their distances.
    fn nearest_partitions(
        &self,
        query: &Query,
        probes: usize,
    ) -> lance_core::Result<Vec<(UInt32Array, Float32Array)>> {
        let all = self.segments.iter().map(|segment| segment.find_partitions(query));
        let all = all.collect::<lance_core::Result<Vec<_>>>()?;
        let distances: Vec<&[f32]> = all.iter().map(|(_, of)| of.values().as_ref()).collect();
        let counts = counts_of_nearest(&distances, probes);
        let nearest = |((partitions, distances), count): ((UInt32Array, Float32Array), usize)| {
            (partitions.slice(0, count), distances.slice(0, count))
        };
        Ok(all.into_iter().zip(counts).map(nearest).collect())
    }
}

/// Returns how many of each list, which ascends, are among the smallest `wanted` of all.
fn counts_of_nearest(lists: &[&[f32]], wanted: usize) -> Vec<usize> {
    let mut all: Vec<f32> = lists.iter().copied().flatten().copied().collect();
    if wanted >= all.len() {
        return lists.iter().map(|list| list.len()).collect();
    }
    let Some(last) = wanted.checked_sub(1) else { return vec![0; lists.len()] };
    let last = *all.select_nth_unstable_by(last, f32::total_cmp).1;
    lists.iter().map(|list| list.partition_point(|of| of.total_cmp(&last).is_le())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_partitions_are_those_of_all_segments() {
        let lists: [&[f32]; 3] = [&[0.1, 0.4, 0.9], &[0.2, 0.3], &[]];
        for (wanted, expected) in [
            (0, [0, 0, 0]),
            (1, [1, 0, 0]),
            (3, [1, 2, 0]),
            (4, [2, 2, 0]),
            (5, [3, 2, 0]),
            (9, [3, 2, 0]),
        ] {
            assert_eq!(counts_of_nearest(&lists, wanted), expected, "{wanted}");
        }
        // As many as are equal to the last.
        assert_eq!(counts_of_nearest(&[&[0.5], &[0.5]], 1), [1, 1]);
    }
}

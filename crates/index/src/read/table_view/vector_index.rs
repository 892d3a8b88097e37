//! The vector index of a column, which proposes rows whose vectors may be the nearest.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float32Array};
use arrow::datatypes::UInt64Type;
use futures::TryStreamExt;
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

    /// Returns the number of partitions of the largest segment.
    pub(crate) fn partitions(&self) -> usize {
        self.segments.iter().map(|segment| segment.total_partitions()).max().unwrap_or(0)
    }

    /// Returns about `limit` of the allowed rows whose vectors are among the nearest, in no
    /// particular order. Looks into the `probes` partitions nearest to the vector, which has length
    /// one. Some of them may be of fragments that the index covers no more.
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
        let mut proposed = Vec::new();
        for segment in &self.segments {
            let (index, filter) = (Arc::clone(segment), masked(allowed));
            let query = query.clone();
            let search = async {
                let (partitions, distances) = index.find_partitions(&query)?;
                let (partitions, distances) = (Arc::new(partitions), Arc::new(distances));
                let (end, metrics) = (partitions.len(), Arc::new(NoOpMetricsCollector));
                let search = index
                    .search_partitions(query, partitions, distances, 0, end, filter, None, metrics);
                Ok(search.await?.try_collect::<Vec<_>>().await?)
            };
            for batch in run(self.kind, Operation::Search, search).await? {
                proposed.extend(Rows::new(self.kind, &batch).values::<UInt64Type>(ROW)?);
            }
        }
        Ok(proposed)
    }
}

//! Indexes of a table: which it has, and the building of their segments.

use std::sync::Arc;

use futures::FutureExt;
use lance::Dataset;
use lance::dataset::builder::DatasetBuilder;
use lance::dataset::index::LanceIndexStoreExt;
use lance::index::vector::VectorIndexParams;
use lance::index::{DatasetIndexExt, DatasetIndexInternalExt};
use lance_core::utils::row_addr_remap::RowAddrRemap;
use lance_index::metrics::NoOpMetricsCollector;
use lance_index::scalar::lance_format::LanceIndexStore;
use lance_index::scalar::{BuiltinIndexType, InvertedIndexParams, ScalarIndexParams};
use lance_index::vector::bq::RQBuildParams;
use lance_index::vector::ivf::IvfBuildParams;
use lance_index::{IndexParams, IndexType};
use lance_table::format::{Fragment, IndexFile, IndexMetadata, pb};
use lancedb::DistanceType;
use prost::Message as _;
use roaring::RoaringBitmap;
use uuid::Uuid;

use crate::error::{Operation, Result};
use crate::table::Stored;
use crate::table::engine::run;
use crate::table::kind::TableKind;
use crate::table::schema::{IndexKind, IndexWanted};
use crate::table::vectors::vectors_in;

/// Number of rows of a partition of the vector index. To read a partition costs about as much as to
/// read 600 of its rows. Smaller ones leave out more rows at the same recall.
const PARTITION_ROWS: usize = 2_048;
/// Bits for each dimension in a vector index. With five, its ranking is so close to the exact one
/// that a search which reads all partitions finds the ten nearest of 100,000 passages. How many a
/// search reads is measured ([`crate::read::search::recall`]).
const BITS: u8 = 5;

impl Stored {
    /// Builds the text index if it does not exist.
    pub(crate) async fn ensure_text_index(&self) -> Result<()> {
        let Some(wanted) = self.kind.text_index() else { return Ok(()) };
        let Some(shown) = self.table.dataset() else { return Ok(()) };
        if self.has_index(&wanted).await? {
            return Ok(());
        }
        let mut dataset = Dataset::clone(&*self.dataset(Operation::Index).await?);
        let (index_type, params) = wanted.kind.parameters();
        let columns = [wanted.column.as_ref()];
        let build = async {
            dataset
                .create_index_builder(&columns, index_type, &*params)
                .name(wanted.name())
                .replace(true)
                .await?;
            Ok(())
        };
        self.run(Operation::Index, build.boxed()).await?;
        shown.update(dataset);
        Ok(())
    }

    /// Returns whether the table has an index.
    pub(crate) async fn has_index(&self, wanted: &IndexWanted) -> Result<bool> {
        let names = index_names(self.kind, &*self.dataset(Operation::Read).await?).await?;
        Ok(names.contains(&wanted.name()))
    }

    /// Returns the scalar indexes that the table should have and has not.
    pub(crate) async fn missing_indexes(&self) -> Result<Vec<IndexWanted>> {
        let names = index_names(self.kind, &*self.dataset(Operation::Read).await?).await?;
        let mut wanted = self.kind.scalar_indexes();
        wanted.retain(|wanted| !names.contains(&wanted.name()));
        Ok(wanted)
    }

    /// Returns the bytes of the files of all indexes.
    pub(crate) async fn index_bytes(&self) -> Result<u64> {
        let dataset = self.dataset(Operation::Read).await?;
        let read = async { Ok(dataset.load_indices().await?) };
        let indexes = self.run(Operation::Read, read).await?;
        Ok(indexes.iter().filter_map(IndexMetadata::total_size_bytes).sum())
    }

    /// Returns the indexes that the table has.
    pub(crate) async fn indexes(&self) -> Result<Vec<IndexWanted>> {
        let stored = self.run(Operation::Read, self.table.schema()).await?;
        let of_vectors = vectors_in(&stored).map(|it| IndexWanted::of_vectors(it.name().clone()));
        let all = self.kind.text_index().into_iter().chain(self.kind.scalar_indexes());
        let mut all: Vec<IndexWanted> = all.chain(of_vectors).collect();
        let names = index_names(self.kind, &*self.dataset(Operation::Read).await?).await?;
        all.retain(|wanted| names.contains(&wanted.name()));
        Ok(all)
    }
}

async fn index_names(kind: TableKind, dataset: &Dataset) -> Result<Vec<String>> {
    let read = async {
        let indexes = dataset.load_indices().await?;
        Ok(indexes.iter().map(|index| index.name.clone()).collect())
    };
    run(kind, Operation::Read, read).await
}

/// Returns the segments of an index, with the fragments that each covers.
pub(crate) async fn segments_of(
    dataset: &Dataset,
    index: &str,
) -> lance_core::Result<Vec<(IndexMetadata, RoaringBitmap)>> {
    let segments = dataset.load_indices_by_name(index).await?;
    let with_coverage = |segment| {
        let covered = coverage(dataset, &segment);
        (segment, covered)
    };
    Ok(segments.into_iter().map(with_coverage).collect())
}

/// Returns the fragments that a segment of an index covers.
pub(crate) fn coverage(dataset: &Dataset, segment: &IndexMetadata) -> RoaringBitmap {
    let covered = segment.fragment_bitmap.as_ref();
    covered.unwrap_or_else(|| dataset.fragment_bitmap()).clone()
}

/// Returns a handle on the same version of a table that shows other fragments: some of its own, or
/// new ones that were written but not committed.
pub(crate) async fn showing(
    kind: TableKind,
    dataset: &Dataset,
    mut fragments: Vec<Fragment>,
) -> Result<Dataset> {
    // The engine looks them up by bisection.
    fragments.sort_unstable_by_key(|fragment| fragment.id);
    let mut manifest = dataset.manifest().clone();
    manifest.fragments = Arc::new(fragments);
    // What the engine derives from a manifest, it derives when it opens one.
    let manifest = pb::Manifest::from(&manifest).encode_to_vec();
    let open = async {
        let builder = DatasetBuilder::from_uri(dataset.uri()).with_session(dataset.session());
        Ok(builder.with_serialized_manifest(&manifest)?.load().await?)
    };
    run(kind, Operation::Open, open.boxed()).await
}

/// Builds a segment of an index over all fragments that `dataset` shows, and commits nothing.
/// Returns `None` if it has too few rows for an index of this kind.
pub(crate) async fn build_segment(
    kind: TableKind,
    mut dataset: Dataset,
    wanted: &IndexWanted,
) -> Result<Option<IndexMetadata>> {
    let fragments: RoaringBitmap = dataset.fragments().iter().map(|of| of.id as u32).collect();
    let (index_type, params) = wanted.kind.parameters();
    let columns = [wanted.column.as_ref()];
    let build = async {
        let builder = dataset.create_index_builder(&columns, index_type, &*params);
        let mut segment = builder.name(wanted.name()).replace(true).execute_uncommitted().await?;
        // The engine leaves it empty if there was nothing to train an index with.
        let is_trained = segment.fragment_bitmap.as_ref().is_some_and(|of| !of.is_empty());
        if !is_trained && !fragments.is_empty() {
            return Ok(None);
        }
        segment.fragment_bitmap = Some(fragments);
        Ok(Some(segment))
    };
    run(kind, Operation::Index, build.boxed()).await
}

/// Writes a segment of a text index once more, for rows that have moved: with their new numbers,
/// without the rows that are gone, and without the words that only those had. No text is read and
/// split for that. `covered` are the fragments that it covers then. Commits nothing.
pub(crate) async fn moved_segment(
    kind: TableKind,
    dataset: &Dataset,
    wanted: &IndexWanted,
    segment: &IndexMetadata,
    (moves, covered): (&RowAddrRemap, RoaringBitmap),
) -> Result<IndexMetadata> {
    let uuid = Uuid::new_v4();
    let write = async {
        let metrics = &NoOpMetricsCollector;
        let index = dataset.open_scalar_index(&wanted.column, &segment.uuid, metrics).await?;
        let store = LanceIndexStore::from_dataset_for_new(dataset, &uuid)?;
        Ok(index.remap(moves, &store).await?)
    };
    let written = run(kind, Operation::Index, write.boxed()).await?;
    let files = written.files.into_iter();
    let files = files.map(|of| IndexFile { path: of.path, size_bytes: of.size_bytes });
    Ok(IndexMetadata {
        uuid,
        dataset_version: dataset.version_id(),
        fragment_bitmap: Some(covered),
        index_details: Some(Arc::new(written.index_details)),
        index_version: i32::try_from(written.index_version).unwrap_or(segment.index_version),
        files: Some(files.collect()),
        ..segment.clone()
    })
}

impl IndexKind {
    /// Returns what the storage engine is to build.
    fn parameters(self) -> (IndexType, Box<dyn IndexParams>) {
        let scalar = |kind| Box::new(ScalarIndexParams::for_builtin(kind));
        match self {
            // BM25 over lower-cased, ASCII-folded, English-stemmed words without stop words.
            Self::Words => (IndexType::Inverted, Box::new(InvertedIndexParams::default())),
            Self::Ordered => (IndexType::BTree, scalar(BuiltinIndexType::BTree)),
            Self::Lists => (IndexType::LabelList, scalar(BuiltinIndexType::LabelList)),
            Self::Sets => (IndexType::Bitmap, scalar(BuiltinIndexType::Bitmap)),
            Self::Vectors => {
                let clusters = IvfBuildParams::with_target_partition_size(PARTITION_ROWS);
                let params = VectorIndexParams::with_ivf_rq_params(
                    DistanceType::Cosine.into(),
                    clusters,
                    RQBuildParams::new(BITS),
                );
                (IndexType::Vector, Box::new(params))
            }
        }
    }
}

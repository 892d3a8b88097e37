//! Rewriting of fragments and of the index segments over them, beside other writes.
//!
//! Merging fragments, erasing rows and building indexes take seconds. Only their beginning and
//! their end are commits, and short: [`Stored::begin_rewriting`] reserves numbers for the new
//! fragments, [`Rewriting::run`] then writes new files that no version names, and
//! [`Stored::commit_rewritten`] puts them in place of the old ones. Rows that were deleted
//! meanwhile are deleted in the new fragments, too, and rows that got other source versions have
//! them in the new fragments. So no stream of either holds the work up. A crash in between leaves
//! files that pruning removes.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use futures::FutureExt;
use lance::Dataset;
use lance::dataset::CommitBuilder;
use lance::dataset::optimize::{CompactionOptions, CompactionTask, TaskData};
use lance::dataset::transaction::{Operation as Change, RewriteGroup, Transaction};
use lance_core::utils::address::RowAddress;
use lance_core::utils::deletion::DeletionVector;
use lance_core::utils::row_addr_remap::RowAddrRemap;
use lance_core::utils::tokio::get_num_compute_intensive_cpus;
use lance_table::format::{Fragment, IndexMetadata};
use lance_table::io::deletion::{read_deletion_file, write_deletion_file};
use roaring::RoaringBitmap;

use crate::error::{Error, Operation, Result};
use crate::table::Stored;
use crate::table::batches::{rows_of_a_batch, size_of};
use crate::table::column;
use crate::table::engine::{run, scan_fragments};
use crate::table::indexes::{build_segment, moved_segment, segments_of, showing};
use crate::table::kind::TableKind;
use crate::table::renumbering::{Numbers, renumbered};
use crate::table::rows::Rows;
use crate::table::schema::{IndexKind, IndexWanted};
use crate::table::tiers::{self, FragmentSize, MERGED_ROWS, Piece};

/// A piece of work that is to be done: [`Rewriting::run`] does it.
#[derive(Debug)]
pub(crate) struct Rewriting {
    kind: TableKind,
    /// Version that is read.
    dataset: Arc<Dataset>,
    piece: Piece,
    /// Indexes that get segments over what is rewritten or covered.
    indexes: Vec<IndexWanted>,
    /// Minimum number of rows of a segment of a vector index.
    min_vectors: u64,
    /// Numbers for new fragments.
    reserved: Range<u64>,
}

/// Files that were written, to be committed.
#[derive(Debug)]
pub(crate) struct Rewritten {
    kind: TableKind,
    /// The version that was read, with the new fragments in place of the old ones.
    pub after: Dataset,
    runs: Vec<Run>,
    built: Vec<IndexMetadata>,
    removed: Vec<IndexMetadata>,
}

/// Fragments that are replaced, as they were when they were read, and those in their place.
#[derive(Debug)]
struct Run {
    old: Vec<Fragment>,
    new: Vec<Fragment>,
}

impl Run {
    /// Returns the numbers of the old fragments and those of the new ones.
    fn ids(&self) -> (RoaringBitmap, RoaringBitmap) {
        let ids = |of: &[Fragment]| of.iter().map(|of| of.id as u32).collect();
        (ids(&self.old), ids(&self.new))
    }
}

impl Rewritten {
    /// Returns which table it is of.
    pub(crate) fn kind(&self) -> TableKind {
        self.kind
    }

    /// Returns the numbers of the new fragments.
    pub(crate) fn new_fragments(&self) -> Vec<u32> {
        self.runs.iter().flat_map(|run| &run.new).map(|of| of.id as u32).collect()
    }
}

impl Rewriting {
    /// Writes the new fragments and segments. Commits nothing.
    ///
    /// Memory use does not grow with the table, the size of its rows or the number of cores. Most
    /// of it is the engine's read-ahead: 32 MiB for each of its concurrent requests to the storage.
    /// There is no tighter limit, because a row larger than the read-ahead would block the engine
    /// for ever.
    pub(crate) async fn run(mut self) -> Result<Rewritten> {
        let (kind, dataset) = (self.kind, Arc::clone(&self.dataset));
        let mut runs = Vec::with_capacity(self.piece.rewritten.len());
        for run in &self.piece.rewritten {
            let is_in = |of: &&Fragment| run.contains(&(of.id as u32));
            let old: Vec<Fragment> = dataset.fragments().iter().filter(is_in).cloned().collect();
            let new = rewritten(kind, &dataset, &old, &mut self.reserved).await?;
            runs.push(Run { old, new });
        }
        let after = showing(kind, &dataset, replaced(dataset.fragments(), &runs)).await?;
        let wanted = runs.iter().flat_map(|run| &run.new).map(|of| of.id as u32);
        let wanted: RoaringBitmap = wanted.chain(self.piece.covered.iter().copied()).collect();
        let sizes: Vec<(u32, u64)> = after.fragments().iter().map(live_rows).collect();
        let (mut built, mut removed) = (Vec::new(), Vec::new());
        for index in &self.indexes {
            let (segments, mut covered): (Vec<_>, Vec<_>) =
                segments(kind, &dataset, index).await?.into_iter().unzip();
            if index.kind == IndexKind::Words {
                let all = segments.iter().zip(&mut covered);
                for (segment, covered) in all {
                    let after = after.fragment_bitmap();
                    let moved = follow(kind, &dataset, index, (segment, covered), &runs, after);
                    if let Some(moved) = Box::pin(moved).await? {
                        built.push(moved);
                        removed.push(segment.clone());
                    }
                }
            }
            let min_rows = (index.kind == IndexKind::Vectors).then_some(self.min_vectors);
            let change = tiers::resegmented(&covered, &sizes, &wanted, min_rows);
            let mut count = segments.len() - change.removed.len();
            for fragments in change.built {
                let is_in = |of: &&Fragment| fragments.contains(&(of.id as u32));
                let of_segment = after.fragments().iter().filter(is_in).cloned().collect();
                let of_segment = showing(kind, &after, of_segment).await?;
                let segment = build_segment(kind, of_segment, index).await?;
                count += usize::from(segment.is_some());
                built.extend(segment);
            }
            if count == 0 && index.kind == IndexKind::Words {
                // The text index always exists: it also says how fresh texts are split into words.
                let nothing = showing(kind, &after, Vec::new()).await?;
                built.extend(build_segment(kind, nothing, index).await?);
            }
            removed.extend(change.removed.into_iter().map(|place| segments[place].clone()));
        }
        Ok(Rewritten { kind, after, runs, built, removed })
    }
}

/// Writes the segment of a text index that follows the rows of runs into the new fragments, if it
/// can. Then `covered` is what it covers.
async fn follow(
    kind: TableKind,
    dataset: &Dataset,
    index: &IndexWanted,
    (segment, covered): (&IndexMetadata, &mut RoaringBitmap),
    runs: &[Run],
    after: &RoaringBitmap,
) -> Result<Option<IndexMetadata>> {
    let ids: Vec<_> = runs.iter().map(Run::ids).collect();
    let Some(follows) = tiers::followed(covered, &ids, after) else { return Ok(None) };
    let of_segment = runs.iter().zip(&ids).filter(|(_, (old, _))| old.is_subset(covered));
    let of_segment: Vec<&Run> = of_segment.map(|(run, _)| run).collect();
    let moves = run(kind, Operation::Index, moves_of(dataset, &of_segment).boxed()).await?;
    let moved = moved_segment(kind, dataset, index, segment, (&moves, follows.clone())).await?;
    *covered = follows;
    Ok(Some(moved))
}

/// Returns where the rows of runs are in the new fragments, which hold those of the old ones in
/// order: nowhere, if they were deleted.
async fn moves_of(dataset: &Dataset, runs: &[&Run]) -> lancedb::Result<RowAddrRemap> {
    let number = |fragment: &Fragment, place| {
        u64::from(RowAddress::new_from_parts(fragment.id as u32, place))
    };
    let mut moves = HashMap::new();
    for run in runs {
        let all = |of| (0..physical_rows(of)).map(move |place| number(of, place));
        let mut places = run.new.iter().flat_map(all);
        for old in &run.old {
            let deleted = deleted_in(dataset, old).await?;
            for place in 0..physical_rows(old) {
                let new = if deleted.contains(place) { None } else { places.next() };
                moves.insert(number(old, place), new);
            }
        }
    }
    Ok(RowAddrRemap::direct(moves))
}

/// Writes the rows of fragments into new ones, without those that are deleted.
async fn rewritten(
    kind: TableKind,
    dataset: &Dataset,
    old: &[Fragment],
    reserved: &mut Range<u64>,
) -> Result<Vec<Fragment>> {
    let options = CompactionOptions {
        target_rows_per_fragment: MERGED_ROWS as usize,
        // Concurrent merges would each hold rows of their own.
        num_threads: Some(1),
        batch_size: Some(rows_of_a_batch(
            old.iter().map(size_of),
            get_num_compute_intensive_cpus(),
        )),
        ..Default::default()
    };
    let task = TaskData { fragments: old.to_vec() };
    let task = CompactionTask { task, read_version: dataset.version_id(), options };
    // Boxed: the engine's future is large and is part of the futures of all callers.
    let write = async { Ok(task.execute(dataset).await?.new_fragments) }.boxed();
    let mut new = run(kind, Operation::Compact, write).await?;
    for fragment in &mut new {
        let problem = || "the storage engine wrote more fragments than expected".into();
        fragment.id =
            reserved.next().ok_or_else(|| Error::of_table(kind, Operation::Compact, problem()))?;
    }
    Ok(new)
}

impl Stored {
    /// Returns the sizes of the table's fragments, in order.
    pub(crate) async fn sizes(&self) -> Result<Vec<FragmentSize>> {
        let dataset = self.dataset(Operation::Read).await?;
        let size = |fragment: &Fragment| {
            let (rows, bytes) = size_of(fragment);
            let id = fragment.id as u32;
            FragmentSize { id, rows, deleted: deleted_rows(fragment), bytes }
        };
        Ok(dataset.fragments().iter().map(size).collect())
    }

    /// Returns the fragments that all of these indexes cover.
    pub(crate) async fn covered(&self, indexes: &[IndexWanted]) -> Result<RoaringBitmap> {
        let dataset = self.dataset(Operation::Read).await?;
        let mut covered = RoaringBitmap::clone(dataset.fragment_bitmap());
        for index in indexes {
            let segments = segments(self.kind, &dataset, index).await?.into_iter();
            covered &= segments.fold(RoaringBitmap::new(), |all, (_, of)| all | of);
        }
        Ok(covered)
    }

    /// Returns whether an index has a segment over a fragment that is gone.
    pub(crate) async fn has_stale_segments(&self) -> Result<bool> {
        let dataset = self.dataset(Operation::Read).await?;
        let is_stale = |covered: &RoaringBitmap| !covered.is_subset(dataset.fragment_bitmap());
        for index in self.indexes().await? {
            let segments = segments(self.kind, &dataset, &index).await?;
            if segments.iter().any(|(_, covered)| is_stale(covered)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Begins a piece of work: reserves the numbers that new fragments will have. `indexes` get
    /// segments, those of vectors of at least `min_vectors` rows.
    pub(crate) async fn begin_rewriting(
        &mut self,
        piece: Piece,
        indexes: Vec<IndexWanted>,
        min_vectors: u64,
    ) -> Result<Rewriting> {
        // One fragment for each run. More if the engine divides it after all.
        let count = 2 * piece.rewritten.len() as u32;
        let mut reserved = 0..0;
        if count > 0 {
            let reserve = Change::ReserveFragments { num_fragments: count };
            self.commit(vec![reserve]).await?;
            self.sync().await?;
            let dataset = self.dataset(Operation::Compact).await?;
            let end = u64::from(dataset.manifest().max_fragment_id.unwrap_or(0)) + 1;
            reserved = end - u64::from(count)..end;
        }
        let dataset = self.dataset(Operation::Compact).await?;
        Ok(Rewriting { kind: self.kind, dataset, piece, indexes, min_vectors, reserved })
    }

    /// Commits what was written. Returns whether it did: not if a fragment was changed meanwhile in
    /// another way than by deleting or renumbering rows. The work is to be done again then.
    pub(crate) async fn commit_rewritten(&mut self, rewritten: Rewritten) -> Result<bool> {
        let Rewritten { kind: _, after, mut runs, built, removed } = rewritten;
        let dataset = self.dataset(Operation::Compact).await?;
        if dataset.schema() != after.schema() {
            return Ok(false);
        }
        for run in &mut runs {
            let find = |id: u64| dataset.fragments().iter().find(|now| now.id == id);
            let now: Option<Vec<&Fragment>> = run.old.iter().map(|of| find(of.id)).collect();
            let Some(now) = now else { return Ok(false) };
            if now.iter().zip(&run.old).any(|(now, old)| now.files != old.files) {
                // With the same columns, nothing else writes other files.
                if self.kind != TableKind::Sources {
                    return Ok(false);
                }
                self.renumber_in_new(&dataset, &after, run).await?;
            }
            if now.iter().zip(&run.old).any(|(now, old)| now.deletion_file != old.deletion_file) {
                let delete = delete_in_new(&dataset, &now, run).boxed();
                self.run(Operation::Delete, delete).await?;
            }
            run.old = now.into_iter().cloned().collect();
        }
        let mut changes = Vec::new();
        if !runs.is_empty() {
            let group = |run: Run| RewriteGroup { old_fragments: run.old, new_fragments: run.new };
            changes.push(Change::Rewrite {
                groups: runs.into_iter().map(group).collect(),
                rewritten_indices: Vec::new(),
                frag_reuse_index: None,
            });
        }
        if !built.is_empty() || !removed.is_empty() {
            changes.push(Change::CreateIndex { new_indices: built, removed_indices: removed });
        }
        self.commit(changes).await?;
        Ok(true)
    }

    /// Gives the rows of a run's new fragments the source versions that they have in the old ones
    /// by now. `after` shows the new fragments.
    async fn renumber_in_new(&self, now: &Dataset, after: &Dataset, run: &mut Run) -> Result<()> {
        let moves = self.run(Operation::Read, moves_of(now, &[&*run]).boxed()).await?;
        let old: Vec<u32> = run.old.iter().map(|of| of.id as u32).collect();
        let mut moved: BTreeMap<u32, Numbers> = BTreeMap::new();
        let read = |batch: &RecordBatch| {
            for (row, number) in Rows::new(self.kind, batch).numbered_source_versions()? {
                if let Some(Some(row)) = moves.get(row) {
                    let fragment = RowAddress::from(row).fragment_id();
                    moved.entry(fragment).or_default().insert(row, number.0);
                }
            }
            Ok(())
        };
        let columns = [column::SOURCE_VERSION];
        scan_fragments(self.kind, Operation::Read, now, &old, &columns, None, read).await?;
        for new in &mut run.new {
            if let Some(numbers) = moved.remove(&(new.id as u32)) {
                *new = renumbered(self.kind, after, new.id as u32, &numbers).await?.0;
            }
        }
        Ok(())
    }

    /// Commits changes, one after the other, and shows the table with all of them.
    pub(super) async fn commit(&self, changes: Vec<Change>) -> Result<()> {
        let Some(shown) = self.table.dataset() else { return Ok(()) };
        let mut dataset = self.dataset(Operation::Compact).await?;
        for change in changes {
            let transaction = Transaction::new(dataset.version_id(), change, None);
            let commit = CommitBuilder::new(dataset).execute(transaction);
            let commit = async { Ok(Arc::new(commit.await?)) }.boxed();
            dataset = self.run(Operation::Compact, commit).await?;
        }
        shown.update(Dataset::clone(&dataset));
        Ok(())
    }
}

/// Returns the fragments of a table with those of `runs` replaced.
fn replaced(fragments: &[Fragment], runs: &[Run]) -> Vec<Fragment> {
    let is_old = |of: &&Fragment| runs.iter().flat_map(|run| &run.old).any(|old| old.id == of.id);
    let kept = fragments.iter().filter(|of| !is_old(of));
    kept.chain(runs.iter().flat_map(|run| &run.new)).cloned().collect()
}

async fn segments(
    kind: TableKind,
    dataset: &Dataset,
    index: &IndexWanted,
) -> Result<Vec<(IndexMetadata, RoaringBitmap)>> {
    let read = async { Ok(segments_of(dataset, &index.name()).await?) };
    run(kind, Operation::Read, read).await
}

fn deleted_rows(fragment: &Fragment) -> u64 {
    fragment.deletion_file.as_ref().and_then(|file| file.num_deleted_rows).unwrap_or(0) as u64
}

fn live_rows(fragment: &Fragment) -> (u32, u64) {
    let rows = fragment.physical_rows.unwrap_or(0) as u64;
    (fragment.id as u32, rows - deleted_rows(fragment).min(rows))
}

fn physical_rows(fragment: &Fragment) -> u32 {
    fragment.physical_rows.unwrap_or(0) as u32
}

/// Returns the rows of a fragment that are deleted.
async fn deleted_in(dataset: &Dataset, of: &Fragment) -> lancedb::Result<DeletionVector> {
    let Some(file) = &of.deletion_file else { return Ok(DeletionVector::NoDeletions) };
    let (store, base) = (dataset.object_store(None).await?, dataset.branch_location().path);
    Ok(read_deletion_file(of.id, file, &base, &store).await?)
}

/// Deletes rows in a run's new fragments that were deleted in the old ones since those were read.
async fn delete_in_new(dataset: &Dataset, now: &[&Fragment], run: &mut Run) -> lancedb::Result<()> {
    let (store, base) = (dataset.object_store(None).await?, dataset.branch_location().path);
    let mut old = Vec::with_capacity(now.len());
    for (now, before) in now.iter().zip(&run.old) {
        let (before, after) = (deleted_in(dataset, before).await?, deleted_in(dataset, now).await?);
        old.push((physical_rows(now), before, after));
    }
    let rows: Vec<u32> = run.new.iter().map(physical_rows).collect();
    for (fragment, places) in run.new.iter_mut().zip(moved(&old, &rows)) {
        if places.is_empty() {
            continue;
        }
        let (count, places) = (places.len() as usize, DeletionVector::Bitmap(places));
        let version = dataset.version_id();
        let file = write_deletion_file(&base, fragment.id, version, &places, &store).await?;
        fragment.deletion_file = file.map(|mut file| {
            file.num_deleted_rows.get_or_insert(count);
            file
        });
    }
    Ok(())
}

/// Returns the places in new fragments, which have `new` rows each, of the rows that were deleted
/// meanwhile. `old` has the rows of each old fragment, those deleted before it was read, and those
/// deleted now. The new fragments hold the rows of the old ones in order.
fn moved(old: &[(u32, DeletionVector, DeletionVector)], new: &[u32]) -> Vec<RoaringBitmap> {
    let mut places = vec![RoaringBitmap::new(); new.len()];
    let (mut fragment, mut place) = (0, 0);
    for (rows, before, now) in old {
        for row in (0..*rows).filter(|row| !before.contains(*row)) {
            while new.get(fragment).is_some_and(|&rows| place >= rows) {
                (fragment, place) = (fragment + 1, 0);
            }
            if let Some(of_fragment) = places.get_mut(fragment).filter(|_| now.contains(row)) {
                of_fragment.insert(place);
            }
            place += 1;
        }
    }
    places
}

#[cfg(test)]
pub(super) mod tests {
    use clew_core::{
        DocumentId, ErrorKind, FailureStatus, Recipe, Stage, StoredDocument, Timestamp, Version,
    };
    use lance::index::DatasetIndexInternalExt;
    use lance_index::metrics::NoOpMetricsCollector;
    use proptest::prelude::*;

    use super::*;
    use crate::fixture::document;
    use crate::storage::Storage;
    use crate::storage::session::IndexMemory;
    use crate::table::{filter, rows};
    use crate::values::facts::FailureFacts;

    fn failure(name: &str) -> (DocumentId, FailureFacts) {
        let (stage, kind) = (Stage::Embedding, ErrorKind::Internal);
        let message = "no".to_owned();
        let status = FailureStatus { stage, attempts: 1, kind, message, next_try: None };
        (name.parse().unwrap(), FailureFacts { version: Version(1), recipe: Recipe(3), status })
    }

    #[tokio::test]
    async fn the_engine_finds_every_fragment_of_what_was_rewritten() {
        let folder = tempfile::tempdir().unwrap();
        let place = Storage::from(folder.path());
        let connection = place.connect(&IndexMemory::default()).await.unwrap();
        let kind = TableKind::Failures;
        let mut table = Stored::open(&connection, &place, kind, &[]).await.unwrap();
        for name in ["a", "b", "c", "d"] {
            table.append(vec![rows::failures::batch(&[failure(name)]).unwrap()]).await.unwrap();
        }
        // The numbers of the new fragments are larger than that of the last old one.
        let piece = Piece { rewritten: vec![vec![0], vec![2]], ..Piece::default() };
        let rewriting = table.begin_rewriting(piece, Vec::new(), 0).await.unwrap();
        let rewritten = rewriting.run().await.unwrap();
        let of = |dataset: &Dataset| -> Vec<u64> {
            let fragments = dataset.fragments().iter();
            for fragment in fragments.clone() {
                let found = dataset.get_fragment(fragment.id as usize);
                assert_eq!(found.map(|found| found.id()), Some(fragment.id as usize));
            }
            fragments.map(|fragment| fragment.id).collect()
        };
        let after = of(&rewritten.after);
        assert_eq!((after.len(), &after[..2]), (4, &[1, 3][..]));
        assert!(table.commit_rewritten(rewritten).await.unwrap());
        assert_eq!(of(&table.dataset(Operation::Read).await.unwrap()), after);
    }

    pub(in crate::table) fn source(number: u32, text: String) -> StoredDocument {
        let document = document(&format!("d{number}"), &text);
        let (version, accepted_at) = (Version(u64::from(number)), Timestamp::from_micros(1));
        StoredDocument { document, version, accepted_at }
    }

    /// Returns what the words of an index are, in number.
    async fn words_in(dataset: &Dataset, index: &IndexWanted, segment: &IndexMetadata) -> [u64; 2] {
        let metrics = &NoOpMetricsCollector;
        let opened = dataset.open_scalar_index(&index.column, &segment.uuid, metrics).await;
        let statistics = opened.unwrap().statistics().unwrap();
        ["num_docs", "num_tokens"].map(|name| statistics[name].as_u64().unwrap())
    }

    #[tokio::test]
    async fn a_segment_of_words_that_follows_its_rows_is_as_one_that_is_built_anew() {
        let folder = tempfile::tempdir().unwrap();
        let place = Storage::from(folder.path());
        let connection = place.connect(&IndexMemory::default()).await.unwrap();
        let kind = TableKind::Sources;
        let mut table = Stored::open(&connection, &place, kind, &[]).await.unwrap();
        table.ensure_text_index().await.unwrap();
        // Number 7 shares words with the others, and has some of its own.
        let text = |number| format!("shared words and own{number} and more{number} of them");
        let documents = (0..40).map(|number| {
            let stored = source(number, text(number));
            let hash = stored.document.content_hash();
            (stored, hash)
        });
        table.append(vec![rows::sources::batch(documents.collect()).unwrap()]).await.unwrap();
        let index = kind.text_index().unwrap();
        let covered = Piece { covered: vec![0], ..Piece::default() };
        let rewriting = table.begin_rewriting(covered, vec![index.clone()], 0).await.unwrap();
        assert!(table.commit_rewritten(rewriting.run().await.unwrap()).await.unwrap());
        let before = table.dataset(Operation::Read).await.unwrap();
        let old = segments(kind, &before, &index).await.unwrap().remove(0).0;
        assert_eq!(words_in(&before, &index, &old).await, [40, 2 + 80]);

        let forgotten: DocumentId = "d7".parse().unwrap();
        table.delete_any(vec![filter::documents([&forgotten])]).await.unwrap();
        let piece = Piece { rewritten: vec![vec![0]], ..Piece::default() };
        let rewriting = table.begin_rewriting(piece, vec![index.clone()], 0).await.unwrap();
        assert!(table.commit_rewritten(rewriting.run().await.unwrap()).await.unwrap());
        let after = table.dataset(Operation::Read).await.unwrap();
        let all = segments(kind, &after, &index).await.unwrap();
        let [(new, of)] = &all[..] else { panic!("{all:?}") };
        assert_eq!(*of, **after.fragment_bitmap());
        assert_ne!(new.uuid, old.uuid);
        // It was not built anew.
        assert_eq!(new.created_at, old.created_at);
        let built = build_segment(kind, Dataset::clone(&after), &index).await.unwrap().unwrap();
        assert_ne!(built.created_at, old.created_at);
        assert!(
            table
                .commit(vec![Change::CreateIndex {
                    new_indices: vec![built.clone()],
                    removed_indices: vec![new.clone()],
                }])
                .await
                .is_ok()
        );
        let rebuilt = table.dataset(Operation::Read).await.unwrap();
        let followed = words_in(&after, &index, new).await;
        assert_eq!(followed, words_in(&rebuilt, &index, &built).await);
        assert_eq!(followed, [39, 2 + 78]);
    }

    proptest! {
        #[test]
        fn rows_deleted_meanwhile_are_deleted_where_they_went(
            old in prop::collection::vec(prop::collection::vec(0_u8..4, 0..20), 1..5),
            first in 0_usize..40,
        ) {
            // 0: deleted before, 1: deleted meanwhile, else not deleted.
            let deleted = |rows: &[u8], upto: u8| -> DeletionVector {
                (0_u32..).zip(rows).filter(|(_, row)| **row <= upto).map(|(at, _)| at).collect()
            };
            let survivors: Vec<u8> = old.iter().flatten().copied().filter(|row| *row > 0).collect();
            let first = first.min(survivors.len());
            let new = [first as u32, (survivors.len() - first) as u32];
            let described: Vec<_> = old
                .iter()
                .map(|rows| (rows.len() as u32, deleted(rows, 0), deleted(rows, 1)))
                .collect();
            let places = moved(&described, &new);
            let found = |at: usize| {
                let (fragment, place) = if at < first { (0, at) } else { (1, at - first) };
                places[fragment].contains(place as u32)
            };
            for (at, row) in survivors.iter().enumerate() {
                prop_assert_eq!(found(at), *row == 1, "row {}", at);
            }
        }
    }
}

//! A searched table of a view: its rows in memory and its indexes, without the storage engine's
//! query plans.

pub(crate) mod probing;
mod segments;
pub(crate) mod text_index;
pub(crate) mod vector_index;

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arrow::record_batch::RecordBatch;
use clew_core::{Access, ChunkText, Filter};
use clew_vectors::Directions;
use futures::{TryStreamExt, stream};
use lance::Dataset;
use lance_core::utils::tokio::get_num_compute_intensive_cpus;

use crate::catalogue::Catalogue;
use crate::error::{Operation, Result};
use crate::read::resident::fragment::{Fragment, ResidentDirections};
use crate::read::resident::masks::{self, Allowed};
use crate::read::resident::words::Words;
use crate::read::resident::{Fragments, parts};
use crate::read::table_view::probing::{IndexRecall, Probing};
use crate::read::table_view::text_index::TextIndex;
use crate::read::table_view::vector_index::NearestIndex;
use crate::settings::SearchMemory;
use crate::table::engine::{in_background, scan_fragments};
use crate::table::kind::TableKind;
use crate::table::rows::Rows;
use crate::table::vectors::StoredVectors;
use crate::values::text_memory::TableTexts;
use crate::values::vector_memory::{Reserved, VectorMemory};

/// What one view of a table hands on to the next: the fragments that were read, and what searches
/// have asked for. New fragments get that before they are shown, so that searches stay fast while
/// documents come in. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Handed(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    fragments: Mutex<Fragments>,
    /// Whether words were searched.
    words: AtomicBool,
    /// Columns of vectors whose directions are in memory.
    columns: Mutex<BTreeSet<String>>,
    memory: VectorMemory,
    /// What searches showed of rows.
    texts: TableTexts,
    /// Held while directions are read.
    reading: tokio::sync::Mutex<()>,
    /// Whether searches left something to be done for the next ones.
    is_upkeep_due: AtomicBool,
    /// How much of each column's index searches read.
    probing: Mutex<HashMap<String, Arc<Probing>>>,
}

impl Handed {
    /// Starts with fragments that were read already.
    pub(crate) fn new(fragments: Fragments, memory: &SearchMemory) -> Self {
        let (memory, texts) = (memory.vectors.clone(), TableTexts::new(memory.texts.clone()));
        let (fragments, columns) = (Mutex::new(fragments), Mutex::default());
        let (words, reading) = (AtomicBool::new(false), tokio::sync::Mutex::default());
        let (is_upkeep_due, probing) = (AtomicBool::new(false), Mutex::default());
        Self(Arc::new(Shared {
            fragments,
            words,
            columns,
            memory,
            texts,
            reading,
            is_upkeep_due,
            probing,
        }))
    }

    fn fragments(&self) -> MutexGuard<'_, Fragments> {
        self.0.fragments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the fragments. Texts of rows whose fragment is gone, among them those of forgotten
    /// documents, leave the memory with it.
    fn replace(&self, fragments: Fragments) {
        let mut before = self.fragments();
        if before.iter().any(|fragment| fragments.get(fragment.id()).is_none()) {
            self.0.texts.retain(|row| fragments.get(parts(row).0).is_some());
        }
        *before = fragments;
    }

    /// Returns whether searches have read the table's rows.
    pub(crate) fn has_fragments(&self) -> bool {
        self.fragments().iter().next().is_some()
    }

    /// Reads fragments of a version that is not shown yet: their rows, and what searches have in
    /// memory of the others.
    pub(crate) async fn read_ahead(
        &self,
        kind: TableKind,
        dataset: &Dataset,
        ids: &[u32],
        vectors: &[StoredVectors],
    ) -> Result<Vec<Arc<Fragment>>> {
        let fragments = Fragments::some_of(kind, dataset, ids).await?;
        let columns = self.columns().clone();
        for StoredVectors { name, dimension, .. } in vectors {
            if !columns.contains(name) {
                continue;
            }
            for fragment in &fragments {
                // Without room, the view that shows it tries again.
                let bytes = Directions::bytes(*dimension, fragment.len());
                if let Some(room) = self.0.memory.reserve(bytes) {
                    read_directions_of(kind, dataset, fragment, name, *dimension, room).await?;
                }
            }
        }
        Ok(fragments)
    }

    /// Takes over fragments that were read ahead and that the next view shows.
    pub(crate) fn adopt(&self, fragments: Vec<Arc<Fragment>>) {
        let mut all = self.fragments();
        *all = all.with(fragments);
    }

    fn columns(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.columns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Table of a view as searches see it.
#[derive(Debug)]
pub(crate) struct TableView {
    kind: TableKind,
    dataset: Arc<Dataset>,
    fragments: OnceLock<Fragments>,
    handed: Handed,
    text: OnceLock<Option<TextIndex>>,
    /// Vector indexes by column.
    nearest: Mutex<HashMap<String, NearestCell>>,
}

/// Vector index, opened when it is first needed. `None` if there is none.
type NearestCell = Arc<OnceLock<Option<Arc<NearestIndex>>>>;

impl TableView {
    /// Creates the view of a table at a version.
    pub(crate) fn new(kind: TableKind, dataset: Arc<Dataset>, handed: Handed) -> Self {
        let (fragments, text, nearest) = (OnceLock::new(), OnceLock::new(), Mutex::default());
        Self { kind, dataset, fragments, handed, text, nearest }
    }

    /// Returns the table's rows. Reads those that no view has read before.
    pub(crate) async fn fragments(&self) -> Result<&Fragments> {
        let read = || async {
            let known = self.handed.fragments().clone();
            let fragments = Fragments::of(self.kind, &self.dataset, &known).await?;
            self.handed.replace(fragments.clone());
            Ok(fragments)
        };
        once(&self.fragments, read).await
    }

    /// Returns the storage engine's handle.
    pub(crate) fn dataset(&self) -> &Arc<Dataset> {
        &self.dataset
    }

    /// Returns what is shown of those rows that are in memory.
    pub(crate) fn texts_in_memory(&self, rows: &BTreeSet<u64>) -> HashMap<u64, Arc<ChunkText>> {
        rows.iter().filter_map(|&row| Some((row, self.handed.0.texts.get(row)?))).collect()
    }

    /// Keeps what is shown of rows in memory, but of rows whose fragment is gone.
    pub(crate) fn keep_texts(&self, texts: &[(u64, Arc<ChunkText>)]) {
        let fragments = self.handed.fragments();
        for (row, shown) in texts {
            if fragments.get(parts(*row).0).is_some() {
                self.handed.0.texts.keep(*row, Arc::clone(shown));
            }
        }
    }

    /// Returns the rows that a caller and a filter allow.
    pub(crate) async fn allowed(
        &self,
        catalogue: &Catalogue,
        access: &Access,
        filter: &Filter,
    ) -> Result<Allowed> {
        let (dataset, fragments) = (&self.dataset, self.fragments().await?);
        masks::allowed(self.kind, dataset, fragments, catalogue, access, filter).await
    }

    /// Returns the text index with the fragments that it does not cover, whose words are in memory,
    /// or `None` if there is no such index.
    pub(crate) async fn text(&self) -> Result<Option<(&TextIndex, Vec<Arc<Fragment>>)>> {
        self.handed.0.words.store(true, Ordering::Relaxed);
        let Some(index) = self.text_index().await? else { return Ok(None) };
        let is_fresh = |fragment: &&Arc<Fragment>| !index.covers(fragment.id());
        let fresh: Vec<_> = self.fragments().await?.iter().filter(is_fresh).cloned().collect();
        self.read_words(index, &fresh).await?;
        Ok(Some((index, fresh)))
    }

    async fn text_index(&self) -> Result<Option<&TextIndex>> {
        Ok(once(&self.text, || TextIndex::open(self.kind, &self.dataset)).await?.as_ref())
    }

    /// Reads the words of fragments that are not in memory yet. Searches that need the same ones
    /// share the work: each fragment is read by the first that comes to it.
    async fn read_words(&self, index: &TextIndex, fragments: &[Arc<Fragment>]) -> Result<()> {
        let at_once = get_num_compute_intensive_cpus();
        stream::iter(fragments.iter().map(Ok))
            .try_for_each_concurrent(at_once, async |fragment| {
                fragment.words.get_or_try_init(|| self.words_of(index, fragment.id())).await?;
                Ok(())
            })
            .await
    }

    /// Splits and stems the texts of a fragment, which takes a second for some megabytes.
    async fn words_of(&self, index: &TextIndex, fragment: u32) -> Result<Words> {
        let kind = self.kind;
        let Some(column) = kind.text_index().map(|wanted| wanted.column) else {
            return Ok(Words::default());
        };
        let mut batches = Vec::new();
        let add = |batch: &RecordBatch| {
            batches.push(batch.clone());
            Ok(())
        };
        let columns = [column.as_ref()];
        scan_fragments(kind, Operation::Read, &self.dataset, &[fragment], &columns, None, add)
            .await?;
        let mut tokenizer = index.tokenizer();
        in_background(move || {
            let mut words = Words::default();
            for batch in &batches {
                for (row, text) in Rows::new(kind, batch).numbered_texts(&column)? {
                    words.add(parts(row).1, text, tokenizer.as_mut());
                }
            }
            Ok(words)
        })
        .await
    }

    /// Returns the vector index of a column, or `None` if there is none.
    pub(crate) async fn nearest(&self, column: &str) -> Result<Option<Arc<NearestIndex>>> {
        let cell = {
            let mut columns = self.nearest.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(columns.entry(column.to_owned()).or_default())
        };
        let open = || NearestIndex::open(self.kind, &self.dataset, column);
        once(&cell, open).await.cloned()
    }

    /// Returns the directions of a column in each fragment, or `None` if not all of them are in
    /// memory.
    pub(crate) async fn directions(
        &self,
        column: &str,
    ) -> Result<Option<Vec<(Arc<Fragment>, Arc<ResidentDirections>)>>> {
        let of = |fragment: &Arc<Fragment>| {
            let directions = fragment.directions(column).get().cloned()?;
            Some((Arc::clone(fragment), directions))
        };
        Ok(self.fragments().await?.iter().map(of).collect())
    }

    /// Returns the number of rows whose directions in a column are not in memory.
    pub(crate) async fn unread_rows(&self, column: &str) -> Result<usize> {
        let is_unread = |of: &&Arc<Fragment>| of.directions(column).get().is_none();
        Ok(self.fragments().await?.iter().filter(is_unread).map(|fragment| fragment.len()).sum())
    }

    /// Reads the directions of a column that are not in memory yet. Returns whether all are now:
    /// not if there is no room for them, or if somebody else reads directions at this moment.
    pub(crate) async fn read_directions(&self, vectors: &StoredVectors) -> Result<bool> {
        let StoredVectors { name, dimension, .. } = vectors;
        let Ok(_alone) = self.handed.0.reading.try_lock() else { return Ok(false) };
        let bytes = Directions::bytes(*dimension, self.unread_rows(name).await?);
        let Some(mut room) = self.handed.0.memory.reserve(bytes) else {
            self.handed.columns().remove(name);
            return Ok(false);
        };
        for fragment in self.fragments().await?.iter() {
            let cell = fragment.directions(name);
            if cell.get().is_some() {
                continue;
            }
            let room = room.split(Directions::bytes(*dimension, fragment.len()));
            let dataset = &self.dataset;
            read_directions_of(self.kind, dataset, fragment, name, *dimension, room).await?;
        }
        self.handed.columns().insert(name.clone());
        Ok(true)
    }

    /// Returns how much of a column's index searches read.
    pub(crate) fn probing(&self, column: &str) -> Arc<Probing> {
        let all = &self.handed.0.probing;
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get(column) {
            Some(probing) => Arc::clone(probing),
            None => Arc::clone(all.entry(column.to_owned()).or_default()),
        }
    }

    /// Returns the number of partitions of an index to read for a question, and keeps the question
    /// for the next measurement of recall.
    pub(crate) fn probes(
        &self,
        column: &str,
        index: &NearestIndex,
        question: &[f32],
        rows: usize,
    ) -> usize {
        let probing = self.probing(column);
        probing.asked(question);
        if probing.is_due(index.partitions(), rows) {
            self.want_upkeep();
        }
        probing.probes(index.partitions())
    }

    /// Returns the recall of a column's index, if it was measured.
    pub(crate) fn recall(&self, column: &str) -> Option<IndexRecall> {
        self.probing(column).measured()
    }

    /// Notes that searches left something to be done for the next ones.
    pub(crate) fn want_upkeep(&self) {
        self.handed.0.is_upkeep_due.store(true, Ordering::Relaxed);
    }

    /// Takes on what searches left to be done. Returns whether there is anything.
    pub(crate) fn take_upkeep(&self) -> bool {
        self.handed.0.is_upkeep_due.swap(false, Ordering::Relaxed)
    }

    /// Reads into memory what earlier views of the table had there, so that the first search of
    /// this one is as fast as the last one of the view before. Reads words of new fragments only:
    /// those of others are for the searches that need them, because a commit must not wait for all
    /// that the text index has yet to cover.
    pub(crate) async fn catch_up(&self, vectors: &[StoredVectors]) -> Result<()> {
        let known = self.handed.fragments().clone();
        let fragments = self.fragments().await?;
        if self.handed.0.words.load(Ordering::Relaxed)
            && let Some(index) = self.text_index().await?
        {
            let is_new = |of: &&Arc<Fragment>| known.get(of.id()).is_none();
            let new = fragments.iter().filter(is_new).filter(|of| !index.covers(of.id()));
            self.read_words(index, &new.cloned().collect::<Vec<_>>()).await?;
        }
        let columns = self.handed.columns().clone();
        for vectors in vectors.iter().filter(|vectors| columns.contains(&vectors.name)) {
            self.read_directions(vectors).await?;
        }
        Ok(())
    }
}

/// Reads the directions of a fragment's vectors into memory.
async fn read_directions_of(
    kind: TableKind,
    dataset: &Dataset,
    fragment: &Fragment,
    column: &str,
    dimension: usize,
    room: Reserved,
) -> Result<()> {
    let mut directions = Directions::new(dimension, fragment.len());
    let add = |batch: &RecordBatch| {
        Rows::new(kind, batch).each_vector(column, |row, vector| {
            directions.set(parts(row).1 as usize, vector);
        })
    };
    let fragments = [fragment.id()];
    scan_fragments(kind, Operation::Read, dataset, &fragments, &[column], None, add).await?;
    let read = || Arc::new(ResidentDirections::new(directions, room));
    fragment.directions(column).get_or_init(read);
    Ok(())
}

/// Returns the value of a cell. Makes it if there is none yet. Two callers at once may both make
/// it, and the first to finish decides. Nobody ever waits for another: a search that stands still
/// must not hold up the writer.
async fn once<T, F>(cell: &OnceLock<T>, make: impl FnOnce() -> F) -> Result<&T>
where
    F: Future<Output = Result<T>>,
{
    if let Some(made) = cell.get() {
        return Ok(made);
    }
    let made = make().await?;
    Ok(cell.get_or_init(|| made))
}

#[cfg(test)]
mod tests {
    use clew_core::{Access, CandidateQuery, Grouping, SearchMode, SearchedView};

    use super::*;
    use crate::fixture::{ingest, open};
    use crate::read::search::{self, Seen};
    use crate::read::view::Snapshot;
    use crate::settings::Tuning;

    /// Returns the number of chunks in which a word is found.
    async fn count(snapshot: &Arc<Snapshot>, word: &str) -> usize {
        let query = CandidateQuery {
            encoder: String::new(),
            text: word.to_owned(),
            vector: None,
            mode: SearchMode::Sparse,
            filter: Filter::default(),
            grouping: Grouping::Chunks,
            limit: 10,
            exact: false,
            with_texts: false,
            view: SearchedView::Newest,
        };
        let seen = Seen { access: Access::all(), newest: None };
        search::run(Arc::clone(snapshot), seen, query).await.unwrap().sparse.len()
    }

    /// Returns which fragments have their words in memory, in the order of their commits.
    async fn have_words(snapshot: &Snapshot) -> Vec<bool> {
        let fragments = snapshot.chunk_rows.fragments().await.unwrap();
        fragments.iter().map(|fragment| fragment.words.get().is_some()).collect()
    }

    #[tokio::test]
    async fn a_commit_reads_words_of_its_own_rows_and_the_next_search_all_others() {
        let folder = tempfile::tempdir().unwrap();
        let tuning = Tuning { unindexed_chunks: 1, ..Tuning::default() };
        let mut shard = open(folder.path(), tuning).await;
        ingest(&mut shard, "a", "text of a").await;
        let plan = shard.maintenance_plan().await.unwrap();
        shard.maintain(&plan, std::time::Duration::ZERO).await.unwrap();
        let before = shard.reader().snapshot();
        ingest(&mut shard, "b", "text of b").await;
        ingest(&mut shard, "c", "text of c").await;
        assert_eq!(count(&before, "text").await, 1, "what an old view shows");
        ingest(&mut shard, "d", "text of d").await;
        let newest = shard.reader().snapshot();
        assert_eq!(have_words(&newest).await, [false, false, false, true]);
        let (all, one) = tokio::join!(count(&newest, "text"), count(&newest, "c"));
        assert_eq!((all, one), (4, 1));
        assert_eq!(have_words(&newest).await, [false, true, true, true], "the index has the first");
    }
}

//! Writer of a shard, with the state that it keeps.

mod accept;
mod batches;
mod derive;
mod erase;
mod failures;
mod forget;
pub(crate) mod maintain;
mod memories;
pub(crate) mod plan;
pub(crate) mod scan;
mod structure;
mod sweep;

use std::convert::Infallible;
use std::time::{Duration, Instant};

use arrow::record_batch::RecordBatch;
use futures::TryFutureExt;
use tokio::sync::oneshot;

use crate::boxed;
use crate::catalogue::Catalogue;
use crate::catalogue::reading::Reading;
use crate::error::{Error, Operation, Result};
use crate::read::reader::ShardReader;
use crate::read::resident::{Fragments, FragmentsReading};
use crate::read::table_view::{Handed, TableView};
use crate::read::view::{Publisher, Snapshot, new_name};
use crate::settings::{ShardSettings, Takeover};
use crate::storage::Storage;
use crate::storage::erasure_mark::ErasureMark;
use crate::storage::memories::MemoryFiles;
use crate::table::Stored;
use crate::table::kind::TableKind;
use crate::table::ownership::Left;
use crate::table::vectors::Vectors;

/// Writer of one shard. Only the newest owner's writes succeed. Readers are independent of it.
#[derive(Debug)]
pub struct ShardWriter {
    pub(crate) settings: ShardSettings,
    pub(crate) sources: Stored,
    pub(crate) chunks: Stored,
    pub(crate) nodes: Stored,
    pub(crate) failures: Stored,
    pub(crate) catalogue: Catalogue,
    pub(crate) publisher: Publisher,
    /// What each view hands on to the next.
    handed: HandedOn,
    pub(crate) erasure: ErasureMark,
    pub(crate) memories: MemoryFiles,
    place: Storage,
    /// Owner that took the shard over, and its number.
    owner: Option<(String, u64)>,
    /// Instant since which the settings have been in effect.
    settled_at: Instant,
    /// Whether a write began and its outcome is not known.
    is_in_doubt: bool,
    /// Number of calls that forgot something.
    pub(crate) forgotten: u64,
}

impl ShardWriter {
    /// Opens the shard in `place` and creates missing tables. Takes the shard over if asked to, and
    /// reads its state from the tables: a scan of all columns that hold no text and no vector.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if a dimension is out of range, [`Error::NewerFormat`] if a newer
    /// release wrote a table, [`Error::Mismatch`] if a table was made for another dimension or does
    /// not fit otherwise, [`Error::Corrupt`] if a table cannot be read, [`Error::LostRace`] if
    /// another process took the shard over at the same time or later, and [`Error::Unavailable`]
    /// and [`Error::DiskFull`] from the storage.
    #[boxed]
    pub async fn open(
        place: &Storage,
        settings: ShardSettings,
        takeover: Takeover,
    ) -> Result<Self> {
        settings.check()?;
        place.make("make the shard's folder").await?;
        let connection = place.connect(&settings.memory.indexes).await?;
        let open = async |kind, number: Option<u64>| {
            let table = Stored::open(&connection, place, kind, &settings.vectors).await?;
            let number = match &takeover {
                Takeover::Uncontested => None,
                Takeover::By(owner) => Some(table.take_over(owner, number).await?),
                Takeover::Back(left) if left.is_unchanged(&table, number).await => {
                    Some(left.number())
                }
                Takeover::Back(left) => Some(table.take_over(left.owner(), number).await?),
            };
            // Existing tables are changed only after the takeover.
            table.ensure_columns().await?;
            table.ensure_version().await?;
            table.ensure_text_index().await?;
            Ok::<_, Error>((table, number))
        };
        let (mut sources, number) = Box::pin(open(TableKind::Sources, None)).await?;
        let other = |kind| Box::pin(open(kind, number)).map_ok(|(table, _number)| table);
        let (mut chunks, mut nodes, mut failures) = futures::try_join!(
            other(TableKind::Chunks),
            other(TableKind::Nodes),
            other(TableKind::Failures),
        )?;
        chunks.ensure_vectors(&settings.vectors).await?;
        let (erasure, memories) =
            futures::try_join!(ErasureMark::read(place, number), MemoryFiles::open(place))?;
        let tables = [&mut sources, &mut chunks, &mut nodes, &mut failures];
        let (catalogue, fragments) = read(tables, &settings, None).await?;
        let handed = HandedOn::new(fragments, &settings);
        let shown =
            shown([&sources, &chunks, &nodes], &settings, catalogue.clone(), &handed).await?;
        Ok(Self {
            settings,
            sources,
            chunks,
            nodes,
            failures,
            catalogue,
            publisher: Publisher::new(shown),
            handed,
            erasure,
            memories,
            place: place.clone(),
            owner: takeover.owner().map(ToOwned::to_owned).zip(number),
            settled_at: Instant::now(),
            is_in_doubt: false,
            forgotten: 0,
        })
    }

    /// Returns a reader. It sees each write as soon as the write has returned.
    pub fn reader(&self) -> ShardReader {
        let (snapshots, fence) = (self.publisher.subscribe(), self.sources.fence().clone());
        let (place, kept) = (self.place.clone(), self.publisher.kept().clone());
        ShardReader::new(snapshots, kept, fence, self.memories.reader(), place, self.erasure.seen())
    }

    /// Returns how this owner leaves the shard, for [`Takeover::Back`]. `None` if it did not take
    /// the shard over, or if a write of it may still happen.
    pub async fn left(&self) -> Option<Left> {
        let (owner, number) = self.owner.clone().filter(|_| !self.is_in_doubt)?;
        Left::of(owner, number, [&self.sources, &self.chunks, &self.nodes, &self.failures]).await
    }

    /// Returns where the shard is stored.
    pub(crate) fn place(&self) -> &Storage {
        &self.place
    }

    /// Returns one of the shard's tables.
    pub(crate) fn table(&mut self, kind: TableKind) -> &mut Stored {
        match kind {
            TableKind::Sources => &mut self.sources,
            TableKind::Chunks => &mut self.chunks,
            TableKind::Nodes => &mut self.nodes,
            TableKind::Failures => &mut self.failures,
        }
    }

    /// Returns the settings that are in effect.
    pub fn settings(&self) -> &ShardSettings {
        &self.settings
    }

    /// Changes the wanted recipes and vectors while the shard is open. Vector columns that are no
    /// longer wanted are left to maintenance, and the room for vectors stays as it is.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if a dimension is out of range, [`Error::Mismatch`] if there are
    /// vectors of another dimension, or a storage error. The settings stay as they were, unless
    /// only publishing them to readers failed.
    #[boxed]
    pub async fn settle(&mut self, settings: ShardSettings) -> Result<()> {
        settings.check()?;
        self.begin_write().await?;
        self.chunks.ensure_vectors(&settings.vectors).await?;
        self.chunks.sync().await?;
        self.catalogue = self.catalogue.wanting(settings.wanted(), settings.max_children());
        let memory = self.settings.memory.clone();
        self.settings = ShardSettings { memory, ..settings };
        self.settled_at = Instant::now();
        self.publish().await?;
        self.end_write();
        Ok(())
    }

    /// Returns how long the settings have been in effect.
    pub(crate) fn settled_for(&self) -> Duration {
        self.settled_at.elapsed()
    }

    /// Reads the state from the tables again. After a write that failed, the next one does this by
    /// itself.
    ///
    /// # Errors
    /// Returns the errors of [`ShardWriter::open`]. Returns [`Error::LostRace`] if another owner
    /// wrote. Nothing is read then, so that no state of another owner is taken for this one's, and
    /// the shard writes no more.
    #[boxed]
    pub async fn reload(&mut self) -> Result<()> {
        self.is_in_doubt = true;
        for kind in TableKind::ALL {
            self.table(kind).refresh().await?;
        }
        let tables = [&mut self.sources, &mut self.chunks, &mut self.nodes, &mut self.failures];
        let before = Some(&self.catalogue);
        let (catalogue, fragments) = read(tables, &self.settings, before).await?;
        self.catalogue = catalogue;
        self.handed = HandedOn::new(fragments, &self.settings);
        self.publish().await?;
        // A document may be gone whose forgetting failed half-way.
        self.publisher.kept().let_go();
        self.is_in_doubt = false;
        Ok(())
    }

    /// Begins a write. From here until [`ShardWriter::end_write`] the state is in doubt, also if
    /// the caller drops the write half-way.
    pub(crate) async fn begin_write(&mut self) -> Result<()> {
        self.ensure_known().await?;
        self.is_in_doubt = true;
        Ok(())
    }

    /// Makes sure that the state is known, for work that writes to no table.
    pub(crate) async fn ensure_known(&mut self) -> Result<()> {
        for kind in TableKind::ALL {
            self.table(kind).check_owned().await?;
        }
        if self.is_in_doubt {
            self.reload().await?;
        }
        Ok(())
    }

    /// Ends a write whose effect on the catalogue is known.
    pub(crate) fn end_write(&mut self) {
        self.is_in_doubt = false;
    }

    /// Publishes the current state to readers.
    pub(crate) async fn publish(&mut self) -> Result<()> {
        let tables = [&self.sources, &self.chunks, &self.nodes];
        let catalogue = self.catalogue.clone();
        let shown = shown(tables, &self.settings, catalogue, &self.handed).await?;
        self.publisher.publish(shown);
        Ok(())
    }
}

/// What the views of a shard hand on, by table.
#[derive(Clone, Debug)]
struct HandedOn {
    chunks: Handed,
    sources: Handed,
}

impl HandedOn {
    /// Returns what the views of a table hand on, if it is searched.
    fn of(&self, kind: TableKind) -> Option<&Handed> {
        match kind {
            TableKind::Sources => Some(&self.sources),
            TableKind::Chunks => Some(&self.chunks),
            TableKind::Nodes | TableKind::Failures => None,
        }
    }

    /// Starts with the fragments of `chunks`. Those of `sources` are read when whole documents are
    /// searched.
    fn new(chunks: Fragments, settings: &ShardSettings) -> Self {
        let memory = &settings.memory;
        let sources = Handed::new(Fragments::default(), memory);
        Self { chunks: Handed::new(chunks, memory), sources }
    }
}

/// Reads the documents of a shard and the rows of `chunks` from the versions that the tables show.
/// The catalogue comes in the place of `before`.
async fn read(
    tables: [&mut Stored; 4],
    settings: &ShardSettings,
    before: Option<&Catalogue>,
) -> Result<(Catalogue, Fragments)> {
    let mut reading = Reading::default();
    let mut fragments = Fragments::default();
    for table in tables {
        // A later write that changes nothing is acknowledged without a commit, so the rows that it
        // relies on must be on disk.
        table.sync().await?;
        let kind = table.kind();
        let mut rows = FragmentsReading::default();
        let read = |batch: &RecordBatch| {
            if kind == TableKind::Chunks {
                rows.add(kind, batch)?;
            }
            reading.add(kind, batch)
        };
        table.scan(Reading::columns(kind), read).await?;
        if kind == TableKind::Chunks {
            fragments = rows.all(&*table.dataset(Operation::Read).await?);
        }
    }
    let (documents, upper) = reading.finish();
    let (wanted, max_children) = (settings.wanted(), settings.max_children());
    let catalogue = Catalogue::read(wanted, max_children, before, documents, upper);
    Ok((catalogue, fragments))
}

/// Pins the documents, chunks and nodes as they are now, for a view.
async fn shown(
    [sources, chunks, nodes]: [&Stored; 3],
    settings: &ShardSettings,
    catalogue: Catalogue,
    handed: &HandedOn,
) -> Result<impl FnOnce(oneshot::Sender<Infallible>) -> Snapshot + use<>> {
    let vectors = Vectors {
        there: chunks.vectors(&settings.first).await?,
        wanted: settings.vectors.iter().map(|column| column.name.clone()).collect(),
        searched: settings.searched.clone(),
    };
    let (sources, source_files) = sources.pinned().await?;
    let (chunks, chunk_files) = chunks.pinned().await?;
    let (nodes, _) = nodes.pinned().await?;
    let source_rows = TableView::new(TableKind::Sources, source_files, handed.sources.clone());
    let chunk_rows = TableView::new(TableKind::Chunks, chunk_files, handed.chunks.clone());
    chunk_rows.catch_up(&vectors.there).await?;
    let (corpus, max_children) = (settings.corpus.clone(), settings.max_children());
    let compared = usize::try_from(settings.tuning.vector_index_rows).unwrap_or(usize::MAX);
    Ok(move |held| Snapshot {
        name: new_name(),
        corpus,
        vectors,
        sources,
        chunks,
        nodes,
        chunk_rows,
        source_rows,
        compared,
        max_children,
        catalogue,
        _held: held,
    })
}

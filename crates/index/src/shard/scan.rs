//! Scans, after documents were forgotten, for what a shard still stores of them.
//!
//! Erasing rewrites and removes files; the scan checks the result independently, by what is stored.
//! Only its beginning needs the writer. It checks
//!
//! - every table for rows of the documents, and for corpus tree nodes that covered them;
//! - every file of the shard: the newest version of its table must name it, or it must be a known
//!   memory, or the record of a later commit. Any other file may be of an older version;
//! - the data files that held the rows, or any other deleted row: none may be left;
//! - the parts of indexes over those rows: they must have been written anew;
//! - the compressed memories: none may cover a document;
//! - the files that replaced those with the documents, byte by byte, for parts of the documents'
//!   texts, up to [`SEARCHED`] bytes in all. A part that another document contains as well belongs
//!   to that document. The storage engine compresses columns of more than 32 KiB. A file in which
//!   its own rows cannot be found for this reason is not searched, and is counted as such.

mod parts;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use clew_core::{Access, CorpusTreeKey, DocumentId, ErasureScan, Forgotten, MemoryRecord};
use futures::TryStreamExt;
use lance::Dataset;
use lance_table::format::DataFile;
use lancedb::Table;
use lancedb::query::{QueryBase, Select};

use roaring::RoaringBitmap;

use crate::boxed;
use crate::catalogue::Catalogue;
use crate::error::{Operation, Result};
use crate::shard::ShardWriter;
use crate::shard::scan::parts::{PART, Parts, PartsOfRows, each_text, is_text};
use crate::storage::erasure_mark::MARK;
use crate::storage::{Storage, memories};
use crate::table::column;
use crate::table::engine::{run, scan};
use crate::table::filter;
use crate::table::kind::TableKind;
use crate::table::named_files::{INDEXES, NamedFiles, version_of};
use crate::table::rows::Rows;
use crate::table::rows::nodes::NodeOwner;

/// Maximum bytes that are searched for texts, in whole files, the smallest first.
const SEARCHED: u64 = 16 << 20;
/// Approximate bytes of texts that are read at once.
const PAGE_BYTES: u64 = 16 << 20;

const DOING: &str = "scan for what was forgotten";

/// Data by which documents that were forgotten can be recognized.
#[derive(Debug, Default)]
pub struct Traces {
    ids: Vec<DocumentId>,
    parts: Parts,
    /// Nodes of the corpus tree that covered them.
    above: BTreeSet<CorpusTreeKey>,
    places: BTreeMap<TableKind, Places>,
}

/// Where a table held the rows of documents when they were forgotten.
#[derive(Debug, Default)]
struct Places {
    /// Files of the table before.
    before: NamedFiles,
    /// Newest version that may name a file with one of the rows.
    version: u64,
    /// Data files that hold them, or other rows that were deleted before.
    rows: BTreeSet<String>,
    /// Segments of indexes over them.
    indexes: BTreeSet<String>,
}

impl Places {
    /// Returns where the rows are that `after` has no more or only as deleted ones.
    fn of(before: NamedFiles, after: &NamedFiles) -> Self {
        let hidden: BTreeSet<u64> = after.deletions.values().copied().collect();
        let is_suspect = |file: &str, fragment: &u64| {
            hidden.contains(fragment) || !after.rows.contains_key(file)
        };
        let all = before.rows.iter().chain(&after.rows);
        let rows = all.filter(|(file, fragment)| is_suspect(file, fragment));
        let rows = rows.map(|(file, _)| file.clone()).collect();
        let there: RoaringBitmap = after
            .rows
            .values()
            .filter(|fragment| !hidden.contains(fragment))
            .map(|fragment| *fragment as u32)
            .collect();
        let all = before.indexes.iter().chain(&after.indexes);
        let indexes = all.filter(|(_, covered)| !covered.is_subset(&there));
        let indexes = indexes.map(|(index, _)| index.clone()).collect();
        Self { version: after.version, rows, indexes, before }
    }

    /// Returns whether a file without rows was written after the documents were forgotten.
    fn came_later(&self, file: &str) -> bool {
        version_of(file).is_some_and(|version| version > self.version)
    }
}

impl Traces {
    /// Adds the traces of documents that were forgotten later.
    #[must_use]
    pub fn and(mut self, later: Self) -> Self {
        self.ids.extend(later.ids);
        self.parts.extend(&later.parts);
        self.above.extend(later.above);
        for (kind, later) in later.places {
            let places = self.places.entry(kind).or_default();
            if places.version == 0 {
                *places = later;
                continue;
            }
            places.version = places.version.max(later.version);
            places.rows.extend(later.rows);
            places.indexes.extend(later.indexes);
        }
        self
    }
}

/// Scan that is to be made of the tables as they are at one moment.
#[derive(Debug)]
pub(crate) struct Scan {
    place: Storage,
    tables: BTreeMap<TableKind, Scanned>,
    /// Sizes of the shard's files, by name.
    files: BTreeMap<String, u64>,
    catalogue: Catalogue,
    memories: Arc<Vec<MemoryRecord>>,
}

#[derive(Debug)]
struct Scanned {
    table: Table,
    dataset: Arc<Dataset>,
    named: NamedFiles,
}

impl ShardWriter {
    /// Forgets documents as [`ShardWriter::forget_seen`] does. Returns the receipts with what an
    /// erasure looks for afterwards ([`Maintenance::erasing`]).
    ///
    /// # Errors
    /// Returns the errors of [`ShardWriter::forget_seen`].
    ///
    /// [`Maintenance::erasing`]: crate::Maintenance::erasing
    #[boxed]
    pub async fn forget_traced(
        &mut self,
        ids: &[DocumentId],
        access: &Access,
    ) -> Result<(Vec<Forgotten>, Traces)> {
        let mut traces = self.traces(ids, access).await?;
        let before = self.named_files().await?;
        let (forgotten, above) = self.forget_with_nodes(ids, access).await?;
        traces.above.extend(above);
        // Also those of an interrupted removal, whose memories are not known any more.
        self.remove_unfinished_memories().await?;
        let is_erased = self.is_erasure_wanted();
        let mut after = self.named_files().await?;
        for (kind, before) in before {
            let version = before.version;
            let places = match after.remove(&kind).filter(|_| is_erased) {
                Some(after) => Places::of(before, &after),
                None => Places { before, version, ..Places::default() },
            };
            traces.places.insert(kind, places);
        }
        Ok((forgotten, traces))
    }

    /// Collects traces of those of these documents that a caller sees.
    async fn traces(&mut self, ids: &[DocumentId], access: &Access) -> Result<Traces> {
        self.begin_write().await?;
        let is_seen = |id: &&DocumentId| {
            self.catalogue.get(id).is_none_or(|record| access.admits(record.needs()))
        };
        let ids: Vec<DocumentId> = ids.iter().filter(is_seen).cloned().collect();
        let mut parts = Parts::default();
        for page in self.pages(&ids) {
            let query = self.sources.shown().query().only_if_expr(filter::documents(page));
            let query = query.select(Select::columns(&[column::CONTENT]));
            scan(TableKind::Sources, query, |batch| {
                each_text(batch, &mut |_column, text| parts.add_some_of(text));
                Ok(())
            })
            .await?;
        }
        self.end_write();
        Ok(Traces { ids, parts, ..Traces::default() })
    }

    /// Divides the documents that exist into pages whose texts may be read at once.
    fn pages<'a>(&self, ids: &'a [DocumentId]) -> Vec<Vec<&'a DocumentId>> {
        let mut pages: Vec<Vec<&DocumentId>> = Vec::new();
        let mut room = 0;
        for id in ids {
            let Some(record) = self.catalogue.get(id) else { continue };
            let bytes = record.facts.sources.iter().map(|source| source.bytes).sum::<u64>();
            match pages.last_mut().filter(|_| bytes <= room) {
                Some(page) => page.push(id),
                None => {
                    pages.push(vec![id]);
                    room = PAGE_BYTES;
                }
            }
            room = room.saturating_sub(bytes);
        }
        pages
    }

    /// Returns the files of the tables that have data files.
    async fn named_files(&mut self) -> Result<BTreeMap<TableKind, NamedFiles>> {
        let mut named = BTreeMap::new();
        for kind in TableKind::ALL {
            let table = self.table(kind);
            if table.has_data().await? {
                named.insert(kind, NamedFiles::of(kind, table.shown()).await?);
            }
        }
        Ok(named)
    }

    /// Begins a scan of the newest versions of the tables, with the files that are there now.
    /// Removes what was not written to its end.
    pub(crate) async fn begin_scan(&mut self) -> Result<Scan> {
        self.begin_write().await?;
        self.remove_unfinished_memories().await?;
        let files = self.finished_files().await?;
        let mut tables = BTreeMap::new();
        for kind in TableKind::ALL {
            let table = self.table(kind);
            table.refresh().await?;
            let named = NamedFiles::of(kind, table.shown()).await?;
            let (table, dataset) = table.pinned().await?;
            tables.insert(kind, Scanned { table, dataset, named });
        }
        self.end_write();
        Ok(Scan {
            place: self.place().clone(),
            tables,
            files,
            catalogue: self.catalogue.clone(),
            memories: self.memories.records(),
        })
    }
}

impl Scan {
    /// Scans for what is left of documents.
    pub(crate) async fn of(&self, traces: &Traces) -> Result<ErasureScan> {
        let mut found = ErasureScan { texts: traces.parts.len() as u64, ..ErasureScan::default() };
        let files = &self.files;
        found.files = files.len() as u64;
        let mut unexplained: BTreeSet<&str> = files.keys().map(String::as_str).collect();
        unexplained.retain(|name| !name.starts_with(MARK));
        let mut written: Vec<Written<'_>> = Vec::new();
        for (&kind, Scanned { table, dataset, named }) in &self.tables {
            let rows = rows_of(kind, table, &traces.ids).await?;
            found.tables += 1;
            if rows > 0 {
                found.leave(kind.name(), format!("rows of the documents: {rows}"));
            }
            let folder = folder_of(kind);
            let places = traces.places.get(&kind);
            let of_table =
                files.keys().filter_map(|name| Some((name, name.strip_prefix(&folder)?)));
            for (name, file) in of_table {
                let is_named = named.names(file);
                if is_named || places.is_some_and(|places| places.came_later(file)) {
                    unexplained.remove(name.as_str());
                }
                let Some(places) = places.filter(|places| is_named && !places.rows.is_empty())
                else {
                    continue;
                };
                if let Some(&fragment) = named.rows.get(file)
                    && !places.before.rows.contains_key(file)
                {
                    let fragment = holds_texts(dataset, fragment, file).then_some(fragment);
                    written.push(Written { kind, name, bytes: files[name], fragment });
                }
            }
            let Some(places) = places else { continue };
            for file in places.rows.iter().filter(|file| named.rows.contains_key(*file)) {
                let place = format!("{folder}{file}");
                found.leave(&place, "rows that are deleted and still in the file".to_owned());
            }
            for index in places.indexes.iter().filter(|of| named.indexes.contains_key(*of)) {
                let place = format!("{folder}{INDEXES}/{index}");
                found.leave(&place, "a part of an index that was made before".to_owned());
            }
        }
        if traces.places.get(&TableKind::Nodes).is_some_and(|of| !of.rows.is_empty()) {
            self.look_above_documents(&traces.above, &mut found).await?;
        }
        self.look_at_memories(&traces.ids, &mut unexplained, &mut found);
        for name in unexplained {
            found.leave(name, "a file that no newest version of a table names".to_owned());
        }
        self.search(&traces.parts, written, &mut found).await?;
        Ok(found)
    }

    /// Looks for corpus tree nodes that covered the documents, or that are not known. Others that
    /// the tree no longer has cover documents that were changed since, and go when it is whole
    /// again.
    async fn look_above_documents(
        &self,
        above: &BTreeSet<CorpusTreeKey>,
        found: &mut ErasureScan,
    ) -> Result<()> {
        use column::*;
        let Some(nodes) = self.tables.get(&TableKind::Nodes) else { return Ok(()) };
        let wanted = self.catalogue.upper();
        let query = nodes.table.query().only_if_expr(filter::above_documents());
        let query = query.select(Select::columns(&[DOCUMENT_ID, VERSION, RECIPE, KEY]));
        let mut left = 0;
        scan(TableKind::Nodes, query, |batch| {
            let owners = Rows::new(TableKind::Nodes, batch).node_owners()?;
            let is_left = |key: &CorpusTreeKey| {
                let is_known = wanted.rows().contains(key) && !above.contains(key);
                wanted.get(key).is_none() && !is_known
            };
            let is_left = |of: &&NodeOwner| matches!(of, NodeOwner::Upper(key) if is_left(key));
            left += owners.iter().filter(is_left).count();
            Ok(())
        })
        .await?;
        if left > 0 {
            let problem = format!("nodes above documents that are not there as they were: {left}");
            found.leave(TableKind::Nodes.name(), problem);
        }
        Ok(())
    }

    fn look_at_memories(
        &self,
        ids: &[DocumentId],
        unexplained: &mut BTreeSet<&str>,
        found: &mut ErasureScan,
    ) {
        let ids: HashSet<&DocumentId> = ids.iter().collect();
        for record in self.memories.iter() {
            let name = memories::file_of(record);
            unexplained.remove(name.as_str());
            if record.parts.iter().any(|part| ids.contains(&part.document_id)) {
                found.leave(&name, "a compressed memory that covers a document".to_owned());
            }
        }
    }

    /// Searches files that replaced others for parts of texts.
    async fn search(
        &self,
        parts: &Parts,
        mut written: Vec<Written<'_>>,
        found: &mut ErasureScan,
    ) -> Result<()> {
        if parts.len() == 0 {
            return Ok(());
        }
        written.sort_by_key(|file| file.bytes);
        for file in written {
            if found.searched_bytes + file.bytes > SEARCHED {
                found.unsearched_files += 1;
                continue;
            }
            let Some(bytes) = self.place.get_file(file.name, None, DOING).await? else {
                continue;
            };
            let mut hits = parts.in_bytes(&bytes);
            if let Some(fragment) = file.fragment {
                let rows = self.parts_of_rows(file.kind, fragment, parts).await?;
                if rows.own.in_bytes(&bytes).len() < rows.own.len() {
                    found.unsearched_files += 1;
                    continue;
                }
                hits.retain(|hit| !rows.common.contains(hit));
            }
            found.searched_files += 1;
            found.searched_bytes += bytes.len() as u64;
            if !hits.is_empty() {
                found.leave(file.name, format!("parts of the documents' texts: {}", hits.len()));
            }
        }
        Ok(())
    }

    /// Reads the texts of the rows of a fragment.
    async fn parts_of_rows(
        &self,
        kind: TableKind,
        fragment: u64,
        parts: &Parts,
    ) -> Result<PartsOfRows> {
        let Some(Scanned { dataset, .. }) = self.tables.get(&kind) else {
            return Ok(PartsOfRows::default());
        };
        let fragments = dataset.fragments().iter().filter(|of| of.id == fragment).cloned();
        let read = async {
            let mut scanner = dataset.scan();
            scanner.with_fragments(fragments.collect());
            let texts = dataset.schema().fields.iter().filter(|field| is_text(&field.data_type()));
            let texts: Vec<&str> = texts.map(|field| field.name.as_str()).collect();
            scanner.project(&texts)?;
            let mut found = PartsOfRows::default();
            let mut read = vec![Vec::new(); texts.len()];
            let mut batches = scanner.try_into_stream().await?;
            while let Some(batch) = batches.try_next().await? {
                each_text(&batch, &mut |column, text| {
                    found.own.add(text.as_bytes());
                    let read: &mut Vec<u8> = &mut read[column];
                    read.extend_from_slice(text.as_bytes());
                    found.common.extend(parts.in_bytes(read));
                    // Keeps what may be the beginning of a part that ends in the next value.
                    read.drain(..read.len().saturating_sub(PART - 1));
                });
            }
            Ok(found)
        };
        run(kind, Operation::Read, read).await
    }
}

/// Returns whether a file of a fragment holds columns of texts. A file may hold others alone.
fn holds_texts(dataset: &Dataset, fragment: u64, file: &str) -> bool {
    let of_fragment = dataset.fragments().iter().filter(|of| of.id == fragment);
    let mut files = of_fragment.flat_map(|of| &of.files);
    let is_it = |of: &&DataFile| file.ends_with(&of.path);
    let of_texts = |id: &i32| {
        let field = dataset.schema().field_by_id(*id);
        field.is_some_and(|field| is_text(&field.data_type()))
    };
    files.find(is_it).is_none_or(|file| file.fields.iter().any(of_texts))
}

/// Returns the prefix of the names of a table's files.
fn folder_of(kind: TableKind) -> String {
    format!("{}.lance/", kind.name())
}

/// File that was written since the erasure began.
struct Written<'a> {
    kind: TableKind,
    name: &'a str,
    bytes: u64,
    /// Fragment whose texts the file holds, if any.
    fragment: Option<u64>,
}

/// Returns how many rows of the documents a table has.
async fn rows_of(kind: TableKind, table: &Table, ids: &[DocumentId]) -> Result<usize> {
    if ids.is_empty() {
        return Ok(0);
    }
    let query = table.query().only_if_expr(filter::documents(ids));
    let mut rows = 0;
    scan(kind, query.select(Select::columns(&[column::DOCUMENT_ID])), |batch| {
        rows += batch.num_rows();
        Ok(())
    })
    .await?;
    Ok(rows)
}

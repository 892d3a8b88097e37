//! Scans, after documents were forgotten, for what a shard still stores of them.
//!
//! Erasing rewrites and removes files; the scan checks the result independently, by what is stored.
//! It costs no more, as the shard grows, than erasing itself. It checks
//!
//! - every table for rows of the documents, and for corpus tree nodes that cover other documents
//!   than exist;
//! - every file of the shard: the newest version of its table must name it, or it must be a known
//!   memory. Any other file may be of an older version;
//! - every named data file for rows that are deleted and only hidden;
//! - every index: it must have been built after the rows were gone;
//! - the compressed memories: none may cover a document;
//! - the files that replaced those with the documents, byte by byte, for parts of the documents'
//!   texts, up to [`SEARCHED`] bytes in all. A part that another document contains as well belongs
//!   to that document. The storage engine compresses columns of more than 32 KiB. A file in which
//!   its own rows cannot be found for this reason is not searched, and is counted as such.

mod parts;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use clew_core::{Access, DocumentId, ErasureScan};
use futures::TryStreamExt;
use lancedb::query::{QueryBase, Select};

use crate::error::{Operation, Result};
use crate::shard::ShardWriter;
use crate::shard::scan::parts::{PART, Parts, PartsOfRows, each_text, is_text};
use crate::storage::erasure_mark::MARK;
use crate::storage::memories;
use crate::table::column;
use crate::table::engine::{run, scan};
use crate::table::filter;
use crate::table::kind::TableKind;
use crate::table::named_files::{INDEXES, NamedFiles};
use crate::table::rows::Rows;
use crate::table::rows::nodes::NodeOwner;

/// Maximum bytes that are searched for texts, in whole files, the smallest first.
const SEARCHED: u64 = 16 << 20;
/// Approximate bytes of texts that are read at once.
const PAGE_BYTES: u64 = 16 << 20;

const DOING: &str = "scan for what was forgotten";

/// Data by which documents that are to be forgotten can be recognized afterwards.
#[derive(Debug)]
pub(crate) struct Traces {
    ids: Vec<DocumentId>,
    parts: Parts,
}

/// Files of the tables before erasing.
pub(crate) type Before = BTreeMap<TableKind, NamedFiles>;

impl ShardWriter {
    /// Collects traces of those of these documents that a caller sees.
    pub(crate) async fn traces(&mut self, ids: &[DocumentId], access: &Access) -> Result<Traces> {
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
        Ok(Traces { ids, parts })
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

    /// Returns the tables with files among `files` that their newest versions do not name.
    pub(crate) async fn tables_with_other_files(
        &mut self,
        files: &[String],
    ) -> Result<Vec<TableKind>> {
        let mut found = Vec::new();
        for kind in TableKind::ALL {
            let named = NamedFiles::of(kind, self.table(kind).shown()).await?;
            let folder = folder_of(kind);
            let mut of_table = files.iter().filter_map(|name| name.strip_prefix(&folder));
            if of_table.any(|file| !named.names(file)) {
                found.push(kind);
            }
        }
        Ok(found)
    }

    /// Returns the files of the tables that have data files.
    pub(crate) async fn named_files(&mut self) -> Result<Before> {
        let mut named = Before::new();
        for kind in TableKind::ALL {
            let table = self.table(kind);
            if table.has_data().await? {
                named.insert(kind, NamedFiles::of(kind, table.shown()).await?);
            }
        }
        Ok(named)
    }

    /// Scans for what is left. `before` has the files of the tables that were erased since.
    pub(crate) async fn scan(&mut self, traces: &Traces, before: &Before) -> Result<ErasureScan> {
        self.begin_write().await?;
        let mut found = ErasureScan { texts: traces.parts.len() as u64, ..ErasureScan::default() };
        let files = self.place().files(DOING).await?;
        found.files = files.len() as u64;
        let mut unexplained: BTreeSet<&str> = files.keys().map(String::as_str).collect();
        unexplained.retain(|name| !name.starts_with(MARK));
        let mut written: Vec<Written<'_>> = Vec::new();
        for kind in TableKind::ALL {
            let table = self.table(kind);
            table.refresh().await?;
            let named = NamedFiles::of(kind, table.shown()).await?;
            let rows = rows_of(kind, table.shown(), &traces.ids).await?;
            found.tables += 1;
            if rows > 0 {
                found.leave(kind.name(), format!("rows of the documents: {rows}"));
            }
            let folder = folder_of(kind);
            let of_table =
                files.keys().filter_map(|name| Some((name, name.strip_prefix(&folder)?)));
            let of_version = of_table.filter(|(_, file)| named.names(file));
            let Some(before) = before.get(&kind) else {
                for (name, _) in of_version {
                    unexplained.remove(name.as_str());
                }
                continue;
            };
            for (name, file) in of_version {
                unexplained.remove(name.as_str());
                let is_index = file.starts_with(INDEXES);
                if !is_index && !before.names(file) {
                    let fragment = named.rows.get(file).copied();
                    written.push(Written { kind, name, bytes: files[name], fragment });
                }
            }
            for fragment in named.deletions.values() {
                let file = named.rows.iter().find(|(_, of)| *of == fragment).map(|(file, _)| file);
                let place = format!("{folder}{}", file.map_or("data", String::as_str));
                found.leave(&place, "rows that are deleted and still in the file".to_owned());
            }
            for index in named.indexes.intersection(&before.indexes) {
                let place = format!("{folder}{INDEXES}/{index}");
                found.leave(&place, "an index that was made before".to_owned());
            }
        }
        if before.contains_key(&TableKind::Nodes) {
            self.look_above_documents(&mut found).await?;
        }
        self.look_at_memories(&traces.ids, &mut unexplained, &mut found);
        for name in unexplained {
            found.leave(name, "a file that no newest version of a table names".to_owned());
        }
        self.search(&traces.parts, written, &mut found).await?;
        // If something is left, the state stays in doubt: the next write reads the tables again.
        if found.is_clean() {
            self.end_write();
        }
        Ok(found)
    }

    /// Looks for corpus tree nodes whose summaries cover other documents than exist.
    async fn look_above_documents(&mut self, found: &mut ErasureScan) -> Result<()> {
        use column::*;
        let wanted = self.catalogue.upper_tree(self.settings.max_children());
        let query = self.nodes.shown().query().only_if_expr(filter::above_documents());
        let query = query.select(Select::columns(&[DOCUMENT_ID, VERSION, RECIPE, KEY]));
        let mut stale = 0;
        scan(TableKind::Nodes, query, |batch| {
            let owners = Rows::new(TableKind::Nodes, batch).node_owners()?;
            let is_stale = |owner: &NodeOwner| {
                matches!(owner, NodeOwner::Upper(key) if wanted.get(key).is_none())
            };
            stale += owners.iter().filter(|owner| is_stale(owner)).count();
            Ok(())
        })
        .await?;
        if stale > 0 {
            let problem = format!("nodes above documents that are not there as they were: {stale}");
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
        for record in self.memories.records().iter() {
            let name = memories::file_of(record);
            unexplained.remove(name.as_str());
            if record.parts.iter().any(|part| ids.contains(&part.document_id)) {
                found.leave(&name, "a compressed memory that covers a document".to_owned());
            }
        }
    }

    /// Searches files that replaced others for parts of texts.
    async fn search(
        &mut self,
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
            let Some(bytes) = self.place().get_file(file.name, None, DOING).await? else {
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
        &mut self,
        kind: TableKind,
        fragment: u64,
        parts: &Parts,
    ) -> Result<PartsOfRows> {
        let dataset = self.table(kind).dataset(Operation::Read).await?;
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

/// Returns the prefix of the names of a table's files.
fn folder_of(kind: TableKind) -> String {
    format!("{}.lance/", kind.name())
}

/// File that was written since the erasure began.
struct Written<'a> {
    kind: TableKind,
    name: &'a str,
    bytes: u64,
    /// Fragment whose rows the file holds, if any.
    fragment: Option<u64>,
}

/// Returns how many rows of the documents a table has.
async fn rows_of(kind: TableKind, table: &lancedb::Table, ids: &[DocumentId]) -> Result<usize> {
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

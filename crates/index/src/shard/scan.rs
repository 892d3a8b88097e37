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

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use arrow::array::AsArray;
use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;
use clew_core::{Access, DocumentId, ErasureScan};
use futures::TryStreamExt;
use lancedb::query::{QueryBase, Select};

use crate::error::{Operation, Result};
use crate::shard::Shard;
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
/// Bytes of the parts of a text that are searched for. A shorter text is not searched for: it could
/// come from any document.
const PART: usize = 32;
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

impl Shard {
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

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 => true,
        DataType::List(item) => item.data_type() == &DataType::Utf8,
        _ => false,
    }
}

/// Calls `visit` with each text of a batch and the number of its column, including texts in lists.
fn each_text(batch: &RecordBatch, visit: &mut dyn FnMut(usize, &str)) {
    for (number, column) in batch.columns().iter().enumerate() {
        let lists = column.as_list_opt::<i32>().map(|lists| lists.values());
        let texts = lists.unwrap_or(column).as_string_opt::<i32>();
        texts.into_iter().flatten().flatten().for_each(|text| visit(number, text));
    }
}

/// Parts of the texts of a file's rows.
#[derive(Default)]
struct PartsOfRows {
    /// Beginnings of their texts, which are found in a file that holds texts uncompressed.
    own: Parts,
    /// Parts of the forgotten texts that they contain as well, each alone or across two values: in
    /// the file, the values of a column lie back to back.
    common: BTreeSet<usize>,
}

/// Parts of texts, [`PART`] bytes each, found by their first bytes.
#[derive(Debug, Default)]
struct Parts {
    found_by: HashMap<[u8; 8], Vec<usize>>,
    parts: Vec<[u8; PART]>,
    /// First bytes of parts: at most places of a file no part begins.
    first: BTreeSet<u8>,
}

impl Parts {
    fn len(&self) -> usize {
        self.parts.len()
    }

    /// Adds a part from the first and one from the second half of a text.
    fn add_some_of(&mut self, text: &str) {
        let text = text.trim().as_bytes();
        let Some(last) = text.len().checked_sub(PART) else { return };
        self.add(&text[last / 3..]);
        if last > PART {
            self.add(&text[last * 2 / 3..]);
        }
    }

    fn add(&mut self, from: &[u8]) {
        let Some((part, begins)) = from.first_chunk::<PART>().zip(from.first_chunk::<8>()) else {
            return;
        };
        self.first.insert(part[0]);
        self.found_by.entry(*begins).or_default().push(self.parts.len());
        self.parts.push(*part);
    }

    /// Returns the numbers of the parts that `bytes` contains.
    fn in_bytes(&self, bytes: &[u8]) -> BTreeSet<usize> {
        let mut is_first = [false; 256];
        self.first.iter().for_each(|byte| is_first[usize::from(*byte)] = true);
        let mut found = BTreeSet::new();
        for at in bytes.windows(PART).filter(|at| is_first[usize::from(at[0])]) {
            let begins = at.first_chunk::<8>().and_then(|begins| self.found_by.get(begins));
            let is_here = |part: &&usize| at == self.parts[**part].as_slice();
            found.extend(begins.into_iter().flatten().filter(is_here));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use clew_core::{
        Attributes, Chunk, Document, EncoderIdentity, Labels, MediaType, Recipe, Recipes, Span,
        Timestamp, Version,
    };

    use super::*;
    use crate::settings::{ShardSettings, Takeover, Tuning};
    use crate::storage::Place;
    use crate::table::rows;
    use crate::table::vectors::VectorColumn;
    use crate::values::derived::{DerivedDocument, EmbeddedChunk};
    use crate::values::nodes::{DocumentNodes, NodeRow};

    const RECIPE: Recipe = Recipe(3);
    const PATIENCE: Duration = Duration::from_secs(5);
    const TEXT: &str =
        "The heron of the northern pond keeps seventeen silver lanterns under the bridge.";

    async fn open(folder: &Path) -> Shard {
        let encoder = EncoderIdentity {
            model: "m".to_owned(),
            revision: "r".to_owned(),
            dimension: 2,
            max_tokens: 256,
        };
        let settings = ShardSettings {
            corpus: "notes".parse().unwrap(),
            recipes: Recipes { wanted: RECIPE, as_good: None },
            structure: Some((RECIPE, 4)),
            searched: encoder.fingerprint(),
            first: encoder.fingerprint(),
            vectors: vec![VectorColumn::first(encoder)],
            tuning: Tuning::default(),
        };
        Box::pin(Shard::open(&Place::from(folder), settings, Takeover::Uncontested)).await.unwrap()
    }

    fn id(name: &str) -> DocumentId {
        name.parse().unwrap()
    }

    /// Accepts a document and commits one chunk of it.
    async fn ingest(shard: &mut Shard, name: &str, text: &str) {
        let document = Document {
            id: id(name),
            text: text.to_owned(),
            media_type: MediaType::Plain,
            title: String::new(),
            attributes: Attributes::new(),
            event_time: None,
            labels: Labels::default(),
        };
        let now = Timestamp::from_micros(1);
        let version = shard.accept(vec![document.clone()], now).await.unwrap()[0].version;
        let span = Span::new(0, text.len());
        let (key_text, attributes) = (text.to_owned(), Attributes::new());
        let chunk = Chunk { ordinal: 0, span, key_text, tokens: 9, attributes };
        let chunks = vec![EmbeddedChunk { chunk, vectors: vec![vec![1.0, 0.0]] }];
        let derived = DerivedDocument { document, version, recipe: RECIPE, chunks };
        shard.commit_derived(vec![derived]).await.unwrap();
    }

    async fn forget(shard: &mut Shard, name: &str) -> ErasureScan {
        let (ids, access) = ([id(name)], Access::all());
        let forgetting = shard.forget_for_good(&ids, &access, PATIENCE);
        Box::pin(forgetting).await.unwrap().1
    }

    /// Writes a row of a tree that the shard's catalogue does not know of.
    async fn plant_node(shard: &mut Shard, name: &str) {
        let row = NodeRow {
            level: 0,
            ordinal: 0,
            is_root: true,
            span: Span::new(0, 9),
            summary: TEXT.to_owned(),
            key: String::new(),
            extraction: String::new(),
        };
        let nodes = DocumentNodes {
            document_id: id(name),
            version: Version(77),
            recipe: RECIPE,
            title: String::new(),
            known: 0,
            nodes: 1,
            rows: vec![row],
        };
        shard.nodes.append(vec![rows::nodes::batch(&[nodes]).unwrap()]).await.unwrap();
    }

    #[tokio::test]
    async fn a_row_that_is_left_is_named_and_gone_after_asking_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut shard = open(folder.path()).await;
        ingest(&mut shard, "secret", TEXT).await;
        ingest(&mut shard, "other", "something else").await;
        plant_node(&mut shard, "secret").await;
        let found = forget(&mut shard, "secret").await;
        let left: Vec<&str> = found.left.iter().map(|left| left.place.as_str()).collect();
        assert_eq!((left, found.left_in_all), (vec!["nodes"], 1), "{found:?}");

        let again = forget(&mut shard, "secret").await;
        assert!(again.is_clean(), "{again:?}");
    }

    #[tokio::test]
    async fn a_file_that_no_version_names_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let mut shard = open(folder.path()).await;
        ingest(&mut shard, "secret", TEXT).await;
        ingest(&mut shard, "other", "something else").await;
        let stray = "chunks.lance/data/copied-by-somebody.txt";
        std::fs::write(folder.path().join(stray), TEXT).unwrap();
        let found = forget(&mut shard, "secret").await;
        let left: Vec<&str> = found.left.iter().map(|left| left.place.as_str()).collect();
        assert_eq!(left, [stray], "{found:?}");
        std::fs::remove_file(folder.path().join(stray)).unwrap();
        let again = forget(&mut shard, "secret").await;
        assert!(again.is_clean() && again.files > 0 && again.tables == 4, "{again:?}");
    }

    #[tokio::test]
    async fn a_file_of_a_memory_that_nothing_tells_of_goes_too() {
        let folder = tempfile::tempdir().unwrap();
        let mut shard = open(folder.path()).await;
        ingest(&mut shard, "secret", TEXT).await;
        // Leftovers of a write that was killed, and of a removal that failed after its record was
        // gone.
        for name in ["interrupted.new", "unknown.memory"] {
            let memories = folder.path().join(memories::FOLDER);
            std::fs::create_dir_all(&memories).unwrap();
            std::fs::write(memories.join(name), TEXT).unwrap();
        }
        let found = forget(&mut shard, "secret").await;
        assert!(found.is_clean(), "{found:?}");
    }

    #[tokio::test]
    async fn what_another_document_says_too_is_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let mut shard = open(folder.path()).await;
        ingest(&mut shard, "secret", TEXT).await;
        ingest(&mut shard, "copy", &format!("It is said: {TEXT}")).await;
        let found = forget(&mut shard, "secret").await;
        assert!(found.is_clean(), "{found:?}");
        assert!(
            found.texts > 0 && found.searched_files > 0 && found.searched_bytes > 0,
            "{found:?}"
        );
        let found = forget(&mut shard, "copy").await;
        assert!(found.is_clean() && found.texts > 0, "{found:?}");
    }

    #[tokio::test]
    async fn what_two_documents_say_one_after_the_other_is_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let mut shard = open(folder.path()).await;
        let (first, second) = TEXT.split_at(TEXT.len() / 2);
        ingest(&mut shard, "secret", TEXT).await;
        ingest(&mut shard, "first", first).await;
        ingest(&mut shard, "second", second).await;
        let found = forget(&mut shard, "secret").await;
        assert!(found.is_clean() && found.searched_files > 0, "{found:?}");
    }

    #[tokio::test]
    async fn what_is_deleted_but_not_erased_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let mut shard = open(folder.path()).await;
        ingest(&mut shard, "secret", TEXT).await;
        ingest(&mut shard, "other", "something else").await;
        // One fragment with both documents, so that one of its rows can be hidden.
        shard.chunks.compact(true).await.unwrap();
        let traces = shard.traces(&[id("secret")], &Access::all()).await.unwrap();
        shard.forget_seen(&[id("secret")], &Access::all()).await.unwrap();
        let before = shard.named_files().await.unwrap();
        let found = Box::pin(shard.scan(&traces, &before)).await.unwrap();
        let told = |problem: &str| found.left.iter().any(|left| left.problem.contains(problem));
        for problem in ["deleted and still in the file", "made before", "no newest version"] {
            assert!(told(problem), "{problem}: {found:?}");
        }
    }

    #[tokio::test]
    async fn a_file_that_holds_a_part_of_a_text_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let mut shard = open(folder.path()).await;
        std::fs::write(folder.path().join("file"), format!("… {TEXT} …")).unwrap();
        std::fs::write(folder.path().join("large"), TEXT).unwrap();
        let mut parts = Parts::default();
        parts.add_some_of(TEXT);
        let written =
            |name, bytes| Written { kind: TableKind::Chunks, name, bytes, fragment: None };
        let written = vec![written("large", SEARCHED), written("file", 90)];
        let mut found = ErasureScan::default();
        shard.search(&parts, written, &mut found).await.unwrap();
        assert_eq!((found.left[0].place.as_str(), found.left_in_all), ("file", 1), "{found:?}");
        assert_eq!((found.searched_files, found.unsearched_files), (1, 1));
    }

    #[tokio::test]
    async fn a_file_whose_texts_are_compressed_counts_as_not_searched() {
        let folder = tempfile::tempdir().unwrap();
        let mut shard = open(folder.path()).await;
        ingest(&mut shard, "secret", TEXT).await;
        let heron = "The heron stands in the reeds and waits for a fish that comes by. ";
        let long = |n: usize| format!("{n}. {}", heron.repeat(40));
        for n in 0..20 {
            ingest(&mut shard, &format!("other-{n}"), &long(n)).await;
        }
        // Files of all documents, which erasing rewrites without the secret, large enough to be
        // compressed.
        shard.sources.compact(true).await.unwrap();
        shard.chunks.compact(true).await.unwrap();
        let found = forget(&mut shard, "secret").await;
        assert!(found.is_clean(), "{found:?}");
        assert_eq!(found.unsearched_files, 2, "{found:?}");
    }

    #[test]
    fn parts_are_found_wherever_they_stand_and_short_texts_have_none() {
        let mut parts = Parts::default();
        parts.add_some_of("too short to be told");
        assert_eq!(parts.len(), 0);
        parts.add_some_of(TEXT);
        assert_eq!(parts.len(), 2);
        assert!(parts.in_bytes(b"another text that is as long as that one").is_empty());
        for at in [0, 1, 100] {
            let bytes = [vec![b'T'; at], TEXT.as_bytes().to_vec(), vec![0; 5]].concat();
            assert_eq!(parts.in_bytes(&bytes).len(), 2);
        }
    }
}

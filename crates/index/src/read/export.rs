//! Exports everything that a shard holds, page by page, as Arrow.
//!
//! | table | a row is |
//! |---|---|
//! | `documents` | a document as it was sent |
//! | `versions` | the stored data about it: its version, when it was accepted |
//! | `chunks` | a chunk, also a statement of a conversation, with one column of vectors per model |
//! | `nodes` | a node of a summary tree or of the corpus tree |
//! | `entities` | an entity that a segment names |
//! | `relations` | a relation that a segment states |
//! | `memories` | a compressed memory, without its tensors |
//!
//! `versions`, `chunks` and `nodes` have the columns of their tables, `nodes` without vectors. A
//! document is completely in one page: the version that searches find with everything visible that
//! belongs to it, or else the newest version. A page shows one state of the shard; the next page
//! may show a later one.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, MapBuilder, RecordBatch, StringArray, StringBuilder, UInt32Array,
    UInt64Array,
};
use arrow::compute::filter_record_batch;
use arrow::ipc::writer::StreamWriter;
use clew_core::{
    CorpusTreeKey, DocumentId, ExportPage, ExportedRows, Extraction, Label, MemoryRecord,
    StoredDocument, Version,
};
use lancedb::query::QueryBase;

use crate::boxed;
use crate::catalogue::record::DocumentRecord;
use crate::error::{Error, Result};
use crate::read::reader::ShardReader;
use crate::read::view::Snapshot;
use crate::table::column;
use crate::table::engine::scan;
use crate::table::filter;
use crate::table::kind::TableKind;
use crate::table::rows::Rows;
use crate::table::rows::arrays::value_type;
use crate::table::rows::chunks::ChunkKey;
use crate::table::rows::nodes::{NodeOwner, StoredNode};

/// Approximate bytes of documents in a page. With the data derived from them it is several times as
/// much.
const PAGE_BYTES: u64 = 2 << 20;
/// Maximum number of documents in a page.
const PAGE_DOCUMENTS: usize = 250;
/// Columns of `nodes` that are not exported: entities and relations are rows of their own, and an
/// import makes the vectors of summaries anew.
const NOT_EXPORTED: [&str; 3] =
    [column::EXTRACTION, column::SUMMARY_ENCODER, column::SUMMARY_VECTOR];
/// Maximum number of corpus tree nodes in a page.
const PAGE_UPPER: usize = 1_000;

/// Position at which a page begins.
enum Place {
    Documents { after: Option<DocumentId> },
    Upper { after: Option<CorpusTreeKey> },
    Memories,
}

impl Place {
    fn parse(text: &str) -> Result<Self> {
        let malformed = || Error::invalid("after", "expected what the page before told");
        match text.split_once('/') {
            None if text.is_empty() => Ok(Self::Documents { after: None }),
            Some(("documents", id)) => {
                Ok(Self::Documents { after: Some(id.parse().map_err(|_| malformed())?) })
            }
            Some(("upper", "")) => Ok(Self::Upper { after: None }),
            Some(("upper", key)) => {
                Ok(Self::Upper { after: Some(CorpusTreeKey::from_hex(key).ok_or_else(malformed)?) })
            }
            Some(("memories", "")) => Ok(Self::Memories),
            _ => Err(malformed()),
        }
    }
}

impl ShardReader {
    /// Returns the page that begins at `after`, which is empty for the first page and otherwise the
    /// `next` of the page before.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] for any other `after`, or a storage error.
    #[boxed]
    pub async fn export(&self, after: &str) -> Result<ExportPage> {
        let snapshot = self.snapshot();
        match Place::parse(after)? {
            Place::Documents { after } => documents_page(&snapshot, after.as_ref()).await,
            Place::Upper { after } => upper_page(&snapshot, after).await,
            Place::Memories => {
                let records = self.memories();
                let table = match records.is_empty() {
                    true => Vec::new(),
                    false => vec![encode("memories", &[memories(&records)?])?],
                };
                Ok(ExportPage { tables: table, documents: 0, next: None })
            }
        }
    }
}

async fn documents_page(snapshot: &Snapshot, after: Option<&DocumentId>) -> Result<ExportPage> {
    let mut bytes = 0;
    let mut page: HashMap<&DocumentId, (&DocumentRecord, Version)> = HashMap::new();
    let mut last = None;
    let mut is_end = true;
    for record in snapshot.catalogue.after(after) {
        let live = record.live().map(|live| live.version);
        let version = live.or_else(|| record.newest().map(|newest| newest.version));
        let source = |version| record.facts.sources.iter().find(|s| s.version == version);
        // A forgotten document of which rows are left has no source.
        let Some(source) = version.and_then(source) else { continue };
        if page.len() == PAGE_DOCUMENTS || (bytes + source.bytes > PAGE_BYTES && !page.is_empty()) {
            is_end = false;
            break;
        }
        bytes += source.bytes;
        last = Some(&record.id);
        page.insert(&record.id, (record, source.version));
    }
    let next = match (is_end, last) {
        (false, Some(last)) => format!("documents/{last}"),
        _ => "upper/".to_owned(),
    };
    let mut tables = Vec::new();
    if !page.is_empty() {
        let ids = || page.keys().copied();
        let is_shown =
            |id: &DocumentId, version| page.get(id).is_some_and(|(_, of)| *of == version);
        let (mut sources, mut versions) = (Vec::new(), Vec::new());
        let query = snapshot.sources.query().only_if_expr(filter::documents(ids()));
        scan(TableKind::Sources, query, |batch| {
            let rows = Rows::new(TableKind::Sources, batch);
            let kept: Vec<bool> =
                rows.versions()?.iter().map(|(id, version)| is_shown(id, *version)).collect();
            let documents = rows.documents()?.into_iter().zip(&kept);
            sources.extend(documents.filter_map(|(stored, kept)| kept.then_some(stored)));
            versions.push(without(&keep(batch, kept)?, &[column::CONTENT])?);
            Ok(())
        })
        .await?;
        let mut chunks = Vec::new();
        let query = snapshot.chunks.query().only_if_expr(filter::documents(ids()));
        scan(TableKind::Chunks, query, |batch| {
            let keys = Rows::new(TableKind::Chunks, batch).chunk_keys()?;
            let is_live = |key: &ChunkKey| {
                let record = page.get(&key.document_id);
                record.is_some_and(|(record, _)| record.is_live(key.version, key.recipe))
            };
            chunks.push(keep(batch, keys.iter().map(is_live).collect())?);
            Ok(())
        })
        .await?;
        let (mut nodes, mut segments) = (Vec::new(), Vec::new());
        let query = snapshot.nodes.query().only_if_expr(filter::documents(ids()));
        scan(TableKind::Nodes, query, |batch| {
            let rows = Rows::new(TableKind::Nodes, batch).nodes()?;
            let is_shown = |node: &StoredNode| {
                let record = page.get(&node.document_id);
                let shown = record.and_then(|(record, _)| record.structure());
                shown.is_some_and(|of| (of.version, of.recipe) == (node.version, node.recipe))
            };
            let kept: Vec<bool> = rows.iter().map(is_shown).collect();
            nodes.push(without(&keep(batch, kept.clone())?, &NOT_EXPORTED)?);
            let shown = rows.into_iter().zip(kept).filter_map(|(node, kept)| kept.then_some(node));
            segments.extend(shown.filter(|node| node.row.level == 0));
            Ok(())
        })
        .await?;
        let (entities, relations) = graph(&segments)?;
        tables.push(encode("documents", &[documents(&sources)?])?);
        for (name, batches) in [
            ("versions", versions),
            ("chunks", chunks),
            ("nodes", nodes),
            ("entities", vec![entities]),
            ("relations", vec![relations]),
        ] {
            if batches.iter().any(|batch| batch.num_rows() > 0) {
                tables.push(encode(name, &batches)?);
            }
        }
    }
    Ok(ExportPage { tables, documents: page.len() as u64, next: Some(next) })
}

async fn upper_page(snapshot: &Snapshot, after: Option<CorpusTreeKey>) -> Result<ExportPage> {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let tree = snapshot.catalogue.upper();
    let keys = tree.rows().range((from, Bound::Unbounded));
    let keys: Vec<CorpusTreeKey> = keys.take(PAGE_UPPER).copied().collect();
    let Some(last) = keys.last() else {
        let next = Some("memories/".to_owned());
        return Ok(ExportPage { next, ..ExportPage::default() });
    };
    let mut nodes = Vec::new();
    let query = snapshot.nodes.query().only_if_expr(filter::upper(&keys));
    scan(TableKind::Nodes, query, |batch| {
        let owners = Rows::new(TableKind::Nodes, batch).node_owners()?;
        let is_shown = |owner: &NodeOwner| match owner {
            NodeOwner::Upper(key) => tree.get(key).is_some(),
            NodeOwner::Document { .. } => false,
        };
        let kept = owners.iter().map(is_shown).collect();
        nodes.push(without(&keep(batch, kept)?, &NOT_EXPORTED)?);
        Ok(())
    })
    .await?;
    let is_empty = nodes.iter().all(|batch| batch.num_rows() == 0);
    let tables = if is_empty { Vec::new() } else { vec![encode("nodes", &nodes)?] };
    Ok(ExportPage { tables, documents: 0, next: Some(format!("upper/{last}")) })
}

/// Builds rows of documents as they were sent, by the column names that ingestion reads.
fn documents(stored: &[StoredDocument]) -> Result<RecordBatch> {
    let each = || stored.iter().map(|stored| &stored.document);
    let map = || MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    // Values as texts, and beside them the types of those that are none.
    let (mut attributes, mut types) = (map(), map());
    for document in each() {
        for (name, value) in &document.attributes {
            attributes.keys().append_value(name.as_str());
            attributes.values().append_value(value.to_string());
            if let Some(kind) = value_type(value) {
                types.keys().append_value(name.as_str());
                types.values().append_value(kind);
            }
        }
        attributes.append(true).map_err(failed)?;
        types.append(true).map_err(failed)?;
    }
    let times = each().map(|document| document.event_time.map(|time| time.to_string()));
    let labels = each().map(|document| {
        let labels: Vec<_> = document.labels.iter().map(Label::as_str).collect();
        (!labels.is_empty()).then(|| labels.join(","))
    });
    let numbers = each().map(|document| document.source_version.map(|number| number.0));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", texts(each().map(|document| document.id.as_str()))),
        ("title", texts(each().map(|document| document.title.as_str()))),
        ("text", texts(each().map(|document| document.text.as_str()))),
        ("media_type", texts(each().map(|document| document.media_type.as_str()))),
        ("event_time", Arc::new(times.collect::<StringArray>())),
        ("attributes", Arc::new(attributes.finish())),
        ("attribute_types", Arc::new(types.finish())),
        ("labels", Arc::new(labels.collect::<StringArray>())),
        ("source_version", Arc::new(numbers.collect::<UInt64Array>())),
    ];
    RecordBatch::try_from_iter(columns).map_err(failed)
}

/// Builds rows of the entities and relations of segments. Ranges are in bytes of the document.
fn graph(segments: &[StoredNode]) -> Result<(RecordBatch, RecordBatch)> {
    let mut read = Vec::with_capacity(segments.len());
    for node in segments.iter().filter(|node| !node.row.extraction.is_empty()) {
        let extraction: Extraction =
            serde_json::from_str(&node.row.extraction).map_err(|error| Error::Corrupt {
                what: "a segment".to_owned(),
                source: error.into(),
            })?;
        read.push((node, extraction));
    }
    let entities: Vec<_> = read
        .iter()
        .flat_map(|(node, read)| read.entities.iter().map(move |entity| (*node, entity)))
        .collect();
    let each = || entities.iter();
    let mentions = each().map(|(node, entity)| {
        let places: Vec<[usize; 2]> = entity
            .mentions
            .iter()
            .map(|span| [node.row.span.start + span.start, node.row.span.start + span.end])
            .collect();
        serde_json::to_string(&places).unwrap_or_default()
    });
    let of_segments: Vec<(&str, ArrayRef)> = segment_columns(each().map(|(node, _)| *node));
    let columns = of_segments.into_iter().chain([
        ("name", texts(each().map(|(_, entity)| entity.name.as_str()))),
        ("kind", texts(each().map(|(_, entity)| entity.kind.as_str()))),
        ("mentions", texts(mentions)),
    ]);
    let entities = RecordBatch::try_from_iter(columns).map_err(failed)?;
    let relations: Vec<_> = read
        .iter()
        .flat_map(|(node, read)| read.relations.iter().map(move |of| (*node, read, of)))
        .collect();
    let each = || relations.iter();
    let name = |read: &Extraction, at: usize| {
        read.entities.get(at).map(|entity| entity.name.clone()).unwrap_or_default()
    };
    let starts = each().map(|(node, _, of)| (node.row.span.start + of.evidence.start) as u64);
    let ends = each().map(|(node, _, of)| (node.row.span.start + of.evidence.end) as u64);
    let columns = segment_columns(each().map(|(node, ..)| *node)).into_iter().chain([
        ("head", texts(each().map(|(_, read, of)| name(read, of.head)))),
        ("relation", texts(each().map(|(_, _, of)| of.text.as_str()))),
        ("tail", texts(each().map(|(_, read, of)| name(read, of.tail)))),
        ("evidence_start", Arc::new(starts.collect::<UInt64Array>()) as ArrayRef),
        ("evidence_end", Arc::new(ends.collect::<UInt64Array>()) as ArrayRef),
    ]);
    Ok((entities, RecordBatch::try_from_iter(columns).map_err(failed)?))
}

/// Returns the columns that identify a segment.
fn segment_columns<'a>(
    nodes: impl Iterator<Item = &'a StoredNode> + Clone,
) -> Vec<(&'static str, ArrayRef)> {
    let versions: UInt64Array = nodes.clone().map(|node| node.version.0).collect();
    let segments: UInt32Array = nodes.clone().map(|node| node.row.ordinal).collect();
    vec![
        (column::DOCUMENT_ID, texts(nodes.map(|node| node.document_id.as_str()))),
        (column::VERSION, Arc::new(versions)),
        ("segment", Arc::new(segments)),
    ]
}

fn memories(records: &[MemoryRecord]) -> Result<RecordBatch> {
    let each = || records.iter();
    let parts = each().map(|record| {
        let part = |part: &clew_core::MemoryPart| {
            serde_json::json!({
                "document_id": part.document_id,
                "version": part.version.0,
                "start": part.span.start,
                "end": part.span.end,
            })
        };
        serde_json::Value::Array(record.parts.iter().map(part).collect()).to_string()
    });
    let numbers = |of: fn(&MemoryRecord) -> u64| {
        Arc::new(each().map(of).collect::<UInt64Array>()) as ArrayRef
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("key", texts(each().map(|record| record.key.as_str()))),
        ("model", texts(each().map(|record| record.model.as_str()))),
        ("ratio", numbers(|record| record.ratio.into())),
        ("tokens", numbers(|record| record.tokens)),
        ("slots", numbers(|record| record.slots)),
        ("bytes", numbers(|record| record.bytes)),
        ("parts", texts(parts)),
    ];
    RecordBatch::try_from_iter(columns).map_err(failed)
}

fn texts<T: AsRef<str>>(values: impl Iterator<Item = T>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

fn keep(batch: &RecordBatch, kept: Vec<bool>) -> Result<RecordBatch> {
    filter_record_batch(batch, &BooleanArray::from(kept)).map_err(failed)
}

/// Drops the columns of these names.
fn without(batch: &RecordBatch, names: &[&str]) -> Result<RecordBatch> {
    let fields = batch.schema();
    let is_kept = |i: &usize| !names.contains(&fields.field(*i).name().as_str());
    let kept: Vec<usize> = (0..batch.num_columns()).filter(is_kept).collect();
    batch.project(&kept).map_err(failed)
}

/// Encodes rows as an Arrow IPC stream.
fn encode(table: &str, batches: &[RecordBatch]) -> Result<ExportedRows> {
    let mut arrow = Vec::new();
    if let Some(first) = batches.first() {
        let mut write = || {
            let mut writer = StreamWriter::try_new(&mut arrow, &first.schema())?;
            batches
                .iter()
                .filter(|batch| batch.num_rows() > 0)
                .try_for_each(|b| writer.write(b))?;
            writer.finish()
        };
        write().map_err(failed)?;
    }
    Ok(ExportedRows { table: table.to_owned(), arrow })
}

fn failed(error: arrow::error::ArrowError) -> Error {
    Error::Unavailable { doing: "export rows".to_owned(), source: error.into() }
}

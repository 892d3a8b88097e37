//! Conversion between table rows and domain values.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, FixedSizeListArray, Float32Array,
    Int64Array, ListBuilder, PrimitiveArray, StringArray, StringBuilder, UInt32Array, UInt64Array,
};
use arrow::datatypes::{DataType, Int64Type, UInt32Type, UInt64Type};
use arrow::record_batch::RecordBatch;
use clew_core::{
    AttributeName, Attributes, ChunkId, ContentHash, CorpusName, Document, DocumentId, ErrorKind,
    FailureStatus, Labels, MediaType, Recipe, Span, Stage, StoredDocument, Timestamp, UpperKey,
    Version,
};

use crate::error::{Error, Result};
use crate::table::column;
use crate::table::kind::TableKind;
use crate::table::schema::attribute_item;
use crate::table::vectors::VectorColumn;
use crate::values::derived::{DerivedDocument, EmbeddedChunk};
use crate::values::facts::{FailureFacts, SourceFacts};
use crate::values::nodes::{DocumentNodes, NodeRow, UpperRow};

/// Row of `chunks` without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkKey {
    pub document_id: DocumentId,
    pub version: Version,
    pub recipe: Recipe,
    pub ordinal: u32,
}

/// Row of `chunks` as a search shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkRow {
    pub span: Span,
    pub text: String,
    pub title: String,
    pub event_time: Option<Timestamp>,
}

/// Owner of a row of `nodes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeOwner {
    /// The tree that a recipe made of a document version.
    Document { document_id: DocumentId, version: Version, recipe: Recipe },
    /// The corpus tree.
    Upper(UpperKey),
}

/// Row of `nodes` of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredNode {
    pub document_id: DocumentId,
    pub version: Version,
    pub recipe: Recipe,
    pub title: String,
    pub row: NodeRow,
}

/// Builds rows for `sources`.
pub(crate) fn sources(rows: &[StoredDocument]) -> Result<RecordBatch> {
    let documents = || rows.iter().map(|row| &row.document);
    let columns: Vec<ArrayRef> = vec![
        texts(documents().map(|document| document.id.as_str())),
        u64s(rows.iter().map(|row| row.version.0)),
        texts(documents().map(|document| document.content_hash().to_string())),
        texts(documents().map(content)),
        u32s(documents().map(|document| small(document.title.len()))),
        u64s(documents().map(|document| document.text.len() as u64)),
        texts(documents().map(|document| document.media_type.as_str())),
        attributes(documents().map(|document| &document.attributes)),
        times(documents().map(|document| document.event_time)),
        times(rows.iter().map(|row| Some(row.accepted_at))),
        labels(documents().map(|document| &document.labels)),
    ];
    batch(TableKind::Sources, &[], columns)
}

/// Returns the title, a line break if there is a title, and the text.
fn content(document: &Document) -> String {
    if document.title.is_empty() {
        return document.text.clone();
    }
    format!("{}\n{}", document.title, document.text)
}

/// Builds rows for `chunks`. Each span must lie in its document's text, and each chunk must have a
/// vector for each of `vectors`.
pub(crate) fn chunks(
    corpus: &CorpusName,
    vectors: &[VectorColumn],
    documents: &[DerivedDocument],
) -> Result<RecordBatch> {
    let rows: Vec<(&DerivedDocument, &EmbeddedChunk)> = documents
        .iter()
        .flat_map(|derived| derived.chunks.iter().map(move |row| (derived, row)))
        .collect();
    let documents = || rows.iter().map(|(derived, _)| &derived.document);
    let chunks = || rows.iter().map(|(_, row)| &row.chunk);
    let ids = rows.iter().map(|(derived, row)| {
        let (document, ordinal) = (&derived.document.id, row.chunk.ordinal);
        ChunkId::derive(corpus, document, derived.version, ordinal).to_string()
    });
    let passages = rows
        .iter()
        .map(|(derived, row)| row.chunk.span.of(&derived.document.text).unwrap_or_default());
    let attributes_of = rows
        .iter()
        .map(|(derived, row)| derived.document.attributes.iter().chain(&row.chunk.attributes));
    let mut columns: Vec<ArrayRef> = vec![
        texts(ids),
        texts(documents().map(|document| document.id.as_str())),
        u64s(rows.iter().map(|(derived, _)| derived.version.0)),
        u64s(rows.iter().map(|(derived, _)| derived.recipe.0)),
        u32s(chunks().map(|chunk| chunk.ordinal)),
        u64s(chunks().map(|chunk| chunk.span.start as u64)),
        u64s(chunks().map(|chunk| chunk.span.end as u64)),
        texts(passages),
        texts(chunks().map(|chunk| chunk.key_text.as_str())),
        u32s(chunks().map(|chunk| chunk.tokens)),
        texts(documents().map(|document| document.title.as_str())),
        attributes(attributes_of),
        times(documents().map(|document| document.event_time)),
        labels(documents().map(|document| &document.labels)),
    ];
    for (i, column) in vectors.iter().enumerate() {
        let components = rows.iter().flat_map(|(_, row)| row.vectors.get(i).into_iter().flatten());
        columns.push(vector_array(column, components.copied())?);
    }
    batch(TableKind::Chunks, vectors, columns)
}

/// Builds rows for `nodes` of documents.
pub(crate) fn nodes(documents: &[DocumentNodes]) -> Result<RecordBatch> {
    let rows: Vec<(&DocumentNodes, &NodeRow)> =
        documents.iter().flat_map(|of| of.rows.iter().map(move |row| (of, row))).collect();
    let of = || rows.iter().map(|(of, _)| of);
    let each = || rows.iter().map(|(_, row)| row);
    let columns: Vec<ArrayRef> = vec![
        texts(of().map(|of| of.document_id.as_str())),
        u64s(of().map(|of| of.version.0)),
        u64s(of().map(|of| of.recipe.0)),
        u32s(each().map(|row| row.level)),
        u32s(each().map(|row| row.ordinal)),
        u64s(of().map(|of| of.nodes)),
        flags(each().map(|row| row.is_root)),
        u64s(each().map(|row| row.span.start as u64)),
        u64s(each().map(|row| row.span.end as u64)),
        texts(of().map(|of| of.title.as_str())),
        texts(each().map(|row| row.summary.as_str())),
        texts(each().map(|row| row.key.as_str())),
        texts(each().map(|row| row.extraction.as_str())),
    ];
    batch(TableKind::Nodes, &[], columns)
}

/// Builds rows for `nodes` of the corpus tree.
pub(crate) fn upper_nodes(rows: &[UpperRow]) -> Result<RecordBatch> {
    let zeros = || u64s(rows.iter().map(|_| 0));
    let empty = || texts(rows.iter().map(|_| ""));
    let columns: Vec<ArrayRef> = vec![
        empty(),
        zeros(),
        zeros(),
        u32s(rows.iter().map(|row| row.level)),
        u32s(rows.iter().map(|_| 0)),
        zeros(),
        flags(rows.iter().map(|_| false)),
        zeros(),
        zeros(),
        empty(),
        texts(rows.iter().map(|row| row.summary.as_str())),
        texts(rows.iter().map(|row| row.key.to_string())),
        empty(),
    ];
    batch(TableKind::Nodes, &[], columns)
}

/// Builds rows for `failures`.
pub(crate) fn failures(rows: &[(DocumentId, FailureFacts)]) -> Result<RecordBatch> {
    let statuses = || rows.iter().map(|(_, facts)| &facts.status);
    let columns: Vec<ArrayRef> = vec![
        texts(rows.iter().map(|(id, _)| id.as_str())),
        u64s(rows.iter().map(|(_, facts)| facts.version.0)),
        u64s(rows.iter().map(|(_, facts)| facts.recipe.0)),
        texts(statuses().map(|status| status.stage.as_str())),
        u32s(statuses().map(|status| status.attempts)),
        texts(statuses().map(|status| kind_name(status.kind))),
        texts(statuses().map(|status| status.message.as_str())),
        times(statuses().map(|status| status.next_try)),
    ];
    batch(TableKind::Failures, &[], columns)
}

fn batch(
    table: TableKind,
    vectors: &[VectorColumn],
    columns: Vec<ArrayRef>,
) -> Result<RecordBatch> {
    RecordBatch::try_new(table.schema(vectors), columns).map_err(|error| Error::Unavailable {
        doing: format!("make rows of table `{table}`"),
        source: error.into(),
    })
}

fn texts<T: AsRef<str>>(values: impl ExactSizeIterator<Item = T>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

fn u64s(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

fn u32s(values: impl Iterator<Item = u32>) -> ArrayRef {
    Arc::new(UInt32Array::from_iter_values(values))
}

fn flags(values: impl ExactSizeIterator<Item = bool>) -> ArrayRef {
    Arc::new(BooleanArray::from(values.collect::<Vec<bool>>()))
}

fn times(values: impl Iterator<Item = Option<Timestamp>>) -> ArrayRef {
    Arc::new(Int64Array::from_iter(values.map(|time| time.map(Timestamp::as_micros))))
}

fn small(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn attributes<'a, A>(values: impl Iterator<Item = A>) -> ArrayRef
where
    A: IntoIterator<Item = (&'a AttributeName, &'a String)>,
{
    let mut lists = ListBuilder::new(StringBuilder::new()).with_field(attribute_item());
    for attributes in values {
        for (name, value) in attributes {
            lists.values().append_value(attribute_text(name.as_str(), value));
        }
        lists.append(true);
    }
    Arc::new(lists.finish())
}

fn labels<'a>(values: impl Iterator<Item = &'a Labels>) -> ArrayRef {
    let texts = values.map(|labels| (!labels.is_empty()).then(|| labels.to_string()));
    Arc::new(StringArray::from_iter(texts))
}

/// Returns the text by which an attribute is stored and filtered.
pub(crate) fn attribute_text(name: &str, value: &str) -> String {
    format!("{name}={value}")
}

fn vector_array(column: &VectorColumn, components: impl Iterator<Item = f32>) -> Result<ArrayRef> {
    let DataType::FixedSizeList(field, size) = column.data_type() else {
        return Err(Error::invalid("dimension", "expected a column of vectors"));
    };
    let values = Arc::new(Float32Array::from(components.collect::<Vec<f32>>()));
    FixedSizeListArray::try_new(field, size, values, None)
        .map(|array| Arc::new(array) as ArrayRef)
        .map_err(|error| Error::invalid("chunk.vector", error.to_string()))
}

/// Reader of the columns of stored rows. A value that does not fit counts as damage.
pub(crate) struct Rows<'a> {
    table: TableKind,
    batch: &'a RecordBatch,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(table: TableKind, batch: &'a RecordBatch) -> Self {
        Self { table, batch }
    }

    fn damaged(&self, problem: impl Into<String>) -> Error {
        Error::Corrupt { what: format!("table `{}`", self.table), source: problem.into().into() }
    }

    /// Returns the names of the columns.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &'a str> {
        self.batch.schema_ref().fields().iter().map(|field| field.name().as_str())
    }

    fn column(&self, name: &str) -> Result<&'a ArrayRef> {
        self.batch
            .column_by_name(name)
            .ok_or_else(|| self.damaged(format!("column `{name}` is missing")))
    }

    fn texts(&self, name: &str) -> Result<&'a StringArray> {
        let column = self.column(name)?;
        column.as_string_opt().ok_or_else(|| self.damaged(format!("column `{name}` is no text")))
    }

    fn numbers<T: ArrowPrimitiveType>(&self, name: &str) -> Result<&'a PrimitiveArray<T>> {
        let column = self.column(name)?;
        column
            .as_primitive_opt::<T>()
            .ok_or_else(|| self.damaged(format!("column `{name}` has another type")))
    }

    fn ids(&self) -> Result<Vec<DocumentId>> {
        let texts = self.texts(column::DOCUMENT_ID)?;
        let parse = |text: Option<&str>| {
            text.unwrap_or_default().parse().map_err(|_| self.damaged("a document id is damaged"))
        };
        texts.iter().map(parse).collect()
    }

    /// Returns the numbers of a column, such as the storage engine's row numbers or scores.
    pub(crate) fn values<T: ArrowPrimitiveType>(&self, name: &str) -> Result<Vec<T::Native>> {
        Ok(self.numbers::<T>(name)?.values().to_vec())
    }

    /// Returns the document id and the version of each row.
    pub(crate) fn versions(&self) -> Result<Vec<(DocumentId, Version)>> {
        let versions = self.numbers::<UInt64Type>(column::VERSION)?.values();
        Ok(self.ids()?.into_iter().zip(versions.iter().map(|&version| Version(version))).collect())
    }

    /// Returns rows of `sources` without their texts.
    pub(crate) fn source_facts(&self) -> Result<Vec<(DocumentId, SourceFacts)>> {
        let hashes = self.texts(column::CONTENT_HASH)?;
        let bytes = self.numbers::<UInt64Type>(column::TEXT_BYTES)?;
        let accepted = self.numbers::<Int64Type>(column::ACCEPTED_AT)?;
        let fact = |(i, (id, version)): (usize, (DocumentId, Version))| {
            let content_hash = ContentHash::from_hex(hashes.value(i))
                .ok_or_else(|| self.damaged("a content hash is damaged"))?;
            let accepted_at = Timestamp::from_micros(accepted.value(i));
            let (bytes, labels) = (bytes.value(i), self.labels(i)?);
            Ok((id, SourceFacts { version, content_hash, accepted_at, bytes, labels }))
        };
        self.versions()?.into_iter().enumerate().map(fact).collect()
    }

    /// Returns complete rows of `sources`.
    pub(crate) fn documents(&self) -> Result<Vec<StoredDocument>> {
        let contents = self.texts(column::CONTENT)?;
        let title_bytes = self.numbers::<UInt32Type>(column::TITLE_BYTES)?;
        let media_types = self.texts(column::MEDIA_TYPE)?;
        let accepted = self.numbers::<Int64Type>(column::ACCEPTED_AT)?;
        let document = |(i, (id, version)): (usize, (DocumentId, Version))| {
            let (title, text) = split_content(contents.value(i), title_bytes.value(i) as usize)
                .ok_or_else(|| self.damaged("a title is damaged"))?;
            let media_type = MediaType::try_from_name(media_types.value(i))
                .map_err(|error| self.damaged(error.to_string()))?;
            let document = Document {
                id,
                text: text.to_owned(),
                media_type,
                title: title.to_owned(),
                attributes: self.attributes(i)?,
                event_time: self.time(column::EVENT_TIME, i)?,
                labels: self.labels(i)?,
            };
            let accepted_at = Timestamp::from_micros(accepted.value(i));
            Ok(StoredDocument { document, version, accepted_at })
        };
        self.versions()?.into_iter().enumerate().map(document).collect()
    }

    fn attributes(&self, row: usize) -> Result<Attributes> {
        let lists = self
            .column(column::ATTRIBUTES)?
            .as_list_opt::<i32>()
            .ok_or_else(|| self.damaged("attributes are no list"))?;
        let values = lists.value(row);
        let texts =
            values.as_string_opt::<i32>().ok_or_else(|| self.damaged("attributes are no texts"))?;
        let attribute = |text: Option<&str>| {
            let (name, value) = text.unwrap_or_default().split_once('=')?;
            Some((name.to_owned().try_into().ok()?, value.to_owned()))
        };
        texts
            .iter()
            .map(|text| attribute(text).ok_or_else(|| self.damaged("an attribute is damaged")))
            .collect()
    }

    fn labels(&self, row: usize) -> Result<Labels> {
        let sets = self.texts(column::LABELS)?;
        if sets.is_null(row) {
            return Ok(Labels::default());
        }
        // Labels that cannot be read must not count as no labels.
        Labels::parse(sets.value(row).split(',')).map_err(|_| self.damaged("labels are damaged"))
    }

    /// Returns the labels of each row of `chunks` or `sources`.
    pub(crate) fn label_sets(&self) -> Result<Vec<Labels>> {
        (0..self.batch.num_rows()).map(|row| self.labels(row)).collect()
    }

    fn time(&self, name: &str, row: usize) -> Result<Option<Timestamp>> {
        let times = self.numbers::<Int64Type>(name)?;
        Ok(times.is_valid(row).then(|| Timestamp::from_micros(times.value(row))))
    }

    /// Returns the keys of rows of `chunks`.
    pub(crate) fn chunk_keys(&self) -> Result<Vec<ChunkKey>> {
        let recipes = self.numbers::<UInt64Type>(column::RECIPE)?;
        let ordinals = self.numbers::<UInt32Type>(column::ORDINAL)?;
        let keys = self.versions()?.into_iter().enumerate();
        Ok(keys
            .map(|(i, (document_id, version))| ChunkKey {
                document_id,
                version,
                recipe: Recipe(recipes.value(i)),
                ordinal: ordinals.value(i),
            })
            .collect())
    }

    /// Returns the owner of each row of `nodes`.
    pub(crate) fn node_owners(&self) -> Result<Vec<NodeOwner>> {
        let ids = self.texts(column::DOCUMENT_ID)?;
        let versions = self.numbers::<UInt64Type>(column::VERSION)?;
        let recipes = self.numbers::<UInt64Type>(column::RECIPE)?;
        let keys = self.texts(column::KEY)?;
        let owner = |row: usize| match ids.value(row) {
            "" => {
                let key = UpperKey::from_hex(keys.value(row));
                key.map(NodeOwner::Upper).ok_or_else(|| self.damaged("a node's key is damaged"))
            }
            id => Ok(NodeOwner::Document {
                document_id: id.parse().map_err(|_| self.damaged("a document id is damaged"))?,
                version: Version(versions.value(row)),
                recipe: Recipe(recipes.value(row)),
            }),
        };
        (0..ids.len()).map(owner).collect()
    }

    /// Returns rows of `nodes` of documents.
    pub(crate) fn nodes(&self) -> Result<Vec<StoredNode>> {
        let recipes = self.numbers::<UInt64Type>(column::RECIPE)?;
        let levels = self.numbers::<UInt32Type>(column::LEVEL)?;
        let ordinals = self.numbers::<UInt32Type>(column::ORDINAL)?;
        let roots = self.column(column::IS_ROOT)?;
        let roots = roots.as_boolean_opt().ok_or_else(|| self.damaged("`is_root` is no flag"))?;
        let starts = self.numbers::<UInt64Type>(column::SPAN_START)?;
        let ends = self.numbers::<UInt64Type>(column::SPAN_END)?;
        let (titles, summaries) = (self.texts(column::TITLE)?, self.texts(column::SUMMARY)?);
        let (keys, extractions) = (self.texts(column::KEY)?, self.texts(column::EXTRACTION)?);
        let node = |(i, (document_id, version)): (usize, (DocumentId, Version))| StoredNode {
            document_id,
            version,
            recipe: Recipe(recipes.value(i)),
            title: titles.value(i).to_owned(),
            row: NodeRow {
                level: levels.value(i),
                ordinal: ordinals.value(i),
                is_root: roots.value(i),
                span: Span::new(starts.value(i) as usize, ends.value(i) as usize),
                summary: summaries.value(i).to_owned(),
                key: keys.value(i).to_owned(),
                extraction: extractions.value(i).to_owned(),
            },
        };
        Ok(self.versions()?.into_iter().enumerate().map(node).collect())
    }

    /// Returns rows of `nodes` of the corpus tree.
    pub(crate) fn upper_nodes(&self) -> Result<Vec<UpperRow>> {
        let levels = self.numbers::<UInt32Type>(column::LEVEL)?;
        let summaries = self.texts(column::SUMMARY)?;
        let row = |(i, owner)| match owner {
            NodeOwner::Upper(key) => Some(UpperRow {
                key,
                level: levels.value(i),
                summary: summaries.value(i).to_owned(),
            }),
            NodeOwner::Document { .. } => None,
        };
        Ok(self.node_owners()?.into_iter().enumerate().filter_map(row).collect())
    }

    /// Returns the ids of `chunks`, as stored.
    pub(crate) fn chunk_ids(&self) -> Result<Vec<String>> {
        let texts = self.texts(column::CHUNK_ID)?;
        Ok(texts.iter().map(|text| text.unwrap_or_default().to_owned()).collect())
    }

    /// Returns the lists of numbers in a column of fixed-size lists, one per row. A null becomes an
    /// empty list.
    pub(crate) fn lists<T: ArrowPrimitiveType>(&self, name: &str) -> Result<Vec<Vec<T::Native>>> {
        let lists = self
            .column(name)?
            .as_fixed_size_list_opt()
            .ok_or_else(|| self.damaged(format!("column `{name}` has no lists of one length")))?;
        let list = |list: Option<ArrayRef>| match list {
            None => Ok(Vec::new()),
            Some(list) => list
                .as_primitive_opt::<T>()
                .map(|numbers| numbers.values().to_vec())
                .ok_or_else(|| self.damaged(format!("column `{name}` has lists of another type"))),
        };
        lists.iter().map(list).collect()
    }

    /// Returns the key texts of `chunks`, of which their vectors were made.
    pub(crate) fn key_texts(&self) -> Result<Vec<String>> {
        let texts = self.texts(column::KEY_TEXT)?;
        Ok(texts.iter().map(|text| text.unwrap_or_default().to_owned()).collect())
    }

    /// Returns the columns of `chunks` that a search shows.
    pub(crate) fn chunk_rows(&self) -> Result<Vec<ChunkRow>> {
        let texts = self.texts(column::TEXT)?;
        let titles = self.texts(column::TITLE)?;
        let starts = self.numbers::<UInt64Type>(column::SPAN_START)?;
        let ends = self.numbers::<UInt64Type>(column::SPAN_END)?;
        (0..self.batch.num_rows())
            .map(|i| {
                let (start, end) = (starts.value(i) as usize, ends.value(i) as usize);
                if start > end {
                    return Err(self.damaged("a span is damaged"));
                }
                Ok(ChunkRow {
                    span: Span::new(start, end),
                    text: texts.value(i).to_owned(),
                    title: titles.value(i).to_owned(),
                    event_time: self.time(column::EVENT_TIME, i)?,
                })
            })
            .collect()
    }

    /// Returns rows of `failures`.
    pub(crate) fn failure_facts(&self) -> Result<Vec<(DocumentId, FailureFacts)>> {
        let recipes = self.numbers::<UInt64Type>(column::RECIPE)?;
        let stages = self.texts(column::STAGE)?;
        let attempts = self.numbers::<UInt32Type>(column::ATTEMPTS)?;
        let kinds = self.texts(column::KIND)?;
        let messages = self.texts(column::MESSAGE)?;
        let fact = |(i, (id, version)): (usize, (DocumentId, Version))| {
            let stage = Stage::ALL.into_iter().find(|stage| stage.as_str() == stages.value(i));
            let status = FailureStatus {
                stage: stage.ok_or_else(|| self.damaged("a stage is unknown"))?,
                attempts: attempts.value(i),
                kind: kind_of_name(kinds.value(i))
                    .ok_or_else(|| self.damaged("a kind of failure is unknown"))?,
                message: messages.value(i).to_owned(),
                next_try: self.time(column::NEXT_TRY, i)?,
            };
            Ok((id, FailureFacts { version, recipe: Recipe(recipes.value(i)), status }))
        };
        self.versions()?.into_iter().enumerate().map(fact).collect()
    }
}

fn split_content(content: &str, title_bytes: usize) -> Option<(&str, &str)> {
    if title_bytes == 0 {
        return Some(("", content));
    }
    Some((content.get(..title_bytes)?, content.get(title_bytes + 1..)?))
}

/// Returns the name by which an error kind is stored.
fn kind_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidInput => "invalid_input",
        ErrorKind::NotFound => "not_found",
        ErrorKind::AlreadyExists => "already_exists",
        ErrorKind::Unauthenticated => "unauthenticated",
        ErrorKind::Denied => "denied",
        ErrorKind::WrongState => "wrong_state",
        ErrorKind::LostRace => "lost_race",
        ErrorKind::Exhausted => "exhausted",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::DeadlineExceeded => "deadline_exceeded",
        ErrorKind::DataLoss => "data_loss",
        ErrorKind::Internal => "internal",
    }
}

/// Returns the error kind that is stored by this name.
fn kind_of_name(name: &str) -> Option<ErrorKind> {
    use ErrorKind::*;
    [
        InvalidInput,
        NotFound,
        AlreadyExists,
        Unauthenticated,
        Denied,
        WrongState,
        LostRace,
        Exhausted,
        Unavailable,
        DeadlineExceeded,
        DataLoss,
        Internal,
    ]
    .into_iter()
    .find(|&kind| kind_name(kind) == name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_document_comes_back_as_it_was_stored(
            text in ".{1,40}",
            title in "[^\\p{Cc}]{0,10}",
            attributes in proptest::collection::btree_map("[a-z_.-]{1,8}", ".{0,12}", 0..4),
            event_time in proptest::option::of(any::<i64>()),
            labels in proptest::collection::vec("[a-z0-9._-]{1,8}", 0..4),
            version in any::<u64>(),
        ) {
            let attributes = attributes
                .into_iter()
                .map(|(name, value)| (name.try_into().unwrap(), value))
                .collect();
            let stored = StoredDocument {
                document: Document {
                    id: "it's a \"name\"\u{a0}".parse().unwrap(),
                    text,
                    media_type: MediaType::Markdown,
                    title,
                    attributes,
                    event_time: event_time.map(Timestamp::from_micros),
                    labels: Labels::parse(labels).unwrap(),
                },
                version: Version(version),
                accepted_at: Timestamp::from_micros(5),
            };
            let batch = sources(std::slice::from_ref(&stored)).unwrap();
            let rows = Rows::new(TableKind::Sources, &batch);
            let facts = rows.source_facts().unwrap();
            prop_assert_eq!(facts[0].1.content_hash, stored.document.content_hash());
            prop_assert_eq!(facts[0].1.bytes, stored.document.text.len() as u64);
            prop_assert_eq!(rows.documents().unwrap(), vec![stored]);
        }
    }

    #[test]
    fn a_failure_comes_back_as_it_was_stored() {
        let facts = FailureFacts {
            version: Version(3),
            recipe: Recipe(u64::MAX),
            status: FailureStatus {
                stage: Stage::Embedding,
                attempts: 2,
                kind: ErrorKind::DeadlineExceeded,
                message: "time ran out".to_owned(),
                next_try: None,
            },
        };
        let rows = vec![("a".parse().unwrap(), facts)];
        let batch = failures(&rows).unwrap();
        assert_eq!(Rows::new(TableKind::Failures, &batch).failure_facts().unwrap(), rows);
    }

    #[test]
    fn every_kind_of_failure_has_a_name_that_leads_back() {
        for name in ["exhausted", "internal", "data_loss"] {
            assert_eq!(kind_of_name(name).map(kind_name), Some(name));
        }
        assert_eq!(kind_of_name("other"), None);
    }

    #[test]
    fn a_missing_column_is_damage_and_not_a_panic() {
        let batch = failures(&[]).unwrap().project(&[0]).unwrap();
        let error = Rows::new(TableKind::Failures, &batch).failure_facts().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DataLoss);
    }
}

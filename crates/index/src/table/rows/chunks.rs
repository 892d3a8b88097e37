//! Rows of `chunks`.
//!
//! The arrays of `batch` stand in the order of the columns in `schema.rs`. Two text columns in
//! another order would be stored swapped.

use std::sync::Arc;

use arrow::array::{ArrayRef, FixedSizeListArray, Float32Array};
use arrow::datatypes::{DataType, UInt32Type, UInt64Type};
use arrow::record_batch::RecordBatch;
use clew_core::{
    ChunkId, ChunkKind, ChunkText, CorpusName, DocumentId, ListedChunk, Recipe, Span, Version,
};

use crate::error::{Error, Result};
use crate::table::column;
use crate::table::kind::TableKind;
use crate::table::rows::Rows;
use crate::table::rows::arrays::{attributes, labels, record_batch, texts, times, u32s, u64s};
use crate::table::vectors::VectorColumn;
use crate::values::derived::{ChunksOf, EmbeddedChunk};

/// Row of `chunks` without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkKey {
    pub document_id: DocumentId,
    pub version: Version,
    pub recipe: Recipe,
    pub ordinal: u32,
}

/// Builds rows for `chunks`. Each span must lie in its document's text, and each chunk must have a
/// vector for each of `vectors`.
pub(crate) fn batch(
    corpus: &CorpusName,
    vectors: &[VectorColumn],
    documents: &[ChunksOf<'_>],
) -> Result<RecordBatch> {
    let rows: Vec<(&ChunksOf<'_>, &EmbeddedChunk)> = documents
        .iter()
        .flat_map(|derived| derived.chunks.iter().map(move |row| (derived, row)))
        .collect();
    let documents = || rows.iter().map(|(derived, _)| derived.document);
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
        columns.push(vector_array(column, rows.len(), components.copied())?);
    }
    record_batch(TableKind::Chunks, vectors, columns)
}

fn vector_array(
    column: &VectorColumn,
    rows: usize,
    components: impl Iterator<Item = f32>,
) -> Result<ArrayRef> {
    let DataType::FixedSizeList(field, size) = column.data_type() else {
        return Err(Error::invalid("dimension", "expected a column of vectors"));
    };
    let mut values = Vec::with_capacity(rows * usize::try_from(size).unwrap_or(0));
    values.extend(components);
    let values = Arc::new(Float32Array::from(values));
    FixedSizeListArray::try_new(field, size, values, None)
        .map(|array| Arc::new(array) as ArrayRef)
        .map_err(|error| Error::invalid("chunk.vector", error.to_string()))
}

impl Rows<'_> {
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

    /// Returns the ids of `chunks`, as stored.
    pub(crate) fn chunk_ids(&self) -> Result<Vec<String>> {
        let texts = self.texts(column::CHUNK_ID)?;
        Ok(texts.iter().map(|text| text.unwrap_or_default().to_owned()).collect())
    }

    /// Returns the key texts of `chunks`, of which their vectors were made.
    pub(crate) fn key_texts(&self) -> Result<Vec<String>> {
        let texts = self.texts(column::KEY_TEXT)?;
        Ok(texts.iter().map(|text| text.unwrap_or_default().to_owned()).collect())
    }

    /// Returns the titles of the documents of `chunks`.
    pub(crate) fn titles(&self) -> Result<Vec<String>> {
        let texts = self.texts(column::TITLE)?;
        Ok(texts.iter().map(|text| text.unwrap_or_default().to_owned()).collect())
    }

    /// Returns the columns of `chunks` that a search shows.
    pub(crate) fn chunk_texts(&self) -> Result<Vec<ChunkText>> {
        let texts = self.texts(column::TEXT)?;
        let titles = self.texts(column::TITLE)?;
        let spans = self.spans()?.into_iter().enumerate();
        spans
            .map(|(i, span)| {
                Ok(ChunkText {
                    span,
                    text: texts.value(i).to_owned(),
                    title: titles.value(i).to_owned(),
                    event_time: self.time(column::EVENT_TIME, i)?,
                })
            })
            .collect()
    }

    /// Returns the columns of `chunks` that a list shows, as passages. Without `with_texts`, the
    /// texts are empty.
    pub(crate) fn listed_chunks(&self, with_texts: bool) -> Result<Vec<ListedChunk>> {
        let ordinals = self.numbers::<UInt32Type>(column::ORDINAL)?;
        let tokens = self.numbers::<UInt32Type>(column::TOKENS)?;
        let texts = match with_texts {
            true => Some((self.texts(column::TEXT)?, self.texts(column::KEY_TEXT)?)),
            false => None,
        };
        let spans = self.spans()?.into_iter().enumerate();
        Ok(spans
            .map(|(i, span)| {
                let texts = texts.map(|(text, key)| (text.value(i), key.value(i)));
                let (text, key_text) = texts.unwrap_or_default();
                ListedChunk {
                    ordinal: ordinals.value(i),
                    kind: ChunkKind::Passage,
                    span,
                    tokens: tokens.value(i),
                    text: text.to_owned(),
                    key_text: key_text.to_owned(),
                }
            })
            .collect())
    }

    /// Returns the spans of rows of `chunks`.
    fn spans(&self) -> Result<Vec<Span>> {
        let starts = self.numbers::<UInt64Type>(column::SPAN_START)?;
        let ends = self.numbers::<UInt64Type>(column::SPAN_END)?;
        (0..self.batch.num_rows())
            .map(|i| match (starts.value(i) as usize, ends.value(i) as usize) {
                (start, end) if start <= end => Ok(Span::new(start, end)),
                _ => Err(self.damaged("a span is damaged")),
            })
            .collect()
    }
}

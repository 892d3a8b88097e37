//! Rows of `nodes`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, StringArray};
use arrow::datatypes::{UInt32Type, UInt64Type};
use arrow::record_batch::RecordBatch;
use clew_core::{CorpusTreeKey, DocumentId, Recipe, Span, Version};

use crate::error::Result;
use crate::table::column;
use crate::table::kind::TableKind;
use crate::table::rows::Rows;
use crate::table::rows::arrays::{flags, record_batch, texts, u32s, u64s};
use crate::values::nodes::{CorpusTreeRow, DocumentNodes, NodeRow, SummaryVector};

/// Columns of `nodes` to read. Vectors take more bytes than all other columns together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeColumns {
    /// All but those of vectors.
    Plain,
    /// All.
    WithVectors,
}

impl NodeColumns {
    /// Returns the names of the columns.
    pub(crate) fn names(self) -> Vec<&'static str> {
        use column::*;
        let mut names = vec![
            DOCUMENT_ID,
            VERSION,
            RECIPE,
            LEVEL,
            ORDINAL,
            IS_ROOT,
            SPAN_START,
            SPAN_END,
            TITLE,
            SUMMARY,
            KEY,
            EXTRACTION,
        ];
        if self == Self::WithVectors {
            names.extend([SUMMARY_ENCODER, SUMMARY_VECTOR]);
        }
        names
    }

    /// Returns the columns for a reader who wants the vectors of `encoder`, if any.
    pub(crate) fn with_vectors_of(encoder: Option<&str>) -> Self {
        if encoder.is_some() { Self::WithVectors } else { Self::Plain }
    }
}

/// Owner of a row of `nodes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeOwner {
    /// The tree that a recipe made of a document version.
    Document { document_id: DocumentId, version: Version, recipe: Recipe },
    /// The corpus tree.
    Upper(CorpusTreeKey),
}

/// Row of `nodes` of a document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredNode {
    pub document_id: DocumentId,
    pub version: Version,
    pub recipe: Recipe,
    pub title: String,
    pub row: NodeRow,
}

/// Builds rows for `nodes` of documents.
pub(crate) fn batch(documents: &[DocumentNodes]) -> Result<RecordBatch> {
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
        encoders(each().map(|row| &row.vector)),
        vectors(each().map(|row| &row.vector)),
    ];
    record_batch(TableKind::Nodes, &[], columns)
}

/// Builds rows for `nodes` of the corpus tree.
pub(crate) fn upper_batch(rows: &[CorpusTreeRow]) -> Result<RecordBatch> {
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
        encoders(rows.iter().map(|row| &row.vector)),
        vectors(rows.iter().map(|row| &row.vector)),
    ];
    record_batch(TableKind::Nodes, &[], columns)
}

fn encoders<'a>(vectors: impl Iterator<Item = &'a Option<SummaryVector>>) -> ArrayRef {
    let encoder = |vector: &'a Option<SummaryVector>| Some(vector.as_ref()?.encoder());
    Arc::new(StringArray::from_iter(vectors.map(encoder)))
}

fn vectors<'a>(vectors: impl Iterator<Item = &'a Option<SummaryVector>>) -> ArrayRef {
    let bytes = |vector: &'a Option<SummaryVector>| {
        let components = vector.as_ref()?.components().iter();
        Some(components.flat_map(|component| component.to_le_bytes()).collect::<Vec<u8>>())
    };
    Arc::new(BinaryArray::from_iter(vectors.map(bytes)))
}

impl Rows<'_> {
    /// Returns the owner of each row of `nodes`.
    pub(crate) fn node_owners(&self) -> Result<Vec<NodeOwner>> {
        let ids = self.texts(column::DOCUMENT_ID)?;
        let versions = self.numbers::<UInt64Type>(column::VERSION)?;
        let recipes = self.numbers::<UInt64Type>(column::RECIPE)?;
        let keys = self.texts(column::KEY)?;
        let owner = |row: usize| match ids.value(row) {
            "" => {
                let key = CorpusTreeKey::from_hex(keys.value(row));
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

    /// Returns the vectors of the summaries of rows of `nodes`. Without the columns of vectors, no
    /// row has one.
    fn summary_vectors(&self) -> Result<Vec<Option<SummaryVector>>> {
        if !self.columns().any(|name| name == column::SUMMARY_VECTOR) {
            return Ok(vec![None; self.batch.num_rows()]);
        }
        let encoders = self.texts(column::SUMMARY_ENCODER)?;
        let vectors = self.column(column::SUMMARY_VECTOR)?;
        let vectors = vectors
            .as_binary_opt::<i32>()
            .ok_or_else(|| self.damaged("`summary_vector` holds no bytes"))?;
        let vector = |row: usize| {
            if vectors.is_null(row) || encoders.is_null(row) {
                return Ok(None);
            }
            let (components, rest) = vectors.value(row).as_chunks::<4>();
            if !rest.is_empty() {
                return Err(self.damaged("the vector of a summary is damaged"));
            }
            let components = components.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            Ok(SummaryVector::new(encoders.value(row).to_owned(), components))
        };
        (0..self.batch.num_rows()).map(vector).collect()
    }

    /// Returns rows of `nodes` of documents. They have vectors if the batch has their columns.
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
        let mut vectors = self.summary_vectors()?.into_iter();
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
                vector: vectors.next().flatten(),
            },
        };
        Ok(self.versions()?.into_iter().enumerate().map(node).collect())
    }

    /// Returns rows of `nodes` of the corpus tree. They have vectors if the batch has their
    /// columns.
    pub(crate) fn upper_nodes(&self) -> Result<Vec<CorpusTreeRow>> {
        let levels = self.numbers::<UInt32Type>(column::LEVEL)?;
        let summaries = self.texts(column::SUMMARY)?;
        let row = |(i, (owner, vector))| match owner {
            NodeOwner::Upper(key) => Some(CorpusTreeRow {
                key,
                level: levels.value(i),
                summary: summaries.value(i).to_owned(),
                vector,
            }),
            NodeOwner::Document { .. } => None,
        };
        let rows = self.node_owners()?.into_iter().zip(self.summary_vectors()?);
        Ok(rows.enumerate().filter_map(row).collect())
    }
}

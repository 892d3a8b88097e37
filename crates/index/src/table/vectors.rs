//! Columns with the vectors of models.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use clew_core::{CorpusSettings, EncoderIdentity};

use crate::table::column;

/// Column of the table `chunks` with the vectors of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorColumn {
    /// Model that makes the vectors.
    pub encoder: EncoderIdentity,
    /// Name of the column.
    pub name: String,
}

impl VectorColumn {
    /// Returns the column of a corpus' first model.
    pub fn first(encoder: EncoderIdentity) -> Self {
        Self { encoder, name: column::VECTOR.to_owned() }
    }

    /// Returns the column of a model in a corpus whose first model was `first`.
    pub(crate) fn of(encoder: &EncoderIdentity, first: &EncoderIdentity) -> Self {
        if encoder == first {
            return Self::first(encoder.clone());
        }
        let name = format!("{LATER_VECTORS}{}", encoder.fingerprint());
        Self { encoder: encoder.clone(), name }
    }

    /// Returns the vector columns of a corpus, in an order that does not depend on which of them is
    /// searched.
    pub(crate) fn all_of(corpus: &CorpusSettings) -> Vec<Self> {
        let first = corpus.first_encoder();
        let mut columns: Vec<Self> =
            corpus.encoders().map(|encoder| Self::of(encoder, first)).collect();
        columns.sort_by(|a, b| a.name.cmp(&b.name));
        columns
    }

    /// Returns the nullable field of the column.
    pub(crate) fn field(&self) -> Field {
        Field::new(&self.name, self.data_type(), true)
    }

    /// Returns the data type of the column.
    pub(crate) fn data_type(&self) -> DataType {
        let component = Arc::new(Field::new("item", DataType::Float32, true));
        // A dimension beyond i32 is refused when the shard is opened.
        let dimension = i32::try_from(self.encoder.dimension).unwrap_or(i32::MAX);
        DataType::FixedSizeList(component, dimension)
    }
}

/// Prefix of the names of vector columns, except the first model's. The model's fingerprint
/// follows.
const LATER_VECTORS: &str = "vector_";

/// Vector columns of a view.
#[derive(Clone, Debug)]
pub(crate) struct Vectors {
    /// All vector columns that exist, including those that are no longer wanted.
    pub there: Vec<StoredVectors>,
    /// Names of the columns in which every chunk should have a vector.
    pub wanted: Vec<String>,
    /// Fingerprint of the model whose vectors are searched, unless a query says otherwise.
    pub searched: String,
}

/// Vector column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredVectors {
    pub name: String,
    /// Fingerprint of the model that made them.
    pub encoder: String,
    pub dimension: usize,
}

impl Vectors {
    /// Returns the column with a model's vectors. If `encoder` is empty, returns the searched one.
    pub(crate) fn of(&self, encoder: &str) -> Option<&StoredVectors> {
        let wanted = if encoder.is_empty() { self.searched.as_str() } else { encoder };
        self.there.iter().find(|vectors| vectors.encoder == wanted)
    }
}

/// Returns the vector columns of a stored table, whether they are still wanted or not.
pub(crate) fn vectors_in(stored: &Schema) -> impl Iterator<Item = &FieldRef> {
    stored.fields().iter().filter(|field| is_of_vectors(field.name()))
}

/// Returns whether a column of this name holds vectors.
pub(crate) fn is_of_vectors(name: &str) -> bool {
    name == column::VECTOR || name.starts_with(LATER_VECTORS)
}

/// Returns the fingerprint of the model that made a column of this name, in a corpus whose first
/// model has the fingerprint `first`.
pub(crate) fn fingerprint_of<'a>(name: &'a str, first: &'a str) -> &'a str {
    name.strip_prefix(LATER_VECTORS).unwrap_or(first)
}

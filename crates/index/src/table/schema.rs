//! Schemas of a shard's tables: their columns, their indexes, and the check that a stored table
//! fits.
//!
//! A schema carries its version in the Arrow schema metadata. Raise [`SCHEMA_VERSION`] with every
//! change that a release which does not know it would misread. A table of a newer version is
//! refused. A table of an older version is brought up to date when it is opened for writing.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};

use crate::error::{Error, Result};
use crate::table::column;
use crate::table::kind::TableKind;
use crate::table::vectors::VectorColumn;

/// Version of the schemas below. Since version 3, attributes may be integers, numbers and truth
/// values.
pub(crate) const SCHEMA_VERSION: u32 = 3;
/// Oldest version that this release reads.
const OLDEST_VERSION: u32 = 1;
pub(crate) const VERSION_KEY: &str = "clew.schema.version";

impl TableKind {
    /// Returns the table's columns. `vectors` are its vector columns.
    pub(crate) fn schema(self, vectors: &[VectorColumn]) -> SchemaRef {
        let fields = match self {
            Self::Sources => sources(),
            Self::Chunks => chunks(vectors),
            Self::Nodes => nodes(),
            Self::Failures => failures(),
        };
        let metadata = HashMap::from([(VERSION_KEY.to_owned(), SCHEMA_VERSION.to_string())]);
        Arc::new(Schema::new_with_metadata(fields, metadata))
    }

    /// Returns the columns that came after the first release. In a table without them they count as
    /// null. They are added when the table is opened for writing.
    pub(crate) fn added_columns(self) -> Vec<Field> {
        match self {
            Self::Sources => vec![labels(), source_version()],
            Self::Chunks => vec![labels()],
            Self::Nodes => summary_vectors(),
            Self::Failures => Vec::new(),
        }
    }

    /// Returns the index of the table's texts. It exists from the start, because it also decides
    /// how the words of rows that it does not cover yet are split and stemmed.
    pub(crate) fn text_index(self) -> Option<IndexWanted> {
        let column = match self {
            Self::Sources => column::CONTENT,
            Self::Chunks => column::KEY_TEXT,
            Self::Nodes | Self::Failures => return None,
        };
        Some(IndexWanted::new(column, IndexKind::Words))
    }

    /// Returns the other indexes that the table should have once it is large enough to need any,
    /// without vector indexes.
    pub(crate) fn scalar_indexes(self) -> Vec<IndexWanted> {
        match self {
            Self::Sources | Self::Chunks => vec![
                IndexWanted::new(column::DOCUMENT_ID, IndexKind::Ordered),
                IndexWanted::new(column::EVENT_TIME, IndexKind::Ordered),
                IndexWanted::new(column::ATTRIBUTES, IndexKind::Lists),
                IndexWanted::new(column::LABELS, IndexKind::Sets),
            ],
            Self::Nodes => vec![
                IndexWanted::new(column::DOCUMENT_ID, IndexKind::Ordered),
                IndexWanted::new(column::KEY, IndexKind::Ordered),
            ],
            Self::Failures => Vec::new(),
        }
    }
}

/// Index that a table should have.
#[derive(Clone, Debug)]
pub(crate) struct IndexWanted {
    pub column: Cow<'static, str>,
    pub kind: IndexKind,
}

/// Kind of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexKind {
    /// Words of texts.
    Words,
    /// Values in order.
    Ordered,
    /// Elements of lists.
    Lists,
    /// Few different values.
    Sets,
    /// Clusters of vectors.
    Vectors,
}

impl IndexWanted {
    fn new(column: &'static str, kind: IndexKind) -> Self {
        Self { column: Cow::Borrowed(column), kind }
    }

    /// Returns the index of a vector column.
    pub(crate) fn of_vectors(column: String) -> Self {
        Self { column: Cow::Owned(column), kind: IndexKind::Vectors }
    }

    /// Returns the name of the index in the table.
    pub(crate) fn name(&self) -> String {
        format!("{}_index", self.column)
    }
}

fn sources() -> Vec<Field> {
    use column::*;
    vec![
        required(DOCUMENT_ID, DataType::Utf8),
        required(VERSION, DataType::UInt64),
        // Hexadecimal.
        required(CONTENT_HASH, DataType::Utf8),
        // The title, a line break if there is a title, and the text: one column, so that one index
        // scores whole documents by both.
        required(CONTENT, DataType::Utf8),
        required(TITLE_BYTES, DataType::UInt32),
        required(TEXT_BYTES, DataType::UInt64),
        required(MEDIA_TYPE, DataType::Utf8),
        attributes(),
        // Times are microseconds since 1970-01-01T00:00:00Z.
        optional(EVENT_TIME, DataType::Int64),
        required(ACCEPTED_AT, DataType::Int64),
        labels(),
        source_version(),
    ]
}

fn chunks(vectors: &[VectorColumn]) -> Vec<Field> {
    use column::*;
    let mut fields = vec![
        required(CHUNK_ID, DataType::Utf8),
        required(DOCUMENT_ID, DataType::Utf8),
        required(VERSION, DataType::UInt64),
        required(RECIPE, DataType::UInt64),
        required(ORDINAL, DataType::UInt32),
        required(SPAN_START, DataType::UInt64),
        required(SPAN_END, DataType::UInt64),
        required(TEXT, DataType::Utf8),
        required(KEY_TEXT, DataType::Utf8),
        required(TOKENS, DataType::UInt32),
        required(TITLE, DataType::Utf8),
        attributes(),
        optional(EVENT_TIME, DataType::Int64),
        labels(),
    ];
    // A single vector column has a value in every row.
    let is_only = vectors.len() == 1;
    fields.extend(vectors.iter().map(|column| column.field().with_nullable(!is_only)));
    fields
}

fn nodes() -> Vec<Field> {
    use column::*;
    let mut fields = vec![
        // Empty for a corpus tree node.
        required(DOCUMENT_ID, DataType::Utf8),
        required(VERSION, DataType::UInt64),
        required(RECIPE, DataType::UInt64),
        // From 0, the level of segments. In the corpus tree, the number of levels between the node
        // and the documents.
        required(LEVEL, DataType::UInt32),
        required(ORDINAL, DataType::UInt32),
        // Number of nodes in the document's tree.
        required(NODES, DataType::UInt64),
        required(IS_ROOT, DataType::Boolean),
        required(SPAN_START, DataType::UInt64),
        required(SPAN_END, DataType::UInt64),
        required(TITLE, DataType::Utf8),
        required(SUMMARY, DataType::Utf8),
        // Hexadecimal. Identifies what the summary was made of.
        required(KEY, DataType::Utf8),
        // JSON: the entities and relations of a segment. Empty for other nodes.
        required(EXTRACTION, DataType::Utf8),
    ];
    fields.extend(summary_vectors());
    fields
}

/// Returns the columns of the vector of a node's summary. Null: no vector.
fn summary_vectors() -> Vec<Field> {
    use column::*;
    vec![
        // Fingerprint of the model that made the vector.
        optional(SUMMARY_ENCODER, DataType::Utf8),
        // Components of 32 bits, little-endian. Rows of different models have different lengths, so
        // that a corpus which moves to another model needs no second column.
        optional(SUMMARY_VECTOR, DataType::Binary),
    ]
}

fn failures() -> Vec<Field> {
    use column::*;
    vec![
        required(DOCUMENT_ID, DataType::Utf8),
        required(VERSION, DataType::UInt64),
        required(RECIPE, DataType::UInt64),
        required(STAGE, DataType::Utf8),
        required(ATTEMPTS, DataType::UInt32),
        required(KIND, DataType::Utf8),
        required(MESSAGE, DataType::Utf8),
        // Null: set aside, not tried again automatically.
        optional(NEXT_TRY, DataType::Int64),
    ]
}

fn required(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, false)
}

fn optional(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, true)
}

/// Returns the element of the attributes' list: `name=text`, or `name:type=value` for other types.
/// A name contains neither `=` nor `:`.
pub(crate) fn attribute_item() -> FieldRef {
    Arc::new(Field::new("item", DataType::Utf8, true))
}

fn attributes() -> Field {
    required(column::ATTRIBUTES, DataType::List(attribute_item()))
}

/// Returns the column of the access labels of a document version, sorted and joined by commas. A
/// set is one value, so that what a caller may see is a list of values. Null: no labels.
fn labels() -> Field {
    optional(column::LABELS, DataType::Utf8)
}

/// Returns the column of the number by which the source of a document orders its states. Null: no
/// number. It is the only column that is changed in place ([`crate::table::renumbering`]).
fn source_version() -> Field {
    optional(column::SOURCE_VERSION, DataType::UInt64)
}

/// Returns the schema version of a stored table, if it has one.
pub(crate) fn version_of(stored: &Schema) -> Option<u32> {
    stored.metadata().get(VERSION_KEY)?.parse().ok()
}

/// Checks that a stored table has the wanted columns. Columns that came later may be missing, and
/// so may vector columns while a corpus moves from one model to another.
///
/// # Errors
/// Returns [`Error::NewerFormat`] if a newer release wrote the table, and [`Error::Mismatch`] with
/// the table and the first difference otherwise.
pub(crate) fn check(table: TableKind, stored: &Schema, vectors: &[VectorColumn]) -> Result<()> {
    let differ = |expected: String, found: String| Error::Mismatch { table, expected, found };
    match version_of(stored) {
        Some(OLDEST_VERSION..=SCHEMA_VERSION) => {}
        Some(found) if found > SCHEMA_VERSION => {
            let (what, known) = (format!("table `{table}`"), SCHEMA_VERSION);
            return Err(Error::NewerFormat { what, found, known });
        }
        found => {
            let found = found.map_or("none".to_owned(), |found| found.to_string());
            return Err(differ(
                format!("schema version {OLDEST_VERSION} to {SCHEMA_VERSION}"),
                format!("schema version {found}"),
            ));
        }
    }
    let wanted = table.schema(vectors);
    let mut added = table.added_columns();
    if vectors.len() > 1 {
        added.extend(vectors.iter().map(VectorColumn::field));
    }
    for field in wanted.fields() {
        let expected = format!("column `{}` of {}", field.name(), field.data_type());
        match stored.field_with_name(field.name()) {
            Err(_) if added.iter().any(|later| later.name() == field.name()) => {}
            Err(_) => return Err(differ(expected, "no such column".to_owned())),
            Ok(found) if found.data_type() != field.data_type() => {
                return Err(differ(expected, found.data_type().to_string()));
            }
            Ok(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clew_core::EncoderIdentity;

    use super::*;
    use crate::table::vectors::{fingerprint_of, vectors_in};

    #[test]
    fn a_table_that_does_not_fit_is_refused_by_name() {
        let of = |dimension| vec![VectorColumn::first(model("a", dimension))];
        let vectors = of(8);
        for table in TableKind::ALL {
            check(table, &table.schema(&vectors), &vectors).unwrap();
        }
        for table in [TableKind::Sources, TableKind::Chunks, TableKind::Nodes] {
            let schema = table.schema(&vectors);
            let added = table.added_columns();
            let is_added = |field: &FieldRef| added.iter().any(|it| it.name() == field.name());
            let fields = schema.fields().iter().filter(|field| !is_added(field));
            let fields: Vec<FieldRef> = fields.cloned().collect();
            assert!(fields.len() < schema.fields().len());
            let first = Schema::new_with_metadata(fields, schema.metadata().clone());
            check(table, &first, &vectors).unwrap();
        }
        let error =
            check(TableKind::Chunks, &TableKind::Chunks.schema(&of(16)), &vectors).unwrap_err();
        assert!(matches!(error, Error::Mismatch { table: TableKind::Chunks, .. }), "{error}");

        let unversioned = Schema::new(TableKind::Sources.schema(&vectors).fields().clone());
        let error = check(TableKind::Sources, &unversioned, &vectors).unwrap_err();
        assert!(error.to_string().contains("schema version 1"), "{error}");

        let newer = [(VERSION_KEY.to_owned(), (SCHEMA_VERSION + 1).to_string())].into();
        let newer = unversioned.with_metadata(newer);
        let error = check(TableKind::Sources, &newer, &vectors).unwrap_err();
        assert!(matches!(error, Error::NewerFormat { known: SCHEMA_VERSION, .. }), "{error}");
    }

    #[test]
    fn the_vectors_of_a_second_model_may_be_missing_until_they_are_added() {
        let one = vec![VectorColumn::first(model("a", 8))];
        let both = [one.clone(), vec![VectorColumn::of(&model("b", 4), &model("a", 8))]].concat();
        let chunks = TableKind::Chunks;
        check(chunks, &chunks.schema(&one), &both).unwrap();
        check(chunks, &chunks.schema(&both[1..]), &both).unwrap();
        check(chunks, &chunks.schema(&both), &one).unwrap();
        assert!(check(chunks, &chunks.schema(&both[1..]), &one).is_err());
        let names: Vec<String> =
            vectors_in(&chunks.schema(&both)).map(|field| field.name().clone()).collect();
        assert_eq!(names, [both[0].name.as_str(), &both[1].name]);
        let (a, b) = (model("a", 8).fingerprint(), model("b", 4).fingerprint());
        assert_eq!(names.iter().map(|it| fingerprint_of(it, &a)).collect::<Vec<_>>(), [&a, &b]);
    }

    fn model(name: &str, dimension: u32) -> EncoderIdentity {
        let (model, revision) = (name.to_owned(), String::new());
        EncoderIdentity { model, revision, dimension, max_tokens: 64 }
    }
}

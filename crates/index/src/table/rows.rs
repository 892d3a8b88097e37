//! Conversion between table rows and domain values.

pub(crate) mod arrays;
pub(crate) mod chunks;
pub(crate) mod failures;
pub(crate) mod nodes;
pub(crate) mod owned;
pub(crate) mod sources;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, StringArray};
use arrow::datatypes::{Int64Type, UInt64Type};
use arrow::record_batch::RecordBatch;
use clew_core::{Attributes, DocumentId, Labels, Timestamp, Version};

use crate::error::{Error, Result};
use crate::table::column;
use crate::table::kind::TableKind;
use crate::table::rows::arrays::{attribute_name, attribute_value};

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

    /// Returns the document of each row. `None` for nodes above documents, which are of no one.
    pub(crate) fn owners(&self) -> Result<Vec<Option<DocumentId>>> {
        if self.table != TableKind::Nodes {
            return Ok(self.ids()?.into_iter().map(Some).collect());
        }
        let parse = |text: &str| match text {
            "" => Ok(None),
            id => id.parse().map(Some).map_err(|_| self.damaged("a document id is damaged")),
        };
        let texts = self.texts(column::DOCUMENT_ID)?;
        texts.iter().map(|text| parse(text.unwrap_or_default())).collect()
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

    fn labels(&self, row: usize) -> Result<Labels> {
        let sets = self.texts(column::LABELS)?;
        self.labels_in(sets.is_valid(row).then(|| sets.value(row)))
    }

    /// Parses labels as they are stored.
    fn labels_in(&self, stored: Option<&str>) -> Result<Labels> {
        let Some(stored) = stored else { return Ok(Labels::default()) };
        // Labels that cannot be read must not count as no labels.
        Labels::parse(stored.split(',')).map_err(|_| self.damaged("labels are damaged"))
    }

    /// Returns the attributes of a row of `chunks` or `sources`.
    pub(crate) fn attributes(&self, row: usize) -> Result<Attributes> {
        let lists = self
            .column(column::ATTRIBUTES)?
            .as_list_opt::<i32>()
            .ok_or_else(|| self.damaged("attributes are no list"))?;
        let values = lists.value(row);
        let texts =
            values.as_string_opt::<i32>().ok_or_else(|| self.damaged("attributes are no texts"))?;
        let attribute = |text: Option<&str>| {
            let (name, value) = attribute_name(text.unwrap_or_default())?;
            Some((name.to_owned().try_into().ok()?, attribute_value(value)?))
        };
        texts
            .iter()
            .map(|text| attribute(text).ok_or_else(|| self.damaged("an attribute is damaged")))
            .collect()
    }

    /// Returns the labels of each row of `chunks` or `sources`.
    pub(crate) fn label_sets(&self) -> Result<Vec<Labels>> {
        (0..self.batch.num_rows()).map(|row| self.labels(row)).collect()
    }

    fn time(&self, name: &str, row: usize) -> Result<Option<Timestamp>> {
        let times = self.numbers::<Int64Type>(name)?;
        Ok(times.is_valid(row).then(|| Timestamp::from_micros(times.value(row))))
    }

    /// Returns the event time of each row of `sources`, or else the time at which it was accepted.
    pub(crate) fn dates(&self) -> Result<Vec<Timestamp>> {
        let date = |row| match self.time(column::EVENT_TIME, row)? {
            Some(time) => Ok(time),
            None => self
                .time(column::ACCEPTED_AT, row)?
                .ok_or_else(|| self.damaged("a document has no time")),
        };
        (0..self.batch.num_rows()).map(date).collect()
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
}

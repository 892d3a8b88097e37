//! What a search knows of a row of `chunks` or `sources` before it reads its texts.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{Float32Type, UInt32Type, UInt64Type};
use clew_core::{DocumentId, Labels, Recipe, Version};

use crate::error::Result;
use crate::table::column;
use crate::table::kind::TableKind;
use crate::table::rows::Rows;

/// Column with the storage engine's number of a row: the fragment in the upper half, the place in
/// the fragment in the lower half.
pub(crate) const ROW: &str = "_rowid";

/// Row with the document version that it belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnedRow<'a> {
    pub number: u64,
    pub document_id: &'a str,
    pub version: Version,
    /// Recipe that made the row; 0 for a row of `sources`.
    pub recipe: Recipe,
    /// Position of the row among those of its version; 0 for a row of `sources`.
    pub ordinal: u32,
    /// Labels of the row, as stored.
    pub labels: Option<&'a str>,
}

impl<'a> Rows<'a> {
    /// Returns the columns that [`Rows::owned`] reads, besides the row numbers.
    pub(crate) fn columns_of_owned(table: TableKind) -> &'static [&'static str] {
        use column::*;
        match table {
            TableKind::Chunks => &[DOCUMENT_ID, VERSION, RECIPE, ORDINAL, LABELS],
            _ => &[DOCUMENT_ID, VERSION, LABELS],
        }
    }

    /// Returns the rows with what they belong to.
    pub(crate) fn owned(&self) -> Result<Vec<OwnedRow<'a>>> {
        let numbers = self.numbers::<UInt64Type>(ROW)?;
        let ids = self.texts(column::DOCUMENT_ID)?;
        let versions = self.numbers::<UInt64Type>(column::VERSION)?;
        let labels = self.texts(column::LABELS)?;
        let is_of_chunks = self.table == TableKind::Chunks;
        let made = match is_of_chunks {
            true => Some((
                self.numbers::<UInt64Type>(column::RECIPE)?,
                self.numbers::<UInt32Type>(column::ORDINAL)?,
            )),
            false => None,
        };
        let row = |i: usize| OwnedRow {
            number: numbers.value(i),
            document_id: ids.value(i),
            version: Version(versions.value(i)),
            recipe: Recipe(made.map_or(0, |(recipes, _)| recipes.value(i))),
            ordinal: made.map_or(0, |(_, ordinals)| ordinals.value(i)),
            labels: labels.is_valid(i).then(|| labels.value(i)),
        };
        Ok((0..self.batch.num_rows()).map(row).collect())
    }

    /// Returns the texts of a column with the numbers of their rows.
    pub(crate) fn numbered_texts(&self, name: &str) -> Result<Vec<(u64, &'a str)>> {
        let (numbers, texts) = (self.numbers::<UInt64Type>(ROW)?, self.texts(name)?);
        Ok(numbers
            .values()
            .iter()
            .copied()
            .zip(texts.iter().map(Option::unwrap_or_default))
            .collect())
    }

    /// Calls `visit` with each vector of a column and the number of its row. Leaves out rows that
    /// have none.
    pub(crate) fn each_vector(&self, name: &str, mut visit: impl FnMut(u64, &[f32])) -> Result<()> {
        let numbers = self.numbers::<UInt64Type>(ROW)?;
        let lists = self
            .column(name)?
            .as_fixed_size_list_opt()
            .ok_or_else(|| self.damaged(format!("column `{name}` has no lists of one length")))?;
        let numbers_of = |list: &ArrayRef| list.as_primitive_opt::<Float32Type>().cloned();
        let all = numbers_of(lists.values())
            .ok_or_else(|| self.damaged(format!("column `{name}` has lists of another type")))?;
        let length = lists.value_length() as usize;
        for (i, &number) in numbers.values().iter().enumerate() {
            let start = lists.value_offset(i) as usize;
            if lists.is_valid(i)
                && let Some(vector) = all.values().get(start..start + length)
            {
                visit(number, vector);
            }
        }
        Ok(())
    }

    /// Parses the document id of a row.
    pub(crate) fn document_id(&self, row: &OwnedRow<'_>) -> Result<DocumentId> {
        row.document_id.parse().map_err(|_| self.damaged("a document id is damaged"))
    }

    /// Parses the labels of a row.
    pub(crate) fn labels_of(&self, row: &OwnedRow<'_>) -> Result<Labels> {
        self.labels_in(row.labels)
    }
}

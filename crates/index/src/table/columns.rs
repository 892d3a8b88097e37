//! Columns of a table: adds, changes and drops them.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use lance::Dataset;
use lance::dataset::ColumnAlteration;
use lancedb::table::NewColumnTransform;

use crate::error::{Operation, Result};
use crate::table::vectors::{StoredVectors, VectorColumn, fingerprint_of, vectors_in};
use crate::table::{Stored, schema};

impl Stored {
    /// Adds the columns that a table of an earlier release lacks. Changes metadata only.
    pub(crate) async fn ensure_columns(&self) -> Result<()> {
        let stored = self.run(Operation::Read, self.table.schema()).await?;
        let mut missing = self.kind.added_columns();
        missing.retain(|column| stored.field_with_name(column.name()).is_err());
        self.add_columns(missing).await
    }

    /// Adds columns that are null in every row. Changes metadata only.
    async fn add_columns(&self, columns: Vec<Field>) -> Result<()> {
        if columns.is_empty() {
            return Ok(());
        }
        let columns = NewColumnTransform::AllNulls(Arc::new(Schema::new(columns)));
        let add = self.table.add_columns().transform(columns).execute();
        self.run(Operation::Append, add).await.map(drop)
    }

    /// Adds the wanted vector columns that are missing. Makes every vector column nullable unless
    /// it is the only one wanted. Changes metadata only.
    ///
    /// # Errors
    /// Returns [`crate::Error::Mismatch`] if a column of that name holds vectors of another
    /// dimension, or a storage error.
    pub(crate) async fn ensure_vectors(&self, wanted: &[VectorColumn]) -> Result<()> {
        let stored = self.run(Operation::Read, self.table.schema()).await?;
        schema::check(self.kind, &stored, wanted)?;
        let is_only = |field: &Field| wanted.len() == 1 && wanted[0].name == *field.name();
        let needed = vectors_in(&stored).filter(|it| !it.is_nullable() && !is_only(it));
        let relaxed: Vec<ColumnAlteration> = needed
            .map(|field| ColumnAlteration::new(field.name().clone()).set_nullable(true))
            .collect();
        if !relaxed.is_empty() {
            self.run(Operation::Append, self.table.alter_columns(&relaxed)).await?;
        }
        let missing = wanted.iter().filter(|it| stored.field_with_name(&it.name).is_err());
        self.add_columns(missing.map(VectorColumn::field).collect()).await
    }

    /// Returns the vector columns that the table has, wanted or not. `first` is the fingerprint of
    /// the corpus' first model.
    pub(crate) async fn vectors(&self, first: &str) -> Result<Vec<StoredVectors>> {
        let stored = self.run(Operation::Read, self.table.schema()).await?;
        let column = |field: &FieldRef| {
            let DataType::FixedSizeList(_, dimension) = field.data_type() else { return None };
            let (name, dimension) = (field.name().clone(), usize::try_from(*dimension).ok()?);
            let encoder = fingerprint_of(&name, first).to_owned();
            Some(StoredVectors { name, encoder, dimension })
        };
        Ok(vectors_in(&stored).filter_map(column).collect())
    }

    /// Drops columns and their indexes. Their values leave the disk when the rows are rewritten.
    pub(crate) async fn drop_columns(&self, names: &[String]) -> Result<()> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        if names.is_empty() {
            return Ok(());
        }
        self.run(Operation::Delete, self.table.drop_columns(&names)).await.map(drop)
    }

    /// Raises the schema version of an older table to the current one. Call it after adding
    /// columns.
    pub(crate) async fn ensure_version(&self) -> Result<()> {
        let stored = self.run(Operation::Read, self.table.schema()).await?;
        let Some(shown) = self.table.dataset() else { return Ok(()) };
        if schema::version_of(&stored) == Some(schema::SCHEMA_VERSION) {
            return Ok(());
        }
        let mut dataset = Dataset::clone(&*self.dataset(Operation::Open).await?);
        let raise = async {
            let version = schema::SCHEMA_VERSION.to_string();
            dataset.update_schema_metadata([(schema::VERSION_KEY, version.as_str())]).await?;
            Ok(())
        };
        self.run(Operation::Open, raise).await?;
        shown.update(dataset);
        Ok(())
    }
}

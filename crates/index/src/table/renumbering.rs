//! Changes the source versions of rows that stay as they are otherwise.
//!
//! A document that is delivered again with a higher number and the same content is not written
//! again. Only the column of the numbers is, for the fragments that hold such rows: at most 800 KB
//! each. Their texts are neither read nor written. The rows keep their numbers in the table, so
//! indexes stay right, and so does what searches have in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{RecordBatchIterator, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, UInt64Type};
use arrow::record_batch::RecordBatch;
use clew_core::{DocumentId, SourceVersion, Version};
use futures::FutureExt;
use lance::Dataset;
use lance::dataset::transaction::{Operation as Change, UpdateMode};
use lance_core::utils::address::RowAddress;
use lance_table::format::Fragment;
use lancedb::query::{QueryBase, Select};

use crate::error::{Error, Operation, Result};
use crate::table::engine::{run, scan};
use crate::table::kind::TableKind;
use crate::table::rows::Rows;
use crate::table::rows::owned::ROW;
use crate::table::{Stored, column, filter};

/// Source versions by the numbers of rows.
pub(super) type Numbers = BTreeMap<u64, u64>;

impl Stored {
    /// Gives rows of `sources` other source versions, in one commit. A row is named by its document
    /// and version.
    pub(crate) async fn renumber(
        &self,
        numbers: &BTreeMap<(DocumentId, Version), SourceVersion>,
    ) -> Result<()> {
        let mut found: BTreeMap<u32, Numbers> = BTreeMap::new();
        let wanted = filter::documents(numbers.keys().map(|(id, _)| id));
        let query = self.table.query().only_if_expr(wanted).with_row_id();
        let query = query.select(Select::columns(&[column::DOCUMENT_ID, column::VERSION]));
        let mut rows = 0;
        scan(self.kind, query, |batch| {
            let read = Rows::new(self.kind, batch);
            for (row, of) in read.values::<UInt64Type>(ROW)?.into_iter().zip(read.versions()?) {
                if let Some(number) = numbers.get(&of) {
                    let fragment = RowAddress::from(row).fragment_id();
                    found.entry(fragment).or_default().insert(row, number.0);
                    rows += 1;
                }
            }
            Ok(())
        })
        .await?;
        if rows < numbers.len() {
            let problem = format!("expected {} rows to renumber, got {rows}", numbers.len());
            let what = format!("table `{}`", self.kind);
            return Err(Error::Corrupt { what, source: problem.into() });
        }
        let dataset = self.dataset(Operation::Renumber).await?;
        let (mut updated_fragments, mut fields_modified) = (Vec::new(), Vec::new());
        for (fragment, numbers) in found {
            let (fragment, fields) = renumbered(self.kind, &dataset, fragment, &numbers).await?;
            updated_fragments.push(fragment);
            fields_modified = fields;
        }
        let change = Change::Update {
            removed_fragment_ids: Vec::new(),
            updated_fragments,
            new_fragments: Vec::new(),
            fields_modified,
            compacted_sstables: Vec::new(),
            fields_for_preserving_frag_bitmap: Vec::new(),
            update_mode: Some(UpdateMode::RewriteColumns),
            inserted_rows_filter: None,
            updated_fragment_offsets: None,
        };
        self.commit(vec![change]).await
    }
}

/// Writes the column of source versions of a fragment, with other numbers for some rows. Returns
/// the fragment with the new file, and the ids of the fields that it has. Commits nothing.
pub(super) async fn renumbered(
    kind: TableKind,
    dataset: &Dataset,
    fragment: u32,
    numbers: &Numbers,
) -> Result<(Fragment, Vec<u32>)> {
    let fields = vec![
        Field::new(ROW, DataType::UInt64, false),
        Field::new(column::SOURCE_VERSION, DataType::UInt64, true),
    ];
    let schema = Arc::new(Schema::new(fields));
    let rows = UInt64Array::from_iter_values(numbers.keys().copied());
    let values = UInt64Array::from_iter_values(numbers.values().copied());
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(rows), Arc::new(values)]);
    let batches = RecordBatchIterator::new([batch], schema);
    let missing = || Error::Corrupt {
        what: format!("table `{kind}`"),
        source: format!("there is no fragment {fragment}").into(),
    };
    let mut found = dataset.get_fragment(fragment as usize).ok_or_else(missing)?;
    let write = async { Ok(found.update_columns(batches, ROW, ROW).await?) };
    // Boxed: the engine's future is large and is part of the futures of all callers.
    run(kind, Operation::Renumber, write.boxed()).await
}

#[cfg(test)]
mod tests {
    use clew_core::{ContentHash, SourceVersion, StoredDocument};

    use super::*;
    use crate::storage::Storage;
    use crate::storage::session::IndexMemory;
    use crate::table::rewriting::tests::source;
    use crate::table::rows;
    use crate::table::tiers::Piece;

    fn id(number: u64) -> DocumentId {
        format!("d{number}").parse().unwrap()
    }

    fn row(number: u32, source_version: Option<u64>) -> (StoredDocument, ContentHash) {
        let mut stored = source(number, format!("text {number}"));
        stored.document.source_version = source_version.map(SourceVersion);
        let hash = stored.document.content_hash();
        (stored, hash)
    }

    /// Returns the number of each document, and whether its text is its own.
    async fn stored(table: &Stored) -> BTreeMap<String, Option<u64>> {
        let mut found = BTreeMap::new();
        scan(table.kind, table.table.query().select(Select::All), |batch| {
            for StoredDocument { document, .. } in Rows::new(table.kind, batch).documents()? {
                let name = document.id.to_string();
                assert_eq!(document.text, format!("text {}", &name[1..]));
                assert!(found.insert(name, document.source_version.map(|of| of.0)).is_none());
            }
            Ok(())
        })
        .await
        .unwrap();
        found
    }

    #[tokio::test]
    async fn rows_of_an_earlier_release_get_numbers_and_the_others_keep_theirs() {
        let folder = tempfile::tempdir().unwrap();
        let place = Storage::from(folder.path());
        let connection = place.connect(&IndexMemory::default()).await.unwrap();
        let kind = TableKind::Sources;
        let mut table = Stored::open(&connection, &place, kind, &[]).await.unwrap();
        table.ensure_text_index().await.unwrap();
        let earlier = (0..4).map(|number| row(number, None)).collect();
        table.append(vec![rows::sources::batch(earlier).unwrap()]).await.unwrap();
        // As in an earlier release: no row has the column.
        table.drop_columns(&[column::SOURCE_VERSION.to_owned()]).await.unwrap();
        let piece = Piece { rewritten: vec![vec![0]], ..Piece::default() };
        let rewriting = table.begin_rewriting(piece, Vec::new(), 0).await.unwrap();
        assert!(table.commit_rewritten(rewriting.run().await.unwrap()).await.unwrap());
        table.ensure_columns().await.unwrap();
        let later = (4..8).map(|number| row(number, Some(number.into()))).collect();
        table.append(vec![rows::sources::batch(later).unwrap()]).await.unwrap();
        table.delete_any(vec![filter::documents([&id(1), &id(6)])]).await.unwrap();

        let of = |number, to| ((id(number), Version(number)), SourceVersion(to));
        table.renumber(&[of(2, 20), of(4, 40), of(7, 70)].into()).await.unwrap();
        table.renumber(&[of(0, u64::MAX), of(7, 71)].into()).await.unwrap();
        let dataset = table.dataset(Operation::Read).await.unwrap();
        // Numbers that changed twice take no more files than those that changed once.
        assert!(dataset.fragments().iter().all(|fragment| fragment.files.len() == 2));
        let expected = [
            (0, Some(u64::MAX)),
            (2, Some(20)),
            (3, None),
            (4, Some(40)),
            (5, Some(5)),
            (7, Some(71)),
        ];
        let expected = expected.map(|(number, to)| (format!("d{number}"), to)).into();
        assert_eq!(stored(&table).await, expected);

        // A row that is not there is no reason to change the others.
        let error = table.renumber(&[of(0, 1), of(6, 1)].into()).await.unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
        assert_eq!(stored(&table).await, expected);

        let ids = dataset.fragments().iter().map(|fragment| fragment.id as u32).collect();
        let piece = Piece { rewritten: vec![ids], ..Piece::default() };
        let rewriting = table.begin_rewriting(piece, Vec::new(), 0).await.unwrap();
        let rewritten = rewriting.run().await.unwrap();
        // While the merged rows wait for their commit.
        table.renumber(&[of(3, 30), of(5, 50)].into()).await.unwrap();
        table.delete_any(vec![filter::documents([&id(4)])]).await.unwrap();
        assert!(table.commit_rewritten(rewritten).await.unwrap());
        assert_eq!(table.dataset(Operation::Read).await.unwrap().fragments().len(), 1);
        let expected: [(u64, u64); 5] = [(0, u64::MAX), (2, 20), (3, 30), (5, 50), (7, 71)];
        let expected = expected.map(|(number, to)| (format!("d{number}"), Some(to))).into();
        assert_eq!(stored(&table).await, expected);
    }
}

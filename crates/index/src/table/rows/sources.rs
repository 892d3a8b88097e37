//! Rows of `sources`.
//!
//! The arrays of `batch` stand in the order of the columns in `schema.rs`. Two text columns in
//! another order would be stored swapped.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringArray};
use arrow::buffer::{Buffer, OffsetBuffer};
use arrow::datatypes::{Int64Type, UInt32Type, UInt64Type};
use arrow::record_batch::RecordBatch;
use clew_core::{
    ContentHash, Document, DocumentId, MediaType, SourceVersion, StoredDocument, Timestamp, Version,
};

use crate::error::{Error, Result};
use crate::table::column;
use crate::table::kind::TableKind;
use crate::table::rows::Rows;
use crate::table::rows::arrays::{
    attributes, labels, optional_u64s, record_batch, small, texts, times, u32s, u64s,
};
use crate::table::rows::owned::ROW;
use crate::values::facts::SourceFacts;

/// Builds rows for `sources`. Takes the documents, because the memory of a large text becomes that
/// of its row.
pub(crate) fn batch(mut rows: Vec<(StoredDocument, ContentHash)>) -> Result<RecordBatch> {
    let contents = contents(rows.iter_mut().map(|(row, _)| &mut row.document))?;
    let documents = || rows.iter().map(|(row, _)| &row.document);
    let columns: Vec<ArrayRef> = vec![
        texts(documents().map(|document| document.id.as_str())),
        u64s(rows.iter().map(|(row, _)| row.version.0)),
        texts(rows.iter().map(|(_, hash)| hash.to_string())),
        contents.texts,
        u32s(documents().map(|document| small(document.title.len()))),
        u64s(contents.text_bytes.into_iter()),
        texts(documents().map(|document| document.media_type.as_str())),
        attributes(documents().map(|document| &document.attributes)),
        times(documents().map(|document| document.event_time)),
        times(rows.iter().map(|(row, _)| Some(row.accepted_at))),
        labels(documents().map(|document| &document.labels)),
        optional_u64s(documents().map(|document| Some(document.source_version?.0))),
    ];
    record_batch(TableKind::Sources, &[], columns)
}

/// Column with the contents of documents.
struct Contents {
    texts: ArrayRef,
    /// Bytes of each text without its title.
    text_bytes: Vec<u64>,
}

/// Takes the texts out of documents. The content of a document is the title, a line break if there
/// is a title, and the text.
fn contents<'a>(documents: impl Iterator<Item = &'a mut Document>) -> Result<Contents> {
    let (mut all, mut lengths, mut text_bytes) = (String::new(), Vec::new(), Vec::new());
    for document in documents {
        let mut text = std::mem::take(&mut document.text);
        text_bytes.push(text.len() as u64);
        let before = all.len();
        if !document.title.is_empty() && before == 0 {
            text.insert(0, '\n');
            text.insert_str(0, &document.title);
        } else if !document.title.is_empty() {
            all.push_str(&document.title);
            all.push('\n');
        }
        match before {
            0 => all = text,
            _ => all.push_str(&text),
        }
        lengths.push(all.len() - before);
    }
    let offsets = OffsetBuffer::from_lengths(lengths);
    let texts = StringArray::try_new(offsets, Buffer::from_vec(all.into_bytes()), None);
    let texts = texts.map_err(|error| Error::invalid("document.text", error.to_string()))?;
    Ok(Contents { texts: Arc::new(texts), text_bytes })
}

impl Rows<'_> {
    /// Returns rows of `sources` without their texts.
    pub(crate) fn source_facts(&self) -> Result<Vec<(DocumentId, SourceFacts)>> {
        let hashes = self.texts(column::CONTENT_HASH)?;
        let bytes = self.numbers::<UInt64Type>(column::TEXT_BYTES)?;
        let accepted = self.numbers::<Int64Type>(column::ACCEPTED_AT)?;
        let fact = |(i, (id, version)): (usize, (DocumentId, Version))| {
            let content_hash = ContentHash::from_hex(hashes.value(i))
                .ok_or_else(|| self.damaged("a content hash is damaged"))?;
            let facts = SourceFacts {
                version,
                content_hash,
                accepted_at: Timestamp::from_micros(accepted.value(i)),
                bytes: bytes.value(i),
                labels: self.labels(i)?,
                source_version: self.source_version(i)?,
            };
            Ok((id, facts))
        };
        self.versions()?.into_iter().enumerate().map(fact).collect()
    }

    fn source_version(&self, row: usize) -> Result<Option<SourceVersion>> {
        let numbers = self.numbers::<UInt64Type>(column::SOURCE_VERSION)?;
        Ok(numbers.is_valid(row).then(|| SourceVersion(numbers.value(row))))
    }

    /// Returns the numbers of the rows that have a source version, with it.
    pub(crate) fn numbered_source_versions(&self) -> Result<Vec<(u64, SourceVersion)>> {
        let rows = self.values::<UInt64Type>(ROW)?;
        let number = |(i, row)| Ok(self.source_version(i)?.map(|number| (row, number)));
        rows.into_iter().enumerate().map(number).filter_map(Result::transpose).collect()
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
                source_version: self.source_version(i)?,
            };
            let accepted_at = Timestamp::from_micros(accepted.value(i));
            Ok(StoredDocument { document, version, accepted_at })
        };
        self.versions()?.into_iter().enumerate().map(document).collect()
    }
}

fn split_content(content: &str, title_bytes: usize) -> Option<(&str, &str)> {
    if title_bytes == 0 {
        return Some(("", content));
    }
    Some((content.get(..title_bytes)?, content.get(title_bytes + 1..)?))
}

#[cfg(test)]
mod tests {
    use clew_core::{AttributeValue, FiniteNumber, Labels};
    use proptest::prelude::*;

    use super::*;

    fn values() -> impl Strategy<Value = AttributeValue> {
        prop_oneof![
            ".{0,12}".prop_map(AttributeValue::Text),
            "[:=a-z]{0,12}".prop_map(AttributeValue::Text),
            any::<i64>().prop_map(AttributeValue::Integer),
            any::<f64>()
                .prop_filter_map("finite", FiniteNumber::new)
                .prop_map(AttributeValue::Number),
            any::<bool>().prop_map(AttributeValue::Boolean),
        ]
    }

    proptest! {
        #[test]
        fn a_document_comes_back_as_it_was_stored(
            text in ".{1,40}",
            title in "[^\\p{Cc}]{0,10}",
            attributes in proptest::collection::btree_map("[a-z_.-]{1,8}", values(), 0..4),
            event_time in proptest::option::of(any::<i64>()),
            labels in proptest::collection::vec("[a-z0-9._-]{1,8}", 0..4),
            version in any::<u64>(),
            source_version in proptest::option::of(any::<u64>()),
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
                    source_version: source_version.map(SourceVersion),
                },
                version: Version(version),
                accepted_at: Timestamp::from_micros(5),
            };
            let content_hash = stored.document.content_hash();
            // In the first row and behind it.
            let batch = batch(vec![(stored.clone(), content_hash); 2]).unwrap();
            let rows = Rows::new(TableKind::Sources, &batch);
            let facts = rows.source_facts().unwrap();
            prop_assert!(facts.iter().all(|(_, facts)| facts.content_hash == content_hash));
            let bytes = stored.document.text.len() as u64;
            prop_assert!(facts.iter().all(|(_, facts)| facts.bytes == bytes));
            let number = stored.document.source_version;
            prop_assert!(facts.iter().all(|(_, facts)| facts.source_version == number));
            prop_assert_eq!(rows.documents().unwrap(), vec![stored.clone(), stored]);
        }
    }
}

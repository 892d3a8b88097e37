//! Parts of texts, by which a text is found in a file.

use std::collections::{BTreeSet, HashMap};

use arrow::array::AsArray;
use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;

/// Bytes of the parts of a text that are searched for. A shorter text is not searched for: it could
/// come from any document.
pub(super) const PART: usize = 32;

/// Parts of texts, [`PART`] bytes each, found by their first bytes.
#[derive(Debug, Default)]
pub(super) struct Parts {
    found_by: HashMap<[u8; 8], Vec<usize>>,
    parts: Vec<[u8; PART]>,
    /// First bytes of parts: at most places of a file no part begins.
    first: BTreeSet<u8>,
}

impl Parts {
    pub(super) fn len(&self) -> usize {
        self.parts.len()
    }

    /// Adds a part from the first and one from the second half of a text.
    pub(super) fn add_some_of(&mut self, text: &str) {
        let text = text.trim().as_bytes();
        let Some(last) = text.len().checked_sub(PART) else { return };
        self.add(&text[last / 3..]);
        if last > PART {
            self.add(&text[last * 2 / 3..]);
        }
    }

    pub(super) fn add(&mut self, from: &[u8]) {
        let Some((part, begins)) = from.first_chunk::<PART>().zip(from.first_chunk::<8>()) else {
            return;
        };
        self.first.insert(part[0]);
        self.found_by.entry(*begins).or_default().push(self.parts.len());
        self.parts.push(*part);
    }

    /// Adds the parts of others.
    pub(super) fn extend(&mut self, others: &Self) {
        others.parts.iter().for_each(|part| self.add(part));
    }

    /// Returns the numbers of the parts that `bytes` contains.
    pub(super) fn in_bytes(&self, bytes: &[u8]) -> BTreeSet<usize> {
        let mut is_first = [false; 256];
        self.first.iter().for_each(|byte| is_first[usize::from(*byte)] = true);
        let mut found = BTreeSet::new();
        for at in bytes.windows(PART).filter(|at| is_first[usize::from(at[0])]) {
            let begins = at.first_chunk::<8>().and_then(|begins| self.found_by.get(begins));
            let is_here = |part: &&usize| at == self.parts[**part].as_slice();
            found.extend(begins.into_iter().flatten().filter(is_here));
        }
        found
    }
}

/// Parts of the texts of a file's rows.
#[derive(Default)]
pub(super) struct PartsOfRows {
    /// Beginnings of their texts, which are found in a file that holds texts uncompressed.
    pub own: Parts,
    /// Parts of the forgotten texts that they contain as well, each alone or across two values: in
    /// the file, the values of a column lie back to back.
    pub common: BTreeSet<usize>,
}

/// Calls `visit` with each text of a batch and the number of its column, including texts in lists.
pub(super) fn each_text(batch: &RecordBatch, visit: &mut dyn FnMut(usize, &str)) {
    for (number, column) in batch.columns().iter().enumerate() {
        let lists = column.as_list_opt::<i32>().map(|lists| lists.values());
        let texts = lists.unwrap_or(column).as_string_opt::<i32>();
        texts.into_iter().flatten().flatten().for_each(|text| visit(number, text));
    }
}

pub(super) fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 => true,
        DataType::List(item) => item.data_type() == &DataType::Utf8,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "The heron of the northern pond keeps seventeen silver lanterns under the bridge.";

    #[test]
    fn parts_are_found_wherever_they_stand_and_short_texts_have_none() {
        let mut parts = Parts::default();
        parts.add_some_of("too short to be told");
        assert_eq!(parts.len(), 0);
        parts.add_some_of(TEXT);
        assert_eq!(parts.len(), 2);
        assert!(parts.in_bytes(b"another text that is as long as that one").is_empty());
        for at in [0, 1, 100] {
            let bytes = [vec![b'T'; at], TEXT.as_bytes().to_vec(), vec![0; 5]].concat();
            assert_eq!(parts.in_bytes(&bytes).len(), 2);
        }
    }
}

//! Bodies of requests, and of responses that are read as a whole.

use bytes::Bytes;
use clew_core::Error;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::connection::{Failure, Progress};

/// Writes the body of a request.
pub(crate) fn json(body: &impl Serialize) -> Result<Bytes, Error> {
    let body = serde_json::to_vec(body);
    body.map(Bytes::from).map_err(|_| Error::internal("cannot write a request as JSON"))
}

/// Body of a response that cannot be used before all of it has arrived.
pub(crate) struct WholeBody {
    bytes: Vec<u8>,
    most: usize,
}

impl WholeBody {
    /// Creates an empty body, to which at most `most` bytes can be added.
    pub(crate) fn new(most: usize) -> Self {
        Self { bytes: Vec::new(), most }
    }

    /// Discards everything that was added.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Adds the next bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> Result<Progress, Failure> {
        if self.bytes.len() + bytes.len() > self.most {
            return Err(Failure::broken("sent far more than it was asked for"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(Progress::More)
    }

    /// Parses the body. Returns `None` if it has another form.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.bytes).ok()
    }
}

/// Orders the items of a response by `index`. Returns `None` unless there is exactly one for each
/// of the `count` texts of the request.
pub(crate) fn in_order<T>(
    mut items: Vec<T>,
    count: usize,
    index: impl Fn(&T) -> usize,
) -> Option<Vec<T>> {
    items.sort_by_key(&index);
    let is_complete = items.iter().map(&index).eq(0..count);
    is_complete.then_some(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_has_a_bound_and_begins_anew() {
        let mut body = WholeBody::new(3);
        body.add(b"1").unwrap();
        assert!(body.add(b"234").is_err());
        body.clear();
        body.add(b"234").unwrap();
        assert_eq!(body.parse(), Some(234));
        assert_eq!(body.parse::<String>(), None);
    }

    #[test]
    fn there_is_one_item_for_each_text_in_their_order() {
        assert_eq!(in_order(vec![2, 0, 1], 3, |at| *at), Some(vec![0, 1, 2]));
        for other in [vec![0, 1], vec![0, 1, 1], vec![1, 2, 3], vec![0, 1, 2, 3]] {
            assert_eq!(in_order(other, 3, |at| *at), None);
        }
    }
}

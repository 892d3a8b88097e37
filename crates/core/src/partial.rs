//! Results of calls to several shards, of which some may not have answered.

use crate::{Error, ErrorKind, ShardIndex};

/// Result of the shards that answered, with the shards that did not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Partial<T> {
    /// Result of the shards that answered.
    pub found: T,
    /// Shards that did not answer, each once, ordered by index.
    pub shards_missing: Vec<ShardIndex>,
}

impl<T> Partial<T> {
    /// Wraps a result for which every shard answered.
    pub fn whole(found: T) -> Self {
        Self { found, shards_missing: Vec::new() }
    }

    /// Converts the result.
    pub fn map<U>(self, made: impl FnOnce(T) -> U) -> Partial<U> {
        Partial { found: made(self.found), shards_missing: self.shards_missing }
    }

    /// Adds shards that did not answer another call for the same thing.
    #[must_use]
    pub fn missing(mut self, others: impl IntoIterator<Item = ShardIndex>) -> Self {
        self.shards_missing.extend(others);
        self.shards_missing.sort_unstable();
        self.shards_missing.dedup();
        self
    }

    /// Returns the result if all shards answered.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unavailable`] if a shard did not answer.
    pub fn complete(self) -> Result<T, Error> {
        match self.shards_missing.as_slice() {
            [] => Ok(self.found),
            missing => Err(unanswered(missing)),
        }
    }
}

/// Returns the error for shards that did not answer although each of them was needed.
pub fn unanswered(missing: &[ShardIndex]) -> Error {
    let names: Vec<String> = missing.iter().map(ToString::to_string).collect();
    let problem = format!("{} did not answer; ask again", names.join(", "));
    Error::new(ErrorKind::Unavailable, "UNAVAILABLE", problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_shards_are_named_once_and_in_order() {
        let partial = Partial { found: 7, shards_missing: vec![ShardIndex(3)] };
        let partial = partial.missing([ShardIndex(1), ShardIndex(3)]).map(|found| found + 1);
        let shards_missing = vec![ShardIndex(1), ShardIndex(3)];
        assert_eq!(partial, Partial { found: 8, shards_missing });
    }

    #[test]
    fn what_is_complete_is_told_from_what_is_not() {
        assert_eq!(Partial::whole(7).complete().unwrap(), 7);
        let error = Partial::whole(7).missing([ShardIndex(2)]).complete().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.message().contains("shard-2 "), "{error}");
    }
}

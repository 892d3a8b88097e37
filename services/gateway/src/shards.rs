//! Requests to the shards of a corpus: concurrent, each with a time limit, and naming the shards
//! that do not answer.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clew_core::{Corpus, Error, ErrorKind, Partial, Shard, ShardIndex, unanswered};
use clew_runtime::timing::{Part, measured};
use futures::future::join_all;

use crate::Backends;

/// The shards of a corpus for one request, which may ask them many times.
#[derive(Clone)]
pub(crate) struct Shards {
    pub corpus: Arc<Corpus>,
    /// Longest time that one shard may take.
    pub patience: Duration,
    silent: Silent,
}

impl Shards {
    pub fn new(corpus: Arc<Corpus>, patience: Duration) -> Self {
        Self { corpus, patience, silent: Silent::default() }
    }

    /// Creates the shards of `corpus` for a new request.
    pub fn over(backends: &Backends, corpus: Arc<Corpus>) -> Self {
        Self::new(corpus, backends.config.shard_patience())
    }

    /// Returns the instant at which to stop waiting for a shard that is asked now.
    pub fn deadline(&self, deadline: Instant) -> Instant {
        deadline.min(Instant::now() + self.patience)
    }

    /// Asks every shard and names those that fail. Fails only if all shards fail, or if one refuses
    /// because it is overloaded: overload passes, and half of the result would be less than was
    /// asked for.
    pub async fn ask_all<T, F: Future<Output = Result<T, Error>>>(
        &self,
        ask: impl Fn(Arc<dyn Shard>) -> F,
    ) -> Result<Partial<Vec<T>>, Error> {
        self.ask(|_| true, ask).await
    }

    /// Asks every shard as [`Self::ask_all`] does, for work in which a shard may fail that answers
    /// everything else. Shards that fail here are still asked for other things.
    pub async fn ask_all_for_once<T, F: Future<Output = Result<T, Error>>>(
        &self,
        ask: impl Fn(Arc<dyn Shard>) -> F,
    ) -> Result<Partial<Vec<T>>, Error> {
        Self { silent: self.silent.apart(), ..self.clone() }.ask_all(ask).await
    }

    /// Asks only the `concerned` shards, otherwise as [`Self::ask_all`].
    pub async fn ask<T, F: Future<Output = Result<T, Error>>>(
        &self,
        concerned: impl Fn(ShardIndex) -> bool,
        ask: impl Fn(Arc<dyn Shard>) -> F,
    ) -> Result<Partial<Vec<T>>, Error> {
        let silent = self.silent.shards();
        let all = self.corpus.shards();
        let (known, asked): (Vec<_>, Vec<_>) = all
            .iter()
            .filter(|shard| concerned(shard.index()))
            .partition(|shard| silent.contains(&shard.index()));
        let asking = asked.iter().map(|shard| ask(Arc::clone(shard)));
        let answers = measured(Part::Store, join_all(asking)).await;
        let answers: Vec<_> = asked.iter().map(|shard| shard.index()).zip(answers).collect();
        self.silent.remember(&answers);
        let known = known.into_iter().map(|shard| shard.index());
        united(answers, known.collect(), all.len())
    }
}

/// Shards that did not answer this request in time. The request does not ask them again: its answer
/// lacks their part already and says so, and a strategy that asks dozens of times would wait until
/// its deadline.
#[derive(Clone, Default)]
struct Silent(Arc<Mutex<BTreeSet<ShardIndex>>>);

impl Silent {
    fn shards(&self) -> BTreeSet<ShardIndex> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Copies the set. Shards added to the copy are not added to the original.
    fn apart(&self) -> Self {
        Self(Arc::new(Mutex::new(self.shards())))
    }

    fn remember<T>(&self, answers: &[(ShardIndex, Result<T, Error>)]) {
        let is_silent = |error: &Error| {
            matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::DeadlineExceeded)
        };
        let silent = answers.iter().filter(|(_, answer)| answer.as_ref().is_err_and(is_silent));
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(silent.map(|(shard, _)| *shard));
    }
}

/// Combines the answers of shards. `all` is the number of shards of the corpus; `missing` ones were
/// not asked.
fn united<T>(
    answers: Vec<(ShardIndex, Result<T, Error>)>,
    mut missing: Vec<ShardIndex>,
    all: usize,
) -> Result<Partial<Vec<T>>, Error> {
    let (mut found, mut first_error) = (Vec::new(), None);
    for (shard, answer) in answers {
        match answer {
            Ok(answer) => found.push(answer),
            Err(error) if error.kind() == ErrorKind::Exhausted => return Err(error),
            Err(error) => {
                tracing::warn!(%shard, error = error.chain(), "a shard did not answer");
                missing.push(shard);
                first_error.get_or_insert(error);
            }
        }
    }
    if !missing.is_empty() && missing.len() == all {
        return Err(first_error.unwrap_or_else(|| unanswered(&missing)));
    }
    Ok(Partial::whole(found).missing(missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone() -> Error {
        Error::new(ErrorKind::Unavailable, "UNAVAILABLE", "gone")
    }

    fn answers(all: Vec<Result<char, Error>>) -> Vec<(ShardIndex, Result<char, Error>)> {
        (0..).map(ShardIndex).zip(all).collect()
    }

    #[test]
    fn a_shard_that_fails_is_named_and_all_of_them_or_a_full_one_are_an_error() {
        let some = united(answers(vec![Err(gone()), Ok('a'), Ok('b')]), Vec::new(), 3).unwrap();
        assert_eq!(some, Partial { found: vec!['a', 'b'], shards_missing: vec![ShardIndex(0)] });
        let full = Err(Error::exhausted("the shard's queue of searches", Duration::ZERO));
        let refused = united(answers(vec![full, Ok('b')]), Vec::new(), 2).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Exhausted);
        let all = united(answers(vec![Err(gone()), Err(gone())]), Vec::new(), 2).unwrap_err();
        assert_eq!((all.kind(), all.message()), (ErrorKind::Unavailable, "gone"));
    }

    #[test]
    fn a_shard_that_is_not_asked_again_is_named_again() {
        let rest = united(answers(vec![Ok('a')]), vec![ShardIndex(1)], 2).unwrap();
        assert_eq!(rest, Partial { found: vec!['a'], shards_missing: vec![ShardIndex(1)] });
        let none = united(answers(Vec::new()), vec![ShardIndex(0), ShardIndex(1)], 2).unwrap_err();
        assert_eq!(none.kind(), ErrorKind::Unavailable);
    }

    #[test]
    fn one_of_many_that_alone_is_asked_and_fails_is_named() {
        let one = united(answers(vec![Err(gone())]), Vec::new(), 2).unwrap();
        assert_eq!(one, Partial { found: Vec::new(), shards_missing: vec![ShardIndex(0)] });
    }

    #[test]
    fn those_that_were_waited_for_in_vain_are_remembered_for_the_request() {
        let (silent, broken) = (Silent::default(), Error::internal("a row cannot be read"));
        silent.remember(&answers(vec![Ok('a'), Err(gone()), Err(broken)]));
        // All components that ask for the request share the set, the search included.
        silent.clone().remember(&answers(vec![Err(Error::deadline("searching"))]));
        assert_eq!(silent.shards(), BTreeSet::from([ShardIndex(0), ShardIndex(1)]));
        // A shard that fails in one kind of request is still asked for others.
        let apart = silent.apart();
        apart.remember(&answers(vec![Ok('a'), Ok('b'), Err(gone())]));
        assert_eq!((apart.shards().len(), silent.shards().len()), (3, 2));
    }
}

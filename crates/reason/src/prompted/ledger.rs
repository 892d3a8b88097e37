//! What may be spent on a question, and what was.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clew_core::{Cost, Error, ErrorKind, Usage};

/// Most that may be spent on one piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Calls of the model.
    pub calls: u64,
    /// Tokens, sent and received together.
    pub tokens: u64,
    /// Time that the model works, summed over its calls.
    pub time: Duration,
}

impl Budget {
    /// No bound but the deadline.
    pub const UNBOUNDED: Self = Self { calls: u64::MAX, tokens: u64::MAX, time: Duration::MAX };
}

impl Default for Budget {
    /// 64 calls, 256 Ki tokens, ten minutes: several times what a question takes in the papers, and little
    /// enough that a loop is noticed.
    fn default() -> Self {
        Self { calls: 64, tokens: 256 << 10, time: Duration::from_secs(600) }
    }
}

/// Counts what a piece of work costs and holds it to its budget. Shared by the acts of that work, which may
/// run at once.
#[derive(Debug)]
pub struct Ledger {
    budget: Budget,
    calls: AtomicU64,
    prompt_tokens: AtomicU64,
    completion_tokens: AtomicU64,
    micros: AtomicU64,
    cache_hits: AtomicU64,
    unreadable: AtomicU64,
    /// Calls in flight, and the most tokens that they may take.
    calls_begun: AtomicU64,
    tokens_begun: AtomicU64,
}

/// What was spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Calls of the model.
    pub calls: u64,
    /// Tokens sent.
    pub prompt_tokens: u64,
    /// Tokens received.
    pub completion_tokens: u64,
    /// Time that the model worked, summed over its calls.
    pub time: Duration,
    /// Replies that were known already.
    pub cache_hits: u64,
    /// Replies that could not be read.
    pub unreadable: u64,
}

impl Ledger {
    /// A ledger on which nothing is spent yet.
    pub fn new(budget: Budget) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            budget,
            calls: zero(),
            prompt_tokens: zero(),
            completion_tokens: zero(),
            micros: zero(),
            cache_hits: zero(),
            unreadable: zero(),
            calls_begun: zero(),
            tokens_begun: zero(),
        }
    }

    /// What was spent so far.
    pub fn spent(&self) -> Spent {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Spent {
            calls: read(&self.calls),
            prompt_tokens: read(&self.prompt_tokens),
            completion_tokens: read(&self.completion_tokens),
            time: Duration::from_micros(read(&self.micros)),
            cache_hits: read(&self.cache_hits),
            unreadable: read(&self.unreadable),
        }
    }

    /// What was spent so far, as answers tell it.
    pub fn cost(&self) -> Cost {
        let spent = self.spent();
        Cost {
            model_calls: spent.calls,
            prompt_tokens: spent.prompt_tokens,
            completion_tokens: spent.completion_tokens,
            ..Cost::default()
        }
    }

    /// Reserves a call of at most `tokens`, prompt and reply.
    ///
    /// # Errors
    /// [`ErrorKind::Exhausted`] with the reason `BUDGET_SPENT` and without a delay to retry after, if
    /// the budget does not reach that far: no later call on this ledger will succeed either.
    pub(crate) fn begin(&self, tokens: u64) -> Result<Call<'_>, Error> {
        let Budget { calls, tokens: most_tokens, time } = self.budget;
        let spent = self.spent();
        if spent.time >= time {
            return Err(self.exhausted("time"));
        }
        let tokens_spent = spent.prompt_tokens + spent.completion_tokens;
        let reserve = |begun: &AtomicU64, more: u64, spent: u64, most: u64| {
            begun
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| {
                    let after = now.checked_add(more)?;
                    (after.checked_add(spent)? <= most).then_some(after)
                })
                .is_ok()
        };
        if !reserve(&self.calls_begun, 1, spent.calls, calls) {
            return Err(self.exhausted("calls"));
        }
        if !reserve(&self.tokens_begun, tokens, tokens_spent, most_tokens) {
            self.calls_begun.fetch_sub(1, Ordering::AcqRel);
            return Err(self.exhausted("tokens"));
        }
        Ok(Call { ledger: self, tokens })
    }

    pub(crate) fn count_cache_hit(&self) {
        self.cache_hits.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_unreadable(&self) {
        self.unreadable.fetch_add(1, Ordering::Relaxed);
    }

    fn exhausted(&self, what: &str) -> Error {
        let message = format!("the budget of {what} for language models is spent");
        Error::new(ErrorKind::Exhausted, "BUDGET_SPENT", message)
    }
}

/// A call in flight. Dropped without [`Self::end`], it was not answered: it counts as a call whose tokens
/// are not known.
pub(crate) struct Call<'a> {
    ledger: &'a Ledger,
    tokens: u64,
}

impl Call<'_> {
    /// Books what the call took.
    pub fn end(self, usage: &Usage) {
        let ledger = self.ledger;
        let micros = u64::try_from(usage.took.as_micros()).unwrap_or(u64::MAX);
        // `drop` counts the first call, and what is booked is never missing meanwhile.
        let repeated = u64::from(usage.calls).saturating_sub(1);
        ledger.calls.fetch_add(repeated, Ordering::Relaxed);
        ledger.prompt_tokens.fetch_add(usage.prompt_tokens, Ordering::Relaxed);
        ledger.completion_tokens.fetch_add(usage.completion_tokens, Ordering::Relaxed);
        ledger.micros.fetch_add(micros, Ordering::Relaxed);
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.ledger.calls.fetch_add(1, Ordering::AcqRel);
        self.ledger.calls_begun.fetch_sub(1, Ordering::AcqRel);
        self.ledger.tokens_begun.fetch_sub(self.tokens, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(prompt_tokens: u64, completion_tokens: u64) -> Usage {
        let took = Duration::from_secs(1);
        Usage { prompt_tokens, completion_tokens, took, calls: 1 }
    }

    fn reason(begun: Result<Call<'_>, Error>) -> &'static str {
        begun.err().map_or("", |error| error.reason())
    }

    #[test]
    fn what_is_in_flight_counts_against_the_budget() {
        let ledger = Ledger::new(Budget { calls: 2, tokens: 100, ..Budget::UNBOUNDED });
        let first = ledger.begin(60).unwrap();
        assert_eq!(reason(ledger.begin(60)), "BUDGET_SPENT");
        first.end(&usage(30, 10));
        let second = ledger.begin(60).unwrap();
        assert_eq!(reason(ledger.begin(0)), "BUDGET_SPENT");
        drop(second);
        assert_eq!(reason(ledger.begin(0)), "BUDGET_SPENT");
        let spent = ledger.spent();
        assert_eq!((spent.calls, spent.prompt_tokens, spent.completion_tokens), (2, 30, 10));
    }

    #[test]
    fn time_is_a_budget_too() {
        let time = Duration::from_secs(1);
        let ledger = Ledger::new(Budget { time, ..Budget::UNBOUNDED });
        ledger.begin(1).unwrap().end(&usage(1, 1));
        let error = ledger.begin(1).err().unwrap();
        assert_eq!((error.kind(), error.retry_after()), (ErrorKind::Exhausted, None));
    }
}

//! Budgets for pieces of work and the ledgers that count what they spend.

use std::convert::Infallible;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::{BUDGET_SPENT, Cost, Error, ErrorKind, Usage};

/// Maximum number of extra calls reserved for repeating one that fails or whose reply has to be
/// requested again. No endpoint repeats a call as often.
const MOST_REPEATS: u64 = 15;

/// Bounds on what one piece of work may spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Number of calls to language models.
    pub calls: u64,
    /// Number of tokens, sent and received together.
    pub tokens: u64,
    /// Time that models work, summed over their calls.
    pub time: Duration,
}

impl Budget {
    /// Budget without bounds: only the deadline limits the work.
    pub const UNBOUNDED: Self = Self { calls: u64::MAX, tokens: u64::MAX, time: Duration::MAX };

    /// Returns the smaller of both budgets in each part.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self {
            calls: self.calls.min(other.calls),
            tokens: self.tokens.min(other.tokens),
            time: self.time.min(other.time),
        }
    }
}

impl Default for Budget {
    /// Returns 64 calls, 256 Ki tokens and ten minutes: several times what a question takes in the
    /// papers, and little enough that a loop is noticed.
    fn default() -> Self {
        Self { calls: 64, tokens: 256 << 10, time: Duration::from_secs(600) }
    }
}

/// Resources that a piece of work has spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Number of calls to language models.
    pub calls: u64,
    /// Number of tokens sent to them.
    pub prompt_tokens: u64,
    /// Number of tokens received from them.
    pub completion_tokens: u64,
    /// Time that they worked, summed over their calls.
    pub time: Duration,
    /// Number of replies that came from a cache.
    pub cache_hits: u64,
    /// Number of replies that could not be parsed.
    pub unreadable: u64,
    /// Cost that no budget bounds: embedding, reranking and the drafts of memory models.
    pub aside: Cost,
    /// Whether something was left undone because a budget was used up.
    pub is_out_of_budget: bool,
}

impl Spent {
    /// Converts the cost of something that did not report its spending in another way.
    pub fn of(cost: Cost) -> Self {
        let Cost { model_calls, prompt_tokens, completion_tokens, is_out_of_budget, .. } = cost;
        let aside = Cost {
            embedded_tokens: cost.embedded_tokens,
            reranked_tokens: cost.reranked_tokens,
            ..Cost::default()
        };
        Self {
            calls: model_calls,
            prompt_tokens,
            completion_tokens,
            aside,
            is_out_of_budget,
            ..Self::default()
        }
    }

    fn tokens(&self) -> u64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }

    /// Returns the sum of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let mut aside = self.aside;
        aside += other.aside;
        Self {
            calls: self.calls.saturating_add(other.calls),
            prompt_tokens: self.prompt_tokens.saturating_add(other.prompt_tokens),
            completion_tokens: self.completion_tokens.saturating_add(other.completion_tokens),
            time: self.time.saturating_add(other.time),
            cache_hits: self.cache_hits.saturating_add(other.cache_hits),
            unreadable: self.unreadable.saturating_add(other.unreadable),
            aside,
            is_out_of_budget: self.is_out_of_budget || other.is_out_of_budget,
        }
    }

    /// Returns this without `part`, which is contained in it.
    fn without(self, part: &Self) -> Self {
        Self {
            calls: self.calls.saturating_sub(part.calls),
            prompt_tokens: self.prompt_tokens.saturating_sub(part.prompt_tokens),
            completion_tokens: self.completion_tokens.saturating_sub(part.completion_tokens),
            time: self.time.saturating_sub(part.time),
            cache_hits: self.cache_hits.saturating_sub(part.cache_hits),
            unreadable: self.unreadable.saturating_sub(part.unreadable),
            aside: self.aside.without(&part.aside),
            is_out_of_budget: self.is_out_of_budget,
        }
    }

    /// Returns the cost as answers show it.
    pub fn cost(&self) -> Cost {
        let mut cost = Cost {
            model_calls: self.calls,
            prompt_tokens: self.prompt_tokens,
            completion_tokens: self.completion_tokens,
            is_out_of_budget: self.is_out_of_budget,
            ..Cost::default()
        };
        cost += self.aside;
        cost
    }
}

/// Callback that receives the total spending whenever it changes.
type Watcher = Box<dyn Fn(Spent) + Send + Sync>;

/// Ledger of a piece of work: counts what the work spends and holds it to its budget. Everything
/// done for that work shares the ledger, some of it concurrently.
///
/// A ledger may be part of another. What is spent on the part is then also spent on the whole, and
/// both budgets apply.
pub struct Ledger {
    budget: Budget,
    whole: Option<Arc<Ledger>>,
    watcher: Option<Watcher>,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Known spending, including that of work under way.
    spent: Spent,
    /// Amount reserved for work under way, beyond what that work has spent.
    held: Held,
    /// Number of reservations under way.
    under_way: u64,
}

impl State {
    fn left(&self, budget: &Budget) -> Budget {
        let Self { spent, held, .. } = self;
        Budget {
            calls: left(budget.calls, spent.calls, held.calls),
            tokens: left(budget.tokens, spent.tokens(), held.tokens),
            time: match budget.time {
                Duration::MAX => Duration::MAX,
                time => time.saturating_sub(spent.time),
            },
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Held {
    calls: u64,
    tokens: u64,
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = *self.state();
        f.debug_struct("Ledger")
            .field("budget", &self.budget)
            .field("state", &state)
            .finish_non_exhaustive()
    }
}

impl Ledger {
    /// Creates a ledger on which nothing is spent.
    pub fn new(budget: Budget) -> Self {
        Self { budget, whole: None, watcher: None, state: Mutex::default() }
    }

    /// Creates a ledger that passes its total spending to `watcher` whenever it changes. The
    /// watcher runs on the thread that spends, and must not wait.
    pub fn watched(budget: Budget, watcher: impl Fn(Spent) + Send + Sync + 'static) -> Self {
        Self { watcher: Some(Box::new(watcher)), ..Self::new(budget) }
    }

    /// Creates a ledger for a part of the work. The part may spend `budget` as far as this ledger
    /// has it.
    #[must_use]
    pub fn part(self: &Arc<Self>, budget: Budget) -> Self {
        Self { whole: Some(Arc::clone(self)), ..Self::new(budget) }
    }

    /// Returns the known spending so far.
    pub fn spent(&self) -> Spent {
        self.state().spent
    }

    /// Returns the known spending so far, as answers show it.
    pub fn cost(&self) -> Cost {
        self.spent().cost()
    }

    /// Returns what is left for work that is not under way yet.
    pub fn left(&self) -> Budget {
        let left = self.state().left(&self.budget);
        self.whole.as_ref().map_or(left, |whole| left.min(whole.left()))
    }

    /// Returns whether a budget bounds the work, of this ledger or of one that it is part of.
    pub fn is_bounded(&self) -> bool {
        self.budget != Budget::UNBOUNDED
            || self.whole.as_ref().is_some_and(|whole| whole.is_bounded())
    }

    /// Begins a call to a model with a prompt of about `prompt_tokens` and a reply of at most
    /// `reply_tokens`.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Exhausted`] with the reason `BUDGET_SPENT`, and without a delay to
    /// retry after, if the budget does not suffice.
    pub fn begin(&self, prompt_tokens: u64, reply_tokens: u64) -> Result<Call<'_>, Error> {
        let tokens = prompt_tokens.saturating_add(reply_tokens);
        let wanted = |left: Budget, is_alone: bool| {
            if left.time.is_zero() {
                return Err("time");
            }
            if left.calls == 0 {
                return Err("calls");
            }
            if left.tokens < tokens.max(1) {
                return Err("tokens");
            }
            // Reservations for repeats must not keep other calls from starting at all.
            let most = if is_alone { left.calls } else { left.calls / 8 };
            let calls = most.saturating_sub(1).min(MOST_REPEATS) + 1;
            Ok(Held { calls, tokens })
        };
        let draw = self.draw(wanted).map_err(|what| self.refuse(what))?;
        let taken = Spent { calls: 1, prompt_tokens, ..Spent::default() };
        draw.takes(taken);
        Ok(Call { draw, prompt_tokens, asked: 0, taken, lost: (0, 0) })
    }

    /// Reserves everything that is left for another node, which reports what it spends. This works
    /// even if nothing is left, because the other node may have the reply in its cache.
    pub fn lend(&self) -> Loan<'_> {
        let all =
            |left: Budget, _| Ok::<_, Infallible>(Held { calls: left.calls, tokens: left.tokens });
        let Ok(draw) = self.draw(all);
        Loan { draw, before: Mutex::default() }
    }

    /// Adds a cost that no budget bounds.
    pub fn add_aside(&self, cost: Cost) {
        self.change(|state| state.spent.aside += cost);
        if let Some(whole) = &self.whole {
            whole.add_aside(cost);
        }
    }

    /// Counts a reply that came from a cache.
    pub fn count_cache_hit(&self) {
        self.change(|state| state.spent.cache_hits += 1);
        if let Some(whole) = &self.whole {
            whole.count_cache_hit();
        }
    }

    /// Counts a reply that could not be parsed.
    pub fn count_unreadable(&self) {
        self.change(|state| state.spent.unreadable += 1);
        if let Some(whole) = &self.whole {
            whole.count_unreadable();
        }
    }

    /// Records that something is left undone because the budget is used up, and returns the error
    /// that says so.
    pub fn refuse(&self, what: &str) -> Error {
        let mut at = Some(self);
        while let Some(ledger) = at {
            ledger.change(|state| state.spent.is_out_of_budget = true);
            at = ledger.whole.as_deref();
        }
        let message = format!(
            "the budget of {what} for language models is spent; ask for less, or raise `generator.budget` \
             (`graph_builder.budget` for what is read out of one text)"
        );
        Error::new(ErrorKind::Exhausted, BUDGET_SPENT, message)
    }

    /// Reserves as much as `wanted` returns. Its arguments are what is left, and whether nothing
    /// else is under way. It is called for this ledger and for the whole; the smaller amount is
    /// reserved in both.
    fn draw<E>(
        &self,
        wanted: impl Fn(Budget, bool) -> Result<Held, E> + Copy,
    ) -> Result<Draw<'_>, E> {
        let mut whole = self.whole.as_ref().map(|whole| whole.draw(wanted)).transpose()?;
        let mut state = self.state();
        let mut granted = wanted(state.left(&self.budget), state.under_way == 0)?;
        if let Some(whole) = &mut whole {
            granted.calls = granted.calls.min(whole.granted.calls);
            granted.tokens = granted.tokens.min(whole.granted.tokens);
        }
        // An unbounded budget never runs short, so nothing is reserved from it.
        let sets_aside = |budget, amount| if budget == u64::MAX { 0 } else { amount };
        let held = Held {
            calls: sets_aside(self.budget.calls, granted.calls),
            tokens: sets_aside(self.budget.tokens, granted.tokens),
        };
        state.held.calls += held.calls;
        state.held.tokens += held.tokens;
        state.under_way += 1;
        drop(state);
        if let Some(whole) = &mut whole {
            whole.narrow(granted);
        }
        let now = Mutex::new(Now { held, taken: Spent::default() });
        Ok(Draw { ledger: self, whole: whole.map(Box::new), granted, set_aside: held, now })
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let spent = {
            let mut state = self.state();
            change(&mut state);
            state.spent
        };
        if let Some(watcher) = &self.watcher {
            watcher(spent);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while the lock is held leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns what is left of a budget. An unbounded budget is never used up.
fn left(budget: u64, spent: u64, held: u64) -> u64 {
    match budget {
        u64::MAX => u64::MAX,
        budget => budget.saturating_sub(spent).saturating_sub(held),
    }
}

/// Reservation for work under way, with what that work has taken so far. Dropping it gives back the
/// rest.
struct Draw<'a> {
    ledger: &'a Ledger,
    whole: Option<Box<Draw<'a>>>,
    /// Amount that the work may take.
    granted: Held,
    /// Amount that was reserved for it in this ledger.
    set_aside: Held,
    now: Mutex<Now>,
}

#[derive(Clone, Copy, Debug)]
struct Now {
    /// Amount that is still reserved.
    held: Held,
    taken: Spent,
}

impl Draw<'_> {
    /// Gives back what exceeds `to`.
    fn narrow(&mut self, to: Held) {
        self.granted = to;
        self.set_aside.calls = self.set_aside.calls.min(to.calls);
        self.set_aside.tokens = self.set_aside.tokens.min(to.tokens);
        if let Some(whole) = &mut self.whole {
            whole.narrow(to);
        }
        let taken = self.now().taken;
        self.takes(taken);
    }

    /// Sets the total that the work has taken so far, in place of the previous total.
    fn takes(&self, taken: Spent) {
        {
            let mut now = self.now();
            let before = *now;
            now.held = Held {
                calls: self.set_aside.calls.saturating_sub(taken.calls),
                tokens: self.set_aside.tokens.saturating_sub(taken.tokens()),
            };
            now.taken = taken;
            let after = *now;
            self.ledger.change(|state| {
                state.spent = state.spent.without(&before.taken).and(after.taken);
                // This cannot underflow: what this reservation held before is part of the sum.
                state.held.calls = state.held.calls - before.held.calls + after.held.calls;
                state.held.tokens = state.held.tokens - before.held.tokens + after.held.tokens;
            });
        }
        if let Some(whole) = &self.whole {
            whole.takes(taken);
        }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Draw<'_> {
    fn drop(&mut self) {
        let held = self.now().held;
        let mut state = self.ledger.state();
        state.held.calls -= held.calls;
        state.held.tokens -= held.tokens;
        state.under_way -= 1;
    }
}

/// Call to a model that is under way. If it is dropped, it counts as far as is known.
pub struct Call<'a> {
    draw: Draw<'a>,
    prompt_tokens: u64,
    /// Number of requests to the model that were reported.
    asked: u64,
    taken: Spent,
    /// Tokens of the prompts and replies of attempts that broke off.
    lost: (u64, u64),
}

impl Call<'_> {
    /// Returns how often the model may be asked for its reply; `None` if nothing bounds it.
    pub fn most_calls(&self) -> Option<NonZeroU32> {
        let is_bounded = self.draw.ledger.is_bounded();
        let most = u32::try_from(self.draw.granted.calls).unwrap_or(u32::MAX);
        NonZeroU32::new(most).filter(|_| is_bounded)
    }

    /// Records that a request is sent to the model. The first is already counted; others repeat it.
    pub fn is_asked(&mut self) {
        self.asked += 1;
        if self.asked > 1 {
            self.taken.calls += 1;
            self.taken.prompt_tokens = self.taken.prompt_tokens.saturating_add(self.prompt_tokens);
            self.draw.takes(self.taken);
        }
    }

    /// Records that the model said `tokens` more tokens.
    pub fn is_said(&mut self, tokens: u64) {
        self.taken.completion_tokens = self.taken.completion_tokens.saturating_add(tokens);
        self.draw.takes(self.taken);
    }

    /// Records that the reply so far is void and begins again. The tokens of the broken-off attempt
    /// stay spent.
    pub fn is_void(&mut self) {
        let (prompts, _) = self.lost;
        self.lost = (prompts.saturating_add(self.prompt_tokens), self.taken.completion_tokens);
    }

    /// Ends the call with the usage of its reply. The tokens of attempts that broke off are added.
    pub fn end(mut self, usage: &Usage) {
        let (prompts, replies) = self.lost;
        self.taken = Spent {
            calls: self.taken.calls.max(usage.calls.into()),
            prompt_tokens: prompts.saturating_add(usage.prompt_tokens),
            completion_tokens: replies.saturating_add(usage.completion_tokens),
            time: usage.took,
            ..self.taken
        };
        self.draw.takes(self.taken);
    }

    /// Ends the call without a reply, after `took`. If a model fails before it says anything, it is
    /// not known how much of the prompt it read. The prompt then counts only if the deadline was
    /// exceeded.
    pub fn fail(mut self, error: &Error, took: Duration) {
        let is_read =
            error.kind() == ErrorKind::DeadlineExceeded || self.taken.completion_tokens > 0;
        if !is_read {
            self.taken.prompt_tokens = 0;
        }
        self.taken.time = took;
        self.draw.takes(self.taken);
    }
}

/// Budget lent to another node. If it is dropped, it counts as far as that node has reported.
pub struct Loan<'a> {
    draw: Draw<'a>,
    /// Spending of nodes that were asked before and were lost.
    before: Mutex<Spent>,
}

impl Loan<'_> {
    /// Returns what is left of the loan for the node that is asked now. The spending that earlier
    /// nodes reported stays spent.
    pub fn for_another(&self) -> Budget {
        let taken = self.draw.now().taken;
        *self.before() = taken;
        let granted = self.draw.granted;
        Budget {
            calls: left(granted.calls, taken.calls, 0),
            tokens: left(granted.tokens, taken.tokens(), 0),
            time: self.draw.ledger.left().time,
        }
    }

    /// Sets the spending that the current node has reported so far, in place of its previous
    /// report.
    pub fn is_spent(&self, spent: Spent) {
        let before = *self.before();
        self.draw.takes(before.and(spent));
    }

    fn before(&self) -> MutexGuard<'_, Spent> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn usage(prompt_tokens: u64, completion_tokens: u64) -> Usage {
        Usage { prompt_tokens, completion_tokens, took: SECOND, calls: 1 }
    }

    fn bounded(calls: u64, tokens: u64) -> Arc<Ledger> {
        Arc::new(Ledger::new(Budget { calls, tokens, ..Budget::UNBOUNDED }))
    }

    fn reason<T>(begun: Result<T, Error>) -> String {
        begun.err().map(|error| error.reason().to_owned()).unwrap_or_default()
    }

    #[test]
    fn what_is_in_flight_counts_against_the_budget() {
        let ledger = bounded(2, 100);
        let first = ledger.begin(40, 20).unwrap();
        assert_eq!(reason(ledger.begin(40, 20)), "BUDGET_SPENT");
        first.end(&usage(30, 10));
        let second = ledger.begin(60, 0).unwrap();
        assert_eq!(reason(ledger.begin(0, 0)), "BUDGET_SPENT");
        drop(second);
        assert_eq!(reason(ledger.begin(0, 0)), "BUDGET_SPENT");
        let spent = ledger.spent();
        assert_eq!((spent.calls, spent.prompt_tokens, spent.completion_tokens), (2, 90, 10));
        assert!(spent.is_out_of_budget && ledger.cost().is_out_of_budget);
    }

    #[test]
    fn time_is_a_budget_too() {
        let ledger = Ledger::new(Budget { time: SECOND, ..Budget::UNBOUNDED });
        ledger.begin(1, 1).unwrap().end(&usage(1, 1));
        let error = ledger.begin(1, 1).err().unwrap();
        assert_eq!((error.kind(), error.retry_after()), (ErrorKind::Exhausted, None));
    }

    #[test]
    fn a_call_that_is_broken_off_counts_as_far_as_it_was_heard() {
        let ledger = bounded(9, 1000);
        let mut call = ledger.begin(10, 50).unwrap();
        call.is_asked();
        call.is_said(3);
        assert_eq!(ledger.left().tokens, 1000 - 60, "the rest of the reply is set aside");
        call.is_asked();
        drop(call);
        let spent = ledger.spent();
        assert_eq!((spent.calls, spent.prompt_tokens, spent.completion_tokens), (2, 20, 3));
        assert_eq!(ledger.left().tokens, 1000 - 23);
        // An unreachable model has read nothing; one that took too long has.
        let gone = Error::new(ErrorKind::Unavailable, "GONE", "gone");
        ledger.begin(10, 50).unwrap().fail(&gone, SECOND);
        assert_eq!((ledger.spent().calls, ledger.spent().prompt_tokens), (3, 20));
        ledger.begin(10, 50).unwrap().fail(&Error::deadline("waiting"), SECOND);
        assert_eq!((ledger.spent().prompt_tokens, ledger.spent().time), (30, 2 * SECOND));
    }

    #[test]
    fn what_is_said_before_a_model_begins_anew_is_spent_whatever_becomes_of_the_call() {
        for succeeds in [true, false] {
            let ledger = bounded(9, 1000);
            let mut call = ledger.begin(10, 50).unwrap();
            call.is_asked();
            call.is_said(30);
            call.is_void();
            call.is_asked();
            call.is_said(4);
            match succeeds {
                true => call.end(&Usage { calls: 2, ..usage(11, 5) }),
                false => call.fail(&Error::new(ErrorKind::Unavailable, "GONE", "gone"), SECOND),
            }
            let spent = ledger.spent();
            let told = (spent.calls, spent.prompt_tokens, spent.completion_tokens);
            assert_eq!(told, if succeeds { (2, 21, 35) } else { (2, 20, 34) });
        }
    }

    #[test]
    fn a_call_may_be_repeated_as_far_as_the_budget_goes_and_others_find_room() {
        let ledger = bounded(8, 1000);
        let alone = ledger.begin(1, 1).unwrap();
        assert_eq!(alone.most_calls(), NonZeroU32::new(8));
        drop(alone);
        let ledger = bounded(64, 1000);
        let calls: Vec<Call<'_>> = (0..16).map(|_| ledger.begin(1, 1).unwrap()).collect();
        assert!(calls.iter().map(|call| call.draw.granted.calls).sum::<u64>() <= 64);
        drop(calls);
        assert_eq!(ledger.left().calls, 64 - 16);
        let free = Ledger::new(Budget::UNBOUNDED);
        assert_eq!(free.begin(1, 1).unwrap().most_calls(), None);
    }

    #[test]
    fn what_is_spent_on_a_part_is_spent_on_the_whole_and_held_to_both() {
        let whole = bounded(3, 1000);
        let small = whole.part(Budget { calls: 1, ..Budget::UNBOUNDED });
        small.begin(5, 5).unwrap().end(&usage(5, 5));
        assert_eq!(reason(small.begin(5, 5)), "BUDGET_SPENT");
        assert_eq!((whole.spent().calls, whole.spent().is_out_of_budget), (1, true));
        let large = whole.part(Budget::UNBOUNDED);
        large.begin(5, 5).unwrap().end(&usage(5, 5));
        assert_eq!(large.begin(5, 5).unwrap().most_calls(), NonZeroU32::new(1));
        assert_eq!(reason(large.begin(5, 5)), "BUDGET_SPENT");
        assert_eq!(reason(small.begin(5, 5)), "BUDGET_SPENT");
        assert_eq!((whole.spent().calls, large.spent().calls), (3, 2));
        large.add_aside(Cost { embedded_tokens: 7, ..Cost::default() });
        assert_eq!(whole.cost().tokens(), 10 + 10 + 5 + 7);
    }

    #[test]
    fn who_is_lent_to_tells_what_was_spent_and_who_comes_next_gets_the_rest() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let tell = Arc::clone(&told);
        let budget = Budget { calls: 5, tokens: 100, time: 10 * SECOND };
        let ledger = Ledger::watched(budget, move |spent| tell.lock().unwrap().push(spent.calls));
        let loan = ledger.lend();
        assert_eq!(loan.for_another(), budget);
        assert_eq!(reason(ledger.begin(1, 1)), "BUDGET_SPENT", "all of it is lent");
        let so_far =
            |calls| Spent { calls, prompt_tokens: 10 * calls, time: SECOND, ..Spent::default() };
        loan.is_spent(so_far(1));
        loan.is_spent(so_far(2));
        let rest = loan.for_another();
        assert_eq!((rest.calls, rest.tokens, rest.time), (3, 80, 9 * SECOND));
        loan.is_spent(so_far(1));
        drop(loan);
        assert_eq!((ledger.spent().calls, ledger.left().tokens), (3, 70));
        assert_eq!(told.lock().unwrap().last(), Some(&3));
        assert_eq!(Ledger::new(Budget::UNBOUNDED).lend().for_another(), Budget::UNBOUNDED);
    }
}

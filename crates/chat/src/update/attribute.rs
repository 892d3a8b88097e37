//! Attributes and their values in a statement.

use std::collections::BTreeSet;

use super::amount::{Amount, Unit, amounts};
use super::change::{Change, change};
use super::slot::{Slot, slots};
use super::word::{Word, is_planned, of_statement};

/// Number of words before and after an amount that describe it.
const REACH: usize = 14;
/// Number of the nearest of these words.
const NEAR: usize = 5;

/// The parts of a statement that a later one can supersede.
#[derive(Clone, Debug)]
pub(super) struct Attributes {
    amounts: Vec<Measured>,
    slots: Vec<Slot>,
    change: Option<Change>,
    /// Dates that are written in digits.
    dates: BTreeSet<String>,
    terms: BTreeSet<String>,
    /// Whether it contains a negation.
    is_negated: bool,
}

/// An amount with its context.
#[derive(Clone, Debug)]
struct Measured {
    amount: Amount,
    /// Terms around it, except those of time.
    about: BTreeSet<String>,
    /// Terms among them that are written like names.
    names: BTreeSet<String>,
    /// The nearest of these terms.
    near: BTreeSet<String>,
    /// Whether it is planned and does not hold yet.
    is_planned: bool,
}

impl Attributes {
    pub(super) fn of(text: &str, speaker: &str) -> Self {
        let words = of_statement(text, speaker);
        let measured = |amount: Amount| {
            let around = |reach: usize| {
                let before = &words[amount.first.saturating_sub(reach)..amount.first];
                let after = &words[amount.end..(amount.end + reach).min(words.len())];
                before
                    .iter()
                    .chain(after)
                    .filter(|word| !word.is_digits() && !is_of_time(&word.lower))
            };
            let terms = |reach: usize| around(reach).filter_map(|word| word.term.clone()).collect();
            let (about, near) = (terms(REACH), terms(NEAR));
            let named = around(REACH).filter(|word| word.is_name);
            let names = named.filter_map(|word| word.term.clone()).collect();
            let is_planned = is_planned(&words[..amount.first]);
            Measured { about, names, near, is_planned, amount }
        };
        let (amounts, dates) = amounts(&words);
        let amounts = amounts.into_iter().map(measured).collect();
        let is_negated = words.iter().any(Word::is_negation);
        let terms = words.iter().filter_map(|word| word.term.clone()).collect();
        Self { amounts, slots: slots(&words), change: change(&words), dates, terms, is_negated }
    }

    /// Returns whether this statement gives another value than `older` for the same attribute, or
    /// says that `older` no longer holds, provided it is later. `are_events_apart` returns whether
    /// both are about events on days, with none in common.
    pub(super) fn supersede(&self, older: &Self, are_events_apart: impl Fn() -> bool) -> bool {
        let are_dates_apart = || {
            let dates = [&self.dates, &older.dates];
            dates.iter().all(|dates| !dates.is_empty()) && dates[0].is_disjoint(dates[1])
        };
        let is_other = |newer: &Measured, old: &Measured| {
            newer.is_of_one_attribute(old)
                && !are_of_others(newer, old, [&self.terms, &older.terms])
                && (newer.amount.unit.is_of_habits() || !are_dates_apart() && !are_events_apart())
        };
        // A statement that repeats one of several amounts says nothing new.
        let tells_again = |newer: &Measured| {
            older.amounts.iter().any(|old| old.amount.is_equal_to(&newer.amount))
        };
        let is_new = |newer: &&Measured| {
            let mut amounts = self.amounts.iter();
            !amounts.any(|other| {
                other.amount.unit.is_one_with(&newer.amount.unit) && tells_again(other)
            })
        };
        let newer = self.amounts.iter().filter(is_new);
        let mut pairs = newer.flat_map(|newer| older.amounts.iter().map(move |old| (newer, old)));
        pairs.any(|(newer, old)| is_other(newer, old))
            || self.slots.iter().any(|newer| older.slots.iter().any(|old| newer.supersedes(old)))
            || (!older.is_negated
                && older.change.is_none()
                && self.change.as_ref().is_some_and(|change| change.is_of(&older.terms)))
    }
}

impl Measured {
    /// Returns whether both amounts are about the same thing: enough terms around them agree, and
    /// so do at least half of the nearest ones.
    fn is_of_one_attribute(&self, other: &Self) -> bool {
        let (unit, others) = (&self.amount.unit, &other.amount.unit);
        if self.is_planned || other.is_planned || !unit.is_one_with(others) {
            return false;
        }
        let least = match unit {
            Unit::Of(_) | Unit::Often => 2,
            Unit::Clock | Unit::Money | Unit::Percent => 3,
        };
        let shared = self.about.intersection(&other.about);
        let shared = shared.filter(|term| !unit.has(term) && !others.has(term));
        let weight: usize = shared.map(|term| self.weight(other, term)).sum();
        if self.about == other.about {
            return weight > 0;
        }
        let (this, that) = (self.is_near(other), other.is_near(self));
        weight >= least && if *unit == Unit::Often { this || that } else { this && that }
    }

    /// Returns whether half of the nearest terms are also around the other amount.
    fn is_near(&self, other: &Self) -> bool {
        let weigh = |term: &String| self.weight(other, term);
        let shared: usize = self.near.intersection(&other.about).map(weigh).sum();
        2 * shared >= self.near.iter().map(weigh).sum()
    }

    /// Returns the weight of a term. A name in both contexts counts twice.
    fn weight(&self, other: &Self, term: &str) -> usize {
        1 + usize::from(self.names.contains(term) && other.names.contains(term))
    }
}

/// Returns whether they are about different names: each has its own or, for money, one has an
/// additional name.
fn are_of_others(newer: &Measured, older: &Measured, terms: [&BTreeSet<String>; 2]) -> bool {
    let [of_newer, of_older] = terms;
    let (more, less) = (!newer.names.is_subset(of_older), !older.names.is_subset(of_newer));
    match newer.amount.unit {
        Unit::Money => more || less,
        _ => more && less,
    }
}

/// Returns whether a word expresses a time or duration, which amounts of anything have in common.
fn is_of_time(word: &str) -> bool {
    const WORDS: [&str; 18] = [
        "ago", "day", "days", "hour", "hours", "last", "minute", "minutes", "month", "months",
        "next", "past", "time", "times", "week", "weeks", "year", "years",
    ];
    WORDS.contains(&word)
}

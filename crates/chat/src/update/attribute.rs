//! What a statement tells of: attributes and their values.

use std::collections::BTreeSet;

use super::amount::{Amount, Unit, amounts};
use super::change::{Change, change};
use super::slot::{Slot, slots};
use super::word::{Word, is_planned, of_statement};

/// Words before and after an amount that tell what it is an amount of.
const REACH: usize = 14;
/// Of these, the nearest.
const NEAR: usize = 5;

/// What can change of what a statement tells.
#[derive(Clone, Debug)]
pub(super) struct Attributes {
    amounts: Vec<Measured>,
    slots: Vec<Slot>,
    change: Option<Change>,
    /// Dates that are written in digits.
    dates: BTreeSet<String>,
    terms: BTreeSet<String>,
    /// Whether it says that something is not so.
    is_negated: bool,
}

/// An amount with what it is told of.
#[derive(Clone, Debug)]
struct Measured {
    amount: Amount,
    /// The terms around it, those of time left out.
    about: BTreeSet<String>,
    /// Those of them that are written as names.
    names: BTreeSet<String>,
    /// Those that stand nearest.
    near: BTreeSet<String>,
    /// Whether it is not so yet.
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

    /// Whether this tells another value of something that `older` told, if it was told later. `are_events_apart`
    /// tells whether both tell of what happened on days, and not on the same.
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
        // Who tells one of several amounts again tells nothing new.
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
    /// Whether both amounts are stated of one thing: enough terms around them are the same, and at least half of the
    /// nearest ones.
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

    /// Whether half of the nearest terms are around the other.
    fn is_near(&self, other: &Self) -> bool {
        let weigh = |term: &String| self.weight(other, term);
        let shared: usize = self.near.intersection(&other.about).map(weigh).sum();
        2 * shared >= self.near.iter().map(weigh).sum()
    }

    /// What a term weighs: a name that both tell counts twice.
    fn weight(&self, other: &Self, term: &str) -> usize {
        1 + usize::from(self.names.contains(term) && other.names.contains(term))
    }
}

/// Whether they are told of different names: each of its own, or, where it is money, one of a name more.
fn are_of_others(newer: &Measured, older: &Measured, terms: [&BTreeSet<String>; 2]) -> bool {
    let [of_newer, of_older] = terms;
    let (more, less) = (!newer.names.is_subset(of_older), !older.names.is_subset(of_newer));
    match newer.amount.unit {
        Unit::Money => more || less,
        _ => more && less,
    }
}

/// Words that tell when or how long, which amounts of anything share.
fn is_of_time(word: &str) -> bool {
    const WORDS: [&str; 18] = [
        "ago", "day", "days", "hour", "hours", "last", "minute", "minutes", "month", "months",
        "next", "past", "time", "times", "week", "weeks", "year", "years",
    ];
    WORDS.contains(&word)
}

//! Counts the things that several statements mention, and adds up the amounts they name.
//!
//! A statement that says the number itself takes precedence over a count. Statements that may be
//! plans are left out. Nothing is counted if fewer than two or too many statements fit: a wrong
//! number is worse than the statements alone.

mod number;

use std::collections::BTreeSet;

use clew_text::{Term, is_grammar_word, terms};

use self::number::{amounts, number};
use super::phrase::{after_start, bare, holds_any, items, split, split_any};
use super::reckoning::Dated;
use super::verb::in_past;

/// Maximum number of statements counted. More cannot be told apart reliably.
const MAX_COUNTED: usize = 6;
/// Minimum share of common terms, apart from those of the question, at which two statements mention
/// the same thing.
const SAME_THING: f32 = 0.4;
/// Maximum number of words between a number and what it counts: "three small red harps".
const MAX_BETWEEN: usize = 3;

/// Expressions that make a statement a plan or a wish.
const PLANS: [&str; 23] = [
    "thinking of",
    "thinking about",
    "planning",
    "plan to",
    "looking for",
    "considering",
    "want to",
    "wanted to",
    "need to",
    "hoping",
    "would like",
    "i'd like",
    "going to",
    "might",
    "could",
    "should",
    "wish",
    "looking to",
    "will",
    "i'll",
    "if i",
    "haven't",
    "never",
];
/// Units. A question about a number of these is not answered by counting statements.
const UNITS: [&str; 12] = [
    "days", "weeks", "months", "years", "hours", "minutes", "times", "miles", "percent", "more",
    "people", "pages",
];
const AUXILIARIES: [&str; 10] =
    ["did", "do", "have", "has", "had", "was", "were", "are", "am", "can"];
/// Expressions that ask for a sum of money.
const SUMS: [&str; 12] = [
    "how much money",
    "how much total money",
    "how much did i",
    "how much have i",
    "how much in total",
    "total amount of money",
    "total amount i",
    "total cost of",
    "total price of",
    "total money",
    "total amount spent",
    "how much had i",
];
/// Words that show that a question asks for a difference or something other than a sum.
const NO_SUMS: [&str; 9] =
    ["more", "less", "save", "saved", "discount", "older", "average", "each", "per"];
/// Words that do not name a kind of thing by themselves.
const GENERIC: &str = "related expenses items things stuff purchases products money";
/// Verbs of spending, and of earning.
const SPENT: [&str; 12] = [
    "spend",
    "spent",
    "cost",
    "costed",
    "paid",
    "pay",
    "bought",
    "purchased",
    "got",
    "invested",
    "were",
    "was",
];
const EARNED: [&str; 8] = ["earn", "earned", "earning", "made", "make", "raised", "sold", "raise"];

/// Quantity that a question asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Counting {
    /// Number of things of a kind.
    Number(Things),
    /// Amount paid or earned in total.
    Sum(Sum),
}

/// A kind of things, and what the question says of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Things {
    /// Name of the things, as the asker writes it.
    pub(crate) written: String,
    /// Last words of the name: "harps" in "old harps", both in "harps or lutes".
    kinds: Vec<Term>,
    /// All content words of the name.
    all: BTreeSet<Term>,
    /// Words for what is done with the things.
    done: BTreeSet<Term>,
}

/// A sum paid for something, or earned by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sum {
    /// Purpose of the payment, as the asker writes it.
    pub(crate) written: String,
    /// Things paid for, if the question names two of them; empty for a kind of things.
    pub(crate) parts: Vec<String>,
    topic: BTreeSet<Term>,
    is_earned: bool,
}

/// A sentence that may be counted.
#[derive(Clone, Debug)]
pub(crate) struct Told<'a> {
    /// Text of the sentence.
    pub(crate) text: &'a str,
    /// Text of its passage, which explains pronouns such as "it".
    pub(crate) passage: &'a str,
    /// Time of the event, if known.
    pub(crate) day: Option<Dated>,
    /// Preference by time among statements that say a number; higher is better.
    pub(crate) preference: f32,
}

/// Result of counting statements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// One statement says the number.
    Said(usize),
    /// A sentence with the figure and what was counted, and the indices of the statements.
    Made(String, Vec<usize>),
}

impl Counting {
    /// Returns the quantity that `question` asks for, if any.
    pub(crate) fn of(question: &str) -> Option<Self> {
        sum(question).map(Self::Sum).or_else(|| things(question).map(Self::Number))
    }

    /// Counts or adds up statements that fit the question, given best first.
    pub(crate) fn counted(&self, told: &[Told<'_>]) -> Option<Counted> {
        match self {
            Self::Number(things) => things.counted(told),
            Self::Sum(sum) if sum.parts.is_empty() => sum.added(told),
            // Each named thing has its own statement; these are found separately.
            Self::Sum(_) => None,
        }
    }
}

fn things(question: &str) -> Option<Things> {
    let (_, rest) = split(question, "how many")?;
    let (things, done) = split_any(rest, &AUXILIARIES)?;
    let is_unit = holds_any(things, &UNITS);
    let of_asker = after_start(done, &["i", "my", "we", "our", "there"]);
    let kinds: Vec<Term> = split_any(things, &["or", "and"])
        .map_or(vec![things], |(one, other)| vec![one, other])
        .into_iter()
        .filter_map(|kind| terms(kind).last())
        .collect();
    if is_unit || kinds.is_empty() || things.split_whitespace().count() > 6 {
        return None;
    }
    let content = |text: &str| -> BTreeSet<Term> {
        let words = text.split_whitespace().filter(|word| {
            !is_grammar_word(&word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase())
        });
        words.flat_map(terms).collect()
    };
    let done = bare(of_asker?);
    let (all, done) = (content(things), content(&format!("{done} {}", in_past(done))));
    Some(Things { written: bare(things).to_owned(), kinds, all, done })
}

fn sum(question: &str) -> Option<Sum> {
    let (_, rest) = split_any(question, &SUMS)?;
    if holds_any(question, &NO_SUMS) {
        return None;
    }
    let is_earned = holds_any(question, &EARNED);
    if !is_earned
        && !holds_any(question, &SPENT)
        && split_any(question, &["cost", "price"]).is_none()
    {
        return None;
    }
    let (_, object) = split_any(rest, &["on", "for", "from", "with", "of"]).unwrap_or(("", rest));
    let object =
        split_any(object, &["since", "this", "last", "in the past", "in the last", "i", "so far"])
            .map_or(object, |(before, _)| before);
    let object = bare(object);
    let topic: BTreeSet<Term> =
        content_terms(object).difference(&terms(GENERIC).collect()).cloned().collect();
    let parts = items(object, "and");
    let parts =
        if parts.len() == 2 { parts.into_iter().map(str::to_owned).collect() } else { vec![] };
    (!topic.is_empty()).then(|| Sum { written: object.to_owned(), parts, topic, is_earned })
}

impl Things {
    fn counted(&self, told: &[Told<'_>]) -> Option<Counted> {
        let fits: Vec<usize> = (0..told.len()).filter(|&index| self.fits(&told[index])).collect();
        let mut said: Option<usize> = None;
        for &index in fits.iter().filter(|&&index| self.says_number(told[index].text)) {
            if said.is_none_or(|best| told[index].preference > told[best].preference) {
                said = Some(index);
            }
        }
        if let Some(said) = said {
            return Some(Counted::Said(said));
        }
        let known = |told: &Told<'_>| -> BTreeSet<Term> {
            let asked = |term: &Term| self.all.contains(term) || self.done.contains(term);
            content_terms(told.text).into_iter().filter(|term| !asked(term)).collect()
        };
        let mut distinct = distinct(told, &fits, known);
        distinct.sort_by_key(|&index| (told[index].day.is_none(), told[index].day));
        if !(2..=MAX_COUNTED).contains(&distinct.len()) {
            return None;
        }
        let list = list(told, &distinct);
        let sentence =
            format!("{} {}, counted from what was said: {list}.", distinct.len(), self.written);
        Some(Counted::Made(sentence, distinct))
    }

    /// Returns whether the text states that such a thing was dealt with in this way.
    fn fits(&self, told: &Told<'_>) -> bool {
        let held: BTreeSet<Term> = terms(told.text).collect();
        let is_done = self.done.is_empty() || self.done.iter().any(|term| held.contains(term));
        let is_whole =
            self.all.iter().filter(|term| held.contains(term)).count() * 2 > self.all.len();
        self.kinds.iter().any(|kind| held.contains(kind))
            && is_done
            && is_whole
            && !holds_any(told.text, &PLANS)
    }

    /// Returns whether the text has a number before what it counts.
    fn says_number(&self, text: &str) -> bool {
        let words: Vec<&str> = text.split_whitespace().collect();
        words.iter().enumerate().any(|(place, word)| {
            let next = words.iter().skip(place + 1).take(1 + MAX_BETWEEN);
            number(word).is_some_and(|number| number > 1.0)
                && next
                    .take_while(|word| !word.ends_with([',', '.', ';']) || self.is_kind(word))
                    .any(|word| self.is_kind(word))
        })
    }

    fn is_kind(&self, word: &str) -> bool {
        terms(word).any(|term| self.kinds.contains(&term))
    }
}

impl Sum {
    fn added(&self, told: &[Told<'_>]) -> Option<Counted> {
        let mut fits: Vec<usize> = Vec::new();
        for (index, told) in told.iter().enumerate() {
            let held: BTreeSet<Term> = terms(told.passage).collect();
            let is_meant =
                self.topic.iter().any(|term| held.contains(term)) && self.fits(told.text);
            match amounts(told.text).len() {
                0 => {}
                1 if is_meant => fits.push(index),
                // It is not known which of several amounts is meant.
                _ if is_meant => return None,
                _ => {}
            }
        }
        fits.sort_by_key(|&index| (told[index].day.is_none(), told[index].day));
        // The same amount for things that share a word is the same payment, mentioned again.
        let known = |told: &Told<'_>| content_terms(told.text);
        let mut distinct: Vec<usize> = Vec::new();
        for index in fits {
            let again = |&other: &usize| {
                amounts(told[other].text) == amounts(told[index].text)
                    && alike(&known(&told[other]), &known(&told[index])) >= SAME_THING / 2.0
            };
            if !distinct.iter().any(again) {
                distinct.push(index);
            }
        }
        if !(2..=MAX_COUNTED).contains(&distinct.len()) {
            return None;
        }
        Some(Counted::Made(self.total(told, &distinct), distinct))
    }

    /// Returns whether the text mentions money spent or earned, as the question asks.
    pub(crate) fn fits(&self, text: &str) -> bool {
        let verbs = if self.is_earned { &EARNED[..] } else { &SPENT[..] };
        holds_any(text, verbs) && !holds_any(text, &PLANS)
    }

    /// Returns the amount of a statement, if it names exactly one.
    pub(crate) fn amount(text: &str) -> Option<f64> {
        let amounts = amounts(text);
        (amounts.len() == 1).then(|| amounts[0])
    }

    /// Returns a sentence with the sum of the amounts of `told[index]`, and its summands.
    pub(crate) fn total(&self, told: &[Told<'_>], indices: &[usize]) -> String {
        let amounts: Vec<f64> =
            indices.iter().filter_map(|&index| Self::amount(told[index].text)).collect();
        let parts: Vec<String> = amounts.iter().map(|amount| money(*amount)).collect();
        let total = money(amounts.iter().sum());
        format!("{total} in all for {}: {}.", self.written, parts.join(" + "))
    }
}

fn money(amount: f64) -> String {
    let cents = (amount * 100.0).round() % 100.0;
    if cents == 0.0 { format!("${amount:.0}") } else { format!("${amount:.2}") }
}

/// Returns the first statement of each distinct thing. Statements are compared by the terms that
/// `known` returns.
fn distinct(
    told: &[Told<'_>],
    fits: &[usize],
    known: impl Fn(&Told<'_>) -> BTreeSet<Term>,
) -> Vec<usize> {
    let mut distinct: Vec<usize> = Vec::new();
    for &index in fits {
        let says = known(&told[index]);
        if !distinct.iter().any(|&other| alike(&known(&told[other]), &says) >= SAME_THING) {
            distinct.push(index);
        }
    }
    distinct
}

/// Returns the share of the smaller set that the other contains. An empty set counts as contained.
fn alike(a: &BTreeSet<Term>, b: &BTreeSet<Term>) -> f32 {
    let fewer = a.len().min(b.len());
    if fewer == 0 { 1.0 } else { a.intersection(b).count() as f32 / fewer as f32 }
}

fn content_terms(text: &str) -> BTreeSet<Term> {
    let words = clew_text::words(text).filter_map(|span| span.of(text));
    words.filter(|word| !is_grammar_word(&word.to_lowercase())).flat_map(terms).collect()
}

/// Lists the days of statements, numbered.
fn list(told: &[Told<'_>], indices: &[usize]) -> String {
    let item = |(place, &index): (usize, &usize)| {
        let day = told[index].day.map_or("no day known".to_owned(), |day| day.written());
        format!("({}) {day}", place + 1)
    };
    indices.iter().enumerate().map(item).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counted(question: &str, statements: &[&str]) -> Option<Counted> {
        let told: Vec<Told<'_>> = statements
            .iter()
            .map(|text| Told { text, passage: text, day: None, preference: 0.0 })
            .collect();
        Counting::of(question).unwrap_or_else(|| panic!("{question}")).counted(&told)
    }

    #[test]
    fn what_several_statements_tell_of_is_counted_once_each() {
        let told = [
            "I bought a harp from my neighbour Ada in the village.",
            "I bought another harp at the auction house on Friday.",
            "I'm thinking of buying a harp of silver.",
            "In the village I bought a harp from Ada, my neighbour.",
            "I bought a lute.",
        ];
        let Some(Counted::Made(text, which)) = counted("How many harps did I buy?", &told) else {
            panic!("nothing was counted")
        };
        assert_eq!(which, [0, 1]);
        let expected = "2 harps, counted from what was said: (1) no day known, (2) no day known.";
        assert_eq!(text, expected);
        assert_eq!(counted("How many harps did I buy?", &told[..1]), None);
        assert_eq!(counted("How many zithers did I buy?", &told), None);
    }

    #[test]
    fn a_statement_that_says_the_number_goes_before_a_count() {
        let told = ["I own a harp of oak.", "I own a harp of beech.", "I own three small harps."];
        assert_eq!(counted("How many harps do I own?", &told), Some(Counted::Said(2)));
        let told = ["I own a harp since 3 May.", "I own a second one, with 40 strings, a harp."];
        assert_ne!(counted("How many harps do I own?", &told), Some(Counted::Said(1)));
    }

    #[test]
    fn amounts_are_added_where_each_statement_says_one() {
        let told = [
            "The harp strings cost me $40.",
            "I spent $1,200.50 on a harp.",
            "As I said, the harp strings cost me $40 back then.",
            "I'm thinking of a harp case, which would cost $90.",
        ];
        let Some(Counted::Made(text, which)) =
            counted("How much money did I spend on my harp?", &told)
        else {
            panic!("nothing was added")
        };
        assert_eq!(which, [0, 1]);
        assert_eq!(text, "$1240.50 in all for my harp: $40 + $1200.50.");
        let unclear = ["I spent $40 of my $90 on the harp.", told[0], told[1]];
        assert_eq!(counted("How much money did I spend on my harp?", &unclear), None);
    }

    #[test]
    fn what_is_no_count_is_none() {
        for question in [
            "How many days did I spend in Rome?",
            "How many strings does a harp have?",
            "How much more did I spend on the harp?",
            "How much does a harp cost?",
            "How many?",
        ] {
            assert_eq!(Counting::of(question), None, "{question}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_counted_or_not(
            question in "(how many |harps |did i |how much money |spend on |and |é|, ){0,8}",
            told in prop::collection::vec("(\\$[0-9,.]{0,9} |harps |three |spent |é|, ){0,12}|\\PC{0,40}", 0..5),
        ) {
            if let Some(counting) = Counting::of(&question) {
                let told: Vec<Told<'_>> = told
                    .iter()
                    .map(|text| Told { text, passage: text, day: None, preference: 0.0 })
                    .collect();
                if let Some(Counted::Made(_, which)) = counting.counted(&told) {
                    prop_assert!(which.iter().all(|&index| index < told.len()));
                }
            }
        }
    }
}

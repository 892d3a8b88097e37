//! Recognises by what a question compares its options: "Which is older, A or B?"

use super::bridge::is_person;
use super::quantity::Quantity;
use crate::extractive::phrase::{holds_any, split, split_any};

/// Comparison of the options of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Comparison {
    /// Role of somebody who is compared in place of an option: "director" in "Which film has the
    /// director who was born first, A or B?"
    pub(super) role: Option<String>,
    before: String,
    after: String,
    kind: Kind,
    /// Whether the least is asked for.
    is_least: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Day,
    Measure,
}

/// Words that ask for the earliest, and for the latest.
const EARLIEST: [&str; 6] = ["first", "earlier", "earliest", "older", "oldest", "before"];
const LATEST: [&str; 8] =
    ["later", "latest", "last", "younger", "youngest", "newer", "newest", "most recently"];
/// Words for what happened on the day that is compared, with the question about it.
const HAPPENINGS: [(&str, &str, &str); 27] = [
    ("born", "When was", "born?"),
    ("died", "When did", "die?"),
    ("die", "When did", "die?"),
    ("founded", "When was", "founded?"),
    ("formed", "When was", "formed?"),
    ("established", "When was", "established?"),
    ("built", "When was", "built?"),
    ("completed", "When was", "completed?"),
    ("created", "When was", "created?"),
    ("started", "When was", "started?"),
    ("begun", "When did", "begin?"),
    ("began", "When did", "begin?"),
    ("published", "When was", "published?"),
    ("written", "When was", "written?"),
    ("released", "When was", "released?"),
    ("came out", "When was", "released?"),
    ("come out", "When was", "released?"),
    ("opened", "When was", "opened?"),
    ("launched", "When was", "launched?"),
    ("introduced", "When was", "introduced?"),
    ("invented", "When was", "invented?"),
    ("discovered", "When was", "discovered?"),
    ("made", "When was", "made?"),
    ("signed", "When was", "signed?"),
    ("elected", "When was", "elected?"),
    ("married", "When was", "married?"),
    ("happened", "When did", "happen?"),
];
/// What is asked about the age of a thing.
const BEGINNING: (&str, &str, &str) = ("", "When was", "built or founded?");
/// Words that compare measures, with the question about it; the greatest is asked for.
const GREATER: [(&[&str], &str, &str); 9] = [
    (&["taller", "tallest"], "How tall is", "?"),
    (&["higher", "highest"], "How high is", "?"),
    (&["longer", "longest"], "How long is", "?"),
    (&["larger", "largest", "bigger", "biggest"], "How large is", "?"),
    (&["heavier", "heaviest"], "How heavy is", "?"),
    (&["deeper", "deepest"], "How deep is", "?"),
    (&["wider", "widest"], "How wide is", "?"),
    (&["faster", "fastest"], "How fast is", "?"),
    (&["more expensive", "most expensive"], "How much does", "cost?"),
];
/// The same, where the least is asked for.
const LESS: [(&[&str], &str, &str); 4] = [
    (&["shorter", "shortest"], "How long is", "?"),
    (&["smaller", "smallest"], "How large is", "?"),
    (&["lighter", "lightest"], "How heavy is", "?"),
    (&["cheaper", "cheapest"], "How much does", "cost?"),
];

impl Comparison {
    /// Returns the comparison that a question asks for, given without its options.
    pub(super) fn of(question: &str) -> Option<Self> {
        by_day(question).or_else(|| by_measure(question)).or_else(|| by_number(question))
    }

    /// Returns the question about what is compared of `option`.
    pub(super) fn asks(&self, option: &str) -> String {
        let space = if self.after == "?" { "" } else { " " };
        format!("{} {option}{space}{}", self.before, self.after)
    }

    /// Returns the quantity in an answer to that question.
    pub(super) fn quantity(&self, answer: &str) -> Option<Quantity> {
        match self.kind {
            Kind::Day => Quantity::day(answer),
            Kind::Measure => Quantity::measure(answer),
        }
    }

    /// Returns the place of the one quantity that is asked for; `None` if any two cannot be
    /// compared.
    pub(super) fn chosen(&self, quantities: &[Quantity]) -> Option<usize> {
        let mut best = 0;
        for (place, quantity) in quantities.iter().enumerate().skip(1) {
            if quantity.is_less(&quantities[best])? == self.is_least {
                best = place;
            }
        }
        (!quantities.is_empty()).then_some(best)
    }
}

fn by_day(question: &str) -> Option<Comparison> {
    let is_least = match (holds_any(question, &EARLIEST), holds_any(question, &LATEST)) {
        (true, false) => true,
        (false, true) => false,
        _ => return None,
    };
    let happening = HAPPENINGS.iter().find(|(word, _, _)| split(question, word).is_some());
    let role = role(question);
    let is_of_age = holds_any(question, &["older", "oldest", "younger", "youngest"]);
    let (_, before, after) = match happening {
        Some(happening) => *happening,
        None if !is_of_age => return None,
        None if role.is_some() || compares_people(question) => HAPPENINGS[0],
        None => BEGINNING,
    };
    let (before, after) = (before.to_owned(), after.to_owned());
    Some(Comparison { role, before, after, kind: Kind::Day, is_least })
}

fn compares_people(question: &str) -> bool {
    let kind = split(question, "which").and_then(|(_, rest)| rest.split_whitespace().next());
    holds_any(question, &["who"]) || kind.is_some_and(is_person)
}

fn by_measure(question: &str) -> Option<Comparison> {
    let greater = GREATER.iter().map(|it| (it, false));
    let less = LESS.iter().map(|it| (it, true));
    let ((_, before, after), is_least) =
        greater.chain(less).find(|((words, _, _), _)| holds_any(question, words))?;
    let (before, after) = ((*before).to_owned(), (*after).to_owned());
    Some(Comparison { role: None, before, after, kind: Kind::Measure, is_least })
}

/// Reads "Which has more strings?" and "Which had the fewest strings?".
fn by_number(question: &str) -> Option<Comparison> {
    let (_, things) = split_any(question, &["more", "most", "fewer", "fewest"])?;
    let is_least = holds_any(question, &["fewer", "fewest"]);
    let is_plural = things.ends_with('s') && !things.contains(char::is_whitespace);
    let before = format!("How many {things} does");
    let kind = Kind::Measure;
    is_plural.then(|| Comparison { role: None, before, after: "have?".to_owned(), kind, is_least })
}

/// Returns the role of who is compared in place of an option.
fn role(question: &str) -> Option<String> {
    let (_, rest) = split_any(question, &["has the", "had the", "have the", "whose"])?;
    let role = rest.split(|c: char| !c.is_alphanumeric()).next()?;
    role.starts_with(char::is_lowercase).then(|| role.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compared_is_asked_of_each_option() {
        for (question, expected, is_least) in [
            ("Who was born first", "When was X born?", true),
            ("Who is younger", "When was X born?", false),
            ("Which composer is older", "When was X born?", true),
            ("Which mill is older", "When was X built or founded?", true),
            ("Which film came out earlier", "When was X released?", true),
            ("Which band was formed first", "When was X formed?", true),
            ("Who died later", "When did X die?", false),
            ("Which tower is taller", "How tall is X?", false),
            ("Which is cheaper", "How much does X cost?", true),
            ("Which harp has more strings", "How many strings does X have?", false),
            ("Which harp has the fewest strings", "How many strings does X have?", true),
        ] {
            let comparison = Comparison::of(question).unwrap_or_else(|| panic!("{question}"));
            assert_eq!((&*comparison.asks("X"), comparison.is_least), (expected, is_least));
        }
        for question in ["Which is red", "Who came first", "Which was first and last built", ""] {
            assert_eq!(Comparison::of(question), None, "{question}");
        }
        let role = |question| Comparison::of(question).unwrap().role;
        assert_eq!(role("Which film has the director born later").as_deref(), Some("director"));
        assert_eq!(role("Which film whose director is younger").as_deref(), Some("director"));
        assert_eq!(role("Which director was born first"), None);
    }

    #[test]
    fn the_least_or_greatest_is_chosen_if_all_can_be_compared() {
        let days = |texts: &[&str]| -> Vec<Quantity> {
            texts.iter().map(|text| Quantity::day(text).unwrap()).collect()
        };
        let first = Comparison::of("Who was born first").unwrap();
        assert_eq!(first.chosen(&days(&["1912", "1911", "1913"])), Some(1));
        assert_eq!(first.chosen(&days(&["1912", "1912"])), None);
        let last = Comparison::of("Who was born last").unwrap();
        assert_eq!(last.chosen(&days(&["1912", "1911", "1913"])), Some(2));
        assert_eq!(last.chosen(&[]), None);
    }
}

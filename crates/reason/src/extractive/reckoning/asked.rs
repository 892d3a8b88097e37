//! Recognises questions that need computing with dates, and the events they name.

use crate::extractive::phrase::{after_start, bare, holds_any, items, split, split_any};

/// Maximum number of events that are put in order.
const MAX_EVENTS: usize = 6;

/// Quantity that a question wants computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::extractive) enum Reckoning {
    /// Time between two events.
    Between { from: Event, until: Event, unit: Unit },
    /// Time since an event.
    Since { event: Event, unit: Unit },
    /// First or last of several events, or their order.
    Order { events: Vec<Event>, rank: Rank },
    /// Day of an event.
    When { event: Event },
}

/// An event as a question names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::extractive) struct Event {
    /// Name of the event, as the asker writes it.
    pub(in crate::extractive) text: String,
    /// Words of the question that also describe it: "plant" in "Which did I plant first, A or B?"
    pub(in crate::extractive) context: String,
    /// Whether the beginning of the event is meant: "had I been taking lessons".
    pub(in crate::extractive) begins: bool,
}

/// Unit of a length of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::extractive) enum Unit {
    Days,
    Weeks,
    Months,
    Years,
    /// Whichever unit suits the length.
    Any,
}

/// Selection among several events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::extractive) enum Rank {
    First,
    Last,
    All,
}

const LENGTHS: [(&str, Unit); 9] = [
    ("how many days", Unit::Days),
    ("how many weeks", Unit::Weeks),
    ("how many months", Unit::Months),
    ("how many years", Unit::Years),
    ("how much time", Unit::Any),
    ("how long was it", Unit::Any),
    ("how long is it", Unit::Any),
    ("how long has it been", Unit::Any),
    ("how long", Unit::Any),
];
/// Verbs between the words of a question and its event.
const AUXILIARIES: [&str; 7] = ["did", "was", "were", "had", "have", "has", "is"];
/// Everything that may stand between a unit and "since". Any other words ask how long something was
/// done.
const PASSING: [&str; 14] = [
    "",
    "had passed",
    "have passed",
    "has passed",
    "passed",
    "had it been",
    "has it been",
    "have gone by",
    "has gone by",
    "had elapsed",
    "have elapsed",
    "has elapsed",
    "is it",
    "was it",
];
/// Expressions that only introduce an event.
const LEADS: [&str; 11] = [
    "the day",
    "the day that",
    "the day when",
    "the day on which",
    "the time",
    "the time when",
    "when",
    "the date",
    "the date when",
    "me to",
    "for me to",
];

impl Reckoning {
    /// Returns what `question` wants computed, if it has one of these forms.
    pub(in crate::extractive) fn of(question: &str) -> Option<Self> {
        order(question).or_else(|| length(question)).or_else(|| when(question))
    }

    /// Returns the events, in the order in which [`Reckoning::told`] expects their days.
    pub(in crate::extractive) fn events(&self) -> Vec<&Event> {
        match self {
            Self::Between { from, until, .. } => vec![from, until],
            Self::Since { event, .. } | Self::When { event } => vec![event],
            Self::Order { events, .. } => events.iter().collect(),
        }
    }
}

impl Event {
    fn of(text: &str) -> Option<Self> {
        let mut text = bare(text);
        if let Some(rest) = after_start(text, &LEADS) {
            text = bare(rest);
        }
        let says_something = text.chars().filter(|c| c.is_alphanumeric()).count() > 1
            || text.chars().any(char::is_uppercase) && text != "I";
        says_something.then(|| Self { text: text.to_owned(), ..Self::default() })
    }
}

fn length(question: &str) -> Option<Reckoning> {
    let (start, unit) = LENGTHS
        .iter()
        .find_map(|&(words, unit)| split(question, words).map(|(_, rest)| (rest, unit)))?;
    let between = |from: &str, until: &str| {
        Some(Reckoning::Between { from: Event::of(from)?, until: Event::of(until)?, unit })
    };
    let since = |event: &str| Some(Reckoning::Since { event: Event::of(event)?, unit });
    let without_verb = |text| after_start(text, &AUXILIARIES);
    if let Some((_, events)) = split(start, "between") {
        let (from, until) = two_events(events)?;
        return between(from, until);
    }
    if let Some(event) = after_start(start, &["ago"]).and_then(without_verb) {
        return match split_any(event, &["when i", "when we", "when my"]) {
            // The text after "when" keeps its subject.
            Some((event, _)) => between(event, split(start, "when")?.1),
            None => since(event),
        };
    }
    if let Some((passing, event)) = split(start, "since") {
        if !PASSING.contains(&passing.to_ascii_lowercase().as_str()) {
            return None;
        }
        return match split_any(event, &["when", "before", "until"]) {
            Some((from, until)) => between(from, until),
            None => since(event),
        };
    }
    for (word, is_before) in [("before", true), ("after", false)] {
        if let Some(both) = after_start(start, &[word]) {
            let (one, other) = split_any(both, &AUXILIARIES)?;
            let (from, until) = if is_before { (other, one) } else { (one, other) };
            return between(from, until);
        }
    }
    if let Some(taken) = after_start(start, &["did it take", "had it taken"]) {
        let (until, from) = split(taken, "after")?;
        return between(from, until);
    }
    let done = after_start(start, &["had i been", "have i been", "did i"])?;
    let until = split(done, "when").or_else(|| {
        split(done, "before").filter(|(_, until)| {
            after_start(start, &["did i"]).is_some() && holds_any(until, &["i", "my"])
        })
    });
    let (from, until) = until?;
    let from = Event { begins: true, ..Event::of(from)? };
    Some(Reckoning::Between { from, until: Event::of(until)?, unit })
}

/// Splits "A and B" into two events. If there are several "and", prefers one before a word that
/// begins an event, and of these the one that splits most evenly.
fn two_events(text: &str) -> Option<(&str, &str)> {
    const BEGINNINGS: [&str; 10] =
        ["the day", "when", "the", "my", "i", "a", "an", "our", "his", "her"];
    let lower = text.to_ascii_lowercase();
    let cuts: Vec<(&str, &str)> = lower
        .match_indices(" and ")
        .map(|(place, cut)| (&text[..place], &text[place + cut.len()..]))
        .collect();
    let uneven = |(a, b): &(&str, &str)| a.len().abs_diff(b.len());
    let begins = |place: usize, (_, until): &(&str, &str)| {
        after_start(until, &BEGINNINGS[..place]).is_some() || until.starts_with(['\'', '"', '“'])
    };
    let of_kind = |place: usize| {
        cuts.iter().filter(|cut| begins(place, cut)).min_by_key(|cut| uneven(cut)).copied()
    };
    of_kind(2)
        .or_else(|| of_kind(10))
        .or_else(|| cuts.iter().min_by_key(|cut| uneven(cut)).copied())
}

fn order(question: &str) -> Option<Reckoning> {
    let ordered = |list: &str, word: &str, context: &str, rank| {
        let events: Option<Vec<Event>> = items(list, word).into_iter().map(Event::of).collect();
        let events = events.filter(|events| (2..=MAX_EVENTS).contains(&events.len()))?;
        let with_context = |event| Event { context: context.to_owned(), ..event };
        let events = events.into_iter().map(with_context).collect();
        Some(Reckoning::Order { events, rank })
    };
    if let Some((_, list)) =
        split_any(question, &["the order of", "in what order", "in which order"])
    {
        let list = list.split_once(':').map_or(list, |(_, list)| list);
        // "of the plays and operas that I saw" names kinds, not events.
        let is_kind = |event: &&str| {
            after_start(event, &["the", "my", "our", "a", "an", "i", "when"]).is_none()
                && !event.starts_with(char::is_uppercase)
        };
        let is_list = !items(list, "and").iter().any(is_kind);
        return is_list.then(|| ordered(list, "and", "", Rank::All))?;
    }
    let ranks = [("first", Rank::First), ("most recently", Rank::Last), ("last", Rank::Last)];
    let among = split(question, "first")
        .and_then(|(before, after)| Some((before, split(after, "among")?.1, Rank::First)));
    let (before, after, rank) = among.or_else(|| {
        ranks.iter().find_map(|&(word, rank)| {
            let (before, after) = split(question, word)?;
            // The alternatives follow the word: ", A or B".
            Some((before, after.strip_prefix([',', ':', '-'])?, rank))
        })
    })?;
    let is_choice = holds_any(before, &["which", "what", "who", "did"]);
    let word = if holds_any(question, &["among"]) { "and" } else { "or" };
    let context = split_any(before, &["did i", "did we", "did"]).map_or("", |(_, verb)| verb);
    is_choice.then(|| ordered(after, word, context, rank))?
}

fn when(question: &str) -> Option<Reckoning> {
    const WORDS: [&str; 8] = [
        "when did",
        "on what date did",
        "on which date did",
        "what date did",
        "which date did",
        "what day did",
        "on which day did",
        "on what day did",
    ];
    const DATES: [&str; 4] =
        ["the date on which", "the date when", "the date that", "the day on which"];
    let is_last = |(before, after): (&'_ str, &'_ str)| {
        // Excludes "how old was I when did".
        (before.is_empty() || before.ends_with(['.', ',', '!', '?', ':'])).then(|| after.to_owned())
    };
    let event = split_any(question, &WORDS).and_then(is_last).or_else(|| {
        let (before, after) = split_any(question, &DATES)?;
        holds_any(before, &["what was", "what is"]).then(|| after.to_owned())
    })?;
    Some(Reckoning::When { event: Event::of(&event)? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(question: &str) -> String {
        let Some(asked) = Reckoning::of(question) else { return "-".to_owned() };
        let events: Vec<&str> = asked.events().iter().map(|event| &*event.text).collect();
        let kind = match asked {
            Reckoning::Between { unit, .. } => format!("{unit:?} between"),
            Reckoning::Since { unit, .. } => format!("{unit:?} since"),
            Reckoning::Order { rank, .. } => format!("{rank:?}"),
            Reckoning::When { .. } => "When".to_owned(),
        };
        format!("{kind}: {}", events.join(" | "))
    }

    #[test]
    fn questions_are_taken_apart() {
        for (question, expected) in [
            (
                "How many days passed between the day I sold the harp and the day I bought bread and a lute?",
                "Days between: I sold the harp | I bought bread and a lute",
            ),
            (
                "How much time was there between my birthday and the feast?",
                "Any between: my birthday | the feast",
            ),
            ("How many weeks ago did I see Ada?", "Weeks since: I see Ada"),
            (
                "How many days ago did I buy a hive when my bees swarmed?",
                "Days between: I buy a hive | my bees swarmed",
            ),
            ("How long has it been since I moved?", "Any since: I moved"),
            (
                "How many days had passed since I sowed the peas when I saw the first pod?",
                "Days between: I sowed the peas | I saw the first pod",
            ),
            (
                "How many days before the feast did I order the cake?",
                "Days between: I order the cake | the feast",
            ),
            (
                "How many days after the feast did I fall ill?",
                "Days between: the feast | I fall ill",
            ),
            (
                "How many weeks did it take me to find a house after meeting Rolf?",
                "Weeks between: meeting Rolf | find a house",
            ),
            (
                "How long had I been keeping bees when I won the prize?",
                "Any between: keeping bees | I won the prize",
            ),
            (
                "Which did I plant first, the quince or the medlar?",
                "First: the quince | the medlar",
            ),
            ("Who moved first among Ann, Bob and Cid?", "First: Ann | Bob | Cid"),
            ("What did I use most recently, a tram or a bus?", "Last: a tram | a bus"),
            (
                "What is the order of the three events: 'I left', 'I wept', and 'I slept'?",
                "All: I left | I wept | I slept",
            ),
            (
                "What is the order of the move, the feast and the trial?",
                "All: the move | the feast | the trial",
            ),
            ("When did I sell the harp?", "When: I sell the harp"),
            ("What was the date on which I sold the harp?", "When: I sold the harp"),
            ("How many days did I spend in Rome?", "-"),
            ("How long have I kept bees since the war?", "-"),
            ("How many harps did I buy before Easter?", "-"),
            ("Which harp did I buy first?", "-"),
            ("What was my first harp, and who made it?", "-"),
            ("What is the order of the six museums I visited?", "-"),
            ("What is the order of the plays and operas that I saw?", "-"),
            (
                "Who was born first, second and third among Ann, Bob and Cid?",
                "First: Ann | Bob | Cid",
            ),
            ("How old was I when I married?", "-"),
            ("How long is my commute?", "-"),
        ] {
            assert_eq!(parsed(question), expected, "{question}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_taken_apart_or_not(text in "(how many |days |weeks |ago |did |I |between |and |since |first|, |or |when |before |the order of |: |'|é|[a-z]{1,4} ){0,24}|\\PC{0,60}") {
            if let Some(asked) = Reckoning::of(&text) {
                prop_assert!((1..=MAX_EVENTS).contains(&asked.events().len()));
            }
        }
    }
}

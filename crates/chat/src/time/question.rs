//! Selection of the time that a question asks about.

use clew_core::TimeRange;
use jiff::civil::DateTime;

use super::calendar::{Unit, Which};
use super::grammar::Found;
use super::kind::Kind;
use super::word::{self, Gap, Word};
use super::{Moment, found};

/// Returns the range of time in which the subject of a question happened. Returns `None` if the
/// question names none. The range consists of whole days, because something that happened this
/// morning may have been said at night.
///
/// Many events are mentioned days after they happened. Filter by this range only if the data have
/// the times of their events. By the time at which something was said, only rank, with
/// [`super::closeness`].
///
/// A missing range costs a search over everything, and a wrong one costs the answer (appendix E.4).
/// There is no range
///
/// - if a time is asked for and none is given ("When did I …", "How many days ago …");
/// - for the distance of two events ("How many weeks passed between …", "How many days before …"),
///   because a time may belong to only one of them; for how long something had been so; for how old
///   someone was;
/// - for habits ("What time do I usually get up on Monday?"), except for absolute times;
/// - for the future: plans for next month were made before it. A time that begins later is ignored
///   and, if the question asks for plans or advice ("any tips for this weekend?"), every time that
///   is not over.
///
/// If some of several times name their year, only these count, because "last Friday" beside "on 23
/// January 2022" may be relative to it. The result is the part that all times have in common, or
/// else the range over all of them. A time in a clause bounds as the clause does: "since I began
/// two weeks ago".
///
/// ```
/// use clew_chat::time::{Moment, asked_about};
///
/// let asked_at = Moment::try_new("2023-05-24T18:00:00Z".parse()?, 0)?;
/// let range =
///     asked_about("Which cake did I bake last weekend?", asked_at).expect("it names a time");
/// assert_eq!(range.from, Some("2023-05-20".parse()?));
/// assert_eq!(range.until, Some("2023-05-22".parse()?));
/// assert_eq!(asked_about("Which cake did I bake first?", asked_at), None);
/// # Ok::<(), clew_core::Error>(())
/// ```
pub fn asked_about(question: &str, asked_at: Moment) -> Option<TimeRange> {
    let words = word::words(question);
    let asks = Asks::of(&words);
    let now = asked_at.local;
    let found = found(question, &words, asked_at, Which::Latest);
    let is_range = found.iter().any(|(at, _)| words[*at].lower == "between");
    if asks.for_distance && !is_range {
        return None;
    }
    let mut times: Vec<Found> = found
        .into_iter()
        .filter(|(_, time)| !(asks.of_habit && time.kind == Kind::Recurring))
        .filter(|(at, _)| !is_attribute(&words, *at))
        .filter_map(|(at, time)| whole_days(bounded_by_clause(&words, at, time)))
        .filter(|time| time.from.is_none_or(|from| from <= now))
        .filter(|time| !asks.of_plans || time.kind == Kind::Absolute || is_over(time, now))
        .collect();
    if times.iter().any(|time| time.kind == Kind::Absolute) {
        times.retain(|time| time.kind == Kind::Absolute);
    }
    let mut range = combined(&times)?;
    // The case of "a few months ago compared to now".
    if asks.of_now && range.kind != Kind::Absolute {
        range.until = None;
    }
    // "So far", "by 2030": everything that is remembered lies before that.
    let says_nothing = range.from.is_none() && !is_over(&range, now);
    (!says_nothing).then(|| asked_at.range(&range))?
}

fn is_over(time: &Found, now: DateTime) -> bool {
    time.until.is_some_and(|until| until <= now)
}

/// Properties of the answer that a question asks for.
struct Asks {
    /// The time between two events, or how long something had lasted.
    for_distance: bool,
    of_habit: bool,
    of_plans: bool,
    of_now: bool,
}

impl Asks {
    fn of(words: &[Word]) -> Self {
        let has =
            |choices: &[&str]| words.iter().any(|word| choices.contains(&word.lower.as_str()));
        let follows = |first: &str, second: &[&str]| {
            let pair =
                |pair: &[Word]| pair[0].lower == first && second.contains(&pair[1].lower.as_str());
            words.windows(2).any(pair)
        };
        let unit_at = words.windows(3).position(|three| {
            three[0].lower == "how"
                && matches!(three[1].lower.as_str(), "many" | "much")
                && (three[2].lower == "time" || word::unit(&three[2].lower).is_some())
        });
        let is_counted_from = |unit: usize| {
            let after = words.get(unit + 3).map_or("", |word| word.lower.as_str());
            matches!(after, "before" | "after" | "since" | "until" | "from" | "apart")
        };
        let has_two_ends = has(&["between", "passed", "elapsed", "pass"]);
        let how_long = words.windows(3).any(|three| {
            three[0].lower == "how"
                && three[1].lower == "long"
                && matches!(three[2].lower.as_str(), "have" | "has" | "had" | "ago")
        });
        let is_past = has(&["did", "was", "were", "had", "has", "have"]);
        Self {
            for_distance: unit_at.is_some_and(|unit| has_two_ends || is_counted_from(unit))
                || how_long
                || follows("how", &["old"]),
            of_habit: !is_past && has(&["do", "does"])
                || has(&["usually", "typically", "normally", "often", "always", "every"]),
            of_plans: has(&PLANS) || follows("going", &["to"]),
            of_now: has(&["now", "currently", "nowadays", "current"]),
        }
    }
}

const PLANS: [&str; 20] = [
    "advice",
    "ideas",
    "plan",
    "planned",
    "planning",
    "plans",
    "recommend",
    "recommendation",
    "recommendations",
    "schedule",
    "shall",
    "should",
    "suggest",
    "suggestion",
    "suggestions",
    "thinking",
    "tips",
    "upcoming",
    "will",
    "would",
];

/// Returns whether a time describes something else: "the rent for last month" was not paid in that
/// month.
fn is_attribute(words: &[Word], at: usize) -> bool {
    let is_for = at > 0 && words[at - 1].lower == "for" && words[at].gap == Gap::Space;
    is_for
        && matches!(
            words[at].lower.as_str(),
            "last" | "this" | "next" | "yesterday" | "today" | "tomorrow" | "tonight"
        )
}

/// Number of words that may stand between "since" and a time, not counting its preposition. A
/// single word names an hour: "after work on Monday".
const CLAUSE_WORDS: std::ops::RangeInclusive<usize> = 2..=12;

/// Applies the bound of a clause: "since I began three weeks ago" bounds the question as "since
/// three weeks ago" does. The time itself stays in the range: "before the concert in May" may still
/// be in May.
fn bounded_by_clause(words: &[Word], at: usize, time: Found) -> Found {
    let is_placed = at > 0 && matches!(words[at - 1].lower.as_str(), "in" | "on" | "at");
    let end = at - usize::from(is_placed);
    for begin in (end.saturating_sub(CLAUSE_WORDS.end() + 1)..end).rev() {
        let is_clause = CLAUSE_WORDS.contains(&(end - begin - 1));
        match words[begin].lower.as_str() {
            "since" | "after" if is_clause => return Found { until: None, ..time },
            "before" | "until" | "till" if is_clause => return Found { from: None, ..time },
            _ => {}
        }
        if !matches!(words[begin].gap, Gap::Space | Gap::Hyphen) {
            break;
        }
    }
    time
}

fn whole_days(time: Found) -> Option<Found> {
    let from = time.from.map(|from| from.date().at(0, 0, 0, 0));
    let until = match time.until {
        Some(until) => {
            let day = Unit::Day.around(until)?;
            Some(if day.from == until { until } else { day.until })
        }
        None => None,
    };
    Some(Found { from, until, ..time })
}

/// Returns what all times have in common, or else the range from the first to the last.
fn combined(times: &[Found]) -> Option<Found> {
    let (first, rest) = times.split_first()?;
    let (mut common, mut over_all) = (*first, *first);
    for time in rest {
        common.from = common.from.max(time.from);
        common.until = [common.until, time.until].into_iter().flatten().min();
        over_all.from = over_all.from.zip(time.from).map(|(one, other)| one.min(other));
        over_all.until = over_all.until.zip(time.until).map(|(one, other)| one.max(other));
    }
    let is_common = common.from.zip(common.until).is_none_or(|(from, until)| from < until);
    Some(if is_common { common } else { over_all })
}

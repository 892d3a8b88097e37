//! Events: sentences of a turn with the time at which they happened.

use clew_core::{SpeakerRole, TimeRange, Timestamp, Turn};
use clew_text::sentences;
use jiff::tz::TimeZone;

use crate::fact::reported;
use crate::time::{Moment, mentions};

/// Returns the sentences of a turn that mention a time, in order, each once and preceded by the
/// dates that are meant: `[2 May 2023] I went to the museum last Tuesday.` They replace
/// LongMemEval's timestamped events (section 5.4 and figure 12) without a language model.
///
/// Dates are relative to the turn's time, in UTC. A turn without a time has no events, and neither
/// has an assistant's turn. One of several people is called by name, as in [`crate::facts`].
/// Expressions that [`crate::time`] does not understand are missed, and every sentence with a time
/// counts as an event, whatever it says about it.
pub fn events(turn: &Turn) -> Vec<String> {
    let at = turn.time.filter(|_| turn.role != SpeakerRole::Assistant);
    let Some(at) = at.and_then(|time| Moment::try_new(time, 0).ok()) else {
        return Vec::new();
    };
    let times = mentions(&turn.text, at);
    let mut events: Vec<String> = Vec::new();
    for span in sentences(&turn.text) {
        let is_here = |start: usize| span.start <= start && start < span.end;
        let mut dates: Vec<String> = Vec::new();
        for time in times.iter().filter(|time| is_here(time.span.start)) {
            dates.extend(dates_of(time.range).filter(|date| !dates.contains(date)));
        }
        let sentence = span.of(&turn.text).unwrap_or_default().trim();
        if dates.is_empty() || sentence.is_empty() {
            continue;
        }
        let event =
            format!("[{}] {}", dates.join(", "), reported(turn.role, &turn.speaker, sentence));
        if !events.contains(&event) {
            events.push(event);
        }
    }
    events
}

/// Formats the days of a range: one day, the first and the last, or the one that bounds it.
fn dates_of(range: TimeRange) -> Option<String> {
    let last = |until: Timestamp| day(Timestamp::from_micros(until.as_micros().saturating_sub(1)));
    match (range.from, range.until) {
        (Some(from), Some(until)) => {
            let (first, last) = (day(from)?, last(until)?);
            Some(if first == last { first } else { format!("{first} to {last}") })
        }
        (Some(from), None) => Some(format!("since {}", day(from)?)),
        (None, Some(until)) => Some(format!("until {}", last(until)?)),
        (None, None) => None,
    }
}

/// Formats a day in UTC, such as `8 May 2023`. Returns `None` outside the calendar.
pub(crate) fn day(time: Timestamp) -> Option<String> {
    let time = jiff::Timestamp::from_microsecond(time.as_micros()).ok()?;
    Some(time.to_zoned(TimeZone::UTC).strftime("%-d %B %Y").to_string())
}

#[cfg(test)]
mod tests {
    use clew_core::{Attributes, TurnId};
    use clew_text::one_line;
    use proptest::prelude::*;

    use super::*;

    /// Returns the events of a turn on Monday, 8 May 2023.
    fn events_of(role: SpeakerRole, text: &str) -> Vec<String> {
        events(&turn(role, text))
    }

    fn turn(role: SpeakerRole, text: &str) -> Turn {
        Turn {
            id: TurnId { session: "s".parse().unwrap(), number: 1 },
            speaker: "Ada".to_owned(),
            role,
            text: text.to_owned(),
            time: "2023-05-08T13:56:00Z".parse().ok(),
            attributes: Attributes::new(),
        }
    }

    #[test]
    fn events_are_sentences_with_the_dates_that_they_mean() {
        for (said, expected) in [
            ("I saw it yesterday.\nIt was big.", "[7 May 2023] I saw it yesterday."),
            (
                "Nice! I moved here in March 2021.",
                "[1 March 2021 to 31 March 2021] I moved here in March 2021.",
            ),
            (
                "I have kept bees since 3 May 2020.",
                "[since 3 May 2020] I have kept bees since 3 May 2020.",
            ),
            (
                "I came on 3 May 2020 and left on 9 May 2020.",
                "[3 May 2020, 9 May 2020] I came on 3 May 2020 and left on 9 May 2020.",
            ),
        ] {
            assert_eq!(events_of(SpeakerRole::User, said), [expected]);
        }
    }

    #[test]
    fn one_of_several_people_is_called_by_name() {
        let said = "I went there yesterday. I went there yesterday.";
        assert_eq!(events_of(SpeakerRole::Other, said), ["[7 May 2023] Ada went there yesterday."]);
    }

    #[test]
    fn without_a_time_and_of_an_assistant_there_are_none() {
        let said = "I saw it yesterday.";
        assert!(events_of(SpeakerRole::Assistant, said).is_empty());
        assert!(events(&Turn { time: None, ..turn(SpeakerRole::User, said) }).is_empty());
        assert!(events_of(SpeakerRole::User, "I keep bees.").is_empty());
    }

    proptest! {
        #[test]
        fn a_users_events_are_sentences_of_the_text_after_dates(
            text in "([a-zé.!?\n ]|yesterday |in May |3 May 2020 ){0,40}|\\PC{0,80}"
        ) {
            let said = one_line(&text);
            for event in events_of(SpeakerRole::User, &text) {
                let (dates, sentence) = event.split_once("] ").unwrap();
                prop_assert!(said.contains(sentence) && !sentence.is_empty());
                prop_assert!(dates.starts_with('[') && dates.len() > 1);
            }
        }
    }
}
